from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import START_AT, Scene, working
from gpumon_detectors.hardware.fabric_degraded import FabricDegraded
from tests.worlds.advice import sends_away

SPEED = {"link_speed_bytes_per_s": 26.5e9}
TO_SWITCH = {**SPEED, "remote_type": "switch", "link_state": 1}
TO_GPU = {**SPEED, "remote_type": "gpu", "link_state": 1}


def scene_with_links(gpu_count=4, links=6, period_s=10.0, **values):
    scene = Scene(period_s=period_s)
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids)
    for uuid in uuids:
        scene.links(uuid, links, **{**TO_SWITCH, **values})
        scene.gpu(uuid, nvlink_replay_count=0, nvlink_recovery_count=0, fabric_health=1)
    return scene, uuids


def findings(scene):
    return list(FabricDegraded().evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"), [(120, "hypothesis"), (130, "supported"), (610, "established")]
)
def test_a_link_to_a_switch_that_goes_down(seconds, confidence):
    scene, uuids = scene_with_links()
    scene.run(300, working(uuids))
    down_at = scene.next_at
    scene.link(uuids[1], 3, link_state=0)
    scene.run(seconds, working(uuids))
    (finding,) = findings(scene)
    assert finding.subject == f"gpu:{uuids[1]}"
    assert (finding.onset, finding.confidence) == (down_at, confidence)
    assert finding.severity == ("warning" if confidence == "hypothesis" else "critical")
    assert finding.gpu_seconds is None
    assert "1 of 6 NVLinks inactive since" in finding.summary
    assert "(link 3)" in finding.summary
    assert f"nvidia-smi nvlink -s -i {uuids[1]}" in "\n".join(finding.advice)


def test_a_link_to_a_switch_that_was_down_before():
    scene, uuids = scene_with_links()
    scene.link(uuids[1], 3, link_state=0)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert finding.onset == START_AT


def test_a_link_between_gpus_that_most_neighbours_have():
    scene, uuids = scene_with_links(8, **TO_GPU)
    scene.link(uuids[1], 0, link_state=0)
    scene.link(uuids[2], 5, link_state=0)
    scene.run(300, working(uuids))
    assert [f.subject for f in findings(scene)] == [f"gpu:{uuids[1]}", f"gpu:{uuids[2]}"]


def test_all_links_at_once_that_were_active():
    scene, uuids = scene_with_links(2, **TO_GPU)
    scene.run(300, working(uuids))
    for uuid in uuids:
        for number in range(6):
            scene.link(uuid, number, link_state=0)
    scene.run(300, working(uuids))
    assert len(findings(scene)) == 2


def test_a_slow_link():
    scene, uuids = scene_with_links()
    scene.run(300, working(uuids))
    slow_at = scene.next_at
    scene.link(uuids[0], 2, link_speed_bytes_per_s=13e9)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert finding.onset == slow_at
    assert "1 NVLink at 13.0 GB/s, most of the node's at 26.5 GB/s" in finding.summary


