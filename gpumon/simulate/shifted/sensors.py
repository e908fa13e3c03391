"""What a probe reads of a node's GPUs: windows, steps, noise, heat, clocks, holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.simulate.shifted.ranges import Draw
from gpumon.simulate.shifted.signals import FIELDS, SW_POWER_CAP, curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.simulate.shifted.fleet import Fleet, Machine, Placed
    from gpumon.simulate.shifted.story import Mark

    Floats = NDArray[np.float64]

AT: Final = {name: number for number, name in enumerate(FIELDS)}
"""Column of each field of a phase."""

IDLE: Final = 0x01
"""The GPU idles (nvml.h: nvmlClocksEventReasonGpuIdle)."""
CLOCK_STEP_MHZ: Final = 15.0
"""Steps of NVML's clocks."""

SLOWDOWNS: Final = {
    "sw_power_cap": SW_POWER_CAP,
    "thermal_violation": 0x60,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "power_brake": 0x80,
}
"""Counters of time by the bits of `clock_event_reasons` that they count (nvml.h)."""

PROFILED: Final = ("sm", "tensor", "dram", "fp32", "fp64")


class Readings(NamedTuple):
    """Of one node over all samples: sample by GPU."""

    fields: dict[str, Floats]
    """Catalogue keys; NaN where a value is missing."""
    is_lost: NDArray[np.bool_]
    """Whether the GPU is off the bus."""
    contexts: NDArray[np.int64]
    """Processes on each."""


class Played(NamedTuple):
    """One job as its ranks are seen, sample by rank by field of a phase."""

    mean: Floats
    """Over the period."""
    short: Floats
    """Over NVML's own window."""
    power: Floats
    """Load, over the window of the power reading."""
    memory: Floats
    """Share of the GPU's memory, sample by rank."""
    has_process: NDArray[np.bool_]
    cpu_s: Floats
    """CPU seconds of each rank since the job began."""


def played(job: Placed, times: Floats, period_s: float) -> Played:
    """What the windows of all samples show of a job."""
    story, board = job.story, job.story.life.board
    at = np.clip(times - job.start_s, 0.0, job.length_s)
    is_on = (times > job.start_s) & (times <= job.end_s)
    views, shorts, loads, cpus = [], [], [], []
    for tape in story.tapes:
        before = np.clip(times - job.start_s - period_s, 0.0, job.length_s)
        mean = tape.seen(story.phases, before, np.maximum(at, before + 1e-9))
        mean *= ((at - before) / period_s)[:, None]
        short = tape.seen(story.phases, np.maximum(at - board.util_window_s, 0.0), at)
        power = tape.seen(story.phases, np.maximum(at - board.power_window_s, 0.0), at)
        views.append(mean)
        shorts.append(short * is_on[:, None])
        loads.append(power[:, AT["load"]] * is_on)
        spent = tape.spent(at).items()
        cpus.append(sum((story.phases[name].cores * s for name, s in spent), np.zeros(len(at))))
    ranks = range(story.life.gpus)
    of = [story.tape_of[rank] for rank in ranks]
    nothing = np.zeros_like(views[0])
    # Where no process is on a GPU the host side of the tape is the job's all the same.
    is_bare = all(one is None for one in of)
    bare = views[0] * np.isin(FIELDS, HOST_FIELDS)[None, :] if is_bare else nothing
    mean = np.stack([bare if one is None else views[one] for one in of], axis=1)
    short = np.stack([nothing if one is None else shorts[one] for one in of], axis=1)
    power = np.stack([nothing[:, 0] if one is None else loads[one] for one in of], axis=1)
    cpu_s = np.stack([cpus[one or 0] for one in of], axis=1)
    held = np.stack([_has_process(job, rank, times - job.start_s) for rank in ranks], axis=1)
    held &= is_on[:, None]
    memory = np.stack([_memory(job, rank, at) for rank in ranks], axis=1) * held
    return Played(mean=mean, short=short, power=power, memory=memory, has_process=held, cpu_s=cpu_s)


HOST_FIELDS: Final = (
    *("cores", "read", "write", "disk"),
    *("io_wait", "stuck", "cpu_wait", "request_s"),
)


def _has_process(job: Placed, rank: int, at: Floats) -> NDArray[np.bool_]:
    story = job.story
    if story.tape_of[rank] is None:
        return np.zeros(len(at), np.bool_)
    end_s = min(story.process_to_s, story.leaves_s.get(rank, story.process_to_s), job.length_s)
    is_there: NDArray[np.bool_] = (at >= story.process_from_s) & (at < end_s)
    return is_there


def _memory(job: Placed, rank: int, at: Floats) -> Floats:
    kinds = job.story.memory
    return curve(kinds[rank if len(kinds) > 1 else 0], at)


