"""The rooms of the house, as their own first lines tell them: a block of docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
FLOORS: Final = (
    *("base", "probe", "model", "simulate", "sources", "fleet", "detect", "evaluation", "plugin"),
    *("report", "serve", "tui", "cli"),
)
"""Of the package gpumon, in the order in which they see each other; the probe sees none."""


def rooms() -> str:
    """Every package with what it owns, may see and begins with, and the names of its modules."""
    lines = []
    for folder in (*(ROOT / "gpumon" / floor for floor in FLOORS), ROOT / "detectors"):
        for room in _packages(folder):
            parts = room.relative_to(
                ROOT / "detectors" if room.is_relative_to(ROOT / "detectors") else ROOT
            )
            name = ".".join(parts.parts)
            doc = " ".join(
                (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "").split()
            )
            lines.append(f"- **`{name}`**: {doc}{_modules(room)}\n")
    return "".join(lines)


def _packages(folder: Path) -> Iterator[Path]:
    """The folder and those below it that are packages, in the order of their names."""
    if (folder / "__init__.py").exists():
        yield folder
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        yield from _packages(inner)


def _modules(room: Path) -> str:
    names = [file.stem for file in sorted(room.glob("*.py")) if not file.stem.startswith("__")]
    return " *Modules*: " + ", ".join(f"`{name}`" for name in names) + "." if names else ""
