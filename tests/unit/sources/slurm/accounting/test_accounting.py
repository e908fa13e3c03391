"""Ended jobs and running steps on demand: how often they are asked for, what trouble says."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.fault import SourceError
from gpumon.sources.slurm.accounting.accounting import (
    LONGEST_USE_RETRY_S,
    MAX_WINDOW_S,
    PERIOD_S,
    RETRY_S,
    USE_PERIOD_S,
    Accounting,
    explained,
)
from gpumon.sources.slurm.accounting.commands import parse_use
from gpumon.sources.slurm.accounting.usage import EndedList
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.source import SystemClock
from tests.unit.sources.slurm.accounting.test_commands import USE
from tests.worlds.probe import PATIENCE_S, eventually

if TYPE_CHECKING:
    from gpumon.model.records.accounting import StepUsage

EPOCH = 1_800_000_000.0
DAY_S = 86400.0


class StillClock:
    """Moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return EPOCH + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(min(seconds, 0.01))


class StillLedger:
    """A ledger that takes its pretended time, or fails."""

    def __init__(self, clock: StillClock, took_s: float = 0.1) -> None:
        self.windows: list[float] = []
        self.error: SourceError | None = None
        self.is_closed = False
        self.unreadable = 0
        self.took_s = took_s
        self._clock = clock

    def ended(self, window_s: float) -> EndedList:
        self.windows.append(window_s)
        self._clock.seconds += self.took_s
        if self.error is not None:
            raise CommandFailedError(self.error)
        return EndedList((), self.unreadable)

    def running(self, job_id: str) -> tuple[StepUsage, ...]:
        self.windows.append(float(job_id))
        self._clock.seconds += self.took_s
        if self.error is not None:
            raise CommandFailedError(self.error)
        return parse_use(USE) or ()

    def close(self) -> None:
        self.is_closed = True


class Ending(threading.Event):
    """An event before whose clearing the end comes."""

    accounting: Accounting

    def clear(self) -> None:
        self.accounting.close()
        super().clear()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def ledger(clock: StillClock) -> StillLedger:
    return StillLedger(clock)


@pytest.fixture
def accounting(clock: StillClock, ledger: StillLedger) -> Accounting:
    return Accounting("slurm", ledger, clock)


def answered(accounting: Accounting, since: float) -> Any:
    accounting.wish(since)
    accounting.answer()
    (frame,) = accounting.poll()
    return frame.ended


def test_nobody_asks_unless_somebody_wishes(accounting, ledger):
    accounting.answer()
    assert (ledger.windows, accounting.poll()) == ([], [])
    assert not accounting.pending()
    assert accounting.due_in_s() > PERIOD_S


def test_a_wish_is_answered_once(accounting, ledger):
    accounting.wish(EPOCH - DAY_S)
    assert accounting.pending()
    accounting.answer()
    accounting.answer()
    assert ledger.windows == [DAY_S]
    assert not accounting.pending()
    (frame,) = accounting.poll()
    assert (frame.ended.records.since, frame.ended.records.at) == (EPOCH - DAY_S, EPOCH)
    assert frame.ended.errors == ()


def test_the_window_is_bounded(accounting, ledger, clock):
    report = answered(accounting, 0.0)
    assert ledger.windows == [MAX_WINDOW_S]
    assert report.records.since == EPOCH - MAX_WINDOW_S
    clock.seconds += 10 * DAY_S
    answered(accounting, EPOCH + 99 * DAY_S)
    assert ledger.windows[1] == 60.0


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.1, PERIOD_S - 0.1), (30.0, 600.0)])
def test_the_next_question_waits_for_twenty_times_the_last(accounting, ledger, took_s, rest_s):
    ledger.took_s = took_s
    answered(accounting, EPOCH - 60)
    accounting.wish(EPOCH - 60)
    assert accounting.due_in_s() == pytest.approx(rest_s)


