"""Pieces of text with their meaning, made harmless and cut to a width; no terminal here."""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from gpumon.model.text import plain
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST: Final = 32
"""Cells of a column of plain text; what is longer is cut."""


class Tone(StrEnum):
    """What a text means; a theme gives it a style. Its words carry the state, never the style."""

    PLAIN = "plain"
    STRONG = "strong"
    """Names and headings."""
    DIM = "dim"
    """Missing, secondary or not at work."""
    GOOD = "good"
    INFO = "info"
    WARN = "warn"
    BAD = "bad"
    PAST = "past"
    """Curves, drawn behind the numbers."""


class Cell(NamedTuple):
    """One piece of text with its meaning."""

    text: str
    tone: Tone = Tone.PLAIN


NO_VALUE: Final = Cell(MISSING, Tone.DIM)
EMPTY_CELL: Final = Cell("")

Line = tuple[Cell, ...]
"""Cells drawn one after the other."""


def text_width(text: str) -> int:
    """Terminal cells of a text whose characters `safe` has let through."""
    if text.isascii():
        return len(text)
    return _cells(text)


@lru_cache(2048)
def _cells(text: str) -> int:
    """The same of a text beyond ASCII; most of them, such as `–` and titles, come again."""
    return len(text) + sum(map(text.count, filter(_is_wide, set(text))))


@lru_cache(2048)
def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def safe(text: str) -> str:
    """The text without controls and without marks on whose width terminals disagree."""
    if text.isascii() and text.isprintable():
        return text
    return _harmless(text)


@lru_cache(2048)
def _harmless(text: str) -> str:
    composed = unicodedata.normalize("NFC", plain(text, 4096))
    drawn = ((unicodedata.category(char), char) for char in composed)
    return "".join(" " if kind == "Zs" else char for kind, char in drawn if kind[0] != "M")


def fit(text: str, width: int, align: Literal["left", "right"] = "left") -> str:
    """The text made harmless and exactly `width` cells wide; `…` marks what was cut."""
    text = safe(text)
    taken = text_width(text)
    if taken > width:
        text = _cut(text, width)
        taken = text_width(text)
    blanks = " " * (width - taken)
    return blanks + text if align == "right" else text + blanks


def _cut(text: str, width: int) -> str:
    """The longest start that leaves a cell for `…`."""
    if width <= 0:
        return ""
    if text.isascii():
        return text[: width - 1] + "…"
    taken = 0
    for position, char in enumerate(text):
        taken += text_width(char)
        if taken > width - 1:
            return text[:position] + "…"
    return text


def wrap(text: str, width: int, first: str = "", hanging: str = "") -> tuple[str, ...]:
    """The text in lines of at most `width` cells, broken at blanks, words cut where they must."""
    lines: list[str] = []
    line, has_word = first, False
    for word in safe(text).split():
        room = width - text_width(hanging)
        shown = word if text_width(word) <= room else _cut(word, max(1, room))
        gap = " " if has_word else ""
        if has_word and text_width(line + gap + shown) > width:
            lines.append(line)
            line, gap = hanging, ""
        line += gap + shown
        has_word = True
    return (*lines, line)


def paragraph(
    text: str, width: int, tone: Tone = Tone.PLAIN, first: str = "", hanging: str = ""
) -> list[Line]:
    """The text wrapped to `width`, every line in one tone."""
    return [(Cell(line, tone),) for line in wrap(text, width, first, hanging)]


def some_names(names: tuple[str, ...], most: int = 4) -> str:
    """The first names, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return ", ".join(names[:most]) + f" and {len(names) - most} more"


def laid_out(rows: Sequence[Sequence[str]], words: Sequence[str] = ()) -> str:
    """A table of plain text whose first row are its titles; ends in a line break.

    Columns are as wide as their widest cell, or as names may be. The first one, and those whose
    titles are among `words`, are on the left, numbers on the right.
    """
    titles = rows[0]
    widths = [min(_WIDEST, max(map(text_width, column))) for column in zip(*rows, strict=True)]
    is_left = [place == 0 or title in words for place, title in enumerate(titles)]
    lines = (
        "  ".join(
            fit(cell, width, "left" if left else "right")
            for cell, width, left in zip(row, widths, is_left, strict=True)
        )
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)
