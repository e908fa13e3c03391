"""The one way onto standard output: whole texts, whatever stands behind it.

Python's own writing takes a short write for the whole where it is unbuffered, and keeps what a full
disk refused for another attempt at the end. So texts are written here, to the descriptor itself.
"""

from __future__ import annotations

# Not signal, which makes an enum of every signal: .6 ms of a single answer.
import _signal as signal
import os
import select
import stat
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from gpumon.base.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import TextIO

FINISH_S: Final = 2.0
"""After an interrupt the reader has so long to take the rest of a line that was begun."""

_POLL_S: Final = 0.2
"""Where nobody reads, how often it is looked whether the user wants to go."""

_FILE_BYTES: Final = 2**20
"""Written to a file at once."""


class OutputError(UnavailableError):
    """Standard output does not take what it is given; the message says why."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Why, and of what."""
        return (f"standard output: {self}",)


class ReaderGoneError(OutputError):
    """The reader of standard output has gone, for example `head`; what it wanted was written."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Nothing: it has what it wanted."""
        return ()


def open_standard_streams() -> None:
    """Put something in the place of standard streams that were closed when gpumon started.

    A file that is opened later would get their number, and whatever was meant for the stream.
    Standard output itself stays closed to Python, so that writing there fails.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def is_tty() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_dumb() -> bool:
    """Whether the terminal can do no more than print lines, by its own word."""
    return os.environ.get("TERM") == "dumb"


def is_ascii_only() -> bool:
    """Whether who calls gpumon has asked for the C locale, whose letters are ASCII.

    Python writes UTF-8 there (PEP 540), which such a caller may not be able to read.
    """
    return os.environ.get("LC_ALL") in ("C", "POSIX")


def write(text: str, instead: Callable[[str], str] | None = None) -> None:
    """Write a text to standard output, all of it; an interrupt does not tear it.

    Args:
        text: What is to be written.
        instead: What to write for a character that the output's encoding lacks; None: what looks
            like it in ASCII.

    Raises:
        OutputError: It could not be written.
        KeyboardInterrupt: It was written, or its reader does not read on.
    """
    stream = sys.stdout
    try:
        if stream is None:
            raise OutputError("it is closed")
        with _Interrupt() as interrupt:
            _send(stream, text, instead, interrupt)
    except BrokenPipeError:
        raise ReaderGoneError("its reader is gone") from None
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from None


def write_json(data: Mapping[str, object], *, is_pretty: bool = False) -> None:
    """Write a document as JSON, on one line unless it is to be pretty.

    Raises:
        OutputError: It could not be written.
    """
    write(_json(data, is_pretty=is_pretty))


def _json(data: Mapping[str, object], *, is_pretty: bool) -> str:
    import json

    separators = None if is_pretty else (",", ":")
    text = json.dumps(data, indent=2 if is_pretty else None, separators=separators, allow_nan=False)
    return text + "\n"


def write_stderr(text: str) -> None:
    """Write a text to standard error; where that does not take it, nobody is to be told."""
    if sys.stderr is None:
        return
    with suppress(OSError), _Interrupt() as interrupt:
        _send(sys.stderr, text, None, interrupt)


class Documents:
    """A stream of documents that one thread writes and another one ends, between two lines."""

    def __init__(self, on_refusal: Callable[[], None]) -> None:
        """Nothing is written yet.

        Args:
            on_refusal: Called in the writing thread when the output takes no more.
        """
        self._on_refusal = on_refusal
        self._refusal: OutputError | None = None
        self._is_over = False
        self._free = threading.Lock()

    def write(self, data: Mapping[str, object]) -> None:
        """Write a document, unless it is the end."""
        text = _json(data, is_pretty=False)
        with self._free:
            if self._is_over:
                return
            try:
                write(text)
            except OutputError as error:
                self._is_over, self._refusal = True, error
                self._on_refusal()

    def end(self, limit_s: float | None = FINISH_S) -> bool:
        """Begin no further line; whether the one under way was finished within the limit.

        Args:
            limit_s: How long its reader is waited for; None: for ever.
        """
        self._is_over = True
        is_free = self._free.acquire(timeout=-1 if limit_s is None else limit_s)
        if is_free:
            self._free.release()
        return is_free

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it; what the output refused is an error of whoever does."""
        self.end()
        if kind is None and self._refusal is not None:
            raise self._refusal


class _Interrupt:
    """Holds an interrupt back in the main thread, the only one that feels it; a second one acts."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._at is not None and kind is None:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._at is not None:
            raise KeyboardInterrupt
        self._at = time.monotonic()

    def is_out_of_patience(self) -> bool:
        """Whether it came so long ago that the reader is not waited for any more."""
        return self._at is not None and time.monotonic() - self._at > FINISH_S


def _send(
    stream: TextIO, text: str, instead: Callable[[str], str] | None, interrupt: _Interrupt
) -> None:
    try:
        descriptor = stream.fileno()
    except (OSError, AttributeError):
        # Somebody in this process has put an object of its own there and wants the text.
        stream.write(text)
        stream.flush()
        return
    # A plugin may have printed.
    stream.flush()
    encoding = "ascii" if is_ascii_only() else stream.encoding
    left = memoryview(_encoded(text, encoding, instead))
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    # As much goes into a pipe that is ready without waiting there, where no interrupt would count.
    step = _FILE_BYTES if is_file else select.PIPE_BUF
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    while left:
        if interrupt.is_out_of_patience():
            raise KeyboardInterrupt
        if not ready.poll(_POLL_S * 1000):
            continue
        try:
            left = left[os.write(descriptor, left[:step]) :]
        except BlockingIOError:
            continue


def _encoded(text: str, encoding: str, instead: Callable[[str], str] | None) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        from gpumon.report.text.ascii_only import ascii_only

    def fitting(char: str) -> str:
        try:
            char.encode(encoding)
        except UnicodeEncodeError:
            return (instead or ascii_only)(char)
        return char

    return "".join(map(fitting, text)).encode(encoding, "replace")
