"""Requests at every usual period, with what telemetry suffers: found, and nobody is accused."""

from __future__ import annotations

import re
from math import sin

import pytest

from gpumon.detect.scene import START_AT, WORKING, Scene
from gpumon.model.finding import Confidence
from gpumon_detectors.requests.fragmented import Fragmented
from gpumon_detectors.requests.memory_leak import MemoryLeak
from gpumon_detectors.requests.overasked import Overasked
from gpumon_detectors.requests.overasked_time import OveraskedTime
from gpumon_detectors.requests.oversized_gpu import OversizedGpu
from tests.unit.gpumon_detectors.noise import BETWEEN_HOLES_S, HOLE_S, troubles_at
from tests.unit.gpumon_detectors.request_scenes import GIB, Phase, Site, played

HOUR = 3600.0
RULES = (Fragmented(), MemoryLeak(), Overasked(), OveraskedTime(), OversizedGpu())


def grid(periods_s, quick):
    """Periods and troubles; those in `quick` cost little enough for every day."""
    for period_s in periods_s:
        for trouble in troubles_at(period_s):
            marks = () if (period_s, trouble) in quick else (pytest.mark.slow,)
            yield pytest.param(period_s, trouble, marks=marks, id=f"{period_s:.0f} s, {trouble}")


def everywhere(*quick, periods_s=(1.0, 10.0, 30.0, 60.0)):
    """With every trouble at usual periods."""
    return pytest.mark.parametrize(("period_s", "trouble"), [*grid(periods_s, quick)])


FOUND_EVERYWHERE = everywhere((10.0, "holes"), (60.0, "missing"), (60.0, "restart"))
EVERYWHERE = everywhere((60.0, "missing"))
FOR_HOURS = everywhere((60.0, "missing"), periods_s=(10.0, 30.0, 60.0))
"""For scenes that take seconds to make up."""


def findings(scene):
    view = scene.view()
    return [finding for rule in RULES for finding in rule.evaluate(view)]


def accusations(scene):
    """What is said as more than a hypothesis."""
    return [f for f in findings(scene) if f.confidence is not Confidence.HYPOTHESIS]


def seen_s(seconds, trouble):
    """Seconds of a phase that were seen at most."""
    return seconds / 2 if trouble == "restart" else seconds


def wavy(middle, by, every_s=47.0):
    """A value that goes up and down a little all the time."""
    return lambda s: middle + by * sin(s / every_s)


# CPUs and memory

GROUP = {
    "job_cpu_cores_used": wavy(5.2, 1.1),
    "job_mem_peak_bytes": lambda s: min(61.0, 30.0 + s / 20) * GIB,
    "job_mem_limit_bytes": 560.0 * GIB,
    "job_io_read_bytes_per_s": 3e6,
    "job_io_write_bytes_per_s": 4e4,
}
MODEST = {**GROUP, "job_mem_limit_bytes": 90.0 * GIB}


def asking(period_s, trouble, seconds, group, *, cpus, mem_gib):
    return played(
        period_s, trouble, [Phase(seconds, group=group)], cpus=cpus, mem_bytes=mem_gib * GIB
    )


@FOUND_EVERYWHERE
def test_cpus_that_block_gpus_are_found(period_s, trouble):
    seconds = 2.3 * HOUR if trouble == "restart" else 1.2 * HOUR
    scene = asking(period_s, trouble, seconds, MODEST, cpus=60, mem_gib=90.0)
    (finding,) = findings(scene)
    assert (finding.subject, finding.finding_class) == ("job:42", "overasked")
    assert finding.confidence == "supported"
    assert "of its CPUs and keeps 3 GPUs of the node" in finding.summary
    assert 5.2 <= finding.evidence[0].value <= 6.3
    assert finding.window.end - finding.window.start <= seen_s(seconds, trouble)


