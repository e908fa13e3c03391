"""A rolling recording: a folder of segments, of which the oldest are removed."""

from __future__ import annotations

import calendar
import errno
import fcntl
import os
import re
import time
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.base.paths import make_private, recordings_folder
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.write import RecordingWriter, lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.model.records.frame import Frame

RETENTION_S: Final = 24 * 3600.0
"""How long a rolling recording is stored unless the user sets another time."""

MAX_BYTES: Final = 2 * 2**30
"""How large it may become likewise."""

RETRY_S: Final = 30.0
"""After an error, such as a full disk, recording is tried again so often."""

_SEGMENT_S: Final = 3600.0
"""Longest segment, seconds (our choice): what a crash may damage, and what goes when room is
needed."""

_SEGMENTS_OF_TIME: Final = 24
"""A segment is at most this part of the time that is stored, so that what goes is little of it."""

_SEGMENTS_OF_SIZE: Final = 16
"""The same of the bytes."""

_NAME: Final = re.compile(r"\d{8}T\d{6}Z(?:-\d{1,3})?\.gpumon(?:\.zst)?\Z")
_LOCK: Final = ".lock"


class RecordingFolder:
    """Writes segment after segment, within a bound of time and one of size."""

    def __init__(
        self,
        folder: Path,
        started_at: float,
        period_s: float,
        targets: Sequence[str],
        retention_s: float = RETENTION_S,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Begin the first segment; the folder is made, mode 0700, where it is not there.

        Raises:
            RecordingError: Another recorder writes there.
            OSError: Nothing can be written there.
        """
        self.folder = folder
        self._period_s = period_s
        self._targets = tuple(targets)
        self._retention_s = retention_s
        self._max_bytes = max_bytes
        self.trouble: OSError | None = None
        """Why nothing is recorded at present; None: all is well."""
        self._retry_at = 0.0
        self._writer: RecordingWriter | None = None
        make_private(folder)
        self._lock = os.open(
            folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with ExitStack() as undo:
            undo.callback(os.close, self._lock)
            lock(folder, self._lock)
            self._begin(started_at)
            undo.pop_all()

    @property
    def size_bytes(self) -> int:
        """Length of all segments."""
        return sum(_size(path) for path in segments(self.folder))

    def frames(self, frames: Iterable[Frame]) -> None:
        """Take frames; nothing is stored while there is trouble."""
        if self._writer is not None:
            self._writer.frames(frames)

    def end_tick(self, at: float, period_s: float) -> None:
        """End a tick, and a segment that is long enough. Raises nothing: see `trouble`."""
        try:
            if self._writer is None:
                if at >= self._retry_at:
                    self._begin(at)
                return
            self._writer.end_tick(at, period_s)
            is_long = not 0 <= at - self._begun_at < self._segment_s
            if is_long or self._writer.size_bytes >= self._max_bytes // _SEGMENTS_OF_SIZE:
                writer, self._writer = self._writer, None
                writer.close()
                self._begin(at)
        except OSError as error:
            self._pause(at, error)

    def lost(self, at: float, ticks: int) -> None:
        """Note that so many ticks before the next one are not there."""
        if self._writer is not None:
            self._writer.lost(at, ticks)

    def close(self) -> None:
        """Write the rest.

        Raises:
            OSError: It cannot be written.
        """
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        finally:
            os.close(self._lock)

    @property
    def _segment_s(self) -> float:
        return min(_SEGMENT_S, self._retention_s / _SEGMENTS_OF_TIME)

    def _begin(self, at: float) -> None:
        self._clear(at)
        stem = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
        for number in range(1000):
            name = f"{stem}-{number}" if number else stem
            try:
                self._writer = RecordingWriter(
                    self.folder / f"{name}.gpumon.zst", at, self._period_s, self._targets
                )
            except RecordingError:
                continue
            self._begun_at = at
            self.trouble = None
            return
        raise OSError(errno.EEXIST, "no free name for a segment", str(self.folder))

    def _pause(self, at: float, error: OSError) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
        self.trouble = error
        self._retry_at = at + RETRY_S

    def _clear(self, now: float) -> None:
        """Remove the oldest segments: those past their time, and as many as are too much."""
        stored = segments(self.folder)
        used = sum(map(_size, stored))
        room = self._max_bytes - self._max_bytes // _SEGMENTS_OF_SIZE
        for path, following in zip_longest(stored, stored[1:]):
            ended_at = now if following is None else _begun_at(following)
            if now - ended_at <= self._retention_s and used <= room:
                return
            used -= _size(path)
            path.unlink(missing_ok=True)


def segments(folder: Path) -> list[Path]:
    """Segments of a rolling recording, oldest first; other files are none of its business."""
    return sorted(
        (path for path in folder.iterdir() if _NAME.match(path.name) and path.is_file()),
        key=lambda path: (_begun_at(path), len(path.name), path.name),
    )


def is_running(folder: Path) -> bool:
    """Whether a recorder of this user writes there."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def own_folder(urls: Sequence[str], host_name: str) -> Path:
    """Where this user's rolling recording of some targets lies."""
    name = "+".join(re.sub(r"[^A-Za-z0-9_.@-]+", "-", url).strip("-.") for url in urls)
    if "local" in urls:
        # Homes are shared between machines; what is local differs.
        name = f"{name}@{host_name}"
    return Path(recordings_folder(), name[:200])


def _begun_at(path: Path) -> float:
    try:
        return float(calendar.timegm(time.strptime(path.name[:16], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
