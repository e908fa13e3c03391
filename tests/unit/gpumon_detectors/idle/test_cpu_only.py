from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING, Scene
from gpumon_detectors.idle.cpu_only import CpuOnly
from gpumon_detectors.idle.idle_held import IdleHeld
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, unused

HOUR = 3600.0
CONTEXT = {**UNUSED, "process_count": 1.0, "mem_used_bytes": 0.5 * 2**30}


def findings(scene, **parameters):
    return list(CpuOnly(**parameters).evaluate(scene.view()))


def busy_scene(cores=12.0, **fields):
    scene, uuids = job_scene(**fields)
    scene.cgroup("42", job_cpu_cores_used=cores)
    return scene, uuids


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(900, "hypothesis"), (3660, "supported"), (7200, "supported"), (7800, "established")],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    scene, _ = busy_scene()
    unused(scene, seconds)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert 0 <= finding.window.start - START_AT <= 300


def test_the_finding_says_what_it_rests_on_and_what_it_costs():
    scene, uuids = busy_scene()
    scene.run(4000, all_of(uuids, CONTEXT))
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == ("job:42", "critical")
    assert finding.summary == "computes on 12.0 CPUs and has not used its 2 GPUs (66 min observed)"
    assert finding.gpu_seconds == 2 * (finding.window.end - finding.window.start)
    assert [e.text for e in finding.evidence] == [
        "2 GPUs: utilisation 0 %, at most 0.5 GiB of memory in use on one, 133 samples",
        "the job used 12.00 of 32 CPUs over 66 min",
    ]


def test_a_serial_program_is_busy_and_a_sleeping_one_is_not():
    scene, _ = busy_scene(cores=1.0)
    unused(scene, 4000)
    assert len(findings(scene)) == 1
    scene, _ = busy_scene(cores=0.4)
    unused(scene, 4000)
    assert findings(scene) == []
    assert len(findings(scene, busy_cores=0.3)) == 1


# Look-alikes


def test_a_hypothesis_is_a_warning_and_needs_five_minutes():
    scene, _ = busy_scene()
    unused(scene, 290)
    assert findings(scene) == []
    unused(scene, 60)
    (finding,) = findings(scene)
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")


def test_what_the_gpus_did_before_gpumon_came_is_not_known():
    scene, _ = busy_scene(start_at=START_AT - 4 * HOUR)
    unused(scene, 1.5 * HOUR)
    assert findings(scene)[0].confidence == "hypothesis"
    unused(scene, HOUR)
    assert findings(scene)[0].confidence == "supported"


@pytest.mark.parametrize(
    ("cores_before", "confidence"), [(11.0, "supported"), (6.0, "hypothesis"), (19.0, "hypothesis")]
)
def test_who_kept_as_many_cpus_busy_before_did_the_same(cores_before, confidence):
    scene, _ = busy_scene(start_at=START_AT - 4 * HOUR)
    scene.cgroup("42", job_cpu_us=round(cores_before * 4 * HOUR * 1e6))
    unused(scene, 1.2 * HOUR)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert "in the 4.0 h before it was watched it used" in finding.evidence[-1].text


@pytest.mark.parametrize(
    ("cores", "read", "confidence"),
    [(7.0, 4e7, "hypothesis"), (7.0, 0.0, "supported"), (20.0, 4e7, "supported")],
)
def test_what_is_brought_in_beside_few_busy_cpus_may_be_a_start_of_up_to_two_hours(
    cores, read, confidence
):
    scene, _ = busy_scene(cores=cores)
    scene.cgroup("42", job_io_read_bytes_per_s=read)
    unused(scene, 1.6 * HOUR)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    doubt = "may be a long start: 40.0 MB/s read or written beside few busy CPUs"
    assert (finding.evidence[-1].text == doubt) is (confidence == "hypothesis")
    unused(scene, HOUR)
    assert findings(scene)[0].confidence != "hypothesis"


def test_gpus_that_were_loaded_before_gpumon_came_were_used():
    # Nothing is loaded into a GPU that is not to be used: a loop that polls holds it.
    scene, uuids = busy_scene(cores=1.0, start_at=START_AT - 4 * HOUR)
    scene.run(5 * HOUR, all_of(uuids, HELD))
    assert findings(scene) == []
    (held,) = IdleHeld().evaluate(scene.view())
    assert held.confidence != "hypothesis"


def test_gpus_that_were_loaded_while_gpumon_watched_may_be_held_for_nothing():
    scene, uuids = busy_scene(cores=12.0, start_at=START_AT - HOUR)
    unused(scene, 300)
    scene.run(5 * HOUR, all_of(uuids, HELD))
    assert len(findings(scene)) == 1
    assert list(IdleHeld().evaluate(scene.view())) == []


def test_preprocessing_before_the_gpus_are_used_is_a_hypothesis_that_ends_with_the_first_kernel():
    scene, uuids = busy_scene()
    unused(scene, 3000)
    assert findings(scene)[0].confidence == "hypothesis"
    scene.run(600, all_of(uuids, WORKING))
    assert findings(scene) == []
    unused(scene, 2 * HOUR)
    assert findings(scene) == []


def test_preprocessing_that_has_ended_is_no_work_any_more():
    scene, _ = busy_scene()
    unused(scene, 2 * HOUR)
    scene.cgroup("42", job_cpu_cores_used=0.01)
    unused(scene, 600)
    assert findings(scene) == []


def test_a_job_that_does_nothing_is_another_class():
    scene, _ = job_scene()
    unused(scene, 2 * HOUR)
    assert findings(scene) == []


def test_a_server_that_polls_for_requests_is_not_claimed_for_sure():
    scene, uuids = busy_scene(cores=1.0)
    scene.process(7, uuids, job_id="42", name="vllm")
    scene.run(5 * HOUR, all_of(uuids, HELD))
    finding = findings(scene)[0]
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text == "may be a server: named vllm"
    scene, uuids = busy_scene(cores=1.0)
    scene.run(3 * HOUR, all_of(uuids, HELD))
    finding = findings(scene)[0]
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text.startswith("watched for 3.0 h of the 4.0 h after which")
    scene.run(1.5 * HOUR, all_of(uuids, HELD))
    finding = findings(scene)[0]
    assert finding.confidence != "hypothesis"
    assert "server" not in finding.evidence[-1].text


def test_somebody_who_compiles_in_a_session_is_another_class():
    scene, _ = busy_scene(is_interactive=True)
    unused(scene, 2 * HOUR)
    assert findings(scene) == []


# What telemetry does not show


@pytest.mark.parametrize("key", CpuOnly.needs[:-1])
def test_without_one_of_the_fields_nothing_is_claimed(key):
    scene, uuids = busy_scene()
    scene.run(2 * HOUR, {uuids[0]: {**UNUSED, key: None}})
    assert findings(scene) == []


def test_a_busy_node_does_not_stand_in_for_the_jobs_own_cpu_time():
    scene = Scene(period_s=30.0)
    scene.job("42", scene.node("n", 2), cpu_count=32)
    scene.host("n", cpu_busy_ratio=0.9, cpu_count=64.0)
    unused(scene, 2 * HOUR)
    assert findings(scene) == []


def test_stale_gpus_are_not_unused():
    scene, uuids = busy_scene()
    scene.run(2 * HOUR, {}, stale=uuids[1:])
    assert findings(scene) == []
