"""Long work is cut into slices, and comes to the same end as done at once."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import pytest

from gpumon.report.facts.columns import arranged
from gpumon.report.facts.tick_index import Digest
from gpumon.tui.widgets.table.arranging import (
    EACH,
    RUN,
    containing_steps,
    passing_steps,
    sorted_steps,
)
from gpumon.tui.widgets.text.time_slices import GAP_S, HUSH_S, SLICE_S, STARVED_S, Slices
from tests.tui.widgets.table.test_grid import GridApp, drawn, rows
from tests.worlds.steps import outcome
from tests.worlds.tick import tick


class Later:
    """Keeps what is to be called later; its clock ends a slice after so many looks."""

    def __init__(self, readings=2):
        self.waiting = []
        self._readings = readings
        self._now_s = 0.0

    def __call__(self, _delay_s, call):
        self.waiting.append(call)

    def clock(self):
        self._now_s += SLICE_S / self._readings * 1.01
        return self._now_s

    def turn(self):
        """What waits is called, which may have something wait again; whether there was any."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()
        return bool(waiting)

    def all_turns(self):
        while self.turn():
            pass


def steps(count, done):
    for number in range(count):
        done.append(number)
        yield


def test_no_slice_begins_while_a_key_is_being_answered_unless_keys_never_end():
    delays, waiting, now, done = [], [], [1.0], []

    def later(delay_s, call):
        delays.append(delay_s)
        waiting.append(call)

    typed = [0.0]
    slices = Slices(later, lambda: now[0], lambda: typed[0])
    slices.run(((done.append(n), True)[1] for n in range(4)), lambda: None)
    assert (done, delays) == ([0], [GAP_S])
    now[0] = typed[0] = 1.01
    waiting.pop()()
    assert (done, delays) == ([0], [GAP_S, pytest.approx(HUSH_S)])
    now[0] += 2 * HUSH_S
    waiting.pop()()
    assert done == [0, 1]
    now[0] = typed[0] = now[0] + 2 * STARVED_S
    waiting.pop()()
    assert done == [0, 1, 2]


def test_what_a_key_waits_for_goes_on_until_a_part_is_shown_or_another_key_comes():
    delays, waiting, now, typed, done = [], [], [1.0], [1.0], []

    def later(delay_s, call):
        delays.append(delay_s)
        waiting.append(call)

    def work():
        for number in range(9):
            done.append(number)
            now[0] += SLICE_S * 1.01
            yield number == 3

    slices = Slices(later, lambda: now[0], lambda: typed[0])
    slices.run(work(), lambda: None, is_answer=True)
    waiting.pop()()
    assert (done, delays) == ([0, 1], [GAP_S] * 2)
    typed[0] = now[0]
    waiting.pop()()
    assert done == [0, 1]
    assert delays[-1] == pytest.approx(HUSH_S)
    typed[0] = 1.0
    waiting.pop()()
    waiting.pop()()
    assert done == [0, 1, 2, 3]
    typed[0] = now[0]
    waiting.pop()()
    assert done == [0, 1, 2, 3]


def test_a_slice_ends_with_the_step_in_which_something_was_typed():
    now, heard, done, waiting = [1.0], [0.5], [], []

    def work():
        for number in range(6):
            done.append(number)
            now[0] += SLICE_S / 9
            if number == 2:
                heard[0] = now[0]
            yield

    def later(_delay_s, call):
        waiting.append(call)

    slices = Slices(later, lambda: now[0], heard_s=lambda: heard[0])
    slices.run(work(), lambda: None)
    assert done == [0, 1, 2]
    # What was typed has had its turn by then, or is no key.
    waiting.pop()()
    assert done == [0, 1, 2, 3, 4, 5]
    assert not slices.is_busy


def test_what_nobody_waits_for_begins_later():
    later, done = Later(readings=9), []
    slices = Slices(later, later.clock)
    slices.run_later(steps(3, done), lambda: None)
    assert slices.is_busy
    assert done == []
    later.all_turns()
    assert done == [0, 1, 2]


def test_a_slice_ends_in_time_and_the_rest_follows_later():
    later, done, pauses = Later(readings=2), [], []
    slices = Slices(later, later.clock)
    slices.run(steps(5, done), lambda: pauses.append(len(done)))
    assert done == [0, 1]
    assert slices.is_busy
    later.all_turns()
    assert done == [0, 1, 2, 3, 4]
    assert pauses == [2, 4]
    assert not slices.is_busy


def test_what_is_short_is_done_at_once():
    later, done = Later(readings=9), []
    slices = Slices(later, later.clock)
    slices.run(steps(3, done), lambda: None)
    assert done == [0, 1, 2]
    assert not slices.is_busy
    assert later.waiting == []


