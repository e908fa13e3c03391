"""What the sensors of GPUs read of a job at the probe's period: point samples, means, counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tests.population.boards import GIB
from tests.population.draft import GPU_IDLE, HW_THERMAL, LOCKED, POWER_CAP, SW_THERMAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.population.boards import Board
    from tests.population.draft import Draft

LEVEL_KEYS: Final = (
    *("gpu_util_ratio", "mem_used_bytes", "power_w", "power_limit_w", "temp_c", "sm_clock_mhz"),
    *("pcie_gen", "pcie_width", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"),
    *("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "encoder_util_ratio"),
    *("decoder_util_ratio", "process_count", "mem_activity_ratio"),
)
"""Levels that every GPU tells."""

GPM_KEYS: Final = (
    *("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio"),
    *("fp64_active_ratio", "fp32_active_ratio", "graphics_active_ratio"),
)
"""Levels of Hopper and newer."""

COUNTER_KEYS: Final = (
    *("clock_event_reasons", "energy_j", "sw_power_cap_us", "sw_thermal_us", "hw_thermal_us"),
    *("thermal_violation_us", "power_brake_us"),
)
"""Masks and counters that change all the time."""

CONTEXT_FACTOR: Final = 1.6
"""An open context keeps the clocks up: H100 70 W without, 110-120 W with one."""

GB: Final = 1e9
LAG_S: Final = 120
"""Time that a heat sink takes."""


class Grid(NamedTuple):
    """Instants at which probes report."""

    start_at: int
    period_s: int
    count: int

    def at(self, number: int) -> int:
        """Unix time of a report."""
        return self.start_at + number * self.period_s


class Read(NamedTuple):
    """Readings of one job's GPUs on the grid."""

    first: int
    """Number of the first report in which the job is seen."""
    levels: dict[str, NDArray[np.float64]]
    """By field, [report, GPU]."""
    counters: dict[str, NDArray[np.int64]]
    """Masks, and of counters how much each grew since the report before."""
    seconds: NDArray[np.int64]
    """Second of the job at each report."""


def seconds_of(draft: Draft, begin_at: int, grid: Grid) -> tuple[int, NDArray[np.int64]]:
    """Number of the first report within the job, and the job's second at each of them."""
    numbers = np.arange(grid.count)
    seconds = grid.start_at + numbers * grid.period_s - begin_at
    inside = (seconds > 0) & (seconds <= draft.seconds)
    first = int(np.argmax(inside)) if inside.any() else 0
    return first, seconds[inside]


def mean_of(
    levels: NDArray[np.float32], seconds: NDArray[np.int64], span_s: int
) -> NDArray[np.float64]:
    """Mean over the span before each second, [report, row]."""
    total = np.concatenate(
        [np.zeros((levels.shape[0], 1)), np.cumsum(levels, axis=1, dtype=np.float64)], axis=1
    )
    before = np.maximum(0, seconds - span_s)
    return ((total[:, seconds] - total[:, before]) / span_s).T


