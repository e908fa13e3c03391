"""What a GPU that is held down costs its job, for how long, and who is sound though it looks so."""

from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import START_AT, WORKING, Scene
from gpumon.model.records.cluster import Rank
from gpumon_detectors.hardware.throttled import Throttled
from tests.worlds.advice import sends_away

DAY_S = 86400.0
BUSY = {
    **WORKING,
    "gpu_util_ratio": 0.98,
    "sm_active_ratio": 0.81,
    "tensor_active_ratio": 0.42,
    "clock_event_reasons": 0x4,
    "sm_clock_mhz": 1650.0,
    "power_w": 655.0,
    "power_limit_w": 700.0,
}
"""A rank at full work."""
HOT = {**BUSY, "clock_event_reasons": 0x24, "sm_clock_mhz": 1105.5, "power_w": 430.0}
"""The same at 67 % of the clock."""
WAITING = {**BUSY, "sm_active_ratio": 0.57, "tensor_active_ratio": 0.28, "power_w": 520.0}
"""The same with a third of its time in a collective, waiting for a slower one."""


def findings(scene):
    return list(Throttled().evaluate(scene.view()))


def alike(uuids, values):
    return dict.fromkeys(uuids, values)


def gappy(values, seed, share=0.05):
    """The same values, each of them missing now and then."""
    chance = random.Random(seed)

    def told(value):
        return lambda _: None if chance.random() < share else value

    return {key: told(value) for key, value in values.items()}


def job_of(gpu_count, nodes=1, *, product="NVIDIA H100 80GB HBM3", period_s=30.0):
    scene = Scene(period_s=period_s, span_s=DAY_S)
    each = gpu_count // nodes
    uuids = [uuid for number in range(nodes) for uuid in scene.node(f"n{number}", each, product)]
    scene.job("611", uuids)
    return scene, uuids


# Sound GPUs that look slow


def test_a_heavier_stage_at_the_power_limit_is_sound():
    scene, uuids = job_of(8)
    light = {**BUSY, "sm_clock_mhz": 1695.0, "power_w": 698.0}
    heavy = {**BUSY, "sm_clock_mhz": 1410.0, "power_w": 699.0}
    scene.run(4000, {uuid: heavy if uuid in uuids[6:] else light for uuid in uuids})
    assert findings(scene) == []


def test_a_gpu_whose_limit_somebody_lowered_is_sound():
    scene, uuids = job_of(8)
    capped = {**BUSY, "sm_clock_mhz": 1215.0, "power_w": 371.0, "power_limit_w": 375.0}
    scene.run(4000, {**alike(uuids, BUSY), uuids[5]: capped})
    assert findings(scene) == []


@pytest.mark.parametrize("bit", [0x2, 0x10, 0x100])
def test_a_clock_that_somebody_set_is_sound(bit):
    scene, uuids = job_of(4)
    locked = {**BUSY, "clock_event_reasons": bit, "sm_clock_mhz": 1125.0, "power_w": 390.0}
    scene.run(4000, {**alike(uuids, BUSY), uuids[2]: locked})
    assert findings(scene) == []


def test_a_cap_that_comes_and_goes_with_the_step_is_the_reason_all_the_time():
    scene, uuids = job_of(4)
    wave = lambda s: 0x4 if s % 120 < 30 else 0x0  # noqa: E731
    capped = {**BUSY, "clock_event_reasons": wave, "sm_clock_mhz": 1320.0, "power_w": 560.0}
    free = {**BUSY, "clock_event_reasons": 0x0, "sm_clock_mhz": 1755.0, "power_w": 560.0}
    scene.run(4000, {**alike(uuids, free), uuids[0]: capped})
    assert findings(scene) == []


