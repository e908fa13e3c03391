"""The books as plain text: a line per user, account, partition, GPU, job or class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.records.ledger import HOUR_S, KWH_J, SUSPICION
from gpumon.report.text.cells import laid_out, safe
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.ledger import Total

TITLES: Final = (
    "GPU-h", "useful", "wasted", "suspected", "unexplained", "unobserved", "most of it", "kWh",
)  # fmt: skip


def ledger_table(totals: Mapping[str, Total], whole: Total, by: str, currency: str) -> str:
    """One line per name and one for the whole, which they sum up to; ends in a line break.

    The shares are of what was observed, that of the unobserved is of all.
    """
    rows = [(name, total) for name, total in totals.items()]
    rows.append(("total", whole))
    titles = (by, *TITLES, *_money_title(whole, currency))
    cells = [titles, *((safe(name) or MISSING, *_cells(total)) for name, total in rows)]
    return laid_out(cells, words=("most of it",))


def class_table(whole: Total, currency: str) -> str:
    """Where the GPU time went: useful, each class of waste, what is suspected, the rest."""
    costs = {
        **whole.wasted_cost,
        **{SUSPICION + key: cost for key, cost in whole.suspected_cost.items()},
        "total": whole.cost,
    }
    rows = (
        ("useful", whole.useful_s, whole.of_observed(whole.useful_s)),
        *((key, s, whole.of_observed(s)) for key, s in whole.wasted_s.items()),
        *((SUSPICION + key, s, whole.of_observed(s)) for key, s in whole.suspected_s.items()),
        ("unexplained", whole.unexplained_s, whole.of_observed(whole.unexplained_s)),
        ("unobserved", whole.unobserved_s, whole.unobserved_share),
        ("total", whole.allocated_s, None),
    )
    has_money = whole.cost is not None
    cells = [("class", "GPU-h", "share", *_money_title(whole, currency))]
    for name, seconds, share in rows:
        cost = (_money(costs.get(name)),) if has_money else ()
        cells.append((name, _hours(seconds), _share(share), *cost))
    return laid_out(cells, words=("most of it",))


def _cells(total: Total) -> tuple[str, ...]:
    worst = next(iter(total.wasted_s.items()), None)
    energy = MISSING if total.energy_j is None else f"{total.energy_j / KWH_J:,.1f}"
    cells = (
        _hours(total.allocated_s),
        _share(total.of_observed(total.useful_s)),
        _share(total.of_observed(total.waste_s)),
        _share(total.of_observed(total.suspicion_s)),
        _share(total.of_observed(total.unexplained_s)),
        _share(total.unobserved_share),
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


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f} %"
