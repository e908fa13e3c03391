"""Jobs that have ended, for the document and for plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.model.finding_classes import finding_class
from gpumon.model.records.ledger import SUSPICION
from gpumon.report.facts.entities import moment, number
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone

if TYPE_CHECKING:
    from gpumon.model.records.accounting import EndedJob, EndedJobs, StepUsage
    from gpumon.model.records.ledger import Total
    from gpumon.model.records.tick import Tick

_DAY_MIN: Final = 1440.0


def ended_part(tick: Tick, found: EndedJobs) -> dict[str, Any]:
    """Members of the document about jobs that have ended."""
    gpu_seconds, unknown = found.held
    window = {
        "start": moment(found.since),
        "end": moment(found.at),
        "unreadable": found.unreadable,
        "gpu_seconds": number(gpu_seconds),
        "runs_without_gpu_seconds": unknown,
        "last_runs_only": found.has_last_runs_only,
    }
    return {"ended_jobs": [_job(tick, ended) for ended in found.jobs], "ended_window": window}


def running_steps(tick: Tick, job_id: str) -> list[dict[str, Any]] | None:
    """What a job's running steps have used; None where nobody asked, or Slurm did not tell."""
    found = tick.running_use.steps.get(job_id) if tick.running_use else None
    return None if found is None else [_step(step) for step in found]


def ended_title(found: EndedJobs) -> str:
    """What the table is about: how many runs, in which window, with how much GPU time in it."""
    runs, count = len(found.jobs), len({ended.job.job_id for ended in found.jobs})
    jobs = "1 job" if count == 1 else f"{count} jobs"
    ended = jobs if runs == count else f"{runs} runs of {jobs}"
    seconds, _ = found.held
    held = f", {units.gpu_time(seconds)} within" if seconds else ""
    unread = f", {found.unreadable} unreadable" if found.unreadable else ""
    last = ", of each its last run alone" if found.has_last_runs_only else ""
    return f"{ended} ended {window_words(found)}{last}{held}{unread}"


_TOLD_SHARE: Final = 0.01
"""A loss below this share of what was observed is no verdict."""

_UNSEEN_SHARE: Final = 0.10
"""From this part of a run on that nobody saw its verdict says so."""


def booked_run(tick: Tick, ended: EndedJob) -> Total | None:
    """What the books say of a run; None: nobody kept them, or saw anything of it."""
    job = ended.job
    total = None if tick.ledger is None else tick.ledger.run(job.job_id, job.start_at, job.end_at)
    return total if total is not None and total.observed_s >= 1.0 else None


def ended_verdict(tick: Tick, ended: EndedJob) -> Cell:
    """What became of the GPU time of a run: by the books, else by what the accounting gathered."""
    if ended.job.gpu_count == 0:
        return Cell(f"{units.MISSING} no GPUs", Tone.DIM)
    total = booked_run(tick, ended)
    if total is not None:
        return _booked_verdict(total)
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


def _booked_verdict(total: Total) -> Cell:
    """The largest cause with what it took, else what was useful; and how much nobody saw."""
    unseen, part = "", total.unobserved_share
    if part is not None and part >= _UNSEEN_SHARE:
        unseen = f", {units.percent(part)} % unseen"
    for by_class, mark, doubt in (
        (total.wasted_s, "", ""),
        (total.suspected_s, SUSPICION, "?"),
    ):
        if not by_class or sum(by_class.values()) < _TOLD_SHARE * total.observed_s:
            continue
        cause, seconds = max(by_class.items(), key=lambda pair: pair[1])
        share = units.percent(total.of_observed(seconds))
        words = f"{finding_class(cause).title}{doubt} {mark}{units.gpu_hours(seconds)}h ({share} %)"
        return Cell(f"! {words}{unseen}", Tone.WARN)
    useful = units.percent(total.of_observed(total.useful_s))
    return Cell(f"{_SOUND} useful {useful} %{unseen}", Tone.DIM)


def window_words(found: EndedJobs) -> str:
    """`in the last 24 h`, `in the last 31 days`; since the beginning of time: what is kept."""
    if found.since <= 0.0:
        return "as far back as the accounting goes"
    minutes = (found.at - found.since) / 60.0
    for size, name in ((_DAY_MIN, "days"), (60.0, "h")):
        if minutes >= 2 * size:
            return f"in the last {minutes / size:.3g} {name}"
    return f"in the last {minutes:.0f} min"


def _job(tick: Tick, ended: EndedJob) -> dict[str, Any]:
    job = ended.job
    return {
        "job_id": job.job_id,
        "label": job.label,
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "cluster": tick.cluster_of(job.job_id),
        "qos": job.qos or None,
        "state": job.state,
        "exit_status": ended.exit_status,
        "exit_signal": ended.exit_signal,
        "cancelled_by": ended.cancelled_by or None,
        "submitted_at": moment(job.submit_at),
        "started_at": moment(job.start_at),
        "ended_at": moment(job.end_at),
        "elapsed_s": number(ended.elapsed_s),
        "time_limit_s": number(job.time_limit_s),
        "nodes": list(job.nodes),
        "cpu_count": job.cpu_count,
        "mem_bytes": number(job.mem_bytes),
        "gpu_count": job.gpu_count,
        "gpu_seconds": number(ended.gpu_seconds),
        "gpu_idle_seconds": number(ended.gpu_idle_seconds),
        "cpu_used_s": number(ended.cpu_used_s),
        "cpu_used_ratio": number(ended.cpu_used_ratio),
        "mem_used_bytes": number(ended.mem_used_bytes),
        "mem_used_ratio": number(ended.mem_used_ratio),
        "max_rss_bytes": number(ended.max_rss_bytes),
        "gpu_util_ratio": number(ended.gpu_util_ratio),
        "gpu_mem_bytes": number(ended.gpu_mem_bytes),
        "energy_j": number(ended.energy_j),
        "steps": [_step(step) for step in ended.steps],
        "jobstats_fields": list(ended.jobstats_fields),
    }


def _step(step: StepUsage) -> dict[str, Any]:
    return {
        "step": step.step,
        "name": step.name,
        "state": step.state or None,
        "exit_code": step.exit_code or None,
        "elapsed_s": number(step.elapsed_s),
        "task_count": step.task_count,
        "cpu_used_s": number(step.cpu_used_s),
        "mem_used_bytes": number(step.mem_used_bytes),
        "max_rss_bytes": number(step.max_rss_bytes),
        "gpu_util_sum_ratio": number(step.gpu_util_sum_ratio),
        "gpu_mem_bytes": number(step.gpu_mem_bytes),
        "energy_j": number(step.energy_j),
    }
