"""A Textual of another version, without a private part that gpumon tidies up."""

from __future__ import annotations

from textual import _styles_cache

from gpumon.tui.screens.page import Page
from tests.ticks import fleet


async def test_a_view_is_left_where_there_is_no_cache_of_styles(stage, monkeypatch):
    async with stage(fleet()) as s:
        await s.press("question_mark")
        assert isinstance(s.app.screen, Page)
        monkeypatch.delattr(_styles_cache, "StylesCache")
        await s.press("escape")
        assert not isinstance(s.app.screen, Page)
