"""What history holds of some jobs, on one grid of steps that ends now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.features.feature import LONG_S, STEP_S
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.gpu.hardware import sheet_named
from gpumon.model.gpu.pcie import pcie_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.view import JobLook, View
    from gpumon.fleet.history.reader import Slab

GPU_KEYS: Final = (
    *("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
    *("fp64_active_ratio", "fp32_active_ratio", "power_w", "power_limit_w", "mem_used_bytes"),
    *("mem_total_bytes", "sm_clock_mhz", "sm_clock_max_mhz", "pcie_rx_bytes_per_s"),
    *("pcie_tx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "pcie_gen"),
    *("pcie_gen_max", "pcie_width", "pcie_width_max", "pcie_replay_count"),
    *("encoder_util_ratio", "decoder_util_ratio"),
)
CGROUP_KEYS: Final = (
    *("job_cpu_cores_used", "job_cpu_count", "job_mem_used_bytes", "job_mem_limit_bytes"),
    *("job_io_read_bytes_per_s", "job_io_write_bytes_per_s", "job_output_age_s"),
    *("job_cpu_pressure_some_ratio", "job_mem_pressure_some_ratio", "job_io_pressure_some_ratio"),
)
NODE_KEYS: Final = (
    *("cpu_count", "cpu_busy_ratio", "cpu_iowait_ratio", "cpu_pressure_some_ratio"),
    *("mem_pressure_some_ratio", "io_pressure_some_ratio", "d_state_process_count"),
    *("net_rx_bytes_per_s", "net_tx_bytes_per_s", "disk_read_bytes_per_s"),
    *("disk_write_bytes_per_s", "host_mem_total_bytes"),
)
PORT_KEYS: Final = ("nic_tx_bytes_per_s", "nic_rx_bytes_per_s", "nic_speed_gbps")
MOUNT_KEYS: Final = (
    *("fs_read_bytes_per_s", "fs_write_bytes_per_s", "fs_read_exec_s", "fs_write_exec_s"),
)

MOST_GPUS: Final = 128
"""Of a larger job so many GPUs, evenly spread, stand for all."""

_MOST_VALUES: Final = 6_000_000
"""Values that are read at once: 24 MB, beside which the worker has room for the rest."""


class Samples(NamedTuple):
    """Values by step, the newest last; NaN where nothing is known or the job held it not yet."""

    step_s: float
    jobs: tuple[JobLook, ...]
    of_gpu: NDArray[np.intp]
    """Position of its job, per GPU; a job's GPUs stand together, in the order of their ranks."""
    node_of_gpu: NDArray[np.intp]
    """Number of its node, per GPU."""
    starts: NDArray[np.intp]
    """First GPU of each job."""
    gpus: Mapping[str, Floats]
    """By field, step by GPU."""
    hosts: Mapping[str, Floats]
    """By field, step by job: sums of bytes, cores, tasks and memory, means of shares, the worst of
    latencies, over its nodes, cgroups, ports and mounts."""
    peaks: Mapping[str, Floats]
    """Per GPU what its links carry in one direction, bytes/s: `pcie`, `nvlink`."""

    def last(self, values: Floats, seconds: float) -> Floats:
        """The rows of the last so many seconds."""
        return values[-max(1, round(seconds / self.step_s)) :]

    def by_job(self, values: Floats, combine: np.ufunc = np.add) -> Floats:
        """Per job, over the last axis, which is of GPUs."""
        found: Floats = combine.reduceat(values, self.starts, axis=-1)
        return found

    def job_mean(self, values: Floats) -> Floats:
        """Mean per job of the GPUs that are known, NaN where more than half are not."""
        is_known = np.isfinite(values)
        count = self.by_job(is_known.astype(np.float64))
        total = self.by_job(np.where(is_known, values, 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = np.where(count >= 0.5 * self.sizes, total / count, np.nan)
        return found

    @property
    def sizes(self) -> NDArray[np.intp]:
        """GPUs of each job."""
        return np.diff(np.append(self.starts, len(self.of_gpu)))


def batches(view: View, jobs: Sequence[JobLook], window_s: float) -> list[tuple[JobLook, ...]]:
    """Jobs in groups that are read at once; a large one alone. All hold GPUs that are known."""
    rows = len(view.history.slab((), GPU_KEYS[:1], view.now - window_s, view.now).times)
    room = max(1, _MOST_VALUES // (len(GPU_KEYS) * max(1, rows)))
    groups: list[list[JobLook]] = []
    used = room
    for job in jobs:
        count = min(len(job.gpus), MOST_GPUS)
        if used + count > room:
            groups.append([])
            used = 0
        groups[-1].append(job)
        used += count
    return [tuple(group) for group in groups]


def samples_of(
    view: View, jobs: Sequence[JobLook], window_s: float = LONG_S, *, has_hosts: bool = True
) -> Samples:
    """What history holds of jobs, each of which holds at least one known GPU.

    Args:
        view: The look.
        jobs: Whose.
        window_s: How far back.
        has_hosts: Whether what is known off the GPUs is read too.
    """
    uuids: list[str] = []
    starts, held, nodes = [], [], []
    numbers: dict[str, int] = {}
    for job in jobs:
        starts.append(len(uuids))
        mine = _in_rank_order(job)
        mine = mine[:: -(-len(mine) // MOST_GPUS)]
        uuids += mine
        held += [job.all_held_since] * len(mine)
        nodes += [numbers.setdefault(view.gpus[uuid].node, len(numbers)) for uuid in mine]
    sizes = np.diff([*starts, len(uuids)])
    slab = view.history.slab(uuids, GPU_KEYS, view.now - window_s, view.now)
    grid = _Grid.of(view.now, window_s, slab)
    gpus = grid.means(slab, GPU_KEYS, np.array(held))
    return Samples(
        step_s=grid.step_s,
        jobs=tuple(jobs),
        of_gpu=np.repeat(np.arange(len(jobs)), sizes),
        node_of_gpu=np.array(nodes, np.intp),
        starts=np.array(starts, np.intp),
        gpus=gpus,
        hosts=_hosts(view, jobs, grid) if has_hosts else {},
        peaks=_link_peaks(view, uuids, gpus),
    )


def _in_rank_order(job: JobLook) -> list[str]:
    """A job's known GPUs: those of ranks in their order, then the others in Slurm's."""
    numbered = [(rank.rank, place, uuid) for rank in job.ranks if rank.rank is not None
                for place, uuid in enumerate(rank.gpu_uuids)]  # fmt: skip
    ranked = dict.fromkeys(uuid for _, _, uuid in sorted(numbered))
    known = set(job.uuids)
    return [uuid for uuid in dict.fromkeys((*ranked, *job.uuids)) if uuid in known]


class _Grid(NamedTuple):
    """Steps back from now."""

    now: float
    window_s: float
    step_s: float

    @classmethod
    def of(cls, now: float, window_s: float, slab: Slab) -> _Grid:
        """Steps no finer than the newest rows."""
        period_s = float(slab.periods[-1]) if len(slab.times) else STEP_S
        return cls(now, window_s, max(STEP_S, period_s))

    @property
    def steps(self) -> int:
        """How many the window has."""
        return max(1, round(self.window_s / self.step_s))

    def means(self, slab: Slab, keys: Sequence[str], since: Floats) -> dict[str, Floats]:
        """By field, step by entity: means of the rows of each step that lie behind `since`."""
        wanted = [slab.values[:, place] for place in range(len(keys))]
        if not len(slab.times):
            nothing = np.full((self.steps, len(since)), np.nan)
            return dict.fromkeys(keys, nothing)
        is_held = slab.begins[:, None] >= since[None, :]
        step_of = self.steps - 1 - np.floor((self.now - slab.times) / self.step_s).astype(np.intp)
        firsts = np.flatnonzero(np.diff(step_of, prepend=-1))
        firsts = firsts[step_of[firsts] >= 0]
        at = step_of[firsts]
        behind = self._rows_over(slab, at)
        found = {}
        for key, values in zip(keys, wanted, strict=True):
            known = np.isfinite(values) & is_held
            count = np.add.reduceat(known.astype(np.float32), firsts, axis=0)
            total = np.add.reduceat(np.where(known, values, np.float32(0)), firsts, axis=0)
            grid = np.full((self.steps, values.shape[1]), np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                grid[at] = np.where(count > 0, total / count, np.nan)
            for step, row in behind:
                grid[step] = np.where(known[row], values[row], np.nan)
            found[key] = grid
        return found

    def _rows_over(self, slab: Slab, combined: NDArray[np.intp]) -> list[tuple[int, int]]:
        """Steps in which no row ends, each with the coarser row that spans it."""
        empty = np.setdiff1d(np.arange(self.steps), combined)
        ends = self.now - (self.steps - 1 - empty) * self.step_s
        rows = np.searchsorted(slab.times, ends, "left")
        spanning = []
        for step, end, row in zip(empty.tolist(), ends.tolist(), rows.tolist(), strict=True):
            if row < len(slab.times):
                begun = slab.begins[row] if row == 0 else slab.times[row] - slab.periods[row]
                if min(begun, slab.begins[row]) <= end - self.step_s:
                    spanning.append((step, row))
        return spanning


def _hosts(view: View, jobs: Sequence[JobLook], grid: _Grid) -> dict[str, Floats]:
    """What is known off the GPUs, by job."""
    found: dict[str, Floats] = {}
    since = np.array([job.job.start_at or float("-inf") for job in jobs])
    cgroups = [[f"{name}/{job.job.job_id}" for name in job.job.nodes] for job in jobs]
    nodes = [list(job.job.nodes) for job in jobs]
    ports, mounts = (
        [[f"{node.name}/{key}" for node in job.nodes for key in node.block(block).keys]
         for job in jobs]
        for block in ("nic", "filesystem")
    )  # fmt: skip
    for keys, entities in (
        (CGROUP_KEYS, cgroups),
        (NODE_KEYS, nodes),
        (PORT_KEYS, ports),
        (MOUNT_KEYS, mounts),
    ):
        found.update(_together(view, grid, keys, entities, since))
    is_shared = np.array([not job.is_alone for job in jobs])
    for key in (*NODE_KEYS, *PORT_KEYS, *MOUNT_KEYS):
        if key not in _ANYBODYS:
            found[key] = np.where(is_shared[None, :], np.nan, found[key])
    return found


_ANYBODYS: Final = frozenset(
    {"cpu_count", "cpu_busy_ratio", "cpu_iowait_ratio", "cpu_pressure_some_ratio",
     "mem_pressure_some_ratio", "io_pressure_some_ratio", "host_mem_total_bytes",
     "nic_speed_gbps", "fs_read_exec_s", "fs_write_exec_s"}
)  # fmt: skip
"""What a node is like for everybody on it; the rest is some job's, and of jobs that share a node
nobody can say whose."""


def _together(
    view: View,
    grid: _Grid,
    keys: Sequence[str],
    entities: Sequence[Sequence[str]],
    since: Floats,
) -> dict[str, Floats]:
    """Fields of one block of every job's entities, put together by job."""
    names = [name for mine in entities for name in mine]
    sizes = [len(mine) for mine in entities]
    has_some = np.flatnonzero(sizes)
    found = {key: np.full((grid.steps, len(entities)), np.nan) for key in keys}
    if not names:
        return found
    slab = _slab(view, names, keys, grid)
    values = grid.means(slab, keys, np.repeat(since, sizes))
    starts = np.cumsum([0, *sizes])[:-1][has_some]
    for key in keys:
        column = values[key]
        is_known = np.isfinite(column)
        count = np.add.reduceat(is_known, starts, axis=1)
        if key in _WORST:
            combined = np.fmax.reduceat(column, starts, axis=1)
        else:
            combined = np.add.reduceat(np.where(is_known, column, 0.0), starts, axis=1)
            if key in _SHARES:
                combined = combined / np.maximum(count, 1)
        # A sum is one of all its parts, of ports and mounts of those that tell.
        of = np.array(sizes)[has_some] if key in (*CGROUP_KEYS, *NODE_KEYS) else 1
        found[key][:, has_some] = np.where(count >= of, combined, np.nan)
    return found


_SHARES: Final = frozenset(key for key in (*CGROUP_KEYS, *NODE_KEYS) if key.endswith("_ratio"))
_WORST: Final = frozenset(
    key for key in (*MOUNT_KEYS, *CGROUP_KEYS) if key.endswith("_s")
) - frozenset(key for key in (*MOUNT_KEYS, *CGROUP_KEYS) if key.endswith("_per_s"))


def _slab(view: View, names: Sequence[str], keys: Sequence[str], grid: _Grid) -> Slab:
    return view.history.slab(
        names, keys, grid.now - grid.window_s, grid.now, CATALOGUE[keys[0]].block
    )


def _link_peaks(view: View, uuids: Sequence[str], gpus: Mapping[str, Floats]) -> dict[str, Floats]:
    """What PCIe carries as the link was at its widest of late, and NVLink by the data sheet."""
    gens, lanes = (np.fmax.reduce(gpus[key], axis=0) for key in ("pcie_gen", "pcie_width"))
    pcie = [pcie_bytes_per_s(*pair) if pair[0] > 0 and pair[1] > 0 else None
            for pair in zip(gens.tolist(), lanes.tolist(), strict=True)]  # fmt: skip
    sheets = [sheet_named(view.gpus[uuid].name) for uuid in uuids]
    nvlink = [None if sheet is None or sheet.nvlink_bytes_per_s is None
              else sheet.nvlink_bytes_per_s.value for sheet in sheets]  # fmt: skip
    combined = {"pcie": pcie, "nvlink": nvlink}
    return {key: np.array(peaks, np.float64) for key, peaks in combined.items()}
