"""Boards of a machine that no queue lists: heat is their own fault, under any program."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, UNUSED, WORKING, Scene
from gpumon_detectors.hardware.throttled import Throttled

FULL = {
    **WORKING,
    "clock_event_reasons": 0x4,
    "sm_clock_mhz": 1900.0,
    "power_w": 440.0,
    "power_limit_w": 450.0,
}
HOT = {**FULL, "clock_event_reasons": 0x44, "sm_clock_mhz": 1330.0, "power_w": 300.0}


def workstation(gpu_count=1, period_s=10.0):
    scene = Scene(period_s)
    uuids = scene.node("desk", gpu_count, "NVIDIA GeForce RTX 4090")
    scene.unlist("desk")
    return scene, uuids


def found(scene, **parameters):
    return list(Throttled(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(("bit", "word"), [(0x48, "hardware"), (0x20, "thermal"), (0x80, "brake")])
def test_a_board_that_heat_or_power_holds_down_is_named_with_what_it_costs(bit, word):
    scene, (uuid,) = workstation()
    scene.process(311, [uuid], uid=1007, name="python")
    scene.run(900, {uuid: FULL})
    bad_at = scene.next_at
    scene.run(1210, {uuid: {**HOT, "clock_event_reasons": bit}})
    (finding,) = found(scene)
    assert (finding.subject, finding.onset) == (f"gpu:{uuid}", bad_at)
    assert finding.confidence == "supported"
    assert finding.gpu_seconds == pytest.approx(1200 * 0.3)
    assert finding.owners == (1007,)
    assert "30 % of the clock lost" in finding.summary
    assert word in finding.summary
    assert "job" not in finding.summary
    assert any("nvidia-smi" in step for step in finding.advice)
    assert finding.machine_advice


def test_who_computes_may_be_hidden_as_in_a_container():
    scene, (uuid,) = workstation()
    scene.run(900, {uuid: FULL})
    scene.run(700, {uuid: HOT})
    (finding,) = found(scene)
    assert finding.owners == ()


def test_another_program_on_a_hot_board_makes_no_other_episode():
    scene, (uuid,) = workstation()
    scene.process(311, [uuid], uid=1007, name="python")
    scene.run(900, {uuid: HOT})
    scene.no_process(311, "desk")
    scene.process(312, [uuid], uid=1007, name="python")
    scene.run(300, {uuid: HOT})
    (finding,) = found(scene)
    assert finding.onset == START_AT


@pytest.mark.parametrize(
    "values",
    [
        FULL,
        {**HOT, "clock_event_reasons": 0x4},
        {**UNUSED, "clock_event_reasons": 0x41, "sm_clock_mhz": 210.0},
    ],
    ids=["at its limit", "capped", "at rest"],
)
def test_a_board_that_works_as_it_should_or_rests_is_not_named(values):
    scene, (uuid,) = workstation()
    scene.run(1500, {uuid: values})
    assert found(scene) == []


def test_it_is_compared_with_itself_in_between_and_never_with_a_job():
    scene, (uuid,) = workstation()
    bits = lambda s: 0x44 if s % 40 >= 10 else 0x4  # noqa: E731
    clock = lambda s: 1000.0 if s % 40 >= 10 else 2000.0  # noqa: E731
    scene.run(1500, {uuid: {**HOT, "clock_event_reasons": bits, "sm_clock_mhz": clock}})
    (finding,) = found(scene)
    texts = [evidence.text for evidence in finding.evidence]
    assert any("itself in between 2000 MHz" in text for text in texts)
    assert not any("job" in text for text in texts)


def test_the_board_of_a_node_with_a_queue_that_no_job_holds_is_not_judged():
    scene = Scene()
    (uuid,) = scene.node("n1", 1)
    scene.run(1500, {uuid: HOT})
    assert found(scene) == []


def test_a_silent_machine_is_not_judged():
    scene, (uuid,) = workstation()
    scene.run(1500, {uuid: HOT})
    scene.silence("desk")
    scene.run(120, {uuid: HOT})
    assert found(scene) == []
