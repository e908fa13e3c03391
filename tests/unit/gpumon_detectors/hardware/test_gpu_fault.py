from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, WORKING, Scene, working
from gpumon.model.gpu.xid import XIDS
from gpumon_detectors.hardware.gpu_fault import GpuFault
from tests.worlds.advice import sends_away

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
        (156, "critical", "reset the GPU"),
        (121, "info", "contact support if it repeats"),
        (92, "info", "contact support if it repeats"),
        (157, "info", "contact support if it repeats"),
        (44, "info", "contact support if it repeats"),
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
    steps = finding.advice if "application" in action else finding.machine_advice
    assert any(action in line for line in steps)
    assert sends_away(finding) == (severity == "critical")
    assert finding.gpu_seconds is None


def test_an_event_keeps_its_time_while_it_is_told_again():
    scene, uuids = scene_with_job()
    scene.run(100, working(uuids))
    at = scene.next_at
    scene.xid(uuids[0], 79)
    scene.run(30, working(uuids))
    (finding,) = findings(scene)
    assert (finding.onset, finding.window.start, finding.window.end) == (at, at, at + 20)


@pytest.mark.parametrize("number", [one.number for one in XIDS.values() if one.is_application])
def test_a_programs_own_error_is_a_hint_and_no_fault_of_the_machine(number):
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], number)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert (finding.finding_class, finding.severity) == ("program_error", "info")
    assert finding.gpu_seconds is None
    assert not sends_away(finding)


@pytest.mark.parametrize("number", [63, 106, 107])
def test_an_event_of_which_nothing_is_to_be_made_is_no_finding(number):
    scene, uuids = scene_with_job()
    scene.xid(uuids[1], number)
    scene.run(20, working(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize("number", [8, 40, 71, 84, 99, 131])
def test_an_engine_that_stopped_a_program_does_not_accuse_the_gpu(number):
    scene, uuids = scene_with_job()
    scene.xid(uuids[1], number)
    scene.run(20, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "hypothesis")
    assert any("restart the application" in line for line in finding.advice)
    assert not sends_away(finding)


@pytest.mark.parametrize("number", [14, 61, 108, 162, 167, 172])
def test_what_the_catalogue_leaves_empty_or_calls_unused_is_unknown(number):
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], number)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "hypothesis")
    assert "not in the catalogue" in finding.summary


def test_a_mild_remark_does_not_make_an_open_question_sure():
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], 92)
    scene.xid(uuids[0], 70)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "hypothesis")
    assert finding.summary.endswith("and 1 more sign of it")


def test_advice_of_a_context_switch_timeout_does_not_contradict_itself():
    scene, uuids = scene_with_job()
    scene.xid(uuids[0], 109)
    scene.run(10, working(uuids))
    lines = " ".join(findings(scene)[0].machine_advice)
    assert "reset the GPU once it is free" in lines
    assert "sound" not in lines
    assert "drain" not in lines.lower()


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
    assert (finding.severity, finding.confidence) == ("warning", "hypothesis")


def test_uncorrected_errors_that_were_counted_while_watching():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=3)
    scene.run(300, working(uuids))
    at = scene.next_at
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=5)
    scene.run(100, working(uuids))
    (finding,) = findings(scene)
    assert finding.onset == at
    assert finding.severity == "critical"
    assert "2 uncorrected memory errors since" in finding.summary


@pytest.mark.parametrize("count", [1, 4])
def test_uncorrected_errors_from_before_are_told_as_long_as_the_driver_holds_them(count):
    """As the column HEALTH tells them: ‼, and no less grave for having come before gpumon."""
    scene, uuids = scene_with_job()
    scene.gpu(uuids[1], ecc_uncorrected_volatile_count=count)
    scene.run(10, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.subject) == ("critical", f"gpu:{uuids[1]}")
    words = f"{count} uncorrected ECC error{'s' if count > 1 else ''} since the driver was loaded"
    assert words in finding.summary
    assert finding.gpu_seconds is None
    scene.run(3 * 3600, working(uuids))
    assert words in findings(scene)[0].summary
    scene.gpu(uuids[1], ecc_uncorrected_volatile_count=0)
    scene.run(10, working(uuids))
    assert findings(scene) == []


def test_errors_are_news_for_an_hour_and_stand_until_the_driver_is_loaded_anew():
    scene, uuids = scene_with_job()
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=0)
    scene.run(100, working(uuids))
    scene.gpu(uuids[0], ecc_uncorrected_volatile_count=1)
    scene.run(3500, working(uuids))
    assert "1 uncorrected memory error " in findings(scene)[0].summary
    scene.run(200, working(uuids))
    assert "1 uncorrected ECC error since the driver was loaded" in findings(scene)[0].summary


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


