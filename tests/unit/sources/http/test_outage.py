"""When what was reported last is over, as its source fails."""

from __future__ import annotations

import pytest

from gpumon.sources.http.outage import Outage
from tests.worlds.clocks import Hasty

BEGAN = 1000.0


def test_a_second_failure_in_a_row_ends_it_after_two_periods() -> None:
    clock = Hasty(BEGAN)
    outage = Outage()
    outage.read(clock.monotonic())
    clock.time += 10.0
    # One failure alone leaves the next try the time of an answer.
    assert outage.failed(clock.now(), clock.monotonic(), 10.0) == BEGAN + 22.5
    clock.time += 10.01
    assert outage.failed(clock.now(), clock.monotonic(), 10.0) == pytest.approx(BEGAN + 20.0)


def test_a_failure_that_takes_two_periods_ends_it_at_once() -> None:
    clock = Hasty(BEGAN)
    outage = Outage()
    outage.read(clock.monotonic())
    clock.time += 25.0
    over_at = outage.failed(clock.now(), clock.monotonic(), 10.0)
    assert over_at is not None
    assert over_at <= clock.now()


def test_an_answer_in_between_counts_anew_and_nothing_ends_that_never_was() -> None:
    clock = Hasty(BEGAN)
    outage = Outage()
    assert outage.failed(clock.now(), clock.monotonic(), 10.0) is None
    outage.read(clock.monotonic())
    clock.time += 10.0
    outage.failed(clock.now(), clock.monotonic(), 10.0)
    clock.time += 10.0
    outage.read(clock.monotonic())
    clock.time += 10.0
    assert outage.failed(clock.now(), clock.monotonic(), 10.0) == BEGAN + 20.0 + 22.5
