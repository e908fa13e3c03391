"""What is left of a module: everything that can be reached, and nothing else that is long."""

from __future__ import annotations

import builtins
import symtable
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pynvml
import pytest

import gpumon.probe
from gpumon.sources.probes.source_slimmer import lean

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = '''\
# Copyright of somebody
# who wants to be named.

import os
LIMIT = 3
# a remark
def used(
    first,
):
    """A text with a line that
def looks_like_a_function():
    at its left edge."""
    return inner(first)

def inner(x): return x
@decorate
@twice
def decorated():
    return Base
class Base:
    pass
class Unused(Base):
    pass
def unused():
    return Unused
alias = by_alias
'''


def test_what_is_reached_stays_and_the_rest_goes() -> None:
    text = lean(MODULE, "pynvml.used(1)\ncall('decorated')")
    for part in ("# Copyright of somebody", "LIMIT = 3", "def used(", "at its left edge", "inner"):
        assert part in text
    assert "@decorate\n@twice\ndef decorated():" in text
    assert "class Base:" in text
    assert "Unused" not in text
    assert "unused" not in text
    assert "# a remark" not in text
    compile(text, "module", "exec")


def test_a_statement_keeps_what_it_names() -> None:
    source = "def kept(): return deeper()\ndef deeper(): pass\nother = kept\ndef gone(): pass\n"
    assert lean(source, "") == source.replace("def gone(): pass\n", "")


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from scopes(child)


@pytest.fixture(scope="module")
def binding() -> str:
    folder = Path(next(iter(gpumon.probe.__path__)))
    user = "\n".join(file.read_text() for file in sorted(folder.glob("*.py")))
    return lean(Path(pynvml.__file__).read_text(), user)


def test_the_binding_s_licence_travels_along(binding: str) -> None:
    assert "Redistribution and use in source and binary forms" in binding


def test_no_name_of_the_binding_s_rest_is_undefined(
    binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every name that any function of it looks up is there, or was not there before either."""
    module = ModuleType("lean_binding")
    # It makes its exceptions' classes in the module that it finds under its own name.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(binding, "pynvml", "exec"), vars(module))
    found = vars(module)
    before = set(vars(pynvml)) | set(vars(builtins))
    for scope in scopes(symtable.symtable(binding, "pynvml", "exec")):
        for symbol in scope.get_symbols():
            if symbol.is_global() and symbol.is_referenced() and symbol.get_name() in before:
                assert symbol.get_name() in found or hasattr(builtins, symbol.get_name())
    for name, value in vars(pynvml).items():
        if isinstance(value, (int, str)) and not name.startswith("__"):
            assert found[name] == value, name
