"""A program in a terminal of its own: what it draws and when, without anybody looking."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.bench.pty_start import started

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIZE = (200, 60)
"""Columns and rows of a large terminal."""
PAINTED = 10
"""So many visible characters make a first paint; the rest before it is set-up of the terminal."""

ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P_^X].*?(?:\x1b\\|\x07)|[ -/]*[0-Z\\^-~])", re.DOTALL
)
_BLANKS = re.compile(rb"[\x00-\x20\x7f]+")
_QUIT_S = 10.0


class Traffic(NamedTuple):
    """What a program has drawn so far."""

    bytes: int
    seconds: int
    """In so many it has drawn anything."""


class Terminal:
    """A running program behind a pseudo-terminal, drained by a thread."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        marker: str,
        size: tuple[int, int] = SIZE,
    ) -> None:
        self._marker = marker.encode()
        self._head = bytearray()
        self._bytes = 0
        self._seconds: set[int] = set()
        self.paint_s: float | None = None
        self.marker_s: float | None = None
        self.quit_s: float | None = None
        self._state = tempfile.TemporaryDirectory()
        self._begin = time.perf_counter()
        self._process, self._master = started(words, env, *size, self._state.name)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the program is gone."""
        return self._process.poll() is not None

    def wait_for_paint(self, seconds: float) -> None:
        """Returns when the marker has been drawn, the program has ended, or the time is over."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and self.marker_s is None and not self.has_ended:
            time.sleep(0.01)

    def traffic(self) -> Traffic:
        """What has been drawn so far."""
        return Traffic(self._bytes, len(self._seconds))

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._master, keys)

    def close(self) -> None:
        """Ends the program with `q`; `quit_s` stays None where it has to be killed."""
        begin = time.perf_counter()
        try:
            self.press(b"q")
            self._process.wait(_QUIT_S)
            self.quit_s = time.perf_counter() - begin
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._closing.set()
        self._thread.join()
        os.close(self._master)
        self._state.cleanup()

    def _drain(self) -> None:
        while not self._closing.is_set():
            ready, _, _ = select.select([self._master], [], [], 0.1)
            if not ready:
                continue
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            now_s = time.perf_counter() - self._begin
            self._bytes += len(data)
            self._seconds.add(int(now_s))
            if self.marker_s is None:
                self._look(data, now_s)

    def _look(self, data: bytes, now_s: float) -> None:
        self._head += data
        text = ESCAPES.sub(b"", bytes(self._head))
        if self.paint_s is None and len(_BLANKS.sub(b"", text)) >= PAINTED:
            self.paint_s = now_s
        if self._marker in text:
            self.marker_s = now_s
