"""Lines that are painted without Textual's rules of style look as with them; so do scrollbars."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.geometry import Region, Size
from textual.messages import Prompt, Update
from textual.widget import Widget

from gpumon.report.facts.tick_index import Digest
from gpumon.report.text.cells import Cell
from gpumon.tui.textual_private.repaint import PlainLines, announce
from gpumon.tui.themed_app import DressedApp
from gpumon.tui.widgets.text.lines import Lines
from tests.tui.widgets.table.test_grid import GridApp, rows
from tests.worlds.tick import fleet, tick


def cells(strips):
    """Characters with their colours and attributes, in lines."""
    return [
        [(char, style) for text, style, _ in strip for char in text]
        for strip in (strip.simplify() for strip in strips)
    ]


def crops(size):
    """The whole, its middle, a line, its left and its right."""
    width, height = size
    yield Region(0, 0, width, height)
    yield Region(0, height // 2, width, 1)
    if width > 4:
        yield Region(1, 0, width - 3, height)
        yield Region(0, 0, width // 2, height)
        yield Region(width // 2, 0, width - width // 2, height)


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("way", [(), ("2",), ("6",), ("enter",), ("enter", "tab")])
async def test_plain_lines_are_those_of_textual(stage, way, is_ascii):
    async with stage(fleet()) as s:
        s.app.draw_ascii(is_ascii)
        await s.press(*way)
        plain = [one for one in s.app.screen.walk_children() if isinstance(one, PlainLines)]
        assert len(plain) >= 3
        for widget in plain:
            for crop in crops(widget.size) if widget.size else ():
                widget._styles_cache.clear()
                theirs = Widget.render_lines(widget, crop)
                ours = widget.render_lines(crop)
                assert [strip.text for strip in ours] == [strip.text for strip in theirs], widget
                assert [strip.cell_length for strip in ours] == [crop.width] * crop.height
                assert cells(ours) == cells(theirs), widget


async def test_a_scrollbar_is_made_of_plain_lines_and_has_none_once_it_is_removed(stage):
    async with stage(fleet(), size=(80, 12)) as s:
        await s.press("2")
        grid = s.app.screen.grid
        bar = grid.vertical_scrollbar
        assert isinstance(bar, PlainLines)
        assert bar.display
        whole = Region(0, 0, *bar.size)
        theirs = Widget.render_lines(bar, whole)
        assert cells(bar.render_lines(whole)) == cells(theirs)
        bar.refresh()
        bar._detach()
        assert {strip.text for strip in bar.render_lines(whole)} == {" "}
        bar._attach(grid)


class Recording(App[None]):
    """Keeps what widgets tell their screen."""

    def compose(self):
        yield Widget()


async def test_a_widget_is_announced_at_once_and_only_where_it_changed(monkeypatch):
    async with Recording().run_test() as pilot:
        widget = pilot.app.screen.query_one(Widget)
        await pilot.pause()
        sent = []
        with monkeypatch.context() as patched:
            patched.setattr(pilot.app.screen, "post_message", sent.append)
            announce(widget)
            assert sent == []
            widget.refresh()
            announce(widget)
        assert [type(message) for message in sent] == [Update]


class Clock(DressedApp):
    """A line of text."""

    def compose(self):
        yield Lines(is_bar=True, id="clock")


async def test_a_line_that_changes_wakes_its_widget_not_at_all_and_its_screen_once(monkeypatch):
    async with Clock().run_test(size=(20, 3)) as pilot:
        line = pilot.app.query_one(Lines)
        line.show_lines([(Cell("12:00:00"),)])
        while pilot.app.screen not in pilot.app.screen._compositor or line._repaint_regions:
            await pilot.pause(0.01)
        sent = []
        with monkeypatch.context() as patched:
            for pump in (line, pilot.app.screen):
                patched.setattr(pump, "post_message", lambda m, pump=pump: sent.append((pump, m)))
            line.show_lines([(Cell("12:00:01"),)])
        assert [(pump, type(message)) for pump, message in sent] == [(pilot.app.screen, Prompt)]
        assert pilot.app.screen._dirty_widgets == {line}
        assert line._repaint_regions == {Region(7, 0, 1, 1)}


async def test_where_the_screen_cannot_be_told_so_the_widget_tells_it(monkeypatch):
    async with Clock().run_test(size=(20, 3)) as pilot:
        line, screen = pilot.app.query_one(Lines), pilot.app.screen
        line.show_lines([(Cell("12:00:00"),)])
        while pilot.app.screen not in pilot.app.screen._compositor or line._repaint_regions:
            await pilot.pause(0.01)
        sent = []
        with monkeypatch.context() as patched:
            patched.delattr(screen, "_dirty_widgets")
            patched.setattr(screen, "post_message", sent.append)
            line.show_lines([(Cell("12:00:01"),)])
        assert [type(message) for message in sent] == [Update]


async def test_all_lines_of_a_frame_look_up_their_width_once(monkeypatch):
    async with GridApp().run_test(size=(60, 12)) as pilot:
        grid = pilot.app.grid
        grid.show(Digest(tick()), rows(8))
        await pilot.pause()
        asked = []
        size = Widget.size
        monkeypatch.setattr(Widget, "size", property(lambda one: asked.append(1) or size.fget(one)))
        few, many = [], []
        for count, found in ((2, few), (8, many)):
            asked.clear()
            grid.render_lines(Region(0, 0, 60, count))
            found += asked
        assert len(few) == len(many)


async def test_more_or_fewer_rows_move_the_scrollbar_without_laying_out_the_screen(monkeypatch):
    async with GridApp().run_test(size=(40, 12)) as pilot:
        grid = pilot.app.grid
        grid.virtual_size = Size(0, 100)
        await pilot.pause()
        assert grid.show_vertical_scrollbar
        assert grid.vertical_scrollbar.window_virtual_size == 100
        laid_out = []
        screen = type(pilot.app.screen)
        lay_out = screen._refresh_layout
        monkeypatch.setattr(
            screen, "_refresh_layout", lambda self, *a, **k: laid_out.append(1) or lay_out(self, *a)
        )
        grid.virtual_size = Size(0, 50)
        await pilot.pause()
        assert grid.vertical_scrollbar.window_virtual_size == 50
        assert laid_out == []
        grid.virtual_size = Size(0, 5)
        await pilot.pause()
        assert not grid.show_vertical_scrollbar


async def test_a_line_is_brought_into_view_with_as_little_scrolling_as_it_takes():
    async with GridApp().run_test(size=(40, 12)) as pilot:
        grid = pilot.app.grid
        grid.virtual_size = Size(0, 101)
        tops = []
        for line in (0, 10, 11, 20, 15, 10, 9, 99):
            moved = grid.bring_into_view(line, 11)
            tops.append((grid.scroll_offset.y, moved))
        assert tops == [
            (0, False), (0, False), (1, True), (10, True), (10, False), (10, False), (9, True),
            (89, True),
        ]  # fmt: skip


async def test_cells_of_rows_in_sight_are_not_made_again_for_another_paint():
    app = GridApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.grid.show(Digest(tick()), rows(100))
        await pilot.pause()
        app.computed.clear()
        app.grid.refresh()
        await pilot.pause()
        assert app.computed == []
