"""The columns of a node's ports, file systems and jobs, and the layout of its own values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.report.facts.columns import Column
from gpumon.report.tables.field import field_text
from gpumon.report.tables.link import errors_cell, field_cell, label_cell, rate_cell
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone
from gpumon.report.wording.space import NEARLY_FULL, fullness
from gpumon.report.wording.verdict_words import reason_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest

HOST: Final = {
    "cpu_busy_ratio": "CPU busy",
    "cpu_iowait_ratio": "CPU waits for disk",
    "load_1m": "load, 1 minute",
    "host_mem_available_bytes": "memory available",
    "host_swap_free_bytes": "swap free",
    "cpu_pressure_some_ratio": "PSI CPU",
    "mem_pressure_some_ratio": "PSI memory",
    "io_pressure_some_ratio": "PSI I/O",
    "d_state_process_count": "stuck in kernel (D)",
    "net_tx_bytes_per_s": "network sent",
    "net_rx_bytes_per_s": "network received",
    "disk_read_bytes_per_s": "disk read",
    "disk_write_bytes_per_s": "disk written",
    "uptime_s": "up for",
}
"""Values of a node in their order, by the names that people call them."""

HOST_BESIDE: Final = frozenset(
    {
        "cpu_count",
        "load_5m",
        "load_15m",
        "host_mem_total_bytes",
        "host_swap_total_bytes",
        "cpu_pressure_full_ratio",
        "mem_pressure_full_ratio",
        "io_pressure_full_ratio",
        "cpu_busy_ticks",
        "cpu_iowait_ticks",
        "cpu_total_ticks",
        "net_tx_bytes",
        "net_rx_bytes",
        "disk_read_bytes",
        "disk_write_bytes",
    }
)
"""Values that other lines show beside their own, and the counters that rates are made of."""

_PORT_ERRORS: Final = tuple(
    key
    for key, field in CATALOGUE.items()
    if field.block == "nic" and field.kind.is_integer and not field.unit and "numa" not in key
)


def host_of(row: BlockRow, key: str) -> str:
    """What a value of the node is to be compared with."""
    total = {
        "host_mem_available_bytes": "host_mem_total_bytes",
        "host_swap_free_bytes": "host_swap_total_bytes",
    }.get(key)
    if total is not None:
        value = row.value(total)
        if value is None:
            return ""
        return f"of {units.quantity(value, 'bytes')}" if value else "there is none"
    if key.endswith("_pressure_some_ratio"):
        value = row.value(key.replace("_some_", "_full_"))
        return "" if value is None else f"all tasks {units.percent(value)} %"
    cpus = row.value("cpu_count")
    if key == "cpu_busy_ratio":
        return "" if cpus is None else f"of {cpus:.0f} CPUs"
    if key == "load_1m":
        older = [value for k in ("load_5m", "load_15m") if (value := row.value(k)) is not None]
        return ", ".join(f"{value:.1f}" for value in older) + " in 5, 15" if older else ""
    return ""


def host_reason(reason: Reason) -> str:
    """Why a value of the node itself is missing."""
    return "not offered here" if reason is Reason.NOT_SUPPORTED else reason_words(reason)


def load_facts(host: BlockRow) -> list[tuple[str, str]]:
    """The host in a line: CPU, load, memory, pressure, stuck processes."""

    def text(key: str) -> str:
        value = host.value(key)
        return "" if value is None else field_text(CATALOGUE[key], value)

    pressures = [host.value(f"{what}_pressure_some_ratio") for what in ("cpu", "mem", "io")]
    is_known = any(value is not None for value in pressures)
    free, total = host.value("host_mem_available_bytes"), host.value("host_mem_total_bytes")
    used = None if free is None or total is None else total - free
    stuck = host.value("d_state_process_count")
    return [
        (
            "CPU",
            " ".join(t for t in (text("cpu_busy_ratio"), host_of(host, "cpu_busy_ratio")) if t),
        ),
        ("load", text("load_1m")),
        ("memory", "" if used is None else f"{units.memory(used, total)} GiB"),
        (
            "PSI CPU/mem/IO",
            "/".join(units.percent(p) for p in pressures) + " %" if is_known else "",
        ),
        ("stuck (D)", "" if stuck is None else f"{stuck:.0f}"),
    ]


def _port_state(_digest: Digest, row: BlockRow) -> Cell:
    """The port's state; a port that is not active is a warning."""
    words = [text for key in ("state", "phys_state") if (text := row.label(key))]
    if not words:
        return NO_VALUE
    if words[0].upper() == "ACTIVE":
        return Cell(words[0].lower())
    return Cell(", ".join(words).lower(), Tone.WARN)


def _network(_digest: Digest, row: BlockRow) -> Cell:
    """Layer and interface: `InfiniBand ib0`."""
    words = [text for key in ("link_layer", "net_device") if (text := row.label(key))]
    return Cell(" ".join(words), Tone.DIM) if words else NO_VALUE


