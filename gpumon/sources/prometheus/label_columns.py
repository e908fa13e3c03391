"""Labels of many series as columns, one for each name: series of a fleet have the same names.

What each label of tens of thousands of series holds is looked up for all of them at once: one by
one each of their ten texts would pass through Python several times.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from gpumon.model.text import MAX_TEXT, plain
from gpumon.sources.exporters.gpu_labels import LABELS, NO_TEXT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


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
        for column in self.columns.values():
            learn(texts, set(column))
        columns = {
            texts[name]: [*map(texts.__getitem__, column)] for name, column in self.columns.items()
        }
        return LabelColumns(self.numbers, columns)

    def rows(self) -> Iterator[dict[str, str]]:
        """The labels of each series."""
        if not self.columns:
            return ({} for _ in self.numbers)
        rows = zip(*self.columns.values(), strict=True)
        return map(dict, map(zip, repeat((*self.columns,)), rows))


def by_names(labels: Sequence[Mapping[str, str]]) -> Iterator[LabelColumns]:
    """The labels of series, those with the same names in the same order together."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, one in enumerate(labels):
        names = (*one,)
        some = groups.get(names)
        if some is None:
            some = groups[names] = []
        some.append(number)
    for names, numbers in groups.items():
        texts = zip(*(labels[number].values() for number in numbers), strict=True)
        yield LabelColumns(numbers, dict(zip(names, texts, strict=True)))


def learn(texts: dict[str, str], found: Collection[str]) -> None:
    """Add what texts are once they are harmless; each is one object."""
    joined = "".join(found)
    if joined.isascii() and joined.isprintable() and max(map(len, found), default=0) <= MAX_TEXT:
        # Each is harmless where all together are.
        for text in found:
            texts.setdefault(text, text)
        return
    for text in found:
        if text not in texts:
            made = plain(text)
            texts[text] = texts.setdefault(made, made)
