"""Tables on the terminal."""

from __future__ import annotations

from typing import Any

Rows = list[dict[str, Any]]


def show(title: str, rows: Rows) -> None:
    """Prints a table; the first row names the columns."""
    print(f"\n{title}")
    if not rows:
        return
    cells = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        padded = [line[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  " + "  ".join(padded).rstrip(), flush=True)


def _text(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
