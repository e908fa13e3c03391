"""Memory of a job grows steadily towards its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.finding import Evidence, Severity, Window
from gpumon_detectors.evidence.growth import SHORTEST_S, growth_of
from gpumon_detectors.evidence.job_commands import look_inside
from gpumon_detectors.evidence.phrases import clock_time, gib, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.detect.series import Table
    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding
    from gpumon_detectors.evidence.growth import Growth

_SPAN_S: Final = 24 * 3600.0
_SOON_S: Final = 24 * 3600.0
"""What would be full in more than a day is no trouble of this run."""

_LISTED: Final = 8
_OWN: Final = ("job_io_read_bytes_per_s", "job_io_write_bytes_per_s")
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

    @property
    def text(self) -> str:
        """What was measured."""
        rate = gib(3600 * self.growth.bytes_per_s)
        return (
            f"{self.place}: {gib(self.used)} of {gib(self.limit)}, {gib(self.growth.grown_bytes)} "
            f"more than {span(self.window.end - self.window.start)} ago, {rate} an hour"
        )


class MemoryLeak(Detector):
    """Claims that memory of a job grows until it is full.

    Memory of one of its GPUs, or of its control group on a node, is at least half full; its lowest
    values in the twelve parts of a window rise from part to part, by 2 % of the limit in all; it
    still grows in the last third at half the mean rate or more; and at that rate it is full within
    a day. Windows from half an hour to a day are tried, the longest first.

    *Supported* after 30 minutes, *established* after 2 hours: datasets that are kept in memory,
    and warm-ups, are complete by then.

    What looks alike: an allocator's cache grows in jumps and stays on its level; garbage that is
    collected makes a sawtooth whose lowest values do not rise; a start levels off. The control
    group's memory includes the page cache, which grows with what is read and written and is given
    back: growth that is no more than the bytes moved meanwhile by the job's I/O, and by its nodes'
    disks and network, is not claimed.

    Nothing is lost yet, so no loss is told; what is lost when the job dies is all since its last
    checkpoint. `warning`; `info` where the job ends by its time limit before.
    """

    name = "memory_leak"
    version = "1"
    finding_classes = ("memory_leak",)
    needs = ("mem_used_bytes", "mem_total_bytes")
    supported_after_s = SHORTEST_S
    established_after_s = 7200.0
    every_s = 60.0

    def __init__(self, filled_ratio: float = 0.5) -> None:
        self.filled_ratio = filled_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job with memory that will be full, which names what is full first."""
        for job in view.jobs:
            leaks = [*self._of_gpus(job), *self._of_hosts(view, job)]
            leaks = [leak for leak in leaks if leak.growth.full_in_s <= _SOON_S]
            if leaks:
                yield self._finding(view, job, sorted(leaks, key=lambda k: k.growth.full_in_s))

    def _of_gpus(self, job: JobLook) -> Iterator[_Leak]:
        used, total = job.latest("mem_used_bytes"), job.latest("mem_total_bytes")
        with np.errstate(invalid="ignore"):
            full = np.flatnonzero(used >= self.filled_ratio * total)
        if not len(full):
            return
        table = job.table(("mem_used_bytes",), _SPAN_S)
        for place in full:
            gpu = job.gpus[place]
            column = table.columns["mem_used_bytes"][:, place]
            growth = growth_of(table.times, column, float(total[place]))
            if growth is not None:
                yield _leak(
                    "mem_used_bytes", gpu.subject, gpu.place, table, column, float(total[place]),
                    growth,
                )  # fmt: skip

    def _of_hosts(self, view: View, job: JobLook) -> Iterator[_Leak]:
        key = "job_mem_used_bytes"
        table = job.cgroup((key, "job_mem_limit_bytes"), _SPAN_S)
        if not len(table.times):
            return
        used, limits = table.columns[key], table.columns["job_mem_limit_bytes"]
        for place, name in enumerate(job.job.nodes):
            limit = float(limits[-1, place])
            if not used[-1, place] >= self.filled_ratio * limit:
                continue
            growth = growth_of(table.times, used[:, place], limit)
            if growth is None:
                continue
            since = float(table.times[growth.first])
            if growth.grown_bytes > _moved_bytes(view, job, name, since):
                yield _leak(key, f"node:{name}", name, table, used[:, place], limit, growth)

    def _finding(self, view: View, job: JobLook, leaks: list[_Leak]) -> Finding:
        first = leaks[0]
        full_at = view.now + first.growth.full_in_s
        ends_before = job.job.end_at is not None and job.job.end_at < full_at
        then = ", after its time limit" if ends_before else ""
        more = f"; {len(leaks) - 1} more" if len(leaks) > 1 else ""
        is_gpu = first.field == "mem_used_bytes"
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.INFO if ends_before else Severity.WARNING,
            summary=f"{'GPU' if is_gpu else 'host'} memory grows, full at about "
            f"{clock_time(full_at)} (in {span(first.growth.full_in_s)}{then}): "
            f"{first.place}{more}",
            window=first.window,
            evidence=[
                Evidence(leak.field, leak.subject, leak.text, leak.used) for leak in leaks[:_LISTED]
            ],
            advice=(
                _GPU_ADVICE if is_gpu else _HOST_ADVICE,
                "Make sure that a checkpoint is written before: the job can then go on from it.",
                *look_inside(job),
            ),
        )


_GPU_ADVICE: Final = (
    "Look for tensors that are kept from step to step: losses added up without .item(), outputs in "
    "lists, graphs that are retained. torch.cuda.memory._record_memory_history tells who holds it."
)
_HOST_ADVICE: Final = (
    "Look for what grows in data loaders and logs: Python lists copied into every worker, caches "
    "without a bound. memray or tracemalloc tells who holds it; fewer workers hold less."
)


def _leak(
    field: str,
    subject: str,
    place: str,
    table: Table,
    column: NDArray[np.float32],
    limit: float,
    growth: Growth,
) -> _Leak:
    times = table.times[growth.first :]
    window = Window(float(times[0]), float(times[-1]), len(times))
    return _Leak(field, subject, place, float(column[-1]), limit, growth, window)


def _moved_bytes(view: View, job: JobLook, node: str, since: float) -> float:
    """Most bytes that the page cache of a node can have taken in for the job since a time."""
    seconds = view.now - since + 1.0
    mounts = [f"{node}/{key}" for key in view.nodes[node].block("filesystem").keys]
    moved = 0.0
    for entities, keys in (
        ([f"{node}/{job.job.job_id}"], _OWN),
        ([node], _HOST),
        (mounts, ("fs_read_bytes_per_s", "fs_write_bytes_per_s")),
    ):
        if not entities:
            continue
        table = view.table(entities, keys, seconds)
        steps = np.diff(table.times, prepend=table.times[:1])[:, None]
        rates = (np.nan_to_num(table.columns[key]) for key in keys)
        moved += sum(float((steps * rate).sum()) for rate in rates)
    return moved
