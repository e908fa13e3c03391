from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, WORKING, Scene, working
from gpumon.model.xid import APPLICATION_XIDS, XIDS
from gpumon_detectors.hardware.gpu_fault import GpuFault

SOUND = {"remap_failure": 0, "remap_pending": 0, "recovery_action": 0}


def scene_with_job(gpu_count=2):
    scene = Scene()
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids)
    return scene, uuids


def findings(scene):
    return list(GpuFault().evaluate(scene.view()))


@pytest.mark.parametrize(
    ("number", "severity", "action"),
    [
        (79, "critical", "power-cycle"),
        (48, "critical", "row remapping"),
        (95, "critical", "reset the GPU"),
        (119, "critical", "reset the GPU"),
        (94, "warning", "restart the application"),
        (63, "warning", "watch whether it comes again"),
        (74, "warning", "other end of the NVLink"),
    ],
)
def test_an_xid_of_the_machine_is_told_with_its_meaning_and_action(number, severity, action):
    scene, uuids = scene_with_job()
    scene.run(100, working(uuids))
    at = scene.next_at
    scene.xid(uuids[1], number)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert (finding.finding_class, finding.subject) == ("gpu_fault", f"gpu:{uuids[1]}")
    assert (finding.severity, finding.confidence) == (severity, "established")
    assert finding.onset == at
    assert XIDS[number].meaning in finding.summary
    assert "(job 42)" in finding.summary
    assert any(action in line for line in finding.advice)
    assert any("State=DRAIN" in line for line in finding.advice) == (severity == "critical")
    assert finding.gpu_seconds is None


def test_an_event_keeps_its_time_while_it_is_told_again():
    scene, uuids = scene_with_job()
    scene.run(100, working(uuids))
    at = scene.next_at
    scene.xid(uuids[0], 79)
    scene.run(30, working(uuids))
    (finding,) = findings(scene)
    assert (finding.onset, finding.window.start, finding.window.end) == (at, at, at + 20)


@pytest.mark.parametrize("number", sorted(APPLICATION_XIDS))
def test_a_programs_own_error_is_a_hint_and_no_fault_of_the_machine(number):
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], number)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert (finding.finding_class, finding.severity) == ("program_error", "info")
    assert finding.gpu_seconds is None
    assert not any("DRAIN" in line or "--exclude" in line for line in finding.advice)


def test_both_kinds_of_errors_are_told_apart():
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], 79)
    scene.run(10, working(uuids))
    scene.xid(uuids[0], 45)
    scene.run(10, working(uuids))
    assert [f.finding_class for f in findings(scene)] == ["gpu_fault", "program_error"]


def test_an_unlisted_number_is_not_guessed_at():
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], 999)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert "not in the catalogue" in finding.summary
    assert (finding.severity, finding.confidence) == ("warning", "supported")


def test_uncorrected_errors_that_were_counted_while_watching():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=3)
    scene.run(300, working(uuids))
    assert findings(scene) == []
    at = scene.next_at
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=5)
    scene.run(100, working(uuids))
    (finding,) = findings(scene)
    assert finding.onset == at
    assert finding.severity == "critical"
    assert "2 uncorrected memory errors since" in finding.summary


def test_errors_are_news_for_an_hour():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=0)
    scene.run(100, working(uuids))
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=1)
    scene.run(3500, working(uuids))
    assert len(findings(scene)) == 1
    scene.run(200, working(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize(
    ("field", "value", "severity", "words"),
    [
        ("remap_failure", 1, "critical", "could not be replaced"),
        ("remap_pending", 1, "warning", "wait for a reset"),
        ("retired_pages_pending", 1, "warning", "wait for a restart of the driver"),
        ("recovery_action", 2, "critical", "reboot the node"),
    ],
)
def test_a_code_of_the_driver_stands_until_it_is_taken_back(field, value, severity, words):
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], **SOUND)
    scene.run(300, working(uuids))
    at = scene.next_at
    scene.gpu(uuids[0], **{field: value})
    scene.run(900, working(uuids))
    (finding,) = findings(scene)
    assert (finding.onset, finding.severity) == (at, severity)
    assert finding.confidence == "established"
    assert words in finding.summary
    scene.gpu(uuids[0], **{field: 0})
    scene.run(10, working(uuids))
    assert findings(scene) == []


def test_a_gpu_that_fell_off_the_bus_costs_the_time_since():
    scene, uuids = scene_with_job()
    scene.run(300, working(uuids))
    at = scene.next_at
    scene.fall(uuids[1])
    scene.run(610, working(uuids))
    (finding,) = findings(scene)
    assert (finding.onset, finding.severity) == (at, "critical")
    assert "n1 GPU 1 (job 42): fell off the bus at" in finding.summary
    assert finding.gpu_seconds == 600
    assert finding.gpus == (uuids[1],)


def test_a_lost_gpu_that_no_job_holds_costs_no_job_anything():
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.run(300, {})
    scene.fall(uuids[1])
    scene.run(610, {})
    assert findings(scene)[0].gpu_seconds == 0


def test_several_symptoms_are_one_finding_the_gravest_first():
    scene, uuids = scene_with_job()
    scene.run(100, working(uuids))
    at = scene.next_at
    scene.gpu(uuids[0], remap_pending=1)
    scene.run(100, working(uuids))
    scene.xid(uuids[0], 95)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert finding.severity == "critical"
    assert "Xid 95" in finding.summary
    assert finding.summary.endswith("and 1 more sign of it")
    assert finding.onset == at
    assert {evidence.field for evidence in finding.evidence} == {"xid", "remap_pending"}


def test_a_name_that_is_no_name_is_never_put_into_a_command():
    scene = Scene()
    uuids = scene.node("n;1", 1)
    scene.job("42;reboot", uuids)
    scene.xid(uuids[0], 79)
    scene.run(10, working(uuids))
    lines = findings(scene)[0].advice
    assert not any("n;1" in line or "42;" in line for line in lines)


# Look-alikes


def test_a_sound_gpu():
    scene, uuids = scene_with_job()
    for uuid in uuids:
        scene.gpu(uuid, ecc_uncorrected_volatile_count=0, ecc_corrected_volatile_count=7, **SOUND)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_rows_that_were_replaced_are_history():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], remapped_rows_uncorrectable_count=1, ecc_uncorrected_aggregate_count=2)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_counter_that_was_reset_with_the_driver_is_no_error():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=5)
    scene.run(300, working(uuids))
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=0)
    scene.run(300, working(uuids))
    assert findings(scene) == []


def test_a_changed_recovery_action_is_told_by_the_action_itself():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], **SOUND)
    scene.xid(uuids[0], None, event_type=0x8000)
    scene.run(10, working(uuids))
    assert findings(scene) == []


def test_a_silent_node_is_another_class():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], remap_failure=1)
    scene.run(100, working(uuids))
    scene.silence("n1")
    scene.run(100, working(uuids))
    assert findings(scene) == []


# Missing fields


def test_without_codes_counters_and_events_nothing_is_claimed():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], remap_failure=None, recovery_action=None, temp_c=None)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_an_event_without_a_number_is_an_uncorrected_error():
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], None, event_type=0x2)
    scene.run(10, {uuids[0]: WORKING})
    (finding,) = findings(scene)
    assert "uncorrected memory error" in finding.summary
    assert finding.window.start == START_AT
