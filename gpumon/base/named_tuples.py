"""Classes of `typing.NamedTuple` as Python makes them, in a fifth of its time."""

from __future__ import annotations

import collections
import sys
import typing
from types import CodeType, FunctionType

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Body = dict[str, typing.Any]

_META: typing.Final = "NamedTupleMeta"
_CHECK: typing.Final = "_type_check"
_GETTER: typing.Final = "_tuplegetter"
"""Names by which Python's own modules have what such classes are made of."""

_REFUSED: typing.Final = frozenset(
    (
        *("__classcell__", "__getnewargs__", "__init__", "__new__", "__slots__", "_asdict"),
        *("_field_defaults", "_fields", "_make", "_replace", "_source"),
    )
)
"""What such a class may not define."""

_WRONG_FIELD: typing.Final = TypeError if sys.version_info >= (3, 13) else ValueError


def build_quickly() -> None:
    """Have `class …(NamedTuple)` do with less work.

    Python compiles a function for each class and an object for each type that is written as a text,
    for `typing.get_type_hints`, which takes the text as well: 75 µs a class, of which 15 are left
    (measured). A single answer has 70 of them, the terminal 300. Where another Python makes them
    otherwise nothing changes, and what it would refuse it refuses.
    """
    meta, check, getter = (
        getattr(module, name, None)
        for module, name in ((typing, _META), (typing, _CHECK), (collections, _GETTER))
    )
    if meta is None or check is None or getter is None or meta.__new__.__module__ == __name__:
        return
    usual = meta.__new__
    build = _Builder(check, getter).build

    def new(meta_: type, name: str, bases: tuple[type, ...], body: Body) -> type:
        types = body.get("__annotations__")
        if not types or len(bases) != 1 or _is_refused(types, body):
            made: type = usual(meta_, name, bases, body)
            return made
        return build(name, types, body)

    meta.__new__ = new


def _is_refused(types: Body, body: Body) -> bool:
    """Whether Python has something to say of such a class."""
    has_default = [field in body for field in types]
    return (
        has_default != sorted(has_default)
        or not _REFUSED.isdisjoint(body)
        or any(field.startswith("_") for field in types)
    )


class _Shared(tuple[typing.Any, ...]):
    """What all of them have alike."""

    __slots__ = ()
    _fields: typing.ClassVar[tuple[str, ...]]

    @classmethod
    def _make(cls, iterable: Iterable[typing.Any]) -> typing.Self:
        """Make a new object from a sequence or iterable."""
        made = tuple.__new__(cls, iterable)
        if len(made) != len(cls._fields):
            message = f"Expected {len(cls._fields)} arguments, got {len(made)}"
            raise TypeError(message)
        return made

    def _replace(self, /, **changes: object) -> typing.Self:
        """Return a new object replacing specified fields with new values."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            message = f"Got unexpected field names: {list(changes)!r}"
            raise _WRONG_FIELD(message)
        return made

    def __repr__(self) -> str:
        listed = [f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)]
        return f"{type(self).__name__}({', '.join(listed)})"

    def _asdict(self) -> dict[str, typing.Any]:
        """Return a new dict which maps field names to their values."""
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[typing.Any, ...]:
        """Return self as a plain tuple; for copy and pickle."""
        return tuple(self)


class _Builder:
    """Makes classes of what Python makes them of."""

    def __init__(
        self, check: Callable[[object, str], object], getter: Callable[[int, str], object]
    ) -> None:
        self._check = check
        self._getter = getter
        names = ["_make", "_replace", "__repr__", "_asdict", "__getnewargs__"]
        self._shared: Body = {name: vars(_Shared)[name] for name in names}
        if sys.version_info >= (3, 13):
            self._shared["__replace__"] = _Shared._replace
        self._codes: dict[int, CodeType] = {}
        """Of what makes an object, by its number of fields."""
        self._getters: list[object] = []

    def build(self, name: str, types: Body, body: Body) -> type:
        """The class of these fields."""
        for field, type_ in types.items():
            if not isinstance(type_, str):
                types[field] = self._check(type_, f"field {field} annotation must be a type")
        fields = tuple(types)
        defaults = {field: body[field] for field in fields if field in body}
        listed = ", ".join(fields) + "," * (len(fields) == 1)
        new = FunctionType(
            self._code(len(fields)).replace(co_varnames=("_cls", *fields)),
            {"_tuple_new": tuple.__new__, "__builtins__": {}, "__name__": f"namedtuple_{name}"},
            "__new__",
            tuple(defaults.values()),
        )
        new.__qualname__ = f"{name}.__new__"
        new.__doc__ = f"Create new instance of {name}({listed})"
        new.__annotations__ = types
        while len(self._getters) < len(fields):
            at = len(self._getters)
            self._getters.append(self._getter(at, f"Alias for field number {at}"))
        return type(
            name,
            (tuple,),
            {
                "__doc__": f"{name}({listed})",
                **self._shared,
                **body,
                **dict(zip(fields, self._getters, strict=False)),
                "__slots__": (),
                "_fields": fields,
                "_field_defaults": defaults,
                "__match_args__": fields,
                "__new__": new,
            },
        )

    def _code(self, count: int) -> CodeType:
        if count not in self._codes:
            names = "".join(f"a{at}, " for at in range(count))
            # Not compile(), which makes a class of every kind of statement first: .7 ms.
            made = eval(f"lambda _cls, {names}: _tuple_new(_cls, ({names}))")  # noqa: S307
            self._codes[count] = made.__code__
        return self._codes[count]
