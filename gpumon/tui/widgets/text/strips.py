"""Lines of toned cells as strips. Text is drawn as it is: markup has no meaning here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.text.cells import Cell, safe, text_width
from gpumon.tui.textual_private.cropping import cropped, is_of_narrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

    from gpumon.report.text.cells import Line, Tone
    from gpumon.tui.look.theme import ThemeStyles


def line_strip(line: Line, width: int, look: ThemeStyles, extra: Style | None = None) -> Strip:
    """A line cut or filled to `width` cells; `extra` lies over every tone."""
    base = look.base if extra is None else look.base + extra
    segments: list[Segment] = []
    taken, is_narrow = 0, True
    for raw, tone in line:
        text = safe(raw)
        taken += len(text)
        is_narrow = is_narrow and is_of_narrow(text)
        segments.append(Segment(text, look.over_ground(tone, extra)))
    if not is_narrow:
        # Textual measures each character, and cuts through those of two cells.
        return Strip(segments).adjust_cell_length(width, base)
    if taken < width:
        segments.append(Segment(" " * (width - taken), base))
    return cropped(Strip(segments, max(taken, width)), 0, width)


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
    left = sum([text_width(safe(text)) for text, _ in now[:first]])
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
        is_in_place = old_tone is tone and len(was) == len(text)
        if not (is_in_place and _is_drawn_as_it_is(was) and _is_drawn_as_it_is(text)):
            return None
    begin = _alike(before[0].text, now[0].text)
    end = sum([len(text) for text, _ in now]) - _alike(before[-1].text[::-1], now[-1].text[::-1])
    return begin, end


def _is_drawn_as_it_is(text: str) -> bool:
    """Whether nothing of it is unsafe, and each sign takes one cell."""
    return text.isprintable() if text.isascii() else safe(text) == text and is_of_narrow(text)


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