def test_replays_that_go_on():
    scene, uuids = scene_with_links()
    scene.run(300, working(uuids))
    bad_at = scene.next_at
    scene.gpu(uuids[0], nvlink_replay_count=lambda s: (s + 30) // 30)
    scene.run(700, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "established")
    assert finding.onset == bad_at
    assert "packets sent again" in finding.summary


def test_replays_of_a_few_minutes_are_a_hypothesis_beside_what_is_sure():
    scene, uuids = scene_with_links()
    scene.gpu(uuids[0], nvlink_replay_count=lambda s: s // 30)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    down_at = scene.next_at
    scene.link(uuids[0], 1, link_state=0)
    scene.run(200, working(uuids))
    (finding,) = findings(scene)
    assert (finding.onset, finding.confidence) == (down_at, "supported")


def test_errors_of_newer_links_are_told_by_link():
    scene, uuids = scene_with_links(link_effective_error_count=0)
    scene.run(300, working(uuids))
    scene.link(uuids[0], 4, link_effective_error_count=lambda s: (s + 20) // 20)
    scene.run(700, working(uuids))
    (finding,) = findings(scene)
    assert "link 4: " in finding.summary
    assert "errors left after correction" in finding.summary


def test_recoveries_within_an_hour():
    scene, uuids = scene_with_links()
    scene.gpu(uuids[0], nvlink_recovery_count=lambda s: s // 900)
    scene.run(2800, working(uuids))
    (finding,) = findings(scene)
    assert finding.severity == "critical"
    assert "3 link recoveries" in finding.summary


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_checksum_errors_above_the_limit_are_grave(period_s):
    scene, uuids = scene_with_links(period_s=period_s)
    scene.run(300, working(uuids))
    scene.gpu(uuids[3], nvlink_crc_flit_count=lambda s: 130.0 * s)
    scene.run(1300, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("critical", "established")
    assert "a second; from 100 on a link fails" in finding.summary
    assert sends_away(finding)


@pytest.mark.parametrize(
    ("counter", "what"),
    [("nvlink_replay_count", "1 packet sent again"), ("nvlink_recovery_count", "1 link recovery")],
)
def test_replays_and_recoveries_count_from_the_first_on(counter, what):
    scene, uuids = scene_with_links()
    scene.gpu(uuids[1], **{counter: lambda s: float(s >= 200)})
    scene.run(900, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "hypothesis")
    assert finding.onset == START_AT + 200
    assert f": {what} " in finding.summary
    assert not sends_away(finding)


def test_a_remark_makes_no_graver_sign_the_surer():
    scene, uuids = scene_with_links()
    scene.gpu(uuids[1], nvlink_crc_flit_count=lambda s: s // 20)
    scene.run(1500, working(uuids))
    scene.gpu(uuids[1], nvlink_replay_count=lambda s: float(s >= 100))
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.confidence) == ("warning", "hypothesis")


def test_replays_that_were_counted_before_are_history():
    scene, uuids = scene_with_links()
    for uuid in uuids:
        scene.gpu(uuid, nvlink_replay_count=17, nvlink_recovery_count=2)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_rolling_hour_is_no_onset():
    scene, uuids = scene_with_links(period_s=60.0)
    scene.gpu(uuids[0], nvlink_replay_count=lambda s: s // 60)
    scene.run(7200, working(uuids))
    (finding,) = findings(scene)
    assert "packets sent again in the last hour" in finding.summary


def test_the_fabrics_own_word():
    scene, uuids = scene_with_links()
    scene.run(100, working(uuids))
    scene.gpu(uuids[0], fabric_health=2)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert "calls this GPU unhealthy" in finding.summary


def test_several_signs_are_one_finding():
    scene, uuids = scene_with_links()
    scene.link(uuids[0], 2, link_speed_bytes_per_s=13e9)
    scene.link(uuids[0], 3, link_state=0)
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert finding.summary.endswith("and 1 more sign of it")
    assert {e.field for e in finding.evidence} == {"link_state", "link_speed_bytes_per_s"}


# Look-alikes


def test_sound_links():
    scene, uuids = scene_with_links()
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_board_without_links():
    scene = Scene()
    uuids = scene.node("n1", 4, "NVIDIA L40S")
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_pcie_boards_without_a_bridge():
    scene = Scene()
    uuids = scene.node("n1", 4, "NVIDIA H100 PCIe")
    for uuid in uuids:
        scene.links(uuid, 12, link_state=0)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_one_gpu_of_a_machine_without_its_links():
    scene, uuids = scene_with_links(1, 18, link_state=0)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_links_that_lead_nowhere_on_all_alike():
    scene, uuids = scene_with_links(4, 6, **TO_GPU)
    for uuid in uuids:
        scene.link(uuid, 4, link_state=0)
        scene.link(uuid, 5, link_state=0)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_gpus_cut_into_slices_do_not_use_links():
    scene, uuids = scene_with_links()
    scene.gpu(uuids[0], mig_mode=1)
    scene.run(100, working(uuids))
    for number in range(6):
        scene.link(uuids[0], number, link_state=0)
    scene.run(900, working(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize("state", [2, 3])
def test_links_asleep_or_without_traffic_are_not_down(state):
    scene, uuids = scene_with_links()
    scene.link(uuids[0], 1, link_state=state)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_errors_that_all_neighbours_count_alike():
    scene, uuids = scene_with_links()
    for uuid in uuids:
        scene.gpu(uuid, nvlink_crc_flit_count=lambda s: s // 10)
    scene.run(900, working(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
@pytest.mark.parametrize("counter", ["nvlink_crc_flit_count", "nvlink_crc_data_count"])
def test_checksum_errors_below_the_limit_are_a_remark(counter, period_s):
    scene, uuids = scene_with_links(period_s=period_s)
    chance = random.Random(3)
    few = lambda s: None if chance.random() < 0.05 else s // 45 if s else 0  # noqa: E731
    scene.gpu(uuids[2], **{counter: few})
    scene.run(2400, working(uuids))
    (finding,) = findings(scene)
    assert (finding.severity, finding.gpu_seconds) == ("info", None)
    assert not sends_away(finding)


def test_one_checksum_error_is_none():
    scene, uuids = scene_with_links()
    scene.gpu(uuids[2], nvlink_crc_flit_count=lambda s: float(s > 600))
    scene.run(2400, working(uuids))
    assert findings(scene) == []


def test_symbol_errors_are_ordinary():
    scene, uuids = scene_with_links(link_symbol_error_count=0)
    scene.link(uuids[0], 1, link_symbol_error_count=lambda s: s)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_a_link_that_is_trained_again_is_claimed_no_more():
    scene, uuids = scene_with_links()
    scene.link(uuids[0], 1, link_state=0)
    scene.run(300, working(uuids))
    scene.link(uuids[0], 1, link_state=1)
    scene.run(10, working(uuids))
    assert findings(scene) == []


# Missing fields


def test_without_states_nothing_is_claimed():
    scene, uuids = scene_with_links()
    for number in range(6):
        scene.link(uuids[0], number, link_state=None, link_speed_bytes_per_s=13e9)
    scene.run(900, working(uuids))
    assert findings(scene) == []


def test_without_speeds_states_are_judged():
    scene, uuids = scene_with_links(link_speed_bytes_per_s=None)
    scene.link(uuids[0], 1, link_state=0)
    scene.run(900, working(uuids))
    assert len(findings(scene)) == 1


def test_a_silent_node_is_not_judged():
    scene, uuids = scene_with_links()
    scene.link(uuids[0], 1, link_state=0)
    scene.run(300, working(uuids))
    scene.silence("n1")
    scene.run(100, working(uuids))
    assert findings(scene) == []
