"""Queue records as JSON objects and back: a record's type decides how it is read."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.records.cluster import Allocation, Job, SlurmNode
from gpumon.model.records.queue import Partition, Reservation
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TEXT: Final = 8192
"""Longest text of a recording that is stored, as of a probe's labels."""

MAX_ITEMS: Final = 65536
"""Most entries of one list in a record, as of rows in a block."""

_LARGEST: Final = 2**64
"""Larger numbers are none of Slurm's: its counters have 64 bits."""

TABLES: Final[dict[str, tuple[Any, str]]] = {
    "jobs": (Job, "job_id"),
    "nodes": (SlurmNode, "name"),
    "partitions": (Partition, "name"),
    "reservations": (Reservation, "name"),
}
"""Record type of each of a queue's tables, and the field that names a record."""


def pack(record: Any) -> dict[str, Any]:  # noqa: ANN401 - any of the record types
    """The record's fields that differ from their defaults."""
    defaults = record._field_defaults
    packed: dict[str, Any] = {}
    for name, value in record._asdict().items():
        if name in defaults and defaults[name] == value:
            continue
        if name == "allocations":
            value = [pack(one) for one in value]
        elif isinstance(value, float) and not isfinite(value):
            value = None
        packed[name] = value
    return packed


def unpack(kind: Any, raw: dict[str, Any]) -> Any:  # noqa: ANN401 - any of the record types
    """The record that an object holds; names that it does not have are ignored.

    What another recorder leaves out is not known; a label is then the id, an address the
    name. Only its identity and its state are needed.

    Raises:
        ValueError: A value is not of its type.
        TypeError: The same, or what is needed is not there.
    """
    readers = _READERS[kind]
    given = {name: readers[name](value) for name, value in raw.items() if name in readers}
    for name, unknown in _UNKNOWN[kind].items():
        given.setdefault(name, given.get(_ALIKE.get(name, ""), unknown))
    return kind(**given)


def text(value: object) -> str:
    """Text made harmless.

    Raises:
        TypeError: It is no text.
    """
    if not isinstance(value, str):
        message = f"{type(value).__name__} for a text"
        raise TypeError(message)
    return plain(value, MAX_TEXT)


def number(value: object) -> float:
    """A finite number.

    Raises:
        ValueError: It is none, or not finite.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        # A whole number has no bound in JSON: beyond 64 bits it is none of a recorder's. Just below
        # it may become one beyond.
        found = float(value) if abs(value) < _LARGEST else inf
        if abs(found) < _LARGEST:
            return found
    message = f"{plain(repr(value))} for a number"
    raise ValueError(message)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        message = f"{plain(repr(value))} for a whole number"
        raise ValueError(message)
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        message = f"{plain(repr(value))} for yes or no"
        raise TypeError(message)
    return value


def _listed(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read_list(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            message = f"not a list of at most {MAX_ITEMS}"
            raise ValueError(message)
        return tuple(read(one) for one in value)

    return read_list


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_BY_ANNOTATION: Final[dict[str, Callable[[Any], Any]]] = {
    "str": text,
    "str | None": _optional(text),
    "int": _whole,
    "int | None": _optional(_whole),
    "float": number,
    "float | None": _optional(number),
    "bool": _truth,
    "bool | None": _optional(_truth),
    "tuple[str, ...]": _listed(text),
    "tuple[int, ...]": _listed(_whole),
    "tuple[int, ...] | None": _optional(_listed(_whole)),
    "tuple[Allocation, ...]": _listed(lambda raw: unpack(Allocation, raw)),
}

_NEEDED: Final = frozenset({"job_id", "name", "node", "state"})
"""Texts without which a record has no subject; a job's name is not one of them."""

_ALIKE: Final = {"label": "job_id", "host_name": "name", "address": "name"}
"""What takes the place of a text that is left out."""

_READERS: Final[dict[Any, dict[str, Callable[[Any], Any]]]] = {
    kind: {
        name: _BY_ANNOTATION[getattr(annotation, "__forward_arg__", annotation)]
        for name, annotation in kind.__annotations__.items()
    }
    for kind in (Allocation, *(kind for kind, _ in TABLES.values()))
}


def _unknown(kind: Any) -> dict[str, object]:  # noqa: ANN401 - any of the record types
    """Fields without a default that may be left out, with the value of an unknown one."""
    needed = _NEEDED - {"name"} if kind is Job else _NEEDED
    found: dict[str, object] = {}
    for name, annotation in kind.__annotations__.items():
        if name in kind._field_defaults or name in needed:
            continue
        value_type = str(getattr(annotation, "__forward_arg__", annotation))
        if value_type == "str":
            found[name] = ""
        elif value_type.endswith("None"):
            found[name] = None
        elif value_type.startswith("tuple"):
            found[name] = ()
    return found


_UNKNOWN: Final = {kind: _unknown(kind) for kind in _READERS}
