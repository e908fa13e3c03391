"""What one origin does not tell of a GPU, taken from another that does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block, column_for

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Mapping

_NEVER_REPORTED: Final = frozenset({Reason.NOT_SUPPORTED, Reason.NO_PERMISSION, Reason.NOT_SHARED})
"""Reasons that last: this origin will not tell the field. NVML has no profiling counters of an
A100, for one; DCGM has."""

_NOT_YET: Final = Reason.NOT_SAMPLED
"""This origin may tell the field soon. Until then another one's gauge stands in; its counter does
not, as it may stand elsewhere, and a change of origin would be counted as growth."""


class OriginRow(NamedTuple):
    """A row in which an origin tells of a GPU."""

    origin: str
    block: Block
    row: int


def completed(
    block: Block, others: Mapping[int, Iterable[OriginRow]]
) -> tuple[Block, dict[int, dict[str, str]]]:
    """A block of GPUs in which other origins fill in what it does not tell.

    What it tells itself stands, and so does what is missing because the board is lost or the driver
    fails: another origin may repeat what it read before that.

    Args:
        block: What the best origin tells.
        others: By row of it what other origins tell of that GPU, the better one first.

    Returns:
        The block, and by row the fields and labels that another origin tells, with its URL.
    """
    filling = _Filling(block)
    for row, rows in others.items():
        for origin_row in rows:
            filling.take(row, origin_row)
    return filling.block(), filling.borrowed


class _Filling:
    """A block that is being filled in; columns are copied once one of them changes."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._columns: dict[str, list[float | int | None]] = {}
        self._labels: dict[str, list[str | None]] = {}
        self.borrowed: dict[int, dict[str, str]] = {}

    def take(self, row: int, origin_row: OriginRow) -> None:
        """Fill one GPU's row with what another origin tells."""
        own = self._block
        for key, theirs in origin_row.block.columns.items():
            # A short way for what the best origin tells itself, which is most. NaN is not itself.
            column = own.columns.get(key)
            if column is not None and (value := column[row]) == value != MISSING_INTEGER:
                continue
            value = theirs[origin_row.row]
            if value == value != MISSING_INTEGER and self._is_free(key, row):
                self._column(key)[row] = value
                self._note(key, row, origin_row)
        for key, texts in origin_row.block.labels.items():
            text = texts[origin_row.row]
            if text is not None and own.label(key, row) is None and self._is_free(key, row):
                self._label(key)[row] = text
                self._note(key, row, origin_row)

    def block(self) -> Block:
        """The block with what was filled in."""
        if not self.borrowed:
            return self._block
        filled = {(key, row) for row, keys in self.borrowed.items() for key in keys}
        return Block(
            self._block.keys,
            {**self._block.columns, **self._filled_columns()},
            {**self._block.labels, **{key: tuple(texts) for key, texts in self._labels.items()}},
            {at: reason for at, reason in self._block.missing.items() if at not in filled},
        )

    def _is_free(self, key: str, row: int) -> bool:
        """Whether an origin that tells what the best one lacks may fill it in."""
        if key in self.borrowed.get(row, ()):
            return False
        reason = self._block.missing.get((key, row), _NOT_YET)
        if reason is _NOT_YET:
            field = CATALOGUE.get(key)
            return field is None or field.kind is not Kind.COUNTER
        return reason in _NEVER_REPORTED

    def _note(self, key: str, row: int, origin_row: OriginRow) -> None:
        self.borrowed.setdefault(row, {})[key] = origin_row.origin

    def _filled_columns(self) -> dict[str, array[float] | array[int]]:
        own = self._block.columns
        return {
            key: column_for(own[key].typecode == "q" if key in own else _is_whole(key), values)
            for key, values in self._columns.items()
        }

    def _column(self, key: str) -> list[float | int | None]:
        values = self._columns.get(key)
        if values is None:
            rows = range(len(self._block.keys))
            values = self._columns[key] = [self._block.value(key, row) for row in rows]
        return values

    def _label(self, key: str) -> list[str | None]:
        texts = self._labels.get(key)
        if texts is None:
            own = self._block.labels.get(key)
            texts = self._labels[key] = [None] * len(self._block.keys) if own is None else [*own]
        return texts


def _is_whole(key: str) -> bool:
    field = CATALOGUE.get(key)
    return field is not None and field.kind.is_integer