@FOUND_EVERYWHERE
def test_memory_that_blocks_gpus_is_found(period_s, trouble):
    seconds = 2.3 * HOUR if trouble == "restart" else 1.2 * HOUR
    scene = asking(period_s, trouble, seconds, GROUP, cpus=24, mem_gib=560.0)
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == ("job:42", "supported")
    assert finding.summary.startswith("uses 11 % of its memory and keeps 2 GPUs of the node")
    assert finding.evidence[0].value == pytest.approx(61 * GIB)


@EVERYWHERE
def test_cpus_that_are_used_in_bursts_are_used(period_s, trouble):
    bursts = {**MODEST, "job_cpu_cores_used": lambda s: 41.0 if s % 3000 < 150 else 3.0}
    seconds = 2.6 * HOUR if trouble == "restart" else 1.4 * HOUR
    assert findings(asking(period_s, trouble, seconds, bursts, cpus=60, mem_gib=90.0)) == []


@FOR_HOURS
@pytest.mark.parametrize("late_s", [0.0, 130.0])
def test_cpus_that_were_used_hours_ago_are_used(late_s, period_s, trouble):
    """What is kept of that time are means over longer than the burst took."""
    begin_s = 4.2 * HOUR * (0.5 if trouble == "restart" else 0.1) + 600.0 + late_s
    burst = {
        **MODEST,
        "job_cpu_cores_used": lambda s: 29.0 if 0 <= s - begin_s < 130 else 3.0,
    }
    assert findings(asking(period_s, trouble, 4.2 * HOUR, burst, cpus=60, mem_gib=90.0)) == []


@EVERYWHERE
def test_memory_that_a_checkpoint_needs_is_used(period_s, trouble):
    """What the kernel remembers of the time before a restart counts too."""
    peak = {**GROUP, "job_mem_peak_bytes": lambda s: (51.0 if s < 2200 else 214.0) * GIB}
    seconds = 2.6 * HOUR if trouble == "restart" else 1.3 * HOUR
    assert findings(asking(period_s, trouble, seconds, peak, cpus=24, mem_gib=560.0)) == []


# Time


def ended(period_s, trouble, ran_s, **fields):
    """A job of 8 GPUs that ran and ended a moment ago; gpumon began in its middle or before."""
    scene = Scene(period_s=period_s)
    uuids = scene.node("p0", 8)
    start_at = START_AT - (ran_s / 2 if trouble == "restart" else 0.0)
    scene.job("42", uuids, start_at=start_at, time_limit_s=30 * HOUR)
    left_s = ran_s + start_at - START_AT
    if trouble == "holes":
        scene.run(left_s - 120.0, dict.fromkeys(uuids, WORKING))
        scene.skip(60.0)
        left_s = 60.0
    scene.run(left_s, dict.fromkeys(uuids, WORKING))
    scene.end("42")
    given = {
        "state": "COMPLETED",
        "exit_code": "0:0",
        "start_at": start_at,
        "end_at": start_at + ran_s,
        "time_limit_s": 30 * HOUR,
        "gpu_count": 8,
    }
    scene.record("42", **{**given, **fields})
    if trouble == "shared":
        scene.job("90", uuids[6:])
    scene.run(3 * period_s, {})
    return scene


@EVERYWHERE
def test_a_limit_far_above_the_run_is_told_by_slurms_own_times(period_s, trouble):
    scene = ended(period_s, trouble, 2880.0)
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == ("job:42", "established")
    assert finding.summary == "completed after 48 min of the 30.0 h that it asked for"
    assert finding.evidence[0].value == pytest.approx(0.8 / 30)
    assert finding.window.start >= START_AT
    assert finding.gpu_seconds is None


@EVERYWHERE
@pytest.mark.parametrize(
    "fields",
    [{"state": "NODE_FAIL"}, {"exit_code": "0:9"}, {"time_limit_s": 3.5 * HOUR}],
    ids=["its node failed", "a signal ended it", "little was left"],
)
def test_a_job_that_did_not_choose_its_end_is_not_accused(fields, period_s, trouble):
    assert findings(ended(period_s, trouble, 2880.0, **fields)) == []


# GPUs that are too large

