"""Values of one kind of entity as parallel columns, and how a missing one is held."""

from __future__ import annotations

from array import array
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple, cast

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


def with_rest(best: Block, other: Block) -> Block:
    """A block of one row with what only another one has of the same entity.

    Several may report a host: its GPUs' exporter names the driver, another one its CPUs. Why
    something is missing is taken from the best one that has a reason.
    """
    if not (best.keys and other.keys):
        return best if best.keys else other
    known = {key for key in best.columns if best.value(key, 0) is not None}
    named = {key for key in best.labels if best.label(key, 0) is not None}
    columns = {key: c for key, c in other.columns.items() if other.value(key, 0) is not None}
    labels = {key: texts for key, texts in other.labels.items() if texts[0] is not None}
    new = {*columns, *labels} - known - named
    why = {place: why for place, why in other.missing.items() if place[0] not in {*known, *named}}
    why.update((place, own) for place, own in best.missing.items() if place[0] not in new)
    return best._replace(
        columns={**best.columns, **{key: c for key, c in columns.items() if key in new}},
        labels={**best.labels, **{key: text for key, text in labels.items() if key in new}},
        missing=why,
    )


def column_for(is_integer: bool, values: list[float | int | None]) -> array[float] | array[int]:
    """Column of a frame; None becomes NaN, or the integer placeholder."""
    try:
        # Nearly always all are there, and of the column's own kind.
        if is_integer:
            return array("q", cast("list[int]", values))
        return array("d", cast("list[float]", values))
    except TypeError:
        pass
    if is_integer:
        return array("q", [MISSING_INTEGER if value is None else int(value) for value in values])
    return array("d", [float("nan") if value is None else float(value) for value in values])
