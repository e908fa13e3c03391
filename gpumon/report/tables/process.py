"""The columns of the processes on one GPU."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.missing import Reason
from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.rows import block_rows, host_row
from gpumon.report.tables.field import PAST_WIDTH, bars, round_up, span_s
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone
from gpumon.report.wording.gpu_cells import place_text
from gpumon.report.wording.verdict_words import reason_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from gpumon.model.records.cluster import Gpu, Node, Process, Rank
    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest


BLOCK_PERIODS: Final = 1.5
"""Least periods of history in one block of a process's past."""


class ProcessRow(NamedTuple):
    """One process on one GPU."""

    process: Process
    uuid: str
    rank: Rank | None
    context: BlockRow | None
    """The driver's record of the process on this GPU."""
    owner: BlockRow | None
    """The node's record of the process."""

    def use(self, key: str) -> float | int | None:
        """What it uses of the node, None where that is missing."""
        return None if self.owner is None else self.owner.value(key)

    @property
    def instance(self) -> tuple[float | None, float | None] | None:
        """The numbers of the MIG instance that it runs in; None: none is known."""
        if self.context is None:
            return None
        keys = ("context_gpu_instance", "context_compute_instance")
        one, other = (self.context.value(key) for key in keys)
        return None if one is None and other is None else (one, other)


class _NodeRows(NamedTuple):
    """A node's records of processes, by name."""

    contexts: dict[str, BlockRow]
    owners: dict[str, BlockRow]


def _node_rows(node: Node | None) -> _NodeRows:
    by_name = ({row.key: row for row in block_rows(node, name)} for name in ("context", "process"))
    return _NodeRows(*by_name)


def process_rows(digest: Digest, gpu: Gpu) -> tuple[ProcessRow, ...]:
    """The processes on a GPU, the largest first."""
    rows = _rows(digest, gpu, _node_rows(digest.tick.nodes.get(gpu.node)))
    return tuple(
        sorted(rows, key=lambda r: (-r.process.mem_used_bytes.get(gpu.uuid, 0.0), r.process.pid))
    )


def _rows(digest: Digest, gpu: Gpu, of_node: _NodeRows) -> list[ProcessRow]:
    contexts, owners = of_node
    return [
        ProcessRow(
            process=p,
            uuid=gpu.uuid,
            rank=digest.rank_of(p),
            context=contexts.get(f"{p.pid}/{gpu.uuid}"),
            owner=owners.get(str(p.pid)),
        )
        for p in gpu.processes
    ]


def all_process_rows(digest: Digest, gpus: Iterable[Gpu]) -> list[ProcessRow]:
    """A row for each process on each of some GPUs, the largest first."""
    rows: list[ProcessRow] = []
    by_node: dict[str, _NodeRows] = {}
    for gpu in gpus:
        if gpu.node not in by_node:
            by_node[gpu.node] = _node_rows(digest.tick.nodes.get(gpu.node))
        rows += _rows(digest, gpu, by_node[gpu.node])
    return sorted(
        rows,
        key=lambda row: (
            -(row.process.mem_used_bytes.get(row.uuid) or 0.0), row.process.pid,
            gpu_order(digest, row),
        ),
    )  # fmt: skip


def gpu_order(digest: Digest, row: ProcessRow) -> SortKey:
    """By node and number of the GPU: what UUIDs begin with says nothing to a reader."""
    gpu = digest.tick.gpus.get(row.uuid)
    index = gpu.nvml_index if gpu is not None else None
    return (row.process.node, float("inf") if index is None else float(index))


_UNREAD: Final = {
    Reason.NO_PERMISSION: "/proc shows this user no more of them",
    Reason.NO_PROCESS: "gone, or not in this PID namespace",
}
"""Why processes are a PID alone, of several together; other reasons in their usual words."""


def unread_words(rows: Collection[ProcessRow]) -> str:
    """Why nothing but the PID is known of some processes; empty where each is known."""
    unread = [one for one in (row.process for row in rows) if one.name is None and one.uid is None]
    reasons = list(dict.fromkeys(one.why for one in unread if one.why is not None))
    if not reasons:
        return ""
    why = "; ".join(_UNREAD.get(reason) or reason_words(reason) for reason in reasons)
    return f"{len(unread)} of {len(rows)} by their PID alone: {why}."


def _memory(_digest: Digest, row: ProcessRow) -> Cell:
    used = row.process.mem_used_bytes.get(row.uuid)
    return NO_VALUE if used is None else Cell(units.gib(used))


def _use(key: str) -> Callable[[Digest, ProcessRow], Cell]:
    """How busy a process makes one of its GPU's units."""

    def cell(_digest: Digest, row: ProcessRow) -> Cell:
        value = row.context.value(key) if row.context else None
        return NO_VALUE if value is None else Cell(units.percent(value))

    return cell


