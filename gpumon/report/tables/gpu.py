"""The columns of a job's ranks and of the fleet's GPUs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.losses import NO_STAKE, stake_together
from gpumon.report.facts.rows import awaited_call
from gpumon.report.tables.place import place_columns
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone
from gpumon.report.text.units import index_text
from gpumon.report.wording.gpu_cells import (
    holder,
    jobless_widths,
    measured_columns,
    process_cell,
    row_index,
    row_name,
    row_uuid,
    short_uuid,
    throttle_cell,
    unused_words,
    user_cell,
    users_of,
)
from gpumon.report.wording.health import (
    health_cell,
    health_order,
    instance_cell,
    own_error,
    troubles,
)
from gpumon.report.wording.loss_words import LOSING, losing_column
from gpumon.report.wording.verdict_words import borne_cell, finding_cell, old_gpu_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.report.facts.losses import Stake
    from gpumon.report.facts.rows import GpuRow
    from gpumon.report.facts.tick_index import Digest, RankRow


def _number(value: int | None) -> Cell:
    return NO_VALUE if value is None else Cell(str(value))


def _maybe(value: int | None) -> float | None:
    return None if value is None else float(value)


_OUT_OF_SERVICE: Final = frozenset(
    {"down", "drain", "drained", "draining", "fail", "failing", "error", "not_responding"}
)
"""Node states and flags of sinfo(1) under which silence is no surprise."""


def _text_order(text: str) -> SortKey | None:
    return (text,) if text else None


def row_node(row: RankRow) -> str:
    """Node of a rank or GPU, empty where neither is known."""
    if row.rank is not None:
        return row.rank.node
    return row.gpu.node if row.gpu else ""


def gpu_node(row: GpuRow) -> str:
    """Node of a line of the fleet."""
    return row.node.name


def _index(row: RankRow | GpuRow) -> float:
    index = row.gpu.nvml_index if row.gpu else None
    return inf if index is None else float(index)


def _rank_stake(digest: Digest, row: RankRow) -> Stake | None:
    """What is lost with a rank's GPU; with those of all ranks in a line."""
    if not row.folded:
        return _stake(digest, row.uuid)
    uuids = {one.uuid for one in (row, *row.folded) if one.uuid}
    return digest.known_stake(stake_together(digest.stake_at(uuid) for uuid in uuids))


def _stake(digest: Digest, uuid: str | None) -> Stake | None:
    """What is lost with a GPU; None where nothing is found because no detector could judge."""
    return digest.known_stake(digest.stake_at(uuid)) if uuid else None


def _first(digest: Digest, uuid: str | None) -> SortKey:
    return (digest.stake_at(uuid) if uuid else NO_STAKE).first


def rank_order(digest: Digest, row: RankRow) -> SortKey:
    """What loses most on top, of alike ones who is named as the cause; then by number.

    Peers that are one line come after those of the same loss that have their own.
    """
    finding = digest.row_finding(row)
    gravity = -1.0 if finding is None else float(finding.severity.rank)
    is_folded = float(bool(row.folded))
    return (*_first(digest, row.uuid), -gravity, is_folded, *_rank_number(digest, row))


def _rank_number(_digest: Digest, row: RankRow) -> SortKey:
    """Ranks by world and number, then what has no rank, by node and GPU."""
    rank = row.rank
    number = inf if rank is None or rank.rank is None else float(rank.rank)
    world = (rank.world_id or "") if rank else "\uffff"
    return (world, number, row_node(row), _index(row), row.key)


def rank_why(digest: Digest, row: RankRow) -> Cell:
    """The worst about one rank or GPU of a job, in a few words."""
    if row.folded:
        return Cell(f"{len(row.folded)} more like it: z shows each", Tone.DIM)
    finding = digest.row_finding(row)
    if row.gpu is not None and row.gpu.is_stale:
        return old_gpu_cell(digest, row.gpu, finding)
    if finding is not None:
        return finding_cell(digest.tick, finding)
    if row.uuid and row.gpu is None:
        return Cell("no telemetry", Tone.DIM)
    if row.gpu is not None and (found := troubles(digest, row.gpu)):
        return Cell(f"{found[0].sign} {found[0].sentence}", found[0].tone)
    if row.rank is None and (row.gpu is None or row.gpu.reports_processes):
        return Cell("no process", Tone.WARN)
    if row.gpu is not None and (throttle := throttle_cell(row.gpu)):
        return throttle
    if row.rank is None:
        return Cell("no rank: its source reports no processes", Tone.DIM)
    if row.rank.why:
        return Cell(f"rank: {row.rank.why}", Tone.DIM)
    return EMPTY_CELL if row.gpu else Cell("on no GPU", Tone.WARN)


