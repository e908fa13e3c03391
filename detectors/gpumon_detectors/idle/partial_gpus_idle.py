"""Some of a job's GPUs are unused while the others work."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.detect.series import bridged, rows_since
from gpumon.model.finding import Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import PAST_S, together_since
from gpumon_detectors.evidence.job_commands import show_job, srun_in
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.stretch import began_with_job, since_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from gpumon.detect.series import Table
    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding

_SPAN_S: Final = 3600.0
"""How far back the claim looks; since when it holds is followed further back."""

_PAUSE_S: Final = 120.0
"""A working GPU may rest this long: the longest checkpoint pauses reported are about 96 s."""

_LISTED: Final = 32
"""Unused GPUs that are listed one by one."""

_CRITICAL_SHARE: Final = 0.5
"""From half of the job's GPUs on, the job asked for at least twice what it uses."""


class _Split(NamedTuple):
    """A job's GPUs as they were through one window; positions in the job's order."""

    unused: tuple[int, ...]
    working: tuple[int, ...]
    silent: tuple[int, ...]
    """GPUs without a current value of some field: unknown, never counted as unused."""
    table: Table


class PartialGpusIdle(Detector):
    """Claims that a job leaves some of its GPUs unused while others work.

    Unused is a GPU without process, with less than `idle_mem_ratio` of its memory in use and a
    utilisation of 0, at every sample of the window. Working is one that is never seen without a
    process and whose mean utilisation is above `busy_util_ratio` in every two minutes of it. All
    other GPUs are neither, and a job without a working GPU is another class.

    *Supported* after 10 minutes: launchers that start ranks in stages, and images that are pulled
    node by node, are through by then. *Established* after 30 minutes: also the serial phases that
    users put into jobs (download, tokenising, a first evaluation on fewer GPUs) have passed.
    While GPUs of the job are still being taken into use, the window begins anew.

    Severity is `critical` where at least half of the job's GPUs are unused, `warning` below.
    """

    name = "partial_gpus_idle"
    version = "1"
    finding_classes = ("partial_gpus_idle",)
    needs = ("process_count", "mem_used_bytes", "mem_total_bytes", "gpu_util_ratio")
    supported_after_s = 600.0
    established_after_s = 1800.0

    def __init__(self, idle_mem_ratio: float = 0.01, busy_util_ratio: float = 0.05) -> None:
        self.idle_mem_ratio = idle_mem_ratio
        self.busy_util_ratio = busy_util_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that leaves GPUs unused while others of it work."""
        for job in view.jobs:
            if len(job.gpus) < 2 or not self._may_apply(job):
                continue
            split = self._split(job)
            if split is not None:
                yield self._finding(view, job, split)

    def _may_apply(self, job: JobLook) -> bool:
        """Whether the newest values alone allow the claim; spares most jobs the whole window."""
        processes = job.latest("process_count")
        return bool((processes == 0).any() and (processes > 0).any())

    def _split(self, job: JobLook) -> _Split | None:
        """The surest split into unused and working GPUs, None where there is none."""
        table = job.table(self.needs, _SPAN_S)
        if not len(table.times):
            return None
        is_unused, is_known = self._unused(table)
        staged = _last_launch(is_unused, is_known)
        firsts = np.maximum(rows_since(is_unused), staged)
        ages = table.times[-1] - table.times[np.minimum(firsts, len(table.times) - 1)]
        is_candidate = firsts < len(table.times)
        for needed_s in (self.established_after_s, self.supported_after_s, 0.0):
            chosen = np.flatnonzero(is_candidate & (ages >= needed_s))
            if not len(chosen):
                continue
            first = int(firsts[chosen].max())
            part = table.since(first)
            working = self._working(part)
            if len(working):
                silent = np.flatnonzero(~is_known[-1])
                return _Split(_positions(chosen), _positions(working), _positions(silent), part)
        return None

    def _unused(self, table: Table) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Per row and GPU whether it is unused, and whether that is known."""
        processes, used, total, util = (table.columns[key] for key in self.needs)
        is_known = np.isfinite(processes) & np.isfinite(used) & np.isfinite(util) & (total > 0)
        is_light = used < self.idle_mem_ratio * total
        is_unused = is_known & (processes == 0) & is_light & (util == 0)
        return bridged(table.times, is_unused, is_known), is_known

    def _stretch(self, job: JobLook, split: _Split) -> tuple[Window, bool]:
        """Since when the GPUs are unused, also before the window, and whether perhaps longer."""
        table = split.table
        if table.length_s >= _SPAN_S - _PAUSE_S:
            long = job.table(self.needs, PAST_S)
            row = together_since(self._unused(long)[0][:, split.unused])
            table = long.since(row) if row < len(long.times) else table
        begin = float(table.begins[0])
        is_first = begin <= float(job.table(self.needs[:1], PAST_S).begins[0])
        is_open = is_first and not began_with_job(job, table, begin)
        return Window(begin, float(table.times[-1]), len(table.times)), is_open

    def _working(self, table: Table) -> NDArray[np.intp]:
        """GPUs never seen without a process, which never rested longer than a pause."""
        processes, util = table.columns["process_count"], table.columns["gpu_util_ratio"]
        is_working = (processes[-1] > 0) & ~(processes == 0).any(axis=0)
        slices = max(1, int((table.times[-1] - table.times[0]) // _PAUSE_S))
        edges = np.linspace(table.times[0], table.times[-1], slices + 1)[1:-1]
        for part in np.split(util, np.searchsorted(table.times, edges)):
            known = np.isfinite(part)
            total = np.where(known, part, 0).sum(axis=0, dtype=np.float64)
            is_working &= total > self.busy_util_ratio * known.sum(axis=0)
        return np.flatnonzero(is_working)

    def _finding(self, view: View, job: JobLook, split: _Split) -> Finding:
        times = split.table.times
        window = Window(float(times[0]), float(times[-1]), len(times))
        length_s = window.end - window.start
        total = len(job.gpus) + job.gpus_unknown
        count = len(split.unused)
        stretch, is_open = self._stretch(job, split)
        return view.finding(
            self,
            subject=job.subject,
            severity=(Severity.CRITICAL if count >= _CRITICAL_SHARE * total else Severity.WARNING),
            summary=f"{count} of {total} GPUs unused {since_words(stretch, is_open)}",
            window=window,
            onset=stretch.start,
            evidence=(*_evidence_of_use(job, split), *_evidence_of_gaps(job, split)),
            advice=tuple(_advice(job, split)),
            gpu_seconds=count * length_s,
            gpus=[job.gpus[position].uuid for position in split.unused],
        )


def _last_launch(is_unused: NDArray[np.bool_], is_known: NDArray[np.bool_]) -> int:
    """Row at which a GPU was last taken into use, 0 where none was: the launch took until then."""
    taken = is_unused[:-1] & is_known[1:] & ~is_unused[1:]
    rows = np.flatnonzero(taken.any(axis=1))
    return int(rows[-1]) + 1 if len(rows) else 0


def _positions(indices: NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(int(index) for index in indices)


def _evidence_of_use(job: JobLook, split: _Split) -> Iterator[Evidence]:
    """What was measured on the unused GPUs, one by one, and on the working ones."""
    samples = len(split.table.times)
    used, total = split.table.columns["mem_used_bytes"], split.table.columns["mem_total_bytes"]
    for position in split.unused[:_LISTED]:
        most, size = float(np.nanmax(used[:, position])), float(total[-1, position])
        yield Evidence(
            field="process_count",
            subject=f"gpu:{job.gpus[position].uuid}",
            text=f"{job.gpus[position].place}: no process, utilisation 0 %, at most "
            f"{most / 2**20:.0f} MiB of {size / 2**30:.0f} GiB in use, {samples} samples",
            value=0.0,
        )
    if len(split.unused) > _LISTED:
        rest = len(split.unused) - _LISTED
        yield Evidence(
            "process_count", job.subject, f"unused as well: {counted(rest, 'GPU')}", float(rest)
        )
    working = split.table.columns["gpu_util_ratio"][:, split.working].astype(np.float64)
    mean = float(working[np.isfinite(working)].mean())
    yield Evidence(
        field="gpu_util_ratio",
        subject=job.subject,
        text=f"working: {counted(len(split.working), 'GPU')} of this job, "
        f"mean utilisation {100 * mean:.0f} %",
        value=mean,
    )


def _evidence_of_gaps(job: JobLook, split: _Split) -> Iterator[Evidence]:
    """GPUs that were not judged."""
    for count, what in (
        (job.gpus_unknown, "named by no telemetry"),
        (len(split.silent), "without telemetry now"),
    ):
        if count:
            text = f"not judged: {counted(count, 'GPU')} of this job, {what}"
            yield Evidence("process_count", job.subject, text, float(count))


def _advice(job: JobLook, split: _Split) -> Iterable[str]:
    """Next steps; a command only with an id that is a number."""
    per_node = Counter(gpu.node for gpu in job.gpus)
    unused_per_node = Counter(job.gpus[position].node for position in split.unused)
    kept = {per_node[node] - unused_per_node[node] for node in per_node}
    sizes = set(per_node.values())
    is_even = len(kept) == 1 and len(sizes) == 1 and not job.gpus_unknown
    want = f"{max(sizes)}" if is_even else "the GPUs of each node"
    yield (
        "Start one process per GPU: torchrun --nproc_per_node or srun --ntasks-per-node equal to "
        f"{want}, and check that CUDA_VISIBLE_DEVICES does not hide GPUs."
    )
    if is_even and max(kept) > 0:
        yield f"Or ask for what the job uses: --gres=gpu:{max(kept)} per node."
    else:
        yield "Or ask for fewer GPUs or nodes: --gres, --gpus-per-node, --nodes."
    within, shown = srun_in(job.job), show_job(job)
    if within is not None and shown is not None:
        yield f"What the job may see: {within} nvidia-smi -L"
        yield f"What it was given: {shown}"
