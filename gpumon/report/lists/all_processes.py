"""Every process on every GPU in view as one table: its rows in steps, and its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.fleet.join.ranks import place
from gpumon.model.records.block import EMPTY_BLOCK
from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.rows import BlockRow
from gpumon.report.tables.process import PROCESS_PARTS, ProcessRow, age_s, gpu_order
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumon.model.records.cluster import Node
    from gpumon.report.facts.tick_index import Digest

STEP: Final = 500
"""Processes that are read in one step: a millisecond or two."""


class _Making:
    """The rows of a tick, made as far as they were asked for."""

    def __init__(self, digest: Digest) -> None:
        self.rows: list[ProcessRow] = []
        self.steps = self._made(digest)

    def _made(self, digest: Digest) -> Iterator[None]:
        counted = 0
        for node in digest.tick.nodes.values():
            gpus = [gpu for gpu in map(digest.tick.gpus.get, node.gpu_uuids) if gpu is not None]
            counted += len(gpus)
            if not any(gpu.processes for gpu in gpus):
                if counted >= STEP:
                    counted = 0
                    yield
                continue
            contexts: dict[str, BlockRow] = {}
            yield from _indexed(node, "context", contexts)
            owners: dict[str, BlockRow] = {}
            yield from _indexed(node, "process", owners)
            for gpu in gpus:
                for process in gpu.processes:
                    # Ranks are looked up where a line shows one: of a fleet that takes a while.
                    row = ProcessRow(
                        process=process,
                        uuid=gpu.uuid,
                        rank=None,
                        context=contexts.get(f"{process.pid}/{gpu.uuid}"),
                        owner=owners.get(str(process.pid)),
                    )
                    self.rows.append(row)
                    counted += 1
                    if counted >= STEP:
                        counted = 0
                        yield


def _indexed(node: Node, name: str, found: dict[str, BlockRow]) -> Iterator[None]:
    """Put the rows of a block into a look-up by their keys, where they are many in steps."""
    block = node.blocks.get(name, EMPTY_BLOCK)
    for row, key in enumerate(block.keys):
        found[key] = BlockRow(key, block, row, node.is_stale)
        if row % STEP == STEP - 1:
            yield


def _making(digest: Digest) -> _Making:
    return digest.remembered(("all processes", ""), lambda: _Making(digest))


def process_steps(digest: Digest) -> Iterator[None]:
    """Make the rows, some hundred in a step; `every_process` then has nothing left to do."""
    # What was begun goes on after a pause, wherever this iteration ends.
    for _ in _making(digest).steps:
        yield


def every_process(digest: Digest) -> Sequence[ProcessRow]:
    """A row for each process on each GPU, by node and GPU."""
    for _ in process_steps(digest):
        pass
    return _making(digest).rows


def process_key(row: ProcessRow) -> str:
    """What names a row over time: a PID that comes again is another process."""
    process = row.process
    return f"{process.node}/{process.pid}/{process.start_time_s}/{row.uuid}"


def process_order(digest: Digest, row: ProcessRow) -> SortKey:
    """Most GPU memory on top; what is not known below, by node, PID and GPU."""
    used = row.process.mem_used_bytes.get(row.uuid)
    node, index = gpu_order(digest, row)
    return (1.0 if used is None else -used, node, float(row.process.pid), index)


def process_search(digest: Digest, row: ProcessRow) -> str:
    """What the row filter looks through, lower case."""
    process = row.process
    shown = PROCESS_PARTS["job"].cell(digest, row).text
    words = (
        process.name or "",
        str(process.pid),
        *owners(digest, row),
        _place(digest, row),
        row.uuid,
        shown,
    )
    return "\n".join(words).lower()


def _place(digest: Digest, row: ProcessRow) -> str:
    """Node and index of the GPU, as the crumbs name it."""
    return f"{row.process.node}:{units.index_text(digest.tick.gpus.get(row.uuid))}"


def _gpu(digest: Digest, row: ProcessRow) -> Cell:
    """The index; among several nodes behind the end of a name that has no room."""
    index = PROCESS_PARTS["gpu"].cell(digest, row).text
    if len(digest.tick.nodes) <= 1:
        return Cell(index)
    node = row.process.node.partition(".")[0]
    room = _WIDEST_GPU - len(index) - 1
    return Cell(f"{node if len(node) <= room else '…' + node[1 - room :]}:{index}")


def _gpu_words(digest: Digest, row: ProcessRow) -> tuple[str, ...]:
    """The GPU as it is shown, and whole: by its index, and by its node."""
    index = units.index_text(digest.tick.gpus.get(row.uuid))
    return tuple(word.lower() for word in (_gpu(digest, row).text, index, _place(digest, row)))


def _of_tree(whole: str, own: str) -> Callable[[Digest, ProcessRow], SortKey | None]:
    """By what a process uses with all that it has started; by its own where that is missing."""

    def order(_digest: Digest, row: ProcessRow) -> SortKey | None:
        together = row.use(whole)
        return _number(row.use(own) if together is None else together)

    return order


def _number(value: float | None) -> SortKey | None:
    return None if value is None else (float(value),)


def _memory(row: ProcessRow) -> float | None:
    return row.process.mem_used_bytes.get(row.uuid)


def _unit_use(part: str, key: str) -> Column[ProcessRow]:
    """A column of how busy a process makes one of its GPU's units, which sorts."""

    def order(_digest: Digest, row: ProcessRow) -> SortKey | None:
        return _number(row.context.value(key) if row.context else None)

    return PROCESS_PARTS[part]._replace(order=order, is_descending=True, unit="ratio")


