from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, Scene, held, working
from gpumon_detectors.idle.slow_startup import SlowStartup


def scene_with_job(cores=4.0, **given):
    scene = Scene(span_s=4 * 3600.0)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids, **{"cpu_count": 32, **given})
    if cores is not None:
        scene.cgroup(
            "42",
            job_cpu_cores_used=cores,
            job_io_read_bytes_per_s=0.0,
            job_io_write_bytes_per_s=0.0,
        )
    return scene, uuids


def findings(scene, **parameters):
    return list(SlowStartup(**parameters).evaluate(scene.view()))


def test_a_start_that_took_a_quarter_of_an_hour():
    scene, uuids = scene_with_job()
    scene.run(900, held(uuids))
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.confidence == "established"
    assert (finding.onset, finding.window.end) == (START_AT, START_AT + 890)
    assert finding.gpu_seconds == 4 * 890
    assert finding.summary == (
        "slow start: the first GPU worked after 15 min, 75 % of the run; 4 GPUs waited"
    )
    assert finding.evidence[1].text == "meanwhile 4.0 of 32 CPUs busy, 0.0 MB/s read or written"


def test_a_start_that_still_goes_on_is_not_established():
    scene, uuids = scene_with_job()
    scene.run(1800, held(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert finding.summary.startswith("slow start: no GPU has worked in the 30 min since")


def test_a_tenth_of_the_time_limit_is_much_of_a_short_run():
    scene, uuids = scene_with_job(time_limit_s=1800.0)
    scene.run(240, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_reading_without_cpu_is_work_too():
    scene, uuids = scene_with_job(cores=0.01)
    scene.cgroup("42", job_io_read_bytes_per_s=200e6)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.evidence[1].text.endswith("200.0 MB/s read or written")


def test_loading_over_the_network_is_seen_where_the_job_is_alone():
    scene, uuids = scene_with_job(cores=0.01)
    scene.host("n1", net_rx_bytes_per_s=500e6)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    assert len(findings(scene)) == 1
    scene.job("43", scene.node("n2", 1), nodes=("n1", "n2"))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_a_flicker_of_use_does_not_end_the_start():
    scene, uuids = scene_with_job()
    scene.run(300, held(uuids))
    scene.run(10, working(uuids))
    scene.run(600, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.window.end == START_AT + 900


# Look-alikes


def test_a_start_within_ten_minutes():
    scene, uuids = scene_with_job()
    scene.run(500, held(uuids))
    scene.run(100, working(uuids))
    assert findings(scene) == []


def test_a_run_that_outweighs_its_start():
    scene, uuids = scene_with_job()
    scene.run(700, held(uuids))
    scene.run(6000, working(uuids))
    assert len(findings(scene)) == 1
    scene.run(500, working(uuids))
    assert findings(scene) == []


def test_a_job_that_rests_from_its_start_is_another_class():
    scene, uuids = scene_with_job(cores=0.0)
    scene.run(1800, held(uuids))
    assert findings(scene) == []


def test_an_idle_phase_later_is_another_class():
    scene, uuids = scene_with_job()
    scene.run(60, working(uuids))
    scene.run(1800, held(uuids))
    assert findings(scene) == []


def test_one_gpu_at_work_is_a_start_that_is_over():
    scene, uuids = scene_with_job()
    scene.run(1800, {**held(uuids), **working(uuids[:1])})
    assert findings(scene) == []


@pytest.mark.parametrize("given", [{"is_interactive": True}, {"name": "jupyter"}])
def test_somebody_types_first(given):
    scene, uuids = scene_with_job(**given)
    scene.run(1800, held(uuids))
    assert findings(scene) == []


def test_a_server_that_waits_for_its_first_request():
    scene, uuids = scene_with_job(name="vllm")
    scene.run(1800, held(uuids))
    assert findings(scene) == []


def test_a_start_that_nobody_saw():
    scene, uuids = scene_with_job(start_at=START_AT - 3600.0)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_a_start_behind_a_gap():
    scene, uuids = scene_with_job()
    scene.run(300, held(uuids))
    scene.skip(600)
    scene.run(600, held(uuids))
    assert findings(scene) == []


# Missing fields


def test_without_utilisation_nothing_is_claimed():
    scene, uuids = scene_with_job()
    scene.run(900, held(uuids, gpu_util_ratio=None))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_without_the_control_group_nothing_is_claimed():
    scene, uuids = scene_with_job(cores=None)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_a_job_of_which_gpus_are_not_named():
    scene, uuids = scene_with_job(gpus_unknown=2)
    scene.run(1800, held(uuids))
    assert findings(scene) == []
