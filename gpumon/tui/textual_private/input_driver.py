"""Reads keys and writes frames: textual's driver, whose thread sleeps until there is a key.

Textual's own looks ten times a second for input and for its end. On a monitor that draws once a
second that is a tenth of all its work, and each end of the input waits for two such looks.

It also takes Esc and a key apart that come in one packet, as they do over a slow line, where
textual's parser sees Alt with that key; and it hands on as pasted what no user can have typed.
"""

from __future__ import annotations

import os
import select
import threading
import time
from codecs import getincrementaldecoder
from math import inf
from typing import IO, TYPE_CHECKING, Any, Final, cast

from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.widgets import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from io import TextIOWrapper

    from textual.message import Message

_POLL_S: Final = 0.05
"""How often it is looked, right after input, whether an escape stays alone and so is the key."""
_SETTLED_S: Final = ESCAPE_DELAY + _POLL_S
"""A poll so long after the last input hands on all that the parser still held of it."""
_END_S: Final = 1.0
"""A ring of the bell ends the input at once."""

ESC: Final = "\x1b"
_OPENERS: Final = "[O\t"
"""What an escape may begin a sequence with; with Tab it is Shift-Tab on Linux's console."""
_WORD_KEYS: Final = "bf\x7f"
"""With Alt, by a word to the left and right, and the word away: in a line that is typed."""

OUT_S: Final = 0.004
"""So long a frame is waited for: a terminal that takes nothing holds nobody up longer."""

MOST_TYPED: Final = 32
"""Signs in one read: nobody types more between two polls, also where a line hangs for a second."""
MOST_HELD: Final = 3
"""Different signs among them that are keys held down, however many of each."""
PASTE_GAP_S: Final = 0.3
"""Signs that come so soon after such a burst belong to it."""
_BLANK_KEYS: Final = {"enter": "\n", "ctrl+j": "\n", "tab": "\t"}
"""Keys that a text has in it."""


class Typing:
    """Makes of what was read what was meant."""

    def __init__(self, parser: XTermParser) -> None:
        """Take the parser that knows the sequences."""
        self._parser = parser
        self._escape = ""
        """An escape at the end of what was read: alone, or the first byte of a sequence."""
        self._is_pasting = False
        self._pasted_at = -inf

    def read(self, text: str, now_s: float, is_line: bool) -> list[Message]:
        """What was typed or pasted.

        Args:
            text: What was read.
            now_s: When, by a clock that only goes on.
            is_line: Whether a line is being typed, in which Alt has keys of its own.
        """
        found = list(self._messages(self._escape + text, _WORD_KEYS if is_line else ""))
        signs = [one.character for one in found if isinstance(one, Key) and one.is_printable]
        is_burst = len(signs) > MOST_TYPED and len(set(signs)) > MOST_HELD
        if is_burst and is_line and not any(map(_is_blank, found[:-1])):
            # One line for the line that is open, with its end or without: it does what it says.
            return found
        if is_burst or (signs and now_s - self._pasted_at < PASTE_GAP_S):
            self._pasted_at = now_s
            return list(_as_pasted(found))
        return found

    def poll(self, is_late: bool) -> Iterator[Message]:
        """What is certain by now.

        Args:
            is_late: Whether so much time has passed that an escape stays alone.
        """
        if self._escape and is_late:
            self._escape = ""
            yield Key("escape", ESC)
        yield from self._parser.tick()

    def _messages(self, text: str, word_keys: str) -> Iterator[Message]:
        self._escape = ""
        begun = 0
        for at, sign in enumerate(text):
            if sign != ESC:
                continue
            following = text[at + 1 : at + 2]
            if not following or following not in _OPENERS + word_keys:
                yield from self._parsed(text[begun:at])
                begun = at + 1
                if not following:
                    self._escape = ESC
                # The parser would take one that is pasted for keys.
                elif not self._is_within_paste(text[:at]):
                    yield Key("escape", ESC)
        yield from self._parsed(text[begun:])
        self._is_pasting = self._is_within_paste(text)

    def _is_within_paste(self, before: str) -> bool:
        """Whether what follows is a text that the terminal itself says is pasted."""
        start, end = before.rfind(BRACKETED_PASTE_START), before.rfind(BRACKETED_PASTE_END)
        return start > end if start != end else self._is_pasting

    def _parsed(self, text: str) -> Iterator[Message]:
        if text:
            yield from self._parser.feed(text)


def _is_blank(one: Message) -> bool:
    return isinstance(one, Key) and one.key in _BLANK_KEYS


