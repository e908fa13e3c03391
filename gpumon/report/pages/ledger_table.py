"""The books as plain text: a line per user, account, partition, GPU, job or class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.records.ledger import HOUR_S, KWH_J
from gpumon.report.text.cells import fit, safe
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from gpumon.model.records.ledger import Total

TITLES: Final = ("GPU-h", "productive", "wasted", "unobserved", "most of it", "kWh")

_MOST_NAME: Final = 32
"""Cells of a name; a longer one is cut."""


def ledger_table(totals: Mapping[str, Total], whole: Total, by: str, currency: str) -> str:
    """One line per name and one for the whole, which they sum up to; ends in a line break."""
    rows = [(name, total) for name, total in totals.items()]
    rows.append(("total", whole))
    titles = (by, *TITLES, *_money_title(whole, currency))
    cells = [titles, *((safe(name) or MISSING, *_cells(total)) for name, total in rows)]
    return _laid_out(cells)


def class_table(whole: Total, currency: str) -> str:
    """Where the GPU time went: productive, each class of waste, unobserved."""
    parts = {"productive": whole.productive_s, **whole.wasted_s, "unobserved": whole.unobserved_s}
    has_money = whole.cost is not None
    cells = [("class", "GPU-h", "share", *_money_title(whole, currency))]
    for name, seconds in (*parts.items(), ("total", whole.allocated_s)):
        cost = _money(whole.wasted_cost.get(name)) if name != "total" else _money(whole.cost)
        cells.append(
            (name, _hours(seconds), _share(seconds, whole), *((cost,) if has_money else ()))
        )
    return _laid_out(cells)


def _cells(total: Total) -> tuple[str, ...]:
    worst = next(iter(total.wasted_s.items()), None)
    energy = MISSING if total.energy_j is None else f"{total.energy_j / KWH_J:,.1f}"
    cells = (
        _hours(total.allocated_s),
        _share(total.productive_s, total),
        _share(total.waste_s, total),
        _share(total.unobserved_s, total),
        f"{worst[0]} {_hours(worst[1])}" if worst else MISSING,
        energy,
    )
    return cells if total.cost is None else (*cells, _money(total.cost))


def _money_title(whole: Total, currency: str) -> tuple[str, ...]:
    return () if whole.cost is None else (f"cost {safe(currency)}".strip(),)


def _money(amount: float | None) -> str:
    return MISSING if amount is None else f"{amount:,.2f}"


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:,.2f}"


def _share(seconds: float, total: Total) -> str:
    if total.allocated_s <= 0:
        return MISSING
    return f"{100 * seconds / total.allocated_s:.1f} %"


def _laid_out(cells: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as their widest cell; the first and words to the left, numbers right."""
    widths = [min(_MOST_NAME, max(map(len, column))) for column in zip(*cells, strict=True)]
    sides: list[Literal["left", "right"]] = [
        "left" if title in (cells[0][0], "most of it") else "right" for title in cells[0]
    ]
    lines = (
        "  ".join(fit(c, w, side) for c, w, side in zip(row, widths, sides, strict=True))
        for row in cells
    )
    return "".join(line.rstrip() + "\n" for line in lines)
