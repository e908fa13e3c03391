"""Pictures of the past are kept in bounded memory, and found by time and by steps."""

from __future__ import annotations

from gpumon.fleet.replay.remembered_ticks import Tape, tick_bytes
from tests.worlds.tick import AT, fleet, tick


def filled(seconds: int, max_bytes: int = 2**30, step: int = 1) -> Tape:
    tape, picture = Tape(max_bytes), tick()
    for second in range(0, seconds + 1, step):
        tape.add(picture._replace(at=AT + second))
    return tape


def test_an_empty_tape_has_nothing():
    tape = Tape()
    assert tape.span is None
    assert tape.at(AT) is None
    assert tape.near(AT, -1) is None


def test_the_last_two_minutes_are_kept_whole_and_older_ones_thinly():
    tape = filled(3 * 3600)
    assert tape.span == (AT + 3600, AT + 10800)
    for second in range(10681, 10801):
        assert tape.at(AT + second + 0.5).at == AT + second
    assert len(tape) == 121 + 48 + 50 + 30


def test_pictures_that_come_rarely_are_not_thinned_further():
    tape = filled(600, step=10)
    assert len(tape) == 61


def test_steps_go_from_picture_to_picture_and_stop_at_the_ends():
    tape = filled(10)
    assert tape.near(AT + 5, -1).at == AT + 4
    assert tape.near(AT + 5.5, -1).at == AT + 5
    assert tape.near(AT + 5, 1).at == AT + 6
    assert tape.near(AT, -1).at == AT
    assert tape.near(AT + 10, 3).at == AT + 10


def test_memory_is_bounded_and_both_ends_are_kept():
    size = tick_bytes(tick())
    tape = filled(600, max_bytes=20 * size)
    assert tape.used_bytes <= 20 * size
    assert tape.span == (AT, AT + 600)
    ages = [AT + 600 - tape.at(AT + second).at for second in range(0, 601, 60)]
    assert ages[-1] == 0
    assert tape.at(AT + 597).at >= AT + 590


def test_a_kept_picture_lets_go_of_the_past_that_it_saw():
    tape = Tape()
    tape.add(fleet()._replace(history=object()))
    assert tape.at(AT).history is None


def test_a_clock_that_was_set_back_begins_anew():
    tape = filled(10)
    tape.add(tick()._replace(at=AT - 100))
    assert tape.span == (AT - 100, AT - 100)
    assert tape.used_bytes == tick_bytes(tick())
