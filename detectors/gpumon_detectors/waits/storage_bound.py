"""A job whose GPUs wait for the file system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Detector, Evidence
from gpumon_detectors.evidence.phrases import counted, listed
from gpumon_detectors.evidence.watched import mean_of
from gpumon_detectors.waits.causes import Cause
from gpumon_detectors.waits.claim import (
    WaitVerdict,
    busy_evidence,
    claimed,
    cpu_evidence,
    io_evidence,
    waiting_jobs,
)
from gpumon_detectors.waits.doubts import cache_growth
from gpumon_detectors.waits.gpu_rows import mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.waits.causes import Waits

_READ: Final = ("fs_read_bytes_per_s", "fs_read_exec_s")
_LATELY_S: Final = 600.0
"""Rates of a mount are averaged over ten minutes: an epoch's reads come in bursts (our choice)."""

_NOW_S: Final = 120.0
"""Over so long all jobs are asked at once whether they wait, too."""

_LEAST_READ_BYTES_PER_S: Final = 1e6
"""From here on a job's nodes read from a mount at all: home directories are below (our choice)."""

_OTHERS_WAIT: Final = 0.1
"""Share of the time that another job's tasks wait for I/O from which it waits, too."""

_FIRST_PASS_S: Final = 3600.0
"""So long the first pass over data that the page cache keeps may last (our choice)."""

_LISTED: Final = 4
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class StorageBound(Detector):
    """Claims that a job's GPUs wait for the file system.

    Signature: kernels run for less than 80 % of the time, even if such short samples missed some,
    and a few run in nearly every two minutes; meanwhile tasks of the job wait for I/O for at least
    30 % of the time in which its GPUs wait, and no less than 10 % of all time (pressure stall
    information of its control group); and it keeps no more than 70 % of its CPUs busy. Processes in
    uninterruptible sleep and the time of a mount's requests are named as well.

    Claimed and *supported* after 10 minutes, as a single slow checkpoint looks alike before;
    *established* after 30. With fewer than 30 samples of utilisation, which is half an hour at a
    period of 60 s, it is a *hypothesis*.

    Jobs that wait together and read from one server are named in each other's findings, with the
    server: it is their common cause then.

    What looks alike: checkpoints come in pauses (`checkpoint_stall`), and a job that waits for a
    rank in uninterruptible sleep does not work in between (`hang`). The first pass over data that
    the page cache keeps: while the job's memory grows with what is read, it stays a *hypothesis*;
    so it does of a session, and of what may be a server. Where the control group reports no
    pressure, that of the node counts, for a *hypothesis* and only for a job alone there: a
    neighbour's I/O is not held against a job.

    The loss is the share of the time in which no kernel runs, over that of the job's own steps
    without waits: as it was seen before, else 97 %.
    """

    name = "storage_bound"
    version = "1"
    finding_classes = ("storage_bound",)
    needs = ("gpu_util_ratio", "job_io_pressure_some_ratio")
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 30.0

    def __init__(self, portal_names: str = "") -> None:
        self.portal_names = portal_names

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job that waits for what it reads."""
        found = list(waiting_jobs(view, Cause.STORAGE, self.supported_after_s))
        waiting = _all_that_wait(view) if found else []
        for job, waits in found:
            if cache_growth(waits) and waits.rows.seen_s(waits.first) < _FIRST_PASS_S:
                continue
            if waits.host.is_own_io or waits.host.is_alone:
                mount = _mount_of(view, job)
                others = [] if mount is None else _others(view, waiting, job, mount)
                verdict = _verdict(job, waits, mount, others)
                yield claimed(self, view, job, waits, verdict, self.portal_names)


class _Mount(NamedTuple):
    """The mounted file system that a job's nodes read most from."""

    path: str
    server: str
    """What it is mounted from; empty where nobody says."""
    read_bytes_per_s: float
    request_s: float
    """Mean time of a read request, NaN where it is not known."""


