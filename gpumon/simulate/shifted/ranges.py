"""Every number that is drawn, with its bounds and where these come from, and who draws.

Sources by letters: T the project's taxonomy of inefficiencies with its published marginals (shares
and durations of ICSE'24, OSDI'25, Philly, Acme, PAI, Greyhound, serving traces), D NVIDIA's DCGM
guide on profiling metrics, N nvml.h and what is published of NVML's calls, L public data sheets
and link rates, S Slurm's documentation, P the Linux kernel's documentation of /proc and cgroups,
O our choice where no published number exists.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_T = TypeVar("_T")


class Range(NamedTuple):
    """Bounds of a number that is drawn between them, evenly, or evenly in its logarithm."""

    low: float
    high: float
    source: str
    is_log: bool = False


_L: Final = True

RANGES: Final = {
    # The recording.
    "sample_lost_ratio": Range(0.001, 0.01, "O: scrapes that fail, 0.1 to 1 %"),
    "value_lost_ratio": Range(0.0005, 0.004, "N: single calls fail (NVML UNKNOWN, timeout)"),
    "silent_node_ratio": Range(0.05, 0.10, "T: a few lemon nodes make most of the trouble"),
    "silence_s": Range(900, 2700, "T: fail-stop, found within minutes to an hour", _L),
    "blink_s": Range(20, 110, "O: a hiccup of the network, shorter than telemetry_lost"),
    "reboot_s": Range(300, 720, "O: firmware of a node with many GPUs takes minutes"),
    "uptime_s": Range(4e4, 9e6, "O: days to months", _L),
    "clock_lateness_s": Range(0.005, 0.12, "P: a probe's sample is some milliseconds late"),
    # Boards and sensors.
    "board_gain": Range(0.95, 1.05, "O: boards of one product differ by a few per cent"),
    "power_noise_ratio": Range(0.01, 0.04, "N: +-5 % accuracy of the power reading"),
    "util_noise": Range(0.003, 0.02, "N: steps of 1 % over 1/6 to 1 s"),
    "inlet_c": Range(19, 31, "O: ASHRAE A1 allows 15 to 32"),
    "warming_c_per_w": Range(0.06, 0.13, "O: 60 to 80 C at the limit of 300 to 700 W boards"),
    "warming_tau_s": Range(25, 90, "O: a heat sink settles within minutes"),
    "clock_loss_at_limit": Range(0.02, 0.09, "L: boost clock under full load, by power cap"),
    "context_bytes": Range(3e8, 6e8, "N: a CUDA context takes 300 to 600 MB"),
    # A training step.
    "step_s": Range(0.6, 14, "T: iteration times of Greyhound and the OSDI'25 traces", _L),
    "step_cov": Range(0.003, 0.02, "T: step CoV .005 healthy, p90/median 1.06"),
    "load_ratio": Range(0.0, 0.03, "T: healthy input is hidden behind compute"),
    "copy_ratio": Range(0.004, 0.03, "T: Host-GPU copies of a healthy job"),
    "comm_ratio": Range(0.04, 0.16, "T: exposed collectives of healthy data-parallel jobs"),
    "compute_sm": Range(0.62, 0.95, "D: SM_ACTIVE >= .8 is needed, Acme p75 .73, p95 .94"),
    "compute_tensor": Range(0.22, 0.58, "L: MFU 30 to 55 %, MegaScale 55 %"),
    "compute_dram": Range(0.22, 0.62, "D: practical peak about .8"),
    "compute_fp32": Range(0.05, 0.18, "D: pointwise kernels beside the tensor pipes"),
    "compute_load": Range(0.68, 0.97, "T: Acme's p75 290 to 372 W of 400"),
    "comm_sm": Range(0.05, 0.20, "L: NCCL takes up to 32 blocks of 80 to 148 SMs"),
    "comm_dram": Range(0.04, 0.16, "D: reading and writing buffers"),
    "comm_load": Range(0.16, 0.34, "T: execution-idle, low activity at high power"),
    "spin_sm": Range(0.02, 0.15, "L: a waiting collective keeps its blocks resident"),
    "endless_sm": Range(0.12, 0.98, "O: a loop that never ends, on some blocks or on all"),
    "endless_load": Range(0.2, 0.6, "O: no matrices, hardly any memory"),
    "spin_load": Range(0.09, 0.24, "T: power far below the job's own level"),
    "rest_load": Range(0.015, 0.07, "N: a context keeps the board out of its lowest state"),
    "launch_cores": Range(0.7, 1.15, "P: one Python thread launches kernels"),
    "loader_cores": Range(0.6, 5.0, "T: CPU preprocessing"),
    "read_bytes_per_s": Range(2e6, 3e8, "T: images to tokens, a rank", _L),
    "train_mem_ratio": Range(0.42, 0.92, "T: half of jobs use a quarter of memory or less"),
    "warmup_s": Range(40, 280, "T: imports, weights, first kernels"),
    "nvlink_ratio": Range(0.25, 0.75, "L: share of the links' peak in a collective"),
    "port_ratio": Range(0.15, 0.6, "L: share of a port's rate in a collective"),
    # Checkpoints, evaluations, compiling.
    "ckpt_every_s": Range(700, 2400, "T: minutes to hours"),
    "healthy_ckpt_duty": Range(0.01, 0.065, "T: healthy below 8 %"),
    "stall_ckpt_duty": Range(0.13, 0.45, "T: above 10 %; 96 s of a 168 s epoch is the worst"),
    "stall_every_s": Range(240, 1000, "T: an epoch of 168 s and longer"),
    "ckpt_bytes_per_s": Range(2e8, 2.2e9, "L: one client of a parallel file system", _L),
    "eval_every_s": Range(900, 3000, "O: some a training run"),
    "eval_s": Range(45, 280, "O"),
    "compile_s": Range(150, 420, "T: one-off, below 10 minutes"),
    "recompile_every_s": Range(75, 260, "O: a new shape every few hundred steps", _L),
    "recompile_s": Range(18, 75, "O: inductor takes tens of seconds", _L),
    "slow_start_s": Range(840, 2500, "T: long install, 10 minutes and more", _L),
    "start_cores": Range(1.6, 9.0, "P: compilers and package managers"),
    "start_read_bytes_per_s": Range(8e6, 2.5e8, "T: images and packages", _L),
    # Idle classes.
    "late_idle_s": Range(4000, 9000, "T: 30 min batch, two hours established"),
    "work_first_s": Range(1500, 4500, "T: 65 % of idle periods lie mid-job"),
    "held_mem_ratio": Range(0.06, 0.85, "T: class 2, more than 1 % of memory", _L),
    "idle_cores": Range(0.001, 0.02, "T: class 2, less than 2 % of a CPU"),
    "cpu_job_cores": Range(1.3, 12.0, "T: class 5, cpu high"),
    "session_busy_ratio": Range(0.004, 0.045, "T: class 6, below 10 % of the time"),
    "session_burst_s": Range(8, 70, "O: a cell of a notebook", _L),
    "notebook_busy_ratio": Range(0.24, 0.6, "T: short real experiments"),
    "notebook_burst_s": Range(60, 420, "O: a cell that trains"),
    # Servers (lengths of active and idle runs of the published serving trace).
    "burst_median_s": Range(75, 160, "T: active runs p50 1.9 min"),
    "gap_median_s": Range(75, 160, "T: idle runs p50 1.9 min"),
    "burst_sigma": Range(1.05, 1.3, "T: p90/p50 = 4.5, p99/p50 = 11.5"),
    "gap_sigma": Range(1.35, 1.6, "T: p90/p50 = 7.5, p99/p50 = 32"),
    "serve_sm": Range(0.25, 0.75, "T: decoding is memory-bound"),
    "serve_tensor": Range(0.03, 0.2, "T: as before"),
    "serve_dram": Range(0.35, 0.75, "T: as before"),
    "serve_load": Range(0.35, 0.75, "T: as before"),
    "serve_mem_ratio": Range(0.6, 0.92, "O: weights and a cache that fills what is left"),
    # Slow input and storage.
    "wait_ratio": Range(0.35, 0.72, "T: mean utilisation below 50 % in 400 studied jobs"),
    "busy_cpu_ratio": Range(0.88, 0.99, "T: class 10, 85 % of what is allocated"),
    "starved_read_bytes_per_s": Range(3e6, 9e7, "T: class 12, dips with low throughput", _L),
    "slow_request_s": Range(0.06, 0.9, "P: mountstats, requests queue on the server", _L),
    "request_s": Range(0.0006, 0.006, "P: as before, a healthy server", _L),
    "io_pressure": Range(0.35, 0.92, "P: pressure stall information"),
    "cpu_pressure": Range(0.45, 0.95, "P: as before, more threads than CPUs"),
    "far_ratio": Range(0.18, 0.4, "L: half of the bandwidth across sockets"),
    "h2d_ratio": Range(0.35, 0.65, "T: class 11, copies 40 % of the time"),
    "pcie_ratio": Range(0.5, 0.86, "L: share of the link in a pinned copy"),
    "pageable_ratio": Range(0.12, 0.3, "L: share of the link in a pageable copy"),
    # Slow exchange.
    "slowdown": Range(1.25, 1.95, "T: Greyhound, S of OSDI'25 1.1 and more, p90 1.5"),
    "mild_slowdown": Range(1.15, 1.4, "T: class 17, S 1.18; class 18, S 1.34"),
    "data_cov": Range(0.12, 0.3, "T: class 18, step CoV .07 of all, more of each rank"),
    "exposed_ratio": Range(0.42, 0.7, "T: class 15, GPU-GPU exchange"),
    "moe_ratio": Range(0.2, 0.36, "T: communication by design"),
    "drift_ratio": Range(0.18, 0.7, "T: class 20, mean shift 10 % and more"),
    "drift_ramp_s": Range(60, 2700, "T: a step or a ramp", _L),
    # Compute.
    "fp32_sm": Range(0.72, 0.96, "T: class 22, sm >= .6"),
    "fp32_active": Range(0.38, 0.74, "T: class 22, fp32 pipe high"),
    "fp32_load": Range(0.55, 0.9, "O"),
    "tensor_gain": Range(1.6, 3.6, "L: TF32 over FP32 on a V100 to an H200, whole steps"),
    "small_sm": Range(0.1, 0.38, "T: class 21, sm < .5"),
    "small_tensor": Range(0.01, 0.09, "O"),
    "small_load": Range(0.16, 0.42, "O"),
    "small_mem_ratio": Range(0.04, 0.4, "T: class 21, peak memory <= 50 %"),
    "small_util": Range(0.62, 0.97, "T: class 21, u > 50"),
    "small_loss": Range(0.35, 0.7, "T: speed-ups of 1.5 to 3 by a larger batch"),
    "limited_wait_ratio": Range(0.42, 0.66, "T: class 23, u <= 50"),
    "limited_mem_ratio": Range(0.93, 0.985, "T: class 23, peak memory > 80 %"),
    "tiny_mem_ratio": Range(0.02, 0.14, "T: class 7, p95 below 25 %"),
    "tiny_util": Range(0.08, 0.17, "T: class 7, sm < .2; utilisation bounds it"),
    # What single kinds of jobs do.
    "leaking_mem_ratio": Range(0.42, 0.5, "T: class 24, half full when it counts"),
    "leak_pace": Range(0.98, 1.02, "O: not quite even"),
    "host_limit_over_leak": Range(1.5, 2.2, "O: full behind the recording's end"),
    "retry_every_s": Range(400, 900, "O: fragments are given back now and then"),
    "tiny_sm": Range(0.3, 0.7, "T: class 7, what its kernels use while they run"),
    "tiny_cores": Range(0.6, 1.4, "P: the program computes in between"),
    "tiny_step_s": Range(0.5, 4.0, "O: small models, small steps"),
    "overasked_mem_ratio": Range(0.75, 0.9, "T: class 8, memory per GPU above the node's share"),
    "polling_cores": Range(0.01, 1.02, "P: servers sleep or poll, a core at most"),
    "burst_util": Range(0.5, 1.0, "T: duty within an active run"),
    "steady_util": Range(0.35, 0.95, "O: load of a server that is always asked"),
    "standby_turn_s": Range(400, 1500, "O: takeovers by the quarter of an hour"),
    "debug_run_s": Range(700, 1600, "O: a run up to the breakpoint"),
    "debug_pause_s": Range(200, 1000, "O: looking at values, below half an hour"),
    "batch_s": Range(100, 400, "O: a file or a shard"),
    "batch_gap_s": Range(6, 40, "O: fetching the next"),
    "solver_fp64": Range(0.3, 0.65, "D: FP64 pipes of a solver"),
    "solver_dram": Range(0.3, 0.7, "D: sparse solvers are memory-bound"),
    "halo_ratio": Range(0.02, 0.1, "O: exchange of borders"),
    "molecule_mem_ratio": Range(0.02, 0.06, "O: a hundred thousand atoms take gigabytes"),
    "molecule_util": Range(0.85, 1.0, "O: GPU-resident steps of milliseconds"),
    "molecule_sm": Range(0.5, 0.8, "O: short kernels"),
    "molecule_fp32": Range(0.25, 0.45, "D: FP32 pipes of pair forces"),
    "molecule_load": Range(0.5, 0.8, "O: below a training step's"),
    "film_util": Range(0.03, 0.25, "N: scaling kernels beside the video engines"),
    "film_sm": Range(0.02, 0.1, "O: few SMs"),
    "film_encoder": Range(0.5, 0.95, "N: NVENC at work"),
    "film_decoder": Range(0.4, 0.95, "N: NVDEC at work"),
    "film_load": Range(0.12, 0.3, "L: engines draw a small part of a board's power"),
    "hot_c": Range(87, 93, "L: slowdown temperatures of 87 to 93 C"),
    "replay_loss": Range(0.002, 0.015, "O: what is sent again, a share of a step"),
    "broken_fabric_loss": Range(0.01, 0.08, "O: longer exchanges, a share of a step"),
    "restart_s": Range(40, 110, "O: a launcher starts a program again"),
    "compile_cores": Range(0.9, 2.6, "P: a compiler with a few helpers"),
    "few_cpus": Range(0.6, 3.4, "T: class 10, too few workers for a GPU"),
    "some_cpus": Range(2.6, 6.4, "O: CPUs a GPU"),
    "threads_a_cpu": Range(5.6, 14.4, "O: a pool of all CPUs in each of several workers"),
    "one_port_ratio": Range(0.6, 0.9, "L: all ranks of a node share one port"),
    "far_exchange_ratio": Range(0.25, 0.5, "T: class 9, exchange over ports instead of NVLink"),
    "busy_ports_ratio": Range(0.35, 0.8, "L: share of the ports' rate, above a twentieth"),
    "longer_steps": Range(1.8, 3.2, "O: sequences grow two to three times"),
    "offload_mem_ratio": Range(0.75, 0.95, "O: what ZeRO leaves on the GPU"),
    "offload_ratio": Range(0.1, 0.24, "L: gradients and parameters over PCIe"),
    "stage_bytes_per_s": Range(2e8, 9e8, "L: one client of a parallel file system"),
    "stage_s": Range(200, 480, "T: below ten minutes"),
    "cap_ratio": Range(0.62, 0.85, "T: Zeus, limits of 60 to 85 %"),
    "locked_clock_ratio": Range(0.6, 0.85, "N: application clocks"),
    "cache_mem_ratio": Range(0.5, 0.7, "O: a dataset that fits"),
    "cache_bytes_per_s": Range(1.5e8, 5e8, "L: reading it once"),
    "bubble_ratio": Range(0.06, 0.14, "T: (stages - 1) / micro-batches, interleaved"),
    "round_s": Range(90, 400, "O: a round of rollouts"),
    "generate_ratio": Range(0.4, 0.6, "O: most of a round"),
    "judge_ratio": Range(0.04, 0.12, "O: rewards on CPUs"),
    "learn_ratio": Range(0.3, 0.4, "O: the rest of a round"),
    "graph_sm": Range(0.45, 0.8, "D: memory-bound kernels"),
    "graph_tensor": Range(0.03, 0.12, "D: few tensor operations"),
    "graph_dram": Range(0.5, 0.8, "D: practical peak about .8"),
    "cache_jump_s": Range(100, 700, "O: a longer batch than all before"),
    "product_ratio": Range(0.45, 0.8, "L: throughput of a product to the next"),
    # Hardware.
    "hot_clock_ratio": Range(0.55, 0.82, "T: class 25, below 90 % of peers"),
    "fault_s": Range(2700, 6500, "T: fail-slow 10, 24, 72 min", _L),
    "host_leak_bytes_per_s": Range(1.2e6, 4e6, "T: class 24, monotone"),
    "leak_share_per_h": Range(0.07, 0.2, "T: class 24, full within a day"),
    "error_rate_per_min": Range(0.8, 5.0, "N: replays and recoveries, a sound link has 0"),
    "replays_per_min": Range(14, 90, "N: DCGM allows 8 a minute"),
    # Slurm.
    "limit_factor": Range(1.15, 4.4, "T: below 5 no user is asked to ask for less", _L),
    "queue_wait_s": Range(30, 9000, "S", _L),
    "stuck_s": Range(1500, 4000, "S: KillWait and UnkillableStepTimeout are 30 and 60 s"),
    "node_background_cores": Range(0.15, 0.9, "P: daemons"),
    "node_background_bytes_per_s": Range(8e3, 3e5, "P: monitoring and logs", _L),
}  # fmt: skip


class Draw:
    """Chance of one thing: the same seed and name give the same, independent of other draws."""

    def __init__(self, seed: int, name: str) -> None:
        """A stream of its own for a name."""
        self._random = np.random.default_rng([seed, *name.encode()])

    def of(self, name: str) -> float:
        """A number of a range."""
        low, high, _, is_log = RANGES[name]
        share = float(self._random.random())
        if is_log:
            return exp(log(low) + share * (log(high) - log(low)))
        return low + share * (high - low)

    def between(self, low: float, high: float) -> float:
        """A number between two others that the situation gives."""
        return low + float(self._random.random()) * max(0.0, high - low)

    def happens(self, share: float) -> bool:
        """Whether something happens that happens in so large a share of cases."""
        return float(self._random.random()) < share

    def one(self, things: Sequence[_T]) -> _T:
        """One of several."""
        return things[int(self._random.integers(len(things)))]

    def mixed(self, things: Sequence[_T]) -> list[_T]:
        """All of them in another order."""
        return [things[int(at)] for at in self._random.permutation(len(things))]

    def whole(self, low: int, high: int) -> int:
        """A whole number, both bounds included."""
        return int(self._random.integers(low, high + 1))

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Numbers of a normal distribution of mean 0 and deviation 1, as many along each axis."""
        return self._random.standard_normal(shape)

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        """Numbers between 0 and 1, as many along each axis."""
        return self._random.random(shape)

    def lognormal(self, median: float, sigma: float, count: int) -> NDArray[np.float64]:
        """A row of lengths with a median and a deviation of the logarithm."""
        return median * np.exp(sigma * self.normal(count))
