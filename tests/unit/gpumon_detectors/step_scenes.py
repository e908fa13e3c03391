"""Jobs whose ranks meet in every step, second by second, for rules that compare ranks."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from gpumon.detect.scene import UNUSED, Scene
from gpumon.model.records.cluster import Rank
from tests.unit.gpumon_detectors.idle_scenes import QUIET_GROUP, QUIET_HOST
from tests.unit.gpumon_detectors.noise import stretches, thinned

STATES = ("compute", "spin", "exchange", "rest")
SHOWN = {
    "sm_active_ratio": (0.83, 0.07, 0.14, 0.0),
    "tensor_active_ratio": (0.37, 0.0, 0.0, 0.0),
    "dram_active_ratio": (0.46, 0.01, 0.11, 0.0),
    "gpu_util_ratio": (1.0, 1.0, 1.0, 0.0),
    "power_w": (612.0, 243.0, 281.0, 118.0),
}
"""What a GPU shows in each state."""
GLANCE_S = 0.4
"""Utilisation and power are read over so long."""
PLAIN = ("gpu_util_ratio", "power_w")
FIXED = {
    "process_count": 1.0,
    "mem_used_bytes": 61.0 * 2**30,
    "mem_total_bytes": 80.0 * 2**30,
    "power_limit_w": 700.0,
    "clock_event_reasons": 0.0,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
}


class Stage(NamedTuple):
    """How the steps of a job are for some time."""

    seconds: float
    step_s: float = 3.1
    spread: float = 0.008
    """How much each rank's computation varies from step to step, of itself."""
    work: tuple = ()
    """How much each rank computes, of what they usually do; those that lack do that."""
    late: tuple = ()
    """Pairs of a rank and the share of its computation that its host is late by."""
    exchange: float = 0.08
    """Share of a usual step that is exchanged."""
    apart: tuple = ()
    """Pairs of how often, seconds, and how long rank 0 does something on its own meanwhile."""
    solo: str = "compute"
    """What it does then."""
    on: float = 1.0
    """Share of the time in which `work` and `late` hold, in stretches."""
    stretch_s: float = 150.0
    sync: bool = True
    """Whether ranks wait for one another; else each rests when its own work is done."""


class Tape:
    """What one rank does, as phases one after the other."""

    def __init__(self):
        self.states, self.lengths = [], []
        self._sums = None

    def add(self, state, seconds):
        self.states.append(STATES.index(state))
        self.lengths.append(seconds)
        self._sums = None

    def shares(self, begins, ends):
        """By window and state the share of the time."""
        edges, spent = self._spent()
        found = [np.interp(ends, edges, one) - np.interp(begins, edges, one) for one in spent]
        return np.stack(found, axis=1) / (ends - begins)[:, None]

    def _spent(self):
        """When each phase ends, and how long each state has lasted by then."""
        if self._sums is None:
            states, lengths = np.array(self.states), np.array(self.lengths)
            each = [np.where(states == number, lengths, 0) for number in range(len(STATES))]
            ends, *spent = (np.concatenate(([0.0], np.cumsum(one))) for one in (lengths, *each))
            self._sums = ends, spent
        return self._sums


def tapes_of(stages, ranks, seed=0):
    """A tape a rank."""
    dice = np.random.default_rng(seed)
    tapes = [Tape() for _ in range(ranks)]
    for stage in stages:
        _play(stage, tapes, dice)
    return tapes