def _nearest(digest: Digest, row: BlockRow) -> Cell:
    """The GPUs nearest to a port by their index: `0,1 (same switch)`."""
    named = (row.label("nearest_gpus") or "").split(",")
    gpus = [gpu for uuid in named if (gpu := digest.tick.gpus.get(uuid)) is not None]
    if not gpus:
        return NO_VALUE
    indices = ",".join(str(gpu.nvml_index) for gpu in gpus)
    how = row.label("nearest_by")
    return Cell(f"{indices} ({how})" if how else indices)


PORT_COLUMNS: Final[tuple[Column[BlockRow], ...]] = (
    Column(
        "port", "PORT", 9, "left", priority=0, cell=lambda _d, r: Cell(r.key), order=None,
        doc="Adapter and port.", max_width=14,
    ),
    Column(
        "state", "STATE", 8, "left", priority=0, cell=_port_state, order=None,
        doc="The port's state.", max_width=18,
    ),
    Column(
        "speed", "SPEED", 9, "right", priority=1, cell=field_cell("nic_speed_gbps"), order=None,
        doc="Data rate of the link.",
    ),
    Column(
        "tx", "TX B/s", 7, "right", priority=0, cell=rate_cell("nic_tx_bytes_per_s"), order=None,
        doc="Sent by the port.",
    ),
    Column(
        "rx", "RX B/s", 7, "right", priority=0, cell=rate_cell("nic_rx_bytes_per_s"), order=None,
        doc="Received by the port.",
    ),
    Column(
        "errors", "ERRORS", 10, "left", priority=1,
        cell=lambda _d, r: errors_cell(r, _PORT_ERRORS, "nic_"), order=None,
        doc="Counters of errors and congestion above 0, by name.", max_width=40,
    ),
    Column(
        "nearest", "NEAREST GPUS", 14, "left", priority=2, cell=_nearest, order=None,
        doc="GPUs that are nearest to the adapter, and what they share with it.", max_width=28,
    ),
    Column(
        "net", "NETWORK", 10, "left", priority=4, cell=_network, order=None,
        doc="InfiniBand or Ethernet, and the network interface of the adapter.", max_width=24,
    ),
)  # fmt: skip


def _mount_trouble(_digest: Digest, row: BlockRow) -> Cell:
    """Requests that went wrong; of a mount that reports nothing, why."""
    reason = row.reason("fs_read_bytes_per_s")
    if reason in (Reason.NO_PERMISSION, Reason.NOT_SUPPORTED, Reason.FAILED):
        return Cell(host_reason(reason), Tone.DIM)
    return errors_cell(row, ("fs_retransmits", "fs_timeouts"), "fs_")


FILESYSTEM_COLUMNS: Final[tuple[Column[BlockRow], ...]] = (
    Column(
        "mount", "MOUNT", 12, "left", priority=0, cell=lambda _d, r: Cell(r.key), order=None,
        doc="Where it is.", max_width=30,
    ),
    Column(
        "type", "TYPE", 6, "left", priority=0, cell=label_cell("fstype"), order=None,
        doc="Kind of file system.", max_width=8,
    ),
    Column(
        "read", "READ/s", 7, "right", priority=0, cell=rate_cell("fs_read_bytes_per_s"), order=None,
        doc="Read from the servers, bytes with decimal prefix.",
    ),
    Column(
        "write", "WRITE/s", 7, "right", priority=0, cell=rate_cell("fs_write_bytes_per_s"),
        order=None, doc="Written to the servers, bytes with decimal prefix.",
    ),
    Column(
        "read_time", "RD TIME", 8, "right", priority=1, cell=field_cell("fs_read_exec_s"),
        order=None, doc="Mean time of a read request from start to end.",
    ),
    Column(
        "write_time", "WR TIME", 8, "right", priority=1, cell=field_cell("fs_write_exec_s"),
        order=None, doc="Mean time of a write request from start to end.",
    ),
    Column(
        "errors", "TROUBLE", 12, "left", priority=2, cell=_mount_trouble, order=None,
        doc="Requests sent again or timed out since the mount, or why nothing can be read.",
        max_width=30,
    ),
    Column(
        "device", "FROM", 12, "left", priority=3, cell=label_cell("device", Tone.DIM), order=None,
        doc="Server and export.", max_width=40,
    ),
)  # fmt: skip


def _fullness(_digest: Digest, row: BlockRow) -> Cell:
    full = fullness(row)
    if full is None:
        reason = row.reason("used_bytes")
        return NO_VALUE if reason is None else Cell(host_reason(reason), Tone.DIM)
    text = f"{units.percent(full)} %"
    return Cell(f"! {text}", Tone.WARN) if full >= NEARLY_FULL else Cell(text)


