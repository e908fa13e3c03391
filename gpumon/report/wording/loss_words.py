"""Lost GPU time in words: what is wasted, and after `~` what is only suspected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.records.ledger import SUSPICION, Charged
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.ledger import Total
    from gpumon.report.facts.tick_index import Digest


def hours_cell(gpu_seconds: float | None, tone: Tone = Tone.PLAIN, unit: str = "") -> Cell:
    """GPU-hours, with a unit where the title names none; what is nothing stands back."""
    if gpu_seconds is None:
        return NO_VALUE
    text = f"{units.gpu_hours(gpu_seconds)}{unit}"
    return Cell(text, tone if gpu_seconds >= 1 else Tone.DIM)


def loss_cell(loss: Charged | None, unit: str = "h", tone: Tone = Tone.WARN) -> Cell:
    """GPU-hours that are wasted; where none are, those that are suspected, after `~`."""
    if loss is None:
        return NO_VALUE
    if loss.wasted_s < 1 <= loss.suspected_s:
        return Cell(f"{SUSPICION}{units.gpu_hours(loss.suspected_s)}{unit}", tone)
    return hours_cell(loss.wasted_s, tone, unit)


def loss_words(loss: Charged | None) -> str:
    """GPU time that a finding costs: `3.4 GPU-h`, `~12 GPU-min` suspected, or both."""
    if loss is None:
        return ""
    wasted, suspected = units.gpu_time(loss.wasted_s), units.gpu_time(loss.suspected_s)
    if loss.suspected_s < 1:
        return wasted
    if loss.wasted_s < 1:
        return f"{SUSPICION}{suspected}"
    return f"{wasted}, {SUSPICION}{suspected}"


def loss_key(loss: Charged | None) -> tuple[float, ...] | None:
    """Order of what is wasted, then of what is suspected."""
    return None if loss is None else tuple(loss)


def job_loss(digest: Digest, view: JobView) -> Charged | None:
    """What a job lost; None: it is not, or no longer, in the books by itself."""
    books = digest.tick.ledger
    return None if books is None else books.lost_by_job.get(view.job.job_id)


def total_loss(total: Total | None) -> Charged | None:
    """What a line of the books lost."""
    return None if total is None else Charged(total.waste_s, total.suspicion_s)


def lost_since(loss: Charged | None, since: float) -> str:
    """`3.4 GPU-h lost since 14:03`; empty where nothing is."""
    if loss is None or sum(loss) < 1:
        return ""
    return f"{loss_words(loss)} lost since {units.clock_time(since)}"
