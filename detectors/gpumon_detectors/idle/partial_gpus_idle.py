"""Some of a job's GPUs are unused while the others work."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import (
    LEAST_EVIDENCE_S,
    SPINNING_SM,
    Confidence,
    Detector,
    Evidence,
    Severity,
    Window,
)
from gpumon_detectors.evidence.gpu_use import (
    NEEDS,
    PAST_S,
    PAUSE_S,
    SPINNING_POWER,
    SPINNING_UTIL,
    no_process,
    use_of,
)
from gpumon_detectors.evidence.job_commands import show_job, srun_in
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.stretch import began_with_job, since_words
from gpumon_detectors.evidence.watched import mean_over, surest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.evidence.gpu_use import GpuUse

_REST_SHARE: Final = 0.1
"""Share of the time in which a working GPU may rest for longer than a pause. Our choice: what the
taxonomy calls the duty of a checkpoint that costs too much."""

_LISTED: Final = 32
"""Unused GPUs that are listed one by one."""

_CRITICAL_SHARE: Final = 0.5
"""From half of the job's GPUs on, the job asked for at least twice what it uses."""


class _Split(NamedTuple):
    """A job's GPUs as they were through one window; positions in the job's order."""

    unused: tuple[int, ...]
    firsts: tuple[int, ...]
    """Row since which each of these is unused."""
    working: tuple[int, ...]
    silent: tuple[int, ...]
    """GPUs of which nothing is known now: never counted as unused."""
    use: GpuUse
    idle_s: tuple[float, ...]
    """Seconds for which it is known that each was unused."""

    @property
    def first(self) -> int:
        """Row since which the first of them is unused."""
        return min(self.firsts)


