"""Lists that code is held to: what is missing from one is refused with the name of the list."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
CHOSEN = {"shared_numbers"}
"""Lists that nothing has to be in: what is worth a row is chosen."""
LISTS = sorted({path.stem for path in TOOLS.glob("*.toml")} - CHOSEN)


@pytest.mark.parametrize("name", LISTS)
def test_what_is_in_no_list_is_refused_with_the_name_of_the_list(name: str) -> None:
    tree = ast.parse((Path(__file__).parent / f"test_{name}.py").read_text(encoding="utf-8"))
    said = [
        ast.unparse(node.msg)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.msg
    ]
    assert any(f"tools/{name}.toml" in message for message in said)
