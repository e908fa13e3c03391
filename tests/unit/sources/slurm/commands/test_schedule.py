from __future__ import annotations

import pytest

from gpumon.sources.slurm.commands.schedule import Schedule


def test_asks_at_once_and_then_once_a_period() -> None:
    schedule = Schedule(30.0)
    assert schedule.due_at < 0
    schedule.answered(100.0, 0.1, 100.1)
    assert schedule.due_at == 130.0


def test_rests_twenty_times_as_long_as_the_last_call_took() -> None:
    schedule = Schedule(30.0)
    schedule.answered(100.0, 4.0, 104.0)
    assert schedule.due_at == 184.0
    schedule.answered(200.0, 0.1, 200.1)
    assert schedule.due_at == 230.0


def test_doubles_after_errors_up_to_two_minutes_and_returns_to_normal() -> None:
    schedule = Schedule(30.0)
    waits = []
    for _ in range(4):
        schedule.failed(0.0, 0.1, 0.1)
        waits.append(schedule.due_at)
    assert waits == [60.0, 120.0, 120.0, 120.0]
    schedule.answered(0.0, 0.1, 0.1)
    assert schedule.due_at == 30.0
    schedule.failed(0.0, 0.1, 0.1)
    assert schedule.due_at == 60.0


@pytest.mark.parametrize(("took_s", "due_at"), [(4.0, 84.0), (9.5, 129.5), (30.0, 150.0)])
def test_a_slow_failure_rests_too_but_not_for_ever(took_s: float, due_at: float) -> None:
    schedule = Schedule(30.0)
    schedule.failed(0.0, took_s, took_s)
    assert schedule.due_at == due_at


def test_what_is_asked_second_in_a_round_keeps_the_beat_of_the_round() -> None:
    schedule = Schedule(60.0)
    schedule.answered(100.0, 0.1, 100.2)
    assert schedule.due_at == 160.0