def read_gpus(draft: Draft, begin_at: int, grid: Grid) -> Read:
    """Everything that a job's GPUs tell."""
    rng, period_s = draft.dice.rng, grid.period_s
    first, seconds = seconds_of(draft, begin_at, grid)
    at, shape = seconds - 1, (len(seconds), draft.gpus)
    boards = [draft.boards[gpu * draft.nodes // draft.gpus] for gpu in draft.all]

    def per_gpu(key: str) -> NDArray[np.float64]:
        return np.array([float(getattr(board, key)) for board in boards])

    def noisy(values: NDArray[np.float64], top: float = 1.0) -> NDArray[np.float64]:
        return np.clip(values * rng.normal(1.0, 0.02, shape), 0.0, top)

    watts, means = _power(draft, boards), {}
    for key in ("sm", "tensor", "dram", "fp64", "rx", "nvlink", "codec"):
        means[key] = mean_of(draft.level[key], seconds, min(period_s, 60))
    power = mean_of(watts[0], seconds, 1) * rng.normal(1.0, 0.01, shape)
    busy = draft.level["util"][:, at].T
    mem = draft.mem[:, at].T * GIB
    has_context = mem > 0
    reasons, capped = _reasons(draft, watts[1], at, has_context, busy)
    clocks = per_gpu("clock_mhz") * np.array(draft.lock) * draft.clock[:, at].T * watts[1][:, at].T
    clocks = np.where(has_context | (busy > 0), clocks, 0.17 * per_gpu("clock_mhz"))
    warmth = mean_of(watts[0], seconds, LAG_S) / per_gpu("limit_w")
    hot = reasons & (SW_THERMAL | HW_THERMAL) > 0
    temps = np.where(hot, per_gpu("slowdown_c") - rng.uniform(0, 3, shape), 27 + 42 * warmth)
    width = draft.width[:, at].T
    gens = per_gpu("pcie_gen")
    levels = {
        "gpu_util_ratio": np.round(noisy(busy), 2),
        "mem_used_bytes": mem + 4e6,
        "power_w": power,
        "power_limit_w": np.broadcast_to(np.array(draft.limit_w, float), shape),
        "temp_c": np.round(temps + rng.normal(0, 0.7, shape)),
        "sm_clock_mhz": np.round(clocks / 15) * 15,
        "pcie_gen": np.where(has_context | np.array([b.links > 0 for b in boards]), gens, 1.0),
        "pcie_width": np.where(width > 0, width, np.array(draft.lanes)),
        "pcie_tx_bytes_per_s": 0.3 * means["rx"] * GB * rng.normal(1, 0.1, shape).clip(0),
        "pcie_rx_bytes_per_s": means["rx"] * GB * rng.normal(1, 0.1, shape).clip(0),
        "nvlink_tx_bytes_per_s": means["nvlink"] * GB,
        "nvlink_rx_bytes_per_s": means["nvlink"] * GB,
        "encoder_util_ratio": np.round(noisy(0.6 * means["codec"]), 2),
        "decoder_util_ratio": np.round(noisy(means["codec"]), 2),
        "process_count": _processes(draft, at) * has_context,
        "mem_activity_ratio": np.round(noisy(0.8 * means["dram"]), 2),
        "sm_active_ratio": noisy(means["sm"]),
        "sm_occupancy_ratio": noisy(0.4 * means["sm"]),
        "tensor_active_ratio": noisy(means["tensor"]),
        "dram_active_ratio": noisy(means["dram"]),
        "fp64_active_ratio": noisy(means["fp64"]),
        "fp32_active_ratio": noisy(np.maximum(0.0, 0.3 * means["sm"] - 0.2 * means["tensor"])),
        "graphics_active_ratio": noisy(mean_of(draft.level["util"], seconds, min(period_s, 60))),
    }
    spent = mean_of(watts[0], seconds, period_s) * period_s
    counters = _counted(reasons, capped, spent, period_s)
    return Read(first, levels, counters, seconds)


def _counted(
    reasons: NDArray[np.int64],
    capped: NDArray[np.bool_],
    spent_j: NDArray[np.float64],
    period_s: int,
) -> dict[str, NDArray[np.int64]]:
    """The mask, and by how much each counter grew since the report before."""
    period_us = period_s * 1_000_000
    hot = reasons & (SW_THERMAL | HW_THERMAL) > 0
    return {
        "clock_event_reasons": reasons,
        "energy_j": spent_j.astype(np.int64),
        "sw_power_cap_us": capped * period_us,
        "sw_thermal_us": (reasons & SW_THERMAL > 0) * period_us,
        "hw_thermal_us": (reasons & HW_THERMAL > 0) * period_us,
        "thermal_violation_us": hot * period_us,
        "power_brake_us": np.zeros(reasons.shape, np.int64),
    }


def _power(draft: Draft, boards: list[Board]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Watts, and the share of its clock that the power limit leaves, [GPU, second]."""
    watts, left = np.empty_like(draft.mem), np.ones_like(draft.mem)
    for gpu, board in enumerate(boards):
        floor = np.where(draft.mem[gpu] > 0, CONTEXT_FACTOR, 1.0) * board.idle_w
        asked = draft.level["power"][gpu] * (board.limit_w - board.idle_w)
        asked = floor + asked * (draft.clock[gpu] * draft.lock[gpu]) ** 1.8
        cap = draft.limit_w[gpu]
        watts[gpu] = np.minimum(asked, cap)
        # Power goes with a little more than the square of the clock (Zeus: 60 % at 75-80 %).
        left[gpu] = np.where(asked > cap, (cap / np.maximum(asked, 1.0)) ** 0.45, 1.0)
    return watts, left


def _reasons(
    draft: Draft,
    left: NDArray[np.float32],
    at: NDArray[np.int64],
    has_context: NDArray[np.bool_],
    busy: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Bits of why the clock is below its highest, and whether the cap is one of them."""
    bits = draft.reasons[:, at].T.astype(np.int64)
    capped = left[:, at].T < 1.0
    bits |= np.where(capped, POWER_CAP, 0)
    bits |= np.where(np.array(draft.lock) < 1.0, LOCKED, 0)
    return np.where(has_context | (busy > 0), bits, GPU_IDLE), capped


def _processes(draft: Draft, at: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.zeros((len(at), draft.gpus))
    for program in draft.programs:
        running = (at >= program.start) & (at < program.end)
        found[np.ix_(running, program.gpus)] += 1
    return found


def read_hosts(
    draft: Draft, seconds: NDArray[np.int64], period_s: int
) -> dict[str, NDArray[np.float64]]:
    """What a job asks of its hosts, [report, node]."""
    rng = draft.dice.rng
    read = {}
    for key, values in draft.host.items():
        mean = mean_of(values, seconds, 1 if key == "memory" else min(period_s, 60))
        # Memory is what the kernel has charged, to the page.
        spread = 0.002 if key == "memory" else 0.04
        read[key] = np.maximum(0.0, mean * rng.normal(1.0, spread, mean.shape))
    # The kernel counts from the job's first second on, whoever watches.
    used = np.cumsum(np.minimum(draft.host["cores"], draft.cores), axis=1, dtype=np.float64)
    read["cpu_s"] = used[:, seconds - 1].T
    return read
