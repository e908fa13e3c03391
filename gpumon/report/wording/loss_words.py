"""Lost GPU time in words: what is wasted, and after `~` what is only suspected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from gpumon.model.records.ledger import SUSPICION, Charged
from gpumon.report.facts.columns import Column
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.ledger import Losing, Total
    from gpumon.report.facts.losses import Stake
    from gpumon.report.facts.tick_index import Digest

R = TypeVar("R")

LOSING: Final = "losing_gpus"
"""Key of the column of what is lost now; by it every list is ordered at first."""

LEAST_GPUS: Final = 0.05
"""Below this nothing is left of a rate with one decimal."""


def hours_cell(gpu_seconds: float | None, tone: Tone = Tone.PLAIN, unit: str = "") -> Cell:
    """GPU-hours, with a unit where the title names none; zero is dim."""
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


def rate_cell(losing: Losing | None) -> Cell:
    """GPU-hours lost an hour, which is a number of GPUs: `16`, `~2.0` suspected, `4.4~0.8` both."""
    if losing is None:
        return NO_VALUE
    wasted, suspected = losing
    if max(losing) < LEAST_GPUS:
        return Cell("<0.1" if sum(losing) > 0 else "0", Tone.DIM)
    text = units.tenths(wasted) if wasted >= LEAST_GPUS else ""
    if suspected >= LEAST_GPUS:
        text += f"{SUSPICION}{units.tenths(suspected)}"
    return Cell(text, Tone.WARN)


def losing_column(stake_of: Callable[[Digest, R], Stake | None], doc: str) -> Column[R]:
    """What is lost an hour; sorts as every list does at first.

    Args:
        stake_of: What a row costs; None: unknown.
        doc: Whose loss it is.
    """

    def cell(digest: Digest, row: R) -> Cell:
        stake = stake_of(digest, row)
        return rate_cell(None if stake is None else stake.losing)

    def order(digest: Digest, row: R) -> tuple[float, ...] | None:
        stake = stake_of(digest, row)
        return None if stake is None else stake.key

    def value(digest: Digest, row: R) -> float | None:
        stake = stake_of(digest, row)
        return None if stake is None else sum(stake.losing)

    return Column(
        key=LOSING,
        title="LOST/H",
        width=7,
        align="right",
        priority=0,
        cell=cell,
        order=order,
        doc=f"GPU-hours lost an hour now{doc}; after ~ what is suspected. Sorted by what loses "
        "most, and how sure that is.",
        max_width=0,
        is_descending=True,
        unit="",
        value=value,
    )


def loss_words(loss: Charged | None) -> str:
    """GPU time that a finding costs: `3.4 GPU-h`, `~0.20 GPU-h` suspected, or both."""
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
    """What a job lost; None: it has no entry of its own in the ledger, or no longer has one."""
    ledger = digest.tick.ledger
    return None if ledger is None else ledger.lost_by_job.get(view.job.job_id)


def total_loss(total: Total | None) -> Charged | None:
    """What a line of the ledger lost."""
    return None if total is None else Charged(total.waste_s, total.suspicion_s)


def lost_since(loss: Charged | None, since: float) -> str:
    """`3.4 GPU-h lost since 14:03`; empty where nothing is."""
    if loss is None or sum(loss) < 1:
        return ""
    return f"{loss_words(loss)} lost since {units.clock_time(since)}"
