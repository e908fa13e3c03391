"""The house rules that a machine can check: sizes, names, and the Python of the probe."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
MAX_LINES = 500
"""A file is as long as its idea; beyond this it says here why it is one."""
LONG = {
    "gpumon/model/catalogue/gpu.py": "one table, every field of a GPU in the order of the pages",
    "gpumon/report/document/forms.py": "made of the schema, a class for each of its objects",
}
MAX_FUNCTION_LINES = 60
CATCH_ALLS = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc", "lib"}
PROBE = sorted((ROOT / "gpumon" / "probe").rglob("*.py"))
NEWER_THAN_3_6 = {
    "capture_output": "subprocess.run(capture_output=) is of 3.7",
    "text": "subprocess(text=) is of 3.7",
    "dataclasses": "the module is of 3.7",
    "contextvars": "the module is of 3.7",
    "importlib.resources": "the module is of 3.7",
    "importlib.metadata": "the module is of 3.8",
    "graphlib": "the module is of 3.9",
    "zoneinfo": "the module is of 3.9",
    "tomllib": "the module is of 3.11",
    "monotonic_ns": "time.monotonic_ns is of 3.7",
    "time_ns": "time.time_ns is of 3.7",
    "perf_counter_ns": "time.perf_counter_ns is of 3.7",
    "nullcontext": "contextlib.nullcontext is of 3.7",
    "removeprefix": "str.removeprefix is of 3.9",
    "removesuffix": "str.removesuffix is of 3.9",
    "fromisoformat": "datetime.fromisoformat is of 3.7",
    "cached_property": "functools.cached_property is of 3.8",
    "Protocol": "typing.Protocol is of 3.8",
    "Final": "typing.Final is of 3.8",
    "Literal": "typing.Literal is of 3.8",
    "TypedDict": "typing.TypedDict is of 3.8",
    "missing_ok": "Path.unlink(missing_ok=) is of 3.8",
    "prod": "math.prod is of 3.8",
    "isascii": "str.isascii is of 3.7",
    "get_running_loop": "asyncio.get_running_loop is of 3.7",
    "reconfigure": "TextIOWrapper.reconfigure is of 3.7",
    "native_id": "Thread.native_id is of 3.8",
}
HOOKS = {"__getattr__", "__class_getitem__"}
BUILTIN_GENERICS = {"list", "dict", "set", "tuple", "frozenset", "type"}


@lru_cache(maxsize=1)
def sources() -> tuple[Path, ...]:
    """Every Python file of the project, as git knows them where there is git."""
    folders = ("gpumon", "detectors", "plugins", "tests", "tools")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return tuple(sorted(file for file in files if not {".venv", ".uv"} & set(file.parts)))


@cache
def tree_of(file: Path) -> ast.Module:
    """A file's syntax tree; most checks walk every one."""
    return ast.parse(file.read_text())


def test_there_is_something_to_check() -> None:
    assert len(sources()) > 100
    assert len(PROBE) >= 8


def test_no_file_is_longer_than_can_be_read_at_once() -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in sources()
    }
    assert {file for file, lines in lengths.items() if lines > MAX_LINES} == LONG.keys()


