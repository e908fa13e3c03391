from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT, UNUSED, WORKING, Scene
from gpumon_detectors.hardware.throttled import Throttled
from tests.worlds.advice import sends_away

FULL = {
    **WORKING,
    "clock_event_reasons": 0x4,
    "sm_clock_mhz": 1600.0,
    "power_w": 690.0,
    "power_limit_w": 700.0,
}
"""A GPU at full load, kept to its power limit as all of its kind are."""
IDLE = {**UNUSED, "clock_event_reasons": 0x1, "sm_clock_mhz": 345.0}


def scene_with_job(gpu_count=4, **given):
    scene = Scene(**given)
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids)
    return scene, uuids


def with_one(uuids, values, others=FULL):
    return {**dict.fromkeys(uuids, others), uuids[1]: values}


def findings(scene, **parameters):
    return list(Throttled(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(
    ("bit", "word"),
    [
        (0x08, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "hardware power brake"),
    ],
)
def test_a_reason_of_hardware_heat_or_brake_is_found_with_its_loss(bit, word):
    scene, uuids = scene_with_job()
    scene.run(600, dict.fromkeys(uuids, FULL))
    bad_at = scene.next_at
    slow = {**FULL, "clock_event_reasons": bit, "sm_clock_mhz": 1200.0, "power_w": 500.0}
    scene.run(910, with_one(uuids, slow))
    (finding,) = findings(scene)
    assert finding.subject == f"gpu:{uuids[1]}"
    assert finding.onset == bad_at
    assert (finding.confidence, finding.severity) == ("supported", "warning")
    assert finding.gpu_seconds == pytest.approx(900 * 0.25)
    assert finding.gpus == (uuids[1],)
    assert word in finding.summary
    assert "25 % of the clock lost" in finding.summary
    texts = [evidence.text for evidence in finding.evidence]
    assert f"91 of 91 samples with {word}" in texts
    assert "SM clock 1200 MHz under load, before the episode 1600 MHz" in texts


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(20, "hypothesis"), (600, "hypothesis"), (610, "supported"), (1810, "established")],
)
def test_the_claim_grows_with_the_window(seconds, confidence):
    scene, uuids = scene_with_job()
    slow = {**FULL, "clock_event_reasons": 0x40, "sm_clock_mhz": 900.0}
    scene.run(seconds, with_one(uuids, slow))
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert finding.window.start == START_AT


def test_a_grave_loss_is_critical():
    scene, uuids = scene_with_job()
    scene.run(700, with_one(uuids, {**FULL, "clock_event_reasons": 0x48, "sm_clock_mhz": 800.0}))
    assert findings(scene)[0].severity == "critical"


def test_events_in_six_of_ten_minutes_are_one_episode():
    scene, uuids = scene_with_job()
    wave = lambda s: 0x40 if s % 100 < 10 else 0x4  # noqa: E731
    scene.run(1510, with_one(uuids, {**FULL, "clock_event_reasons": wave}))
    (finding,) = findings(scene)
    assert finding.window.start == START_AT
    assert finding.confidence == "supported"


def test_a_counter_of_time_lost_tells_what_the_bits_at_the_sample_do_not():
    scene, uuids = scene_with_job()
    lost = {**FULL, "hw_thermal_us": lambda s: 3e5 * s, "sm_clock_mhz": 1300.0}
    scene.run(700, with_one(uuids, lost))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_a_clock_below_the_peers_at_the_same_load_is_found_without_a_reason():
    scene, uuids = scene_with_job()
    stuck = {**FULL, "clock_event_reasons": 0x0, "sm_clock_mhz": 1180.0, "power_w": 410.0}
    scene.run(910, with_one(uuids, stuck))
    (finding,) = findings(scene)
    assert "clock below that of its kind, no reason is reported" in finding.summary
    assert finding.gpu_seconds == pytest.approx(900 * (1 - 1180 / 1600))
    assert (
        finding.evidence[0].text == "no reason is reported; 91 of 91 samples below GPUs of its kind"
    )
    assert not sends_away(finding)


def test_reasons_of_single_samples_are_named_and_do_not_explain_it():
    scene, uuids = scene_with_job()
    wave = lambda s: 0x4 if s % 600 == 0 else 0x0  # noqa: E731
    stuck = {**FULL, "clock_event_reasons": wave, "sm_clock_mhz": 1180.0, "power_w": 410.0}
    scene.run(910, with_one(uuids, stuck))
    (finding,) = findings(scene)
    assert "mostly no reason is reported" in finding.summary
    assert "in some samples software power cap; 89 of 90" in finding.evidence[0].text


def test_where_all_are_held_down_the_clock_before_is_the_measure():
    scene, uuids = scene_with_job(2)
    scene.run(600, dict.fromkeys(uuids, FULL))
    braked = {**FULL, "clock_event_reasons": 0x80, "sm_clock_mhz": 400.0}
    scene.run(700, dict.fromkeys(uuids, braked))
    found = findings(scene)
    assert [f.gpu_seconds for f in found] == [pytest.approx(690 * 0.75)] * 2
    assert "before the episode 1600 MHz" in found[0].evidence[1].text


