"""The columns of the table of jobs that have ended, and the order in which they are listed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone
from gpumon.report.wording.ended import ended_verdict, run_total
from gpumon.report.wording.loss_words import loss_cell, loss_key, total_loss
from gpumon.report.wording.verdict_words import state_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.accounting import EndedJob
    from gpumon.report.facts.tick_index import Digest

_OOM_SIGNAL: Final = 125
"""What is left of Slurm's own SIG_OOM (253) in the seven bits of a signal; no real one has it."""


def ended_order(_digest: Digest, ended: EndedJob) -> SortKey:
    """Those that ended last come first."""
    return (-(ended.job.end_at or 0.0), ended.run_key)


def ended_search_text(digest: Digest, ended: EndedJob) -> str:
    """What the row filter looks through, lower case."""
    job, verdict = ended.job, ended_verdict(digest.tick, ended).text
    words = (
        job.label, job.name, job.user, job.account, job.partition, job.state, *job.nodes, verdict,
    )  # fmt: skip
    return "\n".join(words).lower()


def exit_text(ended: EndedJob) -> str:
    """Exit status, or the signal that ended it: `3`, `SIG9`, `OOM`."""
    if ended.exit_signal == _OOM_SIGNAL:
        return "OOM"
    if ended.exit_signal:
        return f"SIG{ended.exit_signal}"
    return units.MISSING if ended.exit_status is None else str(ended.exit_status)


def _exit(_digest: Digest, ended: EndedJob) -> Cell:
    text = exit_text(ended)
    if text == units.MISSING:
        return NO_VALUE
    return Cell(text, Tone.DIM if text == "0" else Tone.BAD)


def _hours(of: Callable[[EndedJob], float | None]) -> Callable[[Digest, EndedJob], Cell]:
    def cell(_digest: Digest, ended: EndedJob) -> Cell:
        seconds = of(ended)
        return NO_VALUE if seconds is None else Cell(units.gpu_hours(seconds))

    return cell


def _ratio(of: Callable[[EndedJob], float | None]) -> Callable[[Digest, EndedJob], Cell]:
    def cell(_digest: Digest, ended: EndedJob) -> Cell:
        value = of(ended)
        if value is None:
            return NO_VALUE
        return Cell(units.percent(value), Tone.WARN if value < LOW_RATIO else Tone.PLAIN)

    return cell


def _by(
    of: Callable[[EndedJob], float | None],
) -> Callable[[Digest, EndedJob], SortKey | None]:
    def order(_digest: Digest, ended: EndedJob) -> SortKey | None:
        value = of(ended)
        return None if value is None else (value,)

    return order


def _gpus(_digest: Digest, ended: EndedJob) -> Cell:
    count = ended.job.gpu_count
    return NO_VALUE if count is None else Cell(str(count), Tone.PLAIN if count else Tone.DIM)


def _rss(_digest: Digest, ended: EndedJob) -> Cell:
    found = ended.max_rss_bytes
    return NO_VALUE if found is None else Cell(units.gib(found))


def _ended(digest: Digest, ended: EndedJob) -> Cell:
    at = ended.job.end_at
    return NO_VALUE if at is None else Cell(units.short_duration(max(0.0, digest.tick.at - at)))


def _elapsed(_digest: Digest, ended: EndedJob) -> Cell:
    found = ended.elapsed_s
    return NO_VALUE if found is None else Cell(units.slurm_duration(found))