def functions(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(file)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
            yield f"{file.relative_to(ROOT)}:{node.name}", node.end_lineno - node.lineno + 1


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        name: lines
        for file in sources()
        for name, lines in functions(file)
        if lines > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_module_is_a_drawer_for_everything() -> None:
    names = {file for file in sources() if set(file.stem.lower().split("_")) & CATCH_ALLS}
    assert names == set()


def test_no_import_is_relative() -> None:
    relative = [
        f"{file}:{node.lineno}"
        for file in sources()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_every_module_but_the_probe_s_postpones_annotations() -> None:
    lacking = [
        str(file)
        for file in sources()
        if file not in PROBE
        and file.relative_to(ROOT).parts[0] in ("gpumon", "detectors")
        and any(
            isinstance(n, ast.FunctionDef) and (n.returns or n.args.args)
            for n in ast.walk(tree_of(file))
        )
        and "from __future__ import annotations" not in file.read_text()
    ]
    assert lacking == []


def newer_things(tree: ast.AST) -> Iterator[str]:
    """What a Python 3.6 would not find, as far as names tell."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
            if node.module == "__future__" and "annotations" in names:
                yield "from __future__ import annotations is of 3.7"
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.keyword) and node.arg:
            names = [node.arg]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if node.value.id in BUILTIN_GENERICS:
                yield f"{node.value.id}[...] is of 3.9"
        elif isinstance(node, ast.FunctionDef) and node.name in (
            "__getattr__",
            "__class_getitem__",
        ):
            yield f"{node.name} of modules and classes is of 3.7"
        for name in names:
            if name in NEWER_THAN_3_6:
                yield NEWER_THAN_3_6[name]


@pytest.mark.parametrize("file", PROBE, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_probe_is_python_3_6(file: Path) -> None:
    tree = ast.parse(file.read_text(), file.name, feature_version=(3, 6))
    assert list(newer_things(tree)) == []
    assert "=}" not in file.read_text(), "f'{name=}' is of 3.8"


@pytest.mark.parametrize(
    "code",
    [
        "from __future__ import annotations",
        "import dataclasses",
        "from importlib import metadata as importlib_metadata\nimport importlib.metadata",
        "run(x, capture_output=True)",
        "run(x, text=True)",
        "time.monotonic_ns()",
        "def f(x: list[int]): pass",
        "'x'.removeprefix('y')",
        "from typing import Protocol",
    ],
)
def test_the_check_for_3_6_finds_newer_things(code: str) -> None:
    assert list(newer_things(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "(x := 1)",
        "def f(a, /): pass",
        pytest.param(
            "with (a as b): pass; match = 1",
            marks=pytest.mark.skipif(
                sys.version_info >= (3, 13), reason="from 3.13 on, ast takes this for any version"
            ),
        ),
    ],
)
def test_the_parser_of_3_6_refuses_newer_forms(code: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(code, feature_version=(3, 6))


def test_the_probe_imports_only_the_standard_library_the_binding_and_itself() -> None:
    found = set()
    for file in PROBE:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
    outside = {name for name in found if not name.startswith("gpumon.probe")}
    assert outside <= sys.stdlib_module_names | {"pynvml"}


def test_the_probe_opens_files_for_reading_only_and_starts_nothing() -> None:
    for file in PROBE:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
                modes = [argument.value for argument in node.args[1:2]]
                assert set(modes) <= {"r", "rb"}, f"{file.name}:{node.lineno}"
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"Popen", "system", "kill", "unlink", "mkdir"}
                assert node.attr != "remove" or getattr(node.value, "id", "") != "os"


def test_nothing_is_marked_as_unfinished() -> None:
    said = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
    marks = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sources()
        if file != Path(__file__)
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if said.search(line)
    ]
    assert marks == []


def test_no_built_thing_is_in_git() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git here")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    assert not [name for name in listed if re.search(r"\.(?:pyc|so|so\.1|o)$|/__pycache__/", name)]


def unused_imports(tree: ast.Module) -> set[str]:
    """Names that a module imports, anywhere in it, and mentions nowhere."""
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and getattr(node, "module", "") != "__future__"
        for alias in node.names
        # `import a as a` and `from b import a as a` hand it on.
        if alias.asname is None or alias.asname != alias.name
    }
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    # `__all__`, and types that are written as texts.
    texts = {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in re.findall(r"\w+", node.value if len(node.value) < 100 else "")
    }
    return imported - mentioned - texts


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import os.path\nimport re\nre.match", {"os"}),
        ("def f():\n    from a import b, c as d\n    return b", {"d"}),
        ("from __future__ import annotations\nfrom a import b\n__all__ = ['b']", set()),
    ],
)
def test_an_import_that_nothing_uses_is_found(code: str, names: set[str]) -> None:
    assert unused_imports(ast.parse(code)) == names


def test_no_module_imports_more_than_it_uses() -> None:
    found = {
        str(file.relative_to(ROOT)): sorted(names)
        for file in sources()
        if "tests" not in file.relative_to(ROOT).parts[:1]
        and (names := unused_imports(tree_of(file)))
    }
    assert found == {}


def test_what_a_command_line_was_read_as_is_never_changed() -> None:
    """A parser's result goes into a frozen `Request`; nobody writes to it on the way."""
    changed = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "gpumon" / "cli").rglob("*.py"))
        for node in ast.walk(tree_of(file))
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, (ast.Store, ast.Del))
            and isinstance(node.value, ast.Name)
            and node.value.id in ("options", "namespace")
        )
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "setattr"
        )
    ]
    assert changed == []


