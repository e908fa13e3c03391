"""GPUs of a machine without a queue, whose users' programs wait for it."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, WORKING, Scene
from gpumon.model.finding import Confidence
from gpumon_detectors.waits.user_waits import UserWaits
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST

STARVED = {**WORKING, "gpu_util_ratio": 0.37, "sm_active_ratio": 0.22}
CALM = {**QUIET_HOST, "cpu_count": 24.0, "io_pressure_some_ratio": 0.01, "load_1m": 20.0}
FULL = {**CALM, "cpu_busy_ratio": 0.95}


def workstation(host, values=STARVED, seconds=1300.0, uids=(1007,), *, is_listed=False):
    """A machine whose users hold a GPU each."""
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    uuids = scene.node("desk", 2)
    if not is_listed:
        scene.unlist("desk")
    scene.host("desk", **host)
    for uid, uuid in zip(uids, uuids, strict=False):
        scene.process(uid, [uuid], uid=uid, name="python")
    scene.run(seconds, dict.fromkeys(uuids[: len(uids)], values))
    return list(UserWaits().evaluate(scene.view())), uuids


@pytest.mark.parametrize(
    ("host", "finding_class"),
    [
        (FULL, "input_bound"),
        ({**CALM, "io_pressure_some_ratio": 0.5}, "storage_bound"),
        ({**FULL, "load_1m": 190.0}, "cpu_oversubscribed"),
    ],
)
def test_the_gpu_and_its_users_are_named(host, finding_class):
    (finding,), uuids = workstation(host)
    assert finding.finding_class == finding_class
    assert finding.subject == f"gpu:{uuids[0]}"
    assert finding.owners == (1007,)
    assert "held by uid 1007" in finding.summary
    assert finding.confidence is Confidence.HYPOTHESIS
    length_s = finding.window.end - finding.window.start
    assert 0.55 <= finding.gpu_seconds / length_s <= 0.66


def test_nothing_is_said_where_it_may_be_somebody_elses():
    assert workstation(FULL, uids=(1007, 1008))[0] == []
    assert workstation(FULL, is_listed=True)[0] == []


@pytest.mark.parametrize(
    ("host", "values"), [(CALM, STARVED), (FULL, WORKING), (FULL, HELD), (CALM, WORKING)]
)
def test_what_looks_alike_is_not_claimed(host, values):
    assert workstation(host, values)[0] == []


def test_ten_minutes_are_needed():
    assert workstation(FULL, seconds=500.0)[0] == []


FEEDS = {"process_cpu_cores_used": 1.0, "process_tree_cpu_cores_used": 1.0}


def fed(values=STARVED, gpu_count=8, host=CALM, uids=(1007,), seconds=1300.0, **process):
    """A machine on whose GPUs one program of a user is, which prepares what they compute on."""
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    uuids = scene.node("desk", gpu_count)
    scene.unlist("desk")
    scene.host("desk", **{**host, "cpu_busy_ratio": 3.2 / 24})
    for uid in uids:
        scene.process(300 + uid, uuids, uid=uid, name="python", **{**FEEDS, **process})
    scene.run(seconds, dict.fromkeys(uuids, values))
    return list(UserWaits().evaluate(scene.view())), uuids


def test_one_core_that_feeds_eight_gpus_is_named_on_each_with_the_process():
    found, uuids = fed()
    assert [finding.subject for finding in found] == [f"gpu:{uuid}" for uuid in uuids]
    first = found[0]
    assert (first.finding_class, first.owners) == ("input_bound", (1007,))
    assert first.confidence is Confidence.HYPOTHESIS
    assert "for its program, which keeps one CPU full" in first.summary
    texts = [evidence.text for evidence in first.evidence]
    assert any("process 1307 (python) keeps 1.0 of 24 CPUs busy" in text for text in texts)
    assert not any("job" in text for text in texts)
    assert any("py-spy dump --pid 1307" in step for step in first.advice)


def test_whose_core_it_is_shows_also_where_several_users_hold_gpus():
    found, _ = fed(gpu_count=1, uids=(1007, 1008), process_cpu_cores_used=0.5)
    assert found == []
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    first, second = scene.node("desk", 2)
    scene.unlist("desk")
    scene.host("desk", **CALM)
    scene.process(311, [first], uid=1007, name="python", **FEEDS)
    scene.process(312, [second], uid=1008, name="python", **{**FEEDS, **dict.fromkeys(FEEDS, 0.2)})
    scene.run(1300, {first: STARVED, second: STARVED})
    (finding,) = UserWaits().evaluate(scene.view())
    assert (finding.subject, finding.owners) == (f"gpu:{first}", (1007,))


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ({"process_tree_cpu_cores_used": 6.0}, STARVED),
        ({"process_cpu_cores_used": 0.3, "process_tree_cpu_cores_used": 0.3}, STARVED),
        ({}, {**STARVED, "sm_active_ratio": 0.1}),
        ({}, {**STARVED, "gpu_util_ratio": 0.7, "sm_active_ratio": 0.6}),
        ({}, WORKING),
    ],
    ids=["loaders work", "it sleeps", "small kernels", "busy enough", "works"],
)
def test_what_looks_like_one_core_that_feeds_is_not_claimed(changed, values):
    assert fed(values, **changed)[0] == []


def test_one_busy_cpu_of_a_node_whose_processes_are_hidden_ends_no_detector():
    host = {**CALM, "cpu_busy_ratio": 1.0 / 24}
    (finding,), _ = workstation(host)
    assert "for its program" in finding.summary
