"""Lines of toned cells as strips. Text is drawn as it is: markup has no meaning here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from gpumon.report.text.cells import Cell, safe, text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

    from gpumon.report.text.cells import Line, Tone
    from gpumon.tui.look.theme import ThemeStyles


def line_strip(line: Line, width: int, look: ThemeStyles, extra: Style | None = None) -> Strip:
    """A line cut or filled to `width` cells; `extra` lies over every tone."""
    base = look.base if extra is None else look.base + extra
    segments = [Segment(safe(cell.text), look.over_ground(cell.tone, extra)) for cell in line]
    return Strip(segments).adjust_cell_length(width, base)


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
    left = sum(text_width(safe(cell.text)) for cell in now[:first])
    last = _alike(before[:first:-1], now[:first:-1])
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
