"""The ranks of a job by peers: only ranks of one world and one role are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.gpu_cells import index_text

if TYPE_CHECKING:
    from gpumon.model.cluster import JobView
    from gpumon.report.digest import Digest, RankRow

LEAST_PEERS: Final = 4
"""Ranks below which a median says nothing about one of them."""


class RankGroup(NamedTuple):
    """Ranks that are drawn together, by number."""

    title: str
    rows: tuple[RankRow, ...]
    are_peers: bool
    """Whether they may be compared: one world, one role, and enough of them."""


def rank_groups(digest: Digest, view: JobView) -> tuple[RankGroup, ...]:
    """Worlds and roles in the order of their first rank, then what has no number or no process."""
    return digest.remembered(("rank groups", view.job.job_id), lambda: _made(digest, view))


def _made(digest: Digest, view: JobView) -> tuple[RankGroup, ...]:
    worlds: dict[tuple[str, str], list[RankRow]] = {}
    unnumbered: list[RankRow] = []
    bare: list[RankRow] = []
    for row in digest.rank_rows(view):
        rank = row.rank
        if rank is None:
            bare.append(row)
        elif rank.world_id is None or rank.rank is None:
            unnumbered.append(row)
        else:
            worlds.setdefault((rank.world_id, rank.program or ""), []).append(row)
    groups = []
    for (world, role), rows in worlds.items():
        rows.sort(key=_number)
        parts = [f"world {world}", *([role] if role else []), _amount(rows, "rank")]
        groups.append(RankGroup(" · ".join(parts), tuple(rows), len(rows) >= LEAST_PEERS))
    if unnumbered:
        title = f"ranks not known · {_amount(unnumbered, 'process', 'es')}"
        groups.append(RankGroup(title, tuple(unnumbered), False))
    if bare:
        groups.append(RankGroup(f"no process · {_amount(bare, 'GPU')}", tuple(bare), False))
    return tuple(groups)


def _number(row: RankRow) -> int:
    assert row.rank is not None
    assert row.rank.rank is not None
    return row.rank.rank


def _amount(rows: list[RankRow], noun: str, plural: str = "s") -> str:
    return f"{len(rows):,} {noun}{plural * (len(rows) != 1)}"


def rank_name(row: RankRow) -> str:
    """Its number, `?` where that is not known, `–` for a GPU without a process."""
    if row.rank is None:
        return "–"
    return "?" if row.rank.rank is None else str(row.rank.rank)


def rank_place(row: RankRow) -> str:
    """`gpu03:4`, or the node alone where no telemetry names a GPU."""
    if row.gpu is not None:
        return f"{row.gpu.node}:{index_text(row.gpu)}"
    return row.rank.node if row.rank is not None else "–"
