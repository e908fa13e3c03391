"""Writing beside the work: a place that hangs, fails, is too slow or is healthy."""

from __future__ import annotations

import threading

import pytest

from gpumon.base.writing_thread import WritingThread

WAIT_S = 60.0


class Place:
    """Notes what is written; hangs or fails where it is told to."""

    def __init__(self):
        self.said = []
        self.tried = threading.Semaphore(0)
        self.may = threading.Event()
        self.may.set()
        self.error = None

    def writes(self, word):
        def write():
            self.tried.release()
            assert self.may.wait(WAIT_S)
            if self.error is not None:
                raise self.error
            self.said.append(word)

        return write


@pytest.fixture
def place():
    one = Place()
    yield one
    one.may.set()


def test_no_thread_begins_before_there_is_something_to_write(place):
    one = WritingThread("t")
    assert one._thread is None
    assert one.close(WAIT_S)
    assert not one.take(place.writes("late"))
    assert place.said == []


def test_all_is_written_in_order_and_the_end_last(place):
    one = WritingThread("t", end=place.writes("let go"))
    for word in "abc":
        assert one.take(place.writes(word))
    assert one.close(WAIT_S, place.writes("end"))
    assert place.said == ["a", "b", "c", "end", "let go"]
    assert one.error is None


def test_what_finds_no_room_beside_a_place_that_hangs_is_counted(place):
    """Room for 3 tasks and 10 units; what is under way counts, one alone is always taken."""
    place.may.clear()
    one = WritingThread("t")
    for cost, is_taken in ((50, True), (1, False)):
        assert one.take(place.writes(cost), (1, cost), (3, 10)) is is_taken
    assert not one.settle(0.0)
    place.may.set()
    assert one.settle(WAIT_S)
    place.may.clear()
    taken = [one.take(place.writes(cost), (1, cost), (3, 10)) for cost in (4, 4, 4, 1, 1)]
    assert taken == [True, True, False, True, False]
    assert one.dropped == 3
    assert not one.close(0.0)
    place.may.set()
    assert one.join(WAIT_S)
    assert place.said == [50, 4, 4, 1]


def test_only_the_newest_of_what_replaces_each_other_is_written(place):
    place.may.clear()
    one = WritingThread("t")
    assert one.take(place.writes("first"), is_newest_only=True)
    assert place.tried.acquire(timeout=WAIT_S)
    assert one.take(place.writes("kept"))
    for word in ("second", "third"):
        assert one.take(place.writes(word), is_newest_only=True)
    place.may.set()
    assert one.close(WAIT_S)
    assert place.said == ["first", "kept", "third"]
    assert one.dropped == 0


def test_the_first_error_ends_it_where_nothing_is_tried_again(place):
    place.error = OSError(28, "No space left on device")
    one = WritingThread("t", end=place.writes("never"))
    one.take(place.writes("a"))
    assert one.join(WAIT_S)
    assert one.error.strerror == "No space left on device"
    place.error = None
    assert not one.take(place.writes("b"))
    assert one.close(WAIT_S, place.writes("end"))
    assert place.said == []


def test_what_failed_stays_the_first_and_is_tried_with_more_and_at_the_end(place):
    place.error = OSError(30, "Read-only file system")
    one = WritingThread("t", retry_s=WAIT_S * 60)
    one.take(place.writes("a"))
    assert one.settle(WAIT_S)
    one.take(place.writes("b"))
    assert one.settle(WAIT_S)
    assert one.error.strerror == "Read-only file system"
    place.error = None
    assert one.close(WAIT_S)
    assert place.said == ["a", "b"]
    assert one.error is None


def test_an_end_that_fails_once_more_is_the_end(place):
    place.error = OSError(30, "Read-only file system")
    one = WritingThread("t", retry_s=WAIT_S * 60)
    one.take(place.writes("a"))
    assert one.close(WAIT_S)
    assert one.error.strerror == "Read-only file system"


def test_an_error_of_any_kind_is_one_of_the_system_in_words(place):
    place.error = ValueError("Out of range")
    one = WritingThread("t")
    one.take(place.writes("a"))
    assert one.join(WAIT_S)
    assert one.error.strerror == "ValueError: Out of range"


def test_how_long_a_task_is_under_way_is_known(place):
    place.may.clear()
    now = [100.0]
    one = WritingThread("t", now=lambda: now[0])
    assert one.busy_s == 0.0
    one.take(place.writes("a"))
    assert place.tried.acquire(timeout=WAIT_S)
    now[0] = 142.0
    assert one.busy_s == 42.0
    place.may.set()
    assert one.settle(WAIT_S)
    assert one.busy_s == 0.0
