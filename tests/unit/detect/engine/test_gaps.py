"""Time that nobody observed: no finding clears over it, and it ends no window where it is short."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.claims import LEAST_EVIDENCE_S
from gpumon.detect.contract import declaration_of
from gpumon.detect.engine.finding_life import LEAVE_S, SETTLE_S, DetectorResult, Lives, subjects_of
from gpumon.detect.scene import HELD, UNUSED, WORKING
from gpumon.detect.series import LEAST_GAP_S, bridged, unbroken_since
from gpumon.detect.worker.evaluate import answer_of
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.idle_tail import IdleTail
from gpumon_detectors.idle.never_started import NeverStarted
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, work

STEP_S = 30.0


class Watch:
    """A detector, its lives and a past that goes on, looked at every half minute."""

    def __init__(self, detector, before, values):
        self.detector = detector
        self.scene, uuids = job_scene(start_at=1_700_000_000.0 if before else None)
        self.values = dict(zip(uuids, values, strict=True))
        self.lives = Lives()
        self.evaluated_at = float("inf")
        if before:
            work(self.scene, uuids, before)

    def go_on(self, seconds, values=None):
        for _ in range(round(seconds / STEP_S)):
            self.scene.run(STEP_S, self.values if values is None else values)
            self.look()

    def look(self):
        view = self.scene.view()
        claims = tuple(self.detector.evaluate(view))
        blind = answer_of(self.detector, view)["blind"]
        name = declaration_of(self.detector).name
        seen_from = unbroken_since(view.history, self.evaluated_at, view.now)
        in_view = subjects_of(["42"], view.gpus, view.nodes)
        look = DetectorResult(name, claims, (0, 1), frozenset(blind))
        self.lives.take(view.now, [look], in_view, unbroken_since=seen_from)
        self.evaluated_at = view.now

    @property
    def finding(self):
        standing = self.lives.standing(self.evaluated_at)
        return standing[0] if standing else None


def slow(gap_s):
    return pytest.param(gap_s, marks=pytest.mark.slow)


CASES = {
    "idle_held": (IdleHeld(), 4 * 3600.0, (HELD, HELD)),
    "idle_tail": (IdleTail(), 3600.0, (UNUSED, UNUSED)),
    "never_started": (NeverStarted(), 0.0, (UNUSED, UNUSED)),
    "partial_gpus_idle": (PartialGpusIdle(), 0.0, (WORKING, UNUSED)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("gap_s", [slow(60.0), 300.0, slow(3600.0)])
@pytest.mark.parametrize("how", ["monitor", "node"])
def test_a_gap_never_clears_a_standing_finding(name, gap_s, how):
    watch = Watch(*CASES[name])
    watch.go_on(1200.0)
    assert watch.finding is not None
    if how == "monitor":
        watch.scene.skip(gap_s)
    else:
        watch.scene.silence("n")
        watch.go_on(gap_s)
        watch.scene.revive("n")
    for _ in range(20):
        watch.go_on(STEP_S)
        assert watch.finding is not None
        assert watch.lives.cleared(watch.evaluated_at) == ()
    assert watch.finding.unknown_since is None
    assert watch.finding.last_seen == watch.evaluated_at


@pytest.mark.parametrize("name", ["idle_held", "idle_tail"])
def test_what_ended_within_the_gap_is_unknown_for_a_while_and_then_cleared(name):
    watch = Watch(*CASES[name])
    watch.go_on(1200.0)
    last_seen = watch.evaluated_at
    watch.scene.skip(300.0)
    busy = all_of(watch.values, WORKING)
    watch.go_on(120.0, busy)
    assert watch.finding.unknown_since == last_seen
    watch.go_on(LEAST_EVIDENCE_S + SETTLE_S + LEAVE_S + 3 * STEP_S, busy)
    assert watch.finding is None
    assert watch.lives.cleared(watch.evaluated_at)[0].cleared_at == last_seen


def test_without_a_gap_what_is_over_is_cleared_as_fast_as_ever():
    watch = Watch(*CASES["idle_held"])
    watch.go_on(1200.0)
    watch.go_on(LEAVE_S + 3 * STEP_S, all_of(watch.values, WORKING))
    assert watch.finding is None


def test_what_is_unknown_for_a_moment_goes_on_and_for_longer_ends():
    times = np.arange(0.0, 100.0, 10.0)
    flags = np.ones((10, 3), bool)
    flags[4:, 2] = False
    is_known = np.ones((10, 3), bool)
    is_known[3:5, 0] = False
    is_known[3:8, 1] = False
    is_known[3, 2] = False
    found = bridged(times, flags & is_known, is_known)
    assert found[:, 0].all()
    assert found[:, 1].tolist() == [True] * 3 + [False] * 5 + [True] * 2
    assert found[:, 2].tolist() == [True] * 3 + [False] * 7


def test_the_newest_row_is_never_guessed():
    is_known = np.array([[True], [False]])
    assert bridged(np.array([0.0, 1.0]), is_known, is_known).tolist() == [[True], [False]]


@pytest.mark.parametrize(("pause_s", "is_gap"), [(5.0, False), (LEAST_GAP_S, True), (300.0, True)])
def test_only_a_pause_that_is_long_ends_the_window(pause_s, is_gap):
    scene, uuids = job_scene(period_s=1.0)
    scene.run(60.0, all_of(uuids, HELD))
    begun = scene.next_at
    scene.skip(pause_s)
    tick = scene.run(10.0, all_of(uuids, HELD))
    table = scene.view().jobs[0].table(("gpu_util_ratio",), 3600.0)
    assert len(table.times) == (10 if is_gap else 70)
    since = unbroken_since(tick.history, begun - 30.0, tick.at)
    assert since == (begun + pause_s if is_gap else float("-inf"))
