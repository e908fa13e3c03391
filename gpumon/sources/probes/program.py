"""How a probe is started: one fixed command, then the program over standard input.

The command is read alike by sh, csh and fish. Python reads a length and then the program; from
then on standard input carries wishes.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

# Named as mypy knows it: a probe that starts early cannot wait for the import of typing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Folder of the package gpumon; by os.path, because a single sample cannot wait for pathlib."""

_RECEIVE: Final = "import sys; b=sys.stdin.buffer; exec(b.read(int(b.readline())))"

START_SCRIPT: Final = (
    "for p in python3 /usr/libexec/platform-python; do "
    'command -v $p >/dev/null 2>&1 && exec $p -I -S -u -c "' + _RECEIVE + '"; done; '
    "echo gpumon: no python3 on this node >&2; exit 127"
)
"""The same for sh alone; without a single quote, so that one pair of them makes it a word."""

START_COMMAND: Final = f"exec sh -c '{START_SCRIPT}'"
"""What a node's login shell is asked to run; RHEL 8 keeps its Python as platform-python.

-I and -S keep out the files of the user's home, where a login starts, and of the site.
"""

LOCAL_START: Final = (sys.executable, "-I", "-S", "-u", "-c", _RECEIVE)
"""The same for a child process."""

_LOADER: Final = """
import importlib.abc, importlib.util, base64, json, sys, zlib
class Shipped(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    sources = json.loads(zlib.decompress(base64.b64decode("%s")).decode())
    def find_spec(self, name, path=None, target=None):
        if name in self.sources:
            package = any(other.startswith(name + ".") for other in self.sources)
            return importlib.util.spec_from_loader(name, self, is_package=package)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        source = self.sources.pop(module.__name__)
        exec(compile(source, module.__name__, "exec", optimize=2), module.__dict__)
sys.meta_path.insert(0, Shipped())
"""


_BEFORE: Final = """
import gc, sys, types
gc.disable()
def find_library(name):
    from ctypes.util import find_library
    return find_library(name)
sys.modules["ctypes.util"] = types.ModuleType("ctypes.util")
sys.modules["ctypes.util"].find_library = find_library
"""
"""The binding imports `find_library` and never calls it. What that would import, subprocess and
tempfile among it, costs every start of a probe 4 ms of CPU. Garbage, of which imports make none, is
not looked for meanwhile."""

_UNTYPED: Final = """
import typing
class Subscripted(type):
    def __getitem__(self, types):
        return self
class Type(metaclass=Subscripted):
    pass
sys.modules["typing"] = types.ModuleType("typing")
vars(sys.modules["typing"]).update({name: Type for name in vars(typing) if name[0] != "_"})
vars(sys.modules["typing"]).update(NamedTuple=typing.NamedTuple, TYPE_CHECKING=False)
"""
"""Where gpumon is installed: types, for which nobody asks a probe, are all one while it is
imported, which saves 2 ms. Not on a node, whose Python may be any: its modules may need them."""

_LAZILY: Final = """
def capwords(text, sep):
    return sep.join(map(str.capitalize, text.split(sep)))
def __getattr__(name):
    sys.modules.pop("string", None)
    import string
    return getattr(string, name)
sys.modules["string"] = types.ModuleType("string")
vars(sys.modules["string"]).update(capwords=capwords, __getattr__=__getattr__)
from gpumon.sources.probes.lazy_binding import load
load("pynvml")
sys.modules.pop("string", None)
"""
"""Where gpumon is installed; of the binding that travels little is left that is not used. It takes
one function of `string`, which compiles a pattern when it is imported."""

_IMPORT: Final = """
from gpumon.probe.main import main
del sys.modules["ctypes.util"]
gc.enable()
"""

_LOCALLY: Final = _BEFORE + _UNTYPED + _LAZILY + _IMPORT + 'sys.modules["typing"] = typing\n'


def _run(imports: str, options: dict[str, object]) -> str:
    # Numbers, truth values, words of a fixed list, a hexadecimal nonce: safe as Python literals.
    return f"{imports}main(b, {options!r})\n"


def _binding() -> str:
    spec = PathFinder.find_spec("pynvml")
    if spec is None or spec.origin is None:
        message = "the package nvidia-ml-py is not installed beside gpumon"
        raise FileNotFoundError(message)
    return spec.origin


def _framed(program: str) -> bytes:
    body = program.encode()
    return b"%d\n" % len(body) + body


def _paths() -> str:
    """Statements with which a child finds the installed files."""
    paths = [os.path.dirname(_PACKAGE), os.path.dirname(_binding())]
    # After Python's own folders: a backport beside gpumon must not replace the original.
    return f"import sys\nsys.path += {paths!r}\n"


def start_options(
    options: Mapping[str, object], period_s: float, *, once: bool
) -> dict[str, object]:
    """What a probe is started with, but the nonce.

    Args:
        options: What to read.
        period_s: Period of its reports.
        once: Whether it ends after a single one.
    """
    return {**options, "period_s": period_s, "once": once, "only_changes": not once}


def local_program(options: dict[str, object]) -> bytes:
    """Bytes for a child of this machine: it imports the installed files, compiled already."""
    return _framed(_paths() + _run(_LOCALLY, options))


def early_start() -> tuple[str, ...]:
    """`LOCAL_START` for a child that imports the probe before its program comes.

    Raises:
        FileNotFoundError: The NVML binding is not installed.
    """
    return (*LOCAL_START[:-1], _paths() + early_steps())


def early_steps() -> str:
    """The same as statements for a child that is made of this process."""
    return _LOCALLY + _RECEIVE


_shipped: dict[str, str] = {}


def _shipped_sources() -> str:
    """Probe and NVML binding as one compressed text, made once."""
    if "text" not in _shipped:
        import base64
        import json
        import zlib
        from pathlib import Path

        from gpumon.sources.probes.source_slimmer import lean

        sources = {"gpumon": ""}
        for file in sorted(Path(_PACKAGE, "probe").rglob("*.py")):
            parts = file.relative_to(Path(_PACKAGE).parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            sources[name] = file.read_text(encoding="utf-8")
        # Most of the binding is functions that the probe never calls, and compiling it costs a
        # node more memory than anything that the probe does afterwards.
        binding = Path(_binding()).read_text(encoding="utf-8")
        sources["pynvml"] = lean(binding, "\n".join(sources.values()))
        packed = zlib.compress(json.dumps(sources).encode(), 9)
        _shipped["text"] = base64.b64encode(packed).decode()
    return _shipped["text"]


def remote_program(options: dict[str, object]) -> bytes:
    """Bytes for a node on which nothing is installed but Python: probe and binding travel along."""
    return _framed(_LOADER % _shipped_sources() + _run(_BEFORE + _IMPORT, options))
