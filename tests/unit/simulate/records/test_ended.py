"""What the accounting of the simulated fleet lists: who ended before the demo opened, and since."""

from __future__ import annotations

import pytest

from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.records.ended import ended_records
from gpumon.simulate.records.slurm_queue import queue_records

AT = 1_760_000_000.0
HOUR = 3600.0


@pytest.fixture(scope="module")
def fleet():
    return Fleet(10, 8, 1, AT)


def test_a_job_that_ended_while_it_was_watched_is_listed_as_it_ran(fleet):
    before = {job.job_id: job for job in queue_records(fleet, AT).jobs if job.state == "RUNNING"}
    now = AT + 2 * HOUR
    still = {job.job_id for job in queue_records(fleet, now).jobs}
    gone = before.keys() - still
    assert gone
    ended = {one.job.job_id: one for one in ended_records(fleet, AT, now).jobs}
    assert gone <= ended.keys()
    for job_id in gone:
        one, ran = ended[job_id], before[job_id]
        assert (one.job.state, one.job.nodes, one.job.start_at) == (
            "COMPLETED",
            ran.nodes,
            ran.start_at,
        )
        assert AT <= one.job.end_at <= now
        assert one.elapsed_s == one.job.end_at - one.job.start_at
        assert one.gpu_seconds == one.job.gpu_count * one.elapsed_s
        assert one.gpu_util_ratio is None


def test_those_that_ended_last_come_first_and_none_from_outside_the_window(fleet):
    ends = [one.job.end_at for one in ended_records(fleet, AT - 24 * HOUR, AT + 2 * HOUR).jobs]
    assert ends == sorted(ends, reverse=True)
    assert len(ends) > 8
    assert len(ended_records(fleet, AT - 24 * HOUR, AT).jobs) == 8
