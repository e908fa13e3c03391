"""What speaks for a pause where a job stands still: how sure that lets a hang be, and why."""

from __future__ import annotations

from math import isfinite, nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import SPINNING_SM, Confidence, Evidence
from gpumon_detectors.evidence.gpu_use import PAUSE_S, UNTOUCHED_MEMORY
from gpumon_detectors.evidence.host_use import MOST_POLL_CORES, SLEEPING_AFTER_WORK_S
from gpumon_detectors.evidence.phrases import span
from gpumon_detectors.evidence.watched import newest_of
from gpumon_detectors.ranks.standstill import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import JobLook
    from gpumon_detectors.evidence.host_use import Flow, HostUse
    from gpumon_detectors.evidence.job_context import JobContext
    from gpumon_detectors.ranks.standstill import Standstill

_UNSURE_UNTIL_S: Final = 600.0
"""Until then what plain counters, or sleeping ranks, show may be a pause: alarms of production
systems wait so long (DLRover and ByteRobust: ten minutes)."""

_STIRRING_UNTIL_S: Final = 1800.0
"""Until then what is read, written or computed on CPUs may be the reason of a pause: a checkpoint
of a large model to a slow file system, an evaluation. Our choice: ten times a long checkpoint."""

_STEADY_S: Final = 1200.0
_STEADY_PAUSE_S: Final = 60.0
"""Bursts of a server last 8.6 minutes in nine of ten cases, 21.9 in 99 of a hundred (a published
trace); work for so long without a minute's pause is none (our choice)."""

_SILENT_AFTER_S: Final = 180.0
"""An output that has been written since does not yet speak for a hang."""

_HABIT_S: Final = 60.0
"""Training prints its loss more often than this (our choice: every 10 to 100 steps)."""
_HABIT_SHARE: Final = 0.9
"""Of its samples: a checkpoint may interrupt it (our choice)."""

_LEAST_KNOWN: Final = 0.5
"""Share of that work over which the output must have been seen (our choice)."""

_BEFORE_S: Final = 3600.0
_MORE: Final = 1.25
"""What may be a neighbour's speaks for a pause only if it is so many times what went on in the hour
before, while the job worked (our choice: traffic of loaders varies by less)."""


class Doubt(NamedTuple):
    """How sure a claim may be, and the evidence for that, if it is one of its own."""

    most: Confidence
    evidence: Evidence | None = None


def doubts_of(
    job: JobLook,
    host: HostUse,
    still: Standstill,
    context: JobContext,
    *,
    is_asleep: bool,
    is_explained: bool,
) -> tuple[Doubt, ...]:
    """All that speaks for a pause of a job, or against one.

    Args:
        job: The job.
        host: What it does off its GPUs.
        still: Since when its GPUs stand still.
        context: What kind of job it is.
        is_asleep: Whether its ranks sleep, so that no kernel of theirs runs.
        is_explained: Whether it is known why they wait for one of them (`Suspects`).
    """
    age_s = output_age_s(job)
    # Ranks that do not wait with the others, and an output that is silent since: no pause is so.
    is_backed = bool(still.places(State.SPINS) and still.places(State.RESTS))
    is_backed &= age_s >= still.known_s
    is_explained &= not context.is_bursty
    is_backed |= is_explained
    is_alone = bool(still.places(State.ENDLESS))
    falls_silent = (is_asleep or is_alone) and fell_silent(job, still)
    unsure_until_s = 0.0 if is_backed or falls_silent else _UNSURE_UNTIL_S
    return (
        *_by_kind(still, context, unsure_until_s, is_asleep, is_explained),
        *_by_kernel(job, still, age_s, falls_silent=falls_silent),
        *_by_host(job, host, still, unsure_until_s),
        *_by_output(job, still, age_s),
    )


def output_age_s(job: JobLook) -> float:
    """Seconds since the job last wrote to an output file, NaN where nobody knows."""
    past = job.cgroup_past(("job_output_age_s",), _UNSURE_UNTIL_S)
    if not len(past.times):
        return nan
    ages = newest_of(past, "job_output_age_s")
    known = ages[np.isfinite(ages)]
    return float(known.min()) if len(known) else nan


def fell_silent(job: JobLook, still: Standstill) -> bool:
    """Whether the job wrote to its output every minute of steady work, and not since."""
    return output_age_s(job) >= still.known_s and _used_to_print(job, still)


def only_spins(job: JobLook, still: Standstill) -> bool:
    """Whether the one kernel of a job's only GPU waits, as far as its counters tell.

    It fills no more SMs than a collective that waits, and fetches nothing from memory that it could
    compute with; the work before never paused for long, as a server's does that polls so for its
    next request. Where the output is seen, nothing was written to it since.
    """
    sm, memory = (
        still.mean(key, still.members) for key in ("sm_active_ratio", "dram_active_ratio")
    )
    if not (sm < SPINNING_SM and memory < UNTOUCHED_MEMORY):
        return False
    if still.worked_s < SLEEPING_AFTER_WORK_S or still.longest_pause_s > PAUSE_S:
        return False
    return not output_age_s(job) < still.known_s


