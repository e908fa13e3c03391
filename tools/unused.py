"""Names that gpumon defines and no part of it mentions: dead code, or a reason in `unused.toml`.

    python -m tools.unused    name what nothing mentions, exit 1 if there is anything

Tests do not count as a use: what only they call is dead, too.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
LISTED: Final = ROOT / "tools" / "unused.toml"
DEFINING: Final = ("gpumon", "detectors/gpumon_detectors")
USING: Final = (*DEFINING, "tools", "plugins")
NAME_CHARACTERS: Final = 80
"""A longer text is prose, in which any name may occur."""


class Defined(NamedTuple):
    """A name, and where it gets its meaning."""

    name: str
    place: str
    """Path of the module."""
    line: int


def files(folders: tuple[str, ...]) -> Iterator[Path]:
    """The Python files of these folders."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def defined(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a module defines: functions, methods, classes, constants and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        if isinstance(node, ast.Module | ast.ClassDef):
            for one in node.body:
                targets = one.targets if isinstance(one, ast.Assign) else []
                if isinstance(one, ast.AnnAssign):
                    targets = [one.target]
                yield from ((to.id, one.lineno) for to in targets if isinstance(to, ast.Name))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def mentioned(tree: ast.AST) -> Iterator[str]:
    """Names that a module reads, by any way that shows in its text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # As getattr, __slots__ and __all__ name things.
            yield from re.findall(r"\w+", node.value) if len(node.value) < NAME_CHARACTERS else ()


def unused() -> list[Defined]:
    """What no module mentions, in the order of the modules."""
    # Entry points, which name the built-in detectors, stand there.
    uses = set(re.findall(r"\w+", (ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files(USING)}
    uses |= {name for tree in trees.values() for name in mentioned(tree)}
    found: dict[tuple[str, str], Defined] = {}
    for file in files(DEFINING):
        place = file.relative_to(ROOT).as_posix()
        for name, line in defined(trees[file]):
            if name not in uses and not (name.startswith("__") and name.endswith("__")):
                found.setdefault((place, name), Defined(name, place, line))
    return list(found.values())


class Reason(NamedTuple):
    """Why some names are there although nothing of gpumon mentions them."""

    names: tuple[str, ...]
    """Patterns as a shell has them."""
    where: str
    """What the path of their module begins with."""
    why: str

    def holds(self, one: Defined) -> bool:
        """Whether this is one of them."""
        is_there = one.place.startswith(self.where)
        return is_there and any(fnmatchcase(one.name, name) for name in self.names)


def reasons() -> list[Reason]:
    """The list, in its order."""
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))["kept"]
    return [Reason(tuple(one["names"]), one["where"], one["why"]) for one in listed]


def main() -> int:
    """Exit code of the tool."""
    known = reasons()
    dead = [one for one in unused() if not any(reason.holds(one) for reason in known)]
    for one in dead:
        print(f"{one.place}:{one.line}: nothing mentions {one.name}")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
