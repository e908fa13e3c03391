"""Memory of a job grows steadily towards its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import HOLDING_STATES, Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.phrases import clock_time, gib, span
from gpumon_detectors.evidence.watched import (
    levels,
    newest_of,
    seen_s,
    surest,
    unbroken,
    window_of,
)
from gpumon_detectors.requests.growth import SHORTEST_S, growth_of, may_have_grown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumon.plugin import Finding, JobLook, Past, View, Window
    from gpumon_detectors.requests.growth import Growth

_SPAN_S: Final = 24 * 3600.0
"""Growth is judged over the last day: what takes longer to fill memory is no trouble of this run
(our choice)."""

_SOON_S: Final = 24 * 3600.0
"""What would be full in more than a day is no trouble of this run."""

_WORKS: Final = 0.01
"""Utilisation above which a GPU computes: the noise of idle ones stays below (measured)."""

_MOSTLY: Final = 0.5
"""Share of the time from which on what was moved is known well enough to say it of all of it."""

_MARGIN_S: Final = 1.0
"""Sums of seconds in another order are not the same to the last digit."""

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""

_MEMORY: Final = ("mem_used_bytes", "mem_total_bytes", "gpu_util_ratio")
_GROUP: Final = ("job_mem_used_bytes", "job_mem_limit_bytes")
_OWN: Final = ("job_io_read_bytes_per_s", "job_io_write_bytes_per_s")
_MOUNTS: Final = ("fs_read_bytes_per_s", "fs_write_bytes_per_s")
_HOST: Final = ("net_rx_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s")


class _Leak(NamedTuple):
    """Memory of one GPU or of one node that grows."""

    field: str
    subject: str
    place: str
    used: float
    limit: float
    growth: Growth
    window: Window
    seen_s: float
    at_most: Confidence = Confidence.ESTABLISHED
    note: str = ""
    """What else could explain it."""

    @property
    def text(self) -> str:
        """What was measured."""
        rate = gib(3600 * self.growth.bytes_per_s)
        return (
            f"{self.place}: {gib(self.used)} of {gib(self.limit)}, {gib(self.growth.grown_bytes)} "
            f"more than {span(self.window.end - self.window.start)} ago, {rate} an hour{self.note}"
        )


class MemoryLeak(Detector):
    """Claims that memory of a job grows until it is full.

    Memory of one of its GPUs, or of its control group on a node, is at least half full; its lowest
    values in the twelve parts of a window rise from part to part, by 2 % of the limit in all; it
    still grows in the last third at half the mean rate or more, through each of the last two parts
    at .55 of it and in the last hour at a quarter; and at that rate it is full within a day.
    Windows from half an hour to a day are tried, the longest first. Of a host the resident memory
    of the job's own processes on GPUs counts, else its control group's memory.

    *Supported* after 30 minutes, *established* after 2 hours: datasets that are loaded into memory,
    and warm-ups, are complete by then.

    What looks alike: memory that grew and is flat now; an allocator's cache grows in jumps and
    stays on its level; garbage that is collected makes a sawtooth whose lowest values do not rise,
    and where the window lies within one of its teeth, memory was as high before: that keeps the
    claim a *hypothesis*; a start levels off; weights are loaded while the GPU computes nothing. Old
    rows count with the lowest value behind them, as new ones do. The control group's memory
    includes the page cache, which grows with what is read and written and is given back: growth of
    it that is no more than the bytes moved meanwhile by the job's I/O, and where no other job is on
    the node by its disks and network, is not claimed. What moves on a node that is shared excuses
    nothing, and the claim stays a *hypothesis*, as it does for a dataset that may be loaded into
    memory: resident memory that grows no more than the job reads, within the first two hours, and
    then *supported*.

    Nothing is lost yet, so no loss is given; what is lost when the job dies is all since its last
    checkpoint. `warning`; `info` where the job ends by its time limit before.
    """

    name = "memory_leak"
    version = "2"
    finding_classes = ("memory_leak",)
    needs = ("mem_used_bytes", "mem_total_bytes")
    wants: ClassVar[Mapping[str, str]] = {"job_mem_used_bytes": "memory of hosts"}
    supported_after_s = SHORTEST_S
    established_after_s = 7200.0
    every_s = 60.0

    def __init__(self, filled_ratio: float = 0.5) -> None:
        self.filled_ratio = filled_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job with memory that will be full, which names what is full first."""
        for job in view.jobs:
            leaks = [*self._of_gpus(job), *self._of_hosts(view, job)]
            leaks = [_doubted(leak) for leak in leaks if leak.growth.full_in_s <= _SOON_S]
            if leaks:
                yield self._finding(view, job, sorted(leaks, key=_precedence))

    def _of_gpus(self, job: JobLook) -> Iterator[_Leak]:
        used, total = job.latest(_MEMORY[0]), job.latest(_MEMORY[1])
        # One that misses a sample may be full.
        if (used < self.filled_ratio * total).all():
            return
        past = unbroken(job.past(_MEMORY, _SPAN_S))
        if _is_short(past):
            return
        limits = newest_of(past, _MEMORY[1])
        with np.errstate(invalid="ignore"):
            is_filled = newest_of(past, _MEMORY[0]) >= self.filled_ratio * limits
        grown = np.flatnonzero(is_filled & may_have_grown(past.columns[_MEMORY[0]], limits))
        if not len(grown):
            return
        past = unbroken(job.past(_MEMORY, _SPAN_S, 1))
        for place in grown:
            gpu = job.gpus[place]
            util = past.columns["gpu_util_ratio"][:, place]
            with np.errstate(invalid="ignore"):
                at_work = None if np.isnan(util).all() else util > _WORKS
            limit = float(limits[place])
            lows = levels(past, past.lows[_MEMORY[0]][:, place])
            growth = growth_of(past, lows, limit, at_work)
            if growth is not None:
                newest = float(newest_of(past, _MEMORY[0])[place])
                yield _leak(_MEMORY[0], gpu.subject, gpu.place, past, newest, limit, growth)

    def _of_hosts(self, view: View, job: JobLook) -> Iterator[_Leak]:
        names = [f"{node}/{job.job.job_id}" for node in job.job.nodes]
        used, most = view.history.newest(names, _GROUP, "cgroup").astype(np.float64)
        # One that misses a sample may be full.
        if (used < self.filled_ratio * most).all():
            return
        past = unbroken(job.cgroup_past(_GROUP, _SPAN_S))
        if not len(past.times):
            return
        limits = newest_of(past, _GROUP[1])
        with np.errstate(invalid="ignore"):
            is_filled = newest_of(past, _GROUP[0]) >= self.filled_ratio * limits
        if not is_filled.any():
            return
        has_grown = may_have_grown(past.columns[_GROUP[0]], limits)
        for place in np.flatnonzero(is_filled):
            limit = float(limits[place])
            leak = _of_processes(view, job, int(place), limit)
            if leak is None and has_grown[place]:
                leak = _of_cgroup(view, job, int(place), limit)
            if leak is not None:
                yield leak

    def _finding(self, view: View, job: JobLook, leaks: list[_Leak]) -> Finding:
        first = leaks[0]
        full_at = view.now + first.growth.full_in_s
        ends_before = job.job.end_at is not None and job.job.end_at < full_at
        then = ", after its time limit" if ends_before else ""
        more = f"; {len(leaks) - 1} more of its GPUs and nodes" if len(leaks) > 1 else ""
        is_gpu = first.field == "mem_used_bytes"
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.INFO if ends_before else Severity.WARNING,
            summary=f"{'GPU' if is_gpu else 'host'} memory grows, full at about "
            f"{clock_time(full_at)} (in {span(first.growth.full_in_s)}{then}): "
            f"{first.place}{more}",
            window=first.window,
            at_most=surest(self, first.seen_s, first.window.samples, first.at_most),
            evidence=[
                Evidence(leak.field, leak.subject, leak.text, leak.used) for leak in leaks[:_LISTED]
            ],
            advice=(
                _GPU_ADVICE if is_gpu else _HOST_ADVICE,
                "Make sure that a checkpoint is written before: the job can then resume from it.",
                *inspect_commands(job),
            ),
        )


