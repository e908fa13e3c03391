"""A call that may never return holds nobody back, and what it comes to is told."""

from __future__ import annotations

import threading

import pytest

from gpumon.base.outcome import Outcome
from tests.worlds.probe import PATIENCE_S


def test_what_is_returned_is_had_once_the_call_has_ended():
    outcome = Outcome(lambda: 7, "seven")
    assert outcome.has_ended(None)
    assert (outcome.get(), outcome.get()) == (7, 7)


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), ValueError("x"), RecursionError()])
def test_what_is_raised_is_raised_to_whoever_asks(error):
    def fail():
        raise error

    outcome = Outcome(fail, "failing")
    assert outcome.has_ended(PATIENCE_S)
    with pytest.raises(type(error)) as told:
        outcome.get()
    assert told.value is error


def test_a_call_that_goes_on_has_no_outcome_yet():
    may = threading.Event()
    outcome = Outcome(lambda: may.wait(PATIENCE_S), "waiting")
    assert not outcome.has_ended()
    assert not outcome.has_ended(0.01)
    with pytest.raises(TimeoutError):
        outcome.get()
    may.set()
    assert outcome.has_ended(PATIENCE_S)
    assert outcome.get() is True
