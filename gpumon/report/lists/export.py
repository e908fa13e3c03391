"""A table as CSV or JSON: the columns and rows in view, numbers as numbers, missing as missing."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final

from gpumon.report.filter.bind import numeric
from gpumon.report.filter.names import unit_of
from gpumon.report.text.cells import safe
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.document import command_forms
    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.tick_index import Digest

_FORMULA: Final = ("=", "+", "-", "@")
"""A text that begins so is a formula to a spreadsheet."""

Value = float | int | str | None


def values(digest: Digest, columns: Sequence[Column[Any]], row: object) -> dict[str, Value]:
    """A row by the keys of its columns: a number in the column's unit, else the text shown."""
    found: dict[str, Value] = {}
    for column in columns:
        if unit_of(column) is not None and (column.value or column.order):
            found[column.key] = _whole(numeric(column)(digest, row))
        else:
            text = safe(column.cell(digest, row).text).strip()
            found[column.key] = None if text in ("", MISSING) else text
    return found


def _whole(value: Value) -> Value:
    """A whole number without a fraction: 8 GPUs are no `8.0`."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_csv(digest: Digest, columns: Sequence[Column[Any]], rows: Sequence[object]) -> str:
    """Comma-separated values with one line of keys and units; missing values are empty."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([f"{c.key} ({unit})" if (unit := unit_of(c)) else c.key for c in columns])
    for row in rows:
        writer.writerow([_harmless(v) for v in values(digest, columns, row).values()])
    return made.getvalue()


def as_json(digest: Digest, columns: Sequence[Column[Any]], rows: Sequence[object]) -> str:
    """What the columns mean, and a list of rows; missing values are null."""
    made: command_forms.Table = {
        "schema_version": 1,
        "at": digest.tick.at,
        "columns": [
            {"key": c.key, "title": c.title, "unit": unit_of(c) or None, "doc": c.doc}
            for c in columns
        ],
        "rows": [values(digest, columns, row) for row in rows],
    }
    return json.dumps(made, indent=1, allow_nan=False) + "\n"


def _harmless(value: Value) -> Value:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
