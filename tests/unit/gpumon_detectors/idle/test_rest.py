"""What goes on beside resting GPUs, and what it does to the claim."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, WORKING, Scene
from gpumon_detectors.idle.idle_held import IdleHeld
from tests.unit.gpumon_detectors.idle_scenes import QUIET_GROUP, QUIET_HOST, all_of

WORKED_S = 1500.0


def beside(neighbour_host, hours, *, own=QUIET_GROUP, every_s=None, burst_s=90.0):
    """A job that worked and rests, beside a neighbour whose traffic is always there or in bursts.

    Yields the one finding after each burst, and in the end.
    """
    scene = Scene(period_s=30.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 6)
    scene.job("42", uuids[:2], cpu_count=24)
    scene.job("43", uuids[2:], cpu_count=48)
    scene.host("n", **QUIET_HOST)
    if own is not None:
        scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": 5.0})
    scene.run(WORKED_S, all_of(uuids, WORKING))
    if own is not None:
        scene.cgroup("42", **own)
    values = {**all_of(uuids[:2], HELD), **all_of(uuids[2:], WORKING)}
    left_s = hours * 3600
    while left_s > 0:
        calm_s = 0.0 if every_s is None else min(every_s, left_s)
        if calm_s:
            scene.host("n", **QUIET_HOST)
            scene.run(calm_s, values)
        scene.host("n", **neighbour_host)
        loud_s = left_s if every_s is None else burst_s
        scene.run(loud_s, values)
        left_s -= calm_s + loud_s
        yield from IdleHeld().evaluate(scene.view())


def test_a_neighbours_bursts_begin_nothing_anew():
    """Its checkpoints, every twenty minutes: the rest is one rest, and told alike after each."""
    told = list(beside({"disk_write_bytes_per_s": 7e8}, 5.0, every_s=1200.0))
    late = [found for found in told if found.window.end - found.window.start > 2000]
    assert len(late) > 10
    starts = {round((found.window.start - late[0].window.start) / 300) for found in late}
    assert starts <= {-1, 0, 1}
    assert told[-1].confidence != "hypothesis"
    assert told[-1].gpu_seconds == pytest.approx(2 * 5.0 * 3600, rel=0.05)


@pytest.mark.parametrize(
    ("hours", "confidence"), [(1.2, "hypothesis"), (1.8, "hypothesis"), (2.4, "supported")]
)
def test_after_two_hours_traffic_is_not_that_of_a_job_whose_cpus_do_nothing(hours, confidence):
    (found,) = beside({"net_rx_bytes_per_s": 3.7e10, "net_tx_bytes_per_s": 3.7e10}, hours)
    assert found.confidence == confidence
    assert "over the network, perhaps another job's" in found.summary


def test_a_job_that_moves_data_itself_is_given_four_hours():
    own = {**QUIET_GROUP, "job_cpu_cores_used": 4.0, "job_io_read_bytes_per_s": 2e8}
    for hours, confidence in ((3.2, "hypothesis"), (4.6, "supported")):
        (found,) = beside({"net_rx_bytes_per_s": 9e8}, hours, own=own)
        assert found.confidence == confidence


def test_where_its_own_cpus_are_not_seen_traffic_may_be_its_own():
    (found,) = beside({"net_rx_bytes_per_s": 9e8}, 6.0, own=None)
    assert found.confidence == "hypothesis"


def test_what_a_neighbour_moved_is_not_the_jobs_once_it_has_left():
    """It was there for an hour and a half of the rest."""
    scene = Scene(period_s=30.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 6)
    scene.job("42", uuids[:2], cpu_count=24)
    scene.job("43", uuids[2:], cpu_count=48)
    scene.host("n", **{**QUIET_HOST, "disk_read_bytes_per_s": 4e8})
    scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": 5.0})
    scene.run(WORKED_S, all_of(uuids, WORKING))
    scene.cgroup("42", **QUIET_GROUP)
    scene.run(5400, {**all_of(uuids[:2], HELD), **all_of(uuids[2:], WORKING)})
    scene.end("43")
    scene.host("n", **QUIET_HOST)
    for _ in range(4):
        scene.run(600, all_of(uuids[:2], HELD))
        (found,) = IdleHeld().evaluate(scene.view())
        assert found.window.start == pytest.approx(START_AT + WORKED_S, abs=330)
        assert "perhaps another job's" in found.summary
    assert found.confidence != "hypothesis"
