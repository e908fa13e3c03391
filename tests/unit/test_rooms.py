"""The rooms inside the floors: how full they are, in which order, and how they are named."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent.parent
PACKAGES = {"gpumon": ROOT / "gpumon", "gpumon_detectors": ROOT / "detectors/gpumon_detectors"}
MOST_MODULES = 15
"""Of one folder; beyond that nobody finds a thing by looking."""
MOST_WITH_ONE_PREFIX = 2
"""Three modules of a folder whose names begin with the same word are a package not yet made."""
SHORTEST_ALONE = 80
"""Lines of a module that only one neighbour imports, below which it goes back into that."""
LEAST_WITH_ENTRANCE = 5
"""Modules and rooms of a package from which on nobody knows which to read first."""
ONE_EACH = {
    *("gpumon.cli.commands", "gpumon.report.pages", "gpumon.report.tables"),
    *("gpumon.tui.screens.lists", "gpumon.tui.screens.pages", "gpumon.tui.textual_private"),
}
"""Packages with a module for each thing of a kind: one goes where the thing is named."""


class Use(NamedTuple):
    """An import of one module of gpumon by another."""

    module: str
    is_deferred: bool
    """It stands in a function: what is imported is not needed at the start."""


@lru_cache(maxsize=1)
def modules() -> Mapping[str, Path]:
    """Every module by its dotted name, packages among them by their own."""
    found = {}
    for name, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
        assert name in found
    return found


def plain_modules() -> dict[str, Path]:
    """Those that are no packages, and no entrance of Python's own."""
    return {
        name: file
        for name, file in modules().items()
        if file.name not in ("__init__.py", "__main__.py")
    }


def imported(node: ast.AST, *, is_deferred: bool = False) -> Iterator[Use]:
    """What the code below a node imports of gpumon, for types alone included."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [name if name in modules() else str(node.module) for name in names]
    else:
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            yield from imported(child, is_deferred=is_deferred or inside)
        return
    for name in names:
        if name in modules():
            yield Use(name, is_deferred)


@lru_cache(maxsize=1)
def uses() -> Mapping[str, tuple[Use, ...]]:
    return {
        name: tuple(use for use in imported(ast.parse(file.read_text())) if use.module != name)
        for name, file in modules().items()
    }


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring; none where every import points one way."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_circle_is_found() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    ("code", "is_deferred"),
    [
        ("import gpumon.model.text", False),
        ("def f():\n    from gpumon.model import text", True),
        ("if TYPE_CHECKING:\n    from gpumon.model.text import plain", False),
    ],
)
def test_an_import_of_any_kind_is_seen(code: str, is_deferred: bool) -> None:
    assert list(imported(ast.parse(code))) == [Use("gpumon.model.text", is_deferred)]


def test_nothing_is_imported_in_a_circle() -> None:
    """Neither at the start, nor later, nor for types."""
    assert circle({name: {use.module for use in found} for name, found in uses().items()}) == []


def test_no_folder_is_full() -> None:
    counts = Counter(file.parent for file in plain_modules().values())
    full = {str(folder.relative_to(ROOT)): n for folder, n in counts.items() if n > MOST_MODULES}
    assert full == {}


def test_no_three_neighbours_begin_with_one_word() -> None:
    families: Counter[tuple[Path, str]] = Counter()
    for file in plain_modules().values():
        first, _, rest = file.stem.partition("_")
        if rest:
            families[file.parent, first] += 1
    found = [
        f"{folder.relative_to(ROOT)}/{first}_*"
        for (folder, first), count in families.items()
        if count > MOST_WITH_ONE_PREFIX
    ]
    assert found == []


def shortcomings(name: str, docstring: str, inside: set[str]) -> Iterator[str]:
    """What a package's docstring lacks: what it owns, what it sees, where to begin.

    Args:
        name: Dotted name of the package.
        docstring: Empty where it has none.
        inside: Names of its modules and rooms.
    """
    count = len(docstring.splitlines())
    if not 2 <= count <= 5:
        yield f"{name}: has {count} lines, not two to five"
    marked = {word.partition(".")[0] for word in re.findall(r"`([^`]+)`", docstring)}
    if len(inside) >= LEAST_WITH_ENTRANCE and name not in ONE_EACH and not marked & inside:
        yield f"{name}: names no module to begin with"


def test_every_package_says_what_it_owns_and_where_to_begin() -> None:
    found = []
    for name, file in modules().items():
        if file.name == "__init__.py":
            inside = {n.rpartition(".")[2] for n in modules() if n.rpartition(".")[0] == name}
            said = ast.get_docstring(ast.parse(file.read_text())) or ""
            found += shortcomings(name, said, inside)
    assert found == []


@pytest.mark.parametrize(
    ("docstring", "lacks"),
    [
        ("", ["gpumon.a: has 0 lines, not two to five", "gpumon.a: names no module to begin with"]),
        ("It owns b.\n\nSees c. `b` is the entrance.", []),
        ("It owns b.\n\nSees c. `d` is not here.", ["gpumon.a: names no module to begin with"]),
    ],
)
def test_what_a_package_does_not_say_is_found(docstring: str, lacks: list[str]) -> None:
    assert list(shortcomings("gpumon.a", docstring, set("bcefg"))) == lacks


def test_a_short_module_with_one_neighbour_as_user_is_part_of_that() -> None:
    """What is imported in a function stays apart: it is not needed at the start."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    deferred: defaultdict[str, set[str]] = defaultdict(set)
    for user, found in uses().items():
        for use in found:
            (deferred if use.is_deferred else users)[use.module].add(user)
    short = {
        name: next(iter(users[name]))
        for name, file in plain_modules().items()
        if len(file.read_text().splitlines()) < SHORTEST_ALONE
        and len(users[name]) == 1
        and not deferred[name]
    }
    assert {
        name: user
        for name, user in short.items()
        if user.rpartition(".")[0] == name.rpartition(".")[0]
    } == {}


def test_two_words_tell_every_module() -> None:
    last_two = Counter(".".join(name.split(".")[-2:]) for name in plain_modules())
    assert [name for name, count in last_two.items() if count > 1] == []


def layers() -> dict[str, set[str]]:
    """Which rooms stand in an order, by the package that holds them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, set[str]] = defaultdict(set)
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        assert contract.get("exhaustive", False) or "containers" not in contract
        names = [n.strip(" ()") for layer in contract["layers"] for n in layer.split("|")]
        for container in contract.get("containers", [""]):
            found[container] |= set(names)
    return found


def test_the_rooms_of_every_floor_stand_in_an_order() -> None:
    """Import-linter holds them to it: `make lint`, and `test_the_floors_keep_their_order`."""
    ordered = layers()
    lacking = {}
    for name, file in modules().items():
        if file.name != "__init__.py" or (name in PACKAGES and name == "gpumon"):
            continue
        rooms = {
            inner.rpartition(".")[2]
            for inner in modules()
            if inner.rpartition(".")[0] == name and modules()[inner].name == "__init__.py"
        }
        if rooms and not rooms <= ordered.get(name, set()):
            lacking[name] = sorted(rooms - ordered.get(name, set()))
    assert lacking == {}
