"""How many probes start at once, on machines whose CPUs are shared by what runs on them."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from gpumon.sources.probes.clients import BUSY_LOOK_S, Clients, Ticks
from gpumon.sources.probes.pool import GREETING_LIMIT_S
from gpumon.sources.probes.start_order import MAX_STARTING, YIELD_S, Pace, Places, Slot, Turns
from gpumon.sources.probes.zoom import Zoom
from tests.worlds.probe import talker

STEP_S = 0.25
NOBODY = Zoom()


OWN_START_S = 0.01
"""CPU time that any client takes before it connects."""


def _stream(is_greeted: bool) -> Any:
    return SimpleNamespace(is_greeted=is_greeted, cpu_s=OWN_START_S)


class Machine:
    """Starts share its CPUs evenly with other programs; a start takes CPU time, or hangs."""

    def __init__(
        self, cpus: int, alive: int, work_s: float, hanging: int = 0, others: int = 0
    ) -> None:
        """`others` programs compute all the time; nodes that hang have the first names."""
        self.cpus, self.work_s, self.others = cpus, work_s, others
        names = [f"h{n:04}" for n in range(hanging)] + [f"n{n:04}" for n in range(alive)]
        self.slots = [Slot(talker("", name)) for name in names]
        self.now, self.idle_s, self.busy_s = 1000.0, 0.0, 0.0
        self.done_s: dict[str, float] = {}
        self.came_up_after_s: dict[str, float] = {}
        self.given_up: list[str] = []
        shared = Clients(cpus=cpus, ticks=self._ticks)
        self.is_busy = shared.is_busy
        self.turns = Turns(Pace(shared.first_starts, MAX_STARTING))

    def _ticks(self) -> Ticks:
        return Ticks(round(100 * self.idle_s), round(100 * (self.idle_s + self.busy_s)))

    def _working(self) -> list[Slot]:
        return [s for s in self.rising() if s.endpoint.node.startswith("n")]

    def rising(self) -> list[Slot]:
        return [s for s in self.slots if s.stream and not s.stream.is_greeted]

    def step(self) -> None:
        self.now += STEP_S
        working = self._working()
        programs = len(working) + self.others
        each_s = min(STEP_S, self.cpus * STEP_S / programs) if programs else 0.0
        self.busy_s += programs * each_s
        self.idle_s += self.cpus * STEP_S - programs * each_s
        for slot in working:
            name = slot.endpoint.node
            self.done_s[name] = self.done_s.get(name, 0.0) + each_s
            slot.stream.cpu_s = OWN_START_S + self.done_s[name]
            if self.done_s[name] >= self.work_s:
                slot.stream = _stream(is_greeted=True)
                self.came_up_after_s[name] = self.now - 1000.0
                self.turns.pace.came_up(slot, self.slots)
        for slot in self.rising():
            if self.now - slot.started_at > GREETING_LIMIT_S:
                self.given_up.append(slot.endpoint.node)
                self.done_s.pop(slot.endpoint.node, None)
                slot.stream, slot.due_at = None, self.now + 60.0
        due = self.turns.due(self.slots, self.now, NOBODY)
        places = Places(len(self.slots), len(self.slots))
        is_busy = self.is_busy(self.now)
        for slot in self.turns.starts(self.slots, due, places, self.now, is_busy):
            slot.begin(self.now)
            slot.stream = _stream(is_greeted=False)

    def watch(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP_S)):
            self.step()


@pytest.mark.parametrize(("cpus", "nodes", "work_s"), [(2, 150, 0.6), (1, 90, 0.7), (4, 300, 0.9)])
def test_a_machine_that_is_busy_with_starts_brings_all_of_them_up(
    cpus: int, nodes: int, work_s: float
) -> None:
    """Together they would need longer than each of them may take."""
    machine = Machine(cpus, nodes, work_s)
    machine.watch(1.15 * nodes * work_s / cpus)
    assert machine.given_up == []
    assert len(machine.came_up_after_s) == nodes


def test_what_others_compute_makes_starts_slow_and_gives_none_of_them_up() -> None:
    machine = Machine(cpus=2, alive=80, work_s=0.5, others=12)
    machine.watch(100.0)
    assert machine.given_up == []
    assert len(machine.came_up_after_s) == 80


@pytest.mark.parametrize(("hanging", "others"), [(300, 0), (300, 30)])
def test_nodes_that_hang_in_front_of_all_hold_up_no_other_for_long(
    hanging: int, others: int
) -> None:
    """Whether other programs leave this machine a CPU or not."""
    machine = Machine(cpus=2, alive=50, work_s=0.06, hanging=hanging, others=others)
    machine.watch(40.0)
    assert len(machine.came_up_after_s) == 50


def test_nodes_that_hang_among_others_are_overtaken_on_a_busy_machine() -> None:
    machine = Machine(cpus=2, alive=400, work_s=0.06, hanging=150, others=4)
    Random(5).shuffle(machine.slots)
    machine.watch(60.0)
    assert len(machine.came_up_after_s) == 400


def test_where_cpus_are_idle_as_many_start_as_ever_within_two_seconds() -> None:
    machine = Machine(cpus=2, alive=0, work_s=0.0, hanging=200)
    machine.watch(2.0)
    assert len(machine.rising()) == MAX_STARTING
    machine.watch(YIELD_S + BUSY_LOOK_S)
    assert len(machine.rising()) == 2 * MAX_STARTING


def test_a_machine_of_many_cpus_starts_with_all_of_them() -> None:
    machine = Machine(cpus=32, alive=200, work_s=0.06)
    machine.step()
    assert len(machine.rising()) == MAX_STARTING
