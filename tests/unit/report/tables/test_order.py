"""By what a table is ordered, with any rows."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import pytest

from gpumon.model.finding import Confidence, Severity
from gpumon.model.records.ledger import LedgerTotals, Losing, LosingNow
from gpumon.report.facts.columns import arranged
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.ended import ENDED_COLUMNS
from gpumon.report.tables.job import JOB_COLUMNS, default_order
from gpumon.report.tables.pending import PENDING_COLUMNS
from tests.worlds.tick import AT, finding, job_with_gpus, tick


@pytest.mark.parametrize("columns", [JOB_COLUMNS, PENDING_COLUMNS, ENDED_COLUMNS])
@pytest.mark.parametrize(("job_id", "place"), [("71", 71.0), ("7²", inf), ("①", inf), ("x", inf)])
def test_a_job_of_a_recording_may_have_any_id(columns, job_id: str, place: float) -> None:
    order = next(column.order for column in columns if column.key == "job_id")
    row = SimpleNamespace(job=SimpleNamespace(job_id=job_id, label="l"))
    assert order(None, row) == (place, "l")


def losing_fleet(**rates):
    """Jobs by id with what each loses now: GPUs, confidence, severity."""
    jobs, gpus, found, by_finding, by_job = [], [], [], {}, {}
    for number, (job_id, (lost, confidence, severity)) in enumerate(rates.items()):
        view, mine = job_with_gpus(job_id.removeprefix("j"), {f"n{number}": 4})
        jobs.append(view)
        gpus += mine
        if confidence is None:
            continue
        claim = finding(f"job:{view.job.job_id}", confidence=confidence, severity=severity)
        found.append(claim)
        rate = Losing(0.0, lost) if confidence is Confidence.HYPOTHESIS else Losing(lost, 0.0)
        by_finding[claim.identity] = by_job[view.job.job_id] = rate
    ledger = LedgerTotals(AT, AT - 600, (), (), losing=LosingNow(by_finding, by_job))
    return Digest(tick(tuple(jobs), gpus, findings=tuple(found), ledger=ledger))


def order_of(digest):
    rows = arranged(digest.tick.jobs, lambda view: default_order(digest, view))
    return [view.job.job_id for view in rows]


SURE, GUESS = Confidence.ESTABLISHED, Confidence.HYPOTHESIS
GRAVE, WARNS = Severity.CRITICAL, Severity.WARNING


def test_what_loses_most_now_is_on_top_however_grave_it_is():
    """A broken link that costs nothing is not above sixteen GPUs that wait."""
    digest = losing_fleet(
        j1=(0.0, SURE, GRAVE), j2=(2.5, SURE, WARNS), j3=(0.0, None, None), j4=(12.0, SURE, WARNS)
    )
    assert order_of(digest) == ["4", "2", "1", "3"]


def test_a_guess_counts_less_than_what_is_sure():
    digest = losing_fleet(j1=(3.0, GUESS, WARNS), j2=(1.5, SURE, WARNS), j3=(8.0, GUESS, WARNS))
    assert order_of(digest) == ["3", "2", "1"]


def test_rows_keep_their_places_while_losses_move_a_little():
    for first, second in ((4.00, 4.02), (4.03, 4.01)):
        digest = losing_fleet(j1=(first, SURE, WARNS), j2=(second, SURE, WARNS))
        assert order_of(digest) == ["1", "2"]
