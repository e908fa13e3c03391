"""What the processes of a rank use over time: cores, memory, GPU memory, storage."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.fleet.join.ranks import place
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.charts.chart_records import Series
from gpumon.report.charts.curves import Panel, Plan, drawn_panel, edges_of
from gpumon.report.facts.rows import BlockRow, block_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.model.missing import Reason
    from gpumon.model.records.cluster import Gpu, Node, Process
    from gpumon.report.facts.tick_index import Digest

_NAMED: Final = 2
"""Processes whose ids a title names."""

_EARLY_S: Final = 1.0
"""A start is reported in hundredths of a second by another clock than the readings'."""


_CORES: Final = ("process_cpu_cores_used", "CPU cores used")
_RESIDENT: Final = ("process_rss_bytes", "memory resident")


def _of_tree(who: str, key: str, own: tuple[str, str]) -> Plan:
    """The sum over a process and all that it started, its own where that is not known."""
    whole, itself = (key, f"{own[1]} with all it started"), (own[0], f"{own[1]} by itself")
    return Plan(who, (whole,), instead=(itself,))


def _plans(who: str, *, is_alone: bool) -> tuple[Plan, ...]:
    cores, resident = Plan(who, (_CORES,)), Plan(who, (_RESIDENT,))
    if is_alone:
        # Beside a rank its loaders may be ranks' too; alone a process is as CORES and RSS have it.
        cores = _of_tree(who, "process_tree_cpu_cores_used", _CORES)
        resident = _of_tree(who, "process_tree_rss_bytes", _RESIDENT)
    return (
        cores,
        resident,
        Plan(
            who,
            (("context_mem_used_bytes", "GPU memory"),),
            bound="mem_total_bytes",
        ),
        Plan(
            who,
            (
                ("process_io_read_bytes_per_s", "storage read"),
                ("process_io_write_bytes_per_s", "written"),
            ),
        ),
    )


def rank_processes(gpu: Gpu, pid: int | None) -> tuple[Process, ...]:
    """The processes on a GPU that belong to a rank: its own, and children that claim its place.

    Without a PID all of them; of a rank without a number only its own.
    """
    if pid is None:
        return gpu.compute_processes
    mine = next((process for process in gpu.processes if process.pid == pid), None)
    if mine is None:
        return ()
    here = place(mine)
    return tuple(
        process
        for process in gpu.processes
        if process.pid == pid
        or (here.rank is not None and process.job_id == mine.job_id and place(process) == here)
    )


def process_panels(
    digest: Digest,
    gpu: Gpu,
    processes: Sequence[Process],
    span_s: float,
    *,
    is_alone: bool = False,
) -> list[Panel]:
    """Cores, host memory, GPU memory and storage of processes on a GPU, added up.

    Args:
        digest: The tick with its past.
        gpu: The GPU.
        processes: Those on it that are drawn together.
        span_s: How far back, seconds.
        is_alone: Whether they are one process that no job's page has named: then its title does,
            its share of the SMs comes first, and what it started is added.
    """
    node = digest.tick.nodes.get(gpu.node)
    if node is None or not processes:
        return []
    edges = edges_of(digest.tick.at, span_s)
    known = (edges[0], digest.tick.at)
    together = _Together(gpu, _rows(node, gpu, processes))
    who = _title(processes, is_named=is_alone)
    sm = (Plan(who, (("context_sm_util_ratio", "SM use"),)),) if is_alone else ()
    return [
        drawn_panel(
            together,
            plan,
            edges,
            lambda key: _summed(digest, node, gpu, processes, key, known),
        )
        for plan in (*sm, *_plans(who, is_alone=is_alone))
    ]


def started_at(node: Node, process: Process) -> float | None:
    """Unix time of a process's start; None where the node or the process does not report it."""
    block = node.block or node.blocks.get("node")
    uptime_s = block.value("uptime_s", 0) if block and block.keys else None
    if uptime_s is None or process.start_time_s is None or node.taken_at is None:
        return None
    return node.taken_at - uptime_s + process.start_time_s


def _title(processes: Sequence[Process], *, is_named: bool) -> str:
    pids = [str(process.pid) for process in processes]
    if is_named and len(processes) == 1:
        (one,) = processes
        user = one.user or (None if one.uid is None else f"uid {one.uid}")
        words = ", ".join(word for word in (one.name, user) if word)
        return f"process {one.pid} ({words}) " if words else f"process {one.pid} "
    named, more = ", ".join(pids[:_NAMED]), len(pids) - _NAMED
    noun = "process" if len(pids) == 1 else "processes"
    return f"{noun} {named}{f' and {more} more' if more > 0 else ''} "


class _Together(NamedTuple):
    """Several processes and their contexts as one thing that has values."""

    gpu: Gpu
    rows: tuple[BlockRow, ...]

    def value(self, key: str) -> float | int | None:
        """The sum of what is known; of the GPU itself the bound of its memory."""
        if key == "mem_total_bytes":
            return self.gpu.value(key)
        known = [value for row in self.rows if (value := row.value(key)) is not None]
        return sum(known) if known else None

    def reason(self, key: str) -> Reason | None:
        """Why the first of them has no value."""
        return next((why for row in self.rows if (why := row.reason(key)) is not None), None)

    def label(self, _key: str) -> str | None:
        """Several have no text in common."""
        return None


def _rows(node: Node, gpu: Gpu, processes: Sequence[Process]) -> tuple[BlockRow, ...]:
    pids = {str(process.pid) for process in processes}
    contexts = {f"{pid}/{gpu.uuid}" for pid in pids}
    found = [row for row in block_rows(node, "process") if row.key in pids]
    found += [row for row in block_rows(node, "context") if row.key in contexts]
    return tuple(found)


def _summed(
    digest: Digest,
    node: Node,
    gpu: Gpu,
    processes: Sequence[Process],
    key: str,
    stretch: tuple[float, float],
) -> Series:
    """One field over time, added up; NaN where none is known.

    What a PID did before its process began was another process, and does not count.
    """
    history: Any = digest.tick.history
    block = CATALOGUE[key].block
    if not hasattr(history, "slab"):
        return Series((), ())
    names = tuple(
        f"{node.name}/{process.pid}" + (f"/{gpu.uuid}" if block == "context" else "")
        for process in processes
    )
    begins = [started_at(node, process) or 0.0 for process in processes]
    slab = history.slab(names, (key,), *stretch, block)
    times = slab.times.tolist()
    values = [
        _sum(
            value
            for value, begin in zip(row, begins, strict=True)
            if not isnan(value) and at >= begin - _EARLY_S
        )
        for at, row in zip(times, slab.values[:, 0, :].tolist(), strict=True)
    ]
    return Series(times, values)


def _sum(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) if known else nan
