"""Peers without anything to report, as one line, so that those that matter are in sight."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Final

from gpumon.report.facts.rank_groups import rank_groups
from gpumon.report.tables.gpu import rank_why
from gpumon.report.text.cells import Tone

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest, RankRow

LEAST_FOLDED: Final = 8
"""Alike peers below which each has a line of its own: those of one node, which fit any screen."""

_QUIET: Final = (Tone.PLAIN, Tone.DIM)
"""Tones of what is no trouble, such as a clock that the power limit holds."""

ALIKE_RATIO: Final = 0.15
"""Ranks whose activity differs by more from their peers' median have a row of their own: steps of
alike ranks differ by less in one sample (our choice)."""


def folded_ranks(
    digest: Digest, view: JobView, apart: RankRow | None = None, least: int = LEAST_FOLDED
) -> tuple[RankRow, ...]:
    """The job's ranks and GPUs, alike peers as one line each world and role; one has its own.

    Folded are peers of which nothing is found, whose GPU is known and fresh, and which do about
    what their peers do. Their line is that of the one in the middle.

    Args:
        digest: The tick.
        view: The job.
        apart: The rank at fault.
        least: So many alike ones at least are folded.
    """
    rows: list[RankRow] = []
    for group in rank_groups(digest, view):
        others = [row for row in group.rows if apart is None or row.key != apart.key]
        alike = _alike(digest, others) if group.are_peers else []
        if len(alike) < least:
            rows += group.rows
            continue
        keys = {row.key for row in alike}
        rows += [row for row in group.rows if row.key not in keys]
        middle = sorted(alike, key=_activity)[len(alike) // 2]
        rows.append(middle._replace(folded=tuple(row for row in alike if row is not middle)))
    return tuple(rows)


def _alike(digest: Digest, rows: list[RankRow]) -> list[RankRow]:
    """Those with the same text, nothing grave, that do what the others do."""
    why = {row.key: rank_why(digest, row) for row in rows if row.gpu is not None}
    counts = Counter(cell.text for cell in why.values() if cell.tone in _QUIET)
    if not counts:
        return []
    usual_words = counts.most_common(1)[0][0]
    quiet = [row for row in rows if row.key in why and why[row.key].text == usual_words]
    usual = median(map(_activity, quiet))
    return [row for row in quiet if abs(_activity(row) - usual) <= ALIKE_RATIO]


def _activity(row: RankRow) -> float:
    """SM activity, else the duty cycle; -1 where neither is known, which are alike then."""
    for key in ("sm_active_ratio", "gpu_util_ratio"):
        value = row.gpu.value(key) if row.gpu else None
        if value is not None:
            return float(value)
    return -1.0
