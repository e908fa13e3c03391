"""Which pictures need detectors: those of GPUs that somebody holds, and now and then the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpumon.fleet.sampler.need import FEW_GPUS, FIRST_ROUND_S, LOADED_S, ROUND_S, Need, is_held
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.finding import DetectionReport, Finding
from gpumon.model.records.block import Block, column_for
from tests.worlds.tick import IDLE, finding, fleet, gpu, process, tick

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

FREE = {**IDLE, "process_count": 0.0}
HELD = {**IDLE, "process_count": 1.0}


def machine(at: float = 0.0, values: dict[str, Any] = FREE, **changes: Any) -> Tick:
    """One that no queue lists."""
    return tick((), [gpu("here", 0, FREE), gpu("here", 1, values)], at=at, queue_at=None, **changes)


def report(*findings: Finding) -> DetectionReport:
    return DetectionReport(0.0, findings, (), ())


def needed(need: Need, times: range, said: DetectionReport | None = None, **how: Any) -> list[int]:
    """At which times detectors are needed."""
    return [at for at in times if need.is_there(machine(at, **how), said)]


def test_a_machine_whose_gpus_nobody_holds_needs_none_at_first() -> None:
    assert needed(Need(), range(int(FIRST_ROUND_S))) == []


@pytest.mark.parametrize(
    "held",
    [
        fleet(),
        machine(values=HELD),
        machine(values={**FREE, "process_count": None}),
        tick((), [gpu("here", 0, FREE, stale_s=40.0)], queue_at=None),
        tick((), [gpu("here", 0, FREE, (process("here", 0, 7, None, None),))], queue_at=None),
        tick((), [gpu("here", i, FREE) for i in range(FEW_GPUS + 1)], queue_at=None),
    ],
    ids=["jobs", "process", "hidden", "silent", "listed", "many"],
)
def test_what_somebody_holds_or_nobody_can_tell_of_needs_them_at_once(held: Tick) -> None:
    assert is_held(held)
    assert Need().is_there(held, None)


def test_a_gpu_in_trouble_and_an_event_of_the_driver_need_them_though_nobody_holds_it() -> None:
    assert Need().is_there(machine(values={**FREE, "remap_failure": 1.0}), None)
    quiet = machine()
    column = column_for(CATALOGUE["xid"].kind.is_integer, [79])
    told = Block(("GPU-x/79/kmsg-1",), {"xid": column}, {}, {})
    (node,) = quiet.nodes.values()
    nodes = {node.name: node._replace(blocks={"event": told})}
    assert Need().is_there(quiet._replace(nodes=nodes), None)


def test_they_are_given_back_some_minutes_after_the_last_program_and_needed_with_the_next() -> None:
    need = Need()
    assert needed(need, range(10), values=HELD) == list(range(10))
    assert needed(need, range(10, 2000)) == list(range(10, 9 + int(LOADED_S)))
    assert needed(need, range(2000, 2003), values=HELD) == [2000, 2001, 2002]


def test_a_round_is_made_now_and_then_and_ends_with_its_answer() -> None:
    need, first = Need(), int(FIRST_ROUND_S)
    assert needed(need, range(first + 3)) == [first, first + 1, first + 2]
    answer = report()
    again = first + 3 + int(ROUND_S)
    assert needed(need, range(first + 3, again + 2), answer) == [again, again + 1]
    assert needed(need, range(again + 2, again + 9), report()) == []


def test_what_a_round_finds_keeps_them_at_work_until_it_is_cleared() -> None:
    need, first = Need(), int(FIRST_ROUND_S)
    needed(need, range(first + 1))
    later = range(first + 1, first + 5000)
    assert needed(need, later, report(finding("node:here"))) == list(later)
    cleared = range(later.stop, later.stop + 1000)
    assert needed(need, cleared, report()) == list(cleared)[: int(LOADED_S) - 1]


def test_rounds_go_by_a_clock_that_nobody_sets() -> None:
    need = Need()
    assert not need.is_there(machine(1e9, steady_s=5.0), None)
    assert not need.is_there(machine(2e9, steady_s=6.0), None)
    assert need.is_there(machine(1e9, steady_s=5.0 + FIRST_ROUND_S), None)
