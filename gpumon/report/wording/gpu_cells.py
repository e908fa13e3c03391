"""Cells of one GPU, shared by a job's ranks and by the fleet's list of GPUs; who is on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gpumon.model.catalogue.fields import CATALOGUE, CLOCK_EVENT_REASONS, clock_event_names
from gpumon.model.catalogue.process import ONLY_DRAWS
from gpumon.model.gpu.conditions import HARMLESS_BITS, IDLE_BITS
from gpumon.report.facts.columns import Column, SortKey
from gpumon.report.facts.rows import OF_INSTANCE, block_rows
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumon.model.records.cluster import Gpu, JobView, Node, Process
    from gpumon.report.facts.rows import GpuRow, Instance, Readable
    from gpumon.report.facts.tick_index import Digest

DUTY_DOC: Final = " ≤48: not offered by this GPU, but any kernel ran 48 % of the time (UTIL%)."
"""Help for the duty cycle that is shown in place of SM activity."""


class HasGpu(Protocol):
    """A row that shows one GPU, or says that there is none."""

    @property
    def gpu(self) -> Gpu | None:
        """The GPU, None where no telemetry names it."""
        ...

    @property
    def instance(self) -> Instance | None:
        """The MIG instance of it that the row is about; None: the whole GPU."""
        ...


SHORT_REASONS: Final = {
    "software power cap": "power cap",
    "hardware slowdown": "hw slowdown",
    "software thermal slowdown": "sw thermal",
    "hardware thermal slowdown": "hw thermal",
    "hardware power brake": "power brake",
}

MOST_MEASURED: Final = 128
"""GPUs up to which it is looked how long the names of their users are: those of a machine."""

WIDEST_USER: Final = 22
"""Cells that a user, and how many more there are, take at most."""

_THERMAL_BITS: Final = sum(bit for bit, name in CLOCK_EVENT_REASONS.items() if "thermal" in name)

_NVLINK_WAYS: Final = ("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")


def short_uuid(uuid: str) -> str:
    """The first eight digits of a UUID, without the `GPU-` or `MIG-` in front."""
    return uuid.partition("-")[2][:8] if uuid[:4] in ("GPU-", "MIG-") else uuid[:8]


def model_name(name: str | None) -> str:
    """A GPU's name without its maker: `H100 80GB HBM3`."""
    return (name or "").removeprefix("NVIDIA ")


def row_uuid(row: HasGpu) -> str | None:
    """UUID of the GPU, or of its instance that the row is about."""
    if row.instance is not None:
        return row.instance.uuid
    return row.gpu.uuid if row.gpu else None


def row_index(row: HasGpu) -> str:
    """NVML's index on the node, `3`; of an instance with its numbers, `3:1/0`."""
    return place_text(row.gpu, row.instance.numbers if row.instance is not None else None)


def place_text(gpu: Gpu | None, numbers: Sequence[float | None] | None) -> str:
    """The same by the numbers of the GPU instance and of a compute instance, where it is one."""
    index = units.index_text(gpu)
    if numbers is None:
        return index
    return f"{index}:{'/'.join(units.MISSING if n is None else f'{n:.0f}' for n in numbers)}"


def row_name(row: HasGpu) -> str:
    """A GPU's name without its maker, an instance's profile: `1g.10gb`."""
    if row.instance is not None:
        return row.instance.label("profile") or ""
    return model_name(row.gpu.label("name")) if row.gpu else ""


def unused_words(gpu: Gpu, job_id: str) -> str:
    """That a job which holds a GPU has nothing on it; empty where it has, or where that is unknown.

    What a job's own processes only draw is its work, as in rendering; what others do, as a desktop,
    is not.
    """
    if not gpu.reports_processes or gpu.compute_processes:
        return ""
    if any(one.job_id == job_id for one in gpu.processes):
        return ""
    return "no compute process" if gpu.processes else "no process"


