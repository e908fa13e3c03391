"""Whether a job makes progress, as far as the files that it writes to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.missing import Reason
from gpumon.report.facts.rows import block_rows
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, fit, paragraph

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView, Node
    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line
    from gpumon.sources.job_output import Tail

_UNKNOWN: Final = {
    Reason.NO_PERMISSION: "no permission to see where its processes write",
    Reason.NOT_SHARED: "the node does not share where its processes write",
}
"""Why nothing is known of a job's output, for the reasons that an administrator can remove."""


def output_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """When the job last wrote to its standard output or error; nothing while it does not run.

    A job that hangs appears busy and writes nothing. The newest write on any of its nodes counts;
    where no node knows one, a line says so only if that is for lack of a right.
    """
    if view.job.state != "RUNNING":
        return []
    rows = [
        (node, row)
        for name in view.job.nodes
        if (node := digest.tick.nodes.get(name)) is not None
        for row in block_rows(node, "cgroup")
        if row.key == view.job.job_id
    ]
    newest = min(
        (
            (age_s, node, row)
            for node, row in rows
            if (age_s := _age_s(digest, node, row)) is not None
        ),
        key=lambda known: known[0],
        default=None,
    )
    if newest is None:
        why = _why(rows)
        return paragraph(f"output: not known, {why}", width, Tone.DIM) if why else []
    age_s, node, row = newest
    place = f" on {node.name}" if len(view.job.nodes) > 1 else ""
    size = row.value("job_output_bytes")
    amount = "" if size is None else f", {units.quantity(float(size), 'bytes')} so far"
    text = f"output: grew {units.short_duration(age_s)} ago{place}{_rate(row)}{amount}"
    return paragraph(text, width, Tone.DIM)


def tail_lines(tail: Tail | None, width: int) -> list[Line]:
    """What it printed last, a line for each line of its file."""
    if tail is None or not tail.lines:
        return []
    head = f"{tail.name}:"
    return [(Cell(fit(f"  {text}", width).rstrip(), Tone.DIM),) for text in (head, *tail.lines)]


def _age_s(digest: Digest, node: Node, row: BlockRow) -> float | None:
    """Time since the last write as of the tick, which may be younger than the reading."""
    age_s = row.value("job_output_age_s")
    if age_s is None or node.taken_at is None:
        return None
    return float(age_s) + max(0.0, digest.tick.at - node.taken_at)


def _rate(row: BlockRow) -> str:
    rate = row.value("job_output_bytes_per_s")
    return f", {units.rate(rate)}" if rate else ""


def _why(rows: list[tuple[Node, BlockRow]]) -> str:
    """The first reason that an administrator can remove, else nothing."""
    reasons = (row.reason("job_output_age_s") for _, row in rows)
    return next((_UNKNOWN[why] for why in reasons if why in _UNKNOWN), "")
