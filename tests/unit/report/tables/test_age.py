"""How old a job is: it waits, it runs, and once it has ended it gets no older."""

from __future__ import annotations

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.job import JOB_COLUMNS, age_s
from tests.worlds.queue import alone
from tests.worlds.tick import AT, job, tick

AGE = next(column for column in JOB_COLUMNS if column.key == "age")


def age(now: float, **changes: object) -> str:
    view = alone(job("1", **changes))
    given_tick = tick((view,))._replace(at=now)
    return AGE.cell(Digest(given_tick), view).text


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"])
@pytest.mark.parametrize("later_s", [0.0, 240.0, 7200.0])
def test_an_ended_job_stays_as_old_as_it_became(state, later_s):
    fields = {"state": state, "start_at": AT - 1391, "end_at": AT}
    assert age(AT + later_s, **fields) == "23m"


def test_one_whose_end_nobody_tells_has_no_age():
    assert age(AT, state="FAILED", start_at=AT - 600, end_at=None) == "–"


def test_a_running_job_ages_and_its_limit_is_no_end():
    fields = {"state": "RUNNING", "start_at": AT - 600, "end_at": AT + 60}
    assert [age(AT, **fields), age(AT + 600, **fields)] == ["10m", "20m"]


def test_a_waiting_job_ages_from_its_submission():
    view = alone(job("1", state="PENDING", submit_at=AT - 90, start_at=AT + 500))
    assert age_s(Digest(tick((view,))), view) == 90.0