LIGHT = {
    **WORKING,
    "mem_used_bytes": wavy(8.8 * GIB, 0.6 * GIB),
    "gpu_util_ratio": wavy(0.36, 0.2, 31.0),
    "sm_active_ratio": wavy(0.11, 0.05, 31.0),
}
ONE = Site(held=1, gpus=4)


def alone(period_s, trouble, seconds, **other):
    return played(period_s, trouble, [Phase(seconds, {**LIGHT, **other})], ONE)


@EVERYWHERE
def test_a_gpu_that_is_too_large_is_found_and_what_was_seen_is_charged(period_s, trouble):
    seconds = 9.1 * HOUR if trouble == "restart" else 4.6 * HOUR
    (finding,) = findings(alone(period_s, trouble, seconds))
    assert (finding.subject, finding.finding_class) == ("job:42", "oversized_gpu")
    assert finding.confidence == "established"
    assert finding.summary.startswith("would fit into a slice: 12 % of memory and 11 % of compute")
    # A seventh of its SMs and an eighth of its memory are needed.
    most = 6 / 7 * seen_s(seconds, trouble)
    seen = BETWEEN_HOLES_S / (BETWEEN_HOLES_S + HOLE_S) if trouble == "holes" else 1.0
    assert 0.98 * seen * most - 300.0 <= finding.gpu_seconds <= most


@FOR_HOURS
def test_a_gpu_whose_memory_is_full_is_not_too_large_though_its_sms_are_idle(period_s, trouble):
    scene = alone(period_s, trouble, 5 * HOUR, mem_used_bytes=wavy(67 * GIB, GIB))
    assert findings(scene) == []


@FOR_HOURS
def test_memory_that_every_checkpoint_needs_is_needed(period_s, trouble):
    """One sample in ten, which no mean over five minutes shows."""
    spike_s = max(30.0, period_s)
    checkpoint = {"mem_used_bytes": lambda s: (52.0 if s % 300 < spike_s else 7.0) * GIB}
    assert findings(alone(period_s, trouble, 5 * HOUR, **checkpoint)) == []


@FOR_HOURS
def test_memory_that_was_needed_hours_ago_is_needed(period_s, trouble):
    """Old rows stand for longer than new ones."""
    begin_s = 5 * HOUR * (0.5 if trouble == "restart" else 0.1) + 900.0
    phase = {"mem_used_bytes": lambda s: (52.0 if 0 <= s - begin_s < 1500 else 7.0) * GIB}
    assert findings(alone(period_s, trouble, 5 * HOUR, **phase)) == []


@FOR_HOURS
def test_a_standby_replica_is_not_accused(period_s, trouble):
    requests = {
        "gpu_util_ratio": lambda s: 0.6 if s % 1800 < 60 else 0.0,
        "sm_active_ratio": lambda s: 0.2 if s % 1800 < 60 else 0.0,
    }
    assert findings(alone(period_s, trouble, 5 * HOUR, **requests)) == []


@FOR_HOURS
def test_a_server_that_answers_in_bursts_is_not_accused(period_s, trouble):
    requests = {
        "gpu_util_ratio": lambda s: 0.8 if s % 1500 < 240 else 0.0,
        "sm_active_ratio": lambda s: 0.3 if s % 1500 < 240 else 0.0,
    }
    seconds = 9.5 * HOUR if trouble == "restart" else 5 * HOUR
    scene = alone(period_s, trouble, seconds, **requests)
    assert accusations(scene) == []


# Jobs spread over nodes

SPREAD = Site(nodes=3, gpus=4)
PORT = {"nic_tx_bytes_per_s": wavy(3.6e9, 1.4e9), "nic_speed_gbps": 200.0}


@FOUND_EVERYWHERE
def test_a_job_that_is_spread_over_too_many_nodes_is_found(period_s, trouble):
    seconds = 2.3 * HOUR if trouble == "restart" else 1.2 * HOUR
    scene = played(period_s, trouble, [Phase(seconds, port=PORT)], SPREAD)
    (finding,) = findings(scene)
    assert (finding.subject, finding.finding_class) == ("job:42", "fragmented")
    assert finding.summary == "6 GPUs spread over 3 nodes where 2 nodes would do"
    if trouble == "shared":
        # Whose the traffic is cannot be seen.
        assert finding.confidence == "hypothesis"
        return
    assert finding.confidence == "supported"
    assert finding.evidence[1].value == pytest.approx(7.2e9, rel=0.04)
    assert finding.window.end - finding.window.start <= seen_s(seconds, trouble)


