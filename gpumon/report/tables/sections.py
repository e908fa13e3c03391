"""Sections of a view: a title, lines or a table below it, or in one line why there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from gpumon.model.missing import Reason
from gpumon.report.facts.columns import GAP, chosen_of, place
from gpumon.report.text.cells import Cell, Line, Tone, fit, paragraph, text_width
from gpumon.report.text.units import MISSING
from gpumon.report.wording.verdict_words import reason_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from gpumon.report.facts.columns import Column, Placed
    from gpumon.report.facts.tick_index import Digest

R = TypeVar("R")


class Entry(NamedTuple):
    """One line of a section that the cursor can be on."""

    key: str
    """What names the line over time."""
    line: Line
    opens: str = ""
    """What Enter opens: `gpu:UUID`, `job:ID`; empty: what the view opens anyway."""
    search: str = ""
    """What the filter looks through beside the line itself, lower case."""


class Section(NamedTuple):
    """A titled part of a view."""

    title: str
    """Empty: lines without a title and without a number."""
    entries: tuple[Entry, ...]
    head: Line = ()
    """Titles of the columns, where the section is a table."""
    note: str = ""
    """Beside the title: what sums the section up, or why it is empty."""
    note_tone: Tone = Tone.DIM

    def filtered(self, needle: str) -> Section | None:
        """The section with the entries that hold a text, None where none does."""
        if not needle:
            return self
        if needle in f"{self.title} {self.note}".lower():
            return self
        passing = tuple(entry for entry in self.entries if needle in _searched(entry))
        return self._replace(entries=passing) if passing else None


def _searched(entry: Entry) -> str:
    return "".join(cell.text for cell in entry.line).lower() + "\n" + entry.search


INDENT: Final = 2
"""Blank cells left of what a section holds."""


def line_entries(lines: Iterable[Line], key: str) -> tuple[Entry, ...]:
    """Plain lines as entries, named by a key and their number."""
    return tuple(
        Entry(f"{key}{number}", (Cell(" " * INDENT), *line)) for number, line in enumerate(lines)
    )


def table_section(
    title: str,
    digest: Digest,
    columns: Sequence[Column[R]],
    rows: Sequence[R],
    width: int,
    key: Callable[[R], str],
    opens: Callable[[R], str] = lambda _row: "",
    search: Callable[[R], str] = lambda _row: "",
    has_all_columns: bool = False,
    chosen: Collection[str] | None = None,
) -> Section:
    """A section that is a table; columns without any value are left out unless all are to stay.

    Of the columns those with the chosen keys are shown; None: those that are shown at first.
    """
    columns = chosen_of(columns, chosen)
    cells = [[column.cell(digest, row) for column in columns] for row in rows]
    used = [
        number
        for number, column in enumerate(columns)
        if has_all_columns
        or column.priority == 0
        or any(line[number].text not in ("", MISSING) for line in cells)
    ]
    placed = place([columns[number] for number in used], width - INDENT)
    numbers = {columns[number].key: number for number in used}
    gap = Cell(" " * GAP)
    indent = Cell(" " * INDENT)
    head: list[Cell] = [indent]
    for item in placed:
        head += [Cell(fit(item.column.title, item.width, item.column.align), Tone.DIM), gap]
    entries = []
    for row, line in zip(rows, cells, strict=True):
        shown = [line[numbers[item.column.key]] for item in placed]
        drawn = (indent, *_drawn(placed, shown))
        entries.append(Entry(key(row), drawn, opens(row), search(row)))
    return Section(title, tuple(entries), tuple(head))


def _drawn(placed: Sequence[Placed[R]], shown: Sequence[Cell]) -> list[Cell]:
    """The cells of one line; a text too long for its column runs on over empty ones."""
    drawn: list[Cell] = []
    at = 0
    while at < len(shown):
        cell, width, align = shown[at], placed[at].width, placed[at].column.align
        at += 1
        while align == "left" and at < len(shown) and not shown[at].text:
            if text_width(cell.text) <= width:
                break
            width += GAP + placed[at].width
            at += 1
        drawn += [Cell(fit(cell.text, width, align), cell.tone), Cell(" " * GAP)]
    return drawn


_LOUD: Final = frozenset(
    {Reason.FAILED, Reason.LOST, Reason.GARBAGE, Reason.STALE, Reason.NO_PERMISSION}
)
"""Reasons that the user can do something about, or should know of."""


def missing_lines(
    missing: Sequence[tuple[str, Reason]], width: int, words: Callable[[Reason], str] = reason_words
) -> list[Line]:
    """What is missing, one paragraph per reason: `– not offered by GPU or driver: encoder, …`."""
    by_reason: dict[Reason, list[str]] = {}
    for name, reason in missing:
        by_reason.setdefault(reason, []).append(name)
    lines: list[Line] = []
    for reason, names in by_reason.items():
        tone = Tone.WARN if reason in _LOUD else Tone.DIM
        text = f"{words(reason)}: {', '.join(names)}"
        lines += paragraph(text, width - INDENT, tone, f"{MISSING} ", "  ")
    return lines


def collapsed(
    title: str,
    missing: Sequence[tuple[str, Reason]],
    words: Callable[[Reason], str] = reason_words,
) -> Section:
    """A section without any known value, in one line with the reasons, the commonest first."""
    reasons = [reason for _, reason in missing]
    ordered = sorted(dict.fromkeys(reasons), key=lambda reason: -reasons.count(reason))
    loud = any(reason in _LOUD for reason in ordered)
    note = f"{MISSING} " + ("; ".join(words(reason) for reason in ordered) or "nothing is known")
    return Section(
        title=title, entries=(), head=(), note=note, note_tone=Tone.WARN if loud else Tone.DIM
    )