SPINNING = {**WORKING, "gpu_util_ratio": 1.0, "sm_active_ratio": 0.12, "power_w": 205.0}
BARE = {"sm_active_ratio": None}


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WORKING, {**WORKING, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0, "power_w": 115.0}),
        (WORKING, SPINNING),
        ({**WORKING, **BARE}, {**SPINNING, **BARE}),
        (
            {**WORKING, "tensor_active_ratio": 0.35},
            {**SPINNING, "tensor_active_ratio": 0.0, "power_w": 350.0},
        ),
    ],
    ids=["unused", "spinning", "spinning without counters", "tensor cores at rest"],
)
def test_a_job_that_stands_still_without_its_lost_gpu_is_charged_as_a_whole(
    before, after, period_s
):
    scene = Scene(period_s=period_s)
    uuids = (*scene.node("n1", 3), *scene.node("n2", 3))
    scene.job("88", uuids)
    scene.run(600, dict.fromkeys(uuids, before))
    scene.fall(uuids[4])
    scene.run(900, dict.fromkeys(uuids, after))
    (finding,) = findings(scene)
    assert finding.subject == f"gpu:{uuids[4]}"
    assert set(finding.gpus) == set(uuids)
    length = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(6 * length)
    assert "5 GPUs of the job are stalled without it" in finding.summary


def faulty(broken, others):
    """Six GPUs at work, of which the driver calls one broken, and what they show then."""
    scene = Scene(period_s=10.0)
    uuids = (*scene.node("n1", 3), *scene.node("n2", 3))
    scene.job("88", uuids)
    scene.run(600, working(uuids))
    given = dict.fromkeys(uuids, others) | {uuids[2]: {**broken, "remap_failure": 1.0}}
    scene.run(1200, given)
    (finding,) = findings(scene)
    return finding, uuids


def test_a_job_that_stands_still_since_another_fault_is_charged_as_a_whole():
    finding, uuids = faulty({**SPINNING, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0}, SPINNING)
    assert set(finding.gpus) == set(uuids)
    assert finding.gpu_seconds == pytest.approx(
        6 * (finding.window.end - finding.window.start), rel=0.01
    )


def test_of_a_broken_gpu_that_works_on_nobody_knows_the_cost():
    finding, uuids = faulty(WORKING, WORKING)
    assert finding.gpu_seconds is None
    finding, uuids = faulty(WORKING, SPINNING)
    assert finding.gpu_seconds is None
    assert finding.gpus == (uuids[2],)


def test_where_the_others_go_on_working_the_lost_gpu_alone_is_charged():
    scene, uuids = scene_with_job(6)
    scene.run(600, working(uuids))
    scene.fall(uuids[0])
    scene.run(910, working(uuids))
    (finding,) = findings(scene)
    assert (finding.gpus, finding.gpu_seconds) == ((uuids[0],), 900)


def test_gpus_that_stood_still_before_are_no_loss_of_the_lost_one():
    scene, uuids = scene_with_job(3)
    idle = {**WORKING, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0}
    values = {**working(uuids), uuids[2]: idle}
    scene.run(600, values)
    scene.fall(uuids[0])
    scene.run(910, {uuids[1]: SPINNING, uuids[2]: idle})
    (finding,) = findings(scene)
    assert finding.gpus == (uuids[0], uuids[1])


def test_of_two_lost_gpus_the_first_one_stopped_the_job():
    scene, uuids = scene_with_job(4)
    scene.run(600, working(uuids))
    scene.fall(uuids[3])
    scene.run(300, dict.fromkeys(uuids, SPINNING))
    scene.fall(uuids[1])
    scene.run(610, dict.fromkeys(uuids, SPINNING))
    second, first = findings(scene)
    assert second.gpus == (uuids[1],)
    assert set(first.gpus) == {uuids[0], uuids[2], uuids[3]}


def test_a_gpu_that_was_lost_hours_ago_is_charged_since_then():
    scene = Scene(period_s=60.0, span_s=86400.0)
    uuids = scene.node("n1", 2)
    scene.job("42", uuids)
    scene.run(600, working(uuids))
    at = scene.next_at
    scene.fall(uuids[0])
    scene.run(3 * 3600, working(uuids))
    (finding,) = findings(scene)
    assert at <= finding.onset <= at + 600
    assert finding.gpu_seconds == finding.window.end - finding.window.start


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
    (finding,) = findings(scene)
    lines = (*finding.advice, *finding.machine_advice)
    assert not any("n;1" in line or "42;" in line for line in lines)


@pytest.mark.parametrize(("code", "words"), [(999, "unknown error"), (16, "reset required")])
def test_a_gpu_that_the_driver_does_not_open_is_broken(code, words):
    scene, uuids = scene_with_job(3)
    scene.gpu(uuids[0], open_error=0)
    scene.gpu(uuids[2], open_error=code)
    scene.run(200, working(uuids[:2]))
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == (f"gpu:{uuids[2]}", "critical")
    assert finding.summary.endswith(f"the driver does not open it: {words}")
    assert finding.onset == START_AT


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


@pytest.mark.parametrize("has_queue", [True, False])
def test_commands_of_slurm_are_advised_only_where_slurm_is(has_queue):
    scene = Scene()
    uuids = scene.node("n1", 2)
    if has_queue:
        scene.job("42", uuids[1:])
    scene.unlist("n1")
    scene.xid(uuids[0], 79)
    scene.run(30, working(uuids))
    (finding,) = findings(scene)
    told = " ".join((*finding.advice, *finding.machine_advice))
    assert any(word in told for word in ("sbatch", "scontrol")) is has_queue
    assert ("Report this to the administrators of n1." in told) is has_queue
