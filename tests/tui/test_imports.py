"""How the terminal's modules hang together: in one direction, and no more of them than needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
PAINT = """
import asyncio, sys
from gpumon.tui.terminal import GpumonApp

class Feed:
    failure = None
    def start(self, on_tick):
        print(*sorted(name for name in sys.modules if name.startswith("gpumon.tui.screens.")))
    def wish(self, wish): ...
    def close(self): ...

async def paint():
    async with GpumonApp(Feed()).run_test(size=(80, 24)) as pilot:
        await pilot.pause()

asyncio.run(paint())
"""
FIRST = {
    "base", "base.column_filter", "base.files", "base.fleet_view", "base.root_view",
    "base.table_view", "base.take_along", "base.time_screen", "base.view", "lists",
    "lists.jobs", "open",
}  # fmt: skip
"""Modules of screens without which the list of jobs cannot be painted."""


def modules(folder: Path) -> dict[str, ast.Module]:
    """The modules of a package by their names."""
    found = {}
    for file in folder.rglob("*.py"):
        parts = file.relative_to(folder.parent.parent).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = ast.parse(file.read_text())
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Names that are imported anywhere: on top, within functions, and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def circle(trees: dict[str, ast.Module]) -> list[str]:
    """Modules that import each other in a ring; none where every import points one way."""
    graph = {name: set(imported(tree)) & trees.keys() - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_the_terminal_s_modules_import_each_other_in_one_direction() -> None:
    trees = modules(ROOT / "gpumon" / "tui")
    assert len(trees) > 60
    assert circle(trees) == []


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "def f():\n    from p import a",
        "if TYPE_CHECKING:\n    from p.a import A",
    ],
)
def test_the_check_itself_finds_a_circle_of_any_kind(back: str) -> None:
    ring = {"p.a": ast.parse("from p.b import B"), "p.b": ast.parse(back), "p.c": ast.parse("")}
    assert set(circle(ring)) == {"p.a", "p.b"}


def test_the_first_picture_waits_for_no_screen_that_it_does_not_show() -> None:
    command = [sys.executable, "-c", PAINT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    names = {name.removeprefix("gpumon.tui.screens.") for name in done.stdout.split()}
    assert names == FIRST
