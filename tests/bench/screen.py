"""What a terminal shows: characters and styles by cell, from the bytes that a program writes.

Only what Textual, curses and ratatui write is understood; whatever else comes is passed over.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TOKENS: Final = re.compile(
    r"\x1b\[(?P<private>[<-?]*)(?P<numbers>[\d;:]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|\x1b[\]P_^X](?:(?!\x1b\\|\x07).)*(?:\x1b\\|\x07)"
    r"|\x1b(?P<escape>[ -/]*[0-OQ-WYZ\\`-~])"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])",
    re.DOTALL,
)

FRAME_ENDS: Final = "2026"
"""Private mode whose reset ends a frame of synchronised output."""


class Cell(NamedTuple):
    """One cell: a character, empty behind a wide one, and the style parameters that it has."""

    char: str
    style: tuple[str, ...]


_PLAIN: Final[tuple[str, ...]] = ()
BLANK: Final = Cell(" ", _PLAIN)


class Screen:
    """A grid of cells that bytes are fed to."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.frames = 0
        """Frames of synchronised output that have ended."""
        self.asks_for_sync = False
        """Whether the program has asked if the terminal knows synchronised output."""
        self._grid = [[BLANK] * columns for _ in range(rows)]
        self._x = self._y = 0
        self._saved = (0, 0)
        self._style: tuple[str, ...] = _PLAIN
        self._margins = (0, rows - 1)
        self._rest = ""
        self._last = " "
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        """Draw what these bytes say; a sequence that is cut off waits for its end."""
        text = self._rest + self._decoder.decode(data)
        at = 0
        while at < len(text):
            found = _TOKENS.match(text, at)
            if found is None:
                break
            self._take(found)
            at = found.end()
        self._rest = text[at:]

    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """A copy of the grid."""
        return tuple(tuple(row) for row in self._grid)

    def text(self) -> list[str]:
        """The rows without styles."""
        return ["".join(cell.char for cell in row) for row in self._grid]

    def _take(self, found: re.Match[str]) -> None:
        if text := found["text"]:
            self._print(text)
        elif control := found["control"]:
            self._control(control)
        elif final := found["final"]:
            if found["private"] or found["middle"]:
                self._private(found["private"], found["numbers"], found["middle"] + final)
            elif final == "m":
                self._restyle(found["numbers"])
            else:
                numbers = [int(part or 0) for part in found["numbers"].split(";")]
                act = _ACTS.get(final)
                if act is not None:
                    act(self, numbers)
        elif found["escape"]:
            self._escape(found["escape"])

    def _print(self, text: str) -> None:
        style, columns = self._style, self.columns
        for char in text:
            if self._x >= columns:
                self._x = 0
                self._feed_line()
            row = self._grid[self._y]
            row[self._x] = Cell(char, style)
            self._x += 1
            if not char.isascii():
                if unicodedata.combining(char):
                    self._x -= 1
                elif unicodedata.east_asian_width(char) in "WF" and self._x < columns:
                    row[self._x] = Cell("", style)
                    self._x += 1
        self._last = text[-1]

    def _control(self, char: str) -> None:
        if char == "\r":
            self._x = 0
        elif char in "\n\x0b\x0c":
            self._feed_line()
        elif char == "\b":
            self._x = max(0, self._x - 1)
        elif char == "\t":
            self._x = min(self.columns - 1, self._x // 8 * 8 + 8)

    def _feed_line(self) -> None:
        if self._y == self._margins[1]:
            self._scroll(1)
        else:
            self._y = min(self.rows - 1, self._y + 1)

    def _scroll(self, lines: int) -> None:
        """The lines between the margins up, down for negative numbers."""
        self._shift(self._margins[0], lines)

    def _shift(self, top: int, lines: int) -> None:
        """Take lines out at `top`, or put blank ones in for negative numbers."""
        bottom = self._margins[1]
        if not top <= bottom:
            return
        part = self._grid[top : bottom + 1]
        many = min(abs(lines), len(part))
        blank = [[self._blank()] * self.columns for _ in range(many)]
        moved = [*part[many:], *blank] if lines > 0 else [*blank, *part[: len(part) - many]]
        self._grid[top : bottom + 1] = moved

    def _blank(self) -> Cell:
        """An erased cell keeps the ground, as terminals of today do."""
        return Cell(" ", self._style)

    def _private(self, private: str, numbers: str, final: str) -> None:
        if private == "?" and FRAME_ENDS in numbers.split(";"):
            self.frames += final == "l"
            self.asks_for_sync |= final == "$p"
        if private == "?" and "1049" in numbers.split(";") and final == "h":
            self._grid = [[BLANK] * self.columns for _ in range(self.rows)]

    def _restyle(self, numbers: str) -> None:
        """Keep the parameters in force; a reset forgets those before it."""
        style = list(self._style)
        for part in _parameters(numbers):
            if part == "0":
                style = []
            elif part == "22":
                style = [other for other in style if other not in ("1", "2")]
            else:
                kind = _kind(part)
                style = [other for other in style if _kind(other) != kind]
                if part not in _OFF:
                    style.append(part)
        self._style = tuple(sorted(style))

    def _escape(self, escape: str) -> None:
        if escape == "7":
            self._saved = (self._x, self._y)
        elif escape == "8":
            self._x, self._y = self._saved
        elif escape == "M":
            if self._y == self._margins[0]:
                self._scroll(-1)
            else:
                self._y = max(0, self._y - 1)
        elif escape in ("D", "E"):
            self._x = 0 if escape == "E" else self._x
            self._feed_line()

    # What CSI sequences do

    def _go(self, x: int, y: int) -> None:
        self._x = max(0, min(self.columns - 1, x))
        self._y = max(0, min(self.rows - 1, y))

    def _fill(self, y: int, first: int, last: int) -> None:
        for x in range(max(0, first), min(self.columns, last)):
            self._grid[y][x] = self._blank()

    def erase_display(self, numbers: Sequence[int]) -> None:
        """ED: 0 from the cursor on, 1 up to it, else all."""
        kind = numbers[0]
        for y in range(self.rows):
            if kind >= 2 or (kind == 0 and y > self._y) or (kind == 1 and y < self._y):
                self._fill(y, 0, self.columns)
        if kind < 2:
            self.erase_line(numbers)

    def erase_line(self, numbers: Sequence[int]) -> None:
        """EL: likewise within the line."""
        first = self._x if numbers[0] == 0 else 0
        last = self._x + 1 if numbers[0] == 1 else self.columns
        self._fill(self._y, first, last)

    def erase_cells(self, numbers: Sequence[int]) -> None:
        """ECH."""
        self._fill(self._y, self._x, self._x + max(1, numbers[0]))

    def insert_cells(self, numbers: Sequence[int]) -> None:
        """ICH, and DCH for negative numbers."""
        row, count = self._grid[self._y], max(1, abs(numbers[0]))
        blank = [self._blank()] * min(count, self.columns - self._x)
        rest = row[self._x :]
        rest = [*rest[count:], *blank] if numbers[0] < 0 else [*blank, *rest]
        self._grid[self._y] = (row[: self._x] + rest)[: self.columns]

    def insert_lines(self, numbers: Sequence[int]) -> None:
        """IL, and DL for negative numbers."""
        self._shift(self._y, -numbers[0] or -1)

    def set_margins(self, numbers: Sequence[int]) -> None:
        """DECSTBM."""
        top, bottom = ([*numbers, 0])[:2]
        self._margins = (max(1, top) - 1, (bottom or self.rows) - 1)
        self._go(0, 0)

    def repeat(self, numbers: Sequence[int]) -> None:
        """REP."""
        self._print(self._last * max(1, numbers[0]))


_OFF: Final = frozenset(("23", "24", "25", "27", "28", "29", "39", "49"))
_KINDS: Final = {
    str(number): str(number % 20) for number in (3, 4, 5, 7, 8, 9, 23, 24, 25, 27, 28, 29)
}


def _parameters(numbers: str) -> list[str]:
    """The parameters of SGR; a colour of several numbers is one."""
    parts = [part.lstrip("0") or "0" for part in numbers.replace(":", ";").split(";")]
    found = []
    while parts:
        size = 1
        if parts[0] in ("38", "48") and len(parts) > 1:
            size = {"5": 3, "2": 5}.get(parts[1], 1)
        found.append(";".join(parts[:size]))
        del parts[:size]
    return found


def _kind(part: str) -> str:
    """What a parameter sets; another one of its kind takes its place."""
    head = part.partition(";")[0]
    if head in _KINDS:
        return _KINDS[head]
    number = int(head)
    if 30 <= number <= 39 or 90 <= number <= 97:
        return "ink"
    return "ground" if 40 <= number <= 49 or 100 <= number <= 107 else head


def _many(numbers: Sequence[int]) -> int:
    return max(1, numbers[0])


_ACTS: Final[dict[str, Callable[[Screen, Sequence[int]], None]]] = {
    "H": lambda s, n: s._go(([*n, 0])[1] - 1, n[0] - 1),
    "f": lambda s, n: s._go(([*n, 0])[1] - 1, n[0] - 1),
    "A": lambda s, n: s._go(s._x, s._y - _many(n)),
    "B": lambda s, n: s._go(s._x, s._y + _many(n)),
    "C": lambda s, n: s._go(s._x + _many(n), s._y),
    "D": lambda s, n: s._go(s._x - _many(n), s._y),
    "G": lambda s, n: s._go(n[0] - 1, s._y),
    "d": lambda s, n: s._go(s._x, n[0] - 1),
    "J": Screen.erase_display,
    "K": Screen.erase_line,
    "X": Screen.erase_cells,
    "@": Screen.insert_cells,
    "P": lambda s, n: s.insert_cells([-_many(n)]),
    "L": Screen.insert_lines,
    "M": lambda s, n: s._shift(s._y, _many(n)),
    "S": lambda s, n: s._scroll(_many(n)),
    "T": lambda s, n: s._scroll(-_many(n)),
    "b": Screen.repeat,
    "r": Screen.set_margins,
}


def changed_cells(before: tuple[tuple[Cell, ...], ...], now: tuple[tuple[Cell, ...], ...]) -> int:
    """How many cells look otherwise; both screens are of one size."""
    return sum(
        sum(a != b for a, b in zip(was, row, strict=True))
        for was, row in zip(before, now, strict=True)
        if was != row
    )
