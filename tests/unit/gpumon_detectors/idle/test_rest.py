"""What goes on beside resting GPUs, and what it does to the claim."""

from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import HELD, START_AT, WORKING, Scene
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.never_started import NeverStarted
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
        # First perhaps, then for sure, as its own CPUs did not change with it.
        assert "another job's" in " ".join([found.summary, *(one.text for one in found.evidence)])
    assert found.confidence != "hypothesis"


def moving(
    minutes, *, cores_per_gb=0.0, base=3e6, every=3, seed=3, host=True, sleeps=0.02, ripple=0.0
):
    """A job that worked and rests, beside traffic that comes and goes; its one finding.

    Args:
        minutes: How long it rests.
        cores_per_gb: CPUs of the job's own that go with a gigabyte a second.
        base: Traffic between two bursts, bytes a second.
        sleeps: CPUs that the job's own programs use while they wait.
        ripple: How much the traffic between two bursts varies, as a part of it.
        every: Bursts come every so many minutes on average.
        seed: Of the traffic.
        host: Whether the job's own CPU time is seen.
    """
    dice = random.Random(seed)
    scene = Scene(period_s=30.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 6)
    scene.job("42", uuids[:2], cpu_count=24)
    scene.job("43", uuids[2:], cpu_count=48)
    scene.host("n", **QUIET_HOST)
    if host:
        scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": 5.0})
    scene.run(WORKED_S, all_of(uuids, WORKING))
    values = {**all_of(uuids[:2], HELD), **all_of(uuids[2:], WORKING)}
    for _ in range(minutes):
        rate = base * (1.0 + dice.gauss(0.0, ripple))
        rate += dice.uniform(1e8, 6e8) if dice.random() < 1 / every else 0.0
        scene.host("n", **{**QUIET_HOST, "net_rx_bytes_per_s": rate})
        if host:
            own = sleeps + dice.gauss(0.0, 0.001) + cores_per_gb * rate / 1e9
            scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": own})
        scene.run(60.0, values)
    (found,) = IdleHeld().evaluate(scene.view())
    return found


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_traffic_that_a_jobs_cpus_do_not_follow_is_anothers(seed):
    """Whoever moves a byte pays for it with CPU time."""
    found = moving(70, seed=seed)
    assert found.confidence == "supported"
    assert "MB/s" not in found.summary
    told = [one.text for one in found.evidence if "do not follow" in one.text]
    assert len(told) == 1
    assert "MB/s over the network is another job's" in told[0]
    assert found.gpu_seconds == pytest.approx(2 * 70 * 60, rel=0.05)


def test_it_is_never_more_than_supported_by_that():
    assert moving(200).confidence == "supported"


@pytest.mark.parametrize("cores_per_gb", [0.08, 0.6, 2.5])
def test_traffic_that_comes_with_the_jobs_own_cpu_time_may_be_its_own(cores_per_gb):
    """From a program that splices pages to one that writes them to disk."""
    found = moving(70, cores_per_gb=cores_per_gb)
    assert found.confidence == "hypothesis"
    assert "over the network, perhaps another job's" in found.summary


@pytest.mark.parametrize(
    ("minutes", "given"),
    [
        (70, {"base": 2e8, "sleeps": 0.06}),
        (70, {"host": False}),
        (70, {"base": 9e7, "every": 1000}),
        (70, {"base": 1.1e8, "every": 1000, "ripple": 0.06}),
        (70, {"base": 7e8, "every": 1000, "ripple": 0.06, "cores_per_gb": 0.3}),
        (31, {}),
    ],
    ids=[
        *("a steady stream below", "CPUs unseen", "no burst", "as much as its CPUs could move"),
        *("a steady stream of its own", "too short"),
    ],
)
def test_where_that_cannot_be_told_traffic_stays_a_doubt(minutes, given):
    assert moving(minutes, **given).confidence == "hypothesis"


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize("given", [{"base": 2.4e8}, {"base": 5e8, "every": 1000, "ripple": 0.06}])
def test_a_steady_stream_is_anothers_where_its_cpus_could_not_have_moved_it(given, seed):
    """With two hundredths of a CPU nobody moves hundreds of MB/s, even if nothing is stored."""
    found = moving(70, seed=seed, **given)
    assert found.confidence == "supported"
    assert "MB/s" not in found.summary


READS = "process_io_read_bytes_per_s"
WRITES = "process_io_write_bytes_per_s"