def rank_search_text(digest: Digest, row: RankRow) -> str:
    """What the row filter looks through, lower case."""
    rank = row.rank
    words = (
        row_node(row),
        row.uuid or "",
        f"rank {rank.rank} {rank.pid} {rank.program}" if rank else "",
        rank_why(digest, row).text,
    )
    return "\n".join(words).lower()


def _rank_cell(row: RankRow) -> Cell:
    """Its number; of peers that are folded the lowest and the highest, where these are known."""
    if not row.folded:
        return _number(row.rank.rank if row.rank else None)
    numbers = [
        one.rank.rank for one in (row, *row.folded) if one.rank and one.rank.rank is not None
    ]
    return Cell(f"{min(numbers)}…{max(numbers)}") if numbers else NO_VALUE


def _program(row: RankRow) -> Cell:
    if row.rank is None:
        return EMPTY_CELL
    return Cell(row.rank.program) if row.rank.program else NO_VALUE


_RANK_COLUMNS: Final[tuple[Column[RankRow], ...]] = (
    Column(
        "rank",
        "RANK",
        4,
        "right",
        priority=0,
        cell=lambda _d, r: _rank_cell(r),
        order=_rank_number,
        doc="Global rank within its world; 0…15: similar peers among these without a "
        "finding, with the values of the one in the middle.",
        max_width=9,
        unit="",
        value=lambda _d, r: _maybe(r.rank.rank if r.rank else None),
    ),
    Column(
        "local_rank",
        "LOCAL",
        5,
        "right",
        priority=8,
        cell=lambda _d, r: _number(r.rank.local_rank if r.rank else None),
        order=None,
        doc="Rank on its node.",
        unit="",
        value=lambda _d, r: _maybe(r.rank.local_rank if r.rank else None),
    ),
    Column(
        "node",
        "NODE",
        10,
        "left",
        priority=1,
        cell=lambda _d, r: EMPTY_CELL if r.folded else Cell(row_node(r)),
        order=lambda _d, r: (row_node(r), _index(r)),
        doc="Node name.",
        max_width=16,
    ),
    Column(
        "gpu",
        "GPU",
        3,
        "right",
        priority=0,
        cell=lambda _d, r: Cell(index_text(r.gpu)) if r.uuid and not r.folded else EMPTY_CELL,
        order=None,
        doc="NVML's index on the node: a label, the UUID is the identity.",
        unit="",
        value=lambda _d, r: _maybe(r.gpu.nvml_index if r.gpu else None),
    ),
    Column(
        "uuid",
        "UUID",
        8,
        "left",
        priority=6,
        cell=lambda _d, r: (
            EMPTY_CELL if r.folded or not r.uuid else Cell(short_uuid(r.uuid), Tone.DIM)
        ),
        order=None,
        doc="First digits of the GPU's UUID.",
        value=lambda _d, r: r.uuid,
    ),
    Column(
        "pid",
        "PID",
        7,
        "right",
        priority=4,
        cell=lambda _d, r: (
            Cell(str(r.rank.pid), Tone.DIM) if r.rank and not r.folded else EMPTY_CELL
        ),
        order=lambda _d, r: (float(r.rank.pid),) if r.rank else None,
        doc="Process id on the node.",
        unit="",
    ),
    Column(
        "program",
        "PROG",
        8,
        "left",
        priority=5,
        cell=lambda _d, r: _program(r),
        order=None,
        doc="Base name of the program.",
        max_width=16,
    ),
    *measured_columns(),
    Column(
        "why",
        "WHY",
        12,
        "left",
        priority=0,
        cell=rank_why,
        order=lambda d, r: _text_order(rank_why(d, r).text),
        doc="The worst about this rank: staleness, a finding, what is wrong with its GPU, no "
        "process, why the clock is held down, why its rank number is unknown.",
        max_width=60,
    ),
    losing_column(_rank_stake, " with its GPU: its part of what the job loses"),
    *place_columns(row_node),
)

