"""Reads the lines of a recording, plain or compressed, whole or cut short, from any passage on."""

from __future__ import annotations

import json
import os
import stat
from bisect import bisect_right
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.text import plain
from gpumon.sources.recording.decode import Header, LineError, RecordingError, header_of
from gpumon.sources.recording.records import number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_LINE_BYTES: Final = 64 * 2**20
"""Longest line that is read: the queue of a large cluster is a tenth of it."""

_MAX_HEADER_BYTES: Final = 2**20
"""Longest first line: it holds the targets and the settings, some hundred bytes of each."""

_MAX_FALSE_MARKS: Final = 3
"""The search ends after more marks by chance before a true one."""
_PIECE_BYTES: Final = 2**16
_FIRST_PIECE_BYTES: Final = 2**10
"""Enough for the line that begins a passage."""

_MOST_EXPANSION: Final = 500
_LEAST_TEXT_BYTES: Final = 4 * 2**20
"""How many times its size a compressed passage may become, and what a short one may become anyhow:
a fleet's becomes 6 times its size, one made to fill memory 10,000 times."""

_MOST_MARKS: Final = 2000
_MARKS_PER_MIB: Final = 64
"""Passages that are distinguished: of more, which no recorder writes, some are taken together."""

_SCAN_BYTES: Final = 2**20
"""Bytes that are searched for a mark at a time."""

_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_MAX_WINDOW_BYTES: Final = 8 * 2**20
"""Memory that a frame may ask for while it is read; `zstd` up to level 19 asks less."""
_ASKS_TOO_MUCH: Final = "too much memory"
"""Words of zstd for a frame beyond that."""
SYNC_BEGIN: Final = b'{"kind":"sync",'
"""How a sync line begins, to the letter: passages are found by it."""
_HEADER: Final = b'{"kind":"header",'


class Line(NamedTuple):
    """One line of a file."""

    where: str
    """Its place, for messages."""
    raw: bytes
    is_whole: bool
    """Whether it ended with a line feed; the last one may have been cut off."""


class Passage(NamedTuple):
    """A stretch that can be read without what comes before it."""

    at: float
    """Unix time of its begin."""
    begin: int
    end: int


class RecordingFile:
    """One file and its passages. What is appended after it was opened is not seen."""

    def __init__(self, path: Path) -> None:
        """Read the header and find the passages.

        Raises:
            RecordingError: It is no recording that can be read.
            OSError: It cannot be opened.
        """
        self.path = path
        with _opened(path) as file:
            self.header = _header(path, file)
            file.seek(0)
            self.is_compressed = file.read(len(_ZSTD)) == _ZSTD
            self.passages = tuple(_passages(file, self.header.started_at, self.is_compressed))

    def passage_at(self, at: float) -> int:
        """Number of the passage that the time lies in, 0 where it lies before all of them."""
        return max(0, bisect_right([passage.at for passage in self.passages], at) - 1)

    def lines(self, first: int = 0) -> Iterator[Line]:
        """Its lines from a passage on, longer ones than `MAX_LINE_BYTES` cut.

        Raises:
            OSError: It cannot be read.
        """
        with _opened(self.path) as file:
            counted = 0
            begin = self.passages[first].begin
            after = f" after byte {begin}" if begin else ""
            for passage in self.passages[first:]:
                pieces = _pieces(file, passage, self.is_compressed)
                for raw, is_whole in _split(pieces):
                    counted += 1
                    yield Line(f"line {counted}{after}", raw, is_whole)


def check_recording(path: Path) -> Header:
    """The header of a recording.

    Raises:
        RecordingError: It is no recording that can be read.
        OSError: It cannot be opened.
    """
    with _opened(path) as file:
        return _header(path, file)


