"""A view that was closed holds nothing of the fleet, though Textual keeps dead widgets a while."""

from __future__ import annotations

import gc
import weakref

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.tui.widgets.map.fleet_map import HeatMap
from gpumon.tui.widgets.map.rank_chart import RankChart
from gpumon.tui.widgets.table.grid import Grid
from gpumon.tui.widgets.text.reader import Reader
from tests.tui.test_resize import VIEWS
from tests.tui.widgets.table.test_grid import GridApp, rows
from tests.tui.widgets.text.test_time_slices import COUNT, sliced
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
async def test_a_closed_view_lets_go_of_the_picture(stage, view):
    async with stage(fleet()) as s:
        await s.press(*CLOSED[view])
        await s.press("j")
        picture = weakref.ref(s.app.digest)
        dead = await closed(s)
        assert dead
        await s.give(fleet())
        gc.collect()
        assert picture() is None
        for _, widgets in dead:
            for one in widgets:
                if isinstance(one, Grid | HeatMap):
                    assert not one.slices.is_busy
                if isinstance(one, Grid):
                    assert one.shown == (0, 0)
                    assert one.current is None
                if isinstance(one, RankChart):
                    assert one.picture is None
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