@FOR_HOURS
def test_the_mean_traffic_is_that_of_the_whole_window(period_s, trouble):
    """Old rows stand for longer than new ones."""
    fell_s = 4.6 * HOUR if trouble == "restart" else 1.6 * HOUR
    falling = {**PORT, "nic_tx_bytes_per_s": lambda s: 5.2e9 if s < fell_s else 0.8e9}
    seconds = 6.0 * HOUR if trouble == "restart" else 3.0 * HOUR
    scene = played(period_s, trouble, [Phase(seconds, port=falling)], SPREAD)
    (finding,) = findings(scene)
    of_neighbours = 12.6e9 if trouble == "shared" else 0.0
    mean = 2 * (5.2e9 * 1.6 + 0.8e9 * 1.4) / 3.0 + of_neighbours
    assert finding.evidence[1].value == pytest.approx(mean, rel=0.04)


@EVERYWHERE
@pytest.mark.parametrize(
    "fields",
    [{"cpus": 70}, {"mem_bytes": 2400.0 * GIB}],
    ids=["CPUs", "memory"],
)
def test_a_job_that_needs_the_nodes_for_something_else_is_not_accused(fields, period_s, trouble):
    scene = played(period_s, trouble, [Phase(1.2 * HOUR, port=PORT)], SPREAD, **fields)
    assert findings(scene) == []


@EVERYWHERE
def test_nodes_that_only_send_their_checkpoints_do_not_miss_each_other(period_s, trouble):
    sent = {**PORT, "nic_tx_bytes_per_s": lambda s: 9e9 if s % 1080 < 60 else 9e7}
    scene = played(period_s, trouble, [Phase(2.3 * HOUR, port=sent)], SPREAD)
    assert accusations(scene) == []


# Memory that grows


def leak_gib_per_h(finding):
    found = re.search(r"ago, ([0-9.]+) GiB an hour", finding.evidence[0].text)
    return float(found[1])


def growing(gib, gib_per_h, garbage_gib=0.0):
    """Grows, with garbage that each few steps leave and free again."""
    return lambda s: (gib + gib_per_h * s / HOUR + garbage_gib * (s % 290) / 290) * GIB


@FOUND_EVERYWHERE
@pytest.mark.parametrize("garbage_gib", [0.0, 1.3])
def test_a_gpus_memory_that_grows_is_found(garbage_gib, period_s, trouble):
    seconds = 3.0 * HOUR if trouble == "restart" else 1.6 * HOUR
    values = {**WORKING, "mem_used_bytes": growing(43.0, 8.5, garbage_gib)}
    (finding,) = findings(played(period_s, trouble, [Phase(seconds, values)], Site(gpus=4)))
    assert (finding.subject, finding.finding_class) == ("job:42", "memory_leak")
    assert finding.confidence == "supported"
    assert finding.summary.startswith("GPU memory grows, full at about ")
    assert finding.summary.endswith("; 1 more of its GPUs and nodes")
    assert leak_gib_per_h(finding) == pytest.approx(8.5, rel=0.2)
    assert finding.window.end - finding.window.start <= seen_s(seconds, trouble)
    assert finding.gpu_seconds is None


@FOR_HOURS
def test_a_slow_leak_below_much_garbage_is_found(period_s, trouble):
    """Old rows are means, in which the garbage is: what counts is their lowest value."""
    seconds = 9.6 * HOUR if trouble == "restart" else 5.0 * HOUR
    values = {**WORKING, "mem_used_bytes": growing(44.0, 1.7, 4.2)}
    (finding,) = findings(played(period_s, trouble, [Phase(seconds, values)], Site(gpus=4)))
    assert finding.confidence == "established"
    assert leak_gib_per_h(finding) == pytest.approx(1.7, rel=0.35)


