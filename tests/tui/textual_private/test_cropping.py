"""A cut line is what Textual makes of it, and is not stored."""

from __future__ import annotations

import itertools

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gpumon.tui.textual_private.cropping import NARROW, cropped

RED, BLUE = Style.parse("red"), Style.parse("on blue")
LINES = {
    "plain": [Segment("48210 alice ", RED), Segment("92 %", BLUE)],
    "ellipsis": [Segment("waits for 48210 …", RED), Segment(" ▲ 90 → 118", BLUE)],
    "wide": [Segment("名前 ab", RED), Segment("漢", BLUE), Segment("e\u0301x…")],
    "empty parts": [Segment(""), Segment("a…b", RED), Segment("", BLUE), Segment("c")],
    "nothing": [],
}


def styled(strip: Strip) -> list[tuple[str, Style | None]]:
    """Characters with their styles, however they are parted."""
    return [(char, segment.style) for segment in strip for char in segment.text]


@pytest.mark.parametrize("segments", LINES.values(), ids=LINES)
def test_every_stretch_of_a_line_is_that_of_textual(segments: list[Segment]) -> None:
    length = Strip(segments).cell_length
    for first, end in itertools.product(range(length + 2), repeat=2):
        ours, textuals = cropped(Strip(segments), first, end), Strip(segments).crop(first, end)
        assert styled(ours) == styled(textuals)
        assert ours.cell_length == textuals.cell_length == cell_len(ours.text)


def test_a_whole_line_stays_itself() -> None:
    line = Strip(LINES["ellipsis"])
    assert cropped(line, 0, line.cell_length) is line


def test_every_narrow_character_takes_one_cell() -> None:
    narrow = [char for char in map(chr, range(0x3000)) if NARROW.fullmatch(char)]
    assert {"…", "–", "→", "▲", "█", "⣿", "·", "×", "µ"} <= set(narrow)
    assert all(cell_len(char) == 1 for char in narrow)


def test_lines_that_never_come_again_are_not_stored() -> None:
    before = Segment._split_cells.cache_info()
    for number in range(50):
        cropped(Strip([Segment(f"{number} python3.… {number}"), Segment("… 9")]), 2, 15)
    assert Segment._split_cells.cache_info().misses == before.misses