def test_a_slower_product_beside_a_faster_one_is_sound():
    scene = Scene(period_s=30.0)
    fast = scene.node("h1", 4)
    slow = scene.node("a1", 4, "NVIDIA A100-SXM4-80GB")
    scene.job("612", (*fast, *slow))
    free = {**BUSY, "clock_event_reasons": 0x0, "power_w": 380.0}
    values = {
        **alike(fast, {**free, "sm_clock_mhz": 1905.0}),
        **alike(slow, {**free, "sm_clock_mhz": 1335.0, "power_limit_w": 400.0}),
    }
    values[slow[0]] = {**values[slow[0]], "power_w": 350.0}
    scene.run(4000, values)
    assert findings(scene) == []


def test_what_the_driver_told_is_named_and_only_that_leads_to_a_drain():
    scene, uuids = job_of(4)
    scene.run(900, alike(uuids, BUSY))
    scene.run(1260, {**alike(uuids, BUSY), uuids[3]: HOT})
    (finding,) = findings(scene)
    assert "software thermal slowdown" in finding.summary
    assert "no reason" not in finding.evidence[0].text
    assert finding.evidence[0].text.endswith("also reported: software power cap")
    assert sends_away(finding)


# What it costs


def test_the_clock_before_the_onset_is_the_measure_for_as_long_as_it_lasts():
    scene, uuids = job_of(1)
    scene.run(1500, alike(uuids, BUSY))
    onset = scene.next_at
    scene.run(6.2 * 3600, alike(uuids, HOT))
    (finding,) = findings(scene)
    assert onset <= finding.onset <= onset + 330
    lost = finding.gpu_seconds / (finding.window.end - finding.window.start)
    assert lost == pytest.approx(0.33, abs=0.005)
    assert finding.confidence == "established"


def test_the_clock_before_the_onset_outlasts_a_gap_in_the_sampling():
    scene, uuids = job_of(2)
    scene.run(1500, alike(uuids, BUSY))
    scene.run(1200, alike(uuids, HOT))
    scene.skip(900)
    back = scene.next_at
    scene.run(1500, alike(uuids, HOT))
    found = findings(scene)
    assert [finding.window.start for finding in found] == [back, back]
    for finding in found:
        length = finding.window.end - finding.window.start
        assert finding.gpu_seconds == pytest.approx(0.33 * length, rel=0.01)


def test_a_job_that_waits_for_its_slow_gpu_is_charged_to_that():
    scene, uuids = job_of(16, nodes=2)
    scene.run(1800, alike(uuids, BUSY))
    scene.run(2400, {**alike(uuids, WAITING), uuids[11]: HOT})
    (finding,) = findings(scene)
    assert finding.subject == f"gpu:{uuids[11]}"
    assert set(finding.gpus) == set(uuids)
    length = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(16 * 0.33 * length, rel=0.02)
    assert "15 GPUs of the job wait for it" in finding.summary


def test_only_power_tells_of_waiting_where_there_are_no_counters():
    plain = {"sm_active_ratio": None, "tensor_active_ratio": None}
    scene, uuids = job_of(8)
    scene.run(1800, alike(uuids, {**BUSY, **plain}))
    scene.run(2400, {**alike(uuids, {**WAITING, **plain}), uuids[1]: {**HOT, **plain}})
    (finding,) = findings(scene)
    assert len(finding.gpus) == 8


def test_peers_that_go_on_working_are_not_charged():
    scene, uuids = job_of(8)
    scene.run(1800, alike(uuids, BUSY))
    scene.run(2400, {**alike(uuids, BUSY), uuids[1]: HOT})
    (finding,) = findings(scene)
    assert finding.gpus == (uuids[1],)
    length = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(0.33 * length, rel=0.02)


def test_a_job_that_was_slow_from_its_start_waits_where_the_slow_one_is_the_busiest():
    scene, uuids = job_of(8)
    scene.run(2400, {**alike(uuids, WAITING), uuids[6]: HOT})
    (finding,) = findings(scene)
    assert finding.onset == START_AT
    length = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(8 * 0.33 * length, rel=0.02)


