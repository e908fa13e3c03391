"""A sampler that is made when it begins."""

from __future__ import annotations

import threading

import pytest

from gpumon.fleet.sampler.late import LateSampler
from gpumon.model.fault import SourceError
from gpumon.sources.source import Wish
from tests.worlds.probe import PATIENCE_S, eventually


class Real:
    """A sampler that notes what is asked of it."""

    def __init__(self):
        self.asked = []
        self.failure = None
        self.unwritten = SourceError("ledger", "lost", "")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *given, **named: self.asked.append((name, *given, *named.values())) or True


@pytest.fixture
def real():
    return Real()


def begun(real):
    late = LateSampler(lambda: real)
    late.start(print)
    late._thread.join(PATIENCE_S)
    return late


def test_nothing_is_made_before_it_begins(real):
    made = []
    late = LateSampler(lambda: made.append(1) or real)
    late.wish(Wish(period_s=2.0))
    late.mute(1.0, "hang")
    late.renew()
    assert late.acknowledge(("hang", "job:1", "x"), is_known=True) is False
    assert (late.failure, late.unwritten, made) == (None, None, [])


def test_what_was_wished_before_is_passed_on_before_it_samples(real):
    late = LateSampler(lambda: real)
    late.wish(Wish(period_s=2.0))
    late.start(print)
    late._thread.join(PATIENCE_S)
    assert real.asked == [("wish", Wish(period_s=2.0)), ("start", print, True)]


def test_once_it_is_there_everything_goes_to_it(real):
    late = begun(real)
    real.asked.clear()
    late.wish(Wish())
    assert late.acknowledge(("hang", "job:1", "x"), is_known=False) is True
    late.mute(1.0, "hang", "job:1")
    late.renew()
    late.close()
    assert real.asked == [
        ("wish", Wish()),
        ("acknowledge", ("hang", "job:1", "x"), False),
        ("mute", 1.0, "hang", "job:1"),
        ("renew",),
        ("close",),
    ]
    assert late.unwritten is real.unwritten
    real.failure = SourceError("gpumon", "broken", "")
    assert late.failure is real.failure


def test_one_that_cannot_be_made_is_told_and_what_had_begun_is_freed():
    def broken():
        raise OSError(24, "Too many open files")

    freed = []
    late = LateSampler(broken, lambda: freed.append(1))
    late.start(print)
    late._thread.join(PATIENCE_S)
    assert "beginning to sample" in late.failure.message
    assert freed == [1]


def test_what_had_begun_is_freed_where_it_never_samples(real):
    freed = []
    late = LateSampler(lambda: real, lambda: freed.append(1))
    late.close()
    assert freed == [1]
    assert real.asked == []


def test_one_that_is_made_after_the_end_is_closed_and_samples_nothing(real, monkeypatch):
    monkeypatch.setattr("gpumon.fleet.sampler.late.CLOSE_WAIT_S", 0.0)
    may, freed = threading.Event(), []

    def make():
        may.wait(PATIENCE_S)
        return real

    late = LateSampler(make, lambda: freed.append(1))
    late.start(print)
    late.close()
    may.set()
    eventually(lambda: real.asked == [("close",)], "it is closed")
    assert freed == []
