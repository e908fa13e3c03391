"""CPUs or memory were asked for, are not used, and keep others from the node's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import LEAST_KNOWN
from gpumon_detectors.evidence.host_use import SLICE_S
from gpumon_detectors.evidence.job_commands import show_job
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.watched import (
    known_share,
    newest_of,
    seen_s,
    surest,
    unbroken,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Allocation, Finding, JobLook, NodeFacts, Past, View

_SPAN_S: Final = 6 * 3600.0
"""How far back the window reaches: beyond *established*."""

_KEYS: Final = ("job_cpu_cores_used", "job_mem_peak_bytes", "job_mem_limit_bytes")

_SPARE: Final = 1.25
"""What is advised over the most that was used: a run's later phases may need a little more."""


class _Excess(NamedTuple):
    """What one job holds of one node and does not use."""

    what: str
    """`CPUs` or `memory`."""
    asked: float
    used: float
    blocked_gpus: float
    """GPUs of the node that its free CPUs or memory no longer suffice for."""


class Overasked(Detector):
    """Claims that a job asked for CPUs or memory that it leaves unused and others miss.

    Signature: on a node of the job less than `used_ratio` of its CPUs, or of its memory, are ever
    used (CPUs: the busiest two minutes of the window; memory: the kernel's own peak since the job
    began, page cache included), while its share of the node's CPUs or memory exceeds its share of
    the node's GPUs by a whole GPU's: that many of the node's GPUs cannot be given to other jobs.
    The taxonomy's bound is a fifth; Princeton's Job Defense Shield reports cores and memory per GPU
    above the node's.

    *Supported* after 60 minutes, *established* after 4 hours: start-up, the first evaluation and
    the first checkpoint have passed by then.

    What looks alike: a job that takes the whole node blocks none of its GPUs; one that uses what
    it asked for once an hour shows it within the window, and hours ago as far as means over five
    minutes allow it; one that failed early has ended. Without
    the job's cgroup, or where Slurm does not say what the node has, nothing is claimed.

    The job's own GPU time is not lost, so no GPU-seconds are named; the blocked GPUs are evidence.
    """

    name = "overasked"
    version = "1"
    finding_classes = ("overasked",)
    needs = _KEYS
    supported_after_s = 3600.0
    established_after_s = 14400.0
    every_s = 300.0

    def __init__(self, used_ratio: float = 0.2) -> None:
        self.used_ratio = used_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that blocks GPUs with CPUs or memory that it does not use."""
        nodes = view.nodes
        for job in view.jobs:
            may_block = [
                (column, nodes[held.node], held)
                for column, name in enumerate(job.job.nodes)
                for held in job.job.allocations
                if held.node == name and name in nodes and _may_block(nodes[name], held, job)
            ]
            if not may_block:
                continue
            past = unbroken(job.cgroup_past(_KEYS, _SPAN_S, 1))
            if not len(past.times):
                continue
            found = [
                excess
                for column, node, held in may_block
                for excess in _excesses(past, column, node, held)
                if excess.used < self.used_ratio * excess.asked
            ]
            if found:
                yield _finding(self, view, job, past, found)


def _blocked(node_has: float | None, asks: float | None, node_gpus: int, gpus: int) -> float:
    """GPUs of a node for which a job leaves too little of something, beyond its own."""
    if not node_has or not asks:
        return 0.0
    return min(1.0, asks / node_has) * node_gpus - gpus


def _may_block(node: NodeFacts, held: Allocation, job: JobLook) -> bool:
    """Whether the job's share of the node exceeds its share of the GPUs by a whole one."""
    slurm = node.slurm
    if slurm is None or not slurm.gpu_count:
        return False
    mem = job.job.mem_bytes / max(1, len(job.job.nodes)) if job.job.mem_bytes else None
    return any(
        _blocked(has, asks, slurm.gpu_count, held.gpu_count) >= 1
        for has, asks in ((slurm.cpu_count, held.cpu_count), (slurm.mem_bytes, mem))
    )


