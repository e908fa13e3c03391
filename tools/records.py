"""Calls that make a record with more positional arguments than a reader can tell apart.

    python -m tools.records           name each call with more than four, exit 1 if there is one
    python -m tools.records --mend    name their arguments in place; run `ruff format` afterwards

Two floats that change places are seen by no type checker, so long records are made by keyword.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = (ROOT / "gpumon", ROOT / "detectors" / "gpumon_detectors")
MOST_POSITIONAL: Final = 4
"""Arguments of a record without a name (rule of the house: four)."""

_NO_ARGUMENT: Final = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT})


class Call(NamedTuple):
    """A call that makes a record."""

    node: ast.Call
    record: str
    fields: tuple[str, ...]
    """In the order of the record; as many as the call has arguments, or more."""
    is_row: bool
    """It is part of a table at the top of its module, whose first arguments are columns."""


@cache
def modules() -> dict[str, Path]:
    """Every file of gpumon and of the built-in detectors by its dotted name."""
    found = {}
    for folder in FOLDERS:
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`, of `c[d]` and of `c(d)`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return getattr(node, "attr", getattr(node, "id", ""))


def fields_of(found: ast.ClassDef) -> tuple[str, ...] | None:
    """What a record's constructor takes by position; None of a class that is no record."""
    is_tuple = any(last_name(base) == "NamedTuple" for base in found.bases)
    is_dataclass = any(last_name(one) == "dataclass" for one in found.decorator_list)
    if not (is_tuple or is_dataclass):
        return None
    for part in found.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return tuple(argument.arg for argument in part.args.args[1:])
    return tuple(
        part.target.id
        for part in found.body
        if isinstance(part, ast.AnnAssign)
        and isinstance(part.target, ast.Name)
        and last_name(part.annotation) != "ClassVar"
        and "init=False" not in ast.unparse(part)
    )


def defined(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Fields of every record that a module defines."""
    return {
        node.name: fields
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (fields := fields_of(node)) is not None
    }


@cache
def records(module: str) -> dict[str, tuple[str, ...]]:
    """The same by the module's name; nothing of a module that is not gpumon's."""
    file = modules().get(module)
    return defined(_tree(file)) if file else {}


def in_reach(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Records by the name that this module calls them, imported ones among them."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            name = alias.asname or alias.name
            inner = f"{node.module}.{alias.name}"
            found |= {f"{name}.{record}": of for record, of in records(inner).items()}
            if alias.name in records(node.module):
                found[name] = records(node.module)[alias.name]
    return found | defined(tree)


def calls(tree: ast.Module) -> Iterator[Call]:
    """Calls that make a record with too many arguments by position."""
    reach = in_reach(tree)

    def below(node: ast.AST, around: str, *, is_row: bool) -> Iterator[Call]:
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        name = around if name == "cls" else name
        if isinstance(node, ast.Call) and name in reach and len(node.args) > MOST_POSITIONAL:
            yield Call(node, name, reach[name], is_row)
        if isinstance(node, ast.ClassDef):
            around = node.name
        inside = is_row and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            yield from below(child, around, is_row=inside)

    yield from below(tree, "", is_row=True)


def long_calls() -> dict[str, list[Call]]:
    """By the module that makes them; modules without any are left out."""
    found = {name: list(calls(_tree(file))) for name, file in modules().items()}
    return {name: of for name, of in found.items() if of}


def mended(text: str, found: Sequence[Call]) -> str:
    """The text with a name before each argument; a table's row keeps its first four without."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    edits: list[tuple[int, int, str]] = []
    for call in found:
        if any(isinstance(argument, ast.Starred) for argument in call.node.args):
            continue
        starts = _argument_starts(tokens, call.node, lines)
        for position, (row, column) in enumerate(starts):
            if position >= MOST_POSITIONAL or not call.is_row:
                edits.append((row, column, f"{call.fields[position]}="))
    for row, column, name in sorted(edits, reverse=True):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + name + line[column:]
    return "".join(lines)


def _argument_starts(
    tokens: Sequence[tokenize.TokenInfo], call: ast.Call, lines: Sequence[str]
) -> list[tuple[int, int]]:
    """Where each argument begins, brackets around it included: row and column of the text."""
    inside = _place(lines, call.func.end_lineno, call.func.end_col_offset)
    written = [token for token in tokens if token.type not in _NO_ARGUMENT]
    bracket = next(
        number for number, one in enumerate(written) if one.start >= inside and one.string == "("
    )
    starts = []
    for argument in call.args:
        begin = _place(lines, argument.lineno, argument.col_offset)
        at = next(number for number, one in enumerate(written) if one.start >= begin)
        while at - 1 > bracket and written[at - 1].string == "(":
            at -= 1
        starts.append(written[at].start)
    return starts


def _place(lines: Sequence[str], row: int | None, column: int | None) -> tuple[int, int]:
    """A place of the syntax tree, which counts bytes, in characters."""
    before = lines[(row or 1) - 1].encode()[: column or 0]
    return row or 1, len(before.decode())


def main(words: Sequence[str]) -> int:
    """1 where a call names too few of its arguments."""
    found, files = long_calls(), modules()
    for module, of in found.items():
        if "--mend" in words:
            text = files[module].read_text(encoding="utf-8")
            files[module].write_text(mended(text, of), encoding="utf-8")
        for call in of:
            print(f"{module}:{call.node.lineno}: {call.record} of {len(call.node.args)} arguments")
    return int(bool(found) and "--mend" not in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
