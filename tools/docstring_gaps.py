"""What the docstrings of public functions leave out although the code shows that it matters.

    python -m tools.docstring_gaps    name each gap, exit 1 if there is one

A public number of a module says below itself what it is, in which unit, and why it is so large. No
docstring only repeats the words of its name.
A function that raises says so, under `Raises:` or in its sentence. One that returns an array says
what stands along it: by GPU, per job, rows, each. Style checkers see that a docstring is there, not
what it is about.
"""

from __future__ import annotations

import ast
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = (ROOT / "gpumon", ROOT / "detectors" / "gpumon_detectors")

_ARRAY: Final = re.compile(r"\b(?:NDArray|Floats)\b")
_ALONG: Final = re.compile(
    r"\b(?:per|by|each|every|rows?|windows?|slices?|samples?|positions|columns?|along|axis|where)\b",
    re.IGNORECASE,
)
"""Words that say what an array has one value for."""

_FILLING: Final = re.compile(
    r"\b(?:an?|the|of|its?|is|are|as|for|to|in|on|by|at|and|or|that|this|one|with|from)\b",
    re.IGNORECASE,
)
"""Words that say nothing by themselves."""

_ENDINGS: Final = re.compile(r"(?<=\w{3})(?:ing|es|ed|s|e)$")
"""What is left off, so that `rows` and `row` are one word."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public(body: list[ast.stmt]) -> Iterator[Function]:
    """Functions and methods whose names, and whose classes' names, are public."""
    for part in body:
        if isinstance(part, ast.ClassDef | Function) and not part.name.startswith("_"):
            if isinstance(part, ast.ClassDef):
                yield from public(part.body)
            else:
                yield part


def raised(node: ast.AST) -> Iterator[str]:
    """Names of what is raised anew below a node, but not in functions within it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            made = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            yield ast.unparse(made).rpartition(".")[2]
        yield from raised(child)


def caught(node: ast.AST) -> set[str]:
    """Names of what is caught anywhere below a node."""
    return {
        name
        for child in ast.walk(node)
        if isinstance(child, ast.ExceptHandler) and child.type is not None
        for name in re.findall(r"\w+", ast.unparse(child.type))
    }


def gaps(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Name, line and what is left out, for each public function of a module."""
    for one in public(tree.body):
        doc = ast.get_docstring(one) or ""
        leaving = set(raised(one)) - caught(one) - {"NotImplementedError"}
        if leaving and doc and not re.search(r"\braises\b", doc, re.IGNORECASE):
            yield one.name, one.lineno, f"raises {', '.join(sorted(leaving))}"
        returned = ast.unparse(one.returns) if one.returns else ""
        if _ARRAY.search(returned) and doc and not _ALONG.search(doc):
            yield one.name, one.lineno, f"what stands along the {returned}"


def _stems(text: str) -> set[str]:
    """The words of a text or of a name, without endings."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text).lower()
    return {_ENDINGS.sub("", word) for word in re.findall(r"[a-z0-9]+", apart)}


def _documented(body: list[ast.stmt], within: str) -> Iterator[tuple[str, str, int, str]]:
    """Name, name of the class around it, line and docstring of all that has one."""
    for part, after in pairwise((*body, ast.Pass())):
        if isinstance(part, ast.ClassDef | Function):
            yield part.name, within, part.lineno, ast.get_docstring(part) or ""
            if isinstance(part, ast.ClassDef):
                yield from _documented(part.body, part.name)
        elif isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            target = part.target if isinstance(part, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and isinstance(after.value.value, str):
                yield target.id, within, part.lineno, after.value.value


def echoes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and line of each docstring that says no more than the name, and the class's, do."""
    for name, within, line, doc in _documented(tree.body, ""):
        stems = _stems(_FILLING.sub(" ", doc))
        if stems and stems <= _stems(name) | _stems(within) and not name.startswith("__"):
            yield name, line


def is_number(node: ast.AST) -> bool:
    """Whether a value is a number that is written out, or reckoned from one."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) or is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def bare_numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and line of each public number of a module without a docstring of its own."""
    for part, after in pairwise((*tree.body, ast.Pass())):
        target: ast.expr
        value: ast.expr | None
        if isinstance(part, ast.AnnAssign):
            target, value = part.target, part.value
        elif isinstance(part, ast.Assign) and len(part.targets) == 1:
            target, value = part.targets[0], part.value
        else:
            continue
        if not isinstance(target, ast.Name) or value is None or not is_number(value):
            continue
        is_documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if target.id.isupper() and not target.id.startswith("_") and not is_documented:
            yield target.id, part.lineno


def main() -> int:
    """1 where something is left out."""
    count = 0
    for folder in FOLDERS:
        for file in sorted(folder.rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            bare = ((name, line, "what it is, unit, reason") for name, line in bare_numbers(tree))
            echo = ((name, line, "more than its name does") for name, line in echoes(tree))
            for name, line, what in (*gaps(tree), *bare, *echo):
                print(f"{file.relative_to(ROOT)}:{line}: {name} does not say: {what}")
                count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
