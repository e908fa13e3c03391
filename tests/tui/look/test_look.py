"""Themes and the absence of colours: a state is never shown by colour alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from rich.color import Color
from rich.console import COLOR_SYSTEMS

from gpumon.report.text.cells import Cell, Tone
from gpumon.tui.app import GpumonApp
from gpumon.tui.look.map_theme import MAP_GREY
from gpumon.tui.look.theme import VARIABLES, ThemeStyles
from gpumon.tui.look.themes import BLIND, CONTRAST, MONO, THEMES
from gpumon.tui.widgets.text.strips import line_strip
from tests.tui.fleet_scene import whole
from tests.tui.test_snapshots import WAYS
from tests.worlds.tick import fleet

LEAST_CONTRAST = 4.5
"""WCAG 2.1, success criterion 1.4.3, for text."""
HIGH_CONTRAST = 7.0
"""WCAG 2.1, success criterion 1.4.6, enhanced."""
LEAST_OF_GRAPHICS = 3.0
"""WCAG 2.1, success criterion 1.4.11."""
LEAST_ON_CURSOR = 3.0
"""The same criterion for large text: one line, under the user's eye, is marked."""


def luminance(colour):
    parts = (c / 255 for c in colour.get_truecolor())
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def colours(name):
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.theme = name
    variables = app.get_css_variables()
    return lambda key: Color.parse(variables[key])


@pytest.mark.parametrize("name", [theme.name for theme in THEMES])
@pytest.mark.parametrize("tone", [tone for tone in Tone if tone is not Tone.PAST])
def test_every_tone_can_be_read_on_the_ground_the_bars_and_the_cursor(name, tone):
    of = colours(name)
    text = of(VARIABLES[tone])
    is_high = name == CONTRAST.name
    least = HIGH_CONTRAST if is_high else LEAST_CONTRAST
    assert contrast(text, of("background")) >= least
    assert contrast(text, of("bar")) >= least
    assert contrast(text, of("cursor")) >= (LEAST_CONTRAST if is_high else LEAST_ON_CURSOR)


@pytest.mark.parametrize("name", [theme.name for theme in THEMES])
def test_curves_and_areas_stand_out_from_the_ground(name):
    of = colours(name)
    keys = ["tone-past", *(f"heat-{n}" for n in range(4)), *(f"owner-{n}" for n in range(6))]
    for key in keys:
        assert contrast(of(key), of("background")) >= LEAST_OF_GRAPHICS, key


def few(name, system="standard"):
    """Colours of a theme on a terminal, as it draws them; each by its number where it has few."""
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.console._color_system = COLOR_SYSTEMS[system]
    app.theme = name
    variables = app.get_css_variables()
    return lambda key: Color.parse(variables[key]).downgrade(COLOR_SYSTEMS[system])


COLOURED = [theme.name for theme in THEMES if theme is not MONO]


@pytest.mark.parametrize("name", COLOURED)
def test_sixteen_colours_tell_what_is_bad_from_what_is_not(name):
    of = few(name)
    tones = [of(VARIABLES[tone]).number for tone in (Tone.PLAIN, Tone.INFO, Tone.WARN, Tone.BAD)]
    assert len(set(tones)) == 4
    for tone in (Tone.GOOD, Tone.DIM):
        assert of(VARIABLES[tone]).number not in tones[2:]


@pytest.mark.parametrize("name", COLOURED)
def test_sixteen_colours_have_four_steps_that_differ_in_lightness(name):
    steps = [few(name)(f"heat-{step}") for step in range(4)]
    assert len({step.number for step in steps}) == 4
    light = [luminance(step) for step in steps]
    assert light in (sorted(light), sorted(light, reverse=True))


@pytest.mark.parametrize("name", COLOURED)
@pytest.mark.parametrize("tone", [tone for tone in Tone if tone is not Tone.PAST])
def test_every_tone_can_be_read_in_sixteen_colours(name, tone):
    """On the ground; under the cursor one ink serves for all."""
    of = few(name)
    text = of(VARIABLES[tone])
    for ground in ("background", "bar"):
        assert text.number != of(ground).number
        assert contrast(text, of(ground)) >= LEAST_ON_CURSOR
    assert contrast(of("cursor-ink"), of("cursor")) >= LEAST_CONTRAST
    assert of("cursor").number != of("background").number


