"""The ledger of a job in words: what became of its GPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.finding_classes import finding_class
from gpumon.model.records.ledger import SUSPICION
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone
from gpumon.report.wording.paragraphs import facts

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.ledger import Total
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


def job_ledger_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """What became of a job's GPU time since its ledger entry began; nothing where it has none."""
    ledger = digest.tick.ledger
    return ledger_lines(digest, ledger.job(view.job.job_id) if ledger else None, width)


def ledger_lines(digest: Digest, total: Total | None, width: int) -> list[Line]:
    """What became of GPU time; nothing where none is charged."""
    ledger = digest.tick.ledger
    if ledger is None or total is None or total.allocated_s <= 0:
        return []
    currency = ledger.prices.currency
    since = "" if total.began_at is None else f" since {_moment(digest, total.began_at)}"
    seen = "never" if total.observed_since is None else _moment(digest, total.observed_since)
    pairs = [
        (
            "booked",
            f"{units.gpu_hours(total.allocated_s)} GPU-h{_money(total.cost, currency)}{since}",
        ),
        ("useful", _part(total.useful_s, total.of_observed(total.useful_s))),
        ("unexplained", _part(total.unexplained_s, total.of_observed(total.unexplained_s))),
        ("unobserved", _part(total.unobserved_s, total.unobserved_share)),
        ("first seen", seen),
    ]
    lines = facts(pairs, width)
    has_cost = total.cost is not None
    for name, mark, by_class, cost in (
        ("wasted", "", total.wasted_s, total.wasted_cost),
        ("suspected", SUSPICION, total.suspected_s, total.suspected_cost),
    ):
        seconds = sum(by_class.values())
        if mark and seconds < 1:
            continue
        money = _money(sum(cost.values()), currency) if has_cost else ""
        parts = [(name, mark + _part(seconds, total.of_observed(seconds)) + money)]
        parts += [
            (finding_class(key).title, f"{mark}{units.gpu_hours(amount)} GPU-h")
            for key, amount in by_class.items()
        ]
        causes = facts(parts, width)
        lines += causes if seconds < 1 else [tuple(map(_warned, line)) for line in causes]
    return lines


def _warned(cell: Cell) -> Cell:
    return cell._replace(tone=Tone.WARN) if cell.tone is Tone.PLAIN else cell


def _part(seconds: float, share: float | None) -> str:
    of_observed = "" if share is None else f", {units.percent(share)} %"
    return f"{units.gpu_hours(seconds)} GPU-h{of_observed}"


def _money(amount: float | None, currency: str) -> str:
    return "" if amount is None else f", {units.money(amount)} {currency}".rstrip()


def _moment(digest: Digest, at: float) -> str:
    """A time of day and how long ago that is, because it may be days."""
    return f"{units.clock_time(at)} ({units.short_duration(digest.tick.at - at)} ago)"
