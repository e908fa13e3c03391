"""What a row is about, for commands and for copying."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

GPUMON = Path(__file__).parents[4] / "gpumon"
FLEET_VIEWS = {"FleetView", "PaneView"}


def rows_of_views() -> dict[str, str]:
    """The kind of row of each view of the fleet."""
    found = {}
    for file in sorted((GPUMON / "tui/screens/lists").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                if isinstance(base, ast.Subscript) and ast.unparse(base.value) in FLEET_VIEWS:
                    found[node.name] = ast.literal_eval(base.slice)
    return found


def known_rows() -> set[str]:
    tree = ast.parse((GPUMON / "report/lists/subjects.py").read_text(encoding="utf-8"))
    return {ast.unparse(one.cls) for one in ast.walk(tree) if isinstance(one, ast.MatchClass)}


@pytest.mark.parametrize(("view", "row"), rows_of_views().items())
def test_what_a_row_of_the_fleet_is_about_is_known(view: str, row: str) -> None:
    assert row in known_rows(), f"{view}: of_row in report/lists/subjects.py has no case for {row}"


def test_the_views_of_the_fleet_are_found() -> None:
    assert len(rows_of_views()) >= 8
