"""Themes and the absence of colours: a state is never told by colour alone."""

from __future__ import annotations

import pytest

from gpumon.report.columns import Tone
from gpumon.tui.app import GpumonApp
from gpumon.tui.theme import THEMES, Look
from tests.ticks import fleet

LEAST_CONTRAST = 4.5
"""WCAG 2.1, success criterion 1.4.3, for text."""
LEAST_ON_CURSOR = 3.0
"""The same criterion for large text: one line, under the user's eye, is marked."""


def luminance(colour):
    parts = (c / 255 for c in colour.get_truecolor())
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", [theme.name for theme in THEMES])
@pytest.mark.parametrize("tone", [tone for tone in Tone if tone is not Tone.PAST])
def test_every_tone_can_be_read_on_the_ground(name, tone):
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.theme = name
    look = Look(app.get_css_variables(), has_colour=True)
    assert contrast(look.tones[tone].color, look.base.bgcolor) >= LEAST_CONTRAST
    assert contrast(look.tones[tone].color, look.cursor.bgcolor) >= LEAST_ON_CURSOR


async def test_a_theme_that_knows_none_of_our_variables_still_works(stage):
    async with stage(fleet()) as s:
        s.app.theme = "textual-light"
        s.app.look = Look(s.app.get_css_variables(), has_colour=True)
        await s.press("j")
        assert "4711" in s.text


async def test_without_colours_cursor_and_titles_are_marked_by_other_means(stage, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(fleet()) as s:
        assert s.cursor_line().startswith(" 4711")
        assert s.style_of("JOBID").bold
        for strip in s.app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default
        await s.press("slash", "x", "escape", "enter", "question_mark", "t")
        assert "Keys" in s.text
