from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from gpumon_detectors.idle.idle_tail import IdleTail
from gpumon_detectors.idle.never_started import NeverStarted
from tests.unit.gpumon_detectors.idle_scenes import (
    QUIET_GROUP,
    QUIET_HOST,
    all_of,
    job_scene,
    unused,
    work,
)


def findings(scene):
    return list(IdleTail().evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(600, "hypothesis"), (1020, "supported"), (3600, "supported"), (3780, "established")],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    unused(scene, seconds)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    # The CPUs' last slice of two minutes may hold some of the work.
    assert 0 <= finding.window.start - (START_AT + 1800) <= 120


def test_the_finding_says_what_it_rests_on_and_what_it_costs():
    scene, uuids = job_scene(4)
    work(scene, uuids, 1800)
    unused(scene, 1800)
    (finding,) = findings(scene)
    length_s = finding.window.end - finding.window.start
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.summary.startswith("4 GPUs done and not given back since ")
    assert finding.gpu_seconds == 4 * length_s
    assert finding.evidence[0].text.startswith("4 GPUs, used before: no process, utilisation 0 %")
    assert finding.evidence[1].text.startswith("the job used 0.01 of 64 CPUs over ")


# Look-alikes


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("host", {"net_tx_bytes_per_s": 2e8}),
        ("host", {"disk_write_bytes_per_s": 2e8}),
        ("cgroup", {"job_io_write_bytes_per_s": 2e8}),
        ("cgroup", {"job_cpu_cores_used": 3.0}),
    ],
)
def test_a_last_upload_or_evaluation_is_named_and_never_more_than_a_hypothesis(block, values):
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.cgroup("42", **values) if block == "cgroup" else scene.host("n", **values)
    if "job_cpu_cores_used" in values:
        scene.cgroup("42", job_cpu_cores_used=13.0)
    unused(scene, 840)
    assert findings(scene) == []
    unused(scene, 2.5 * 3600)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert ", but 13.0 of 32 CPUs busy" in finding.summary or ", but 200.0 MB/s" in finding.summary


def test_the_window_begins_when_the_upload_ends():
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.host("n", net_tx_bytes_per_s=2e8)
    unused(scene, 1800)
    scene.host("n", net_tx_bytes_per_s=2e4)
    unused(scene, 780)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert 0 <= finding.window.start - (START_AT + 3600) <= 120


def test_a_pause_between_two_programs_is_shorter_than_the_window():
    scene, uuids = job_scene()
    for _ in range(4):
        work(scene, uuids, 900)
        unused(scene, 300)
    assert [f.confidence for f in findings(scene)] in ([], ["hypothesis"])
    work(scene, uuids, 60)
    assert findings(scene) == []


def test_memory_that_is_still_held_is_another_class():
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.run(3600, all_of(uuids, HELD))
    assert findings(scene) == []


def test_a_job_that_never_used_its_gpus_is_another_class():
    scene, _ = job_scene()
    unused(scene, 3600)
    assert findings(scene) == []


def test_the_cpu_time_since_its_begin_tells_of_work_that_nobody_watched():
    scene, _ = job_scene(start_at=START_AT - 5 * 3600)
    scene.cgroup("42", job_cpu_us=31_000_000_000)
    unused(scene, 3600)
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert finding.gpu_seconds == 2 * 3570
    assert "2 GPUs done and not given back for at least 60 min" in finding.summary
    assert finding.evidence[0].text.startswith("2 GPUs: no process, utilisation 0 %")
    assert finding.evidence[-1].text == (
        "in the 5.0 h before it was watched it used 8.6 h of CPU time"
    )


@pytest.mark.parametrize("cpu_us", [180_000_000, 900_000_000])
def test_too_little_cpu_time_before_is_no_work_on_two_gpus(cpu_us):
    scene, _ = job_scene(start_at=START_AT - 5 * 3600)
    scene.cgroup("42", job_cpu_us=cpu_us)
    unused(scene, 3600)
    assert findings(scene) == []


def test_of_a_job_on_two_nodes_both_must_tell_their_cpu_time():
    scene, uuids = job_scene(1, start_at=START_AT - 5 * 3600)
    more = scene.node("m", 1)
    scene.job("42", (*uuids, *more), start_at=START_AT - 5 * 3600, cpu_count=32)
    scene.host("m", **QUIET_HOST)
    scene.cgroup("42", **QUIET_GROUP)
    scene.cgroup("42", node="n", job_cpu_us=31_000_000_000)
    unused(scene, 1800)
    assert findings(scene) == []
    scene.cgroup("42", node="m", job_cpu_us=30_000_000_000)
    unused(scene, 1800)
    assert len(findings(scene)) == 1


def test_what_the_job_before_used_is_not_this_jobs():
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.end("42")
    scene.job("43", uuids, cpu_count=32)
    scene.cgroup("43", job_cpu_cores_used=0.01)
    unused(scene, 3600)
    assert findings(scene) == []


@pytest.mark.parametrize("seconds", [3600, 3 * 3600])
def test_the_sample_with_which_a_job_took_its_gpus_may_tell_of_the_job_before(seconds):
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.end("42")
    scene.job("43", uuids, cpu_count=32)
    scene.cgroup("43", job_cpu_cores_used=0.01)
    scene.run(30, all_of(uuids, WORKING))
    unused(scene, seconds)
    assert findings(scene) == []
    (untouched,) = NeverStarted().evaluate(scene.view())
    assert untouched.confidence != "hypothesis"


def test_some_gpus_left_while_others_work_are_another_class():
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.run(3600, all_of(uuids[:1], WORKING))
    assert findings(scene) == []


def test_a_server_that_unloads_its_model_between_requests():
    scene, uuids = job_scene()
    for _ in range(6):
        work(scene, uuids, 120)
        unused(scene, 900)
    unused(scene, 3600)
    assert findings(scene) == []


def test_an_interactive_session_is_another_class():
    scene, uuids = job_scene(is_interactive=True)
    work(scene, uuids, 1800)
    unused(scene, 3600)
    assert findings(scene) == []


def test_a_name_makes_the_claim_less_sure_and_does_not_take_it_away():
    scene, uuids = job_scene(name="eval_api_v7")
    work(scene, uuids, 1800)
    unused(scene, 9 * 3600)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text == "may be a server: named eval_api_v7"


# What telemetry does not show


@pytest.mark.parametrize("key", IdleTail.needs)
def test_without_one_of_the_fields_nothing_is_claimed(key):
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.run(3600, {uuids[0]: {**UNUSED, key: None}})
    assert findings(scene) == []


def test_stale_gpus_are_not_idle():
    scene, uuids = job_scene()
    work(scene, uuids, 1800)
    scene.run(3600, {}, stale=uuids[1:])
    assert findings(scene) == []


def test_without_any_sight_of_the_cpus_it_stays_a_hypothesis():
    scene, uuids = job_scene()
    scene.cgroup("42", job_cpu_cores_used=None)
    scene.host("n", cpu_busy_ratio=None)
    scene.run(1800, all_of(uuids, WORKING))
    unused(scene, 5400)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
