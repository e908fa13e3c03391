"""A view that was closed holds nothing of the fleet, though Textual keeps dead widgets a while."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.tui.widgets.map.fleet_map import FleetMap
from gpumon.tui.widgets.map.rank_chart import RankChart
from gpumon.tui.widgets.table import release as release_module
from gpumon.tui.widgets.table.arranging import EACH, RUN, sorted_steps
from gpumon.tui.widgets.table.grid import Grid
from gpumon.tui.widgets.table.release import release_steps
from gpumon.tui.widgets.text.reader import Reader
from gpumon.tui.widgets.text.time_slices import Slices
from tests.tui.test_resize import VIEWS
from tests.tui.widgets.table.test_grid import GridApp, Row, rows
from tests.tui.widgets.text.test_time_slices import COUNT, Later, sliced
from tests.worlds.steps import outcome
from tests.worlds.tick import fleet, tick

CLOSED = {
    **{name: keys for name, keys in VIEWS.items() if name not in ("1", "filter", "command")},
    "ranks": ("enter", "tab"),
    "map of ranks": ("enter", "tab", "tab"),
    "curves of a rank": ("enter", "i"),
}


async def closed(s):
    """Leave for the first view; the screens that were open above it, each with its widgets."""
    dead = []
    while len(s.app.screen_stack) > 1:
        screen = s.app.screen
        dead.append((screen, list(screen.walk_children())))
        await s.press("escape")
    return dead


@pytest.mark.parametrize("view", CLOSED)
async def test_a_closed_view_lets_go_of_the_tick(stage, view):
    async with stage(fleet()) as s:
        await s.press(*CLOSED[view])
        await s.press("j")
        held = weakref.ref(s.app.digest)
        dead = await closed(s)
        assert dead
        await s.give(fleet())
        gc.collect()
        assert held() is None
        for _, widgets in dead:
            for one in widgets:
                if isinstance(one, Grid | FleetMap):
                    assert not one.slices.is_busy
                if isinstance(one, Grid):
                    assert one.shown == (0, 0)
                    assert one.current is None
                if isinstance(one, RankChart):
                    assert one.drawing is None
                if isinstance(one, Reader):
                    assert one._lines == ()


async def test_slices_end_with_their_table():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        later = sliced(app)
        app.grid.show(Digest(tick()), rows(COUNT))
        assert app.grid.slices.is_busy
        await app.grid.remove()
        await pilot.pause()
        assert not app.grid.slices.is_busy
        app.sort_keys.clear()
        later.all_turns()
        assert app.sort_keys == []
        assert app.grid.shown == (0, 0)


class Seen:
    """Something that a row holds; how many there are is counted."""

    alive = 0

    def __init__(self) -> None:
        Seen.alive += 1

    def __del__(self) -> None:
        Seen.alive -= 1


def held_rows(count):
    """Rows that nothing but their table holds."""
    made = []
    for row in rows(count):
        made.append(Holding(*row))
        made[-1].seen = Seen()
    return made


class Holding(Row):
    """A row that a tick made for itself."""


@pytest.fixture
def freed_later(monkeypatch):
    """Five rows are freed in one step, and the next step comes when a test says so."""
    monkeypatch.setattr(release_module, "EACH", 5)
    monkeypatch.setattr(Seen, "alive", 0)
    later = Later(readings=1)
    slices = partial(Slices, clock=later.clock)
    monkeypatch.setattr(release_module, "Slices", lambda _later, **_: slices(later))
    return later


def left_by_turn(later):
    """How many rows are there still, then after each turn."""
    found = [Seen.alive]
    while later.turn():
        found.append(Seen.alive)
    return found


async def test_the_rows_of_a_table_that_is_closed_are_freed_in_steps(freed_later):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), held_rows(23))
        await pilot.pause()
        await app.grid.remove()
        await pilot.pause()
        assert app.grid.shown == (0, 0)
        assert left_by_turn(freed_later)[:6] == [23, 18, 13, 8, 3, 0]


async def test_the_rows_of_the_tick_before_are_freed_in_steps(freed_later):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), held_rows(23))
        await pilot.pause()
        app.grid.show(Digest(tick()), rows(3))
        await pilot.pause()
        assert app.grid.shown == (3, 3)
        assert left_by_turn(freed_later)[:6] == [23, 18, 13, 8, 3, 0]


async def test_few_rows_are_freed_at_once(freed_later):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), held_rows(5))
        await pilot.pause()
        app.grid.show(Digest(tick()), rows(3))
        await pilot.pause()
        assert left_by_turn(freed_later) == [0]


async def test_the_rows_of_a_tick_that_never_came_to_be_shown_are_freed_in_steps(freed_later):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(COUNT))
        app.grid.slices.finish()
        await pilot.pause()
        sliced(app)
        given = Digest(tick())
        given.rows_by_node.extend([row] for row in held_rows(23))
        app.grid.show(given, rows(COUNT))
        app.grid.show(Digest(tick()), rows(COUNT))
        del given
        app.grid.reverse()
        assert left_by_turn(freed_later)[:6] == [23, 18, 13, 8, 3, 0]


def test_what_is_there_of_an_order_that_is_broken_off_is_left_to_be_freed_in_steps():
    left = []
    work = sorted_steps(range(3 * RUN), lambda row: (-row,), left=left)
    for _ in range(2 * RUN // EACH + 3):
        next(work)
    work.close()
    assert [len(run) for run in left] == [RUN, RUN]


def test_nothing_is_left_of_an_order_that_is_found():
    left = []
    assert outcome(sorted_steps(range(2 * RUN), lambda row: (row,), left=left)) == list(
        range(2 * RUN)
    )
    assert left == []


def test_lists_and_texts_by_key_are_emptied_from_the_end(freed_later):
    keys, texts = list(range(7)), dict.fromkeys("abcdef", "")
    left = [(len(keys), len(texts)) for _ in release_steps(keys, texts)]
    assert left == [(2, 6), (0, 6), (0, 1), (0, 0)]
