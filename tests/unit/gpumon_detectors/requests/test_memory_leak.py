from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, WORKING, Scene
from gpumon_detectors.requests.memory_leak import MemoryLeak

GIB = 2**30


def scene_with_job(**given):
    scene = Scene(period_s=30.0, span_s=8 * 3600.0)
    uuids = scene.node("n1", 2)
    scene.job("42", uuids, **given)
    return scene, uuids


def using(uuids, used_bytes):
    return {uuid: {**WORKING, "mem_used_bytes": used_bytes} for uuid in uuids}


def findings(scene, **parameters):
    return list(MemoryLeak(**parameters).evaluate(scene.view()))


def rising(seconds):
    """From 40 GiB, 10 GiB an hour."""
    return 40 * GIB + 10 * GIB * seconds / 3600


def host(scene, used, limit=100 * GIB, moved=0.0):
    scene.cgroup(
        "42",
        job_mem_used_bytes=used,
        job_mem_limit_bytes=limit,
        job_io_read_bytes_per_s=moved,
        job_io_write_bytes_per_s=0.0,
    )


@pytest.mark.parametrize(
    ("seconds", "confidence"), [(1860, "supported"), (7000, "supported"), (7500, "established")]
)
def test_gpu_memory_that_grows_to_its_limit(seconds, confidence):
    scene, uuids = scene_with_job()
    scene.run(seconds, using(uuids, rising))
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.confidence == confidence
    # The oldest rows are means over some samples: the first one ends a little later.
    assert START_AT <= finding.onset <= START_AT + 90
    assert finding.gpu_seconds is None
    assert finding.evidence[0].subject == f"gpu:{uuids[0]}"
    assert finding.evidence[0].text.startswith("n1 GPU 0: ")
    assert finding.evidence[0].text.endswith(" GiB an hour")


def test_the_time_at_which_it_is_full():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, rising))
    (finding,) = findings(scene)
    # 60 GiB of 80 at 10 GiB an hour.
    assert "(in 120 min)" in finding.summary
    assert finding.summary.startswith("GPU memory grows")
    assert finding.summary.endswith("; 1 more of its GPUs and nodes")


def test_a_job_that_ends_before_is_told_mildly():
    scene, uuids = scene_with_job(end_at=START_AT + 3 * 3600.0)
    scene.run(7230, using(uuids, rising))
    (finding,) = findings(scene)
    assert finding.severity == "info"
    assert "after its time limit" in finding.summary


def test_host_memory_that_grows_without_io():
    scene, uuids = scene_with_job()
    host(scene, lambda s: 50 * GIB + 10 * GIB * s / 3600)
    scene.run(7500, using(uuids, 30.0 * GIB))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    assert finding.summary.startswith("host memory grows")
    assert finding.evidence[0].subject == "node:n1"
    assert finding.evidence[0].text.startswith("n1: 70.8 GiB of 100.0 GiB, ")


def test_a_leak_below_the_garbage_of_every_step():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, lambda s: rising(s) + (s % 300) / 300 * 4 * GIB))
    assert len(findings(scene)) == 1


def test_a_leak_that_begins_late_is_told_from_about_there():
    scene, uuids = scene_with_job()
    scene.run(6 * 3600, using(uuids, 40.0 * GIB))
    begun = scene.next_at
    scene.run(5430, using(uuids, rising))
    (finding,) = findings(scene)
    assert abs(finding.onset - begun) <= 60
    assert finding.confidence == "supported"


# Look-alikes


def test_memory_that_stays():
    scene, uuids = scene_with_job()
    host(scene, 80.0 * GIB)
    scene.run(7230, using(uuids, 70.0 * GIB))
    assert findings(scene) == []


def test_an_allocator_that_fills_its_cache_and_stays():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, lambda s: min(70.0, 40 + s / 20) * GIB))
    assert findings(scene) == []


def test_an_allocator_that_grows_in_jumps():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, lambda s: (40 + 15 * (s // 3000)) * GIB))
    assert findings(scene) == []


def test_a_sawtooth_whose_lowest_values_do_not_rise():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, lambda s: (40 + 30 * (s % 3500) / 3500) * GIB))
    assert findings(scene) == []


def test_a_warm_up_that_levels_off():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, lambda s: (70 - 30 * 0.5 ** (s / 900)) * GIB))
    assert findings(scene) == []


def test_the_page_cache_of_what_is_read():
    scene, uuids = scene_with_job()
    host(scene, lambda s: 50 * GIB + 10 * GIB * s / 3600, moved=20 * GIB / 3600)
    scene.run(7230, using(uuids, 30.0 * GIB))
    assert findings(scene) == []


def test_the_page_cache_of_what_comes_over_the_network():
    scene, uuids = scene_with_job()
    host(scene, lambda s: 50 * GIB + 10 * GIB * s / 3600)
    scene.host("n1", net_rx_bytes_per_s=20.0 * GIB / 3600)
    scene.run(7230, using(uuids, 30.0 * GIB))
    assert findings(scene) == []


def test_memory_that_is_far_from_full():
    scene, uuids = scene_with_job()
    scene.run(7230, using(uuids, lambda s: rising(s) - 35 * GIB))
    assert findings(scene) == []


def test_growth_that_takes_days():
    scene, uuids = scene_with_job()
    scene.run(7 * 3600, using(uuids, lambda s: (50 + s / 3600 * 0.5) * GIB))
    assert findings(scene) == []


def test_half_an_hour_is_waited_for():
    scene, uuids = scene_with_job()
    scene.run(1700, using(uuids, rising))
    assert findings(scene) == []


