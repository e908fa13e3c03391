"""The picture before the past and detection are opened, for who waits at a terminal."""

from __future__ import annotations

from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.records.ledger import LedgerTotals
from tests.unit.fleet.sampler.test_sampler import Clock, Judge, Past, Script, gpu_frame


class Books:
    """Books that note the times of what they are given."""

    def __init__(self):
        self.booked = []

    def take(self, tick):
        self.booked.append(tick.at)

    def summary(self):
        return LedgerTotals(100.0, 100.0, (), ())

    def close(self):
        pass


def begun(frames, until=101.0, **how):
    """What happens in the beginning, in order: what is opened, and the pictures."""
    clock = Clock()
    told, past, judge, books = [], Past(), Judge(), Books()

    def opening(name, part):
        return lambda: told.append(name) or part

    sampler = Sampler(
        [Script("ssh", clock, frames)],
        clock,
        1.0,
        opening("past", past),
        opening("detection", judge),
        open_ledger=opening("books", books),
    )

    def on_wait(now):
        if now >= until:
            sampler.close()

    clock.on_wait = on_wait
    sampler.start(told.append, **how)
    sampler._thread.join(10)
    return told, past, judge, books


def test_what_has_been_said_already_is_shown_before_anything_is_opened():
    frames = [gpu_frame("gpu01", 100.0, power_w=[300.0])]
    told, past, judge, books = begun(frames, shows_early=True)
    early, *opened, first = told
    assert opened == ["detection", "past", "books"]
    assert [gpu.value("power_w") for gpu in early.gpus.values()] == [300.0]
    assert (early.history, early.ledger, early.findings) == (None, None, ())
    assert first.history == (past.ticks[0],)
    assert first.ledger is not None
    assert first.number > early.number
    assert ([tick.at for tick in past.ticks], books.booked, len(judge.submitted)) == (
        [100.0],
        [100.0],
        1,
    )


def test_before_all_have_answered_there_is_nothing_to_show():
    frames = [gpu_frame("gpu01", 100.5, power_w=[300.0])]
    told, *_ = begun(frames, shows_early=True)
    assert told[:3] == ["detection", "past", "books"]


def test_who_keeps_every_picture_gets_none_before_the_first_beat():
    frames = [gpu_frame("gpu01", 100.0, power_w=[300.0])]
    told, *_ = begun(frames)
    assert told[:3] == ["detection", "past", "books"]
    assert len(told) == 4
