"""Puts together what several probes write in pieces on the one output of their step.

A piece that srun tore, or that another task's words stand in, costs its message and nothing else.
"""

from __future__ import annotations

import re
from typing import Final

PIECE: Final = re.compile(
    rb"~([0-9]{1,6})\.([0-9]{1,15})\.([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,4}) "
)
"""Task, number of the message, place and count of the piece, length of what follows."""

MAX_PIECES: Final = 20000
"""Most pieces of one message: about 16 MiB, the longest report."""


class Message:
    """A message of one task as far as it has come."""

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.count = count
        self.parts: list[bytes] = []


class Tasks:
    """Pieces of the tasks of one step, numbered from 0."""

    def __init__(self, count: int) -> None:
        """`count` tasks write; whatever names another is not theirs."""
        self._open: dict[int, Message] = {}
        self._count = count
        self.torn = 0
        """Pieces that arrived damaged or without the one before them."""

    def take(self, line: bytes) -> tuple[int, bytes] | None:
        """Task and text of the message that this line completes; None: of none."""
        head = PIECE.match(line)
        if head is None:
            return None
        task, number, place, count, length = map(int, head.groups())
        part = line[head.end() :]
        if task >= self._count or not place < count <= MAX_PIECES or len(part) != length:
            self.torn += 1
            return None
        if place == 0:
            self._open[task] = Message(number, count)
        message = self._open.get(task)
        expected = (number, count, place)
        if message is None or (message.number, message.count, len(message.parts)) != expected:
            self.torn += 1
            self._open.pop(task, None)
            return None
        message.parts.append(part)
        if len(message.parts) < count:
            return None
        del self._open[task]
        return task, b"".join(message.parts)
