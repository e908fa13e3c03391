"""The tree of all that gpumon raises itself, as the sources say it: for its page and its test.

The probe has exceptions of its own, because it stands alone on a node.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
ROOT_NAME: Final = "GpumonError"
PACKAGES: Final = ("gpumon", "detectors/gpumon_detectors")
APART: Final = "gpumon/probe/"
"""Runs on nodes without gpumon; what it raises never leaves it."""

HEAD: Final = """# Errors

Everything that gpumon raises itself, as one tree. `gpumon/base/errors.py` has the root and its
branches, `gpumon/cli/exits.py` the exit code of each branch. An error that no one handles ends the
command with this code and its message, one line. With `--exit-status` the code is 3 in place of 1
and 2, which are alarms there.
"""


class Raised(NamedTuple):
    """One class of errors."""

    name: str
    bases: tuple[str, ...]
    place: str
    """Path of its module."""
    summary: str
    """First line of its docstring."""


def raised() -> tuple[Raised, ...]:
    """Every class of errors that gpumon defines, in the order of their modules."""
    return tuple(one for package in PACKAGES for one in _in_package(ROOT / package))


def _in_package(package: Path) -> Iterator[Raised]:
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(ROOT).as_posix()
        if place.startswith(APART):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = tuple(ast.unparse(base).rpartition(".")[2] for base in node.bases)
                if any(base.endswith(("Error", "Exception")) for base in bases):
                    summary = (ast.get_docstring(node) or "").partition("\n")[0]
                    yield Raised(node.name, bases, place, summary)


def outside(found: tuple[Raised, ...]) -> list[str]:
    """Those that do not come from the one root."""
    known = {ROOT_NAME}
    while new := {one.name for one in found if known & set(one.bases)} - known:
        known |= new
    return [f"{one.place}: {one.name}" for one in found if one.name not in known]


def exceptions() -> str:
    """The tree as a table, with the exit code of a command that one of them ends."""
    from gpumon.base import errors
    from gpumon.cli.exits import ENDINGS

    found = raised()
    codes: dict[str, int] = {kind.__name__: code for kind, code in ENDINGS}
    lines = ["| error | exit code | what it says | where |", "|---|---|---|---|"]

    def add(one: Raised, depth: int, code: int) -> None:
        code = codes.get(one.name, code)
        indent = "&nbsp;&nbsp;" * 2 * depth
        where = f"`{one.place.removesuffix('.py').replace('/', '.')}`"
        lines.append(f"| {indent}`{one.name}` | {code} | {one.summary} | {where} |")
        for child in found:
            if one.name in child.bases and not child.name.startswith("_"):
                add(child, depth + 1, code)

    root = next(one for one in found if one.name == errors.GpumonError.__name__)
    add(root, 0, codes[ROOT_NAME])
    return f"{HEAD}\n" + "\n".join(lines)
