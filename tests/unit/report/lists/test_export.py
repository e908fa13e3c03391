"""A table in a file: whole numbers stay whole, missing stays missing, no cell is a formula."""

from __future__ import annotations

import csv

from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.export import as_csv, as_json
from gpumon.report.tables.job import JOB_COLUMNS
from tests.worlds.schemas import checked
from tests.worlds.tick import fleet


def written(*keys: str):
    """The first job of a fleet in both forms, by the keys of these columns."""
    digest = Digest(fleet())
    columns = [column for column in JOB_COLUMNS if column.key in keys]
    views = [view for view in digest.tick.jobs if view.job.job_id == "4711"]
    head, line = csv.reader(as_csv(digest, columns, views).splitlines())
    (row,) = checked("table-1", as_json(digest, columns, views))["rows"]
    return dict(zip((name.partition(" ")[0] for name in head), line, strict=True)), row


def test_a_count_is_a_whole_number_and_a_share_is_none():
    line, row = written("gpus", "sm_active_ratio")
    assert line["gpus"] == "8"
    assert isinstance(row["gpus"], int)
    assert 0.0 < float(line["sm_active_ratio"]) < 1.0
    assert isinstance(row["sm_active_ratio"], float)


def test_a_missing_value_is_empty_or_null():
    line, row = written("starts", "job_id")
    assert line == {"job_id": "4711", "starts": ""}
    assert row == {"job_id": "4711", "starts": None}
