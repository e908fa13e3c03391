from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, UNUSED, WORKING, Scene
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle

NEEDS = (
    "process_count",
    "compute_process_count",
    "mem_used_bytes",
    "mem_total_bytes",
    "gpu_util_ratio",
)
HELD = {**WORKING, "gpu_util_ratio": 0.0}


def scene_with_job(gpu_count=8, **given):
    scene = Scene(span_s=4 * 3600.0)
    uuids = scene.node("n", gpu_count)
    scene.job("42", uuids, **given)
    return scene, uuids


def working(uuids):
    return dict.fromkeys(uuids, WORKING)


def findings(scene, **parameters):
    return list(PartialGpusIdle(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [
        (310, "hypothesis"),
        (600, "hypothesis"),
        (610, "supported"),
        (1800, "supported"),
        (1810, "established"),
        (7200, "established"),
    ],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    scene, uuids = scene_with_job()
    scene.run(seconds, working(uuids[:5]))
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert finding.window.end - finding.window.start == seconds - 10
    assert finding.gpu_seconds == 3 * (seconds - 10)


def test_under_five_minutes_nothing_is_said():
    scene, uuids = scene_with_job()
    scene.run(300, working(uuids[:5]))
    assert findings(scene) == []


def test_the_finding_says_what_where_and_how_much():
    scene, uuids = scene_with_job()
    scene.run(1210, working(uuids[:5]))
    (finding,) = findings(scene)
    assert finding.subject == "job:42"
    assert finding.summary.startswith("3 of 8 GPUs unused since ")
    assert finding.summary.endswith("(20 min observed)")
    assert finding.gpu_seconds == 3 * 1200
    unused = [e for e in finding.evidence if e.subject.startswith("gpu:")]
    assert [e.subject for e in unused] == [f"gpu:{uuid}" for uuid in uuids[5:]]
    assert unused[0].text == (
        "n GPU 5: no process, utilisation 0 %, at most 0 MiB of 80 GiB in use, 121 samples"
    )
    (busy,) = [e for e in finding.evidence if e.field == "gpu_util_ratio"]
    assert busy.text == "working: 5 GPUs of this job, mean utilisation 90 %"
    assert busy.value == pytest.approx(0.9)
    assert "What the job may see: srun --jobid=42 --overlap nvidia-smi -L" in finding.advice
    assert "What it was given: scontrol show job -d 42" in finding.advice
    assert any("--gres=gpu:5" in line for line in finding.advice)


@pytest.mark.parametrize(
    ("used", "severity"), [(7, "warning"), (5, "warning"), (4, "critical"), (1, "critical")]
)
def test_half_of_the_gpus_unused_is_critical(used, severity):
    scene, uuids = scene_with_job()
    scene.run(700, working(uuids[:used]))
    assert findings(scene)[0].severity == severity


def test_a_whole_unused_node_is_found():
    scene = Scene()
    uuids = scene.node("a", 4) + scene.node("b", 4)
    scene.job("42", uuids)
    scene.run(700, working(uuids[:4]))
    (finding,) = findings(scene)
    assert finding.summary.startswith("4 of 8 GPUs")
    assert "Or ask for fewer GPUs or nodes: --gres, --gpus-per-node, --nodes." in finding.advice


def test_a_job_id_that_is_no_number_is_never_put_into_a_command():
    scene = Scene()
    uuids = scene.node("n", 2)
    scene.job("42;reboot", uuids)
    scene.run(700, working(uuids[:1]))
    assert not any("42" in line for line in findings(scene)[0].advice)


# Look-alikes


def test_all_gpus_at_work():
    scene, uuids = scene_with_job()
    scene.run(2000, working(uuids))
    assert findings(scene) == []


def test_no_gpu_at_work_is_another_class():
    scene, _ = scene_with_job()
    scene.run(2000, {})
    assert findings(scene) == []


def test_processes_that_hold_gpus_without_working_are_another_class():
    scene, uuids = scene_with_job()
    scene.run(2000, dict.fromkeys(uuids[:5], HELD))
    assert findings(scene) == []


@pytest.mark.parametrize(
    "other",
    [
        HELD,
        {**UNUSED, "process_count": 1.0},
        {**UNUSED, "mem_used_bytes": 2.0 * 2**30},
        {**UNUSED, "gpu_util_ratio": 0.02},
    ],
)
def test_a_gpu_with_a_process_memory_or_activity_is_not_unused(other):
    scene, uuids = scene_with_job(2)
    scene.run(2000, {uuids[0]: WORKING, uuids[1]: other})
    assert findings(scene) == []


def test_a_single_gpu_has_no_peers():
    scene, _ = scene_with_job(1)
    scene.run(2000, {})
    assert findings(scene) == []


def test_a_launch_in_stages_begins_the_window_anew():
    scene, uuids = scene_with_job(4)
    for used in (1, 2, 3):
        scene.run(400, working(uuids[:used]))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.window.start == START_AT + 800
    scene.run(400, working(uuids))
    assert findings(scene) == []


def test_a_young_job_on_a_gpu_that_was_unused_before_is_a_hypothesis():
    scene = Scene()
    uuids = scene.node("n", 4)
    scene.run(3000, {})
    scene.job("42", uuids)
    scene.run(400, working(uuids[:2]))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.window.start == START_AT + 3000


def test_a_checkpoint_pause_does_not_hide_the_unused_gpus():
    scene, uuids = scene_with_job(4)
    for _ in range(5):
        scene.run(200, working(uuids[:2]))
        scene.run(90, dict.fromkeys(uuids[:2], HELD))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_work_that_stopped_halfway_is_another_class():
    scene, uuids = scene_with_job(4)
    scene.run(700, working(uuids[:2]))
    scene.run(700, dict.fromkeys(uuids[:2], HELD))
    assert findings(scene) == []


def test_one_gpu_that_was_freed_lately_does_not_shorten_the_claim_about_the_others():
    scene, uuids = scene_with_job(4)
    scene.run(700, working(uuids[:2]))
    scene.run(60, working(uuids[:1]))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert finding.summary.startswith("2 of 4 GPUs")


# What telemetry does not show


@pytest.mark.parametrize("key", NEEDS)
def test_without_one_of_the_fields_nothing_is_claimed(key):
    scene, uuids = scene_with_job()
    lacking = {u: {**UNUSED, key: None} for u in uuids[5:]}
    scene.run(2000, {**working(uuids[:5]), **lacking})
    assert findings(scene) == []


def test_stale_gpus_are_unknown_and_not_unused():
    scene, uuids = scene_with_job(4)
    scene.run(2000, working(uuids[:2]), stale=uuids[3:])
    (finding,) = findings(scene)
    assert finding.summary.startswith("1 of 4 GPUs")
    assert "not judged: 1 GPU of this job, without telemetry now" in [
        e.text for e in finding.evidence
    ]


def test_gpus_that_no_telemetry_names_are_unknown_and_not_unused():
    scene, uuids = scene_with_job(4, gpus_unknown=4)
    scene.run(2000, working(uuids[:3]))
    (finding,) = findings(scene)
    assert finding.summary.startswith("1 of 8 GPUs")
    assert finding.gpu_seconds == 1990
    assert "not judged: 4 GPUs of this job, named by no telemetry" in [
        e.text for e in finding.evidence
    ]


def test_a_gap_in_the_telemetry_is_not_charged():
    scene, uuids = scene_with_job(4)
    scene.run(2000, working(uuids[:2]))
    scene.skip(900)
    scene.run(100, working(uuids[:2]))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    assert finding.window.end - finding.window.start == 2990
    assert finding.gpu_seconds == 2 * (1990 + 90)


def test_more_unused_gpus_than_are_listed_are_counted():
    scene = Scene()
    uuids = tuple(u for name in "abcdefghij" for u in scene.node(name, 8))
    scene.job("42", uuids)
    scene.run(700, working(uuids[:10]))
    (finding,) = findings(scene)
    assert len(finding.evidence) <= 64
    assert "unused as well: 38 GPUs" in [e.text for e in finding.evidence]
    assert finding.gpu_seconds == 70 * 690


def test_the_thresholds_are_parameters():
    scene, uuids = scene_with_job(2)
    full = {**UNUSED, "mem_used_bytes": 4.0 * 2**30}
    scene.run(700, {uuids[0]: {**WORKING, "gpu_util_ratio": 0.04}, uuids[1]: full})
    assert findings(scene) == []
    assert findings(scene, idle_mem_ratio=0.06) == []
    assert len(findings(scene, idle_mem_ratio=0.06, busy_util_ratio=0.03)) == 1


@pytest.mark.parametrize(
    ("work_s", "sm", "is_found"),
    [(1500.0, 0.08, False), (1500.0, 0.5, True), (1500.0, None, True), (0.0, 0.08, True)],
)
def test_gpus_that_wait_for_one_whose_process_is_gone_do_not_work(work_s, sm, is_found):
    """One that was never used is waited for by nobody."""
    scene, uuids = scene_with_job(3)
    if work_s:
        scene.run(work_s, working(uuids))
    spins = {**WORKING, "gpu_util_ratio": 1.0, "sm_active_ratio": sm}
    scene.run(1300.0, {**dict.fromkeys(uuids, spins), uuids[1]: UNUSED})
    assert bool(findings(scene)) is is_found


@pytest.mark.parametrize(("power_w", "is_found"), [(95.0, False), (300.0, True), (None, True)])
def test_without_counters_their_power_tells_that_they_wait(power_w, is_found):
    scene, uuids = scene_with_job(4)
    plain = {key: value for key, value in WORKING.items() if not key.endswith("_active_ratio")}
    works = {**plain, "power_w": 310.0}
    scene.run(1500.0, dict.fromkeys(uuids, works))
    spins = {**plain, "gpu_util_ratio": 1.0, "power_w": power_w}
    scene.run(1300.0, {**dict.fromkeys(uuids, spins), uuids[2]: UNUSED})
    assert bool(findings(scene)) is is_found
