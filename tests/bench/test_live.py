"""What the live benchmark sees on a screen, and when it says that a key has worked."""

from __future__ import annotations

import os
import sys

import pytest

from tests.bench.live_fleet import IMAGES, LiveFleet
from tests.bench.screen import Screen, changed_cells
from tests.bench.session import Session
from tests.bench.stats import percentile

PROGRAM = """
import os, sys, tty
tty.setraw(0)
def frame(text):
    os.write(1, b"\\x1b[?2026h" + text + b"\\x1b[?2026l")
os.write(1, b"\\x1b[?2026$p")
answer = b""
while not answer.endswith(b"y"):
    answer += os.read(0, 1)
frame(b"\\x1b[1;1Hcursor 0\\x1b[2;1Hticks 0")
for number in range(1, 9):
    key = os.read(0, 1)
    frame(b"\\x1b[2;1Hticks %d" % number)
    if key == b"j":
        frame(b"\\x1b[1;1Hcursor %d" % number)
    if key == b"q":
        break
"""


def drawn(text: str, columns: int = 10, rows: int = 3) -> Screen:
    screen = Screen(columns, rows)
    screen.feed(text.encode())
    return screen


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 1.0)] == [50.0, 95.0, 100.0]
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("one\r\ntwo", ["one", "two", ""]),
        ("\x1b[2;3Hx\x1b[Ay\x1b[3Dz", [" z y", "  x", ""]),
        ("abcdef\x1b[1;3H\x1b[K", ["ab", "", ""]),
        ("abcdef\x1b[1;3H\x1b[2P", ["abef", "", ""]),
        ("abcdef\x1b[1;3H\x1b[2@", ["ab  cdef", "", ""]),
        ("abcdef\x1b[1;3H\x1b[2X", ["ab  ef", "", ""]),
        ("a\r\nb\r\nc\r\nd", ["b", "c", "d"]),
        ("a\r\nb\r\nc\x1b[1;2r\x1b[2;1H\nx", ["b", "x", "c"]),
        ("a\r\nb\r\nc\x1b[1;1H\x1bM", ["", "a", "b"]),
        ("a\r\nb\x1b[1;1H\x1b[L", ["", "a", "b"]),
        ("-\x1b[4b", ["-----", "", ""]),
        ("0123456789ab", ["0123456789", "ab", ""]),
        ("漢b\x1b]2;title\x07\x1bP+q\x1b\\", ["漢b", "", ""]),
        ("gone\x1b[2J\x1b[Hnow", ["now", "", ""]),
    ],
)
def test_a_screen_shows_what_terminals_show(text: str, rows: list[str]) -> None:
    assert [row.rstrip() for row in drawn(text).text()] == rows


def test_sequences_and_characters_may_be_cut_anywhere() -> None:
    data = "\x1b[1;38;2;9;8;7mé漢\x1b[0m\x1b[2;2H▀\x1b[?2026l".encode()
    whole, pieces = Screen(10, 3), Screen(10, 3)
    whole.feed(data)
    for at in range(len(data)):
        pieces.feed(data[at : at + 1])
    assert pieces.cells() == whole.cells()
    assert pieces.frames == whole.frames == 1


def test_styles_are_those_in_force() -> None:
    screen = drawn("\x1b[1;31;48;5;7ma\x1b[38;2;1;2;3mb\x1b[22;49mc\x1b[md")
    assert [set(cell.style) for cell in screen.cells()[0][:4]] == [
        {"1", "31", "48;5;7"}, {"1", "38;2;1;2;3", "48;5;7"}, {"38;2;1;2;3"}, set(),
    ]  # fmt: skip


def test_cells_that_look_otherwise_are_counted() -> None:
    before = drawn("abc\r\n\x1b[31mred").cells()
    assert changed_cells(before, drawn("abc\r\n\x1b[31mred").cells()) == 0
    assert changed_cells(before, drawn("axc\r\n\x1b[31mred").cells()) == 1
    assert changed_cells(before, drawn("abc\r\n\x1b[32mred").cells()) == 3


def test_a_key_has_worked_when_the_frame_with_its_effect_is_there() -> None:
    with Session([sys.executable, "-c", PROGRAM], os.environ, 20, 4) as session:
        assert session.pump(20, lambda: session.screen.frames == 1)

        def look(screen: Screen) -> object:
            return screen.text()[0]

        assert session.key_to_paint(b"j", look, 20) is not None
        assert session.screen.text()[0].startswith("cursor 1")
        assert session.key_to_paint(b"x", look, 0.2) is None
        assert session.screen.text()[1].startswith("ticks 2")
    assert session.has_ended


def test_pictures_differ_a_little_and_come_round() -> None:
    fleet = LiveFleet(40, 2)
    first, second = fleet.tick(0, 1.0), fleet.tick(1, 2.0)
    assert first.gpus.keys() == second.gpus.keys()
    differing = [
        uuid for uuid in first.gpus
        if first.gpus[uuid].value("power_w") != second.gpus[uuid].value("power_w")
    ]  # fmt: skip
    assert 0 < len(differing) < len(first.gpus) / 2
    assert fleet.tick(IMAGES, 9.0).gpus is first.gpus
