"""By what a table is ordered, whatever stands in its rows."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import pytest

from gpumon.report.tables.ended import ENDED_COLUMNS
from gpumon.report.tables.job import JOB_COLUMNS
from gpumon.report.tables.pending import PENDING_COLUMNS


@pytest.mark.parametrize("columns", [JOB_COLUMNS, PENDING_COLUMNS, ENDED_COLUMNS])
@pytest.mark.parametrize(("job_id", "place"), [("71", 71.0), ("7²", inf), ("①", inf), ("x", inf)])
def test_a_job_of_a_recording_may_have_any_id(columns, job_id: str, place: float) -> None:
    order = next(column.order for column in columns if column.key == "job_id")
    row = SimpleNamespace(job=SimpleNamespace(job_id=job_id, label="l"))
    assert order(None, row) == (place, "l")