def test_without_anything_to_compare_with_no_loss_is_told():
    scene, uuids = scene_with_job(1)
    scene.run(700, {uuids[0]: {**FULL, "clock_event_reasons": 0x8}})
    (finding,) = findings(scene)
    assert finding.gpu_seconds is None
    assert finding.evidence[1].text.endswith("nothing to compare with")


def test_advice_holds_checked_ids_only():
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("42;reboot", uuids)
    scene.run(700, {uuid: {**FULL, "clock_event_reasons": 0x40} for uuid in uuids})
    lines = findings(scene)[0].advice
    assert not any("42" in line for line in lines)
    scene.job("43", uuids)
    scene.end("42;reboot")
    scene.run(700, {uuid: {**FULL, "clock_event_reasons": 0x40} for uuid in uuids})
    (first, *_) = findings(scene)
    lines = first.advice
    ask = "srun --jobid=43 --overlap -w n1 nvidia-smi -q -d PERFORMANCE"
    assert any(ask in line for line in lines)
    assert any(
        "scontrol update NodeName=n1 State=DRAIN Reason=" in line for line in first.machine_advice
    )
    assert sends_away(first)


# Look-alikes


def test_a_power_cap_at_full_load_is_normal():
    scene, uuids = scene_with_job()
    scene.run(2000, dict.fromkeys(uuids, FULL))
    assert findings(scene) == []


def test_boards_differ_by_a_few_per_cent():
    scene, uuids = scene_with_job()
    scene.run(2000, with_one(uuids, {**FULL, "sm_clock_mhz": 1460.0}))
    assert findings(scene) == []


def test_a_heavier_stage_runs_at_a_lower_clock_for_more_power():
    scene, uuids = scene_with_job()
    light = {**FULL, "sm_clock_mhz": 1980.0, "power_w": 420.0}
    scene.run(2000, with_one(uuids, FULL, light))
    assert findings(scene) == []


def test_an_idle_gpu_among_busy_ones_rests():
    scene, uuids = scene_with_job()
    scene.run(2000, with_one(uuids, IDLE))
    assert findings(scene) == []


def test_a_brake_on_a_gpu_without_load_costs_nothing():
    scene, uuids = scene_with_job()
    scene.run(2000, {uuid: {**IDLE, "clock_event_reasons": 0x81} for uuid in uuids})
    assert findings(scene) == []


def test_a_flicker_is_no_episode():
    scene, uuids = scene_with_job()
    hot = lambda s: 0x40 if s in (300.0, 310.0) else 0x4  # noqa: E731
    scene.run(900, with_one(uuids, {**FULL, "clock_event_reasons": hot}))
    assert findings(scene) == []


def test_one_event_in_five_minutes_is_none():
    scene, uuids = scene_with_job()
    hot = lambda s: 0x40 if s % 170 == 0 else 0x4  # noqa: E731
    scene.run(1800, with_one(uuids, {**FULL, "clock_event_reasons": hot}))
    assert findings(scene) == []


def test_what_is_over_is_claimed_no_more():
    scene, uuids = scene_with_job()
    scene.run(900, with_one(uuids, {**FULL, "clock_event_reasons": 0x40}))
    scene.run(190, dict.fromkeys(uuids, FULL))
    assert findings(scene) == []


def test_a_gpu_that_no_job_holds_is_not_judged():
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.run(900, {uuid: {**FULL, "clock_event_reasons": 0x40} for uuid in uuids})
    assert findings(scene) == []


# Missing fields


@pytest.mark.parametrize("key", ["clock_event_reasons", "sm_clock_mhz"])
def test_without_a_needed_field_nothing_is_claimed(key):
    scene, uuids = scene_with_job()
    scene.run(900, with_one(uuids, {**FULL, "clock_event_reasons": 0x40, key: None}))
    assert findings(scene) == []


def test_without_utilisation_the_idle_bit_tells_the_load():
    scene, uuids = scene_with_job()
    hot = {**FULL, "gpu_util_ratio": None, "clock_event_reasons": 0x40, "sm_clock_mhz": 1000.0}
    scene.run(900, with_one(uuids, hot))
    assert len(findings(scene)) == 1


def test_without_power_the_clock_alone_is_compared():
    scene, uuids = scene_with_job()
    slow = {**FULL, "clock_event_reasons": 0, "power_w": None, "sm_clock_mhz": 1000.0}
    scene.run(900, with_one(uuids, slow))
    assert len(findings(scene)) == 1


def test_a_gap_in_the_sampling_begins_the_window_anew():
    scene, uuids = scene_with_job()
    hot = with_one(uuids, {**FULL, "clock_event_reasons": 0x40, "sm_clock_mhz": 1000.0})
    scene.run(900, hot)
    scene.skip(120)
    back = scene.next_at
    scene.run(100, hot)
    (finding,) = findings(scene)
    assert finding.window.start == back
    assert finding.confidence == "hypothesis"
