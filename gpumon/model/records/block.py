"""Values of one kind of entity as parallel columns, and how a missing one is held."""

from __future__ import annotations

from array import array
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.missing import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

MISSING_INTEGER: Final = -(2**63)
"""Placeholder of a missing value in an integer column; never leaves the frame."""


class Block(NamedTuple):
    """Values of one kind of entity: parallel columns, one row per entity."""

    keys: tuple[str, ...]
    """Entity keys: UUIDs for `gpu`, PIDs for `process`, `PID/UUID` for `context`."""
    columns: Mapping[str, array[float] | array[int]]
    """Per field present, one column of `len(keys)`; NaN or the placeholder where missing."""
    labels: Mapping[str, tuple[str | None, ...]]
    """Per text label, one value per entity."""
    missing: Mapping[tuple[str, int], Reason]
    """Why a value or label is missing, by field key and row."""

    def value(self, key: str, row: int) -> float | int | None:
        """Value of one field of one entity, None where it is missing."""
        column = self.columns.get(key)
        if column is None:
            return None
        value = column[row]
        return None if value == MISSING_INTEGER or isnan(value) else value

    def label(self, key: str, row: int) -> str | None:
        """Text of one entity, None where it is missing."""
        column = self.labels.get(key)
        return column[row] if column else None

    def reason(self, key: str, row: int) -> Reason | None:
        """Why a value is missing, None where it is present."""
        if self.value(key, row) is not None or self.label(key, row) is not None:
            return None
        return self.missing.get((key, row), Reason.NOT_SAMPLED)


EMPTY_BLOCK: Final = Block((), {}, {}, {})


def column_for(is_integer: bool, values: list[float | int | None]) -> array[float] | array[int]:
    """Column of a frame; None becomes NaN, or the integer placeholder."""
    if is_integer:
        return array("q", [MISSING_INTEGER if value is None else int(value) for value in values])
    return array("d", [float("nan") if value is None else float(value) for value in values])