def reading(
    minutes, *, moved=2e8, counted=2e8, own=0.0, job="43", key="net_rx_bytes_per_s", by=30.0
):
    """A job that worked and rests beside a process that reads all the while; its one finding.

    Args:
        minutes: How long it rests.
        moved: What the node moves, bytes a second.
        counted: What that process is counted to read; None: nobody may know.
        own: What the node moves besides.
        job: Whose process it is.
        key: Where the node counts what it moves.
        by: Seconds between two samples.
    """
    scene = Scene(period_s=by, span_s=24 * 3600.0)
    uuids = scene.node("n", 6)
    scene.job("42", uuids[:2], cpu_count=24)
    scene.job("43", uuids[2:], cpu_count=48)
    scene.host("n", **QUIET_HOST)
    scene.process(11, uuids[2:3], job_id=job, **{READS: counted, WRITES: 0.0})
    scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": 5.0})
    if key.startswith("nic"):
        scene.nic("n", "mlx5_0/1", **{key: moved, "nic_tx_bytes_per_s": 0.0})
    else:
        scene.host("n", **{key: moved + own})
    scene.run(WORKED_S, all_of(uuids, WORKING))
    scene.cgroup("42", **QUIET_GROUP)
    scene.run(60 * minutes, {**all_of(uuids[:2], HELD), **all_of(uuids[2:], WORKING)})
    (found,) = IdleHeld().evaluate(scene.view())
    return found


@pytest.mark.parametrize(
    "given",
    [{}, {"moved": 2.1e8}, {"by": 60.0}, {"key": "disk_read_bytes_per_s"}],
    ids=["as counted", "with its headers", "every minute", "from a disk"],
)
def test_what_a_process_of_another_job_is_counted_to_read_is_not_the_jobs(given):
    """However steady it is: the kernel says whose it is."""
    found = reading(70, **given)
    assert found.confidence == "supported"
    assert "MB/s" not in found.summary
    (text,) = [one.text for one in found.evidence if "are counted" in one.text]
    assert "is another job's: processes of other jobs are counted to read and write" in text


@pytest.mark.parametrize(
    "given",
    [
        {"counted": 1e8},
        {"counted": None},
        {"job": "42"},
        {"job": None},
        {"own": 3e7},
        {"key": "nic_rx_bytes_per_s"},
    ],
    ids=["half of it", "not told", "its own", "nobody's", "and more is moved", "over ports"],
)
def test_what_no_other_job_is_counted_to_move_stays_a_doubt(given):
    assert reading(70, **given).confidence == "hypothesis"


def test_a_file_that_is_written_reaches_the_server_later():
    """A neighbour's checkpoints: counted when they are in the page cache, sent half a minute on."""
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 6)
    scene.job("42", uuids[:2], cpu_count=24)
    scene.job("43", uuids[2:], cpu_count=48)
    scene.host("n", **QUIET_HOST)
    scene.cgroup("42", **QUIET_GROUP)
    told = []
    for _ in range(4):
        for written, sent, seconds in ((0.0, 2e4, 330), (1e9, 2e4, 30), (0.0, 1e9, 30)):
            scene.process(11, uuids[2:3], job_id="43", **{READS: 0.0, WRITES: written})
            scene.host("n", net_tx_bytes_per_s=sent)
            scene.run(seconds, all_of(uuids[2:], WORKING))
            told += NeverStarted().evaluate(scene.view())
    late = [found for found in told if found.window.end - found.window.start > 900]
    assert len(late) > 4
    assert {found.confidence for found in late} == {"supported"}


def test_what_is_moved_once_the_neighbour_has_gone_is_not_explained():
    scene = Scene(period_s=30.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 7)
    scene.job("42", uuids[:2], cpu_count=24)
    scene.job("43", uuids[2:6], cpu_count=48)
    scene.job("44", uuids[6:], cpu_count=8)
    scene.host("n", **{**QUIET_HOST, "net_rx_bytes_per_s": 2e8})
    scene.process(11, uuids[2:3], job_id="43", **{READS: 2e8, WRITES: 0.0})
    scene.cgroup("42", **{**QUIET_GROUP, "job_cpu_cores_used": 5.0})
    scene.run(WORKED_S, all_of(uuids, WORKING))
    scene.cgroup("42", **QUIET_GROUP)
    scene.run(4200, {**all_of(uuids[:2], HELD), **all_of(uuids[2:], WORKING)})
    scene.no_process(11, "n")
    scene.end("43")
    scene.run(600, {**all_of(uuids[:2], HELD), **all_of(uuids[6:], WORKING)})
    (found,) = IdleHeld().evaluate(scene.view())
    assert found.confidence == "hypothesis"