def test_new_work_takes_the_place_of_what_is_under_way():
    later, old, new = Later(readings=1), [], []
    slices = Slices(later, later.clock)
    slices.run(steps(9, old), lambda: None)
    slices.run(steps(2, new), lambda: None)
    later.all_turns()
    assert (old, new) == ([0], [0, 1])


def test_the_rest_can_be_had_at_once():
    later, done = Later(readings=1), []
    slices = Slices(later, later.clock)
    slices.run(steps(4, done), lambda: None)
    slices.finish()
    assert done == [0, 1, 2, 3]
    later.all_turns()
    assert done == [0, 1, 2, 3]


def test_news_end_a_slice_before_its_time():
    later, pauses = Later(readings=99), []
    slices = Slices(later, later.clock)
    slices.run(iter([False, True, False, False]), lambda: pauses.append(len(later.waiting)))
    assert pauses == [0]
    assert slices.is_busy
    later.all_turns()
    assert not slices.is_busy


def test_paused_work_waits_until_it_may_begin():
    later, done = Later(readings=1), []
    slices = Slices(later, later.clock)
    slices.run(steps(4, done), lambda: None)
    slices.pause()
    later.all_turns()
    assert done == [0]
    slices.begin()
    slices.begin()
    assert done == [0, 1]
    later.all_turns()
    assert done == [0, 1, 2, 3]


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("count", [0, 1, EACH, EACH + 1, 2 * RUN + EACH + 7])
def test_sorting_in_steps_keeps_ties_and_puts_missing_last(count, is_descending):
    chance = random.Random(3)
    given = [(chance.choice((1.0, 2.0, 3.0, None)), number) for number in range(count)]

    def order(row):
        return None if row[0] is None else (row[0],)

    assert outcome(sorted_steps(given, order, is_descending)) == arranged(
        given, order, is_descending
    )


def test_filtering_in_steps_keeps_the_order():
    found = []
    outcome(passing_steps(range(3 * EACH + 1), lambda row: row % 3 == 0, found))
    assert found == list(range(0, 3 * EACH + 1, 3))


@pytest.mark.parametrize("known", [0, 1, 2 * EACH, 3 * EACH + 1])
def test_looking_for_a_word_in_steps_keeps_the_order_and_every_text(known):
    rows_given = range(3 * EACH + 1)
    texts, made, found = list(map(str, rows_given[:known])), [], []

    def text_of(row):
        made.append(row)
        return str(row)

    outcome(containing_steps(rows_given, texts, text_of, "7", found))
    assert found == [row for row in rows_given if "7" in str(row)]
    assert texts == list(map(str, rows_given))
    assert made == list(rows_given[known:])


def sliced(app):
    """Make the table pause after each step, and have it go on only when a test says so."""
    later = Later(readings=1)
    app.grid.slices = Slices(later, later.clock)
    return later


COUNT = 8 * EACH


@asynccontextmanager
async def whole_table():
    """A table all of whose rows are shown, and its pilot."""
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(COUNT))
        app.grid.slices.finish()
        await pilot.pause()
        yield app, pilot


async def test_a_filter_shows_its_first_screenful_before_it_has_seen_every_row():
    async with whole_table() as (app, pilot):
        later = sliced(app)
        app.grid.set_needle("5")
        await pilot.pause()
        assert app.grid.is_counting
        assert drawn(app)[1:4] == ["r5 5", "r15 15", "r25 25"]
        later.all_turns()
        assert not app.grid.is_counting
        passing = [row for row in rows(COUNT) if "5" in row.key]
        assert app.grid.shown == (len(passing), COUNT)
        assert app.grid.table[1] == passing


async def test_a_filter_shows_its_finds_from_the_first_on_wherever_the_cursor_was():
    async with whole_table() as (app, pilot):
        app.grid.move_to(COUNT - 5)
        later = sliced(app)
        app.grid.set_needle("5")
        await pilot.pause()
        assert app.grid.is_counting
        assert drawn(app)[1:4] == ["r5 5", "r15 15", "r25 25"]
        later.all_turns()
        await pilot.pause()
        assert app.grid.current.key == "r5"
        assert drawn(app)[1:4] == ["r5 5", "r15 15", "r25 25"]


async def test_the_first_finds_are_shown_before_there_is_a_screenful():
    async with whole_table() as (app, pilot):
        later = sliced(app)
        app.grid.set_needle("77")
        await pilot.pause()
        assert app.grid.is_counting
        assert drawn(app)[1:4] == ["r77 77", "r177 177", ""]
        assert app.grid.show_vertical_scrollbar
        later.all_turns()
        await pilot.pause()
        passing = [row for row in rows(COUNT) if "77" in row.key]
        assert app.grid.table[1] == passing
        assert app.grid.virtual_size.height == len(passing) + 1


