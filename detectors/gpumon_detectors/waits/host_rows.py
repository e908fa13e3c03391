"""What the hosts of a job did meanwhile: CPUs, pressure, reading and writing, at the GPUs' rows."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Past

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, ProcessFacts, UserHold, View
    from gpumon_detectors.waits.gpu_rows import GpuRows

_GROUP: Final = (
    *("job_cpu_cores_used", "job_cpu_count", "job_cpu_pressure_some_ratio"),
    *("job_io_pressure_some_ratio", "job_io_read_bytes_per_s", "job_io_write_bytes_per_s"),
    *("job_mem_used_bytes", "job_process_count"),
)
_HOST: Final = (
    *("cpu_busy_ratio", "cpu_count", "io_pressure_some_ratio", "d_state_process_count"),
    *("disk_read_bytes_per_s", "disk_write_bytes_per_s"),
    *("net_rx_bytes_per_s", "net_tx_bytes_per_s", "load_1m"),
)
_BLOCKS: Final = (
    ("nic", ("nic_rx_bytes_per_s", "nic_tx_bytes_per_s")),
    ("filesystem", ("fs_read_bytes_per_s", "fs_write_bytes_per_s")),
)

_COUNTS: Final = {True: "job_cpu_count", False: "cpu_count"}
"""Where the CPUs are told that it may use, with a control group and without."""

_OF_TREE: Final = "process_tree_cpu_cores_used"

READS: Final = (
    *("job_io_read_bytes_per_s", "fs_read_bytes_per_s", "disk_read_bytes_per_s"),
    *("net_rx_bytes_per_s", "nic_rx_bytes_per_s"),
)
WRITES: Final = (
    *("job_io_write_bytes_per_s", "fs_write_bytes_per_s", "disk_write_bytes_per_s"),
    *("net_tx_bytes_per_s", "nic_tx_bytes_per_s"),
)
"""Bytes that a job moves, or that its nodes do, by where they are counted."""


_LATELY_S: Final = 300.0
_FULL: Final = 0.7
_IO: Final = 0.08
_IO_AT_TIMES: Final = 0.02
_EVEN: Final = 0.1
_WORKING_SM: Final = 0.7
"""What a job's hosts must show at least for a closer look: shares of its CPUs and of the time that
tasks wait for I/O of late, and all the while, how evenly its CPUs are busy, and SM activity of now
with which its GPUs wait for no loader. Below what any rule asks for (our choices)."""

_ASKED: Final = ("job_cpu_cores_used", "job_cpu_count", "job_io_pressure_some_ratio")


class HostRows(NamedTuple):
    """The hosts of a job at the rows of its GPUs; NaN where nothing is known."""

    cores: NDArray[np.float64]
    """CPUs that the job keeps busy; of its whole nodes where its own are not known."""
    allowed: float
    """CPUs that it may use, NaN where nobody says."""
    is_own: bool
    """Whether `cores` is the job's alone."""
    cpu_pressure: NDArray[np.float64]
    """Share of the time in which some task of the job waited for a CPU."""
    io_pressure: NDArray[np.float64]
    """Share of the time in which some task waited for I/O, on the node where that is most."""
    is_own_io: bool
    """Whether `io_pressure` is the job's alone."""
    stuck: NDArray[np.float64]
    """Processes in uninterruptible sleep, on the node with most, whoever they belong to."""
    memory: NDArray[np.float64]
    """Host memory of the job, page cache included."""
    processes: float
    """Processes of the job now, NaN where nobody says."""
    load: float
    """Tasks that run, or wait for CPU or disk, on all its nodes now, whoever they belong to."""
    moved: dict[str, NDArray[np.float64]]
    """Bytes a second by `READS` and `WRITES`, over its nodes."""
    is_alone: bool
    """Whether the job was alone on its nodes all the while."""
    driver_cores: float = float("nan")
    """CPUs that its processes on these GPUs keep busy now, NaN where one of them does not say."""

    @property
    def cpu_share(self) -> NDArray[np.float64]:
        """Per row the part of the CPUs that it may use that is busy, 0 to 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.cores / self.allowed


def may_wait(view: View, job: JobLook, seconds: float) -> bool:
    """Whether a job's hosts show anything that GPUs could wait for; spares most the GPUs' past."""
    past = job.cgroup_past(_ASKED, seconds)
    cores, count, io = (past.columns[key] for key in _ASKED)
    if not np.isfinite(io).any():
        host = job.hosts_past(("io_pressure_some_ratio",), seconds)
        io, times = host.columns["io_pressure_some_ratio"], host.times
    else:
        times = past.times
    if np.isfinite(io).any():
        lately = io[times >= times[-1] - 2 * _LATELY_S]
        if np.nanmean(io) >= _IO_AT_TIMES or np.nanmean(lately) >= _IO:
            return True
    is_late = past.times >= past.times[-1] - _LATELY_S if len(past.times) else np.zeros(0, bool)
    if not np.isfinite(cores[is_late]).any():
        return True
    allowed = np.nanmax(count[is_late]) if np.isfinite(count[is_late]).any() else np.nan
    if not np.isfinite(allowed):
        allowed = (job.cores or np.nan) / max(1, len(job.job.nodes))
    busy = float(np.nanmean(cores[is_late]))
    return busy >= _FULL * allowed or (
        busy >= 1.0 - _EVEN and _may_have_loaders(view, job, cores[is_late], busy)
    )


def may_wait_for_program(job: JobLook) -> bool:
    """Whether what drives a job's only GPU may be what it waits for: a CPU never rests.

    Threads may help it now and then. That says nothing of storage, or of who writes to it.
    """
    if len(job.gpus) != 1 or _is_working(job):
        return False
    cores = job.cgroup_past(_ASKED[:1], _LATELY_S).columns[_ASKED[0]]
    known = cores[np.isfinite(cores)]
    return bool(known.size) and float(known.min()) >= 1.0 - _EVEN


def _is_working(job: JobLook) -> bool:
    sms = job.latest("sm_active_ratio")
    return bool(sms.size) and float(sms.sum()) > _WORKING_SM * sms.size


def _may_have_loaders(view: View, job: JobLook, cores: NDArray[np.float32], busy: float) -> bool:
    """Whether other processes than those on its GPUs keep as many CPUs busy at every moment."""
    if _is_working(job):
        return False
    if float(np.nanmax(cores) - np.nanmin(cores)) > 2.0 * _EVEN * busy:
        return False
    everywhere: float = busy * cores.shape[1]
    return everywhere - _driver_cores(view, job) >= 1.0 - _EVEN


def host_rows(view: View, job: JobLook, rows: GpuRows, *, has_group: bool = True) -> HostRows:
    """What a job's hosts did while its GPUs did what the rows tell.

    Args:
        view: What is seen.
        job: The job, or a user's hold on a GPU.
        rows: What its GPUs did.
        has_group: Whether it may have a control group; else its hosts' CPUs are those it may use.
    """
    seconds = view.now - float(rows.begins[0])
    host = job.hosts_past(_HOST, seconds)
    group = job.cgroup_past(_GROUP, seconds) if has_group else _nothing(host)
    moved = {key: _summed(rows, group, key) for key in (READS[0], WRITES[0])}
    moved |= {key: _summed(rows, host, key) for key in _HOST[4:8]}
    for block, keys in _BLOCKS:
        entities = [f"{node.name}/{key}" for node in job.nodes for key in node.block(block).keys]
        if entities:
            past = view.past(entities, keys, seconds)
            moved |= {key: _summed(rows, past, key, is_whole=False) for key in keys}
    cores = _summed(rows, group, "job_cpu_cores_used")
    is_own = bool(np.isfinite(cores).mean() > 0.5)
    allowed = _newest_sum(group if has_group else host, _COUNTS[has_group])
    if not np.isfinite(allowed):
        allowed = float(job.cores or np.nan)
    if not is_own:
        busy = host._replace(
            columns={"cores": host.columns["cpu_busy_ratio"] * host.columns["cpu_count"]}
        )
        cores = _summed(rows, busy, "cores")
    io_pressure = _highest(rows, group, "job_io_pressure_some_ratio")
    is_own_io = bool(np.isfinite(io_pressure).mean() > 0.5)
    if not is_own_io:
        io_pressure = _highest(rows, host, "io_pressure_some_ratio")
    return HostRows(
        cores=cores,
        allowed=allowed,
        is_own=is_own,
        cpu_pressure=_highest(rows, group, "job_cpu_pressure_some_ratio"),
        io_pressure=io_pressure,
        is_own_io=is_own_io,
        stuck=_highest(rows, host, "d_state_process_count"),
        memory=_summed(rows, group, "job_mem_used_bytes"),
        processes=_newest_sum(group, "job_process_count"),
        load=_newest_sum(host, "load_1m"),
        moved=moved,
        is_alone=job.alone_since <= float(rows.begins[0]),
        driver_cores=_driver_cores(view, job) if has_group else float("nan"),
    )


def program_rows(view: View, hold: UserHold, host: HostRows, rows: GpuRows) -> HostRows | None:
    """The same with the CPU time of the processes on a hold's GPU, and of what they started.

    None where none of them keeps a CPU busy, or they hide it.
    """
    driver = busiest(view, hold)
    if driver is None or driver[1] < 1.0 - _EVEN:
        return None
    seconds = view.now - float(rows.begins[0])
    past = view.past([process.key for process in hold.processes], (_OF_TREE,), seconds)
    cores = _summed(rows, past, _OF_TREE)
    if not np.isfinite(cores).any():
        return None
    return host._replace(cores=cores, is_own=True, driver_cores=driver[1])


def busiest(view: View, hold: UserHold) -> tuple[ProcessFacts, float] | None:
    """The process on a hold's GPU that keeps most CPUs busy now, and how many; None: unknown."""
    names = [process.key for process in hold.processes]
    (cores,) = view.history.newest(names, ("process_cpu_cores_used",), "process")
    known = [(one, float(busy)) for one, busy in zip(hold.processes, cores, strict=True)]
    return max((one for one in known if np.isfinite(one[1])), key=itemgetter(1), default=None)