def _gib(key: str) -> Callable[[Digest, BlockRow], Cell]:
    def cell(_digest: Digest, row: BlockRow) -> Cell:
        value = row.value(key)
        return NO_VALUE if value is None else Cell(units.gib(value))

    return cell


SPACE_COLUMNS: Final[tuple[Column[BlockRow], ...]] = (
    Column(
        "mount", "MOUNT", 12, "left", priority=0, cell=lambda _d, r: Cell(r.key), order=None,
        doc="Where it is.", max_width=30,
    ),
    Column(
        "type", "TYPE", 6, "left", priority=0, cell=label_cell("type"), order=None,
        doc="Kind of file system.", max_width=8,
    ),
    Column(
        "size", "SIZE GiB", 8, "right", priority=0, cell=_gib("size_bytes"), order=None,
        doc="How large it is.",
    ),
    Column(
        "used", "USED GiB", 8, "right", priority=0, cell=_gib("used_bytes"), order=None,
        doc="How much of it is used.",
    ),
    Column(
        "free", "FREE GiB", 8, "right", priority=1, cell=_gib("free_bytes"), order=None,
        doc="What users other than root may still fill.",
    ),
    Column(
        "full", "FULL", 7, "right", priority=0, cell=_fullness, order=None,
        doc="Share used of what users may fill, as df reports it; or why it is unknown.",
        max_width=16,
    ),
)  # fmt: skip


def _pair(row: BlockRow, used: str, limit: str, text: Callable[[float], str]) -> Cell:
    """A value and its limit, where that is known."""
    value, most = row.value(used), row.value(limit)
    if value is None:
        return NO_VALUE
    return Cell(text(value) if most is None else f"{text(value)}/{text(most)}")


def _cores(_digest: Digest, row: BlockRow) -> Cell:
    return _pair(row, "job_cpu_cores_used", "job_cpu_count", lambda cores: f"{cores:.3g}")


def _memory(_digest: Digest, row: BlockRow) -> Cell:
    return _pair(row, "job_mem_used_bytes", "job_mem_limit_bytes", units.gib)


def _kills(_digest: Digest, row: BlockRow) -> Cell:
    value = row.value("job_oom_kills")
    if value is None:
        return NO_VALUE
    return Cell(f"! {int(value)}" if value else "0", Tone.WARN if value else Tone.PLAIN)


def _output_age(_digest: Digest, row: BlockRow) -> Cell:
    value = row.value("job_output_age_s")
    return NO_VALUE if value is None else Cell(units.short_duration(value))


def _pressure(_digest: Digest, row: BlockRow) -> Cell:
    """CPU, memory and I/O pressure of some task, percent."""
    keys = (f"job_{what}_pressure_some_ratio" for what in ("cpu", "mem", "io"))
    values = [row.value(key) for key in keys]
    if all(value is None for value in values):
        return NO_VALUE
    return Cell("/".join(units.percent(value) for value in values))


def _disk(_digest: Digest, row: BlockRow) -> Cell:
    """Read and written a second: `1.2G+34M`."""
    ways = [row.value(f"job_io_{way}_bytes_per_s") for way in ("read", "write")]
    if all(way is None for way in ways):
        return NO_VALUE
    return Cell("+".join(units.short_rate(way) for way in ways))


def _owner(digest: Digest, row: BlockRow) -> Cell:
    view = digest.job(row.key)
    return Cell(f"{view.job.user} {view.job.name}") if view else Cell("not listed", Tone.DIM)


JOB_USE_COLUMNS: Final[tuple[Column[BlockRow], ...]] = (
    Column(
        "job", "JOB", 8, "left", priority=0, cell=lambda _d, r: Cell(r.key), order=None,
        doc="Slurm's job id.", max_width=12,
    ),
    Column(
        "cores", "CORES", 11, "right", priority=0, cell=_cores, order=None,
        doc="CPU cores that the job used, and that it may use.",
    ),
    Column(
        "memory", "MEM GiB", 11, "right", priority=0, cell=_memory, order=None,
        doc="Host memory of the job and its limit, page cache included.",
    ),
    Column(
        "oom", "OOM", 4, "right", priority=2, cell=_kills, order=None,
        doc="Processes killed for lack of memory.",
    ),
    Column(
        "pressure", "PSI C/M/IO", 10, "right", priority=2, cell=_pressure, order=None,
        doc="Share of the last 10 s in which some task waited for CPU, memory, I/O, percent.",
    ),
    Column(
        "disk", "READ+WRITE/s", 12, "right", priority=3, cell=_disk, order=None,
        doc="Read from and written to block devices; network file systems do not show here.",
    ),
    Column(
        "output", "OUT AGE", 7, "right", priority=3, cell=_output_age, order=None,
        doc="Time since the job last wrote to its standard output or error.",
    ),
    Column(
        "owner", "WHO", 12, "left", priority=1, cell=_owner, order=None,
        doc="Owner and name of the job.", max_width=40,
    ),
)  # fmt: skip