def _opened(path: Path) -> IO[bytes]:
    """The file, opened without waiting for a writer where the path is a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        message = f"{path} is not a file"
        raise RecordingError(message)
    return os.fdopen(descriptor, "rb")


def _header(path: Path, file: IO[bytes]) -> Header:
    start = file.read(_MAX_HEADER_BYTES)
    size = file.seek(0, 2)
    marks = list(_marks(start, _ZSTD)) if start.startswith(_ZSTD) else []
    try:
        raw = _first_line(file, 0, [*marks, size], is_compressed=start.startswith(_ZSTD))
        if raw is None:
            raise RecordingError("is not a recording of gpumon" if start else "is empty")
        message = json.loads(raw)
        if not isinstance(message, dict):
            raise RecordingError("is not a recording of gpumon")
        return header_of(message)
    except RecordingError as error:
        message = f"{path} {error}"
        raise RecordingError(message) from None
    except (ValueError, LookupError, TypeError, RecursionError):
        message = f"{path} is not a recording of gpumon (line 1)"
        raise RecordingError(message) from None


def _passages(file: IO[bytes], started_at: float, is_compressed: bool) -> Iterator[Passage]:
    mark = _ZSTD if is_compressed else b"\n" + SYNC_BEGIN
    size = file.seek(0, 2)
    most = _MOST_MARKS + _MARKS_PER_MIB * (size >> 20)
    found = [at if is_compressed else at + 1 for at in _few(_marks_in(file, mark), most)]
    begins = [(started_at, 0)]
    for following, begin in enumerate(found, 1):
        ends = [*found[following : following + _MAX_FALSE_MARKS], size]
        at = _time_at(file, begin, ends, is_compressed)
        if at is not None:
            begins.append((at, begin))
    ends = [begin for _, begin in begins[1:]] + [size]
    for (at, begin), end in zip(begins, ends, strict=True):
        yield Passage(at, begin, end)


def _few(marks: Iterator[int], most: int) -> list[int]:
    """All of them, or evenly some where they are more than twice as many."""
    chosen: list[int] = []
    every = 1
    for count, at in enumerate(marks):
        if count % every == 0:
            chosen.append(at)
            if len(chosen) > 2 * most:
                chosen, every = chosen[::2], 2 * every
    return chosen


def _marks_in(file: IO[bytes], mark: bytes) -> Iterator[int]:
    """Where a mark is found in a file after its begin.

    The file is not mapped: where another process cuts it short, that would end this one.
    """
    file.seek(0)
    data, at = b"", 0
    while piece := file.read(_SCAN_BYTES):
        rest = data[len(data) - len(mark) + 1 :] if data else b""
        data, begin = rest + piece, at - len(rest)
        yield from (begin + found for found in _marks(data, mark, first=0 if at else 1))
        at += len(piece)


def _marks(data: bytes, mark: bytes, first: int = 1) -> Iterator[int]:
    """Where a mark is found after the begin; what is compressed may hold one by chance."""
    found = data.find(mark, first)
    while found >= 0:
        yield found
        found = data.find(mark, found + 1)


def _first_line(
    file: IO[bytes], begin: int, ends: list[int], *, is_compressed: bool
) -> bytes | None:
    """The first line from a byte on, None where there is no whole one.

    What is compressed is tried with each end: beyond its own a frame that a killed recorder left
    unfinished cannot be read.
    """
    for end in ends if is_compressed else ends[-1:]:
        pieces = _pieces(file, Passage(0.0, begin, end), is_compressed, _FIRST_PIECE_BYTES)
        raw, is_whole = next(_split(pieces, _MAX_HEADER_BYTES), (b"", False))
        if is_whole:
            return raw
    return None


def _time_at(file: IO[bytes], begin: int, ends: list[int], is_compressed: bool) -> float | None:
    """Unix time of the passage that begins there, None where none does."""
    try:
        raw = _first_line(file, begin, ends, is_compressed=is_compressed)
    except RecordingError:
        # It is reported when what comes before it has been read.
        return None
    if raw is None or not raw.startswith((SYNC_BEGIN, _HEADER)):
        return None
    try:
        message = json.loads(raw)
        return number(message["at"] if "at" in message else message["started_at"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _pieces(
    file: IO[bytes], passage: Passage, is_compressed: bool, first_bytes: int = _PIECE_BYTES
) -> Iterator[bytes]:
    """The passage's text in pieces, as far as it can be read.

    Raises:
        RecordingError: It becomes far more text than any recorder made it of.
    """
    left = _Slice(file, passage.begin, passage.end)
    if not is_compressed:
        size = first_bytes
        while piece := left.read(size):
            size = _PIECE_BYTES
            yield piece
        return
    size = passage.end - passage.begin
    most = max(_LEAST_TEXT_BYTES, _MOST_EXPANSION * size)
    import zstandard

    maker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    source: Any = left
    reader = maker.stream_reader(source, read_size=_PIECE_BYTES, read_across_frames=True)
    while True:
        try:
            # Not more at once: a few bytes may become a very long text. And not as much as that
            # in any case: what was read before an error would be lost with it.
            piece = reader.read1(_PIECE_BYTES)
        except zstandard.ZstdError as error:
            # Else a frame that was cut off: what comes before it is read.
            if _ASKS_TOO_MUCH in str(error):
                message = (
                    f"asks for more than {_MAX_WINDOW_BYTES >> 20} MiB of memory to be read, from "
                    f"byte {passage.begin} on: compress it without --long"
                )
                raise RecordingError(message) from None
            return
        if not piece:
            return
        most -= len(piece)
        if most < 0:
            message = (
                f"{size} bytes from byte {passage.begin} on become more than {_MOST_EXPANSION} "
                "times as much text, which no recorder writes: the rest is not read"
            )
            raise RecordingError(message)
        yield piece


class _Slice:
    """A stretch of a file, as a file. Others may read elsewhere in it meanwhile."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self._file = file
        self._next = begin
        self._end = end

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, none at the end."""
        left = self._end - self._next
        self._file.seek(self._next)
        data = self._file.read(left if size < 0 else min(size, left))
        self._next += len(data)
        return data


def _split(pieces: Iterator[bytes], limit: int = MAX_LINE_BYTES) -> Iterator[tuple[bytes, bool]]:
    """Lines, and whether each was whole; of one beyond the limit the rest is passed over."""
    held: list[bytes] = []
    length = 0
    is_over = False
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            if is_over:
                is_over = False
            else:
                yield b"".join((*held, end)), True
            held, length = [], 0
        if is_over:
            continue
        held.append(rest)
        length += len(rest)
        if length > limit:
            yield b"".join(held)[:limit], False
            held, length, is_over = [], 0, True
    if length:
        yield b"".join(held), False


def describe(line: Line, error: LineError) -> str:
    """What is wrong with a line, in one that a person can follow up."""
    if line.is_whole:
        return f"{line.where} is not what a recorder writes ({plain(str(error), 120)})"
    if len(line.raw) >= MAX_LINE_BYTES:
        return f"{line.where} is longer than {MAX_LINE_BYTES >> 20} MiB"
    return f"{line.where} is cut off: its recorder was ended, or is still writing"
