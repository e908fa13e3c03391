"""A page that opens is laid out for its size once, and the whole of it is painted once."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from textual._compositor import LayoutUpdate
from textual._styles_cache import StylesCache
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from tests.worlds.tick import fleet

if TYPE_CHECKING:
    from textual.geometry import Size


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Views that were painted from the first line to the last, in order."""
    painted: list[str] = []
    display = App._display

    def noted(app: App[int], screen: Any, update: Any) -> None:
        if isinstance(getattr(update, "_update", update), LayoutUpdate):
            painted.append(screen.view)
        display(app, screen, update)

    monkeypatch.setattr(App, "_display", noted)
    return painted


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Views that were laid out for a size, in order."""
    laid_out: list[str] = []
    refresh_layout = Screen._refresh_layout

    def noted(screen: Any, size: Size | None = None, scroll: bool = False) -> None:
        if size is not None:
            laid_out.append(screen.view)
        refresh_layout(screen, size, scroll)

    monkeypatch.setattr(Screen, "_refresh_layout", noted)
    return laid_out


@pytest.mark.parametrize("keys", [("enter",), ("2",), ("f",)], ids="".join)
async def test_the_widgets_of_a_view_that_opens_read_their_styles_once(stage, monkeypatch, keys):
    read: list[Any] = []
    apply = Stylesheet.apply

    def noted(sheet: Stylesheet, node: Any, **options: Any) -> None:
        read.append(node)
        apply(sheet, node, **options)

    monkeypatch.setattr(Stylesheet, "apply", noted)
    async with stage(fleet()) as s:
        read.clear()
        await s.press(*keys)
        # What takes the keys reads them again for that.
        rest = [one for one in s.app.screen.walk_children() if one is not s.app.screen.focused]
        assert len(rest) >= 4
        assert [read.count(one) for one in rest] == [1] * len(rest)


async def test_a_screen_that_its_widgets_cover_makes_no_lines(stage, monkeypatch):
    made: list[Any] = []
    render = StylesCache.render_widget

    def noted(cache: Any, widget: Any, crop: Any) -> Any:
        made.append(widget)
        return render(cache, widget, crop)

    monkeypatch.setattr(StylesCache, "render_widget", noted)
    async with stage(fleet()) as s:
        await s.press("enter")
        assert s.app.screen not in made


@pytest.mark.parametrize(
    ("keys", "view"),
    [(("enter",), "job"), (("2",), "gpus"), (("2", "enter"), "gpu"), (("f",), "findings")],
)
async def test_a_view_that_opens_is_painted_whole_once(stage, whole, sized, keys, view):
    async with stage(fleet()) as s:
        *way, key = keys
        await s.press(*way)
        whole.clear()
        sized.clear()
        await s.press(key)
        assert s.app.screen.view == view
        assert whole == [view]
        assert sized == [view]


async def test_a_view_that_comes_back_is_painted_whole_once(stage, whole, sized):
    async with stage(fleet()) as s:
        await s.press("enter")
        whole.clear()
        sized.clear()
        await s.press("escape")
        assert whole == ["jobs"]
        assert sized == []


@pytest.mark.parametrize("key", ["ctrl+l", "r"])
async def test_who_asks_for_a_whole_screen_gets_it(stage, whole, key):
    """A terminal may have lost what it showed."""
    async with stage(fleet()) as s:
        whole.clear()
        await s.press(key)
        assert "jobs" in whole


@pytest.mark.parametrize("error", [None, OSError(2, "No such file")], ids=["ended", "not found"])
async def test_a_terminal_that_a_shell_gives_back_is_painted_whole(
    stage, whole, monkeypatch, error
):
    """Textual asks for a new layout then (`App.suspend`), and nothing on the terminal is ours."""

    def run(words: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        if error:
            raise error
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(App, "suspend", lambda _: nullcontext())
    async with stage(fleet()) as s:
        await s.press("enter")
        whole.clear()
        await s.press("exclamation_mark")
        assert whole == ["job"]


async def test_another_theme_is_painted_whole(stage, whole):
    async with stage(fleet()) as s:
        whole.clear()
        s.app.next_theme()
        await s.press("down")
        assert "jobs" in whole


async def test_a_prompt_that_opens_and_closes_paints_no_whole_screen(stage, whole):
    async with stage(fleet()) as s:
        whole.clear()
        await s.press("slash", "a", "backspace", "enter")
        assert whole == []


async def test_another_size_and_theme_above_are_those_of_the_view_below(stage):
    async with stage(fleet()) as s:
        await s.press("enter")
        await s.resize(100, 30)
        s.app.next_theme()
        await s.press("escape")
        lines = s.lines
        assert len(lines) == 30
        await s.press("ctrl+l")
        assert s.lines == lines
