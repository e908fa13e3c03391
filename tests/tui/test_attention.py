"""What counts as new: found after the last key before an absence, never what was there first."""

from __future__ import annotations

from gpumon.model.finding import Coverage, Severity
from gpumon.tui.attention import Attention
from tests.worlds.tick import AT, finding, tick

JUDGED = (Coverage("hang", 1, 0, (), "ok"),)
WAITS = (Coverage("hang", 0, 0, (), "waiting"),)


def found(first_seen_s, name="1", severity=Severity.WARNING):
    return finding(f"job:{name}", first_seen=AT + first_seen_s, severity=severity)


def at_tick(attention, at_s, *findings, coverage=JUDGED, now_s=None):
    """A tick so long after the first; whether the bell is to be rung."""
    newest = tick((), findings=findings, coverage=coverage)._replace(at=AT + at_s)
    return attention.take(newest, at_s if now_s is None else now_s)


def test_nothing_is_new_while_keys_come_within_a_minute():
    attention = Attention()
    at_tick(attention, 0)
    for at_s in range(10, 400, 50):
        attention.note_key(at_s)
        assert not at_tick(attention, at_s + 5, found(at_s))
    assert attention.since is None


def test_after_a_minute_without_a_key_what_was_found_after_the_last_one_is_new():
    attention = Attention()
    at_tick(attention, 0)
    at_tick(attention, 20)
    attention.note_key(21)
    at_tick(attention, 80, found(40))
    assert attention.since is None
    at_tick(attention, 81, found(40))
    assert attention.since == AT + 20


def test_it_stays_new_until_the_next_absence_and_keys_do_not_end_it():
    attention = Attention()
    at_tick(attention, 0)
    at_tick(attention, 100)
    attention.note_key(100)
    at_tick(attention, 110)
    attention.note_key(110)
    assert attention.since == AT
    at_tick(attention, 169)
    assert attention.since == AT
    at_tick(attention, 170)
    assert attention.since == AT + 110


def test_an_absence_between_two_ticks_is_seen_when_the_key_comes():
    attention = Attention()
    at_tick(attention, 0)
    at_tick(attention, 7)
    attention.note_key(8)
    attention.note_key(75)
    assert attention.since == AT + 7


def test_what_the_first_looks_found_is_not_new_however_long_they_took():
    attention = Attention()
    at_tick(attention, 0, coverage=())
    attention.note_key(1)
    at_tick(attention, 300, coverage=WAITS)
    at_tick(attention, 330, found(330))
    at_tick(attention, 389, found(330))
    assert attention.since is None
    assert not at_tick(attention, 395, found(330))
    assert attention.since == AT + 330


def test_the_bell_is_rung_once_for_what_is_new_and_grave():
    attention = Attention()
    assert not at_tick(attention, 0, found(-5))
    assert not at_tick(attention, 70, found(-5))
    assert not at_tick(attention, 75, found(-5), found(74, "2", Severity.INFO))
    assert at_tick(attention, 80, found(-5), found(79, "3"))
    assert not at_tick(attention, 85, found(-5), found(79, "3"))
    assert at_tick(attention, 90, found(79, "3"), found(88, "4", Severity.CRITICAL))
    attention.note_key(91)
    assert not at_tick(attention, 92, found(79, "3"), found(88, "4", Severity.CRITICAL))
    assert at_tick(attention, 100, found(79, "3"), found(99, "5"), found(88, "4"))
