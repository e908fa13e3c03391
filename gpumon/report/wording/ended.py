"""Jobs that have ended, in words: how many, over which time, and what became of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import finding_class
from gpumon.model.records.ledger import SUSPICION
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone

if TYPE_CHECKING:
    from gpumon.model.records.accounting import EndedJob, EndedJobs
    from gpumon.model.records.ledger import Total
    from gpumon.model.records.tick import Tick


def ended_title(found: EndedJobs) -> str:
    """What the table is about: how many runs, in which window, with how much GPU time in it."""
    runs, count = len(found.jobs), len({ended.job.job_id for ended in found.jobs})
    jobs = units.counted(count, "job")
    ended = jobs if runs == count else f"{runs} runs of {jobs}"
    seconds, _ = found.held
    held = f", {units.gpu_time(seconds)} within" if seconds else ""
    unread = f", {found.unreadable} unreadable" if found.unreadable else ""
    last = ", of each its last run alone" if found.has_last_runs_only else ""
    return f"{ended} ended {window_words(found)}{last}{held}{unread}"


_LEAST_SHARE: Final = 0.01
"""A loss below this share of what was observed is no verdict."""

_UNSEEN_SHARE: Final = 0.10
"""A verdict names the unobserved share of a run from this one on."""


def run_total(tick: Tick, ended: EndedJob) -> Total | None:
    """The ledger's total of a run; None: there is no ledger, or nothing of the run was observed."""
    job = ended.job
    total = None if tick.ledger is None else tick.ledger.run(job.job_id, job.start_at, job.end_at)
    return total if total is not None and total.observed_s >= 1.0 else None


def ended_verdict(tick: Tick, ended: EndedJob) -> Cell:
    """What became of the GPU time of a run: by the ledger, else by what the accounting gathered."""
    if ended.job.gpu_count == 0:
        return Cell(f"{units.MISSING} no GPUs", Tone.DIM)
    total = run_total(tick, ended)
    if total is not None:
        return _ledger_verdict(total)
    util = ended.gpu_util_ratio
    if util is None:
        return Cell(f"{units.MISSING} not watched", Tone.DIM)
    if util < LOW_RATIO:
        idle_s = ended.gpu_idle_seconds
        idle = "" if idle_s is None else f" {units.gpu_hours(idle_s)}h"
        return Cell(f"! no kernel{idle} ({units.percent(1.0 - util)} %)", Tone.WARN)
    return Cell(f"{_SOUND} kernels ran ({units.percent(util)} %)", Tone.DIM)


_SOUND: Final = "·"
"""Before what is no trouble, in the place of a sign of severity."""


def _ledger_verdict(total: Total) -> Cell:
    """The largest cause with what it took, else what was useful; and how much was not observed."""
    unseen, part = "", total.unobserved_share
    if part is not None and part >= _UNSEEN_SHARE:
        unseen = f", {units.percent(part)} % unseen"
    for by_class, mark, doubt in (
        (total.wasted_s, "", ""),
        (total.suspected_s, SUSPICION, "?"),
    ):
        if not by_class or sum(by_class.values()) < _LEAST_SHARE * total.observed_s:
            continue
        cause, seconds = max(by_class.items(), key=lambda pair: pair[1])
        share = units.percent(total.of_observed(seconds))
        words = f"{finding_class(cause).title}{doubt} {mark}{units.gpu_hours(seconds)}h ({share} %)"
        return Cell(f"! {words}{unseen}", Tone.WARN)
    useful = units.percent(total.of_observed(total.useful_s))
    return Cell(f"{_SOUND} useful {useful} %{unseen}", Tone.DIM)


def window_words(found: EndedJobs) -> str:
    """`in the last 24 h`, `in the last 31 days`; since the beginning: all of the accounting."""
    if found.since <= 0.0:
        return "as far back as the accounting goes"
    return f"in the last {units.span(found.at - found.since)}"
