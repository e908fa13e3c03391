"""The ledger as plain text: a line per user, account, partition, GPU, job or class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.ledger import NOTHING, SUSPICION
from gpumon.report.text import units
from gpumon.report.text.cells import laid_out, safe
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.ledger import Added, Total

_WASTED: Final = "wasted"
_BEFORE: Final = "before"

TITLES: Final = (
    "GPU-h", "useful", _WASTED, "suspected", "unexplained", "unobserved", "most of it", "kWh",
)  # fmt: skip


def ledger_table(
    totals: Mapping[str, Total], whole: Total, by: str, currency: str, before: Added | None = None
) -> str:
    """One line per name and one for the whole, which they sum up to; ends in a line break.

    The shares are of what was observed, that of the unobserved is of all.

    Args:
        totals: By name.
        whole: All of it, also of names that are not among these.
        by: What the names are.
        currency: Of the prices.
        before: What an earlier span came to, of which the share that was wasted is shown.
    """
    earlier = {} if before is None else {**before.by_name, "total": before.whole}
    rows = [*totals.items(), ("total", whole)]
    titles = (by, *TITLES, *_money_title(whole, currency))
    cells = [titles, *((safe(name) or MISSING, *_cells(total)) for name, total in rows)]
    if before is not None:
        shares = [_wasted_share(earlier.get(name)) for name, _ in rows]
        place = titles.index(_WASTED) + 1
        cells = [
            (*row[:place], share, *row[place:])
            for row, share in zip(cells, (_BEFORE, *shares), strict=True)
        ]
    return laid_out(cells, words=("most of it",))


def _wasted_share(total: Total | None) -> str:
    return MISSING if total is None else _share(total.of_observed(total.waste_s))


class ClassLine(NamedTuple):
    """What became of some GPU time."""

    name: str
    """`useful`, a class, `~` and a class that is suspected, `unexplained`, `unobserved`."""
    seconds: float
    share: float | None
    """Of what was observed; of all where it is what was not."""
    before: float | None
    """The share in an earlier span; None: nothing was observed then, or it was not asked for."""


def class_lines(whole: Total, before: Total = NOTHING) -> list[ClassLine]:
    """The ledger line by line; classes that took time only in the earlier span come last of theirs.

    Args:
        whole: The ledger.
        before: That of an earlier span.
    """
    now, earlier = _shares(whole), _shares(before)
    nothing, was_nothing = whole.of_observed(0.0), before.of_observed(0.0)
    names = [
        "useful",
        *dict.fromkeys((*whole.wasted_s, *before.wasted_s)),
        *(SUSPICION + key for key in dict.fromkeys((*whole.suspected_s, *before.suspected_s))),
        "unexplained",
        "unobserved",
    ]
    return [
        ClassLine(name, *now.get(name, (0.0, nothing)), earlier.get(name, (0.0, was_nothing))[1])
        for name in names
    ]


def _shares(total: Total) -> dict[str, tuple[float, float | None]]:
    """GPU-seconds and share by line of the ledger."""
    observed = {
        "useful": total.useful_s,
        **total.wasted_s,
        **{SUSPICION + key: seconds for key, seconds in total.suspected_s.items()},
        "unexplained": total.unexplained_s,
    }
    found = {name: (seconds, total.of_observed(seconds)) for name, seconds in observed.items()}
    return {**found, "unobserved": (total.unobserved_s, total.unobserved_share)}


def class_table(whole: Total, currency: str, before: Total | None = None) -> str:
    """Where the GPU time went: useful, each class of waste, what is suspected, the rest.

    Args:
        whole: The ledger.
        currency: Of the prices.
        before: That of an earlier span, whose shares are shown beside.
    """
    costs = {
        **whole.wasted_cost,
        **{SUSPICION + key: cost for key, cost in whole.suspected_cost.items()},
        "total": whole.cost,
    }
    rows = class_lines(whole, before or NOTHING)
    rows.append(ClassLine("total", whole.allocated_s, None, None))
    title = (_BEFORE,) if before is not None else ()
    cells = [("class", "GPU-h", "share", *title, *_money_title(whole, currency))]
    for name, seconds, share, was in rows:
        earlier = (_share(was),) if before is not None else ()
        cost = (units.money(costs.get(name)),) if whole.cost is not None else ()
        cells.append((name, units.hours(seconds), _share(share), *earlier, *cost))
    return laid_out(cells)


def _cells(total: Total) -> tuple[str, ...]:
    worst = next(iter(total.wasted_s.items()), None)
    cells = (
        units.hours(total.allocated_s),
        _share(total.of_observed(total.useful_s)),
        _share(total.of_observed(total.waste_s)),
        _share(total.of_observed(total.suspicion_s)),
        _share(total.of_observed(total.unexplained_s)),
        _share(total.unobserved_share),
        f"{worst[0]} {units.hours(worst[1])}" if worst else MISSING,
        units.kilowatt_hours(total.energy_j),
    )
    return cells if total.cost is None else (*cells, units.money(total.cost))


def _money_title(whole: Total, currency: str) -> tuple[str, ...]:
    return () if whole.cost is None else (f"cost {safe(currency)}".strip(),)


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{units.fine_percent(value)} %"