class PartialGpusIdle(Detector):
    """Claims that a job leaves some of its GPUs unused while others work.

    Unused is a GPU without process, with less than `idle_mem_ratio` of its memory in use and a
    utilisation of 0, in 99 % of the known time; nine tenths of its samples must be known, and what
    lies in longer holes is not counted. Working is one with a process and a mean utilisation
    above `busy_util_ratio` in nine of ten slices of two minutes and over the last five.
    All other GPUs are neither, and a job without a working GPU is another class. Where the others
    run kernels all the time that fill no more SMs than a collective that waits (.25), or without
    profiling counters draw at most 60 % of the power of before, since a GPU which the job used lost
    its process, they wait for it: that is `hang`.

    *Supported* after 10 minutes: launchers that start ranks in stages, and images that are pulled
    node by node, are through by then. *Established* after 30 minutes: also the serial phases that
    users put into jobs (download, tokenising, a first evaluation on fewer GPUs) have passed. While
    GPUs of the job are still being taken into use, the window begins again. Under five minutes
    nothing is claimed.

    Severity is `critical` where at least half of the job's GPUs are unused, `warning` below.

    The loss is the seconds for which each unused GPU was seen to be unused.
    """

    name = "partial_gpus_idle"
    version = "2"
    finding_classes = ("partial_gpus_idle",)
    needs = NEEDS
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 20.0

    def __init__(self, idle_mem_ratio: float = 0.01, busy_util_ratio: float = 0.05) -> None:
        self.idle_mem_ratio = idle_mem_ratio
        self.busy_util_ratio = busy_util_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that leaves GPUs unused while others of it work."""
        for job in view.jobs:
            if len(job.gpus) < 2 or not self._may_apply(job):
                continue
            use = use_of(job, PAST_S, self.idle_mem_ratio)
            split = None if use is None else self._split(job, use)
            if split is not None:
                yield self._finding(view, job, split)

    def _may_apply(self, job: JobLook) -> bool:
        """Whether the newest values alone allow the claim; spares most jobs the whole window."""
        processes = job.latest("compute_process_count")
        is_alike = (processes > 0).all() or (processes == 0).all() or np.isnan(processes).all()
        return not bool(is_alike)

    def _split(self, job: JobLook, use: GpuUse) -> _Split | None:
        """The surest split into unused and working GPUs, None where there is none."""
        rows = len(use.past.times)
        own_firsts = np.array(use.empty_rows())
        is_unused = own_firsts < rows
        firsts = np.minimum(np.maximum(own_firsts, _last_launch(use, ~is_unused)), rows - 1)
        idle_from_s, gpus = use.idle_seconds_from_rows(), np.arange(len(firsts))
        idle_s = idle_from_s[firsts, gpus]
        for needed_s in (self.established_after_s, self.supported_after_s, LEAST_EVIDENCE_S):
            chosen = np.flatnonzero(is_unused & (idle_s >= needed_s))
            if not len(chosen):
                continue
            # Each from its own time on, where others worked all the while; else all from the last.
            for begins in (firsts, np.full(len(firsts), firsts[chosen].max())):
                first = int(begins[chosen].min())
                working = self._working(use, first)
                if len(working) and not _was_left_by(job, use, chosen, working, first):
                    return _Split(
                        unused=_positions(chosen),
                        firsts=_positions(begins[chosen]),
                        working=_positions(working),
                        silent=_positions(np.flatnonzero(~use.is_known[-1])),
                        use=use,
                        idle_s=tuple(idle_from_s[begins, gpus][chosen].tolist()),
                    )
        return None

    def _working(self, use: GpuUse, first: int) -> NDArray[np.intp]:
        """GPUs with a process that hardly ever rested longer than a pause, nor do now."""
        past = use.past
        times, processes = past.times[first:], past.columns["compute_process_count"][first:]
        level = past.columns["gpu_util_ratio"][first:]
        samples = np.isfinite(processes).sum(axis=0)
        is_working = use.newest("compute_process_count") > 0
        is_working &= (processes == 0).sum(axis=0) <= _REST_SHARE * samples
        is_known = np.isfinite(level)
        known_level = np.where(is_known, level, 0.0)
        # Slices are counted back from now: their rows are neighbours.
        edges = np.flatnonzero(np.diff((times[-1] - times) // PAUSE_S, prepend=np.inf))
        total = np.add.reduceat(known_level, edges, axis=0)
        count = np.add.reduceat(is_known, edges, axis=0, dtype=np.intp)
        seen = (count > 0).sum(axis=0)
        is_working &= (total > self.busy_util_ratio * count).sum(axis=0) >= np.maximum(
            (1 - _REST_SHARE) * seen, 1
        )
        late = times >= times[-1] - LEAST_EVIDENCE_S
        known_late = is_known[late].sum(axis=0)
        is_working &= known_level[late].sum(axis=0) > self.busy_util_ratio * known_late
        return np.flatnonzero(is_working)

    def _finding(self, view: View, job: JobLook, split: _Split) -> Finding:
        past, idle_s = split.use.past, split.idle_s
        begin = float(past.begins[split.first])
        window = Window(begin, float(past.times[-1]), len(past.times) - split.first)
        total, count = len(job.gpus) + job.gpus_unknown, len(split.unused)
        is_open = split.first == 0 and not began_with_job(job, past, begin)
        known_s = min(idle_s)
        return view.finding(
            self,
            subject=job.subject,
            severity=(Severity.CRITICAL if count >= _CRITICAL_SHARE * total else Severity.WARNING),
            summary=f"{count} of {total} GPUs unused {since_words(window, is_open, max(idle_s))}",
            window=window,
            evidence=(*_evidence_of_use(job, split), *_evidence_of_gaps(job, split)),
            advice=tuple(_advice(job, split)),
            gpu_seconds=sum(idle_s),
            gpus=[job.gpus[position].uuid for position in split.unused],
            at_most=surest(self, known_s, window.samples, Confidence.ESTABLISHED),
        )


def _last_launch(use: GpuUse, is_taken: NDArray[np.bool_]) -> int:
    """Row at which the last of the GPUs in use was first taken into use, 0 where none was."""
    begun = use.is_known & ~use.is_empty
    return max((int(np.argmax(begun[:, column])) for column in np.flatnonzero(is_taken)), default=0)


def _was_left_by(
    job: JobLook, use: GpuUse, unused: NDArray[np.intp], working: NDArray[np.intp], first: int
) -> bool:
    """Whether all the others only wait since GPUs that worked with them lost their processes."""
    if not (use.is_known & ~use.is_empty)[:first, unused].any(axis=0).all():
        return False
    columns = use.past.columns
    sm, util = (columns[key][first:, working] for key in ("sm_active_ratio", "gpu_util_ratio"))
    mean_util = mean_over(util)
    if not (mean_util >= SPINNING_UTIL).all():
        return False
    mean_sm = mean_over(np.where(np.isfinite(util), sm, np.nan))
    if np.isfinite(mean_sm).all():
        return bool((mean_sm < SPINNING_SM).all())
    return _has_fallen(job, working, float(use.past.begins[first]))


def _has_fallen(job: JobLook, places: NDArray[np.intp], since: float) -> bool:
    """Whether GPUs draw so much less power since a Unix time that they only wait."""
    past = job.past(("power_w",), PAST_S)
    power = past.columns["power_w"][:, places]
    is_since = past.begins >= since
    before, now = mean_over(power[~is_since]), mean_over(power[is_since])
    return bool((now <= SPINNING_POWER * before).all())


def _positions(indices: NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(int(index) for index in indices)


def _evidence_of_use(job: JobLook, split: _Split) -> Iterator[Evidence]:
    """What was measured on the unused GPUs, one by one, and on the working ones."""
    past = split.use.past
    total = split.use.newest("mem_total_bytes")
    for position, first in list(zip(split.unused, split.firsts, strict=True))[:_LISTED]:
        used = past.columns["mem_used_bytes"][first:, position]
        most, size, samples = float(np.nanmax(used)), float(total[position]), len(used)
        yield Evidence(
            field="compute_process_count",
            subject=f"gpu:{job.gpus[position].uuid}",
            text=f"{job.gpus[position].place}: {no_process(job, position)}, utilisation 0 %, "
            f"at most {most / 2**20:.0f} MiB of {size / 2**30:.0f} GiB in use, {samples} samples",
            value=0.0,
        )
    if len(split.unused) > _LISTED:
        rest = len(split.unused) - _LISTED
        yield Evidence(
            "compute_process_count",
            job.subject,
            f"unused as well: {counted(rest, 'GPU')}",
            float(rest),
        )
    util = past.columns["gpu_util_ratio"][split.first :]
    working = util[:, split.working].astype(np.float64)
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
            yield Evidence("compute_process_count", job.subject, text, float(count))


def _advice(job: JobLook, split: _Split) -> Iterable[str]:
    """Next steps; a command only with an id that is a number."""
    per_node = Counter(gpu.node for gpu in job.gpus)
    unused_per_node = Counter(job.gpus[position].node for position in split.unused)
    in_use = {per_node[node] - unused_per_node[node] for node in per_node}
    sizes = set(per_node.values())
    is_even = len(in_use) == 1 and len(sizes) == 1 and not job.gpus_unknown
    want = f"{max(sizes)}" if is_even else "the GPUs of each node"
    yield (
        "Start one process per GPU: torchrun --nproc_per_node or srun --ntasks-per-node equal to "
        f"{want}, and check that CUDA_VISIBLE_DEVICES does not hide GPUs."
    )
    if is_even and max(in_use) > 0:
        yield f"Or ask for what the job uses: --gres=gpu:{max(in_use)} per node."
    else:
        yield "Or ask for fewer GPUs or nodes: --gres, --gpus-per-node, --nodes."
    within, shown = srun_in(job.job), show_job(job)
    if within is not None and shown is not None:
        yield f"What the job may see: {within} nvidia-smi -L"
        yield f"What it was given: {shown}"
