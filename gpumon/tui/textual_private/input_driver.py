"""Reads the keys: textual's driver, whose thread sleeps until there are some.

Textual's own looks ten times a second for input and for its end. On a monitor that draws once a
second that is a tenth of all its work, and each end of the input waits for two such looks.
"""

from __future__ import annotations

import os
import select
import time
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Final

from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOOK_S: Final = 0.05
"""How often it is looked, right after input, whether an escape stays alone and so is the key."""
_SETTLED_S: Final = ESCAPE_DELAY + _LOOK_S
"""A look so long after the last input hands on all that the parser still held of it."""
_END_S: Final = 1.0
"""Whoever rings the bell ends the input at once."""


def _ready(watched: Sequence[int], limit_s: float | None) -> set[int]:
    """Descriptors with something to read, whatever their numbers.

    `select` takes none from 1,024 on, and every ssh client has three.
    """
    poller = select.poll()
    for descriptor in watched:
        poller.register(descriptor, select.POLLIN)
    return {found for found, _ in poller.poll(None if limit_s is None else 1e3 * limit_s)}


class PatientDriver(LinuxDriver):
    """Textual's driver, woken by input or by its end."""

    _bell: tuple[int, int] | None = None
    """A pipe that says that the input ends, while there is any."""

    def start_application_mode(self) -> None:
        """Take the screen and the keys."""
        self._bell = self._bell or os.pipe()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def run_input_thread(self) -> None:
        """Hand on what is typed, until the input is disabled."""
        bell = self._bell
        if bell is None:
            return
        parser = XTermParser(getattr(self, "_debug", False))
        decode: Callable[[bytes], str] = getincrementaldecoder("utf-8")().decode
        watched = [self.fileno, bell[0]]
        typed_at = float("-inf")
        is_settled = True
        while not self.exit_event.is_set():
            ready = _ready(watched, None if is_settled else _LOOK_S)
            if bell[0] in ready:
                self.exit_event.wait(_END_S)
            elif ready:
                data = os.read(self.fileno, 4096)
                if not data:
                    # The end of a pipe; a terminal that hangs up is noticed elsewhere.
                    watched = [bell[0]]
                    continue
                typed_at = time.monotonic()
                for event in parser.feed(decode(data)):
                    self.process_message(event)
            # Of the look itself, not of the next wait: a busy machine may hold this thread up
            # between the two, and an escape that is not looked for waits for the next key.
            looked_at = time.monotonic()
            for event in parser.tick():
                self.process_message(event)
            is_settled = looked_at - typed_at > _SETTLED_S

    def disable_input(self) -> None:
        """Take no further input; the thread ends at once."""
        bell, self._bell = self._bell, None
        if bell is not None:
            os.write(bell[1], b"!")
        super().disable_input()
        for end in bell or ():
            os.close(end)
