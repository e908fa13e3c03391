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
