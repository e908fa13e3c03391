"""Reads a page that differs from the one before in nothing but its values, as nearly all do.

Of a page that was read once the last words of its lines are cut out. What is left is its shape:
where the next page has the same, only the words that are wanted are read, at a fraction of the cost
of reading names and labels again. A comment's last word is cut out with the others, which costs
less than to tell comments apart, and means nothing. The shape is kept as its hash, which holds
eight bytes in place of a hundred thousand; Python's hash of bytes has a secret of each process, so
nobody can aim at it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.sources.exposition.parse import Page

_WORD: Final = re.compile(rb" (\S+)\n")


class Shape:
    """How a page looks but for its values."""

    def __init__(self, parts: Sequence[bytes], places: Sequence[int]) -> None:
        """`parts` are the page's, words and what stands between; `places` of the wanted words."""
        self._count = len(parts)
        self._rest = hash(tuple(parts[::2]))
        self._places = [2 * place + 1 for place in places]

    def words(self, body: bytes) -> list[bytes] | None:
        """The wanted words of a page; None where it has another shape."""
        parts = _WORD.split(body)
        if len(parts) != self._count or hash(tuple(parts[::2])) != self._rest:
            return None
        return [parts[place] for place in self._places]


def shape_of(body: bytes, page: Page, wanted: Sequence[int]) -> Shape | None:
    """The shape of a page that has been read; None where a wanted value does not end its line.

    Args:
        body: The page.
        page: What was read of it.
        wanted: Numbers of the samples whose values are asked for.
    """
    parts = _WORD.split(body)
    places = [page.samples[sample].place for sample in wanted]
    if len(parts) // 2 != page.words:
        return None
    found = [place for place in places if place is not None]
    return Shape(parts, found) if len(found) == len(places) else None


def numbers(words: Sequence[bytes]) -> list[float] | None:
    """The values that the words tell; None where one is none."""
    if b"_" in b" ".join(words):
        return None
    try:
        return [float(word) for word in words]
    except ValueError:
        return None
