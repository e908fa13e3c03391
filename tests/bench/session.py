"""A program on a pseudo-terminal whose screen is known: what a key changes, and how long it takes.

One thread reads, draws and types, so that nothing here keeps a byte waiting but the drawing itself.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.bench.pty_start import started
from tests.bench.screen import Screen, changed_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


READY = b"\x1b]2;ready\x07"
KNOWS_SYNC = b"\x1b[?2026;2$y"
"""The terminal's answer that it knows synchronised output."""
_QUIT_S = 4.0


class Traffic(NamedTuple):
    """What went to the terminal in a stretch of time without keys."""

    seconds: float
    bytes: int
    cells: int
    """Cells that looked otherwise from one second to the next, added up."""
    frames: int


class Session:
    """A running program, its screen, and the time when each of its bytes came."""

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], columns: int, rows: int
    ) -> None:
        self.screen = Screen(columns, rows)
        self.bytes = 0
        self.arrived_s = 0.0
        """When the newest bytes came, by the performance counter."""
        self.ready_s: float | None = None
        self._has_answered = False
        self._state = tempfile.TemporaryDirectory()
        self.began_s = time.perf_counter()
        self._process, self._master = started(words, env, columns, rows, self._state.name)

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

    def pump(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Draw what comes, for so long or until something is true of the screen; whether it is."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                break
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                break
            self.arrived_s = time.perf_counter()
            self.bytes += len(data)
            if self.ready_s is None and READY in data:
                self.ready_s = self.arrived_s
            self.screen.feed(data)
            if self.screen.asks_for_sync and not self._has_answered:
                self._has_answered = True
                os.write(self._master, KNOWS_SYNC)
            if until is not None and until():
                return True
        return False

    def press(self, key: bytes) -> None:
        """Type without waiting for anything."""
        os.write(self._master, key)

    def key_to_paint(
        self, key: bytes, look: Callable[[Screen], object], patience_s: float
    ) -> float | None:
        """Seconds from writing a key until the frame had come in which the look differs.

        Of programs that do not mark the ends of their frames, until the first bytes that make the
        look differ. None: nothing changed in time.
        """
        before, frames = look(self.screen), self.screen.frames
        has_frames = frames > 0

        def is_seen() -> bool:
            nonlocal frames
            if has_frames and self.screen.frames == frames:
                return False
            frames = self.screen.frames
            return look(self.screen) != before

        began_s = time.perf_counter()
        self.press(key)
        return self.arrived_s - began_s if self.pump(patience_s, is_seen) else None

    def traffic(self, seconds: int) -> Traffic:
        """Watch for so many seconds."""
        begin, bytes_before, frames = time.perf_counter(), self.bytes, self.screen.frames
        cells, before = 0, self.screen.cells()
        for _ in range(seconds):
            self.pump(1.0)
            now = self.screen.cells()
            cells += changed_cells(before, now)
            before = now
        took_s = time.perf_counter() - begin
        return Traffic(took_s, self.bytes - bytes_before, cells, self.screen.frames - frames)

    def close(self) -> None:
        """Ends the program with `q`, kills it where that does nothing."""
        try:
            self.press(b"q")
            end = time.perf_counter() + _QUIT_S
            while time.perf_counter() < end and not self.has_ended:
                self.pump(0.05)
        except OSError:
            pass
        if not self.has_ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)
        self._state.cleanup()
