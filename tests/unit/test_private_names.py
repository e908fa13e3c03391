"""Rule 9: what others keep private is touched in one package, or with a reason; own names never."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parent.parent.parent
ROOM = "gpumon/tui/textual_private/"
"""Where private names of textual and of the terminal are allowed."""

REASONS = {
    ("gpumon/__main__.py", "_signal"): "the module of C: signal itself takes 2 ms of every start",
    ("gpumon/cli/__init__.py", "_signal"): "the same",
    ("gpumon/cli/output.py", "_signal"): "the same",
    ("gpumon/cli/__init__.py", "_run_exitfuncs"): "os._exit leaves out what was registered, and "
    "nothing else calls it; test_signals holds that it is called",
    ("gpumon/cli/options.py", "_typeshed"): "for types only; it is there for type checkers alone",
    ("gpumon/cli/options.py", "_print_message"): "argparse writes help by nothing else; "
    "test_options holds what is written",
    ("gpumon/cli/about/command_tree.py", "_actions"): "argparse lists its options nowhere else; "
    "test_command_tree holds the list",
    ("gpumon/cli/about/command_tree.py", "_SubParsersAction"): "nor its commands",
    ("gpumon/detect/learning/fitting.py", "_baseline_prediction"): "scikit-learn tells its trees "
    "by nothing else; test_fitting compares what is read with what it predicts",
    ("gpumon/detect/learning/fitting.py", "_predictors"): "the same",
    ("gpumon/probe/driver/driver.py", "_nvmlGetFunctionPointer"): "calls that the binding lacks; "
    "without it they are unknown calls",
    ("gpumon/probe/driver/driver.py", "_nvmlCheckReturn"): "the same",
}
"""Private names of others outside that room, by module, and why there is no other way."""

PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_field_defaults", "_exit"}
"""Documented: those of named tuples only avoid the names of fields, and `os._exit` ends a fork."""


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore and goes on."""
    return name.startswith("_") and name.strip("_") != "" and not name.startswith("__")


def own_names(tree: ast.AST) -> Iterator[str]:
    """Whatever a module gives a meaning to: it is no other's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def used_names(tree: ast.AST) -> Iterator[str]:
    """Private names that a module takes of something else, by whatever way its text shows."""
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] != "gpumon":
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            *("getattr", "setattr", "hasattr", "delattr"),
        ):
            names = [
                str(one.value)
                for one in node.args[1:2]
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
        yield from (name for name in names if is_private(name) and name not in PUBLIC)


@cache
def trees() -> Mapping[str, ast.Module]:
    """Every module of gpumon and of the built-in detectors by its path."""
    files = [*(ROOT / "gpumon").rglob("*.py"), *(ROOT / "detectors").rglob("*.py")]
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in sorted(files)}


def foreign(found: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    """Module and private name, of all names that no module of its floor gives a meaning to."""
    own = defaultdict(set)
    for path, tree in found.items():
        own[floor(path)].update(own_names(tree))
    return {
        (path, name)
        for path, tree in found.items()
        for name in used_names(tree)
        if name not in own[floor(path)]
    }


def floor(path: str) -> str:
    """The folder below `gpumon` that a module lies in."""
    return "/".join(path.split("/")[:2])


def overridden(path: str) -> Iterator[tuple[str, str]]:
    """Private methods of others that a module's classes put their own in the place of."""
    module = importlib.import_module(
        path.removeprefix("detectors/").removesuffix(".py").replace("/", ".")
    )
    for one in vars(module).values():
        if not inspect.isclass(one) or one.__module__ != module.__name__:
            continue
        others = [base for base in one.__mro__[1:] if not base.__module__.startswith("gpumon")]
        theirs = {name for base in others for name in vars(base) if is_private(name)} - PUBLIC
        own = {name for name, value in vars(one).items() if inspect.isfunction(value)}
        yield from ((path, name) for name in own & theirs)


def with_classes_of_others() -> list[str]:
    """Modules of the terminal and of the command line, which build upon classes of others."""
    return [
        path
        for path in trees()
        if path.startswith(("gpumon/tui/", "gpumon/cli/")) and not path.endswith("__init__.py")
    ]


def test_private_names_of_others_stand_in_one_package_or_have_a_reason() -> None:
    found = foreign(trees()) | {
        one for path in with_classes_of_others() for one in overridden(path)
    }
    outside = {(path, name) for path, name in found if not path.startswith(ROOM)}
    assert outside - REASONS.keys() == set(), f"move it to {ROOM}, behind a test"
    assert REASONS.keys() - outside == set(), "nothing is there any more: strike it out"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a._b", {"_b"}),
        ("from a import _b", {"_b"}),
        ("a._b.c", {"_b"}),
        ("getattr(a, '_b', None)", {"_b"}),
        ("a._b = 1\nc._b", set()),
        ("a._replace(b=1); a.__dict__; _ = a", set()),
        ("from gpumon.a import _b", set()),
    ],
)
def test_a_private_name_of_others_is_found(code: str, names: set[str]) -> None:
    assert {name for _, name in foreign({"m": ast.parse(code)})} == names