def _driver_cores(view: View, job: JobLook) -> float:
    mine = set(job.uuids)
    keys = [one.key for one in job.processes if mine.intersection(one.gpu_uuids)]
    (cores,) = view.history.newest(keys, ("process_cpu_cores_used",), "process")
    return float(cores.sum()) if len(keys) else float("nan")


def _nothing(like: Past) -> Past:
    """The past of a control group that there is not."""
    times = like.times[:0]
    columns = {key: np.empty((0, 0), np.float32) for key in _GROUP}
    return Past(times, times, times, columns, {}, like.longest_s)


def _at_rows(rows: GpuRows, past: Past, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of another table at the GPUs' rows: of the row around them, or the newest by then.

    Old rows hold many samples, and those of hosts get old sooner than those of GPUs.
    """
    count = len(past.times)
    is_known = np.isfinite(values)
    if not is_known.any():
        # Of much that is asked for nobody tells: no control group, no pressure, no mount.
        return np.full(len(rows.times), np.nan)
    last = np.maximum.accumulate(np.where(is_known, np.arange(count), -1))
    before = past.times.searchsorted(rows.times, "right") - 1
    newest = np.where(before >= 0, last[np.maximum(before, 0)], -1)
    age_s = rows.times - past.times[np.maximum(newest, 0)]
    is_fresh = (newest >= 0) & (age_s <= max(past.longest_s, rows.longest_s))
    around = np.minimum(before + 1, count - 1)
    is_around = (past.begins[around] <= rows.times) & (rows.times <= past.times[around])
    is_around &= is_known[around]
    source = np.where(is_around, around, np.maximum(newest, 0))
    return np.where(is_around | is_fresh, values[source], np.nan)


def _summed(rows: GpuRows, past: Past, key: str, *, is_whole: bool = True) -> NDArray[np.float64]:
    """Sum over entities; where `is_whole` it is known only where each of them is."""
    values = past.columns[key]
    is_known = np.isfinite(values)
    is_usable = is_known.all(axis=1) if is_whole else is_known.any(axis=1)
    total = np.nansum(values, axis=1, dtype=np.float64)
    return _at_rows(rows, past, np.where(is_usable & (values.shape[1] > 0), total, np.nan))


def _highest(rows: GpuRows, past: Past, key: str) -> NDArray[np.float64]:
    values = past.columns[key].astype(np.float64)
    is_usable = np.isfinite(values).any(axis=1)
    high = np.where(np.isfinite(values), values, -np.inf).max(axis=1, initial=-np.inf)
    return _at_rows(rows, past, np.where(is_usable, high, np.nan))


def _newest_sum(past: Past, key: str) -> float:
    """Sum over entities of the newest known values; NaN where one of them never was."""
    values = past.columns[key]
    if not values.size:
        return float("nan")
    last = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0).max(axis=0)
    return float(values[last, np.arange(values.shape[1])].astype(np.float64).sum())
