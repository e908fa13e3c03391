"""On a terminal that draws ASCII only nothing else reaches it, in any view."""

from __future__ import annotations

import pytest

from gpumon.report.text.ascii_only import ascii_only
from gpumon.report.text.cells import safe, text_width
from gpumon.report.wording.verdict_words import CONFIDENCE_SIGNS
from tests.worlds.node import machine
from tests.worlds.tick import fleet


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("99 % …", "99 % ~"),
        ("–", "-"),
        ("‼ idle › é Ü", "X idle > e U"),
        ("▁▄█", "_=#"),
        ("⠀⡀⠒⠉⣿", " _-'|"),
        ("日本", "????"),
        ("Ω", "?"),
    ],
)
def test_a_text_keeps_its_width(text, shown):
    assert ascii_only(text) == shown
    assert len(shown) == text_width(safe(text))


def test_how_sure_a_verdict_is_can_be_told_apart():
    shown = [ascii_only(sign) for sign in CONFIDENCE_SIGNS.values()]
    assert len(set(shown)) == len(CONFIDENCE_SIGNS)
    assert "?" not in shown


WALK = (
    "1|2|enter|escape 1 enter|v|w|escape question_mark|G|escape f|escape e|escape escape 3|4|5|6"
    "|7|8|9|z|v|N|G|colon|escape c|t|t|p|comma"
)
"""Keys that lead through all views."""


@pytest.mark.parametrize("size", [(80, 24), (140, 50)])
async def test_every_view_is_ascii(stage, size):
    async with stage(fleet(), size=size) as s:
        await s.give(machine())
        s.app.draw_ascii(True)
        for keys in WALK.split("|"):
            await s.press(*keys.split())
            wrong = {char for char in s.text if not char.isascii()}
            assert not wrong, (keys, wrong)


async def test_ascii_can_be_switched_on_and_off(stage):
    async with stage(fleet()) as s:
        assert not s.text.isascii()
        await s.press("colon", *"ascii", "enter")
        assert s.text.isascii()
        await s.press("colon", *"ascii", "enter")
        assert not s.text.isascii()