def _mount_of(view: View, job: JobLook) -> _Mount | None:
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for node in job.nodes:
        block = node.block("filesystem")
        entities = [f"{node.name}/{key}" for key in block.keys]
        if not entities:
            continue
        past = view.past(entities, _READ, _LATELY_S)
        if not len(past.times):
            continue
        rates, times = (mean_of(past, key) for key in _READ)
        for row, key in enumerate(block.keys):
            name = (key, block.label("device", row) or "")
            found.setdefault(name, []).append((float(rates[row]), float(times[row])))
    mounts = [
        _Mount(path, server, float(np.nansum([rate for rate, _ in values])), _highest(values))
        for (path, server), values in found.items()
    ]
    read = [one for one in mounts if one.read_bytes_per_s >= _LEAST_READ_BYTES_PER_S]
    return max(read, key=lambda one: one.read_bytes_per_s, default=None)


def _highest(values: list[tuple[float, float]]) -> float:
    return max((time for _, time in values if time == time), default=float("nan"))


def _others(view: View, waiting: Sequence[JobLook], job: JobLook, mount: _Mount) -> list[JobLook]:
    """Jobs on other nodes among those that wait for I/O that read from the same server."""
    mine = set(job.job.nodes)
    apart = [other for other in waiting if mount.server and not mine & set(other.job.nodes)]
    mounts = [(other, _mount_of(view, other)) for other in apart]
    return [other for other, one in mounts if one is not None and one.server == mount.server]


def _all_that_wait(view: View) -> list[JobLook]:
    """Running jobs whose tasks have waited for I/O of late."""
    key = "job_io_pressure_some_ratio"
    entities, owners = [], []
    for job in view.running:
        entities += [f"{node}/{job.job.job_id}" for node in job.job.nodes]
        owners += [job] * len(job.job.nodes)
    past = view.past(entities, (key,), _NOW_S)
    waited = mean_of(past, key) if len(past.times) else np.zeros(len(owners))
    return list(dict.fromkeys(owners[place] for place in np.flatnonzero(waited >= _OTHERS_WAIT)))


def _verdict(
    job: JobLook, waits: Waits, mount: _Mount | None, others: Sequence[JobLook]
) -> WaitVerdict:
    what = f"GPUs wait for the file system {100 * waits.lost_share:.0f} % of the time"
    if others and mount is not None:
        what += f", as {counted(len(others), 'more job')} on {mount.server} do"
    evidence = (
        busy_evidence(job, waits),
        *io_evidence(job, waits),
        cpu_evidence(job, waits),
        *_stuck(job, waits),
        *(_of_mount(job, mount) if mount is not None else ()),
        *_together(others),
    )
    return WaitVerdict(what, evidence, _ADVICE, tuple(_machine_advice(mount, others)))


def _stuck(job: JobLook, waits: Waits) -> Iterator[Evidence]:
    stuck = mean(waits.host.stuck[waits.first :], waits.rows.seconds[waits.first :])
    if stuck > 0.0:
        whose = "" if waits.host.is_alone else ", perhaps another job's"
        text = f"{stuck:.1f} processes in uninterruptible sleep on average{whose}"
        yield Evidence("d_state_process_count", job.subject, text, stuck)


def _of_mount(job: JobLook, mount: _Mount) -> Iterator[Evidence]:
    of = f" of {mount.server}" if mount.server else ""
    rate = f"its nodes read {mount.read_bytes_per_s / 1e6:.0f} MB/s from {mount.path}{of}"
    yield Evidence("fs_read_bytes_per_s", job.subject, rate, mount.read_bytes_per_s)
    if mount.request_s == mount.request_s:
        text = f"a read there takes {1e3 * mount.request_s:.1f} ms"
        yield Evidence("fs_read_exec_s", job.subject, text, mount.request_s)


def _together(others: Sequence[JobLook]) -> Iterator[Evidence]:
    if others:
        names = [other.job.label or other.job.job_id for other in others[:_LISTED]]
        more = len(others) - len(names)
        named = listed([*names, *([f"{more} more"] if more else [])])
        text = f"jobs on other nodes that wait for the same server: {named}"
        yield Evidence("fs_read_exec_s", others[0].subject, text, float(len(others)))


_ADVICE: Final = (
    "Copy the data to local disk first, or pack small files into large ones (WebDataset, LMDB).",
    "Have more loaders read ahead (num_workers, prefetch_factor): its CPUs have room.",
)


def _machine_advice(mount: _Mount | None, others: Sequence[JobLook]) -> Iterator[str]:
    if mount is not None and mount.server and others:
        yield f"Look at the load of {mount.server}: several jobs wait for it at once."