def test_failures_are_one_line_and_keep_the_last_answer(accounting, ledger, clock):
    first = answered(accounting, EPOCH - DAY_S)
    ledger.error = SourceError("sacct", "Problem talking to the database: Connection refused")
    clock.seconds += 120
    second = answered(accounting, EPOCH - DAY_S)
    assert second.records == first.records
    (error,) = second.errors
    assert error.where == "accounting"
    assert "slurmdbd" in error.message
    accounting.wish(EPOCH)
    assert accounting.due_in_s() == pytest.approx(2 * PERIOD_S - ledger.took_s)
    ledger.error = None
    clock.seconds += 1000
    assert answered(accounting, EPOCH).errors == ()


def test_after_a_failure_a_person_need_not_wait_but_slurmdbd_is_left_in_peace(
    accounting, ledger, clock
):
    ledger.error = SourceError("sacct", "Problem talking to the database: Connection refused")
    answered(accounting, EPOCH)
    accounting.wish(EPOCH, by_hand=True)
    assert accounting.due_in_s() == pytest.approx(RETRY_S)
    clock.seconds += RETRY_S
    accounting.wish(EPOCH)
    accounting.answer()
    assert len(ledger.windows) == 2
    # A screen's wish, as a stream of documents makes one each second, waits for its turn.
    accounting.wish(EPOCH)
    assert accounting.due_in_s() > 10 * RETRY_S
    ledger.took_s = 20.0
    accounting.wish(EPOCH, by_hand=True)
    clock.seconds += RETRY_S
    accounting.answer()
    accounting.wish(EPOCH, by_hand=True)
    assert accounting.due_in_s() == pytest.approx(20.0)
    clock.seconds += 20.0
    ledger.error, ledger.took_s = None, 0.1
    accounting.answer()
    # An answer that came is not asked for again sooner, however often somebody presses a key.
    accounting.wish(EPOCH, by_hand=True)
    assert accounting.due_in_s() == pytest.approx(PERIOD_S - ledger.took_s)


def test_a_wish_that_failed_is_answered_without_another_one(accounting, ledger, clock):
    ledger.error = SourceError("sacct", "Problem talking to the database: Connection refused")
    answered(accounting, EPOCH - DAY_S)
    assert not accounting.pending()
    ledger.error = None
    clock.seconds += accounting.due_in_s()
    accounting.answer()
    (frame,) = accounting.poll()
    assert frame.ended.errors == ()
    assert frame.ended.records.since == EPOCH - DAY_S
    clock.seconds += DAY_S
    accounting.answer()
    assert len(ledger.windows) == 2


def test_records_left_out_are_said(accounting, ledger):
    ledger.unreadable = 2
    (error,) = answered(accounting, EPOCH - DAY_S).errors
    assert "2 of 2 records could not be read" in error.message


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("ended with status 1: Slurm accounting storage is disabled", "keeps no accounting"),
        ("cannot reach Slurm's controller: Problem talking to the database: x", "(slurmdbd)"),
        ("answered HTTP 200 with an error: Failed connecting to slurmdbd: Unable", "(slurmdbd)"),
        ("gave no answer within 30 s and was stopped", "sacct gave no answer within 30 s"),
    ],
)
def test_trouble_is_explained(said, means):
    error = explained(SourceError("sacct", said, "hint"))
    assert error.where == "accounting"
    assert means in error.message
    assert error.hint


def test_the_thread_answers_wishes_and_ends(ledger):
    accounting = Accounting("slurm", ledger, SystemClock())
    woken = threading.Event()
    accounting.start(woken.set)
    accounting.wish(EPOCH)
    assert woken.wait(PATIENCE_S)
    accounting.close()
    assert ledger.is_closed
    names = [thread.name for thread in threading.enumerate()]
    assert "gpumon accounting slurm" not in names


def test_a_wish_before_the_start_is_answered_after_it(ledger):
    accounting = Accounting("slurm", ledger, SystemClock())
    accounting.wish(EPOCH)
    accounting.start(lambda: None)
    eventually(lambda: not accounting.pending(), "an answer")
    accounting.close()
    assert len(ledger.windows) == 1


