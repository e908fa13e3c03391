"""A view is drawn once when it opens, before its first layout, and again in another size."""

from __future__ import annotations

import pytest

from gpumon.tui.screens.base.view import View
from tests.tui.board import board
from tests.tui.test_resize import VIEWS
from tests.worlds.tick import fleet


class Counted:
    """How often each view is drawn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.views: list[str] = []
        draw_whole = View._draw_whole

        def counted(view: View) -> None:
            self.views.append(view.view)
            draw_whole(view)

        monkeypatch.setattr(View, "_draw_whole", counted)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the views that were drawn, in order."""
    return Counted(monkeypatch).views


@pytest.mark.parametrize("view", [name for name in VIEWS if name not in ("filter", "command")])
async def test_a_view_is_drawn_once_when_it_opens(stage, drawn, view):
    async with stage(fleet()) as s:
        *way, key = VIEWS[view]
        await s.press(*way)
        opened_from = s.app.screen
        drawn.clear()
        await s.press(key)
        if s.app.screen is not opened_from:
            assert drawn == [s.app.screen.view]
            lines = s.lines
            s.app.screen.show(s.app.digest)
            await s.press()
            assert s.lines == lines


async def test_another_size_draws_a_view_again_and_the_same_does_not(stage, drawn):
    async with stage(fleet()) as s:
        drawn.clear()
        await s.resize(120, 30)
        assert drawn == ["jobs"]
        await s.resize(120, 30)
        assert drawn == ["jobs"]


async def test_what_came_before_a_view_was_mounted_is_drawn_with_its_first_size(stage, drawn):
    async with stage() as s:
        view = s.app.screen
        drawn.clear()
        view._is_mounted = False
        view.show(None)
        assert drawn == []
        view._is_mounted = True
        view.on_resize(None)
        assert drawn == ["jobs"]


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "on a busy machine"])
async def test_the_first_command_is_spelled_out_as_soon_as_the_list_opens(monkeypatch, is_late):
    if is_late:
        # A slice of work that ends with its first step: the rows come after the view is drawn.
        monkeypatch.setattr("gpumon.tui.widgets.text.time_slices.SLICE_S", -1.0)
    async with board("x") as b:
        opened = b.seen()
        assert any(line.strip().startswith("→ sbatch --gpus=5") for line in opened.lines)
        await b.press("ctrl+l")
        assert b.seen().lines == opened.lines


async def test_a_command_is_spelled_out_only_while_the_table_has_it():
    async with board("x") as b:
        first = next(line for line in b.seen().lines if line.strip().startswith("→"))
        await b.press("slash", *"zzz")
        lines = b.seen().lines
        assert any("None of" in line for line in lines)
        assert not any(line.strip().startswith("→") for line in lines)
        await b.press("escape")
        assert first in b.seen().lines
