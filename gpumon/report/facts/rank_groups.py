"""The ranks of a job by peers: only ranks of one world and one role are compared.

Where their ranks may not be read, the processes of another user's job, alike in all that
can be seen, are shown as one world, and the title says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.ranks import WHY
from gpumon.model.missing import Reason
from gpumon.report.text.units import index_text

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest, RankRow

LEAST_PEERS: Final = 4
"""Ranks below which a median says nothing about one of them."""


class RankGroup(NamedTuple):
    """Ranks that are drawn together, by number."""

    title: str
    rows: tuple[RankRow, ...]
    are_peers: bool
    """Whether they are compared: one world, one role, and enough of them; or alike in all that can
    be seen where their ranks are closed to this user."""


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
        amount = _amount(unnumbered, "process", "es")
        are_alike = not worlds and _are_alike(unnumbered)
        if are_alike and unnumbered[0].rank is not None:
            amount = f"{unnumbered[0].rank.program} · {amount} as if peers; stages may differ"
        title = f"ranks not known · {amount}"
        groups.append(RankGroup(title, tuple(unnumbered), are_alike))
    if bare:
        groups.append(RankGroup(f"no process · {_amount(bare, 'GPU')}", tuple(bare), False))
    return tuple(groups)


def _are_alike(rows: list[RankRow]) -> bool:
    """Whether processes whose ranks are closed to this user look like those of one launch.

    One program in one step, and each alone on one GPU. A process whose variables could be read and
    name no rank is none of a launch. Stages of a pipeline look like this, too, and do differ.
    """
    ranks = [row.rank for row in rows if row.rank is not None]
    programs = {(rank.program, rank.step) for rank in ranks}
    return (
        len(rows) >= LEAST_PEERS
        and len(programs) == 1
        and all(rank.program and rank.why == WHY[Reason.NO_PERMISSION] for rank in ranks)
        and len({(rank.node, rank.pid) for rank in ranks}) == len(rows)
        and len({row.uuid for row in rows} - {None}) == len(rows)
    )


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
