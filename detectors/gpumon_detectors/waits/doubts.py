"""What speaks against a claim that GPUs wait for the host: how sure that lets it be, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Evidence
from gpumon_detectors.evidence.gpu_use import COPY_KEYS
from gpumon_detectors.evidence.job_context import context_of, serving_name
from gpumon_detectors.waits.causes import Cause, moved_bytes_per_s
from gpumon_detectors.waits.gpu_rows import comes_back, copied, mean
from gpumon_detectors.waits.steady import waits_quickly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import JobLook
    from gpumon_detectors.waits.causes import Waits

_LEAST_SAMPLES: Final = 30
"""Utilisation is that of a moment: of fewer its mean is off by more than a tenth (our choice)."""

_FEW_CPUS: Final = 2.0
"""CPUs a GPU below which the program that drives the GPU may fill them alone (our choice)."""

_COMPETE: Final = 0.1
"""Share of the time that some task waits for a CPU from which more than that program want them (our
choice)."""

_BY_TURNS: Final = 0.5
"""Part of the time in which GPUs work that CPUs must at most rest: with more they may work by
turns, as programs do that compute on both (our choice)."""

_PLAINLY_FULL: Final = 0.95
_PLAINLY_IDLE: Final = 0.25
"""Share of its CPUs that a job keeps busy, and of the time in which its GPUs work at most, at which
it does not matter that nobody tells whether tasks wait for I/O: where CPUs never rest, no faster
storage helps, and what computes on both by design works on its GPUs for more of the time (our
choices)."""

_GROWTH_SHARE: Final = 0.3
_GROWTH_BYTES_PER_S: Final = 5e6
"""Growth of a job's memory, over what is read and at least, at which the page cache still fills
(our choice)."""


class Doubt(NamedTuple):
    """The surest that a claim may be, and why."""

    most: Confidence
    evidence: Evidence


def doubts_of(job: JobLook, waits: Waits, portal_names: str) -> tuple[Doubt, ...]:
    """Everything that keeps a claim down."""
    found = [*_of_kind(job, waits, portal_names), *_of_samples(job, waits)]
    if waits.cause in (Cause.DATA, Cause.CROWD):
        found += _of_cpus(job, waits)
    if waits.cause is Cause.PROGRAM:
        text = "it may prepare data, or compute by design: only a profile of it can show which"
        found.append(_guess("process_cpu_cores_used", job, text))
    if waits.cause is Cause.STORAGE:
        found += _of_storage(job, waits)
    if waits.cause is Cause.CHECKPOINTS and waits.stir is not None and not waits.stir.written:
        text = "not seen: whether they write or read, as nothing counts their bytes"
        found.append(_guess("fs_write_bytes_per_s", job, text))
    if waits.cause is Cause.COMPILER:
        found += _of_pauses(job, waits)
    return tuple(found)


def surest_of(doubts: tuple[Doubt, ...]) -> Confidence:
    """What all of them allow."""
    steps = [doubt.most for doubt in doubts]
    return min(steps, key=lambda step: step.rank, default=Confidence.ESTABLISHED)


def _guess(key: str, job: JobLook, text: str, value: float | None = None) -> Doubt:
    return Doubt(Confidence.HYPOTHESIS, Evidence(key, job.subject, text, value))


def _of_kind(job: JobLook, waits: Waits, portal_names: str) -> Iterator[Doubt]:
    context = context_of(job, portal_names)
    if context.is_interactive:
        yield _guess("job", job, "a session, in which its user may be working")
    # What saves to storage time and again works in bursts, too, and is no server.
    if context.is_serving and waits.cause is not Cause.CHECKPOINTS:
        # Bursts that samples show of quick waits are none, and full CPUs wait for no request.
        is_full = waits.cause in (Cause.DATA, Cause.CROWD)
        if is_full and serving_name(job) is None and waits_quickly(waits.rows, waits.first):
            return
        yield _guess("job", job, f"may be a server that waits for requests: {context.why}")


def _of_samples(job: JobLook, waits: Waits) -> Iterator[Doubt]:
    if waits.pauses is not None:
        return
    count = int(np.isfinite(waits.rows.util[waits.first :]).sum())
    if count < _LEAST_SAMPLES:
        text = f"only {count} samples of a moment's utilisation: a shorter period shows it sooner"
        yield _guess("gpu_util_ratio", job, text, float(count))


def _of_pauses(job: JobLook, waits: Waits) -> Iterator[Doubt]:
    """Pauses between pieces of work, or no more than what samples show of quick waits."""
    text = "breaks between files or batches look the same: only the program's log can show it"
    yield _guess("gpu_util_ratio", job, text)
    if waits.pauses is None or waits.pauses.are_sure:
        return
    text = "its pauses are one or two samples long: waits in each step may look the same"
    yield _guess("gpu_util_ratio", job, text)
    if not np.isfinite(copied(job, waits.rows)).any():
        text = "not seen: copies over PCIe, for which its GPUs may wait instead"
        yield _guess("pcie_rx_bytes_per_s", job, text)


def _of_cpus(job: JobLook, waits: Waits) -> Iterator[Doubt]:
    host, rows, first = waits.host, waits.rows, waits.first
    if not host.is_own:
        text = "not seen: CPU time of the job alone, which its control group would show"
        yield _guess("job_cpu_cores_used", job, text)
    # Loaders that never rest are as good as full CPUs, whatever is left beside them.
    full = 1.0 if waits.loaders else mean(host.cpu_share[first:], rows.seconds[first:])
    is_plain = full >= _PLAINLY_FULL and rows.busy_at_most(first) <= _PLAINLY_IDLE
    if not (is_plain or np.isfinite(host.io_pressure[first:]).any()):
        text = "not seen: whether its tasks wait for I/O rather than for CPUs"
        yield _guess("job_io_pressure_some_ratio", job, text)
    each = host.allowed / len(rows.members)
    if each < _FEW_CPUS and not mean(host.cpu_pressure[first:], rows.seconds[first:]) >= _COMPETE:
        text = (
            f"with {each:.1f} CPUs per GPU, driving the GPUs may fill them, no matter what they "
            "wait for"
        )
        yield _guess("job_cpu_count", job, text, each)
    idle = 1.0 - full
    if idle > _BY_TURNS * (1.0 - waits.lost_share):
        text = "its CPUs may rest while its GPUs work: in turns, which may be intended"
        yield _guess("job_cpu_cores_used", job, text, idle)
    if len(rows.members) == 1:
        yield from _of_way_back(job, waits)


def _of_way_back(job: JobLook, waits: Waits) -> Iterator[Doubt]:
    """A single GPU that sends back as much as it gets: a program that computes on both."""
    back = comes_back(job, waits.rows, waits.first)
    if back:
        text = f"{back / 1e6:.0f} MB/s come back from the GPU: it may compute on both by design"
        yield _guess(COPY_KEYS[1], job, text, back)


def _of_storage(job: JobLook, waits: Waits) -> Iterator[Doubt]:
    host = waits.host
    if not host.is_own_io:
        text = "not seen: I/O pressure of the job alone, which its control group would show"
        yield _guess("job_io_pressure_some_ratio", job, text)
    growth = cache_growth(waits)
    if growth:
        text = (
            f"its memory grows by {growth / 1e6:.0f} MB/s: the first pass over data that the page "
            "cache keeps may be slow once"
        )
        yield _guess("job_mem_used_bytes", job, text, growth)


def cache_growth(waits: Waits) -> float:
    """Bytes a second by which the page cache of a job fills with what it reads; 0: it does not."""
    memory = waits.host.memory[waits.first :]
    known = np.flatnonzero(np.isfinite(memory))
    late = known[len(known) // 2 :]
    times = waits.rows.times[waits.first :]
    if len(late) < 2:
        return 0.0
    growth = float(memory[late[-1]] - memory[late[0]]) / float(times[late[-1]] - times[late[0]])
    read = moved_bytes_per_s(waits, is_read=True)
    least = max(_GROWTH_BYTES_PER_S, _GROWTH_SHARE * read if read == read else 0.0)
    return growth if growth >= least else 0.0