_COLUMNS: Final[tuple[Column[EndedJob], ...]] = (
    Column(
        "job_id",
        "JOBID",
        8,
        "left",
        priority=0,
        cell=lambda _d, e: Cell(e.job.label),
        order=lambda _d, e: (float(e.job.job_id) if e.job.job_id.isdecimal() else inf, e.job.label),
        doc="Slurm's job id; an array task as 6_1.",
        max_width=12,
    ),
    Column(
        "user",
        "USER",
        8,
        "left",
        priority=2,
        cell=lambda _d, e: Cell(e.job.user),
        order=lambda _d, e: (e.job.user,),
        doc="Owner of the job.",
        max_width=12,
    ),
    Column(
        "account",
        "ACCOUNT",
        7,
        "left",
        priority=9,
        cell=lambda _d, e: Cell(e.job.account) if e.job.account else EMPTY_CELL,
        order=lambda _d, e: (e.job.account,),
        doc="Slurm account that the job is charged to.",
        max_width=12,
    ),
    Column(
        "state",
        "ST",
        3,
        "left",
        priority=0,
        cell=lambda _d, e: state_cell(e.job.state),
        order=lambda _d, e: (e.job.state,),
        doc="Slurm's state code: CD completed, F failed, CA cancelled, TO timed out, PR "
        "preempted, RQ requeued, NF its node failed, RS resized. Each run has a line.",
        value=lambda _d, e: e.job.state,
    ),
    Column(
        "exit",
        "EXIT",
        5,
        "right",
        priority=1,
        cell=_exit,
        order=lambda _d, e: (e.job.exit_code,) if e.job.exit_code else None,
        doc="Exit status of the batch script, or SIG and the signal that ended it.",
    ),
    Column(
        "ended",
        "AGO",
        6,
        "right",
        priority=1,
        cell=_ended,
        order=ended_order,
        doc="Time since the job ended.",
        unit="s",
        value=lambda d, e: None if e.job.end_at is None else max(0.0, d.tick.at - e.job.end_at),
    ),
    Column(
        "elapsed",
        "ELAPSED",
        10,
        "right",
        priority=2,
        cell=_elapsed,
        order=_by(lambda e: e.elapsed_s),
        doc="Time that the job ran.",
        max_width=0,
        is_descending=True,
        unit="s",
    ),
    Column(
        "gpus",
        "GPUS",
        5,
        "right",
        priority=0,
        cell=_gpus,
        order=_by(lambda e: None if e.job.gpu_count is None else float(e.job.gpu_count)),
        doc="GPUs that the job held.",
        max_width=0,
        is_descending=True,
        unit="",
    ),
    Column(
        "gpu_hours",
        "GPU-H",
        6,
        "right",
        priority=0,
        cell=_hours(lambda e: e.gpu_seconds),
        order=_by(lambda e: e.gpu_seconds),
        doc="GPU-hours that the job held.",
        max_width=8,
        is_descending=True,
        unit="GPU-s",
    ),
    Column(
        "wasted_gpu_s",
        "LOST",
        7,
        "right",
        priority=1,
        cell=lambda d, e: loss_cell(total_loss(run_total(d.tick, e))),
        order=lambda d, e: loss_key(total_loss(run_total(d.tick, e))),
        doc="Wasted GPU-hours by the ledger; after ~ suspected ones; – where the job was not "
        "watched.",
        max_width=0,
        is_descending=True,
        unit="GPU-s",
    ),
    Column(
        "verdict",
        "VERDICT",
        24,
        "left",
        priority=0,
        cell=lambda d, e: ended_verdict(d.tick, e),
        order=lambda d, e: (ended_verdict(d.tick, e).text,),
        doc="The cause that lost most, with its GPU-hours and its share of what was observed, or "
        "how much was useful, by the ledger; for a job that gpumon did not watch, what the "
        "accounting gathered.",
        max_width=48,
    ),
    Column(
        "gpu_util_ratio",
        "UTIL%",
        5,
        "right",
        priority=3,
        cell=_ratio(lambda e: e.gpu_util_ratio),
        order=_by(lambda e: e.gpu_util_ratio),
        doc="Share of time in which any kernel ran, as the cluster's accounting gathered it.",
    ),
    Column(
        "gpu_idle_hours",
        "IDLE-H",
        6,
        "right",
        priority=4,
        cell=_hours(lambda e: e.gpu_idle_seconds),
        order=_by(lambda e: e.gpu_idle_seconds),
        doc="GPU-hours without a running kernel, where the accounting gathers utilisation.",
        max_width=8,
        is_descending=True,
        unit="GPU-s",
    ),
    Column(
        "cpu_used_ratio",
        "CPU%",
        4,
        "right",
        priority=5,
        cell=_ratio(lambda e: e.cpu_used_ratio),
        order=_by(lambda e: e.cpu_used_ratio),
        doc="Share of the job's CPU time that it used.",
        max_width=0,
        is_descending=True,
        unit="ratio",
    ),
    Column(
        "mem_used_ratio",
        "MEM%",
        4,
        "right",
        priority=6,
        cell=_ratio(lambda e: e.mem_used_ratio),
        order=_by(lambda e: e.mem_used_ratio),
        doc="Largest share of the job's host memory that it used.",
        max_width=0,
        is_descending=True,
        unit="ratio",
    ),
    Column(
        "max_rss_bytes",
        "RSS GiB",
        7,
        "right",
        priority=9,
        cell=_rss,
        order=_by(lambda e: e.max_rss_bytes),
        doc="Largest host memory of one of its tasks.",
        max_width=0,
        is_descending=True,
        unit="bytes",
    ),
    Column(
        "name",
        "NAME",
        8,
        "left",
        priority=3,
        cell=lambda _d, e: Cell(e.job.name),
        order=lambda _d, e: (e.job.name,),
        doc="The job's name.",
        max_width=60,
    ),
)

ENDED_COLUMNS: Final = shown_first(
    ("job_id", "user", "state", "ended", "gpu_hours", "wasted_gpu_s", "verdict", "name"), _COLUMNS
)