def _used_to_print(job: JobLook, still: Standstill) -> bool:
    """Whether the job worked without a pause before, and wrote to its output every minute."""
    if not _was_steady(still):
        return False
    since = still.window_start - _STEADY_S
    past = job.cgroup_past(("job_output_age_s",), float(still.past.times[-1]) - since)
    # Of what is long past a row is minutes long: that in which the job stopped tells of both.
    is_before = (past.times > since) & (past.times <= still.window_start - past.seconds)
    ages = past.columns["job_output_age_s"][is_before]
    # Each node that may read it tells of the same output.
    newest = np.where(np.isnan(ages), np.inf, ages).min(axis=1, initial=np.inf)
    is_known = np.isfinite(newest)
    known_s = float(past.seconds[is_before][is_known].sum())
    had_habit = (newest[is_known] <= _HABIT_S).mean() >= _HABIT_SHARE if is_known.any() else False
    return bool(had_habit) and known_s >= _LEAST_KNOWN * _STEADY_S


def _by_kind(
    still: Standstill,
    context: JobContext,
    unsure_until_s: float,
    is_asleep: bool,
    is_explained: bool,
) -> Iterator[Doubt]:
    yield Doubt(Confidence.ESTABLISHED)
    if not still.worked_s or context.is_interactive or context.sounds_interactive:
        yield Doubt(Confidence.HYPOTHESIS)
    is_odd_sleep = is_asleep and not (is_explained or _was_steady(still))
    if is_asleep or not still.has_counters:
        until_s = _STIRRING_UNTIL_S if is_odd_sleep else unsure_until_s
        yield Doubt(_until(still, until_s, Confidence.SUPPORTED))


def _by_kernel(
    job: JobLook, still: Standstill, age_s: float, *, falls_silent: bool
) -> Iterator[Doubt]:
    """One rank that goes on alone may evaluate, or work through something for the others.

    But not where the job printed every minute, never paused before, and is silent since; unless it
    is a job's only one, beside which nobody waits.
    """
    is_lone = len(job.gpus) == 1
    if not still.places(State.ENDLESS) or (falls_silent and not is_lone):
        return
    if is_lone and not falls_silent:
        text = "a kernel may wait for its program by design: no output shows that it gets on or not"
        yield Doubt(Confidence.HYPOTHESIS, Evidence("job_output_age_s", job.subject, text))
        return
    is_backed = age_s >= still.known_s and len(still.states) > 1
    until_s = _UNSURE_UNTIL_S if is_backed else _STIRRING_UNTIL_S
    yield Doubt(_until(still, until_s, Confidence.SUPPORTED))


def _was_steady(still: Standstill) -> bool:
    """Whether the job worked without a pause before, as training does and servers do not."""
    return still.worked_s >= _STEADY_S and still.longest_pause_s <= _STEADY_PAUSE_S


def _by_host(
    job: JobLook, host: HostUse, still: Standstill, unsure_until_s: float
) -> Iterator[Doubt]:
    """What goes on beside the GPUs since then, the job's own and what may be others'."""
    for flow in host.flows:
        mean = flow.mean(still.window_start)
        limit = MOST_POLL_CORES * len(still.members) if flow.is_cpu else flow.limit
        if not mean > limit or (not flow.is_own and _is_as_before(flow, mean, still)):
            continue
        if flow.is_own:
            most = _until(still, _STIRRING_UNTIL_S, Confidence.SUPPORTED)
        else:
            most = _until(still, unsure_until_s, Confidence.ESTABLISHED)
        yield Doubt(most, _stir(job, flow, mean))


def _is_as_before(flow: Flow, mean: float, still: Standstill) -> bool:
    """Whether as much went on while the job was at work: then it is no pause of the job's."""
    start = still.window_start
    before = flow.mean(start - _BEFORE_S, start)
    return bool(still.worked_s) and mean <= _MORE * before


def _stir(job: JobLook, flow: Flow, mean: float) -> Evidence:
    since_then = "meanwhile" if flow.is_own else "meanwhile, perhaps another job's"
    how = f"{mean:.1f} CPUs busy" if flow.is_cpu else f"{mean / 1e6:.1f} MB/s {flow.what}"
    return Evidence(flow.key, job.subject, f"{since_then}: {how}", mean)


def _by_output(job: JobLook, still: Standstill, age_s: float) -> Iterator[Doubt]:
    """Silence speaks for a hang, a word of late against it."""
    if not isfinite(age_s):
        return
    text = f"last wrote to its output {span(age_s)} ago"
    if age_s >= _SILENT_AFTER_S:
        yield Doubt(Confidence.ESTABLISHED, Evidence("job_output_age_s", job.subject, text, age_s))
        return
    most = _until(still, _STIRRING_UNTIL_S, Confidence.SUPPORTED)
    yield Doubt(most, Evidence("job_output_age_s", job.subject, f"but {text}", age_s))


def _until(still: Standstill, seconds: float, later: Confidence) -> Confidence:
    return Confidence.HYPOTHESIS if still.known_s < seconds else later