_GPU_ADVICE: Final = (
    "Look for tensors that stay alive from step to step: losses added up without .item(), outputs "
    "in lists, graphs that are retained. torch.cuda.memory._record_memory_history shows who holds "
    "it."
)
_HOST_ADVICE: Final = (
    "Look for what grows in data loaders and logs: Python lists copied into every worker, caches "
    "without a bound. memray or tracemalloc shows who holds it; fewer workers hold less."
)


def _is_short(past: Past) -> bool:
    """Whether so little was seen that nothing can have grown for long enough."""
    return not len(past.times) or seen_s(past) < SHORTEST_S - _MARGIN_S


def _precedence(leak: _Leak) -> tuple[int, float]:
    """The surest first, among these what is full first."""
    return -leak.at_most.rank, leak.growth.full_in_s


def _doubted(leak: _Leak) -> _Leak:
    """A leak, a guess where as much was freed before: what grows may be freed again."""
    if not leak.growth.was_freed:
        return leak
    note = f"{leak.note}, but it was as high before, and was freed"
    return leak._replace(at_most=Confidence.HYPOTHESIS, note=note)


def _of_processes(view: View, job: JobLook, place: int, limit: float) -> _Leak | None:
    """Growth of what the job's processes on a node hold themselves, which is no page cache."""
    key, node = "process_rss_bytes", job.job.nodes[place]
    pids = [f"{node}/{process.pid}" for process in job.processes if process.node == node]
    if not pids:
        return None
    past = unbroken(view.past(pids, (key,), _SPAN_S, peaks=1))
    if not len(past.times):
        return None
    lows = np.array([levels(past, column) for column in past.lows[key].T]).sum(axis=0)
    growth = growth_of(past, lows, limit)
    if growth is None:
        return None
    newest = float(newest_of(past, key).sum())
    leak = _leak(key, f"node:{node}", node, past, newest, limit, growth)
    moved = _moved_bytes(view, job, node, leak.window.start)
    if growth.grown_bytes > moved.own + (0.0 if _is_shared(view, job, node) else moved.of_node):
        return leak
    # Of processes no past is longer than an hour and a half; that of the control group is.
    group = _group_growth(job, place, limit)
    since = min(leak.window.start, leak.window.start if group is None else group.window.start)
    is_young = leak.window.end - since < MemoryLeak.established_after_s
    return leak._replace(
        at_most=Confidence.HYPOTHESIS if is_young else Confidence.SUPPORTED,
        note=", no more than was read and written: data may be held in memory",
    )


