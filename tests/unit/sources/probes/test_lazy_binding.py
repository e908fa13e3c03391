"""The binding made bit by bit, held against the one that Python imports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pynvml
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def run(code: str, *paths: str) -> str:
    """What code prints that has loaded the binding lazily as `b`, and imported it."""
    head = (
        "import sys, json, ctypes, types\n"
        f"sys.path[:0] = {[str(path) for path in paths]!r}\n"
        "from gpumon.sources.probes.lazy_binding import load\n"
        "load('pynvml')\n"
        "import pynvml as b\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_at_first_few_structures_are_made() -> None:
    code = (
        "made = [n for n, v in vars(b).items() if isinstance(v, type)"
        " and issubclass(v, ctypes.Structure)]\n"
        "print(len(made))"
    )
    whole = [
        value
        for value in vars(pynvml).values()
        if isinstance(value, type) and issubclass(value, pynvml.Structure)
    ]
    assert int(run(code)) < len(whole) / 4


TOLD = """
import ctypes, json, sys
import pynvml as b
def told(name):
    value = getattr(b, name)
    if isinstance(value, (int, float, str)):
        return repr(value)
    if isinstance(value, type) and issubclass(value, (ctypes.Structure, ctypes.Union)):
        return [[field[0], ctypes.sizeof(field[1])] for field in getattr(value, '_fields_', [])]
    return type(value).__name__
names = NAMES or [n for n in vars(b) if not n.startswith('__')]
print(json.dumps({name: told(name) for name in sorted(names)}))
"""
"""Every name of the binding with its value, or what a structure holds."""


def test_everything_is_there_when_it_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"NAMES = []{TOLD}"], capture_output=True, text=True, check=True
    )
    whole = json.loads(done.stdout)
    assert len(whole) > 1000
    assert json.loads(run(f"NAMES = {[*whole]!r}{TOLD}")) == whole


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetMemoryInfo", "nvmlGpmSampleGet"])
def test_a_function_has_all_that_it_uses(name: str) -> None:
    code = (
        f"code = getattr(b, {name!r}).__code__\n"
        "import builtins\n"
        "def names(code):\n"
        "    yield from code.co_names\n"
        "    for one in code.co_consts:\n"
        "        if isinstance(one, types.CodeType):\n"
        "            yield from names(one)\n"
        f"print([n for n in names(code) if n[0] != '_' and n.startswith('c_nvml')"
        " and n not in vars(b)])"
    )
    assert run(code).strip() == "[]"


def test_what_it_lacks_is_named_as_ever() -> None:
    code = "try: b.nvmlNone\nexcept AttributeError as error: print(error)"
    assert run(code).strip() == "module 'pynvml' has no attribute 'nvmlNone'"


def test_errors_are_classes_by_their_number() -> None:
    code = (
        "try: raise b.NVMLError(b.NVML_ERROR_NOT_SUPPORTED)\n"
        "except b.NVMLError_NotSupported as error: print(error, error.value)"
    )
    assert run(code).strip() == "Not Supported 3"


def test_a_module_that_cannot_be_made_so_is_left_to_the_import(tmp_path: Path) -> None:
    text = "import sys\nif type(sys._getframe().f_locals) is not dict: raise OSError\nhere = 7\n"
    (tmp_path / "pynvml.py").write_text(text)
    assert run("print(b.here)", str(tmp_path)).strip() == "7"


def test_where_there_is_no_binding_nothing_is_imported() -> None:
    code = (
        "from gpumon.sources.probes.lazy_binding import load; import sys\n"
        "load('pynvml_of_nobody'); print('pynvml_of_nobody' in sys.modules)"
    )
    assert run(code).strip() == "False"
