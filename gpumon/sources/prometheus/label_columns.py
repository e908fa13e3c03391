"""Labels of many series as columns, one for each name: series of a fleet have the same names.

What each label of tens of thousands of series holds is looked up for all of them at once: one by
one each of their ten texts would pass through Python several times.
"""

from __future__ import annotations

import json
import re
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.text import MAX_TEXT, plain
from gpumon.sources.exporters.gpu_labels import LABELS, NO_TEXT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MOST_LAYOUTS: Final = 16
"""Ways in which labels are named and ordered that are read as columns: exporters of one answer are
of a few versions. What is left is parsed series by series."""

MOST_LABELS: Final = 64
"""Labels of a series that is read as columns: exporters and service discovery give some twenty."""

_PLAIN: Final = r'[^"\\\x00-\x1f]*'
"""A text of JSON in which nothing is escaped."""


class LabelColumns:
    """Labels of series that all have the same names in the same order."""

    def __init__(self, numbers: Sequence[int], columns: Mapping[str, Sequence[str]]) -> None:
        """`numbers` says which of all series these are; the columns are by name."""
        self.numbers = numbers
        self.columns = columns

    def of(self, what: str) -> Sequence[str | None]:
        """What each series holds of one thing, by any of its names: `label_of` for all of them."""
        columns = [self.columns[name] for name in LABELS[what] if name in self.columns]
        if not columns:
            return [None] * len(self.numbers)
        if len(columns) == 1 and {"", *NO_TEXT}.isdisjoint(columns[0]):
            return columns[0]
        rows = zip(*columns, strict=True)
        return [next((text for text in row if text and text not in NO_TEXT), None) for row in rows]

    def harmless(self, texts: dict[str, str]) -> LabelColumns:
        """The same with names and texts made harmless, each text one object.

        Args:
            texts: What each text has become; gets what is new.
        """
        learn(texts, self.columns)
        columns = {
            texts[name]: shared(column, set(column), texts) for name, column in self.columns.items()
        }
        return LabelColumns(self.numbers, columns)

    def rows(self) -> Iterator[dict[str, str]]:
        """The labels of each series."""
        if not self.columns:
            return ({} for _ in self.numbers)
        rows = zip(*self.columns.values(), strict=True)
        return map(dict, map(zip, repeat((*self.columns,)), rows))


class Labelling(NamedTuple):
    """The labels of many series."""

    size: int
    """Of series, those that cannot be read among them."""
    groups: tuple[LabelColumns, ...]
    """Series with the same names in the same order are one; what cannot be read is in none."""

    def rows(self) -> list[dict[str, str] | None]:
        """The labels of each series; None: they cannot be read."""
        found: list[dict[str, str] | None] = [None] * self.size
        for some in self.groups:
            for number, own in zip(some.numbers, some.rows(), strict=True):
                found[number] = own
        return found


def by_names(labels: Sequence[Mapping[str, str]]) -> Labelling:
    """The labels of series, those with the same names in the same order together."""
    groups: dict[tuple[str, ...], Sequence[int]] = {}
    names = [*map(tuple, labels)]
    if names and names.count(names[0]) == len(names):
        groups[names[0]] = range(len(names))
    else:
        several: dict[tuple[str, ...], list[int]] = {}
        for number, one in enumerate(names):
            several.setdefault(one, []).append(number)
        groups.update(several)
    found = []
    for one, numbers in groups.items():
        some = [*map(labels.__getitem__, numbers)]
        columns = {name: [*map(itemgetter(name), some)] for name in one}
        found.append(LabelColumns(numbers, columns))
    return Labelling(len(labels), tuple(found))


def of_texts(texts: Sequence[str]) -> Labelling:
    """The labels of series, each a text from between its braces, as JSON has them.

    Where texts have the names that one of them has, in its order, and nothing in them needs JSON's
    backslash, they become columns at once: no series is parsed by itself.
    """
    found = []
    odd: list[int] = []
    rest: Sequence[int] = range(len(texts))
    for _ in range(MOST_LAYOUTS):
        if not rest:
            break
        layout = _layout_of(texts[rest[0]])
        if layout is None:
            odd.append(rest[0])
            rest = rest[1:]
            continue
        alike, columns = layout.columns([*map(texts.__getitem__, rest)])
        found.append(LabelColumns([*map(rest.__getitem__, alike)], columns))
        taken = {*found[-1].numbers}
        rest = [number for number in rest if number not in taken] if len(alike) < len(rest) else ()
    odd += rest
    parsed = [(number, one) for number in odd if (one := _parsed(texts[number])) is not None]
    found += [
        LabelColumns([parsed[number][0] for number in some.numbers], some.columns)
        for some in by_names([one for _, one in parsed]).groups
    ]
    return Labelling(len(texts), tuple(found))


class _Layout(NamedTuple):
    """How labels are named and ordered."""

    names: tuple[str, ...]
    pattern: re.Pattern[str]
    """Has a group for each text, and matches whole lines only."""

    def columns(self, texts: list[str]) -> tuple[Sequence[int], Mapping[str, Sequence[str]]]:
        """Which of some texts are so, and what they hold by name."""
        numbers: Sequence[int] = range(len(texts))
        lines = "\n".join(texts)
        rows = self.pattern.findall(lines) if lines.count("\n") == len(texts) - 1 else []
        if len(rows) < len(texts):
            numbers = [n for n, text in enumerate(texts) if self.pattern.fullmatch(text)]
            rows = self.pattern.findall("\n".join(map(texts.__getitem__, numbers)))
        columns = zip(*rows, strict=True) if len(self.names) > 1 else (rows,)
        return numbers, dict(zip(self.names, columns, strict=True))


def _layout_of(text: str) -> _Layout | None:
    """The layout of labels from between their braces; None: such ones have to be parsed."""
    names = (*(_parsed(text) or ()),)
    if not 0 < len(names) <= MOST_LABELS:
        return None
    within = ",".join(f'"{re.escape(name)}":"({_PLAIN})"' for name in names)
    pattern = re.compile(f"^{within}$", re.MULTILINE)
    # What is written in another way, with a backslash or a blank or twice, it does not match.
    return _Layout(names, pattern) if pattern.fullmatch(text) else None


def _parsed(text: str) -> dict[str, str] | None:
    """Labels from between their braces; None: they are none."""
    try:
        parsed = json.loads(f"{{{text}}}")
    except (ValueError, RecursionError):
        return None
    return parsed if {*map(type, parsed.values())} <= {str} else None


def shared(
    column: Sequence[str], different: Collection[str], texts: dict[str, str]
) -> Sequence[str]:
    """Texts made harmless, equal ones one object; `different` are those that differ."""
    if len(different) == len(column) and _are_harmless(different):
        return column
    learn(texts, different)
    return [*map(texts.__getitem__, column)]


def learn(texts: dict[str, str], found: Collection[str]) -> None:
    """Add what texts are once they are harmless; each is one object."""
    if _are_harmless(found):
        new = {*found}.difference(texts)
        texts.update(zip(new, new, strict=True))
        return
    for text in found:
        if text not in texts:
            made = plain(text)
            texts[text] = texts.setdefault(made, made)


def _are_harmless(found: Collection[str]) -> bool:
    """Whether nothing has to be made harmless; each is where all together are."""
    joined = "".join(found)
    is_plain = joined.isascii() and joined.isprintable()
    return is_plain and max(map(len, found), default=0) <= MAX_TEXT
