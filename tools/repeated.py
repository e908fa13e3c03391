"""Facts that two modules define: equal lists of words, and constants of one name and one value.

    python -m tools.repeated    name each, exit 1 if one has no reason in `repeated.toml`

The probe stands alone and repeats what it needs; detectors know gpumon through `gpumon.plugin`
alone, so each package is looked at by itself. Rows of `shared_numbers.toml` are held equal there.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools import shared_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent
LISTED: Final = ROOT / "tools" / "repeated.toml"
PACKAGES: Final = (ROOT / "gpumon", ROOT / "detectors" / "gpumon_detectors")
ALONE: Final = ROOT / "gpumon" / "probe"
LEAST_ITEMS: Final = 3
"""Shorter lists are alike by chance."""


def is_plain(node: ast.AST) -> bool:
    """Whether a value is written out in full, without a name in it."""
    if isinstance(node, ast.UnaryOp):
        return is_plain(node.operand)
    if isinstance(node, ast.BinOp):
        return is_plain(node.left) and is_plain(node.right)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(is_plain, node.elts))
    return isinstance(node, ast.Constant)


def literals(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Lists and sets of three words or more; one of numbers alone is no fact without its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            items = sorted(f"{ast.unparse(k)}: {ast.unparse(v)}" for k, v in pairs if k)
            is_whole = all(k and is_plain(k) for k in node.keys) and all(map(is_plain, node.values))
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            items = [ast.unparse(item) for item in node.elts]
            is_whole = is_plain(node)
        else:
            continue
        if isinstance(node, ast.Set):
            items.sort()
        if is_whole and len(items) >= LEAST_ITEMS and any("'" in item for item in items):
            yield tuple(items)


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Name, without what marks it as private, and value of each constant of a module."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and not target.id.startswith("__") and is_plain(node.value):
            yield target.id.lstrip("_"), ast.unparse(node.value)


def found_in(files: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """What stands in two modules and more, with their names; a constant as `NAME = value`."""
    places: dict[str, set[str]] = defaultdict(set)
    for name, tree in files.items():
        for items in literals(tree):
            places[", ".join(items)].add(name)
        for constant, value in constants(tree):
            places[f"{constant} = {value}"].add(name)
    return {what: names for what, names in places.items() if len(names) > 1}


def repeated() -> dict[str, set[str]]:
    """The same of both packages, without what `shared_numbers.toml` holds equal."""
    held = {
        constant.rpartition(":")[2].lstrip("_")
        for number in shared_numbers.listed()
        for constant in number.constants
    }
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        files = {
            str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8"))
            for file in sorted(package.rglob("*.py"))
            if ALONE not in file.parents
        }
        found |= found_in(files)
    return {what: names for what, names in found.items() if what.partition(" = ")[0] not in held}


def reasons() -> dict[str, str]:
    """Why a fact may stand in several modules, by the fact."""
    rows = tomllib.loads(LISTED.read_text(encoding="utf-8"))["repeated"]
    return {what: row["why"] for row in rows for what in row["what"]}


def unreasoned(found: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """Facts without a reason, and reasons for what is not repeated any more."""
    return sorted({*found} ^ {*known})


def main() -> int:
    """1 where the list and the code differ."""
    found = repeated()
    loose = unreasoned(found, reasons())
    for what in loose:
        print(f"{what}: {', '.join(sorted(found.get(what, {'stands once, strike it out'})))}")
    return int(bool(loose))


if __name__ == "__main__":
    sys.exit(main())
