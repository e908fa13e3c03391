"""Series at one instant, cut out of an answer without reading their labels.

A server lists the series of a fleet in the same order, metric after metric and poll after poll:
what is between their values is compared, and only the values are read.
"""

from __future__ import annotations

import re
from array import array
from typing import Final, NamedTuple

MOST_ORDERS: Final = 8
"""Orders that are remembered: of those that all metrics have, and that some have."""

_HEAD_BYTES: Final = 1024
"""Within so much of an answer its series begin."""

_FIRST: Final = b'"result":[{"metric":{'
_TIMED: Final = re.compile(rb'\},"value":\[[0-9.]{1,24},"')
_NEXT: Final = '"]},{"metric":{'
_END: Final = b'"]}]'
"""What is before, within, between and after series at one instant."""


class Order:
    """Series as one answer listed them."""

    def __init__(self, labels: list[str]) -> None:
        """By what is between the braces of each one's labels."""
        self.labels = labels
        self.is_used = True
        """Whether an answer had it of late."""
        self._ends: list[str] = []

    def values(self, pieces: list[str]) -> array[float] | None:
        """The values of an answer that has the same series in the same order; None: it has not.

        Args:
            pieces: The answer, cut where the time of each value is: before the first one are
                the labels of its series, between others a value and the labels of the next.
        """
        if len(pieces) != len(self.labels) + 1 or pieces[0] != self.labels[0]:
            return None
        if not self._ends:
            self._ends = [_NEXT + labels for labels in self.labels[1:]]
        # Of other labels more is left than a number.
        values = [*map(str.removesuffix, pieces[1:-1], self._ends), pieces[-1]]
        return _numbers(values)


class Orders:
    """The orders of the answers to one poll, and to the one before."""

    def __init__(self) -> None:
        """There was no answer."""
        self._known: list[Order] = []

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def begin(self) -> None:
        """A poll begins: what the last one had no use for is forgotten."""
        self._known = [one for one in self._known if one.is_used]
        for one in self._known:
            one.is_used = False

    def find(self, text: str, timed: str) -> Cut | None:
        """The series of an answer that are in an order that is known; None: they are not.

        Args:
            text: From within the first one's labels to the end of the last one's value.
            timed: What parts labels from values.
        """
        pieces: list[str] = []
        for order in self._known:
            # Two orders seldom begin alike, so that what has a new one is not cut in vain.
            if text.startswith(timed, len(order.labels[0])) and text.startswith(order.labels[0]):
                pieces = pieces or text.split(timed)
                values = order.values(pieces)
                if values is not None:
                    order.is_used = True
                    return Cut(order.labels, values, order)
        return None

    def add(self, labels: list[str]) -> Order:
        """Remember a new one; with too many the oldest is forgotten."""
        order = Order(labels)
        self._known = [order, *self._known[: MOST_ORDERS - 1]]
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
    try:
        text = body[begin + len(_FIRST) : end].decode()
    except UnicodeDecodeError:
        return None
    timed = found[0].decode()
    rest = body[: begin + _FIRST.index(b"{")] + body[end + _END.index(b"]", 1) + 2 :]
    known = None if orders is None else orders.find(text, timed)
    if known is not None:
        return known, rest
    cells = text.replace(timed, _NEXT).split(_NEXT)
    values = None if len(cells) % 2 else _numbers(cells[1::2])
    if values is None:
        return None
    labels = cells[::2]
    return Cut(labels, values, None if orders is None else orders.add(labels)), rest


def _numbers(values: list[str]) -> array[float] | None:
    """They as numbers; None: one is none."""
    # Python takes an underscore between digits for none.
    if "_" in "".join(values):
        return None
    try:
        return array("d", map(float, values))
    except ValueError:
        return None