# Numbers are worded in one place

WORDING = "gpumon/report/text/units.py"
WORDED = ("report", "tui", "cli", "serve")
BY_HAND = {"gpumon/report/charts/roofline.py": "ticks of an axis, which are powers of ten"}
SCALES = {60, 100, 1000, 3600, 86400, 10**6, 10**9, 10**12}
SCALE_NAMES = {"HOUR_S", "DAY_S", "KWH_J", "GIB", "MIB"}
UNIT = re.compile(r" ?(%|[kKMGT]?i?B(/s)?\b|k?Wh?\b|°C|GPU-h|ms\b|s\b|min\b|h\b)")
PLACES = re.compile(r"[-+,<>\d.]*f")
SHORT = re.compile(r"[-+,<>\d.]*[fg]")


def is_scaled(value: ast.expr) -> bool:
    """Whether a number is brought to another unit, as by `* 100`, `/ 2**20` or `/ HOUR_S`."""
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            for side in (node.left, node.right):
                if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Pow):
                    return True
                if isinstance(side, ast.Constant) and side.value in SCALES:
                    return True
                if isinstance(side, ast.Name) and side.id.strip("_") in SCALE_NAMES:
                    return True
    return False


def by_hand(tree: ast.Module) -> Iterator[int]:
    """Lines at which a number gets its unit or its places where it is written."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for part, after in zip(node.values, [*node.values[1:], ast.Constant("")], strict=True):
            if not (isinstance(part, ast.FormattedValue) and part.format_spec):
                continue
            form = ast.unparse(part.format_spec)[2:-1]
            has_unit = isinstance(after, ast.Constant) and UNIT.match(str(after.value))
            if (PLACES.fullmatch(form) and has_unit) or (
                SHORT.fullmatch(form) and is_scaled(part.value)
            ):
                yield part.lineno


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("f'{100 * x:.0f}'", 1),
        ("f'{x / 2**20:.1f}'", 1),
        ("f'{x / HOUR_S:,.2f} charged'", 1),
        ("f'{x:.1f} MiB of memory'", 1),
        ("f'{x:.0f} %'", 1),
        ("f'{x / DAY_S:g} days, every {x:g} s'", 1),
        ("f'{x:.1f} samples, {x:>5} %, {units.percent(x)} %'", 0),
    ],
)
def test_a_number_worded_by_hand_is_seen(text: str, count: int) -> None:
    assert len([*by_hand(ast.parse(text))]) == count


def test_numbers_are_worded_in_one_place() -> None:
    found = {
        f"{name}:{line}"
        for floor in WORDED
        for path in (ROOT / "gpumon" / floor).rglob("*.py")
        if (name := str(path.relative_to(ROOT))) != WORDING
        for line in by_hand(tree_of(path))
        if name not in BY_HAND
    }
    assert found == set(), f"{WORDING} words numbers"


def test_what_may_word_numbers_by_hand_still_does() -> None:
    assert all([*by_hand(tree_of(ROOT / name))] for name in BY_HAND)
