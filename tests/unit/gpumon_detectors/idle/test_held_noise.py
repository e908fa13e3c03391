"""GPUs that users hold, at every usual period, with what telemetry suffers."""

from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING, Scene
from gpumon.model.finding import Confidence
from gpumon_detectors.idle.held_by_user import HeldByUser
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST
from tests.unit.gpumon_detectors.noise import later, stretches, thinned, troubles_at

HOUR = 3600.0
GIB = 2.0**30
OLD_ROW_S = 300.0
QUIET = {
    "process_cpu_cores_used": 0.02,
    "process_io_read_bytes_per_s": 0.0,
    "process_io_write_bytes_per_s": 1.5e4,
}


def everywhere(*periods_s):
    """With every trouble at usual periods; what costs most is not for every day."""
    made = []
    for period_s in periods_s:
        for trouble in troubles_at(period_s):
            is_quick = period_s == 60.0 and trouble in ("missing", "shared")
            marks = () if is_quick else (pytest.mark.slow,)
            name = f"{period_s:.0f} s, {trouble}"
            made.append(pytest.param(period_s, trouble, marks=marks, id=name))
    return pytest.mark.parametrize(("period_s", "trouble"), made)


EVERYWHERE = everywhere(1.0, 10.0, 30.0, 60.0)
FOR_HOURS = everywhere(10.0, 30.0, 60.0)
"""For scenes that take seconds to make up."""


class Desk:
    """A machine without a queue; its first GPU is one user's, and the second may be another's."""

    def __init__(self, period_s, trouble):
        self.trouble = trouble
        self.dice = random.Random(f"{period_s}{trouble}")
        self.scene = Scene(period_s=period_s, span_s=24 * 3600.0)
        self.gpu, self.other = self.scene.node("desk", 2)
        self.scene.unlist("desk")
        self.scene.host("desk", **QUIET_HOST)
        if trouble == "shared":
            self.scene.host("desk", cpu_busy_ratio=0.35, net_rx_bytes_per_s=1.7e6)
            self.take(871, 1019, gpu=self.other, process_cpu_cores_used=11.0)

    def take(self, pid, uid, *, gpu=None, held_gib=33.0, **values):
        """A user's process takes memory of a GPU."""
        gpu = gpu or self.gpu
        own = self._told({**QUIET, **values})
        self.scene.process(pid, [gpu], **{"uid": uid, "name": "python", **own})
        memory = self._told({"context_mem_used_bytes": held_gib * GIB})
        self.scene._set("desk", "context", f"{pid}/{gpu}", memory)

    def run(self, seconds, values):
        """Let time pass."""
        for passed_s, part_s, is_hole in stretches(seconds, self.trouble):
            if is_hole:
                self.scene.skip(part_s)
                continue
            other = {self.other: WORKING} if self.trouble == "shared" else {}
            self.scene.run(part_s, {self.gpu: self._told(later(values, passed_s)), **other})

    def run_before(self, seconds, values):
        """The same before a restart, of which nothing is known."""
        if self.trouble != "restart":
            self.run(seconds, values)

    def _told(self, values):
        return thinned(values, self.dice) if self.trouble == "missing" else values

    @property
    def found(self):
        """What is said of it."""
        return list(HeldByUser().evaluate(self.scene.view()))


@EVERYWHERE
def test_memory_that_is_held_for_hours_is_found_and_charged(period_s, trouble):
    desk = Desk(period_s, trouble)
    seconds = 2.7 * HOUR
    desk.run_before(1500.0, UNUSED)
    desk.take(311, 1007)
    desk.run(seconds, HELD)
    (finding,) = desk.found
    assert (finding.subject, finding.owners) == (f"gpu:{desk.gpu}", (1007,))
    assert (finding.finding_class, finding.confidence) == ("idle_held", "supported")
    assert 0.9 * seconds - OLD_ROW_S <= finding.gpu_seconds <= seconds
    begun = START_AT + (0.0 if trouble == "restart" else 1500.0)
    assert finding.onset == pytest.approx(begun, abs=OLD_ROW_S + 60.0 + 2 * period_s)


@FOR_HOURS
def test_work_before_is_not_charged(period_s, trouble):
    desk = Desk(period_s, trouble)
    desk.take(311, 1007)
    desk.run_before(2 * HOUR, WORKING)
    desk.run(2.4 * HOUR, HELD)
    (finding,) = desk.found
    assert finding.confidence == "supported"
    assert 0.9 * 2.4 * HOUR - OLD_ROW_S <= finding.gpu_seconds <= 2.4 * HOUR


@FOR_HOURS
def test_who_came_late_is_not_charged_what_others_left_idle(period_s, trouble):
    desk = Desk(period_s, trouble)
    desk.take(311, 1007)
    desk.run_before(3.1 * HOUR, HELD)
    desk.scene.no_process(311, "desk")
    desk.take(402, 1008)
    desk.run(0.9 * HOUR, HELD)
    (finding,) = desk.found
    assert (finding.owners, finding.confidence) == ((1008,), "hypothesis")
    assert finding.gpu_seconds <= 0.9 * HOUR + 2 * period_s


@FOR_HOURS
def test_a_model_that_answers_now_and_then_is_not_accused(period_s, trouble):
    desk = Desk(period_s, trouble)
    desk.take(311, 1007)
    answers = {**HELD, "gpu_util_ratio": lambda s: 0.7 if s % 1320 < 130 else 0.0}
    desk.run(6 * 1320.0, answers)
    assert desk.found == []


@FOR_HOURS
def test_a_person_who_tries_things_out_is_not_accused(period_s, trouble):
    desk = Desk(period_s, trouble)
    desk.take(311, 1007)
    cells = {**HELD, "gpu_util_ratio": lambda s: 0.5 if s % 2400 < 300 else 0.0}
    desk.run(3.3 * HOUR, cells)
    assert [f for f in desk.found if f.confidence is not Confidence.HYPOTHESIS] == []


@FOR_HOURS
def test_memory_that_is_worked_with_is_nobodys_waste(period_s, trouble):
    desk = Desk(period_s, trouble)
    desk.take(311, 1007)
    desk.run(2.6 * HOUR, {**WORKING, "gpu_util_ratio": lambda s: 0.9 if s % 180 < 120 else 0.0})
    assert desk.found == []
