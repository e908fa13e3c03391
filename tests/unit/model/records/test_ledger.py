"""The ledger at one instant: added up once, and the same by each way to count."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records import ledger as records
from gpumon.model.records.ledger import Prices
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view


def totals_of(seconds=100):
    ledger = Ledger(Prices({"default": 3.6}))
    jobs = [view(str(n), [f"{n}a", f"{n}b"], user=f"user{n % 3}") for n in range(9)]
    uuids = [uuid for job in jobs for uuid in job.gpu_uuids]
    for at in (START, START + seconds):
        found = [
            claim("hang", f"job:{n}", START, at, gpus=jobs[n].gpu_uuids, share=1)
            for n in range(0, 9, 2)
        ]
        ledger.take(tick(at, jobs, [gpu(uuid, at) for uuid in uuids], found, period_s=seconds))
    return ledger.summary()


def test_sums_and_jobs_come_to_the_same():
    totals = totals_of()
    jobs = totals.by("job").values()
    for dimension in ("user", "account", "partition", "gpu"):
        parts = totals.by(dimension).values()
        for what in ("allocated_s", "waste_s", "unobserved_s", "cost"):
            whole = getattr(totals.total(), what)
            assert sum(getattr(part, what) for part in parts) == pytest.approx(whole)
            assert sum(getattr(job, what) for job in jobs) == pytest.approx(whole)
    assert totals.total().allocated_s == 1800
    assert totals.total().waste_s == pytest.approx(1000)


def test_what_each_job_wasted_is_what_its_line_says():
    totals = totals_of()
    lines = totals.by("job")
    assert totals.lost_by_job.keys() == lines.keys()
    for job_id, lost in totals.lost_by_job.items():
        assert lost == pytest.approx((lines[job_id].waste_s, lines[job_id].suspicion_s))
    assert any(lost.wasted_s for lost in totals.lost_by_job.values())
    assert totals.job("4") == totals.by("job")["4"]
    assert totals.job("77") is None


def test_totals_are_added_up_once_however_often_they_are_asked_for(monkeypatch):
    totals = totals_of()
    made = []

    class Counted(records.Sums):
        def __init__(self, prices):
            made.append(self)
            super().__init__(prices)

    monkeypatch.setattr(records, "Sums", Counted)
    for _ in range(3):
        totals.total()
        totals.by("user")
    assert len(made) == 1 + 3


def test_totals_do_not_grow_with_the_number_of_jobs():
    assert len(totals_of().sums) == 3