def _of_cgroup(view: View, job: JobLook, place: int, limit: float) -> _Leak | None:
    """Growth of the job's control group on a node beyond what its page cache explains."""
    leak, node = _group_growth(job, place, limit), job.job.nodes[place]
    if leak is None:
        return None
    growth = leak.growth
    moved = _moved_bytes(view, job, node, leak.window.start)
    if growth.grown_bytes > moved.own + moved.of_node:
        return leak
    if growth.grown_bytes <= moved.own or not _is_shared(view, job, node):
        return None
    return leak._replace(
        at_most=Confidence.HYPOTHESIS,
        note=", and the node, which others use too, moved more, which may be theirs",
    )


def _group_growth(job: JobLook, place: int, limit: float) -> _Leak | None:
    """Growth of the job's control group on a node, whatever it is of."""
    past = unbroken(job.cgroup_past(_GROUP, _SPAN_S, 1))
    key, node = _GROUP[0], job.job.nodes[place]
    growth = growth_of(past, levels(past, past.lows[key][:, place]), limit)
    if growth is None:
        return None
    newest = float(newest_of(past, key)[place])
    return _leak(key, f"node:{node}", node, past, newest, limit, growth)


def _is_shared(view: View, job: JobLook, node: str) -> bool:
    """Whether another job holds anything on a node."""
    return any(other is not job for other in view.jobs_on(node)) or any(
        node in record.nodes and record.state in HOLDING_STATES for record in view.records
    )


def _leak(
    field: str,
    subject: str,
    place: str,
    past: Past,
    used: float,
    limit: float,
    growth: Growth,
) -> _Leak:
    grown = past.since_row(growth.first)
    return _Leak(
        field=field,
        subject=subject,
        place=place,
        used=used,
        limit=limit,
        growth=growth,
        window=window_of(grown),
        seen_s=seen_s(grown),
    )


class _Moved(NamedTuple):
    """Most bytes that the page cache of a node can have taken in."""

    own: float
    """Moved by the job's own control group."""
    of_node: float
    """Moved by the node's disks, network and mounts, whoever it was for."""


def _moved_bytes(view: View, job: JobLook, node: str, since: float) -> _Moved:
    """What was moved since a time."""
    mounts = [f"{node}/{key}" for key in view.nodes[node].block("filesystem").keys]
    own = _moved(view, [f"{node}/{job.job.job_id}"], _OWN, since)
    of_node = _moved(view, [node], _HOST, since)
    return _Moved(own, of_node + _moved(view, mounts, _MOUNTS, since))


def _moved(view: View, entities: list[str], keys: tuple[str, ...], since: float) -> float:
    """Bytes; what is missing of them, as in a hole, counts as the rest does."""
    if not entities:
        return 0.0
    past = view.past(entities, keys, view.now - since + 1.0)
    seconds, whole_s = past.seconds_from(0), view.now - since
    moved = 0.0
    for key in keys:
        known_s = seconds @ np.isfinite(past.columns[key])
        known = seconds @ np.nan_to_num(past.columns[key])
        is_most = known_s > _MOSTLY * whole_s
        moved += float(np.where(is_most, known * whole_s / np.maximum(known_s, 1.0), known).sum())
    return moved
