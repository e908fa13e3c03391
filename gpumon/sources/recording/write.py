"""Writes one recording: private, append-only, on disk up to the last flush whatever comes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.encode import Encoder
from gpumon.sources.recording.read import check_recording

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from gpumon.model.records.frame import Frame

FLUSH_S: Final = 1.0
"""Least time between two flushes, which come with a tick: nothing waits longer than a period
and this."""

SYNC_S: Final = 60.0
"""Time between two sync lines: what a seek may have to read in vain, and what a crash of the
machine may cost, for with them the file is brought to the disk."""

_LEVEL: Final = 3
"""zstd's own default: levels above cost more time than the disk is worth."""


class RecordingWriter:
    """Appends frames to one file, and flushes them with the ticks.

    What a flush has written stays readable after a SIGKILL. A crash of the whole machine may cost
    what came since the last sync line.
    """

    def __init__(
        self,
        path: Path,
        started_at: float,
        period_s: float,
        targets: Sequence[str],
        *,
        is_forced: bool = False,
        is_appended: bool = False,
    ) -> None:
        """Create the file, mode 0600, and write its header.

        Args:
            path: A name that ends in `.zst` is written compressed.
            started_at: Unix time.
            period_s: Seconds between ticks.
            targets: URLs of what is recorded, without secrets.
            is_forced: Replace a recording that is there; anything else is never replaced.
            is_appended: Continue a recording that is there.

        Raises:
            RecordingError: There is a file already, or something that is no recording.
            OSError: It cannot be written.
        """
        self.path = path
        descriptor = _open(path, is_forced=is_forced, is_appended=is_appended)
        self._descriptor: int | None = descriptor
        with ExitStack() as undo:
            undo.callback(self.abandon)
            self._size = os.fstat(descriptor).st_size
            if not self._size and not is_forced:
                # A full disk leaves no file that holds nothing, at every try another one.
                undo.callback(path.unlink, missing_ok=True)
            self._encoder = Encoder()
            self._compressor = _Compressor() if path.suffix == ".zst" else None
            self._waiting: list[bytes] = []
            self._flushed_at = self._synced_at = started_at
            if self._size:
                # A line that a killed recorder left unfinished ends here.
                self._append(b"\n" if self._compressor is None else b"")
            self._waiting.append(self._encoder.header(started_at, period_s, targets))
            self._waiting.append(self._encoder.sync(started_at))
            self.flush(started_at)
            undo.pop_all()

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        return self._size

    def frames(self, frames: Iterable[Frame]) -> None:
        """Take frames; they are written with the next tick.

        Answers about ended jobs are left out: they are asked for on a screen, not recorded.
        """
        recorded = (frame for frame in frames if frame.ended is None)
        self._waiting.extend(self._encoder.frame(frame) for frame in recorded)

    def end_tick(self, at: float, period_s: float) -> None:
        """End a tick, and flush where it is time to.

        Raises:
            OSError: The disk is full, for example; the file ends with the last flush then.
        """
        self._waiting.append(self._encoder.end_tick(at, period_s))
        if at - self._synced_at >= SYNC_S or at < self._synced_at:
            self._end_passage()
            os.fdatasync(self._open_descriptor())
            self._synced_at = at
            self._waiting.append(self._encoder.sync(at))
        elif at - self._flushed_at >= FLUSH_S or at < self._flushed_at:
            self.flush(at)

    def lost(self, at: float, ticks: int) -> None:
        """Note that so many ticks before the next one are not there."""
        self._waiting.append(self._encoder.lost(at, ticks))

    def flush(self, at: float) -> None:
        """Hand everything to the operating system, so that it outlives this process."""
        data = b"".join(self._waiting)
        if self._compressor is not None:
            data = self._compressor.pressed(data)
        self._append(data)
        self._waiting.clear()
        self._flushed_at = at

    def close(self) -> None:
        """Write the rest and bring the file to the disk.

        Raises:
            OSError: It cannot be written.
        """
        try:
            self._end_passage()
            os.fsync(self._open_descriptor())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as the last flush left it; one that is closed already is left alone."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        return self._descriptor

    def _end_passage(self) -> None:
        data = b"".join(self._waiting)
        if self._compressor is not None:
            data = self._compressor.ended(data)
        self._append(data)
        self._waiting.clear()

    def _append(self, data: bytes) -> None:
        """Write all of it, or leave the file as it was."""
        rest, descriptor = memoryview(data), self._open_descriptor()
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, self._size)
            raise
        self._size += len(data)


class _Compressor:
    """A row of zstd frames, one per passage: each can be read without those before it."""

    def __init__(self) -> None:
        import zstandard

        self._zstd = zstandard
        self._maker = zstandard.ZstdCompressor(level=_LEVEL)
        self._open: Any = None

    def pressed(self, data: bytes) -> bytes:
        """The data as whole blocks of the frame that is under way."""
        self._open = self._open or self._maker.compressobj()
        pressed: bytes = self._open.compress(data)
        return pressed + bytes(self._open.flush(self._zstd.COMPRESSOBJ_FLUSH_BLOCK))

    def ended(self, data: bytes) -> bytes:
        """The data as the end of the frame."""
        self._open = self._open or self._maker.compressobj()
        pressed: bytes = self._open.compress(data)
        pressed += self._open.flush(self._zstd.COMPRESSOBJ_FLUSH_FINISH)
        self._open = None
        return pressed


def _open(path: Path, *, is_forced: bool, is_appended: bool) -> int:
    """Descriptor of a file that no other user reads and no other recorder writes."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    is_new = True
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if not (is_forced or is_appended):
            message = f"{path} already exists; --append continues it, --force replaces it"
            raise RecordingError(message) from None
        descriptor = os.open(path, flags | os.O_NONBLOCK)
        is_new = False
    with ExitStack() as undo:
        undo.callback(os.close, descriptor)
        if not is_new:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                message = f"{path} is not a regular file"
                raise RecordingError(message)
            if os.fstat(descriptor).st_size:
                check_recording(path)
        lock(path, descriptor)
        if not is_new:
            os.fchmod(descriptor, 0o600)
            if is_forced:
                os.ftruncate(descriptor, 0)
        undo.pop_all()
    return descriptor


def lock(path: Path, descriptor: int) -> None:
    """Keep other recorders away for as long as the descriptor is open.

    Raises:
        RecordingError: Another one is there.
        OSError: The file system knows no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"{path} is being written by another recorder"
        raise RecordingError(message) from None
