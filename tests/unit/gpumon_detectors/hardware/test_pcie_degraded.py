from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import START_AT, UNUSED, WORKING, Scene
from gpumon_detectors.hardware.pcie_degraded import PcieDegraded
from tests.worlds.advice import sends_away

LINK = {
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
    "pcie_gen_max": 5.0,
    "pcie_width_max": 16.0,
    "pcie_replay_count": 0.0,
}
BUSY = {**WORKING, **LINK, "clock_event_reasons": 0x4}
RESTING = {**UNUSED, **LINK, "pcie_gen": 1.0, "pcie_width": 8.0}
NARROW = {**BUSY, "pcie_width": 4.0}


def scene_with_job(gpu_count=4, **given):
    scene = Scene(**given)
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids)
    return scene, uuids


def with_one(uuids, values, others=BUSY):
    return {**dict.fromkeys(uuids, others), uuids[1]: values}


def findings(scene, **parameters):
    return list(PcieDegraded(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(20, "hypothesis"), (300, "hypothesis"), (310, "supported"), (1810, "established")],
)
def test_a_downtrain_under_load_is_found_from_its_first_sample(seconds, confidence):
    scene, uuids = scene_with_job()
    scene.run(600, dict.fromkeys(uuids, BUSY))
    bad_at = scene.next_at
    scene.run(seconds, with_one(uuids, NARROW))
    (finding,) = findings(scene)
    assert finding.subject == f"gpu:{uuids[1]}"
    assert (finding.onset, finding.confidence) == (bad_at, confidence)
    assert finding.severity == ("warning" if confidence == "hypothesis" else "critical")
    assert finding.gpu_seconds is None
    assert finding.gpus == (uuids[1],)
    assert "PCIe gen 5 x4 under load instead of gen 5 x16" in finding.summary
    assert finding.evidence[0].text == "link: gen 5 x4; GPU and slot: gen 5 x16"


@pytest.mark.parametrize(("rate", "count"), [(1.6e9, 1), (2e8, 0)])
def test_who_waits_for_copies_is_not_loaded_and_its_link_is_awake(rate, count):
    scene, uuids = scene_with_job()
    copying = {"gpu_util_ratio": 0.34, "pcie_rx_bytes_per_s": rate, "pcie_tx_bytes_per_s": 1e7}
    scene.run(600, with_one(uuids, {**BUSY, **copying}, {**BUSY, **copying}))
    scene.run(600, with_one(uuids, {**NARROW, **copying}, {**BUSY, **copying}))
    assert len(findings(scene)) == count


def test_a_lower_generation_counts_too():
    scene, uuids = scene_with_job()
    scene.run(400, with_one(uuids, {**BUSY, "pcie_gen": 3.0}))
    (finding,) = findings(scene)
    assert "gen 3 x16 under load instead of gen 5 x16" in finding.summary
    assert finding.window.start == START_AT


def test_a_load_that_begins_on_a_narrow_link_is_bad_from_its_first_sample():
    scene, uuids = scene_with_job()
    scene.run(300, dict.fromkeys(uuids, RESTING))
    begun = scene.next_at
    scene.run(400, with_one(uuids, NARROW))
    (finding,) = findings(scene)
    assert finding.onset == begun


def test_pauses_of_the_load_do_not_break_the_window():
    scene, uuids = scene_with_job()
    scene.run(200, with_one(uuids, NARROW))
    scene.run(60, with_one(uuids, {**RESTING, "pcie_width": 4.0}))
    scene.run(200, with_one(uuids, NARROW))
    (finding,) = findings(scene)
    assert finding.window.start == START_AT
    assert finding.confidence == "supported"


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_replays_above_the_limit_are_found(period_s):
    scene, uuids = scene_with_job(period_s=period_s)
    chance = random.Random(5)
    count = lambda s: None if chance.random() < 0.05 else s // 5  # noqa: E731
    scene.run(300, dict.fromkeys(uuids, BUSY))
    bad_at = scene.next_at
    scene.run(900, with_one(uuids, {**BUSY, "pcie_replay_count": count}))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "supported")
    assert bad_at <= finding.onset <= bad_at + 180
    assert "PCIe packets sent again" in finding.summary
    (text,) = [e.text for e in finding.evidence if e.field == "pcie_replay_count"]
    assert "12." in text
    assert text.endswith("DCGM allows 8")