def _of_tree(
    whole: str, own: str, text: Callable[[float], str]
) -> Callable[[Digest, ProcessRow], Cell]:
    """The sum over a process and all that it has started, or its own as the least that it is."""

    def cell(_digest: Digest, row: ProcessRow) -> Cell:
        total, alone = row.use(whole), row.use(own)
        if total is not None:
            return Cell(text(total))
        return NO_VALUE if alone is None else Cell(f"≥{text(alone)}", Tone.DIM)

    return cell


def _cores(count: float) -> str:
    """Cores in the room that a sign leaves them: `9.3`, `128`."""
    return f"{count:.1f}" if count < 99.95 else f"{count:.0f}"


def _past(digest: Digest, row: ProcessRow) -> Cell:
    """The cores of the last minutes as blocks, from 0 to a round number; the newest right."""
    history: Any = digest.tick.history
    name = f"{row.process.node}/{row.process.pid}"
    if not hasattr(history, "slab"):
        return EMPTY_CELL
    # Processes are remembered less often than GPUs: a block holds a row at least.
    period_s = max((span.resolution_s for span in history.spans("process")), default=0.0)
    start = digest.tick.at - max(span_s(digest), BLOCK_PERIODS * period_s * PAST_WIDTH)
    end = digest.tick.at
    for key in ("process_tree_cpu_cores_used", "process_cpu_cores_used"):
        times, values = history.window(name, key, start, end, "process")
        known = [value for value in values if not isnan(value)]
        if known:
            break
    else:
        return EMPTY_CELL
    return Cell(
        bars(times, values, (start, end), (0.0, round_up(max(known))), PAST_WIDTH), Tone.PAST
    )


def _bytes(key: str) -> Callable[[Digest, ProcessRow], Cell]:
    def cell(_digest: Digest, row: ProcessRow) -> Cell:
        value = row.use(key)
        return NO_VALUE if value is None else Cell(units.short_rate(value))

    return cell


def _rank(_digest: Digest, row: ProcessRow) -> Cell:
    if row.rank is None:
        return EMPTY_CELL
    if row.rank.rank is None:
        return NO_VALUE
    world = row.rank.world_size
    return Cell(f"{row.rank.rank}" if world is None else f"{row.rank.rank}/{world}")


def _why(_digest: Digest, row: ProcessRow) -> Cell:
    if row.rank is not None and row.rank.why:
        return Cell(f"rank: {row.rank.why}", Tone.DIM)
    return Cell(reason_words(row.process.why), Tone.DIM)


def _type(_digest: Digest, row: ProcessRow) -> Cell:
    kind = row.process.types.get(row.uuid)
    return NO_VALUE if kind is None else Cell(kind)


def _user(_digest: Digest, row: ProcessRow) -> Cell:
    name, uid = row.process.user, row.process.uid
    if name is not None:
        return Cell(name)
    return NO_VALUE if uid is None else Cell(str(uid), Tone.DIM)


def _job(_digest: Digest, row: ProcessRow) -> Cell:
    job, step = row.process.job_id, row.process.step
    if job is None:
        return EMPTY_CELL
    return Cell(job if step is None else f"{job}.{step}")


def _gpu(digest: Digest, row: ProcessRow) -> Cell:
    return Cell(place_text(digest.tick.gpus.get(row.uuid), row.instance))


def age_s(digest: Digest, row: ProcessRow) -> float | None:
    """How long it runs by its node's clock, seconds; None where the node does not report it."""
    node = digest.tick.nodes.get(row.process.node)
    began, now = row.process.start_time_s, host_row(node).value("uptime_s") if node else None
    return None if began is None or now is None else max(0.0, now - began)


def _age(digest: Digest, row: ProcessRow) -> Cell:
    known = age_s(digest, row)
    return NO_VALUE if known is None else Cell(units.short_duration(known))


