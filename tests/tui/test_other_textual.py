"""A Textual of another version, without a private part that gpumon makes use of."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from rich.console import Console
from textual import _styles_cache
from textual._compositor import Compositor, CompositorUpdate
from textual.app import App
from textual.events import Key
from textual.screen import Screen
from textual.widget import Widget

from gpumon.tui.screens.base.page import Page
from gpumon.tui.widgets.table.grid import Grid
from tests.bench.screen import Screen as Shown
from tests.tui.board import board
from tests.worlds.tick import fleet

pytestmark = pytest.mark.slow

SIZE = (100, 24)

KEYS = (
    "j", "G", "g", "s", "slash", "t", "r", "enter", "escape", "enter", "j", "tab", "l", "tab",
    "escape", "tab", "i", "G", "escape", "escape", "f", "escape", "2", "j", "f1", "escape",
)  # fmt: skip
"""Through tables that grow and shrink, maps of ranks, charts that scroll, a page."""

PRIVATE = (
    (Widget, "_check_refresh"),
    (Widget, "_scroll_update"),
    (Screen, "_compositor"),
    (Compositor, "_dirty_regions"),
    (Compositor, "_regions_to_spans"),
    (App, "_check_bindings"),
    (Key, "_set_forwarded"),
)
"""What gpumon makes use of without a promise."""


def hide(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    """Let Textual itself find a part, and no module of gpumon; which of them looked for it."""
    asked: list[str] = []
    found = owner.__getattribute__

    def look_up(self: object, wanted: str) -> Any:
        if wanted == name:
            module = sys._getframe(1).f_globals.get("__name__", "")
            if module.startswith("gpumon."):
                asked.append(module)
                raise AttributeError(f"{wanted} is not in this version")
        return found(self, wanted)

    monkeypatch.setattr(owner, "__getattribute__", look_up)
    return asked


async def drawn(monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]) -> list[Any]:
    """What a terminal shows after each of these keys, of everything that was written to it."""
    shown = Shown(*SIZE)
    console = Console(file=io.StringIO(), color_system="truecolor", force_terminal=True)

    def write(_app: App[int], _screen: object, renderable: object) -> None:
        if isinstance(renderable, CompositorUpdate):
            shown.feed(renderable.render_segments(console).encode())

    with monkeypatch.context() as patched:
        patched.setattr(App, "_display", write)
        screens = []
        async with board(size=SIZE) as b:
            for key in keys:
                await b.press(key)
                screens.append(shown.cells())
        return screens


_usual: list[Any] = []


@pytest.fixture
async def usual(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The screens with every private part, drawn once."""
    if not _usual:
        _usual.extend(await drawn(monkeypatch, KEYS))
    return _usual


@pytest.mark.parametrize(("owner", "name"), PRIVATE)
async def test_without_a_private_part_every_screen_is_the_same(usual, monkeypatch, owner, name):
    asked = hide(monkeypatch, owner, name)
    screens = await drawn(monkeypatch, KEYS)
    assert asked
    for key, now, before in zip(KEYS, screens, usual, strict=True):
        assert now == before, key


async def test_a_view_is_left_where_there_is_no_cache_of_styles(stage, monkeypatch):
    async with stage(fleet()) as s:
        await s.press("question_mark")
        assert isinstance(s.app.screen, Page)
        monkeypatch.delattr(_styles_cache, "StylesCache")
        await s.press("escape")
        assert not isinstance(s.app.screen, Page)


async def test_the_scrollbar_follows_where_textual_alone_can_move_it(stage, monkeypatch):
    hide(monkeypatch, Widget, "_scroll_update")
    async with stage(fleet(), size=(80, 12)) as s:
        await s.press("2")
        grid = s.app.screen.query_one(Grid)
        was = grid.show_vertical_scrollbar, grid.virtual_size.height
        await s.press("slash", *"nothing-has-this-name", "enter")
        assert grid.virtual_size.height == 1 < was[1]
        assert not grid.show_vertical_scrollbar
        await s.press("escape")
        assert (grid.show_vertical_scrollbar, grid.virtual_size.height) == was