def readings(fleet: Fleet, machine: Machine, jobs: dict[int, Played], times: Floats) -> Readings:
    """All GPUs of a node."""
    plan, board, count = fleet.plan, machine.kind.board, machine.kind.gpus
    draw = Draw(plan.seed, f"sensors {machine.name}")
    shape = (len(times), count)
    short, mean = np.zeros((*shape, len(FIELDS))), np.zeros((*shape, len(FIELDS)))
    load, memory = np.zeros(shape), np.zeros(shape)
    contexts = np.zeros(shape, np.int64)
    for job in machine.jobs:
        node = job.machines.index(machine)
        ranks = slice(node * len(job.gpus[node]), (node + 1) * len(job.gpus[node]))
        own, view = list(job.gpus[node]), jobs[job.number]
        short[:, own] += view.short[:, ranks]
        mean[:, own] += view.mean[:, ranks]
        load[:, own] += view.power[:, ranks]
        memory[:, own] += view.memory[:, ranks]
        contexts[:, own] += view.has_process[:, ranks]
    fields = _use(board.has_gpm, board.has_pcie_counters, board.links > 0, short, mean, draw)
    fields["mem_used_bytes"] = _memory_bytes(board.mem_bytes, memory, contexts, draw)
    gain = draw.of("board_gain") * (1 + 0.02 * draw.normal(count))
    _power(fields, machine, np.minimum(load * gain, 1.02), mean[..., AT["load"]], times, draw)
    _clocks(fields, machine, np.minimum(load * gain, 1.0), contexts > 0, draw)
    if board.links and not board.has_newer_links:
        fields |= {f"nvlink_{what}_count": np.zeros(shape) for what in ("recovery", "replay")}
    for _, back_s in reboots(machine):
        is_new = times > back_s
        fields["energy_j"][is_new] -= fields["energy_j"][~is_new].max(axis=0, initial=0.0)
    is_lost = np.zeros(shape, np.bool_)
    for job in machine.jobs:
        for mark in job.story.marks:
            where, gpu = job.place_of(mark.gpu)
            if where is machine:
                _mark(fields, is_lost, mark, gpu, job, times)
    if board.has_pcie_counters:
        _slowdowns(fields, draw)
    _holes(fields, draw, draw.of("value_lost_ratio"))
    fields["process_count"] = contexts.astype(np.float64)
    return Readings(fields, is_lost, contexts)


def reboots(machine: Machine) -> list[tuple[float, float]]:
    """When a node went down and came back; seconds since the recording began."""
    return [
        (job.start_s + since, job.start_s + until)
        for job in machine.jobs
        for node, since, until in job.story.silent
        if job.machines[node] is machine and job.story.end_state == "NODE_FAIL"
    ]


def _use(
    has_gpm: bool, has_copies: bool, has_links: bool, short: Floats, mean: Floats, draw: Draw
) -> dict[str, Floats]:
    """What engines, memory and links do."""
    shape = short.shape[:2]

    def noisy(values: Floats, name: str = "util_noise") -> Floats:
        wide = values * (1.0 + draw.of(name) * draw.normal(*shape))
        return np.asarray(np.where(values > 0.001, np.clip(wide, 0.0, 1.0), 0.0), np.float64)

    util = short[..., AT["util"]]
    fields: dict[str, Floats] = {
        "gpu_util_ratio": np.where(util > 0.995, np.maximum(util, 0.99), noisy(util)),
        "mem_activity_ratio": noisy(0.9 * short[..., AT["dram"]]),
        "encoder_util_ratio": noisy(short[..., AT["encoder"]]),
        "decoder_util_ratio": noisy(short[..., AT["decoder"]]),
    }
    for key, values in fields.items():
        # NVML reports these in whole per cent.
        fields[key] = np.asarray(np.round(values, 2), np.float64)
    if has_gpm:
        for name in PROFILED:
            fields[f"{name}_active_ratio"] = noisy(mean[..., AT[name]])
        fields["sm_occupancy_ratio"] = 0.45 * fields["sm_active_ratio"]
        fields["graphics_active_ratio"] = noisy(mean[..., AT["util"]])
    if has_copies:
        for key, name in (("pcie_rx", "to_gpu"), ("pcie_tx", "from_gpu")):
            # Commands and completions alone are some hundred kilobytes a second.
            idle = 2e4 + 6e5 * mean[..., AT["util"]]
            fields[f"{key}_bytes_per_s"] = mean[..., AT[name]] + idle * (1 + draw.uniform(*shape))
    if has_links:
        for way in ("tx", "rx"):
            jitter = 1.0 + 0.02 * draw.normal(*shape)
            fields[f"nvlink_{way}_bytes_per_s"] = mean[..., AT["nvlink"]] * np.abs(jitter)
    return fields


def _memory_bytes(total: int, share: Floats, contexts: NDArray[np.int64], draw: Draw) -> Floats:
    """Memory in use in steps of 2 MiB, contexts included."""
    own = contexts * draw.of("context_bytes") + 1e6 * draw.whole(0, 12)
    used = np.minimum(share * total + own, 0.995 * total)
    return np.round(used / 2**21) * 2**21


