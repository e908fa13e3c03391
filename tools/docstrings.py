"""What people may use of the code, by its own docstrings: blocks of plugins.md and cli.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
OFFERED: Final = "gpumon/plugin/__init__.py"

_NEVER_BY_AUTHORS: Final = frozenset({"count", "index", "row", "rows"})


def class_attributes() -> str:
    """What the class of a detector declares."""
    return _lines("gpumon/detect/contract.py", "Detector", "")


def view() -> str:
    """What a detector sees of the fleet."""
    return _lines("gpumon/detect/view.py", "View", "view.")


def job() -> str:
    """What it sees of a job."""
    return _lines("gpumon/detect/view.py", "JobLook", "job.")


def gpu() -> str:
    """What it sees of a GPU."""
    return _lines("gpumon/detect/facts/facts.py", "GpuFacts", "gpu.")


def node() -> str:
    """What it sees of a node."""
    return _lines("gpumon/detect/facts/facts.py", "NodeFacts", "node.")


def scene() -> str:
    """How a test writes a past."""
    return _lines("gpumon/detect/scene.py", "Scene", "scene.")


def forecast() -> str:
    """The keys of a forecast of `gpumon doctor`."""
    return _lines("gpumon/cli/examined/forecast.py", "Forecast", "")


def offered() -> str:
    """Every name that `gpumon.plugin` has, with the first sentence about it."""
    lines = []
    for imported in _tree(OFFERED).body:
        if isinstance(imported, ast.ImportFrom) and imported.module:
            body = _tree(imported.module.replace(".", "/") + ".py").body
            docs = {name: doc for name, _, doc in _documented(body)}
            lines += [_line(one.name, _first(docs.get(one.name, ""))) for one in imported.names]
    return "".join(sorted(lines, key=str.lower))


def _first(doc: str) -> str:
    """The first sentence, without what stands in brackets."""
    return re.sub(r" \([^)]*\)", "", re.split(r"(?<=\.) ", doc)[0])


def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _lines(path: str, name: str, prefix: str) -> str:
    (found,) = (
        part for part in _tree(path).body if isinstance(part, ast.ClassDef) and part.name == name
    )
    return "".join(
        _line(f"{prefix}{key}{words}", doc)
        for key, words, doc in _documented(_members(found))
        if key not in _NEVER_BY_AUTHORS
    )


def _members(found: ast.ClassDef) -> list[ast.stmt]:
    """The body of a class, with what its `__init__` sets in the place of that."""
    body: list[ast.stmt] = []
    for part in found.body:
        is_start = isinstance(part, ast.FunctionDef) and part.name == "__init__"
        body += part.body if is_start and isinstance(part, ast.FunctionDef) else [part]
    return body


def _line(name: str, doc: str) -> str:
    return f"- `{name}`: {doc}\n" if doc else f"- `{name}`\n"


def _documented(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    """Name, parameters and first paragraph of all that is public and set, defined or declared."""
    for part, after in zip(body, [*body[1:], None], strict=True):
        doc = _text(after)
        if isinstance(part, ast.FunctionDef):
            name, words, doc = part.name, _words(part), ast.get_docstring(part) or ""
        elif isinstance(part, ast.ClassDef):
            name, words, doc = part.name, "", ast.get_docstring(part) or ""
        elif isinstance(part, ast.AnnAssign):
            name, words = ast.unparse(part.target).removeprefix("self."), ""
        elif isinstance(part, ast.Assign) and doc:
            name, words = ast.unparse(part.targets[0]).removeprefix("self."), ""
        else:
            continue
        if not name.startswith("_") and "." not in name:
            yield name, words, re.sub(r"\s+", " ", doc.partition("\n\n")[0])


def _text(after: ast.stmt | None) -> str:
    is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    return str(after.value.value) if is_text else ""  # type: ignore[union-attr]


def _words(function: ast.FunctionDef) -> str:
    """Parameters of a method without their types; nothing of a property or a function."""
    if any(ast.unparse(one) in {"property", "cached_property"} for one in function.decorator_list):
        return ""
    given = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    rest = [one.arg for one in function.args.kwonlyargs]
    named = [f"{one}=…" for one in rest[:2]] + ["…"] * (len(rest) > 2)
    more = [f"**{function.args.kwarg.arg}"] if function.args.kwarg else []
    stars = [f"*{function.args.vararg.arg}"] if function.args.vararg else []
    return f"({', '.join([*(one for one in given if one != 'self'), *stars, *named, *more])})"


PARTS: Final = (class_attributes, offered, view, job, gpu, node, scene)
"""Of docs/plugins.md; each fills the block of its name."""