def owners(digest: Digest, row: ProcessRow) -> tuple[str, ...]:
    """What the owner is called, the name first: by the node, by the job, by number."""
    process = row.process
    view = digest.job(process.job_id) if process.job_id is not None else None
    is_of_job = view is not None and view.job.user_id in (None, process.uid)
    by_job = view.job.user if view is not None and is_of_job else None
    by_number = None if process.uid is None else str(process.uid)
    return tuple(dict.fromkeys(name for name in (process.user, by_job, by_number) if name))


def _user(digest: Digest, row: ProcessRow) -> Cell:
    names = owners(digest, row)
    if not names:
        return NO_VALUE
    is_number = names[0] == str(row.process.uid) != row.process.user
    return Cell(names[0], Tone.DIM if is_number else Tone.PLAIN)


def _text(key: str) -> Callable[[Digest, ProcessRow], SortKey | None]:
    """By the text of a column; none where it is empty."""
    cell = PROCESS_PARTS[key].cell

    def order(digest: Digest, row: ProcessRow) -> SortKey | None:
        shown = cell(digest, row)
        return None if shown == NO_VALUE or not shown.text else (shown.text.lower(),)

    return order


def _use(key: str) -> Callable[[Digest, ProcessRow], SortKey | None]:
    return lambda _digest, row: _number(row.use(key))


def _below(_digest: Digest, row: ProcessRow) -> Cell:
    count = row.use("descendant_count")
    return NO_VALUE if count is None else Cell(f"{count:.0f}")


def _place_of(digest: Digest, row: ProcessRow) -> tuple[int | None, int | None]:
    """Rank of a process and the size of its world, by its job, else by its own environment."""
    process = row.process
    view = digest.job(process.job_id) if process.job_id is not None else None
    if view is None:
        found = place(process)
        return found.rank, found.world_size
    ranks = digest.remembered(
        ("ranks by process", view.job.job_id), lambda: {(r.node, r.pid): r for r in view.ranks}
    )
    rank = ranks.get((process.node, process.pid))
    return (None, None) if rank is None else (rank.rank, rank.world_size)


def _rank(digest: Digest, row: ProcessRow) -> Cell:
    rank, size = _place_of(digest, row)
    if rank is None:
        return EMPTY_CELL
    return Cell(str(rank) if size is None else f"{rank}/{size}")


_PART: Final = PROCESS_PARTS

_WIDEST_GPU: Final = 12
"""Cells of node and index."""

_COLUMNS: Final[tuple[Column[ProcessRow], ...]] = (
    _PART["pid"]._replace(order=lambda _d, r: (float(r.process.pid),), unit="", priority=0),
    _PART["user"]._replace(
        cell=_user, order=lambda d, r: owners(d, r)[:1] or None, words=owners, max_width=12,
        doc="Owner of the process: the user's name on its node or from its job, else the uid.",
    ),
    Column(
        "gpu", "GPU", 4, "left", priority=0, cell=_gpu, order=gpu_order,
        doc="Index of the GPU as NVML counts, in MIG mode with the instance (3:1/0); its node in "
        "front where several are in view.",
        max_width=_WIDEST_GPU,
        words=_gpu_words,
    ),
    _PART["type"]._replace(order=_text("type")),
    _PART["memory"]._replace(
        order=lambda _d, r: _number(_memory(r)), is_descending=True, unit="bytes"
    ),
    _unit_use("sm", "context_sm_util_ratio"),
    _PART["cores"]._replace(
        order=_of_tree("process_tree_cpu_cores_used", "process_cpu_cores_used"),
        is_descending=True, unit="",
    ),
    _PART["rss"]._replace(
        order=_of_tree("process_tree_rss_bytes", "process_rss_bytes"),
        is_descending=True, unit="bytes", priority=3,
    ),
    Column(
        "descendant_count", "BELOW", 5, "right", priority=2, cell=_below,
        order=_use("descendant_count"),
        doc="Processes that it has started, and theirs, that are still there; d shows them on this "
        "machine.", max_width=0, is_descending=True,
    ),
    _PART["age"]._replace(
        order=lambda d, r: _number(age_s(d, r)), is_descending=True, unit="s", priority=2,
        doc="Time since its start.",
    ),
    _PART["job"]._replace(order=_text("job"), doc="Job and step whose cgroup holds the process."),
    _PART["rank"]._replace(
        cell=_rank, order=lambda d, r: _number(_place_of(d, r)[0]), unit=""
    ),
    _PART["read"]._replace(
        order=_use("process_io_read_bytes_per_s"), is_descending=True, unit="bytes/s"
    ),
    _PART["write"]._replace(
        order=_use("process_io_write_bytes_per_s"), is_descending=True, unit="bytes/s"
    ),
    _unit_use("mbw", "context_mem_util_ratio"),
    _unit_use("enc", "context_encoder_util_ratio"),
    _unit_use("dec", "context_decoder_util_ratio"),
    _PART["past"],
    _PART["node"]._replace(order=lambda _d, r: (r.process.node,)),
    _PART["uid"]._replace(order=lambda _d, r: _number(r.process.uid), unit=""),
    _PART["why"]._replace(doc="What cannot be read of the process."),
    Column(
        "command", "COMMAND", 12, "left", priority=0, cell=_PART["program"].cell,
        order=_text("program"),
        doc="Base name of the program; on this machine itself, target local, the command line in "
        "its place, without what looks like a secret. Exported files have the name alone.",
        max_width=200,
        words=lambda _d, r: (r.process.name.lower(),) if r.process.name else (),
    ),
)  # fmt: skip

ALL_PROCESS_COLUMNS: Final = shown_first(
    ("pid", "user", "gpu", "memory", "sm", "cores", "age", "command"), _COLUMNS
)
"""The columns of the processes on every GPU in view."""
