"""Whether a job makes progress, as far as the files that it writes to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.missing import Reason
from gpumon.report import units
from gpumon.report.columns import Tone
from gpumon.report.passages import paragraph
from gpumon.report.rows import block_rows
from gpumon.report.words import reason_words

if TYPE_CHECKING:
    from gpumon.model.cluster import JobView, Node
    from gpumon.report.columns import Line
    from gpumon.report.digest import Digest
    from gpumon.report.rows import BlockRow

_UNKNOWN: Final = {
    Reason.NOT_SUPPORTED: "standard output and error of its processes are no plain files",
    Reason.NO_PERMISSION: "no permission to see where its processes write",
    Reason.NOT_SAMPLED: "not asked yet, or the server of the files does not answer",
}
"""Why nothing is known of a job's output."""


def output_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """When the job last wrote to its standard output or error; nothing while it does not run.

    A job that hangs looks busy and writes nothing. The newest write on any of its nodes counts;
    where no node knows one, the first reason is told. Without a control group of the job there is
    nothing to tell.
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


def _age_s(digest: Digest, node: Node, row: BlockRow) -> float | None:
    """Time since the last write as of the picture, which may be younger than the reading."""
    age_s = row.value("job_output_age_s")
    if age_s is None or node.taken_at is None:
        return None
    return float(age_s) + max(0.0, digest.tick.at - node.taken_at)


def _rate(row: BlockRow) -> str:
    rate = row.value("job_output_bytes_per_s")
    return f", {units.rate(rate)}" if rate else ""


def _why(rows: list[tuple[Node, BlockRow]]) -> str:
    """The first reason; empty where a silent node is the only one, which is told elsewhere."""
    reasons = (row.reason("job_output_age_s") for _, row in rows)
    reason = next((why for why in reasons if why not in (None, Reason.STALE)), None)
    return _UNKNOWN.get(reason) or reason_words(reason) if reason else ""