def test_replays_of_a_few_minutes_are_a_hypothesis():
    scene, uuids = scene_with_job()
    scene.run(590, with_one(uuids, {**BUSY, "pcie_replay_count": lambda s: s // 6}))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert not sends_away(finding)


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_replays_below_the_limit_are_none(period_s):
    scene, uuids = scene_with_job(period_s=period_s)
    scene.run(1800, with_one(uuids, {**BUSY, "pcie_replay_count": lambda s: 7 * (s // 60)}))
    assert findings(scene) == []


def test_advice_is_filled_in():
    scene, uuids = scene_with_job()
    scene.run(400, with_one(uuids, NARROW))
    (finding,) = findings(scene)
    look = "srun --jobid=42 --overlap -w n1 nvidia-smi --query-gpu=pcie."
    (line,) = [line for line in finding.advice if line.startswith(f"Look closer: {look}")]
    assert line.endswith(f" -i {uuids[1]}")
    assert any('State=DRAIN Reason="PCIe link below' in line for line in finding.machine_advice)


@pytest.mark.parametrize(("seconds", "is_found"), [(240, False), (330, True)])
def test_nobody_is_sent_away_for_what_may_be_nothing(seconds, is_found):
    scene, uuids = scene_with_job()
    scene.run(seconds, with_one(uuids, NARROW))
    (finding,) = findings(scene)
    assert sends_away(finding) == is_found


# Look-alikes


def test_a_whole_link():
    scene, uuids = scene_with_job()
    scene.run(900, dict.fromkeys(uuids, BUSY))
    assert findings(scene) == []


def test_slots_that_differ_by_design():
    scene, uuids = scene_with_job(6)
    narrow = {**BUSY, "pcie_width": 8.0, "pcie_width_max": 8.0}
    scene.run(2000, {uuid: narrow if number % 3 else BUSY for number, uuid in enumerate(uuids)})
    assert findings(scene) == []


def test_a_link_is_measured_by_its_own_slot():
    scene, uuids = scene_with_job(6)
    narrow = {**BUSY, "pcie_width": 8.0, "pcie_width_max": 8.0}
    values = {uuid: narrow if number % 3 else BUSY for number, uuid in enumerate(uuids)}
    values[uuids[4]] = {**narrow, "pcie_width": 2.0}
    scene.run(2000, values)
    (finding,) = findings(scene)
    assert finding.subject == f"gpu:{uuids[4]}"
    assert "gen 5 x2 under load instead of gen 5 x8" in finding.summary


@pytest.mark.parametrize(("gen", "width"), [(4.0, 16.0), (3.0, 16.0), (5.0, 8.0)])
def test_a_node_whose_links_are_all_alike_is_one_remark(gen, width):
    scene, uuids = scene_with_job(8)
    lower = {**BUSY, "pcie_gen": gen, "pcie_width": width}
    scene.run(2000, {**dict.fromkeys(uuids[:6], lower), uuids[6]: RESTING, uuids[7]: RESTING})
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == ("node:n1", "info")
    assert finding.gpu_seconds is None
    assert f"all 6 loaded GPUs at PCIe gen {gen:.0f} x{width:.0f}" in finding.summary
    assert not sends_away(finding)


def test_two_products_of_one_node_are_still_one_remark():
    scene, uuids = scene_with_job(4)
    for uuid in uuids[2:]:
        scene.gpu(uuid, name="NVIDIA L40S")
    lower, lowest = ({**BUSY, "pcie_gen": gen} for gen in (4.0, 3.0))
    scene.run(700, {uuid: lower if uuid in uuids[2:] else lowest for uuid in uuids})
    (finding,) = findings(scene)
    assert "gen 4 x16" in finding.summary
    assert "gen 3 x16" in finding.summary


def test_a_generation_that_nothing_on_the_node_exceeds_may_be_a_setting():
    scene, uuids = scene_with_job(1)
    scene.run(2000, {uuids[0]: {**BUSY, "pcie_gen": 4.0}})
    (finding,) = findings(scene)
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")
    assert not sends_away(finding)


def test_a_generation_that_was_higher_under_load_is_a_fault():
    scene, uuids = scene_with_job(1)
    scene.run(600, dict.fromkeys(uuids, BUSY))
    scene.run(2000, {uuids[0]: {**BUSY, "pcie_gen": 2.0}})
    assert findings(scene)[0].confidence == "established"


def test_a_link_rests_in_the_pauses_of_a_light_load():
    scene, uuids = scene_with_job()
    resting = {**BUSY, "gpu_util_ratio": 0.17, "pcie_gen": 1.0, "clock_event_reasons": 0x1}
    scene.run(1500, with_one(uuids, resting))
    assert findings(scene) == []


def test_a_gpu_that_the_driver_calls_idle_is_at_rest_whatever_its_mean_says():
    scene, uuids = scene_with_job()
    resting = {**BUSY, "gpu_util_ratio": 0.61, "pcie_gen": 1.0, "clock_event_reasons": 0x1}
    scene.run(1500, with_one(uuids, resting))
    assert findings(scene) == []


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_a_downtrain_is_found_at_each_period_with_values_missing(period_s):
    scene, uuids = scene_with_job(period_s=period_s)
    chance = random.Random(9)

    def told(value):
        return lambda _: None if chance.random() < 0.05 else value

    scene.run(300, {uuid: {k: told(v) for k, v in BUSY.items()} for uuid in uuids})
    bad_at = scene.next_at
    values = {uuid: {k: told(v) for k, v in BUSY.items()} for uuid in uuids}
    values[uuids[1]] = {key: told(value) for key, value in NARROW.items()}
    scene.run(1900, values)
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == (f"gpu:{uuids[1]}", "established")
    assert finding.onset == pytest.approx(bad_at, abs=2 * period_s)


def test_an_idle_gpu_lowers_its_link():
    scene, uuids = scene_with_job()
    scene.run(900, dict.fromkeys(uuids, RESTING))
    assert findings(scene) == []


def test_a_link_that_wakes_up_with_the_load():
    scene, uuids = scene_with_job()
    waking = {**BUSY, "pcie_gen": lambda s: 1.0 if s < 10 else 5.0}
    for _ in range(10):
        scene.run(30, dict.fromkeys(uuids, RESTING))
        scene.run(10, dict.fromkeys(uuids, waking))
        assert findings(scene) == []
    scene.run(30, dict.fromkeys(uuids, waking))
    assert findings(scene) == []


def test_slots_of_an_older_generation_are_how_the_node_was_bought():
    scene, uuids = scene_with_job()
    old = {**BUSY, "pcie_gen": 4.0, "pcie_gen_max": 4.0}
    scene.run(900, dict.fromkeys(uuids, old))
    assert findings(scene) == []


def test_another_product_beside_it_has_a_link_of_its_own():
    scene = Scene()
    uuids = scene.node("n1", 4)
    other = {**BUSY, "pcie_gen": 4.0, "pcie_gen_max": 4.0}
    scene.gpu(uuids[1], name="NVIDIA L40S")
    scene.run(900, with_one(uuids, other))
    assert findings(scene) == []


def test_one_burst_of_replays_is_a_retraining():
    scene, uuids = scene_with_job()
    burst = {**BUSY, "pcie_replay_count": lambda s: min(12.0, s // 10)}
    scene.run(600, with_one(uuids, burst))
    assert findings(scene) == []


def test_what_is_mended_is_claimed_no_more():
    scene, uuids = scene_with_job()
    scene.run(400, with_one(uuids, NARROW))
    scene.run(20, dict.fromkeys(uuids, BUSY))
    assert findings(scene) == []


# Missing fields


@pytest.mark.parametrize("key", PcieDegraded.needs)
def test_without_a_needed_field_nothing_is_claimed(key):
    scene, uuids = scene_with_job()
    scene.run(900, with_one(uuids, {**NARROW, key: None}))
    assert findings(scene) == []


def test_without_the_replay_counter_the_link_is_judged():
    scene, uuids = scene_with_job()
    scene.run(400, with_one(uuids, {**NARROW, "pcie_replay_count": None}))
    assert len(findings(scene)) == 1


def test_a_stale_gpu_is_not_judged():
    scene, uuids = scene_with_job()
    scene.run(400, with_one(uuids, NARROW))
    scene.run(60, with_one(uuids, NARROW), stale=uuids)
    assert findings(scene) == []
