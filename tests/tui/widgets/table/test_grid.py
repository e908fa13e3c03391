"""The table: its cursor keeps to a row, and only what is visible is ever computed."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import pytest
from textual.app import App

from gpumon.report.facts.columns import Column
from gpumon.report.facts.tick_index import Digest
from gpumon.report.text.cells import Cell
from gpumon.tui.look.map_theme import MAP_DARK
from gpumon.tui.look.theme import ThemeStyles
from gpumon.tui.widgets.table.grid import Grid, Plan
from tests.worlds.tick import finding, job_with_gpus, tick


class Row(NamedTuple):
    key: str
    rank: float


class GridApp(App[None]):
    """A table of numbers alone on the screen."""

    def __init__(self) -> None:
        super().__init__()
        self.look = ThemeStyles(
            {**MAP_DARK, **self.get_css_variables(),
             "tone-strong": "#ffffff", "tone-dim": "#777777",
             "tone-past": "#777777", "cursor": "#333333", "bar": "#222222"},
            has_colour=True,
        )  # fmt: skip
        self.typed_s = self.heard_s = -inf
        self.computed: list[str] = []
        self.sort_keys: list[str] = []

        def cell(_digest, row):
            self.computed.append(row.key)
            return Cell(f"{row.key} {row.rank:g}")

        def order(_digest, row):
            self.sort_keys.append(row.key)
            return (row.rank,)

        columns = (Column("rank", "RANK", 20, "left", 0, cell, order, "Its rank."),)
        plan = Plan(columns, lambda row: row.key, lambda _d, row: (row.rank,), lambda _d, r: r.key)
        self.grid: Grid[Row] = Grid(lambda: plan)
        # Time stands still, so that no slice ends: on a busy machine rows would come later.
        self.grid.slices.clock = lambda: 0.0

    def compose(self):
        yield self.grid


def rows(count, offset=0):
    return [Row(f"r{i}", float((i + offset) % count)) for i in range(count)]


def drawn(app):
    return [app.grid.render_line(y).text.strip() for y in range(app.grid.size.height)]


async def test_ten_thousand_rows_cost_what_is_visible():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        digest = Digest(tick())
        app.grid.show(digest, rows(10_000))
        await pilot.pause()
        assert len(app.computed) <= 24
        app.computed.clear()
        app.grid.move_to_end()
        await pilot.pause()
        assert drawn(app)[-1] == "r9999 9999"
        assert len(app.computed) <= 24


async def test_sort_keys_are_computed_once_per_tick():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(500))
        app.grid.sort_by("rank")
        app.sort_keys.clear()
        app.grid.show(Digest(tick()), rows(500))
        await pilot.pause()
        assert len(app.sort_keys) == 500


async def test_an_untouched_cursor_stays_on_top_a_moved_one_follows_its_row():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        app.grid.show(Digest(tick()), rows(100, offset=50))
        assert app.grid.current.key == "r50"
        app.grid.move_by(2)
        assert app.grid.current.key == "r52"
        app.grid.show(Digest(tick()), rows(100))
        assert app.grid.current.key == "r52"
        await pilot.pause()
        assert any(line.startswith("r52") for line in drawn(app))


class LedApp(GridApp):
    """Rows whose order at first is led by one of two columns; a third is hidden."""

    def __init__(self, *, is_rising: bool) -> None:
        super().__init__()

        def column(key, is_hidden=False):
            return Column(
                key, key.upper(), 6, "left", 0, lambda _d, row: Cell(f"{row.rank:g}"),
                lambda _d, row: (row.rank,), "A number.", is_hidden=is_hidden,
            )  # fmt: skip

        sign = 1 if is_rising else -1
        plan = Plan(
            (column("name"), column("lost"), column("extra", is_hidden=True)),
            lambda row: row.key,
            lambda _d, row: (sign * row.rank,),
            lambda _d, row: row.key,
            led_by="lost",
            is_rising=is_rising,
        )
        self.grid = Grid(lambda: plan)
        self.grid.slices.clock = lambda: 0.0


@pytest.mark.parametrize(("is_rising", "signs"), [(False, "▼▲"), (True, "▲▼")])
async def test_the_titles_tell_the_order_at_first_too(is_rising, signs):
    app = LedApp(is_rising=is_rising)
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(5))
        await pilot.pause()
        assert drawn(app)[0].split() == ["NAME", f"LOST{signs[0]}"]
        app.grid.reverse()
        assert drawn(app)[0].split() == ["NAME", f"LOST{signs[1]}"]
        app.grid.sort_by("name")
        assert drawn(app)[0].split() == ["NAME▲", "LOST"]


async def test_a_hidden_column_that_rows_are_sorted_by_is_shown():
    app = LedApp(is_rising=False)
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(5))
        app.grid.sort_by("extra")
        await pilot.pause()
        assert drawn(app)[0].split() == ["NAME", "LOST", "EXTRA▲"]
        assert [column.key for column in app.grid.table[0]] == ["name", "lost", "extra"]
        app.grid.sort_by(None)
        assert drawn(app)[0].split() == ["NAME", "LOST▼"]


async def test_who_scrolled_away_is_not_pulled_back_by_a_tick():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        app.grid.move_to(1)
        app.grid.scroll_to(y=50, animate=False)
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        assert drawn(app)[1] == "r50 50"
        app.grid.move_by(1)
        assert app.grid.current.key == "r2"
        assert drawn(app)[1] == "r2 2"


async def test_a_row_that_vanishes_leaves_the_cursor_where_it_was():
    app = GridApp()
    async with app.run_test(size=(40, 12)):
        app.grid.show(Digest(tick()), rows(10))
        app.grid.move_to(9)
        app.grid.show(Digest(tick()), rows(10)[:5])
        assert app.grid.current.key == "r4"
        app.grid.show(Digest(tick()), [])
        assert app.grid.current is None


async def test_only_changed_lines_are_drawn_again(monkeypatch):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(8))
        await pilot.pause()
        regions = []
        monkeypatch.setattr(app.grid, "_set_dirty", lambda *r: regions.extend(r))
        app.grid.show(Digest(tick()), rows(8))
        assert regions == []
        changed = rows(8)
        changed[3] = Row("r3", 3.25)
        app.grid.show(Digest(tick()), changed)
        assert [(region.y, region.height) for region in regions] == [(4, 1)]


async def test_the_mark_of_the_cursor_moves_with_its_row(monkeypatch):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(4))
        app.grid.move_to(1)
        await pilot.pause()
        regions = []
        monkeypatch.setattr(app.grid, "_set_dirty", lambda *r: regions.extend(r))
        app.grid.show(Digest(tick()), rows(4, offset=3))
        assert app.grid.current.key == "r1"
        whole = {region.y for region in regions if region.width == app.grid.size.width}
        assert whole == {1, 2}


async def test_mouse():
    app = GridApp()
    seen = []
    async with app.run_test(size=(40, 12), message_hook=seen.append) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        await pilot.click(Grid, offset=(3, 4))
        assert app.grid.current.key == "r3"
        assert not any(isinstance(message, Grid.Opened) for message in seen)
        await pilot.click(Grid, offset=(3, 4))
        assert any(isinstance(message, Grid.Opened) for message in seen)
        await pilot.click(Grid, offset=(3, 0))
        assert app.grid.sorting.key == "rank"
        assert "RANK▲" in drawn(app)[0]
        await pilot.click(Grid, offset=(3, 0))
        assert "RANK▼" in drawn(app)[0]


async def test_the_scrollbar_cuts_no_cell_of_the_last_column(stage):
    found = [job_with_gpus(str(4000 + i), {f"n{i}": 1}, name="pretraining") for i in range(30)]
    views = tuple(view for view, _ in found)
    gpus = [one for _, some in found for one in some]
    reported = (finding("job:4004", summary="waits " * 20),)
    async with stage(tick(views[:5], gpus[:5], findings=reported)) as s:
        assert len(s.line_with("4004")) == 80
        assert s.line_with("4004").endswith("…")
        await s.give(tick(views, gpus, findings=reported))
        assert s.app.screen.grid.show_vertical_scrollbar
        assert s.line_with("4004")[:79].endswith("…")
        await s.give(tick(views[:5], gpus[:5], findings=reported))
        assert len(s.line_with("4004")) == 80
        assert s.line_with("4004").endswith("…")


async def test_fewer_or_more_rows_do_not_lay_the_screen_out_while_the_scrollbar_stays(monkeypatch):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        laid_out = []
        monkeypatch.setattr(app.screen, "_refresh_layout", lambda *_a, **_k: laid_out.append(1))
        app.grid.show(Digest(tick()), rows(50))
        await pilot.pause()
        assert laid_out == []
        assert app.grid.vertical_scrollbar.window_virtual_size == 51
        assert app.grid.max_scroll_y == 51 - 12
        app.grid.show(Digest(tick()), rows(5))
        await pilot.pause()
        assert laid_out
        assert drawn(app)[5:7] == ["r4 4", ""]


async def test_another_order_draws_the_titles_again_and_rows_that_moved(monkeypatch):
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(3))
        await pilot.pause()
        regions = []
        monkeypatch.setattr(app.grid, "_set_dirty", lambda *r: regions.extend(r))
        app.grid.sort_by("rank")
        app.grid.reverse()
        assert {region.y for region in regions} == {0, 1, 3}


async def test_the_screen_knows_of_new_rows_before_the_next_frame():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(3))
        await pilot.pause()
        assert not app.screen._dirty_widgets
        app.grid.show(Digest(tick()), rows(3, offset=1))
        assert app.screen._dirty_widgets == {app.grid}