def test_running_steps_have_a_beat_of_their_own(accounting, ledger):
    accounting.wish(EPOCH - DAY_S)
    accounting.wish_use("1")
    assert accounting.pending()
    accounting.answer()
    assert not accounting.pending()
    assert ledger.windows == [DAY_S, 1.0]
    last = accounting.poll()[-1].ended
    assert last.records is not None
    assert [step.step for step in last.running.steps["1"]] == ["extern", "batch", "0"]
    accounting.wish_use("1")
    assert accounting.due_in_s() == pytest.approx(USE_PERIOD_S - ledger.took_s)
    accounting.answer()
    assert len(ledger.windows) == 2


def test_trouble_with_steps_leaves_the_ended_jobs_as_they_are(accounting, ledger, clock):
    answered(accounting, EPOCH - DAY_S)
    ledger.error = SourceError("sstat", "is refused: getting StepId=1.0: Invalid user id")
    accounting.wish_use("1")
    accounting.answer()
    (frame,) = accounting.poll()
    assert frame.ended.records is not None
    assert frame.ended.running is None
    (error,) = frame.ended.errors
    assert "only to its owner" in error.message
    clock.seconds += DAY_S
    accounting.answer()
    assert ledger.windows == [DAY_S, 1.0]


def test_steps_that_nobody_tells_of_are_asked_for_ever_more_seldom(accounting, ledger, clock):
    ledger.error = SourceError("sstat", "couldn't get steps for job 1")
    accounting.wish_use("1")
    while clock.seconds < DAY_S:
        clock.seconds += max(0.0, accounting.due_in_s())
        accounting.answer()
    assert len(ledger.windows) == pytest.approx(DAY_S / LONGEST_USE_RETRY_S, abs=6)
    assert "less and less often" in accounting.poll()[-1].ended.errors[0].hint


def test_a_wish_for_steps_that_failed_is_answered_without_another_one(accounting, ledger, clock):
    ledger.error = SourceError("sstat", "gave no answer within 30 s and was stopped")
    accounting.wish_use("1")
    accounting.answer()
    assert not accounting.pending()
    (frame,) = accounting.poll()
    assert frame.ended.running is None
    assert accounting.due_in_s() == pytest.approx(2 * USE_PERIOD_S - ledger.took_s)
    clock.seconds += accounting.due_in_s()
    accounting.answer()
    assert accounting.due_in_s() == pytest.approx(4 * USE_PERIOD_S - ledger.took_s)
    ledger.error = None
    clock.seconds += accounting.due_in_s()
    accounting.answer()
    last = accounting.poll()[-1].ended
    assert (last.errors, list(last.running.steps)) == ((), ["1"])
    clock.seconds += DAY_S
    accounting.answer()
    assert len(ledger.windows) == 3


def test_steps_of_another_job_take_the_place_of_those_that_failed(accounting, ledger, clock):
    ledger.error = SourceError("sstat", "couldn't get steps for job 1")
    accounting.wish_use("1")
    accounting.answer()
    ledger.error = None
    accounting.wish_use("2")
    clock.seconds += accounting.due_in_s()
    accounting.answer()
    assert ledger.windows == [1.0, 2.0]


def test_an_error_of_gpumons_own_is_told_and_later_wishes_are_answered(
    accounting, ledger, clock, monkeypatch
):
    def stumble(window_s):
        raise TypeError("unexpected")

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "ended", stumble)
        found = answered(accounting, EPOCH - DAY_S)
    assert "unexpected" in found.errors[0].message
    assert not accounting.pending()
    clock.seconds += accounting.due_in_s()
    assert not answered(accounting, EPOCH - DAY_S).errors


def test_an_end_just_before_the_next_wait_is_not_slept_over(accounting, clock, monkeypatch):
    waits: list[float] = []

    def wait(event: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        return event.is_set()

    monkeypatch.setattr(clock, "wait", wait)
    accounting._stir = ending = Ending()
    ending.accounting = accounting
    accounting.run()
    assert waits == []