_COLUMNS: Final[tuple[Column[ProcessRow], ...]] = (
    Column(
        "pid",
        "PID",
        8,
        "right",
        priority=0,
        cell=lambda _d, r: Cell(str(r.process.pid)),
        order=None,
        doc="Process id on the node.",
    ),
    Column(
        "program",
        "PROGRAM",
        12,
        "left",
        priority=0,
        cell=lambda _d, r: Cell(r.process.name) if r.process.name else NO_VALUE,
        order=None,
        doc="Base name of the program.",
        max_width=20,
    ),
    Column(
        "type",
        "TYPE",
        4,
        "left",
        priority=1,
        cell=_type,
        order=None,
        doc="C: it computes on the GPU; G: it draws, as a desktop does, which does not count as "
        "use; C+G: both.",
    ),
    Column(
        "user",
        "USER",
        8,
        "left",
        priority=1,
        cell=_user,
        order=None,
        doc="Owner of the process as its node calls the user, else by number.",
        max_width=16,
    ),
    Column(
        "job",
        "JOB.STEP",
        12,
        "left",
        priority=1,
        cell=_job,
        order=None,
        doc="Job and step whose cgroup holds the process; Enter opens the job.",
        max_width=16,
    ),
    Column(
        "rank",
        "RANK",
        7,
        "right",
        priority=1,
        cell=_rank,
        order=None,
        doc="Rank, and how many ranks its world has.",
        max_width=9,
    ),
    Column(
        "memory",
        "MEM GiB",
        7,
        "right",
        priority=0,
        cell=_memory,
        order=None,
        doc="Device memory of the process on this GPU.",
    ),
    Column(
        "sm",
        "SM%",
        4,
        "right",
        priority=1,
        cell=_use("context_sm_util_ratio"),
        order=None,
        doc="Share of the SMs that the process used.",
    ),
    *(
        Column(
            name,
            title,
            4,
            "right",
            priority=1,
            cell=_use(key),
            order=None,
            doc=f"Share of time in which the process {what} (NVML's {theirs}).",
        )
        for name, title, key, what, theirs in (
            ("mbw", "MBW%", "context_mem_util_ratio", "read or wrote GPU memory", "memUtil"),
            ("enc", "ENC%", "context_encoder_util_ratio", "used the video encoder", "encUtil"),
            ("dec", "DEC%", "context_decoder_util_ratio", "used the video decoder", "decUtil"),
        )
    ),
    Column(
        "cores",
        "CORES",
        5,
        "right",
        priority=1,
        cell=_of_tree("process_tree_cpu_cores_used", "process_cpu_cores_used", _cores),
        order=None,
        doc="CPU cores that the process and all that it started use, such as data loaders; "
        "≥: its own alone.",
    ),
    Column(
        "rss",
        "RSS GiB",
        7,
        "right",
        priority=1,
        cell=_of_tree("process_tree_rss_bytes", "process_rss_bytes", units.gib),
        order=None,
        doc="Resident host memory of the process and all that it has started, what they share "
        "counted in each; ≥: its own alone.",
    ),
    Column(
        "read",
        "READ/s",
        6,
        "right",
        priority=2,
        cell=_bytes("process_io_read_bytes_per_s"),
        order=None,
        doc="Read from storage, network storage included; known for your own processes, or to "
        "root.",
    ),
    Column(
        "write",
        "WRITE/s",
        7,
        "right",
        priority=2,
        cell=_bytes("process_io_write_bytes_per_s"),
        order=None,
        doc="Written to storage, known for the same processes.",
    ),
    Column(
        "past",
        "CORES PAST",
        PAST_WIDTH,
        "left",
        priority=2,
        cell=_past,
        order=None,
        doc="CORES over the last minutes, from 0 to the next round number, the newest at the "
        "right; i in the ranks of a job draws all that the process uses.",
    ),
    Column(
        "uid",
        "UID",
        6,
        "right",
        priority=3,
        cell=lambda _d, r: (
            NO_VALUE if r.process.uid is None else Cell(str(r.process.uid), Tone.DIM)
        ),
        order=None,
        doc="Number of the process's owner.",
        max_width=10,
    ),
    Column(
        "why",
        "NOTE",
        12,
        "left",
        priority=2,
        cell=_why,
        order=None,
        doc="Why the rank is not known, or what may not be read.",
        max_width=60,
    ),
)

PROCESS_NODE_COLUMN: Final[Column[ProcessRow]] = Column(
    "node",
    "NODE",
    8,
    "left",
    priority=0,
    cell=lambda _d, r: Cell(r.process.node),
    order=None,
    doc="Its node.",
    max_width=20,
)

MACHINE_PROCESS_COLUMNS: Final[tuple[Column[ProcessRow], ...]] = (
    Column(
        "gpu",
        "GPU",
        3,
        "right",
        priority=0,
        cell=_gpu,
        order=None,
        doc="Index of the GPU, as NVML counts.",
    ),
    *(
        column
        for column in _COLUMNS
        if column.key in ("pid", "program", "type", "user", "memory", "sm", "cores", "rss")
    ),
    Column(
        "age", "TIME", 6, "right", priority=1, cell=_age, order=None, doc="Time since it started."
    ),
)
"""Of the processes on all GPUs of a machine."""

PROCESS_PARTS: Final = {
    column.key: column for column in (*_COLUMNS, *MACHINE_PROCESS_COLUMNS, PROCESS_NODE_COLUMN)
}
"""Every column of processes by its key, for tables that put them together another way."""

PROCESS_COLUMNS: Final = shown_first(
    ("pid", "program", "user", "job", "rank", "memory", "sm", "why"), _COLUMNS
)
