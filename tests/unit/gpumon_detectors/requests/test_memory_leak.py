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
    assert finding.summary.endswith("; 1 more")


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