RANK_COLUMNS: Final = shown_first(
    (
        "rank", "node", "gpu", LOSING, "sm_active_ratio", "tensor_active_ratio", "mem_used_bytes",
        "why",
    ),
    _RANK_COLUMNS,
)  # fmt: skip


def fleet_order(digest: Digest, row: GpuRow) -> SortKey:
    """What loses most on top, then by node and NVML index."""
    return (*_first(digest, row.gpu.uuid if row.gpu else None), *_place(digest, row))


def fleet_basis(digest: Digest) -> object:
    """What that order rests on beside the GPUs; what was lost so far grows with every tick."""
    # All GPUs of a finding mostly have one and the same stake.
    known: dict[int, tuple[float, ...]] = {}
    found: dict[str, tuple[float, ...]] = {}
    for uuid, stake in digest.stakes.items():
        basis = known.get(id(stake))
        if basis is None:
            basis = known[id(stake)] = (*stake.key[:1], *stake.key[2:])
        found[uuid] = basis
    return found


def _place(_digest: Digest, row: GpuRow) -> SortKey:
    """By node and NVML index; a MIG instance like its GPU, below which it therefore stays."""
    return (row.node.name, _index(row), row.gpu.uuid if row.gpu else row.key)


def fleet_why(digest: Digest, row: GpuRow) -> Cell:
    """The worst about one GPU or a node that shows none; what an instance misses."""
    if row.gpu is None:
        return _silent_node(row)
    if row.instance is not None:
        return instance_cell(digest, row.gpu, row.instance)
    finding = next(iter(digest.findings_by_gpu.get(row.gpu.uuid, ())), None)
    if row.gpu.is_stale:
        return old_gpu_cell(digest, row.gpu, finding)
    if finding is not None:
        return finding_cell(digest.tick, finding)
    found = troubles(digest, row.gpu)
    if found:
        return Cell(f"{found[0].sign} {found[0].sentence}", found[0].tone)
    view = digest.job_by_gpu.get(row.gpu.uuid)
    unused = "" if view is None else unused_words(row.gpu, view.job.job_id)
    if unused:
        return Cell(unused, Tone.WARN)
    error = own_error(row.node, row.gpu)
    if error is not None:
        return Cell(f"? {error.message}", Tone.WARN)
    leading = digest.leading.get(row.gpu.uuid)
    if leading is not None:
        whose = "node" if leading.subject.startswith("node:") else "job"
        return borne_cell(digest.tick, leading, whose)
    return throttle_cell(row.gpu) or EMPTY_CELL


def _silent_node(row: GpuRow) -> Cell:
    if row.node.errors:
        return Cell(row.node.errors[0].message, Tone.BAD)
    state = row.node.state or ""
    if set(state.split("+")) & _OUT_OF_SERVICE:
        return Cell(f"{state} in Slurm", Tone.BAD)
    if row.node.taken_at is None:
        return Cell("no telemetry yet", Tone.DIM)
    awaited = awaited_call(row.node)
    return Cell(f"waits for {awaited}" if awaited else "shows no GPU", Tone.DIM)


def fleet_search_text(digest: Digest, row: GpuRow) -> str:
    """What the row filter looks through, lower case."""
    words = (
        row.node.name,
        row_uuid(row) or "",
        (row.whole.label("name") or "") if row.whole else row_name(row),
        *holder(digest, row),
        *users_of(digest, row),
        fleet_why(digest, row).text,
    )
    return "\n".join(words).lower()


def _without_instances(column: Column[GpuRow]) -> Column[GpuRow]:
    """A column that stays blank for MIG instances, as its value is that of the whole GPU."""
    of_gpu = column.cell
    return column._replace(cell=lambda d, r: EMPTY_CELL if r.instance is not None else of_gpu(d, r))


def instance_widths(digest: Digest) -> Mapping[str, int]:
    """Cells that columns need at least where rows of MIG instances are among those of GPUs."""
    return {"gpu": len("15:13/0")} if digest.has_instances else {}


