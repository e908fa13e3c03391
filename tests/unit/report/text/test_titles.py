"""The titles of findings fit where tables show them."""

from __future__ import annotations

from gpumon.model.finding_classes import CLASSES
from gpumon.report.tables.job import JOB_COLUMNS
from gpumon.report.text.cells import text_width

SIGNS = len("‼ ?")


def test_every_title_stands_whole_in_the_narrowest_verdict_column():
    (verdict,) = (column for column in JOB_COLUMNS if column.key == "verdict")
    titles = (known.title for known in CLASSES.values())
    assert [t for t in titles if text_width(t) + SIGNS > verdict.width] == []
