"""What happens before the first screen: each thing once."""

from __future__ import annotations

from collections import Counter

import pytest
from textual._styles_cache import StylesCache
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from gpumon.tui.app import GpumonApp
from gpumon.tui.look.saved_choices import Habits
from gpumon.tui.look.themes import SHORT_NAMES
from tests.worlds.tick import fleet


class Feed:
    """Notes when it is started, and hands over nothing by itself."""

    failure = None

    def __init__(self, began):
        self.began = began
        self.on_tick = None

    def start(self, on_tick):
        self.on_tick = on_tick
        self.began()

    def wish(self, wish):
        pass

    def close(self):
        pass


def counting(monkeypatch, done, of, name):
    """Count the calls of a method."""
    method = getattr(of, name)

    def counted(*given, **named):
        done[name] += 1
        return method(*given, **named)

    monkeypatch.setattr(of, name, counted)


@pytest.mark.parametrize("theme", [None, "light", "mono"])
async def test_one_layout_and_one_reading_of_the_styles_make_the_first_screen(monkeypatch, theme):
    done, first = Counter(), []
    counting(monkeypatch, done, Stylesheet, "reparse")
    counting(monkeypatch, done, Screen, "_refresh_layout")
    counting(monkeypatch, done, GpumonApp, "get_css_variables")
    display = GpumonApp._display

    def displayed(app, screen, renderable):
        if renderable is not None and not first:
            first.append(dict(done))
        display(app, screen, renderable)

    monkeypatch.setattr(GpumonApp, "_display", displayed)
    app = GpumonApp(Feed(lambda: None), habits=Habits(theme))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert first == [{"get_css_variables": 1, "_refresh_layout": 1}]
        assert app.theme == SHORT_NAMES[theme or "dark"]
        assert app.current_theme.dark is (theme != "light")
        assert app.has_class("-light-mode") is (theme == "light")
        assert app.stylesheet._variables["cursor"] == app.current_theme.variables["cursor"]


async def test_nothing_is_drawn_by_textuals_rules_of_style(monkeypatch):
    drawn = []
    render = StylesCache.render_widget

    def rendered(cache, widget, crop):
        drawn.append(type(widget).__name__)
        return render(cache, widget, crop)

    monkeypatch.setattr(StylesCache, "render_widget", rendered)
    app = GpumonApp(Feed(lambda: None), "local")
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        assert drawn == []


async def test_sampling_begins_with_the_first_screen_and_once():
    begun = []
    app = GpumonApp(Feed(lambda: begun.append(app.screen.status.text)), "local")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.pause(0.1)
        assert begun == [" waiting for the first sample"]


async def test_what_is_read_beside_the_ticks_is_made_after_the_first_of_them():
    order = []

    def beside():
        order.append("beside")
        return None, "books", None, "cases"

    app = GpumonApp(Feed(lambda: order.append("sampling")), beside=beside)
    assert order == []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert order == ["sampling", "beside"]
        assert (app.stored_ledger, app.cases) == ("books", "cases")


async def test_titles_come_with_the_first_rows():
    feed = Feed(lambda: None)
    app = GpumonApp(feed, "slurm")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        grid = app.screen.grid
        assert grid.render_line(0).text.strip() == ""
        assert "Waiting for the first sample of slurm" in grid.render_line(2).text
        feed.on_tick(fleet())
        await pilot.pause()
        await pilot.pause()
        assert {"NAME", "GPUS"} <= set(grid.render_line(0).text.split())


def views_to_come(tick):
    modules = GpumonApp(Feed(lambda: None)).views.roots_to_come(tick)
    return [module.__name__.rpartition(".")[2] for module in modules]


def test_every_view_of_the_fleet_comes_once():
    names = views_to_come(fleet())
    assert {"gpus", "fleet", "users_accounts"} <= set(names)
    assert len(names) == len(set(names)) == 12


def test_pages_come_before_the_key_that_opens_them():
    assert views_to_come(fleet())[:3] == ["job", "gpu", "node"]


def test_without_a_queue_only_views_that_tab_shows_come():
    tick = fleet()._replace(jobs=(), queue_at=None, targets=())
    assert views_to_come(tick) == ["gpu", "node", "gpus", "nodes", "fleet", "processes"]
