"""The columns of users, accounts and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.facts.slurm_nodes import partition_nodes
from gpumon.report.tables.place import types_column
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone
from gpumon.report.wording.loss_words import (
    LOSING,
    hours_cell,
    losing_column,
    loss_cell,
    loss_key,
    total_loss,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.report.facts.groups import Group, PartitionRow
    from gpumon.report.facts.tick_index import Digest


def group_order(_digest: Digest, group: Group) -> SortKey:
    """What loses most on top, then what holds most, then what asks for most."""
    return (
        *group.stake.first,
        -float(group.gpus_running),
        -float(group.gpus_pending),
        group.name,
    )


def group_search(_digest: Digest, group: Group) -> str:
    """What the row filter looks through, lower case."""
    return group.name.lower()


def partition_order(digest: Digest, row: PartitionRow) -> SortKey:
    """As the groups."""
    return group_order(digest, row.group)


def partition_search(digest: Digest, row: PartitionRow) -> str:
    """What the row filter looks through, lower case."""
    state = row.partition.state if row.partition else ""
    return "\n".join((row.group.name, state, *sorted(set(_types(digest, row))))).lower()


def _types(digest: Digest, row: PartitionRow) -> list[str]:
    """Slurm's type of each GPU of its nodes."""
    rooms = partition_nodes(digest, (row.partition.name,)) if row.partition else ()
    return [kind for room in rooms for kind in room.node.gpu_types]


def _count(value: int, is_quiet: bool = True) -> Cell:
    return Cell(str(value), Tone.DIM if not value and is_quiet else Tone.PLAIN)


def _sized(value: float | None, words: Callable[[float], str]) -> Cell:
    return NO_VALUE if value is None else Cell(words(value))


def _key(value: float | None) -> SortKey | None:
    return None if value is None else (float(value),)


def _is_seen(group: Group) -> bool:
    """Whether the activity of any of its GPUs is known, or it has none."""
    return not group.gpus_running or bool(group.gpus_busy or group.gpus_low)


def _busy(group: Group) -> Cell:
    return _count(group.gpus_busy) if _is_seen(group) else NO_VALUE


def _low(group: Group) -> Cell:
    if not _is_seen(group):
        return NO_VALUE
    return Cell(str(group.gpus_low), Tone.WARN if group.gpus_low else Tone.DIM)


def _unknown(group: Group) -> int:
    return max(0, group.gpus_running - group.gpus_busy - group.gpus_low)


def _activity(group: Group) -> Cell:
    value = group.activity_ratio
    if value is None:
        return NO_VALUE
    return Cell(units.percent(value), Tone.WARN if value < LOW_RATIO else Tone.PLAIN)


def _allocated_s(group: Group) -> float | None:
    return group.total.allocated_s if group.total else None


def _wasted_ratio(group: Group) -> float | None:
    total = group.total
    return total.of_observed(total.waste_s) if total else None


def _coverage(group: Group) -> float | None:
    unobserved = group.total.unobserved_share if group.total else None
    return None if unobserved is None else 1 - unobserved


def _wasted_cost(group: Group) -> float | None:
    total = group.total
    return None if total is None or total.cost is None else sum(total.wasted_cost.values())


def _number(
    pick: Callable[[Any], Group],
    key: Literal["jobs_running", "jobs_pending", "gpus_running", "gpus_pending"],
    title: str,
    priority: int,
    doc: str,
) -> Column[Any]:
    return Column(
        key=key,
        title=title,
        width=max(5, len(title)),
        align="right",
        priority=priority,
        cell=lambda _d, row: _count(getattr(pick(row), key)),
        order=lambda _d, row: (float(getattr(pick(row), key)),),
        doc=doc,
        max_width=0,
        is_descending=True,
        unit="",
    )