@EVERYWHERE
def test_a_leak_that_begins_in_the_middle_is_told_from_about_there(period_s, trouble):
    steady = Phase(2400.0, {**WORKING, "mem_used_bytes": 43.0 * GIB})
    values = {**WORKING, "mem_used_bytes": growing(43.0, 12.0)}
    phases = [steady, Phase(5430.0 if trouble == "restart" else 2730.0, values)]
    (finding,) = findings(played(period_s, trouble, phases, Site(gpus=4)))
    assert finding.confidence == "supported"
    begun = START_AT if trouble == "restart" else START_AT + 2400.0
    assert begun - 300.0 <= finding.onset <= begun + 1000.0


def host_memory(used, limit_gib, read_bytes_per_s=0.0):
    return {
        "job_mem_used_bytes": used,
        "job_mem_limit_bytes": limit_gib * GIB,
        "job_io_read_bytes_per_s": read_bytes_per_s,
        "job_io_write_bytes_per_s": 3e4,
    }


@FOUND_EVERYWHERE
def test_host_memory_that_grows_is_found(period_s, trouble):
    seconds = 3.0 * HOUR if trouble == "restart" else 1.6 * HOUR
    group = host_memory(growing(58.0, 15.0, 0.8), 110.0, 3e5)
    resident = {"process_rss_bytes": growing(49.0, 15.0, 0.8)}
    scene = played(period_s, trouble, [Phase(seconds, group=group, process=resident)])
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert finding.summary.startswith("host memory grows, full at about ")
    assert leak_gib_per_h(finding) == pytest.approx(15.0, rel=0.1)


@EVERYWHERE
def test_growth_of_the_page_cache_is_none_of_the_job(period_s, trouble):
    """It grows by what is read, byte by byte."""
    reads = 21.0 * GIB / HOUR
    group = host_memory(growing(47.0, 20.6), 96.0, wavy(reads, 0.8 * reads))
    resident = {"process_rss_bytes": wavy(22.0 * GIB, 0.3 * GIB)}
    seconds = 3.0 * HOUR if trouble == "restart" else 1.7 * HOUR
    for process in (resident, {}):
        assert (
            findings(played(period_s, trouble, [Phase(seconds, group=group, process=process)]))
            == []
        )


@EVERYWHERE
def test_growth_of_the_page_cache_by_a_file_server_is_not_accused(period_s, trouble):
    """Where the node is shared, whose data they are cannot be seen."""
    host = {"net_rx_bytes_per_s": wavy(14.6 * GIB / HOUR, 2e6)}
    phase = Phase(2.6 * HOUR, group=host_memory(growing(50.0, 14.3), 96.0), host=host)
    assert accusations(played(period_s, trouble, [phase])) == []


@FOR_HOURS
def test_a_cache_that_is_full_and_keeps_its_level_is_no_leak(period_s, trouble):
    def used(s):
        return (31.0 + min(1.0, s / 3700.0) * 52.0) * GIB

    group = host_memory(used, 100.0, 1.2e5)
    gpu = {**WORKING, "mem_used_bytes": lambda s: used(s) * 0.8}
    seconds = 8.0 * HOUR if trouble == "restart" else 2.2 * HOUR
    phase = Phase(seconds, gpu, group, process={"process_rss_bytes": lambda s: used(s) * 0.9})
    assert findings(played(period_s, trouble, [phase])) == []


@EVERYWHERE
@pytest.mark.parametrize("every_s", [770.0, 2050.0])
def test_memory_that_is_freed_at_each_checkpoint_is_no_leak(every_s, period_s, trouble):
    def used(s):
        return (42.0 + 29.0 * (s % every_s) / every_s) * GIB

    seconds = 4.0 * HOUR if trouble == "restart" else 2.0 * HOUR
    gpu = {**WORKING, "mem_used_bytes": used}
    assert accusations(played(period_s, trouble, [Phase(seconds, gpu)], Site(gpus=4))) == []
