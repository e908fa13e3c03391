"""Series at one instant, cut out of an answer without reading their labels.

A server lists the series of a fleet in the same order, metric after metric and poll after poll:
what is between their values is compared, and only the values are read.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ORDERS: Final = 8
"""Orders that are remembered: of those that all metrics have, and that some have."""

_HEAD_BYTES: Final = 1024
"""Within so much of an answer its series begin."""

_FIRST: Final = b'"result":[{"metric":{'
_TIMED: Final = re.compile(rb'\},"value":\[[0-9.]{1,24},"')
_NEXT: Final = '"]},{"metric":{'
_END: Final = b'"]}]'
"""What is before, within, between and after series at one instant."""

_LONGEST_VALUE: Final = 24
"""Characters of a value: servers write up to 24 (Go's shortest form of a float)."""

_MOST_LENGTHS: Final = 64
"""Lengths that the labels of one order may have to be compared all at once: names of hosts differ
by some characters."""

_MOST_DIGITS: Final = 15
"""So many make a whole number that a float holds exactly."""

_POWERS: Final = np.array([float(f"1e{power}") for power in range(_MOST_DIGITS + 1)])


class _Alike(NamedTuple):
    """Series after the first whose labels are equally long."""

    rows: NDArray[np.intp]
    width: int
    text: bytes
    """What is between the value before and the time, of one after another."""


class Order:
    """Series as one answer listed them."""

    def __init__(self, labels: list[str]) -> None:
        """By what is between the braces of each one's labels."""
        self.labels = labels
        self.is_used = True
        """Whether an answer had it of late."""
        self.first = labels[0].encode()
        self._alike: list[_Alike] | None = None
        self._widths: NDArray[np.intp] = np.zeros(0, np.intp)
        """Bytes of each one's labels."""
        self._closing: NDArray[np.intp] = np.zeros(0, np.intp)
        """Which square bracket of an answer ends each value but the last."""
        self._brackets = 0

    def values(self, body: bytes, begin: int, end: int, timed: bytes) -> array[float] | None:
        """The values of an answer that has the same series in the same order; None: it has not.

        No series becomes a text of its own: where brackets are says where values end, what is
        between values is compared with what was there before, and only values are read.

        Args:
            body: The answer.
            begin: Where the labels of the first series begin.
            end: Where the value of the last one ends.
            timed: What parts labels from values.
        """
        if self._alike is None:
            self._alike = self._compare()
        text = np.frombuffer(body, np.uint8)
        closing = np.flatnonzero(text[begin:end] == ord("]")) + begin
        if len(closing) != self._brackets or len(self._alike) > _MOST_LENGTHS:
            return None
        ends = np.append(closing[self._closing] - 1, end)
        starts = self._widths + len(timed)
        starts[0] += begin
        starts[1:] += ends[:-1] + len(_NEXT)
        sizes = ends - starts
        if sizes.min() < 1 or sizes.max() > _LONGEST_VALUE:
            return None
        if _cells(body, starts - len(timed), len(timed)).tobytes() != timed * len(starts):
            return None
        for some in self._alike:
            if _cells(body, ends[some.rows - 1], some.width).tobytes() != some.text:
                return None
        width = int(sizes[:-1].max(initial=1))
        cells = _cells(body, starts[:-1], width).view(np.uint8).reshape(-1, width)
        values, is_read = _decimals(cells, sizes[:-1])
        odd = [*np.flatnonzero(~is_read).tolist(), len(values)]
        texts = [body[starts[row] : ends[row]].decode("ascii", "replace") for row in odd]
        others = _numbers(texts)
        if others is None:
            return None
        found = array("d", values.tobytes())
        found.append(others.pop())
        for row, value in zip(odd, others, strict=False):
            found[row] = value
        return found

    def _compare(self) -> list[_Alike]:
        """What is compared with an answer."""
        texts = [label.encode() for label in self.labels]
        self._widths = np.array([*map(len, texts)], np.intp)
        before = [*accumulate(text.count(b"]") for text in texts)]
        self._brackets = before[-1] + len(texts) - 1
        self._closing = np.array(before[:-1], np.intp) + np.arange(len(texts) - 1)
        found = []
        for width in np.unique(self._widths[1:])[: _MOST_LENGTHS + 1]:
            (rows,) = np.nonzero(self._widths[1:] == width)
            some = [texts[row + 1] for row in rows]
            text = b"".join(_NEXT.encode() + one for one in some)
            found.append(_Alike(rows + 1, int(width) + len(_NEXT), text))
        return found


def _cells(body: bytes, starts: NDArray[np.intp], width: int) -> NDArray[np.void]:
    """As many bytes from each of some places of an answer on."""
    every = np.ndarray((max(0, len(body) - width + 1),), f"V{width}", body, strides=(1,))
    return every[starts]


class Orders:
    """The orders of the answers to one poll, and to the one before."""

    def __init__(self, most: int = MOST_ORDERS) -> None:
        """There was no answer; so many are remembered."""
        self._known: list[Order] = []
        self._most = most

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def begin(self) -> None:
        """A poll begins: what the last one had no use for is forgotten."""
        self._known = [one for one in self._known if one.is_used]
        for one in self._known:
            one.is_used = False

    def find(self, body: bytes, begin: int, end: int, timed: bytes) -> Cut | None:
        """The series of an answer that are in an order that is known; None: they are not.

        Args:
            body: The answer.
            begin: Where the labels of the first series begin.
            end: Where the value of the last one ends.
            timed: What parts labels from values.
        """
        for order in self._known:
            # Two orders seldom begin alike, so that what has a new one is not cut in vain.
            if body.startswith(order.first + timed, begin):
                values = order.values(body, begin, end, timed)
                if values is not None:
                    order.is_used = True
                    return Cut(order.labels, values, order)
        return None

    def add(self, labels: list[str]) -> Order:
        """Remember a new one; with too many the oldest is forgotten."""
        order = Order(labels)
        self._known = [order, *self._known[: self._most - 1]]
        return order


class Cut(NamedTuple):
    """Series at one instant, cut out of an answer without reading their labels."""

    labels: list[str]
    """What is between the braces of each one's labels."""
    values: array[float]
    order: Order | None = None
    """The same object for all answers with the same labels; None: none is remembered."""


def cut_of(body: bytes, orders: Orders | None) -> tuple[Cut, bytes] | None:
    """The series of an answer, and the rest of it; None: it has another form.

    All series of an instant bear its time, so that two texts part their labels and values. Neither
    can be within a label: its quotes would follow backslashes there. What is between them is
    read as strictly as ever: values as numbers here, labels as JSON where they are wanted.
    """
    begin = body.find(_FIRST, 0, _HEAD_BYTES)
    end = body.rfind(_END)
    found = _TIMED.search(body, begin) if begin >= 0 else None
    if found is None or found.start() > end:
        return None
    rest = body[: begin + _FIRST.index(b"{")] + body[end + _END.index(b"]", 1) + 2 :]
    begin += len(_FIRST)
    known = None if orders is None else orders.find(body, begin, end, found[0])
    if known is not None:
        return known, rest
    # VictoriaMetrics repeats bytes of a label as its page had them, UTF-8 or not.
    text = body[begin:end].decode("utf-8", "replace")
    cells = text.replace(found[0].decode(), _NEXT).split(_NEXT)
    values = None if len(cells) % 2 else _numbers(cells[1::2])
    if values is None:
        return None
    labels = cells[::2]
    return Cut(labels, values, None if orders is None else orders.add(labels)), rest


def _decimals(
    cells: NDArray[np.uint8], sizes: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Texts of digits and a point as numbers, and which are no others.

    Exactly what Python reads: both whole numbers are exact, and a quotient is the nearest number.

    Args:
        cells: A text in each row, and what follows it.
        sizes: How long each is.
    """
    digits = np.zeros(len(cells), np.int64)
    count, behind = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    has_point = np.zeros(len(cells), np.bool_)
    is_read = np.ones(len(cells), np.bool_)
    for place, column in enumerate(np.ascontiguousarray(cells.T)):
        is_within = place < sizes
        digit = column - np.uint8(ord("0"))
        is_digit = (digit < 10) & is_within
        is_point = (column == ord(".")) & is_within
        is_read &= (is_digit | is_point | ~is_within) & ~(is_point & has_point)
        digits = np.where(is_digit, digits * 10 + digit, digits)
        count += is_digit
        behind += is_digit & has_point
        has_point |= is_point
    is_read &= (count > 0) & (count <= _MOST_DIGITS)
    return digits / _POWERS[np.minimum(behind, _MOST_DIGITS)], is_read


def _numbers(values: list[str]) -> array[float] | None:
    """They as numbers; None: one is none."""
    # Python takes an underscore between digits for none.
    if "_" in "".join(values):
        return None
    try:
        return array("d", map(float, values))
    except ValueError:
        return None
