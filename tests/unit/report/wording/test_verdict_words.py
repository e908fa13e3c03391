"""What findings are called, and what is shown first of what is stale."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Severity
from gpumon.model.finding_classes import CLASSES
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.gpu import fleet_why, rank_why
from gpumon.report.tables.node import NODE_COLUMNS, node_rows
from gpumon.report.text.cells import Cell, Tone
from gpumon.report.wording.verdict_words import finding_cell
from tests.worlds.tick import finding, job_with_gpus, tick, uuid_of


@pytest.mark.parametrize(
    ("severity", "words", "tone"),
    [
        (None, "stale 12s", Tone.WARN),
        (Severity.INFO, "stale 12s · i some GPUs unused", Tone.WARN),
        (Severity.CRITICAL, "stale 12s · ‼ some GPUs unused", Tone.BAD),
    ],
)
def test_what_is_stale_says_so_before_what_was_found(severity, words, tone):
    view, gpus = job_with_gpus("1", {"n": 1}, stale_s=12.0)
    about = [f"gpu:{uuid_of('n', 0)}"] if severity else []
    claims = tuple(finding(subject, severity=severity) for subject in about)
    digest = Digest(tick((view,), gpus, findings=claims))
    assert rank_why(digest, digest.rank_rows(view)[0]) == Cell(words, tone)
    assert fleet_why(digest, digest.gpu_rows[0]) == Cell(words, tone)
    (row,) = node_rows(digest)
    why = next(column for column in NODE_COLUMNS if column.key == "why")
    assert why.cell(digest, row) == Cell(words, tone)


def test_gpus_that_wait_for_one_are_told_what_ails_that_one():
    """As its job is: the rank that is slow for it loses nothing of its own."""
    view, gpus = job_with_gpus("9", {"m": 3, "n": 2})
    ids = tuple(one.uuid for one in gpus)
    hot = finding(
        f"gpu:{ids[4]}", finding_class="throttled", severity=Severity.CRITICAL,
        gpu_seconds=900.0, gpus=ids,
    )  # fmt: skip
    slow = finding("job:9/rank:4", finding_class="straggler", gpu_seconds=0.0, gpus=ids)
    digest = Digest(tick((view,), gpus, findings=(slow, hot)))
    words = {row.key: fleet_why(digest, row).text for row in digest.gpu_rows}
    assert [words[one] for one in ids] == [*["‼ job: throttled"] * 4, "‼ throttled"]
    why = next(column for column in NODE_COLUMNS if column.key == "why")
    (waits,) = [row for row in node_rows(digest) if row.node.name == "m"]
    assert why.cell(digest, waits).text == "‼ job 9: throttled"


def test_every_class_is_called_by_its_title():
    for key, known in CLASSES.items():
        cell = finding_cell(tick(()), finding("job:1", finding_class=key))
        assert cell.text == f"! {known.title}"
    own = finding("job:1", finding_class="hot_gpu", category="degraded")
    assert finding_cell(tick(()), own).text == "! hot gpu"