def _ledger_columns(pick: Callable[[Any], Group]) -> tuple[Column[Any], ...]:
    """The ledger: GPU time held and wasted since it began, and what that cost."""
    return (
        Column(
            key="allocated_gpu_s", title="GPU-H", width=7, align="right", priority=2,
            cell=lambda _d, r: hours_cell(_allocated_s(pick(r))),
            order=lambda _d, r: _key(_allocated_s(pick(r))),
            doc="GPU-hours held since the ledger began, also by jobs that have ended.",
            max_width=0, is_descending=True, unit="GPU-s",
        ),
        Column(
            key="wasted_gpu_s", title="LOST", width=7, align="right", priority=0,
            cell=lambda _d, r: loss_cell(total_loss(pick(r).total)),
            order=lambda _d, r: loss_key(total_loss(pick(r).total)),
            doc="GPU-hours that supported findings claim since the ledger began, ended jobs "
            "included; after ~ what is suspected.",
            max_width=0, is_descending=True, unit="GPU-s",
        ),
        Column(
            key="wasted_ratio", title="LOST%", width=5, align="right", priority=1,
            cell=lambda _d, r: _sized(_wasted_ratio(pick(r)), units.percent),
            order=lambda _d, r: _key(_wasted_ratio(pick(r))),
            doc="The wasted part of the GPU-hours that were observed.", max_width=0,
            is_descending=True, unit="ratio",
        ),
        Column(
            key="observed_ratio", title="SEEN%", width=5, align="right", priority=5,
            cell=lambda _d, r: _sized(_coverage(pick(r)), units.percent),
            order=lambda _d, r: _key(_coverage(pick(r))),
            doc="The part of the GPU-hours held that was observed.", max_width=0,
            is_descending=True, unit="ratio",
        ),
        Column(
            key="wasted_cost", title="COST", width=9, align="right", priority=3,
            cell=lambda _d, r: _sized(_wasted_cost(pick(r)), units.money),
            order=lambda _d, r: _key(_wasted_cost(pick(r))),
            doc="Price of the wasted GPU-hours, in the currency of the configuration's prices.",
            max_width=0, is_descending=True, unit="",
        ),
    )  # fmt: skip


def _use_columns(pick: Callable[[Any], Group]) -> tuple[Column[Any], ...]:
    """What groups of every kind have: jobs, GPUs, their use, what was wasted, waits."""
    return (
        _number(pick, "gpus_running", "GPUS", 0, "GPUs that its jobs hold."),
        Column(
            key="gpus_busy", title="BUSY", width=5, align="right", priority=2,
            cell=lambda _d, r: _busy(pick(r)),
            order=lambda _d, r: (float(pick(r).gpus_busy),) if _is_seen(pick(r)) else None,
            doc="Of these, GPUs whose activity is not low.", max_width=0, is_descending=True,
            unit="",
        ),
        Column(
            key="gpus_low", title="LOW", width=5, align="right", priority=0,
            cell=lambda _d, r: _low(pick(r)),
            order=lambda _d, r: (float(pick(r).gpus_low),) if _is_seen(pick(r)) else None,
            doc=f"Of these, GPUs hardly used: activity below {LOW_RATIO:.0%}.", max_width=0,
            is_descending=True, unit="",
        ),
        Column(
            key="gpus_unknown", title="?", width=4, align="right", priority=6,
            cell=lambda _d, r: _count(_unknown(pick(r))),
            order=lambda _d, r: (float(_unknown(pick(r))),),
            doc="Of these, GPUs of unknown activity.", max_width=0, is_descending=True,
            unit="",
        ),
        Column(
            key="activity_ratio", title="SM%", width=4, align="right", priority=1,
            cell=lambda _d, r: _activity(pick(r)), order=lambda _d, r: _key(pick(r).activity_ratio),
            doc="Mean SM activity of its GPUs; without that counter, the duty cycle.",
            unit="ratio",
        ),
        losing_column(lambda d, r: d.known_stake(pick(r).stake), " by its jobs"),
        *_ledger_columns(pick),
        Column(
            key="findings", title="FINDINGS", width=8, align="right", priority=4,
            cell=lambda _d, r: _count(pick(r).findings),
            order=lambda _d, r: (float(pick(r).findings),),
            doc="Findings about its jobs.", max_width=0, is_descending=True, unit="",
        ),
        _number(pick, "jobs_running", "JOBS", 3, "Jobs that hold something."),
        _number(pick, "jobs_pending", "WAIT", 1, "Jobs that wait, arrays counted by task."),
        _number(pick, "gpus_pending", "ASKED", 5, "GPUs that these ask for, as far as known."),
        Column(
            key="oldest_wait_s", title="OLDEST", width=7, align="right", priority=4,
            cell=lambda _d, r: _sized(pick(r).oldest_wait_s, units.short_duration),
            order=lambda _d, r: _key(pick(r).oldest_wait_s),
            doc="How long its oldest waiting job waits.", max_width=0, is_descending=True, unit="s",
        ),
    )  # fmt: skip


def _group_columns(key: str, title: str, doc: str) -> tuple[Column[Group], ...]:
    name: Column[Group] = Column(
        key=key, title=title, width=12, align="left", priority=0,
        cell=lambda _d, group: Cell(group.name or "–", Tone.STRONG if group.name else Tone.DIM),
        order=lambda _d, group: (group.name,), doc=doc, max_width=24,
    )  # fmt: skip
    shown = (
        key, "gpus_running", LOSING, "wasted_gpu_s", "wasted_ratio", "activity_ratio",
        "jobs_running", "jobs_pending",
    )  # fmt: skip
    return shown_first(shown, (name, *_use_columns(lambda group: group)))


