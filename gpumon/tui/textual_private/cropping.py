"""A stretch of a line, without a memory of every line that was ever cut.

What is cut with an ellipsis or an arrow in it goes through a cache of 16,384 lines where Textual's
own `Strip.crop` cuts it. Lines with numbers never come again: a day fills it, with 10 MB.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterator

NARROW: Final = re.compile(
    r"[ -~\xa0-\xac\xae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2190-\u22ff\u2500-\u25fc"
    r"\u2713-\u2718\u2800-\u28ff]*"
)
"""Texts of which each character takes one cell, as `rich.cells` has them."""


def is_of_narrow(text: str) -> bool:
    """Whether each character of a text takes one cell, however it is measured."""
    return text.isascii() or NARROW.fullmatch(text) is not None


def cropped(strip: Strip, first: int, end: int) -> Strip:
    """The cells from `first` to the one before `end`, as `Strip.crop` gives them."""
    if first <= 0 and end >= strip.cell_length:
        return strip
    return Strip(pieces_between(strip, max(first, 0), end), _length(strip, first, end))


def _length(strip: Strip, first: int, end: int) -> int:
    return max(0, min(end, strip.cell_length) - max(first, 0))


def pieces_between(strip: Strip, first: int, end: int) -> Iterator[Segment]:
    """What `cropped` makes a strip of: a strip has a dozen memories that are never read."""
    at = 0
    for segment in strip:
        if at >= end:
            return
        text, style, control = segment
        left, right = first - at, end - at
        length = len(text) if text.isascii() else segment.cell_length
        if left <= 0 and right >= length:
            yield segment
        elif left < length and NARROW.fullmatch(text):
            yield Segment(text[max(left, 0) : right], style, control)
        elif left < length:
            yield from Strip([segment], length).crop(max(left, 0), min(right, length))
        at += length