@pytest.mark.parametrize(("in_world", "charged"), [(6, 6), (0, 1)])
def test_without_a_past_and_counters_a_world_tells_who_waits(in_world, charged):
    plain = {"sm_active_ratio": None, "tensor_active_ratio": None}
    scene, uuids = job_of(8)
    ranks = [
        Rank("0", "n0:29500", number, number, in_world, "n0", 100 + number, (uuid,), None)
        for number, uuid in enumerate(uuids[:in_world])
    ]
    scene.job("611", uuids, ranks=ranks, start_at=START_AT)
    scene.run(1200, {**alike(uuids, {**WAITING, **plain}), uuids[0]: {**HOT, **plain}})
    (finding,) = findings(scene)
    assert len(finding.gpus) == charged


def test_two_slow_gpus_of_one_job_cost_it_no_second_twice():
    scene, uuids = job_of(8)
    scene.run(1800, alike(uuids, BUSY))
    slower = {**HOT, "sm_clock_mhz": 990.0}
    values = {**alike(uuids, WAITING), uuids[2]: HOT, uuids[5]: slower}
    scene.run(2400, values)
    first, second = findings(scene)
    length = first.window.end - first.window.start
    assert first.gpus == (uuids[2],)
    assert set(second.gpus) == set(uuids) - {uuids[2]}
    total = first.gpu_seconds + second.gpu_seconds
    assert total == pytest.approx((0.33 + 7 * 0.4) * length, rel=0.02)


def test_all_held_down_from_the_start_are_measured_by_the_fleets_like():
    scene = Scene(period_s=30.0, span_s=DAY_S)
    mine, others = scene.node("n0", 8), scene.node("n1", 8)
    scene.job("611", mine)
    scene.job("612", others)
    scene.run(4500, {**alike(mine, HOT), **alike(others, BUSY)})
    found = findings(scene)
    assert [f.confidence for f in found] == ["established"] * 8
    total = sum(f.gpu_seconds for f in found)
    assert total == pytest.approx(8 * 0.33 * (found[0].window.end - START_AT), rel=0.02)


def test_with_the_boards_highest_clock_alone_the_loss_is_a_bound():
    scene, uuids = job_of(8)
    scene.run(4500, alike(uuids, {**HOT, "sm_clock_max_mhz": 1980.0}))
    found = findings(scene)
    assert len(found) == 8
    for finding in found:
        assert (finding.confidence, finding.severity) == ("hypothesis", "warning")
        assert "at most 44 % of the clock lost" in finding.summary
        length = finding.window.end - finding.window.start
        assert finding.gpu_seconds == pytest.approx((1 - 1105.5 / 1980) * length, rel=0.01)


def test_lighter_work_elsewhere_is_no_measure():
    scene = Scene(period_s=30.0)
    mine, others = scene.node("n0", 4), scene.node("n1", 4)
    scene.job("611", mine)
    scene.job("612", others)
    light = {**BUSY, "sm_clock_mhz": 1980.0, "power_w": 300.0, "clock_event_reasons": 0}
    scene.run(1500, {**alike(mine, HOT), **alike(others, light)})
    assert [finding.gpu_seconds for finding in findings(scene)] == [None] * 4


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_it_is_found_with_its_cost_at_each_period_with_values_missing(period_s):
    scene, uuids = job_of(4, period_s=period_s)
    scene.run(1200, {uuid: gappy(BUSY, uuid) for uuid in uuids})
    onset = scene.next_at
    values = {uuid: gappy(WAITING, uuid) for uuid in uuids}
    scene.run(2100, {**values, uuids[1]: gappy(HOT, "hot")})
    (finding,) = findings(scene)
    assert finding.onset == pytest.approx(onset, abs=3 * period_s)
    assert finding.confidence == "established"
    length = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(4 * 0.33 * length, rel=0.07)
    assert len(finding.gpus) == 4


@pytest.mark.parametrize("period_s", [1.0, 60.0])
def test_sound_gpus_stay_sound_at_each_period_with_values_missing(period_s):
    scene, uuids = job_of(4, period_s=period_s)
    heavy = gappy({**BUSY, "sm_clock_mhz": 1395.0, "power_w": 690.0}, "heavy")
    scene.run(2100, {**{uuid: gappy(BUSY, uuid) for uuid in uuids}, uuids[0]: heavy})
    assert findings(scene) == []