def _excesses(past: Past, column: int, node: NodeFacts, held: Allocation) -> Iterator[_Excess]:
    """CPUs and memory that the job holds on one node, where they block a GPU."""
    slurm = node.slurm
    if slurm is None or not slurm.gpu_count:
        return
    cores, limit = (float(newest_of(past, key)[column]) for key in (_KEYS[0], _KEYS[2]))
    blocked = _blocked(slurm.cpu_count, held.cpu_count, slurm.gpu_count, held.gpu_count)
    is_seen = known_share(past, _KEYS[0])[column] >= LEAST_KNOWN and np.isfinite(cores)
    if blocked >= 1 and held.cpu_count and is_seen:
        yield _Excess("CPUs", float(held.cpu_count), _most_cores(past, column), blocked)
    # A limit above the node's memory is none: Slurm then does not confine the job.
    asked = limit if limit <= (slurm.mem_bytes or 0.0) else None
    blocked = _blocked(slurm.mem_bytes, asked, slurm.gpu_count, held.gpu_count)
    peaks = past.columns[_KEYS[1]][:, column]
    if blocked >= 1 and asked and np.isfinite(peaks).any():
        yield _Excess("memory", asked, float(np.nanmax(peaks)), blocked)


def _most_cores(past: Past, column: int) -> float:
    """CPUs in use over the busiest two minutes, no less than they were.

    An old row stands for longer: all its work may have been done within two minutes of it, as far
    as its largest sample allows.
    """
    cores = past.columns[_KEYS[0]][:, column]
    squeezed = cores * np.maximum(1.0, past.seconds / SLICE_S)
    most = np.minimum(past.peaks[_KEYS[0]][:, column], squeezed)
    is_known = np.isfinite(most)
    slices = ((past.times[-1] - past.times[is_known]) // SLICE_S).astype(np.intp)
    means = np.bincount(slices, most[is_known]) / np.maximum(np.bincount(slices), 1)
    return float(means.max())


def _finding(
    detector: Overasked, view: View, job: JobLook, past: Past, found: list[_Excess]
) -> Finding:
    window, known_s = window_of(past), seen_s(past)
    worst = max(found, key=lambda excess: excess.blocked_gpus)
    evidence, advice = [], []
    for excess in sorted(found, reverse=True, key=lambda excess: excess.blocked_gpus)[:8]:
        asked, used = excess.asked, excess.used
        if excess.what == "CPUs":
            field, text = _KEYS[0], f"{used:.1f} of {asked:.0f} CPUs used at most"
            wanted = (
                f"{counted(round(max(1.0, _SPARE * used)), 'CPU')} a node: sbatch --cpus-per-task"
            )
        else:
            field, text = _KEYS[1], f"{gib(used)} of {gib(asked)} of memory used at most"
            enough = max(1.0, _SPARE * used / 2**30)
            wanted = f"less memory a node: sbatch --mem={enough:.0f}G"
        blocked = f"the rest keeps {excess.blocked_gpus:.1f} of its GPUs from other jobs"
        evidence.append(Evidence(field, job.subject, f"on one node {text}; {blocked}", used))
        advice.append(f"Next time ask for {wanted}")
    advice = list(dict.fromkeys(advice))
    shown = show_job(job)
    if shown is not None:
        advice.append(f"What it asked for: {shown}")
    count = counted(int(worst.blocked_gpus), "GPU")
    return view.finding(
        detector,
        subject=job.subject,
        severity=Severity.INFO,
        summary=f"uses {100 * worst.used / worst.asked:.0f} % of its {worst.what} and keeps "
        f"{count} of the node from others ({span(known_s)} observed)",
        window=window,
        at_most=surest(detector, known_s, window.samples, Confidence.ESTABLISHED),
        evidence=evidence,
        advice=advice[:6],
    )