def throttle_cell(gpu: Gpu) -> Cell | None:
    """Why the clock is held down; a power cap is ordinary for a busy GPU, heat and hardware not."""
    mask = int(gpu.value("clock_event_reasons") or 0) & ~IDLE_BITS
    if not mask:
        return None
    words = ", ".join(SHORT_REASONS.get(name, name) for name in clock_event_names(mask))
    return Cell(words, Tone.WARN if mask & ~HARMLESS_BITS else Tone.DIM)


def ratio_cell(gpu: Readable | None, key: str) -> Cell:
    """A share in whole percent."""
    value = gpu.value(key) if gpu else None
    return NO_VALUE if value is None else Cell(units.percent(value))


def activity_cell(gpu: Readable | None) -> Cell:
    """SM activity; on GPUs without that counter the duty cycle, its upper bound."""
    cell = ratio_cell(gpu, "sm_active_ratio")
    return cell if cell is not NO_VALUE else duty_cell(gpu.value("gpu_util_ratio") if gpu else None)


def duty_cell(gpu_util_ratio: float | None) -> Cell:
    """The duty cycle in the place of SM activity, which is no more than that: `≤48`."""
    if gpu_util_ratio is None:
        return NO_VALUE
    return Cell(f"≤{units.percent(gpu_util_ratio).removeprefix('<')}", Tone.DIM)


def _dim_ratio(gpu: Readable | None) -> Cell:
    return Cell(ratio_cell(gpu, "gpu_util_ratio").text, Tone.DIM)


def memory_cell(gpu: Readable | None) -> Cell:
    """Device memory in use and in all, GiB."""
    used = gpu.value("mem_used_bytes") if gpu else None
    if gpu is None or used is None:
        return NO_VALUE
    return Cell(units.memory(used, gpu.value("mem_total_bytes")))


def power_cell(gpu: Readable | None) -> Cell:
    """Power and limit, watts."""
    power_w = gpu.value("power_w") if gpu else None
    if gpu is None or power_w is None:
        return NO_VALUE
    return Cell(units.power(power_w, gpu.value("power_limit_w")))


def temperature_cell(gpu: Readable | None) -> Cell:
    """Core temperature; marked only where the GPU itself says that heat slows it down."""
    temp_c = gpu.value("temp_c") if gpu else None
    if gpu is None or temp_c is None:
        return NO_VALUE
    mask = int(gpu.value("clock_event_reasons") or 0)
    return Cell(f"{temp_c:.0f}", Tone.BAD if mask & _THERMAL_BITS else Tone.PLAIN)


def clock_cell(gpu: Readable | None) -> Cell:
    """SM clock, MHz."""
    clock = gpu.value("sm_clock_mhz") if gpu else None
    return NO_VALUE if clock is None else Cell(f"{clock:.0f}")


def pcie_cell(gpu: Readable | None) -> Cell:
    """PCIe link as generation x lanes; fewer lanes than GPU and slot have are a warning.

    The generation is no sign of trouble: an idle GPU lowers it to save power.
    """
    gen, width = (gpu.value("pcie_gen"), gpu.value("pcie_width")) if gpu else (None, None)
    if gpu is None or gen is None or width is None:
        return NO_VALUE
    widest = gpu.value("pcie_width_max")
    if widest is not None and width < widest:
        return Cell(f"{gen:.0f}x{width:.0f}!", Tone.WARN)
    return Cell(f"{gen:.0f}x{width:.0f}")


def nvlink_rate(gpu: Readable | None) -> float | None:
    """Payload per second over all NVLinks in the busier direction, None where neither is known.

    One direction, because that is what data sheets promise and what a link is full at.
    """
    ways = (gpu.value(key) for key in _NVLINK_WAYS) if gpu else ()
    return max((rate for rate in ways if rate is not None), default=None)


def nvlink_cell(gpu: Readable | None) -> Cell:
    """Payload per second over all NVLinks in the busier direction."""
    value = nvlink_rate(gpu)
    return NO_VALUE if value is None else Cell(units.short_rate(value))


