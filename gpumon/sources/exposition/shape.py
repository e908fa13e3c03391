"""Reads a page that differs from the one before in nothing but its values, as nearly all do.

Of each line of a page that was read once the last word is cut off, its value as a rule. What is
left is the page's shape: where the next page has the same, only the words that are wanted are read,
at a fraction of the cost of reading names and labels again. The shape is stored as its hash, which
holds eight bytes in place of a hundred thousand; Python's hash of bytes has a secret of each
process, so no page can aim at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.sources.exposition.parse import Page


def _parted(body: bytes) -> list[list[bytes]]:
    """Each line and, where a blank is in it, its last word."""
    # A regular expression for as much takes thrice as long.
    return [line.rsplit(b" ", 1) for line in body.split(b"\n")]


class Shape:
    """How a page looks but for its values."""

    def __init__(self, body: bytes, places: Sequence[int]) -> None:
        """`places` are the numbers of the lines whose last words are wanted."""
        parted = _parted(body)
        self._count = len(parted)
        self._parts = sum(map(len, parted))
        self._rest = hash(tuple([parts[0] for parts in parted]))
        self._places = list(places)

    def words(self, body: bytes) -> list[bytes] | None:
        """The wanted words of a page; None where it has another shape."""
        parted = _parted(body)
        if len(parted) != self._count or sum(map(len, parted)) != self._parts:
            return None
        if hash(tuple([parts[0] for parts in parted])) != self._rest:
            return None
        return [parted[place][-1] for place in self._places]


def shape_of(body: bytes, page: Page, wanted: Sequence[int]) -> Shape | None:
    """The shape of a page that has been read; None where a wanted value does not end its line.

    Args:
        body: The page.
        page: What was read of it.
        wanted: Numbers of the samples whose values are asked for.
    """
    places = [page.samples[sample].place for sample in wanted]
    found = [place for place in places if place is not None]
    return Shape(body, found) if len(found) == len(places) else None


def numbers(words: Sequence[bytes]) -> list[float] | None:
    """The values of the words; None where one is none."""
    if b"_" in b" ".join(words):
        return None
    try:
        return [float(word) for word in words]
    except ValueError:
        return None
