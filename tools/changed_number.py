"""A pytest plugin that changes one number of gpumon before anything imports it.

`CHANGED_NUMBER=module:NAME=VALUE python -m pytest -p tools.changed_number …`, as
`python -m tools.shared_numbers` runs it: whether tests hold a number shows when it is another one.
"""

from __future__ import annotations

import ast
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType


def changed(source: str, name: str, value: str) -> ast.Module:
    """A module in which a constant has another value.

    Raises:
        ValueError: The module defines no constant of the name.
    """
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                node.value = ast.copy_location(ast.parse(value, mode="eval").body, node)
                return ast.fix_missing_locations(tree)
    raise ValueError(f"no constant is called {name}")


class _Loader(SourceFileLoader):
    """Loads one module, changed."""

    number = ("", "")

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, never one that was compiled before."""
        source = Path(self.get_filename(fullname)).read_text(encoding="utf-8")
        return compile(changed(source, *self.number), self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds one module alone."""

    def __init__(self, module: str, name: str, value: str) -> None:
        self._module, self._number = module, (name, value)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where it is, with the loader that changes it."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self._module else None
        if spec is not None and spec.origin is not None:
            loader = _Loader(fullname, spec.origin)
            loader.number = self._number
            spec.loader = loader
        return spec


if "CHANGED_NUMBER" in os.environ:
    _place, _, _value = os.environ["CHANGED_NUMBER"].partition("=")
    _module, _, _name = _place.partition(":")
    sys.meta_path.insert(0, _Finder(f"gpumon.{_module}", _name, _value))