class _Measured(NamedTuple):
    """A column that reads the GPU alone."""

    key: str
    title: str
    width: int
    priority: int
    cell: Callable[[Readable | None], Cell]
    doc: str


_MEASURED: Final = (
    _Measured(
        "sm_active_ratio",
        "SM%",
        4,
        1,
        cell=activity_cell,
        doc=CATALOGUE["sm_active_ratio"].doc + DUTY_DOC,
    ),
    _Measured(
        "tensor_active_ratio",
        "TENSOR%",
        7,
        2,
        cell=lambda gpu: ratio_cell(gpu, "tensor_active_ratio"),
        doc=CATALOGUE["tensor_active_ratio"].doc,
    ),
    _Measured(
        "dram_active_ratio",
        "DRAM%",
        5,
        4,
        cell=lambda gpu: ratio_cell(gpu, "dram_active_ratio"),
        doc=CATALOGUE["dram_active_ratio"].doc,
    ),
    _Measured(
        "mem_used_bytes",
        "MEM GiB",
        8,
        2,
        cell=memory_cell,
        doc="Device memory in use and in all, GiB.",
    ),
    _Measured(
        "power_w",
        "W/LIMIT",
        9,
        2,
        cell=power_cell,
        doc="Board power and its limit, watts.",
    ),
    _Measured(
        "temp_c",
        "°C",
        3,
        3,
        cell=temperature_cell,
        doc="Core temperature; marked where the GPU says that heat slows it down.",
    ),
    _Measured("sm_clock_mhz", "MHz", 4, 5, cell=clock_cell, doc="SM clock now."),
    _Measured(
        "pcie_width",
        "PCIe",
        5,
        6,
        cell=pcie_cell,
        doc="PCIe generation x lanes now; ! marks fewer lanes than GPU and slot have.",
    ),
    _Measured(
        "nvlink",
        "NVL/s",
        5,
        5,
        cell=nvlink_cell,
        doc="NVLink payload per second of the busier direction, as the job's page counts it, "
        "bytes with decimal prefix.",
    ),
    _Measured(
        "gpu_util_ratio",
        "UTIL%",
        5,
        7,
        cell=_dim_ratio,
        doc=CATALOGUE["gpu_util_ratio"].doc,
    ),
)


def _order(key: str) -> Callable[[Digest, HasGpu], SortKey | None]:
    def order(_digest: Digest, row: HasGpu) -> SortKey | None:
        gpu = row.gpu if row.instance is None else row.instance
        value = nvlink_rate(gpu) if key == "nvlink" else gpu and gpu.value(key)
        return None if value is None else (value,)

    return order


def _shown(measured: _Measured) -> Callable[[Digest, HasGpu], Cell]:
    has_instances = measured.key in OF_INSTANCE

    def cell(_digest: Digest, row: HasGpu) -> Cell:
        if row.instance is not None:
            # What only the whole GPU has is no value of an instance, and none that it misses.
            return measured.cell(row.instance) if has_instances else EMPTY_CELL
        # A row without GPU stays blank: its WHY column says what it is.
        return EMPTY_CELL if row.gpu is None else measured.cell(row.gpu)

    return cell


def measured_columns() -> tuple[Column[HasGpu], ...]:
    """The columns that any row with a GPU can show."""
    return tuple(
        Column(
            key=m.key, title=m.title, width=m.width, align="right", priority=m.priority,
            cell=_shown(m), order=_order(m.key), doc=m.doc, max_width=0, is_descending=True,
            unit="bytes/s" if m.key == "nvlink" else None,
        )
        for m in _MEASURED
    )  # fmt: skip


def processes_of(digest: Digest, row: GpuRow) -> tuple[Process, ...]:
    """The processes on a GPU; on a MIG instance those of which the driver says so."""
    if row.gpu is None:
        return ()
    if row.instance is None:
        return row.gpu.processes
    node = row.node
    pids = digest.remembered(("pids by instance", node.name), lambda: _pids_by_instance(node))
    mine = pids.get((row.gpu.uuid, *row.instance.numbers), ())
    return tuple([one for one in row.gpu.processes if one.pid in mine])