def _as_pasted(found: Iterable[Message]) -> Iterator[Message]:
    """The same with all signs that follow each other put together."""
    text = ""
    for one in found:
        sign = None
        if isinstance(one, Key):
            sign = one.character if one.is_printable else _BLANK_KEYS.get(one.key)
        if sign is not None:
            text += sign
            continue
        if text:
            yield Paste(text)
            text = ""
        yield one
    if text:
        yield Paste(text)


def _ready(watched: Sequence[int], limit_s: float | None) -> set[int]:
    """Descriptors with something to read, whatever their numbers.

    `select` takes none from 1,024 on, and every ssh client has three.
    """
    poller = select.poll()
    for descriptor in watched:
        poller.register(descriptor, select.POLLIN)
    return {found for found, _ in poller.poll(None if limit_s is None else 1e3 * limit_s)}


class Outlet:
    """The file that textual's thread writes to; it knows when all is out.

    That thread is let in between the steps of who computes, once a millisecond has passed, and each
    of the pieces that a frame is made of waits anew, while a page is laid out or a table sorted.
    """

    def __init__(self, file: IO[str]) -> None:
        """Nothing was written yet."""
        self._file = file
        self._is_out = threading.Event()
        self._handed = self._written = 0

    def hand_over(self) -> None:
        """A text is about to be given to the thread."""
        self._is_out.clear()
        self._handed += 1

    def wait(self) -> bool:
        """Let the thread write all that it was given; whether it has."""
        return self._handed == 0 or self._is_out.wait(OUT_S)

    # What the thread calls

    def write(self, text: str) -> int:
        """Write a text."""
        length = self._file.write(text)
        self._written += 1
        return length

    def flush(self) -> None:
        """Send what was written; the thread does so once it has been given nothing more."""
        self._file.flush()
        if self._written == self._handed:
            self._is_out.set()

    def fileno(self) -> int:
        """The terminal's."""
        return self._file.fileno()


class PatientDriver(LinuxDriver):
    """Textual's driver, woken by input or by its end."""

    _bell: tuple[int, int] | None = None
    """A pipe that says that the input ends, while there is any."""

    _outlet: Outlet | None = None
    """What goes to the terminal goes through it."""

    def start_application_mode(self) -> None:
        """Take the screen and the keys."""
        self._bell = self._bell or os.pipe()
        file = self._file
        if file is not None:
            self._outlet = Outlet(file)
            # Textual's thread takes over what it finds here.
            self._file = cast("TextIOWrapper[Any]", self._outlet)
        try:
            super().start_application_mode()  # type: ignore[no-untyped-call]
        finally:
            self._file = file

    def write(self, data: str) -> None:
        """Have the thread that writes send this."""
        if self._outlet is not None:
            self._outlet.hand_over()
        super().write(data)

    def flush(self) -> None:
        """Let what was written out: what comes next would keep it waiting."""
        if self._outlet is not None:
            self._outlet.wait()

    def run_input_thread(self) -> None:
        """Hand on what is typed, until the input is disabled."""
        bell = self._bell
        if bell is None:
            return
        typing = Typing(XTermParser(getattr(self, "_debug", False)))
        decode: Callable[[bytes], str] = getincrementaldecoder("utf-8")().decode
        watched = [self.fileno, bell[0]]
        typed_at = float("-inf")
        is_settled = True
        while not self.exit_event.is_set():
            ready = _ready(watched, None if is_settled else _POLL_S)
            if bell[0] in ready:
                self.exit_event.wait(_END_S)
            elif ready:
                data = os.read(self.fileno, 4096)
                if not data:
                    # The end of a pipe; a terminal that hangs up is noticed elsewhere.
                    watched = [bell[0]]
                    continue
                self._note_input()
                typed_at = time.monotonic()
                for event in typing.read(decode(data), typed_at, self._is_line):
                    self.process_message(event)
            # Of the poll itself, not of the next wait: a busy machine may hold this thread up
            # between the two, and an escape that is not polled for waits for the next key.
            polled_at = time.monotonic()
            for event in typing.poll(polled_at - typed_at > ESCAPE_DELAY):
                self.process_message(event)
            is_settled = polled_at - typed_at > _SETTLED_S

    def _note_input(self) -> None:
        """Have long work make way: the key is heard of once its turn has come."""
        note = getattr(self._app, "note_input", None)
        if note is not None:
            note()

    @property
    def _is_line(self) -> bool:
        """Whether a line is being typed."""
        stack = self._app.screen_stack
        return bool(stack) and isinstance(stack[-1].focused, Input)

    def disable_input(self) -> None:
        """Take no further input; the thread ends at once."""
        bell, self._bell = self._bell, None
        if bell is not None:
            os.write(bell[1], b"!")
        super().disable_input()
        for end in bell or ():
            os.close(end)
