"""Columns of frames, each of the type that the catalogue asks for."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.model.missing import Reason

    Column = array[float] | array[int]
    Columns = dict[str, Column]
    Missing = dict[tuple[str, int], Reason]


_CODES: Final = {key: "q" if field.kind.is_integer else "d" for key, field in CATALOGUE.items()}


def code_of(key: str) -> str:
    """Type code of a field's column."""
    return _CODES[key]


def column(key: str, values: Iterable[float]) -> Column:
    """Column of one field."""
    code = code_of(key)
    return array(code, [int(value) for value in values] if code == "q" else values)


def same(values: Mapping[str, float], rows: int) -> Columns:
    """Columns that hold one value in every row."""
    return {key: array(code_of(key), (value,)) * rows for key, value in values.items()}


def lost(keys: Iterable[str], rows: int, reason: Reason) -> Missing:
    """One reason for every row of some fields or labels."""
    return {(key, row): reason for key in keys for row in range(rows)}
