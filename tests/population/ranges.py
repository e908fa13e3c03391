"""What jobs do in the world, as ranges with sources: the population is drawn from these alone."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from tests.population.boards import BOARDS, Board

HOUR: Final = 3600
MIN: Final = 60


class Range(NamedTuple):
    """From where a number is drawn."""

    low: float
    high: float
    source: str
    is_log: bool = False
    """Whether the logarithm is drawn evenly: of what spans orders of magnitude."""


_ACME: Final = "Acme traces: SM active p50 33-50 %, p75 73, p95 85-94; GPU util p50 98-99"
_SERVING: Final = (
    "published serving trace: active run p50/90/99 = 1.9/8.6/21.9 min, idle 1.9/14.3/61.8"
)
_ICSE: Final = "ICSE'24, 400 jobs of low utilisation at Microsoft"
_NCCL: Final = "NCCL spins in a kernel: util 100 %, SM and power low, tensor 0"
_SITES: Final = "site policies: 15 to 120 min of idleness until somebody is told"

RANGES: Final = {
    "job_h": Range(4.0, 10.0, "A day's jobs; Philly: half of the idle time is in jobs of <6 h"),
    "long_h": Range(18.0, 24.0, "pre-training: Llama 3 ran for 54 days"),
    "short_h": Range(2.0, 4.0, "interactive allocations: partitions of 2, 4, 8 h"),
    "checkpoint_every_min": Range(10, 60, "usual practice; healthy duty is below 8 %"),
    "checkpoint_s": Range(15, 90, "healthy duty is below 8 %"),
    "stall_every_min": Range(4, 12, f"{_ICSE}: checkpoint 96 s of a 168 s epoch"),
    "stall_duty": Range(0.2, 0.5, f"{_ICSE}: 57 % in the example"),
    "load_min": Range(1, 6, "loading of weights and libraries"),
    "long_load_min": Range(8, 20, "400 GB to 1 TB of weights at 0.5 to 1 GB/s of NFS"),
    "compile_min": Range(8, 25, "XLA, TensorRT and torch.compile of large models"),
    "staging_min": Range(8, 28, "1 to 3 TB at 1 to 2 GB/s to local disks"),
    "slow_start_h": Range(0.9, 2.6, f"{_ICSE}: library installs of 10 min and more; builds", True),
    "queue_gap_min": Range(3, 12, "between two trials of a sweep: result upload, next set-up"),
    "trial_min": Range(12, 50, "trials of a sweep"),
    "burst_min": Range(0.5, 9.0, _SERVING, True),
    "lull_min": Range(0.5, 15.0, _SERVING, True),
    "standby_lull_min": Range(12, 62, f"{_SERVING}: p90 to p99 of idle runs", True),
    "ping_every_s": Range(10, 60, "readiness probes of Kubernetes and load balancers: 10-60 s"),
    "rollout_min": Range(3, 11, "RL of reasoning models: rollouts of minutes, then an update"),
    "update_min": Range(1.5, 5, "as above"),
    "eval_every_min": Range(35, 70, "evaluation each hour"),
    "eval_min": Range(4, 11, "benchmarks of language models on part of the ranks"),
    "cell_min": Range(0.3, 10, "cells of an active notebook", True),
    "think_min": Range(1, 14, "pauses of somebody at work; a debugger's pause", True),
    "chunk_min": Range(2, 5, "offline inference on chunks that CPUs prepare"),
    "prepare_min": Range(3, 9, "as above"),
    "duty": Range(0.3, 0.65, f"{_ICSE}: input-bound, mean util <= 50 %"),
    "starved_duty": Range(0.08, 0.2, f"{_ICSE}: input-bound, the worst tenth"),
    "worked_min": Range(10, 45, "a job that died early and left its script"),
    "worked_h": Range(1.0, 3.5, "work before a job falls idle; Philly: most idle time is mid-job"),
    "tail_h": Range(1.5, 4.0, f"{_SITES}; Philly's long idle runs"),
    "mem_share": Range(0.35, 0.93, "Acme: half of the jobs use >60 % of the memory"),
    "held_share": Range(0.1, 0.9, "weights or caching allocators stay in memory"),
    "small_mem_gib": Range(0.8, 3.5, "Princeton: model too powerful below 10 GB; small models"),
    "md_mem_gib": Range(0.6, 3.0, "GROMACS and Amber: 1-3 GB for 0.1-1 M atoms"),
    "cores_share": Range(0.3, 0.85, "loaders: 4-16 a GPU"),
    "quiet_cores": Range(0.0, 0.15, "a sleeping script and its daemons"),
    "cpu_job_share": Range(0.8, 0.99, "solvers and preprocessing fill what they were given"),
    "host_mem_share": Range(0.45, 0.85, "page cache counts as the job's memory (cgroup v2)"),
    "cache_h": Range(1.5, 4.0, "a data set is cached once: first epoch"),
    "power_cap": Range(0.55, 0.8, "sites cap at 60-80 % (Zeus)"),
    "locked_clock": Range(0.6, 0.85, "nvidia-smi -lgc for reproducible runs"),
    "stage_gap": Range(0.38, 0.62, "ByteDance: first stages .38, last stage .62 of the step"),
    "hot_factor": Range(0.45, 0.72, "fans or paste failed: clocks at half"),
    "straggle": Range(1.25, 2.2, "ByteDance: S>1.1 in 42.5 % of jobs; tail above 2"),
    "downtrain_slow": Range(1.6, 3.2, "x16 to x4: a copy-bound step takes 2-3 times as long"),
    "leak_h": Range(5, 9, "hours from start to the limit"),
    "session_use_min": Range(3, 20, "short use of an interactive session before it is left"),
}
"""By name."""


class Work(NamedTuple):
    """What a GPU does while a phase runs: shares of time, of peak power, bytes a second."""

    util: float
    sm: float
    tensor: float = 0.0
    dram: float = 0.0
    fp64: float = 0.0
    power: float = 0.0
    """Share of the way from idle to the default limit; above 1 the limit holds it down."""
    rx: float = 0.0
    """GB/s from the host."""
    nvlink: float = 0.0
    """GB/s."""
    codec: float = 0.0
    """Encoder and decoder."""


_Pair = tuple[float, float]
_NIL: Final[_Pair] = (0.0, 0.0)


class WorkRange(NamedTuple):
    """Ranges of one kind of work, in the order of `Work`."""

    source: str
    util: _Pair
    sm: _Pair
    tensor: _Pair = _NIL
    dram: _Pair = _NIL
    fp64: _Pair = _NIL
    power: _Pair = _NIL
    rx: _Pair = _NIL
    nvlink: _Pair = _NIL
    codec: _Pair = _NIL


WORKS: Final = {
    "training": WorkRange(
        _ACME,
        util=(0.9, 1.0),
        sm=(0.5, 0.93),
        tensor=(0.22, 0.6),
        dram=(0.3, 0.7),
        power=(0.65, 1.08),
        rx=(0.05, 0.8),
        nvlink=(15, 150),
    ),
    "decode": WorkRange(
        "decoding is bound by memory: DRAM near its practical peak of .8",
        util=(0.6, 1.0),
        sm=(0.2, 0.65),
        tensor=(0.04, 0.25),
        dram=(0.45, 0.85),
        power=(0.35, 0.7),
        rx=(0.01, 0.2),
    ),
    "serving": WorkRange(
        "published serving trace: active run p50/90/99 = 1.9/8.6/21.9 min, idle 1.9/14.3/61.8",
        util=(0.3, 0.95),
        sm=(0.15, 0.5),
        tensor=(0.03, 0.2),
        dram=(0.2, 0.6),
        power=(0.25, 0.6),
        rx=(0.01, 0.3),
    ),
    "ping": WorkRange(
        "a probe asks for one token",
        util=(0.05, 0.4),
        sm=(0.02, 0.1),
        tensor=(0.005, 0.02),
        dram=(0.02, 0.2),
        power=(0.05, 0.15),
    ),
    "cfd": WorkRange(
        "CFD in fp64: bound by memory, no tensor cores; halos over PCIe",
        util=(0.88, 1.0),
        sm=(0.45, 0.8),
        dram=(0.45, 0.85),
        fp64=(0.12, 0.45),
        power=(0.45, 0.8),
        rx=(0.3, 3.0),
    ),
    "dynamics": WorkRange(
        "GROMACS, Amber: small memory, SM well used",
        util=(0.8, 1.0),
        sm=(0.5, 0.85),
        dram=(0.08, 0.3),
        power=(0.4, 0.75),
        rx=(0.1, 1.5),
    ),
    "moe": WorkRange(
        "mixtures of experts and TP over nodes: exchange by design",
        util=(0.96, 1.0),
        sm=(0.2, 0.45),
        tensor=(0.08, 0.25),
        dram=(0.12, 0.35),
        power=(0.35, 0.6),
        rx=(0.05, 0.5),
        nvlink=(80, 320),
    ),
    "transcode": WorkRange(
        "NVDEC and NVENC work beside the SMs",
        util=(0.0, 0.06),
        sm=(0.0, 0.03),
        dram=(0.01, 0.06),
        power=(0.08, 0.22),
        rx=(0.1, 0.8),
        codec=(0.3, 0.95),
    ),
    "spin": WorkRange(
        _NCCL,
        util=(0.99, 1.0),
        sm=(0.03, 0.2),
        dram=(0.0, 0.03),
        power=(0.1, 0.28),
    ),
    "fp32": WorkRange(
        "GEMMs in fp32 fill the SMs",
        util=(0.92, 1.0),
        sm=(0.7, 0.95),
        tensor=(0.0, 0.01),
        dram=(0.2, 0.5),
        power=(0.6, 0.95),
        rx=(0.05, 0.5),
    ),
    "launch_bound": WorkRange(
        "GPUMemNet: util>=.5 with SM<.5 in 26 %",
        util=(0.55, 0.98),
        sm=(0.1, 0.3),
        tensor=(0.01, 0.06),
        dram=(0.03, 0.12),
        power=(0.15, 0.4),
        rx=(0.01, 0.1),
    ),
    "copying": WorkRange(
        f"{_ICSE}: host-GPU transfer 27.9 %",
        util=(0.3, 0.6),
        sm=(0.1, 0.28),
        tensor=(0.03, 0.1),
        dram=(0.05, 0.2),
        power=(0.2, 0.4),
        rx=(5.0, 11.0),
    ),
    "tiny": WorkRange(
        "Princeton: model too powerful, util <20 %, memory <10 GB",
        util=(0.05, 0.18),
        sm=(0.01, 0.07),
        tensor=(0.0, 0.01),
        dram=(0.005, 0.04),
        power=(0.03, 0.12),
        rx=(0.001, 0.05),
    ),
    "collective": WorkRange(
        "communication fills the step: all ranks alike",
        util=(0.97, 1.0),
        sm=(0.1, 0.25),
        tensor=(0.02, 0.06),
        dram=(0.05, 0.12),
        power=(0.2, 0.4),
        rx=(0.05, 0.5),
        nvlink=(60, 300),
    ),
}
"""By name."""


class Dice:
    """Draws from the ranges; the same seed draws the same."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])

    def draw(self, name: str) -> float:
        """A number from a named range."""
        low, high, _, is_log = RANGES[name]
        if is_log:
            return math.exp(self.rng.uniform(math.log(low), math.log(high)))
        return float(self.rng.uniform(low, high))

    def seconds(self, name: str) -> int:
        """Seconds, from a range in hours, minutes or seconds by the end of its name."""
        unit = {"h": HOUR, "min": MIN, "s": 1}[name.rsplit("_", 1)[1]]
        return round(self.draw(name) * unit)

    def work(self, name: str) -> Work:
        """One kind of work, each of its parts from its own range."""
        drawn = (float(self.rng.uniform(*pair)) for pair in WORKS[name][1:])
        return Work(*drawn)

    def one_of(self, *choices: object) -> object:
        """One of some, each as likely."""
        return choices[int(self.rng.integers(len(choices)))]

    def count(self, *choices: int) -> int:
        """One of some numbers."""
        return int(self.rng.choice(choices))

    def is_so(self, chance: float) -> bool:
        """Whether something that has a chance happens."""
        return bool(self.rng.random() < chance)

    def board(self, *, with_links: bool = False, with_gpm: bool = False) -> Board:
        """A product."""
        known = [b for b in BOARDS if (b.links or not with_links) and (b.has_gpm or not with_gpm)]
        shares = np.array([board.share for board in known])
        return known[int(self.rng.choice(len(known), p=shares / shares.sum()))]
