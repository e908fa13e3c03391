"""One entity of a block as plain data, with all fields that the catalogue declares.

No list of keys is here: what the catalogue declares for a kind of entity is what is written.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NewType, overload

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.block import Block

Moment = NewType("Moment", str)
"""A time as the document writes it: RFC 3339, UTC, milliseconds."""

KEYS: Final = {
    block: tuple(key for key, field in CATALOGUE.items() if field.block == block)
    for block in dict.fromkeys(field.block for field in CATALOGUE.values())
}
"""Keys of the catalogue by the kind of entity that has them."""


class Entity:
    """One row of a block, or nothing: then every value is missing."""

    def __init__(self, kind: str, block: Block | None, row: int | None, is_stale: bool) -> None:
        """Take one row of a block.

        Args:
            kind: Name of the block, by which the catalogue declares the entity's fields.
            block: Where its values are; None: nothing has been heard of it.
            row: Its place in the block; None likewise.
            is_stale: Whether the values are too old to be shown as the present.
        """
        is_known = block is not None and row is not None and row < len(block.keys)
        self._kind = kind
        self._block = block if is_known and block is not None else EMPTY_BLOCK
        self._row = row or 0
        self._is_stale = is_stale

    def values(self, skip: tuple[str, ...] = ()) -> dict[str, Any]:
        """Every value that it can have but those to skip, null where it is missing."""
        return {
            key: None if self._is_stale else number(self._block.value(key, self._row))
            for key in KEYS.get(self._kind, ())
            if key not in skip
        }

    def labels(self, skip: tuple[str, ...] = ()) -> dict[str, str | None]:
        """Every text that it can have but those to skip; also when its values are stale."""
        wanted = LABELS.get(self._kind, ())
        return {name: self._block.label(name, self._row) for name in wanted if name not in skip}

    def missing(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Why each of these values that is null is missing."""
        return {key: self._reason(key) for key, value in values.items() if value is None}

    def _reason(self, key: str) -> str:
        if self._is_stale:
            return str(Reason.STALE)
        return str(self._block.reason(key, self._row) or Reason.NOT_SAMPLED)

    def whole(self, skip: tuple[str, ...] = ()) -> dict[str, Any]:
        """Texts, values, and why values are missing."""
        values = self.values(skip)
        return {**self.labels(skip), **values, "missing": self.missing(values)}


@overload
def number(value: float) -> float | int: ...
@overload
def number(value: None) -> None: ...
@overload
def number(value: float | None) -> float | int | None: ...
def number(value: float | None) -> float | int | None:
    """The number as JSON writes it: whole values as integers, others to six digits."""
    if value is None or isinstance(value, int):
        return value
    return int(value) if value.is_integer() else round(value, 6)


@overload
def moment(at: float) -> Moment: ...
@overload
def moment(at: None) -> None: ...
@overload
def moment(at: float | None) -> Moment | None: ...
def moment(at: float | None) -> Moment | None:
    """RFC 3339 time in UTC with milliseconds."""
    if at is None:
        return None
    whole, milliseconds = divmod(round(at * 1000), 1000)
    day = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return Moment(f"{day}.{milliseconds:03d}Z")