def _power(
    fields: dict[str, Floats], machine: Machine, load: Floats, mean: Floats, times: Floats,
    draw: Draw,
) -> None:  # fmt: skip
    """Watts, joules, and the heat that follows them."""
    board, shape = machine.kind.board, load.shape
    room = board.limit_w - board.idle_w
    noise = 1.0 + draw.of("power_noise_ratio") * draw.normal(*shape)
    fields["power_w"] = np.clip((board.idle_w + load * room) * noise, 5.0, 1.06 * board.limit_w)
    fields["power_limit_w"] = np.full(shape, float(board.limit_w))
    steady = board.idle_w + np.clip(mean, 0.0, 1.0) * room
    gap_s = float(times[1] - times[0]) if len(times) > 1 else 1.0
    fields["energy_j"] = np.floor(np.cumsum(steady * gap_s, axis=0) + 1e6 * draw.between(3, 900))
    per_w, inlet = draw.of("warming_c_per_w") * 400.0 / board.limit_w, draw.of("inlet_c")
    target = inlet + 7.0 + per_w * steady + 2.0 * draw.normal(shape[1])
    decay = np.exp(-gap_s / draw.of("warming_tau_s"))
    warm = np.empty(shape)
    now = target[0]
    for row, wanted in enumerate(target):
        now = wanted + decay * (now - wanted)
        warm[row] = now
    fields["temp_c"] = np.minimum(np.round(warm), board.slowdown_c - 3.0)


def _clocks(
    fields: dict[str, Floats],
    machine: Machine,
    load: Floats,
    is_held: NDArray[np.bool_],
    draw: Draw,
) -> None:
    """Clocks, why they are below their highest, and the PCIe link, which rests as well."""
    board, slot = machine.kind.board, machine.kind.slot_width
    boost = board.clock_mhz * (0.985 + 0.012 * draw.uniform(load.shape[1]))
    loss = draw.of("clock_loss_at_limit")
    at_work = boost * (1.0 - loss * load**2) + 8.0 * draw.normal(*load.shape)
    clock = np.where(is_held, at_work, board.idle_clock_mhz)
    clock = np.minimum(np.round(clock / CLOCK_STEP_MHZ) * CLOCK_STEP_MHZ, board.clock_mhz)
    fields["sm_clock_mhz"] = np.where(is_held, clock, board.idle_clock_mhz)
    fields["mem_clock_mhz"] = np.where(is_held, board.mem_clock_mhz, 0.4 * board.mem_clock_mhz)
    # P0 with work or a context, P8 without (nvml.h).
    fields["perf_state"] = np.where(is_held, 0.0, 8.0)
    fields["power_average_w"] = fields["power_w"].copy()
    is_idle = fields["gpu_util_ratio"] == 0
    capped = (load > 0.93) & ~is_idle
    fields["clock_event_reasons"] = IDLE * is_idle + SW_POWER_CAP * capped * 1.0
    rests = ~is_held & (board.architecture in ("Ada", "Ampere") and not board.has_slices)
    fields["pcie_gen"] = np.where(rests, 1.0, float(board.pcie_gen))
    fields["pcie_width"] = np.full(load.shape, float(min(board.pcie_width, slot)))


def _mark(
    fields: dict[str, Floats], is_lost: NDArray[np.bool_], mark: Mark, gpu: int, job: Placed,
    times: Floats,
) -> None:  # fmt: skip
    """A field that reads otherwise while a mark holds and its job runs."""
    since, until = job.start_s + mark.from_s, job.start_s + min(mark.to_s, job.length_s)
    rows = (times > since) & (times <= until)
    if mark.field == "lost":
        # It stays lost when its job has ended.
        is_lost[times > since, gpu] = True
        return
    if mark.field in ("ecc_uncorrected_volatile_count", "remap_pending", "recovery_action"):
        rows = times > since
        fields.setdefault(mark.field, np.zeros(is_lost.shape))
    column = fields[mark.field]
    if mark.field == "clock_event_reasons":
        # Reported of a GPU that works; one that rests is idle and nothing else.
        rows = rows & (fields["gpu_util_ratio"][:, gpu] > 0)
    if mark.is_factor:
        column[rows, gpu] *= mark.value
        if mark.field == "sm_clock_mhz":
            column[rows, gpu] = np.round(column[rows, gpu] / CLOCK_STEP_MHZ) * CLOCK_STEP_MHZ
    else:
        column[rows, gpu] = mark.value


def _slowdowns(fields: dict[str, Floats], draw: Draw) -> None:
    """Shares of time in which each reason held the clock down, as newer boards count them."""
    reasons = fields["clock_event_reasons"].astype(np.int64)
    for key, bits in SLOWDOWNS.items():
        is_held = reasons & bits > 0
        share = np.where(is_held, 1.0 - 0.1 * draw.uniform(*reasons.shape), 0.0)
        fields[f"{key}_ratio"] = share


def _holes(fields: dict[str, Floats], draw: Draw, ratio: float) -> None:
    """Single calls that fail."""
    for key in ("gpu_util_ratio", "power_w", "temp_c", "sm_clock_mhz"):
        column = fields[key]
        column[draw.uniform(*column.shape) < ratio] = np.nan
    for key in [name for name in fields if name.endswith("_active_ratio")]:
        fields[key][0] = np.nan