USER_COLUMNS: Final = _group_columns("user", "USER", "Owner of the jobs.")
ACCOUNT_COLUMNS: Final = _group_columns("account", "ACCOUNT", "Slurm account of the jobs.")


def _partition_state(row: PartitionRow) -> Cell:
    if row.partition is None:
        return NO_VALUE
    is_up = row.partition.state in ("UP", "")
    return Cell(row.partition.state.lower() or "up", Tone.PLAIN if is_up else Tone.WARN)


def _nodes(row: PartitionRow) -> Cell:
    return Cell(str(row.nodes)) if row.nodes else NO_VALUE


def _out(value: int | None) -> Cell:
    if value is None:
        return NO_VALUE
    return Cell(str(value), Tone.WARN if value else Tone.DIM)


def _limit(row: PartitionRow) -> Cell:
    return _sized(row.partition.time_limit_s if row.partition else None, units.short_duration)


_USE: Final = {column.key: column for column in _use_columns(lambda row: row.group)}

_PARTITION_COLUMNS: Final[tuple[Column[PartitionRow], ...]] = (
    Column(
        "partition", "PARTITION", 10, "left", priority=0,
        cell=lambda _d, r: Cell(
            r.group.name + ("*" if r.partition and r.partition.is_default else ""), Tone.STRONG
        ),
        order=lambda _d, r: (r.group.name,), doc="Name; * marks the default partition.",
        max_width=24,
        value=lambda _d, r: r.group.name,
    ),
    Column(
        "state", "STATE", 8, "left", priority=5,
        cell=lambda _d, r: _partition_state(r),
        order=lambda _d, r: (r.partition.state if r.partition else "",),
        doc="up, or why it starts no jobs.",
    ),
    Column(
        "nodes", "NODES", 5, "right", priority=3,
        cell=lambda _d, r: _nodes(r), order=lambda _d, r: (float(r.nodes),), doc="Its nodes.",
        max_width=0, is_descending=True, unit="",
        value=lambda _d, r: float(r.nodes) if r.nodes else None,
    ),
    Column(
        "nodes_out", "OUT", 4, "right", priority=2,
        cell=lambda _d, r: _out(r.nodes_out if r.nodes else None),
        order=lambda _d, r: (float(r.nodes_out),),
        doc="Of these, nodes that take no jobs: down, drained, failing, in maintenance.",
        max_width=0, is_descending=True,
        unit="", value=lambda _d, r: float(r.nodes_out) if r.nodes else None,
    ),
    Column(
        "total", "GPUS", 5, "right", priority=1,
        cell=lambda _d, r: _sized(r.gpus, str), order=lambda _d, r: _key(r.gpus),
        doc="GPUs of its nodes.", max_width=0, is_descending=True, unit="",
    ),
    Column(
        "used", "HELD", 5, "right", priority=0,
        cell=lambda _d, r: _sized(r.gpus_used, str), order=lambda _d, r: _key(r.gpus_used),
        doc="GPUs that jobs hold, of any partition that shares these nodes.", max_width=0,
        is_descending=True, unit="",
    ),
    Column(
        "free", "FREE", 5, "right", priority=0,
        cell=lambda _d, r: _sized(r.gpus_free, str), order=lambda _d, r: _key(r.gpus_free),
        doc="GPUs that no job holds, on nodes that take jobs.", max_width=0, is_descending=True,
        unit="",
    ),
    Column(
        "out", "DOWN", 5, "right", priority=2,
        cell=lambda _d, r: _out(r.gpus_out), order=lambda _d, r: _key(r.gpus_out),
        doc="GPUs that no job holds, on nodes that take none.", max_width=0, is_descending=True,
        unit="",
    ),
    _USE[LOSING],
    _USE["gpus_low"],
    _USE["activity_ratio"],
    _USE["allocated_gpu_s"]._replace(priority=5),
    _USE["wasted_gpu_s"]._replace(priority=4),
    _USE["wasted_ratio"]._replace(priority=4),
    _USE["wasted_cost"],
    _USE["jobs_running"],
    _USE["jobs_pending"],
    _USE["gpus_pending"],
    _USE["oldest_wait_s"],
    Column(
        "limit", "LIMIT", 6, "right", priority=6,
        cell=lambda _d, r: _limit(r),
        order=lambda _d, r: _key(r.partition.time_limit_s if r.partition else None),
        doc="Longest time limit of a job; – for none or unknown.", max_width=0, is_descending=True,
        unit="s",
    ),
    types_column(_types),
)  # fmt: skip

PARTITION_COLUMNS: Final = shown_first(
    ("partition", "total", "used", "free", "out", LOSING, "wasted_gpu_s", "jobs_pending"),
    _PARTITION_COLUMNS,
)