@pytest.mark.parametrize(
    ("grown_s", "flat_s"),
    [
        (2500.0, 400.0),
        (2500.0, 1200.0),
        (4 * 3600.0, 1700.0),
        (4 * 3600.0, 7200.0),
        (14 * 3600.0, 4000.0),
        (14 * 3600.0, 3 * 3600.0),
    ],
)
def test_memory_that_grew_and_is_flat_now(grown_s, flat_s):
    scene = Scene(period_s=60.0, span_s=20 * 3600.0)
    uuids = scene.node("n1", 2)
    scene.job("42", uuids)
    top = 30 * GIB
    host(scene, lambda s: 55 * GIB + min(1.0, s / grown_s) * top)
    scene.run(
        grown_s + flat_s,
        using(uuids, lambda s: 42 * GIB + min(1.0, s / grown_s) * top),
    )
    assert findings(scene) == []


def test_weights_that_load_for_long_are_no_leak():
    scene, uuids = scene_with_job()
    loading = {"gpu_util_ratio": 0.0, "mem_used_bytes": lambda s: 35 * GIB + s / 2500 * 35 * GIB}
    scene.run(2400, {uuid: {**WORKING, **loading} for uuid in uuids})
    assert findings(scene) == []
    scene.run(2400, using(uuids, 70.0 * GIB))
    assert findings(scene) == []


def resident(scene, uuids, used):
    scene.process(300, uuids, job_id="42", name="python3", process_rss_bytes=used)


@pytest.mark.parametrize(("hours", "confidence"), [(0.6, "hypothesis"), (1.4, "hypothesis")])
def test_a_leak_of_the_host_is_found_though_the_job_reads_more(hours, confidence):
    scene, uuids = scene_with_job()
    reads = 25e6
    host(scene, lambda s: min(96 * GIB, 45 * GIB + reads * s), limit=96 * GIB, moved=reads)
    resident(scene, uuids, lambda s: 30 * GIB + 14 * GIB * s / 3600)
    scene.run(hours * 3600, using(uuids, 20.0 * GIB))
    (finding,) = findings(scene)
    assert finding.summary.startswith("host memory grows")
    assert finding.evidence[0].field == "process_rss_bytes"
    assert finding.confidence == confidence
    assert "data may be held in memory" in finding.evidence[0].text


@pytest.mark.parametrize(("hours", "confidence"), [(1.4, "hypothesis"), (3.2, "supported")])
def test_what_has_grown_for_two_hours_is_no_data_set_that_is_kept(hours, confidence):
    """Of processes no past is that long; the control group's tells that it goes on for longer."""
    scene, uuids = scene_with_job()
    host(scene, lambda s: 51 * GIB + 9 * GIB * s / 3600, moved=25e6)
    resident(scene, uuids, lambda s: 33 * GIB + 9 * GIB * s / 3600)
    scene.run(hours * 3600, using(uuids, 20.0 * GIB))
    (finding,) = findings(scene)
    assert finding.evidence[0].field == "process_rss_bytes"
    assert finding.confidence == confidence


def test_a_leak_of_the_host_beside_little_io_is_supported():
    scene, uuids = scene_with_job()
    host(scene, lambda s: 60 * GIB + 14 * GIB * s / 3600, moved=0.2e6)
    resident(scene, uuids, lambda s: 52 * GIB + 13 * GIB * s / 3600)
    scene.run(3000, using(uuids, 20.0 * GIB))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_processes_that_stay_while_the_page_cache_fills():
    scene, uuids = scene_with_job()
    host(scene, lambda s: 50 * GIB + 12 * GIB * s / 3600, moved=13 * GIB / 3600)
    resident(scene, uuids, 30.0 * GIB)
    scene.run(5000, using(uuids, 20.0 * GIB))
    assert findings(scene) == []


def test_what_a_neighbour_moves_excuses_nothing_and_keeps_it_a_hypothesis():
    scene, uuids = scene_with_job()
    scene.job("43", scene.node("n2", 1))
    neighbour = Scene(period_s=30.0, span_s=8 * 3600.0)
    own = neighbour.node("n1", 4)
    neighbour.job("42", own[:2])
    neighbour.job("77", own[2:])
    for each in (scene, neighbour):
        host(each, lambda s: 55 * GIB + 11 * GIB * s / 3600)
        each.host("n1", net_rx_bytes_per_s=120e6)
    scene.run(7500, using(uuids, 20.0 * GIB))
    neighbour.run(7500, using(own, 20.0 * GIB))
    assert findings(scene) == []
    (finding,) = findings(neighbour)
    assert finding.subject == "job:42"
    assert finding.confidence == "hypothesis"
    assert "others use too" in finding.evidence[0].text


# Missing fields


@pytest.mark.parametrize("key", MemoryLeak.needs)
def test_without_a_needed_field_nothing_is_claimed(key):
    scene, uuids = scene_with_job()
    scene.run(7230, {u: {**WORKING, "mem_used_bytes": rising, key: None} for u in uuids})
    assert findings(scene) == []


@pytest.mark.parametrize("key", ["job_mem_used_bytes", "job_mem_limit_bytes"])
def test_without_the_control_group_nothing_is_said_of_the_host(key):
    scene, uuids = scene_with_job()
    host(scene, lambda s: 50 * GIB + 10 * GIB * s / 3600)
    scene.cgroup("42", **{key: None})
    scene.run(7230, using(uuids, 30.0 * GIB))
    assert findings(scene) == []