def _play(stage, tapes, dice):
    ranks = len(tapes)
    usual = stage.step_s * (1 - stage.exchange)
    work = np.array([*stage.work, *[1.0] * (ranks - len(stage.work))])
    host = np.zeros(ranks)
    for rank, share in stage.late:
        host[rank] = share
    passed, solo_at = 0.0, stage.apart[0] if stage.apart else np.inf
    # Where it is late all the time no dice are thrown.
    is_on = {0: True}
    while passed < stage.seconds:
        part = int(passed // stage.stretch_s)
        if part not in is_on:
            is_on[part] = stage.on >= 1.0 or dice.random() < stage.on
        own = usual * (work if is_on[part] else np.ones(ranks))
        own = own * np.exp(stage.spread * dice.standard_normal(ranks))
        rest = usual * (host if is_on[part] else np.zeros(ranks))
        length = (own + rest).max()
        for rank, tape in enumerate(tapes):
            tape.add("rest", rest[rank])
            tape.add("compute", own[rank])
            tape.add("spin" if stage.sync else "rest", length - own[rank] - rest[rank])
            tape.add("exchange", stage.step_s * stage.exchange)
        passed += length + stage.step_s * stage.exchange
        if passed >= solo_at:
            for rank, tape in enumerate(tapes):
                tape.add(stage.solo if rank == 0 else "spin", stage.apart[1])
            passed += stage.apart[1]
            solo_at = passed + stage.apart[0]


def values_of(tape, begins, ends, gain, keys):
    """What samples show of a tape, by field."""
    mean = tape.shares(begins, ends)
    glance = tape.shares(np.maximum(ends - GLANCE_S, 0.0), ends)
    found = {}
    for key in keys:
        seen = glance if key in PLAIN else mean
        found[key] = (seen @ np.array(SHOWN[key])) * (gain if key == "power_w" else 1.0)
    return found


def ranks_on(uuids, world="m0:29400"):
    """One rank a GPU, of one world."""
    return [
        Rank("0", world, n, n, len(uuids), u.split("-")[1], 7000 + n, (u,), None)
        for n, u in enumerate(uuids)
    ]


class Setting(NamedTuple):
    """Where a job of steps runs, and how it is sampled."""

    nodes: int = 1
    gpus: int = 6
    """GPUs of the job on each node."""
    period_s: float = 10.0
    trouble: str = "none"
    """One of `noise.TROUBLES`."""
    seed: int = 0
    """Of everything that is thrown."""
    keys: tuple = tuple(SHOWN)
    """Fields that are read of the GPUs besides the fixed ones."""
    products: tuple = ("NVIDIA H100 80GB HBM3",)
    """Of the boards of each node in turn."""
    has_ranks: bool = True
    """Whether its ranks are known."""
    told: tuple = ()
    """Triples of the seconds since the begin, whom, and values that hold from then on: of the GPU
    at a position, of a node by its name, of the cgroups of the `job`."""
    worlds: int = 1
    """How many worlds its ranks are of, as many GPUs in each."""
    hidden: str = ""
    """Name of a node whose processes may not be read, so that nobody knows its ranks."""
    slurm: dict = {}  # noqa: RUF012 - read only
    """What Slurm says of nodes, by name."""


def stepped(stages, **how):
    """A scene of job 77 that goes through stages on nodes `m0`, `m1`, …, and its GPUs.

    `how` are values of a `Setting`; what else there is Slurm says of the job.
    """
    job = {key: how.pop(key) for key in list(how) if key not in Setting._fields}
    how = Setting(**how)
    scene, mine, others = _machines(
        how.nodes, how.gpus, how.products, how.period_s, how.trouble, how.slurm
    )
    start_at = scene.next_at
    total_s = sum(stage.seconds for stage in stages)
    skipped_s = total_s - stages[-1].seconds / 2 if how.trouble == "restart" else 0.0
    ranks = _ranks_of(mine, how.worlds) if how.has_ranks else ()
    ranks = [rank for rank in ranks if rank.node != how.hidden]
    scene.job(
        "77",
        mine,
        ranks=ranks,
        start_at=start_at - skipped_s,
        cpu_count=96,
        **job,
    )
    if others:
        scene.job("78", others, cpu_count=16)
    scene.cgroup("77", **{**QUIET_GROUP, "job_cpu_cores_used": 1.1 * how.gpus})
    _sample(scene, mine, others, stages, skipped_s, how)
    return scene, mine


def _sample(scene, mine, others, stages, skipped_s, how):
    """Have the GPUs report what the stages show."""
    total_s = sum(stage.seconds for stage in stages)
    dice = random.Random(f"{how.seed}{how.trouble}{how.period_s}")
    tapes = tapes_of(_reaching(stages, 2 * how.period_s), len(mine), how.seed)
    gains = [dice.uniform(0.96, 1.04) for _ in mine]
    marks = sorted(how.told, key=lambda mark: mark[0])
    given = [dict(FIXED, sm_clock_mhz=1710.0) for _ in mine]
    at_s = skipped_s
    for _, part_s, is_hole in stretches(total_s - skipped_s, how.trouble, 120.0):
        while marks and marks[0][0] <= at_s:
            _tell(scene, given, *marks.pop(0)[1:])
        count = max(1, round(part_s / how.period_s))
        if is_hole:
            scene.skip(part_s)
            at_s += part_s
            continue
        ends = at_s + how.period_s * np.arange(1, count + 1)
        shown = dict.fromkeys(others, UNUSED)
        for place, uuid in enumerate(mine):
            read = values_of(tapes[place], ends - how.period_s, ends, gains[place], how.keys)
            values = {
                **{key: _told(row, how.period_s) for key, row in read.items()},
                **given[place],
            }
            shown[uuid] = thinned(values, dice) if how.trouble == "missing" else values
        scene.run(part_s, shown)
        at_s += count * how.period_s


def _machines(nodes, gpus, products, period_s, trouble, slurm):
    """A scene with nodes, the job's GPUs on them and its neighbour's."""
    extra = 2 if trouble == "shared" else 0
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    mine, others = [], []
    for number in range(nodes):
        held = scene.node(f"m{number}", gpus + extra, products[number % len(products)])
        mine += held[:gpus]
        others += held[gpus:]
        scene.host(f"m{number}", **QUIET_HOST, d_state_process_count=0.0)
    for name, fields in dict(slurm).items():
        scene.slurm(name, **fields)
    return scene, mine, others


def _ranks_of(uuids, worlds):
    """The ranks of some worlds of equal size."""
    each = len(uuids) // worlds
    groups = [uuids[n * each : (n + 1) * each] for n in range(worlds)]
    return [one for n, group in enumerate(groups) for one in ranks_on(group, f"m0:{29400 + n}")]


def _reaching(stages, seconds):
    """Stages that last longer: samples that do not divide the time reach beyond it."""
    return [*stages[:-1], stages[-1]._replace(seconds=stages[-1].seconds + seconds)]


def _tell(scene, given, whom, values):
    """Have the job's cgroups, a node or a GPU report values from now on."""
    if whom == "job":
        scene.cgroup("77", **values)
    elif isinstance(whom, str):
        scene.host(whom, **values)
    else:
        given[whom].update(values)


def _told(row, period_s):
    """The values one after the other."""
    return lambda s: float(row[min(len(row) - 1, round(s / period_s))])
