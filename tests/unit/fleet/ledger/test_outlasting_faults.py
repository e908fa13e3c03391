"""Faults of a GPU that outlast the jobs that they cost time."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view


def two_gpus(ledger, at, jobs, *findings):
    """One tick of two GPUs that are fresh."""
    ledger.take(tick(at, jobs, [gpu(uuid, at) for uuid in "ab"], findings))


@pytest.mark.parametrize("next_job", [None, "2"])
@pytest.mark.parametrize("share", [None, 0.0, 0.3])
def test_what_a_fault_cost_a_job_stays_when_the_job_has_ended_and_the_fault_has_not(
    share, next_job
):
    """Of a GPU that nobody holds, or somebody else, a detector knows another loss, or none."""
    ledger, job = Ledger(), view("1", ["a", "b"])
    for second in range(301):
        two_gpus(ledger, START + second, [job])
    found = claim("gpu_fault", "gpu:a", START + 40, START + 300, gpus=["a", "b"], share=1)
    two_gpus(ledger, START + 301, [job], found)
    after = [] if next_job is None else [view(next_job, ["a"], start_at=START + 310)]
    for at in range(310, 701, 10):
        told = claim("gpu_fault", "gpu:a", START + 40, START + at, gpus=["a"], share=share or 0)
        if share is None:
            told = told._replace(gpu_seconds=0.0 if next_job else None)
        two_gpus(ledger, START + at, after, told)
    wasted = ledger.summary().total().wasted_s["gpu_fault"]
    own = 0.0 if next_job is None else (share or 0.0) * 390
    assert wasted == pytest.approx(520 + own, abs=10)
