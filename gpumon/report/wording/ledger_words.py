"""The books of GPU time in the tables and on a job's page: productive, wasted, unobserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.finding_classes import finding_class
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone
from gpumon.report.wording.paragraphs import facts

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.ledger import Total
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line


def hours_cell(gpu_seconds: float | None, tone: Tone = Tone.PLAIN, unit: str = "") -> Cell:
    """GPU-hours, with a unit where the title names none; what is nothing stands back."""
    if gpu_seconds is None:
        return NO_VALUE
    text = f"{units.gpu_hours(gpu_seconds)}{unit}"
    return Cell(text, tone if gpu_seconds >= 1 else Tone.DIM)


def wasted_s(digest: Digest, view: JobView) -> float | None:
    """GPU-seconds that a job wasted; None: it is not, or no longer, in the books by itself."""
    books = digest.tick.ledger
    return None if books is None else books.wasted_by_job.get(view.job.job_id)


def job_books(digest: Digest, view: JobView, width: int) -> list[Line]:
    """What became of a job's GPU time since its books began; nothing where it has none."""
    books = digest.tick.ledger
    total = books.job(view.job.job_id) if books else None
    if books is None or total is None or total.allocated_s <= 0:
        return []
    currency = books.prices.currency
    since = "" if total.began_at is None else f" since {_moment(digest, total.began_at)}"
    seen = "never" if total.observed_since is None else _moment(digest, total.observed_since)
    pairs = [
        (
            "booked",
            f"{units.gpu_hours(total.allocated_s)} GPU-h{_money(total.cost, currency)}{since}",
        ),
        ("productive", _part(total.productive_s, total)),
        ("unobserved", _part(total.unobserved_s, total)),
        ("first seen", seen),
    ]
    lines = facts(pairs, width)
    wasted = [("wasted", _part(total.waste_s, total) + _waste_money(total, currency))]
    wasted += [
        (finding_class(key).title, f"{units.gpu_hours(seconds)} GPU-h")
        for key, seconds in total.wasted_s.items()
    ]
    told = facts(wasted, width)
    if total.waste_s < 1:
        return [*lines, *told]
    return [*lines, *(tuple(_warned(cell) for cell in line) for line in told)]


def _warned(cell: Cell) -> Cell:
    return cell._replace(tone=Tone.WARN) if cell.tone is Tone.PLAIN else cell


def _part(seconds: float, total: Total) -> str:
    share = units.percent(seconds / total.allocated_s)
    return f"{units.gpu_hours(seconds)} GPU-h, {share} %"


def _waste_money(total: Total, currency: str) -> str:
    return "" if total.cost is None else _money(sum(total.wasted_cost.values()), currency)


def _money(amount: float | None, currency: str) -> str:
    return "" if amount is None else f", {amount:,.2f} {currency}".rstrip()


def _moment(digest: Digest, at: float) -> str:
    """A time of day and how long ago that is, because it may be days."""
    return f"{units.clock_time(at)} ({units.short_duration(digest.tick.at - at)} ago)"