def fleet_widths(digest: Digest) -> Mapping[str, int]:
    """The same, and no column of jobs where neither a queue nor a label names any."""
    return {**instance_widths(digest), **jobless_widths(digest)}


_FLEET_COLUMNS: Final[tuple[Column[GpuRow], ...]] = (
    Column(
        "node",
        "NODE",
        10,
        "left",
        priority=0,
        cell=lambda _d, r: Cell(r.node.name),
        order=_place,
        doc="Node name.",
        max_width=20,
    ),
    Column(
        "gpu",
        "GPU",
        3,
        "right",
        priority=0,
        cell=lambda _d, r: Cell(row_index(r)) if r.gpu else NO_VALUE,
        order=None,
        doc="NVML's index on the node: a label, the UUID is the identity. 3:1/0: GPU 3's MIG "
        "instance, by the numbers of its GPU instance and its compute instance.",
        unit="",
        value=lambda _d, r: _maybe(r.gpu.nvml_index if r.gpu else None),
    ),
    Column(
        "uuid",
        "UUID",
        8,
        "left",
        priority=8,
        cell=lambda _d, r: Cell(short_uuid(row_uuid(r) or ""), Tone.DIM) if r.gpu else EMPTY_CELL,
        order=None,
        doc="First digits of the UUID.",
        value=lambda _d, r: row_uuid(r),
    ),
    Column(
        "model",
        "MODEL",
        10,
        "left",
        priority=7,
        cell=lambda _d, r: Cell(f"{'  ' * (r.instance is not None)}{row_name(r)}", Tone.DIM),
        order=lambda _d, r: _text_order(row_name(r)),
        doc="The GPU's name; of a MIG instance its profile.",
        max_width=16,
        value=lambda _d, r: row_name(r),
    ),
    Column(
        "job",
        "JOB",
        8,
        "left",
        priority=2,
        cell=lambda d, r: Cell(holder(d, r)[0]),
        order=lambda d, r: _text_order(holder(d, r)[0]),
        doc="Job that holds the GPU; of what runs in a MIG instance.",
        max_width=12,
    ),
    Column(
        "user",
        "USER",
        8,
        "left",
        priority=5,
        cell=user_cell,
        order=lambda d, r: _text_order(" ".join(users_of(d, r))),
        doc="Owner of that job; if no job holds the GPU, who computes with most of its memory, "
        "and how many more; +?: others, not known.",
        words=users_of,
    ),
    Column(
        "process",
        "PROC",
        8,
        "left",
        priority=4,
        cell=process_cell,
        order=None,
        doc="The process that computes with most of the GPU's memory, and how many more.",
        max_width=16,
    ),
    *measured_columns(),
    Column(
        "health",
        "HEALTH",
        12,
        "left",
        priority=3,
        cell=lambda d, r: health_cell(d, r.whole),
        order=lambda d, r: health_order(d, r.whole),
        doc="The worst problem of the GPU itself: Xid, ECC, row remap, heat, PCIe lanes, "
        "links; +1: one more. ok: nothing that was read is wrong; ? part read: a reading fails.",
    ),
    Column(
        "why",
        "WHY",
        20,
        "left",
        priority=0,
        cell=fleet_why,
        order=lambda d, r: _text_order(fleet_why(d, r).text),
        doc="The worst about this GPU: staleness, a finding, why it cannot be read, what is wrong "
        "with it, a job without process, why the clock is held down; for a node without GPUs the "
        "reason; for a MIG instance its profile, or why it cannot be read.",
        max_width=60,
    ),
    _without_instances(
        losing_column(
            lambda d, r: _stake(d, r.whole.uuid if r.whole else None),
            " to it, or its part of what its job loses",
        )
    ),
    *place_columns(gpu_node),
)

FLEET_COLUMNS: Final = shown_first(
    ("node", "gpu", LOSING, "job", "user", "sm_active_ratio", "mem_used_bytes", "why"),
    _FLEET_COLUMNS,
)

NODE_GPU_COLUMNS: Final = shown_first(
    ("gpu", LOSING, "job", "sm_active_ratio", "mem_used_bytes", "power_w", "temp_c", "why"),
    [column for column in _FLEET_COLUMNS if column.key != "node"],
)
"""Of a node's GPUs, which need no name of a node."""