async def test_few_finds_that_are_all_leave_no_scrollbar():
    async with whole_table() as (app, pilot):
        later = sliced(app)
        app.grid.set_needle("r177")
        later.all_turns()
        await pilot.pause()
        assert drawn(app)[1:3] == ["r177 177", "r1770 1770"]
        assert app.grid.virtual_size.height == len(app.grid.rows) + 1


async def test_the_first_finds_wait_for_a_screenful_where_the_cursor_is_on_another_find():
    async with whole_table() as (app, _):
        app.grid.move_to(377)
        later = sliced(app)
        app.grid.set_needle("77")
        assert app.grid.current.key == "r377"
        assert len(app.grid.rows) == COUNT
        later.all_turns()
        assert app.grid.current.key == "r377"


async def test_a_cursor_goes_back_to_its_row_with_the_filter_unless_it_was_moved():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        app.grid.move_to(60)
        app.grid.set_needle("5")
        app.grid.set_needle("55")
        assert app.grid.current.key == "r55"
        app.grid.show(Digest(tick()), rows(100))
        app.grid.set_needle("")
        assert app.grid.current.key == "r60"
        app.grid.set_needle("7")
        app.grid.move_by(1)
        app.grid.set_needle("")
        assert app.grid.current.key == "r17"


async def test_a_cursor_among_the_first_finds_keeps_to_its_row():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        app.grid.move_to(25)
        app.grid.set_needle("5")
        assert app.grid.current.key == "r25"


async def test_ticks_do_not_keep_slow_work_from_coming_to_an_end():
    app = GridApp()
    async with app.run_test(size=(40, 12)):
        later = sliced(app)
        app.grid.show(Digest(tick()), rows(COUNT))
        for offset in range(1, 30):
            app.grid.show(Digest(tick()), rows(COUNT, offset))
            later.turn()
        assert app.grid.shown == (COUNT, COUNT)
        later.all_turns()
        assert app.grid.current.key == f"r{COUNT - 29}"


async def test_rows_of_a_large_fleet_are_looked_at_after_the_tick_has_come():
    app, scrolled = GridApp(), []

    def given(offset):
        def made():
            scrolled.append(offset)
            return rows(COUNT, offset)

        return made

    async with app.run_test(size=(40, 12)):
        app.grid.show(Digest(tick()), given(0), is_large=True)
        app.grid.slices.finish()
        later = sliced(app)
        digest = Digest(tick())
        app.grid.show(digest, given(1), is_large=True)
        assert scrolled == [0]
        later.all_turns()
        assert scrolled == [0, 1]
        # The same tick once more: a key has asked for it.
        app.grid.show(digest, given(2), is_large=True)
        assert scrolled == [0, 1, 2]


async def test_a_sort_asked_for_while_a_tick_is_arranged_holds_for_the_newest_tick():
    app = GridApp()
    async with app.run_test(size=(40, 12)):
        later = sliced(app)
        app.grid.show(Digest(tick()), rows(COUNT))
        app.grid.show(Digest(tick()), rows(COUNT, 1))
        app.grid.sort_by("rank")
        app.grid.reverse()
        later.all_turns()
        assert app.grid.table[1] == sorted(rows(COUNT, 1), key=lambda row: -row.rank)


async def test_a_key_is_answered_with_the_tick_at_hand_while_a_newer_one_is_put_in_order():
    async with whole_table() as (app, pilot):
        later = sliced(app)
        app.grid.show(Digest(tick()), rows(COUNT, 1))
        app.grid.set_needle("r5")
        # A step of the newer tick, whose order would take many, and one that finds a screenful.
        assert later.turn()
        await pilot.pause()
        assert drawn(app)[1:3] == ["r5 5", "r50 50"]
        later.all_turns()
        assert app.grid.current.key == "r5"
        assert drawn(app)[1:3] == ["r5 6", "r50 51"]


async def test_a_whole_answer_is_painted_before_a_newer_tick_is_put_in_order():
    async with whole_table() as (app, pilot):
        app.grid.set_needle("r5")
        app.grid.slices.finish()
        later = Later(readings=9_999)
        app.grid.slices = Slices(later, later.clock)
        app.grid.show(Digest(tick()), rows(COUNT, 1), is_large=True)
        app.grid.set_needle("")
        await pilot.pause()
        assert app.grid.shown == (COUNT, COUNT)
        assert app.grid.slices.is_busy
        assert drawn(app)[1:3] == ["r0 0", "r1 1"]
        later.all_turns()
        assert drawn(app)[1:3] == ["r1999 0", "r0 1"]


async def test_a_covered_table_rests_and_goes_on_once_it_is_painted_again():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        later = sliced(app)
        app.grid.show(Digest(tick()), rows(COUNT))
        app.grid.cover()
        later.all_turns()
        assert app.grid.shown == (0, 0)
        app.grid.uncover()
        await pilot.pause()
        later.all_turns()
        assert app.grid.shown == (COUNT, COUNT)
