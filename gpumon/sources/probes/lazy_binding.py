"""The NVML binding in a probe of this machine: of its structures only those in use are made.

Python's own import makes every structure of ctypes, most of which no probe asks for: 5 of its 10 ms
of CPU (measured), of a single answer's hundred.
"""

from __future__ import annotations

import builtins
import ctypes
import sys
from importlib.machinery import PathFinder
from threading import RLock
from types import CodeType, FunctionType, ModuleType

# Named as mypy knows it: a probe that starts early cannot wait for more imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def load(name: str) -> None:
    """Import a module whose functions and structures come when they are first asked for.

    One that cannot be had so is left to Python's own import.
    """
    spec = None if name in sys.modules else PathFinder.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = ModuleType(name)
    module.__spec__, module.__file__ = spec, spec.origin
    sys.modules[name] = module
    try:
        _Names(module, spec.loader.get_code(name)).fill()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - whatever it is, the import has it too, or has it not
        del sys.modules[name]


class _Names:
    """The names of a module as its own statements see them, and those that wait."""

    def __init__(self, module: ModuleType, code: CodeType) -> None:
        self._made = module.__dict__
        self._code = code
        self._of_name = {one.co_name: one for one in code.co_consts if isinstance(one, CodeType)}
        """Code of each function and class."""
        self._waiting: dict[str, _Waiting | FunctionType] = {}
        self._lock = RLock()

    def fill(self) -> None:
        """Run the module's statements; then let its functions wait, too, for what they use."""
        own = {**vars(builtins), "__build_class__": self._build}
        self._made["__builtins__"] = own
        exec(self._code, self._made, self)  # type: ignore[arg-type]  # noqa: S102
        own["__build_class__"] = builtins.__build_class__
        made = [name for name in self._of_name if name in self._made]
        for name in made:
            if isinstance(self._made[name], FunctionType):
                self._waiting[name] = self._made.pop(name)
        for name in made:
            if name in self._made:
                self._make_all(self._of_name[name])
        self._made["__getattr__"] = self._asked

    def __setitem__(self, name: str, value: object) -> None:
        """A statement binds a name."""
        if isinstance(value, _Waiting):
            self._waiting[name] = value
        else:
            self._made[name] = value

    def __getitem__(self, name: str) -> object:
        """A statement uses one."""
        self._make(name)
        return self._made[name]

    def _build(self, body: FunctionType, name: str, *bases: type, **named: object) -> object:
        """A class, or of a structure what makes it."""

        def make() -> object:
            self._make_all(body.__code__)
            return builtins.__build_class__(body, name, *bases, **named)

        is_structure = bases and issubclass(bases[0], (ctypes.Structure, ctypes.Union))
        return _Waiting(make) if is_structure else make()

    def _asked(self, name: str) -> object:
        """What somebody wants of the module that it does not show yet.

        Raises:
            AttributeError: It has no such thing.
        """
        with self._lock:
            self._make(name)
            if name in self._made:
                return self._made[name]
        message = f"module {self._made['__name__']!r} has no attribute {name!r}"
        raise AttributeError(message)

    def _make(self, name: str) -> None:
        value = self._waiting.pop(name, None)
        if value is None:
            return
        if isinstance(value, _Waiting):
            self._made[name] = value.make()
        # A function is shown once all that it uses is there: other threads may call it at once.
        self._make_all(self._of_name[name])
        self._made.setdefault(name, value)

    def _make_all(self, code: CodeType) -> None:
        for name in _names(code):
            self._make(name)


class _Waiting:
    """A class that is not made yet."""

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def _names(code: CodeType) -> Iterator[str]:
    """What it may look up in its module, with the functions in it."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)
