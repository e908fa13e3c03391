"""Jobs and what they asked for, on nodes that Slurm describes, through what telemetry suffers."""

from __future__ import annotations

import random
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpumon.detect.scene import WORKING, Scene
from gpumon.model.records.cluster import Allocation
from tests.unit.gpumon_detectors.noise import later, stretches, thinned

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 2.0**30
PORTS = ("mlx5_0/1", "mlx5_1/1")
NEIGHBOUR_BYTES_PER_S = 2.1e6
NEIGHBOUR_SENDS_BYTES_PER_S = 6.3e9


NOTHING = MappingProxyType({})


class Phase(NamedTuple):
    """What a job and its nodes tell for so long; a function is asked for the seconds since then."""

    seconds: float
    gpu: Mapping = MappingProxyType(WORKING)
    group: Mapping = NOTHING
    """Of its control group on each node."""
    port: Mapping = NOTHING
    """Of each port of its nodes."""
    host: Mapping = NOTHING
    process: Mapping = NOTHING
    """Of the one process that it has on its first node."""


class Site(NamedTuple):
    """The nodes that a job is on, and what Slurm says of each."""

    nodes: int = 1
    gpus: int = 8
    """GPUs of a node; of those that nobody holds there is no telemetry, which saves time."""
    cpus: int = 96
    mem_gib: float = 1000.0
    held: int = 2
    """GPUs of a node that the job holds."""


WIDE = Site()


def played(period_s, trouble, phases, site=WIDE, **fields):
    """A job `42` that goes through phases; with a restart only half of the last one was seen."""
    phases, begun_s = [*phases], 0.0
    before_s = 0.0
    if trouble == "restart":
        begun_s = phases[-1].seconds / 2
        before_s = sum(phase.seconds for phase in phases[:-1]) + begun_s
        phases = [phases[-1]._replace(seconds=phases[-1].seconds - begun_s)]
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    names = [f"p{number}" for number in range(site.nodes)]
    mine, others = _held(scene, names, site, is_shared=trouble == "shared")
    start_at = scene.next_at - before_s
    cpus = fields.pop("cpus", 12 * site.held)
    held = tuple(Allocation(name, site.held, None, cpus) for name in names)
    given = {"allocations": held, "cpu_count": cpus * site.nodes, **fields}
    scene.job("42", mine, start_at=start_at, **given)
    for number, uuid in enumerate(others):
        scene.job(f"9{number}", [uuid], cpu_count=12)
    dice = random.Random(f"{period_s}{trouble}{len(phases)}")
    for phase in phases:
        _tell(scene, names, phase, begun_s, trouble, dice)
        for passed_s, part_s, is_hole in stretches(phase.seconds, trouble):
            if is_hole:
                scene.skip(part_s)
                continue
            values = _noisy(phase.gpu, begun_s + passed_s, trouble, dice)
            scene.run(part_s, {**dict.fromkeys(mine, values), **dict.fromkeys(others, WORKING)})
        begun_s = 0.0
    return scene


def _held(scene, names, site, *, is_shared):
    """GPUs of the job, and one of each node that a neighbour has."""
    mine, others = [], []
    for name in names:
        uuids = scene.node(name, site.held + is_shared)
        mem_bytes = site.mem_gib * GIB
        scene.slurm(name, gpu_count=site.gpus, cpu_count=site.cpus, mem_bytes=mem_bytes)
        mine += uuids[: site.held]
        others += uuids[site.held :]
    return mine, others


def _tell(scene, names, phase, begun_s, trouble, dice):
    port, host = dict(phase.port), dict(phase.host)
    if trouble == "shared" and port:
        port["nic_tx_bytes_per_s"] = _more(port["nic_tx_bytes_per_s"], NEIGHBOUR_SENDS_BYTES_PER_S)
    if trouble == "shared":
        host = {"net_rx_bytes_per_s": 0.0, **host}
        host["net_rx_bytes_per_s"] = _more(host["net_rx_bytes_per_s"], NEIGHBOUR_BYTES_PER_S)
    for name in names:
        scene.cgroup("42", name, **_noisy(phase.group, begun_s, trouble, dice))
        scene.host(name, **_noisy(host, begun_s, trouble, dice))
        for number in PORTS if port else ():
            scene.nic(name, number, **_noisy(port, begun_s, trouble, dice))
    if phase.process:
        own = _noisy(phase.process, begun_s, trouble, dice)
        scene.process(300, [f"GPU-{names[0]}-0"], job_id="42", name="python3", **own)


def _more(value, added):
    return (lambda s: value(s) + added) if callable(value) else value + added


def _noisy(values, begun_s, trouble, dice):
    told = later(values, begun_s)
    return thinned(told, dice) if trouble == "missing" else told