@pytest.mark.parametrize("name", [theme.name for theme in THEMES])
@pytest.mark.parametrize("system", ["256", "truecolor"])
def test_with_more_colours_a_theme_stays_as_it_is(name, system):
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.console._color_system = COLOR_SYSTEMS[system]
    app.theme = name
    variables = app.get_css_variables()
    for key in ("bar", "cursor", "tone-dim", "heat-2"):
        assert variables[key] == app.current_theme.variables[key]


def test_the_theme_without_hues_has_none():
    of = colours(MONO.name)
    for key in [*VARIABLES.values(), "background", "bar", "cursor", *MAP_GREY]:
        assert len(set(of(key).get_truecolor())) == 1, key


def test_without_red_and_green_the_tones_of_states_differ_in_lightness():
    of = colours(BLIND.name)
    lights = sorted(luminance(of(key)) for key in ("success", "error", "warning"))
    assert all((high + 0.05) / (low + 0.05) > 1.15 for low, high in pairwise(lights))


def segments_of(stage):
    """What is drawn, without blanks."""
    for strip in stage.app.screen._compositor.render_strips():
        yield from (segment for segment in strip if segment.text.strip())


@pytest.mark.slow
async def test_every_word_in_every_view_can_be_read_in_every_theme(stage):
    async with stage(whole(), (120, 40)) as s:
        for name, keys in WAYS.items():
            s.app.go("jobs")
            await s.press(*keys)
            for theme in THEMES:
                s.app.show_theme(theme.name)
                await s.pilot.pause()
                marks = Color.parse(s.app.get_css_variables()["cursor"]).get_truecolor()
                for text, style, _ in segments_of(s):
                    assert style, (name, theme.name, text)
                    assert style.color, (name, theme.name, text)
                    assert style.bgcolor, (name, theme.name, text)
                    if not any(char.isalnum() for char in text):
                        continue
                    is_marked = style.bgcolor.get_truecolor() == marks
                    least = LEAST_ON_CURSOR if is_marked else LEAST_CONTRAST
                    assert contrast(style.color, style.bgcolor) >= least, (name, theme.name, text)


def test_the_cursors_bar_is_of_one_grey_in_the_theme_of_greys():
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.theme = MONO.name
    look = ThemeStyles(app.get_css_variables(), has_colour=False, has_greys=True)
    bar = line_strip(tuple(Cell(tone.name, tone) for tone in Tone), 80, look, look.cursor)
    styles = [segment.style for segment in bar if segment.style]
    assert len(styles) > len(Tone)
    assert len({style.color if style.reverse else style.bgcolor for style in styles}) == 1
    assert len({style.bgcolor if style.reverse else style.color for style in styles}) == 1


async def test_no_view_draws_a_colour_where_none_is_wanted(stage, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(whole(), (80, 24)) as s:
        for name, keys in WAYS.items():
            s.app.go("jobs")
            await s.press(*keys)
            for text, style, _ in segments_of(s):
                for colour in (style.color, style.bgcolor) if style else ():
                    assert colour is None or colour.is_default, (name, text)


async def test_the_key_goes_through_all_themes_and_back_to_the_first(stage):
    async with stage(fleet()) as s:
        seen = []
        for _ in THEMES:
            await s.press("t")
            seen.append(s.app.theme)
            assert "4711" in s.text
            assert s.cursor_line().split()[1] == "4711"
        assert seen == [theme.name for theme in (*THEMES[1:], THEMES[0])]


async def test_a_theme_can_be_named(stage):
    async with stage(fleet()) as s:
        await s.press("colon", *"theme", "space", *"bl", "tab", "enter")
        assert s.app.theme == BLIND.name
        await s.press("colon", *"theme", "space", *"pink", "enter")
        assert "no theme is called" in s.text


async def test_a_theme_that_knows_none_of_our_variables_still_works(stage):
    async with stage(fleet()) as s:
        s.app.theme = "textual-light"
        s.app.look = ThemeStyles(s.app.get_css_variables(), has_colour=True)
        await s.press("j")
        assert "4711" in s.text


async def test_without_colours_cursor_and_titles_are_marked_by_other_means(stage, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(fleet()) as s:
        assert s.cursor_line().split()[1] == "4711"
        assert s.style_of("JOBID").bold
        for strip in s.app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default
        await s.press("slash", "x", "escape", "enter", "question_mark", "t")
        assert "  Move" in s.text
