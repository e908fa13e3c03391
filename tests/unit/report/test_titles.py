"""The titles of findings fit where tables show them."""

from __future__ import annotations

from gpumon.model.finding_classes import CLASSES
from gpumon.report.cells import text_width
from gpumon.report.job_columns import JOB_COLUMNS

SIGNS = len("‼ ?")


def test_every_title_stands_whole_in_the_narrowest_verdict_column():
    (verdict,) = (column for column in JOB_COLUMNS if column.key == "verdict")
    titles = (known.title for known in CLASSES.values())
    assert [t for t in titles if text_width(t) + SIGNS > verdict.width] == []
