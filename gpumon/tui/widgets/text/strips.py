"""Lines of toned cells as strips. Text is drawn as it is: markup has no meaning here."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.text.cells import Cell, safe, text_width
from gpumon.tui.textual_private.cropping import cropped, is_of_narrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

    from gpumon.report.text.cells import Line, Tone
    from gpumon.tui.look.theme import ThemeStyles


PLAIN: Final = re.compile(
    r"[ -~\xb0\xb7\u2013\u2026\u2190-\u2193\u2500-\u25fc\u2713\u2717\u2800-\u28ff]*"
)
"""Texts that are drawn as they are, a cell each sign: of nearly every line one question is enough,
and not two of each of its pieces."""

_text_of: Final = itemgetter(0)
_tone_of: Final = itemgetter(1)


def line_strip(line: Line, width: int, look: ThemeStyles, extra: Style | None = None) -> Strip:
    """A line cut or filled to `width` cells; `extra` lies over every tone."""
    base = look.base if extra is None else look.base + extra
    if (whole := _plain_text(line)) is not None:
        segments = [
            Segment("".join(map(_text_of, run)), look.over_ground(tone, extra))
            for tone, run in groupby(line, _tone_of)
        ]
        taken = len(whole)
    else:
        texts = [(safe(raw), tone) for raw, tone in line]
        segments = [Segment(text, look.over_ground(tone, extra)) for text, tone in texts]
        if not all(is_of_narrow(text) for text, _ in texts):
            # Textual measures each character, and cuts through those of two cells.
            return Strip(segments).adjust_cell_length(width, base)
        taken = sum([len(text) for text, _ in texts])
    if taken < width:
        segments.append(Segment(" " * (width - taken), base))
    return cropped(Strip(segments, max(taken, width)), 0, width)


def _plain_text(line: Line) -> str | None:
    """What a line reads; None: it may have to be made harmless, or measured."""
    text = "".join(map(_text_of, line))
    return text if PLAIN.fullmatch(text) else None


def _width(line: Line) -> int:
    """Cells that a line takes."""
    text = _plain_text(line)
    return sum([text_width(safe(raw)) for raw, _ in line]) if text is None else len(text)


def merged(cells: Iterable[Cell]) -> Line:
    """The cells with neighbours of one tone joined; blanks take any tone.

    Every change of style costs some forty bytes on the wire, ten times what a number does.
    """
    runs: list[Cell] = []
    for cell in cells:
        if runs and (cell.tone is runs[-1].tone or cell.text.isspace()):
            runs[-1] = Cell(runs[-1].text + cell.text, runs[-1].tone)
        elif runs and runs[-1].text.isspace():
            runs[-1] = Cell(runs[-1].text + cell.text, cell.tone)
        else:
            runs.append(cell)
    return tuple(runs)


def changed_cells(before: Line, now: Line) -> tuple[int, int]:
    """The stretch of a line that has to be drawn again: its first cell, and the one behind it.

    The curve that a second has gone by in differs in a few cells of each of its lines, and so does
    a table's row: what is drawn goes over the wire, also where it was there before.
    """
    if before == now:
        return 0, 0
    # Mostly a number or two is another: pieces of the same text and tone are passed over whole.
    first = _alike(before, now)
    left = _width(now[:first])
    last = _alike(before[:first:-1], now[:first:-1])
    if found := _changed_in_place(before[first : len(before) - last], now[first : len(now) - last]):
        return left + found[0], left + found[1]
    old, new = _signs(before[first : len(before) - last]), _signs(now[first : len(now) - last])
    width = text_width(_text(new))
    if len(old) == len(new) and text_width(_text(old)) == width:
        same = _alike(old, new)
        tail = _alike(old[:same:-1], new[:same:-1])
        end = text_width(_text(new[: len(new) - tail]))
    else:
        # What follows has moved, or may have: it is drawn to the longer line's end.
        old, new = _signs(before[first:]), _signs(now[first:])
        same = _alike(old, new)
        end = max(text_width(_text(old)), text_width(_text(new)))
    return left + text_width(_text(new[:same])), left + end


def _changed_in_place(before: Line, now: Line) -> tuple[int, int] | None:
    """The same of pieces of which the first and the last differ, where none is longer or shorter.

    None: one is, or has another tone, or signs that may take two cells.
    """
    if not before or len(before) != len(now):
        return None
    for (was, old_tone), (text, tone) in zip(before, now, strict=True):
        if old_tone is not tone or len(was) != len(text):
            return None
    if _plain_text(before) is None or _plain_text(now) is None:
        return None
    begin = _alike(before[0].text, now[0].text)
    end = _width(now) - _alike(before[-1].text[::-1], now[-1].text[::-1])
    return begin, end


def _alike(old: Sequence[object], new: Sequence[object]) -> int:
    """How many of the first ones are the same."""
    for count, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            return count
    return min(len(old), len(new))


def _signs(line: Line) -> list[tuple[str, Tone]]:
    return [(sign, cell.tone) for cell in line for sign in safe(cell.text)]


def _text(signs: Sequence[tuple[str, Tone]]) -> str:
    return "".join([sign for sign, _ in signs])
