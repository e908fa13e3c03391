"""Jobs whose GPUs wait, second by second: a driver sees moments, profiling counters whole periods.

A program is a list of parts that is gone through again and again. What a sample shows follows from
it: utilisation is that of the last second, busy SMs are the mean since the sample before, and what
hosts tell is the mean of ten seconds.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpumon.detect.scene import WORKING, Scene
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST
from tests.unit.gpumon_detectors.noise import BETWEEN_HOLES_S, HOLE_S, thinned

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 2.0**30
_HOST_OVER_S = 10.0


class Part(NamedTuple):
    """Something that a program does for a while."""

    seconds: float
    kernel: float = 0.0
    sm: float = 0.0
    cores: float = 0.0
    """CPUs busy a GPU."""
    io: float = 0.0
    """Share of the time that some task waits for I/O."""
    read: float = 0.0
    written: float = 0.0
    """Bytes a second, over the node."""
    held: float = 50.0 * GIB
    rx: float = 0.0
    """Bytes a second to each GPU over PCIe."""
    tx: float = 3e6
    """And back from it."""


WORK = Part(1.0, kernel=0.98, sm=0.72, cores=2.0, read=4e6, rx=2e8)


def work(seconds, **other):
    """A part in which GPUs compute."""
    return WORK._replace(seconds=seconds, **other)


class Job(NamedTuple):
    """A job as Slurm and its node see it."""

    gpus: int = 4
    cpus: int = 8
    """For each GPU."""
    processes: int = 5
    """For each GPU."""
    load: float | None = None
    """Tasks that run or want to on the node; None: as many as CPUs are busy."""
    cpu_pressure: float = 0.1
    has_group: bool = True
    has_pressure: bool = True
    has_counters: bool = True
    has_mounts: bool = True
    has_copies: bool = True
    """Whether counters of PCIe are told."""
    memory_per_s: float = 0.0
    """Growth of its memory, bytes a second."""
    fields: Mapping[str, object] = MappingProxyType({})


class _Program:
    """Parts that are gone through again and again; means over them are exact."""

    def __init__(self, parts):
        self._edges = [0.0, *accumulate(part.seconds for part in parts)]
        self._length_s = self._edges[-1]
        self._parts = list(parts)
        self._sums = {
            name: [0.0, *accumulate(part.seconds * getattr(part, name) for part in parts)]
            for name in ("kernel", "sm", "cores", "io", "read", "written", "rx", "tx")
        }

    def at(self, second):
        """What it does at a time."""
        return self._parts[bisect_right(self._edges, second % self._length_s) - 1]

    def mean(self, name, end, span_s):
        """Mean of something over so long until a time, or since the begin."""
        begin = max(0.0, end - span_s)
        return (self._until(name, end) - self._until(name, begin)) / (end - begin)

    def _until(self, name, second):
        laps, left = divmod(second, self._length_s)
        place = bisect_right(self._edges, left) - 1
        inside = (left - self._edges[place]) * getattr(self._parts[place], name)
        sums = self._sums[name]
        return laps * sums[-1] + sums[place] + inside


def irregular(parts, lengths):
    """The parts again and again, the last of them each time of another length."""
    made = []
    for number, seconds in enumerate(lengths):
        made += [*parts[:-1], parts[-1]._replace(seconds=seconds)]
        made[-2] = made[-2]._replace(seconds=made[-2].seconds * (0.7 + 0.2 * (number % 4)))
    return made


def played(period_s, trouble, phases, job=None, neighbour=None):
    """A job that goes through phases: seconds, and the parts of its program then.

    Args:
        period_s: Seconds between two samples.
        trouble: One of `TROUBLES`; with a restart only the last half of the last phase is seen.
        phases: Seconds and parts.
        job: The job.
        neighbour: Parts of another job on the node, if there is one; a quiet one where the trouble
            is `shared`.
    """
    job = job or Job()
    shared = trouble == "shared" or neighbour is not None
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    uuids = scene.node("n", job.gpus + 2 if shared else job.gpus)
    mine, others = uuids[: job.gpus], uuids[job.gpus :]
    before_s = 0.0
    if trouble == "restart":
        before_s = sum(seconds for seconds, _ in phases[:-1]) + phases[-1][0] / 2
        phases = [(phases[-1][0] / 2, phases[-1][1])]
    start_at = scene.next_at - before_s
    scene.job("42", mine, start_at=start_at, cpu_count=job.cpus * job.gpus, **job.fields)
    if others:
        scene.job("43", others, cpu_count=16)
    dice = random.Random(f"{period_s} {trouble} {len(phases)}")
    beside = _Program(neighbour or [work(60.0)])
    passed_s = 0.0
    for seconds, parts in phases:
        program = _Program(parts)
        done_s = 0.0
        while done_s < seconds:
            done_s += period_s
            passed_s += period_s
            into_s = passed_s % (BETWEEN_HOLES_S + HOLE_S)
            if trouble == "holes" and into_s > BETWEEN_HOLES_S:
                scene.skip(period_s)
                continue
            _sample(scene, job, program, done_s, period_s, trouble, dice, mine, others, beside)
    return scene, mine


def _sample(scene, job, program, now_s, period_s, trouble, dice, mine, others, beside):
    host_s = max(period_s, _HOST_OVER_S)
    of = {name: program.mean(name, now_s, host_s) for name in ("cores", "io", "read", "written")}
    cores = job.gpus * of["cores"]
    theirs = {n: beside.mean(n, now_s, host_s) * bool(others) for n in ("io", "read", "written")}
    io = 1.0 - (1.0 - of["io"]) * (1.0 - theirs["io"])
    load = cores + 1.0 if job.load is None else job.load
    pressure = {"io_pressure_some_ratio": io} if job.has_pressure else {}
    host = {
        **QUIET_HOST,
        **pressure,
        "cpu_busy_ratio": min(1.0, (cores + 2.0 * len(others)) / 128.0),
        "cpu_count": 128.0,
        "d_state_process_count": float(round(2.0 * io)),
        "load_1m": load,
    }
    scene.host("n", **_thin(host, trouble, dice))
    if job.has_group:
        group = {
            "job_cpu_cores_used": cores,
            "job_cpu_count": float(job.cpus * job.gpus),
            "job_process_count": float(job.processes * job.gpus + 3),
            "job_mem_used_bytes": 40.0 * GIB + job.memory_per_s * now_s,
            "job_io_read_bytes_per_s": 0.0,
            "job_io_write_bytes_per_s": 3e4,
        }
        if job.has_pressure:
            group["job_io_pressure_some_ratio"] = of["io"]
            group["job_cpu_pressure_some_ratio"] = job.cpu_pressure
        scene.cgroup("42", **_thin(group, trouble, dice))
    if job.has_mounts:
        mount = {
            "fs_read_bytes_per_s": of["read"] + theirs["read"],
            "fs_write_bytes_per_s": of["written"] + theirs["written"],
            "fs_read_exec_s": 0.02,
        }
        scene.mount("n", "/data", device="filer:/data", **_thin(mount, trouble, dice))
    values = _gpu(program, now_s, period_s, has_counters=job.has_counters)
    if not job.has_copies:
        values = {key: value for key, value in values.items() if not key.startswith("pcie_")}
    told = {uuid: _thin(values, trouble, dice) for uuid in mine}
    told |= dict.fromkeys(others, _gpu(beside, now_s, period_s, has_counters=job.has_counters))
    scene.run(period_s, told)


def _gpu(program, now_s, period_s, *, has_counters):
    values = {
        **WORKING,
        "gpu_util_ratio": program.mean("kernel", now_s, min(1.0, period_s)),
        "sm_active_ratio": program.mean("sm", now_s, period_s),
        "mem_used_bytes": program.at(now_s).held,
        "pcie_rx_bytes_per_s": program.mean("rx", now_s, period_s),
        "pcie_tx_bytes_per_s": program.mean("tx", now_s, period_s),
    }
    if not has_counters:
        del values["sm_active_ratio"]
    return values


def _thin(values, trouble, dice):
    if trouble != "missing":
        return values
    return {key: value(0.0) for key, value in thinned(values, dice).items()}