def _pids_by_instance(node: Node) -> dict[tuple[str, int | None, int | None], set[int]]:
    """Processes by UUID of the GPU and numbers of the instance, as far as both are reported."""
    found: dict[tuple[str, int | None, int | None], set[int]] = {}
    for row in block_rows(node, "context"):
        pid, _, uuid = row.key.partition("/")
        of_gpu, of_compute = (row.value(f"context_{of}_instance") for of in ("gpu", "compute"))
        if of_gpu is not None and of_compute is not None and pid.isdecimal():
            found.setdefault((uuid, int(of_gpu), int(of_compute)), set()).add(int(pid))
    return found


def _job_of(digest: Digest, row: GpuRow) -> JobView | None:
    """The job that holds the GPU.

    No source reports which instance a job holds: it is the job of what runs in it.
    """
    if row.gpu is None:
        return None
    if row.instance is None:
        return digest.job_by_gpu.get(row.gpu.uuid)
    found = (digest.job(one.job_id) for one in processes_of(digest, row) if one.job_id)
    return next((view for view in found if view is not None), None)


def holder(digest: Digest, row: GpuRow) -> tuple[str, str]:
    """Job label and user of the job that holds the GPU, empty where none does."""
    view = _job_of(digest, row)
    return ("", "") if view is None else (view.job.label, view.job.user)


def users_of(digest: Digest, row: GpuRow) -> tuple[str, ...]:
    """The owner of the job that holds the GPU; without one, of the processes on it.

    A user whom the node does not name is a number.
    """
    view = _job_of(digest, row)
    if view is not None or row.gpu is None:
        return (view.job.user,) if view is not None and view.job.user else ()
    by_user = (p.user or str(p.uid) for p in _first_of(digest, row) if p.uid is not None)
    return tuple(dict.fromkeys(by_user))


def _first_of(digest: Digest, row: GpuRow) -> Sequence[Process]:
    """The processes on a GPU: those that compute, then those that draw, most memory first."""
    found = processes_of(digest, row)
    if row.gpu is None or len(found) < 2:
        return found
    uuid = row.gpu.uuid
    return sorted(
        found, key=lambda p: (p.types.get(uuid) == ONLY_DRAWS, -p.mem_used_bytes.get(uuid, 0.0))
    )


def user_cell(digest: Digest, row: GpuRow) -> Cell:
    """The first of the users, and how many more; `+?` where others are not known.

    – where none is.
    """
    users = users_of(digest, row)
    if holder(digest, row) == ("", ""):
        of_whom = processes_of(digest, row)
        if not users and of_whom:
            return NO_VALUE
        if any(one.uid is None for one in of_whom):
            return Cell(f"{users[0]} +?")
    more = len(users) - 1
    return Cell(f"{users[0]} +{more}" if more > 0 else "".join(users))


def jobless_widths(digest: Digest) -> Mapping[str, int]:
    """Where neither a queue nor a label names a job: no column of jobs, and users in its room."""
    if digest.tick.queue_at is not None or digest.tick.jobs:
        return {}
    if len(digest.tick.gpus) > MOST_MEASURED:
        return {"job": 0}
    # The column of users stays while there are none: they come and go.
    widest = max((1, *(text_width(user_cell(digest, row).text) for row in digest.gpu_rows)))
    return {"job": 0, "user": min(widest, WIDEST_USER)}


def process_cell(digest: Digest, row: GpuRow) -> Cell:
    """The first process, and how many more."""
    processes = _first_of(digest, row)
    if not processes:
        return EMPTY_CELL
    first, more = processes[0], len(processes) - 1
    name = first.name or str(first.pid)
    return Cell(f"{name} +{more}" if more else name)
