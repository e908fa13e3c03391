"""A recording as sources: the frames of each target, tick by tick, on the recorded clock."""

from __future__ import annotations

from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.sources.recording.decode import (
    Decoder,
    Header,
    LineContent,
    LineError,
    QueueState,
    RecordingError,
    Sync,
    TickFrames,
    tick_frames_of,
)
from gpumon.sources.recording.read import SYNC_BEGIN, RecordingFile, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpumon.sources.source import Wish

SEGMENTS: Final = ("*.gpumon", "*.gpumon.zst")
"""Names of the files that make up a recording in a folder."""

MAX_PROBLEMS: Final = 20
"""Lines that could not be read and are named; one more line reports that there are others."""


class Span(NamedTuple):
    """From when to when a recording goes."""

    start: float
    """Unix time."""
    end: float


class Recording:
    """One file, or a folder of segments, opened for reading."""

    def __init__(self, path: Path) -> None:
        """Open it and find its passages.

        Raises:
            RecordingError: It is no recording that can be read.
            OSError: It cannot be opened.
        """
        if path.is_dir():
            names = sorted(name for pattern in SEGMENTS for name in path.glob(pattern))
            self.files = tuple(sorted(map(RecordingFile, names), key=lambda f: f.header.started_at))
            if not self.files:
                message = f"{path} holds no recording"
                raise RecordingError(message)
        else:
            self.files = (RecordingFile(path),)
        self.path = path
        self.header: Header = self.files[-1].header
        self.targets = tuple(dict.fromkeys(url for f in self.files for url in f.header.targets))
        self._span: Span | None = None

    @property
    def span(self) -> Span:
        """From the first tick to the last; reads the last passage when first asked for."""
        if self._span is None:
            start = self.files[0].header.started_at
            last = self.files[-1].passages[-1].at
            ticks = [tick.at for tick in self._last_ticks()]
            if ticks:
                self._span = Span(start, max(ticks))
                return self._span
            playback, ends = Playback(self, last), list[float]()
            # Played to its end, for one that is left in between keeps its file open.
            while (at := playback.next_at) is not None:
                ends.append(at)
                playback.advance(at, at)
                playback.take()
            self._span = Span(start, max(ends, default=last))
        return self._span

    def _last_ticks(self) -> Iterator[TickFrames]:
        """Ticks of the last passage: of a large fleet the frames between them take seconds."""
        file = self.files[-1]
        try:
            for line in file.lines(len(file.passages) - 1):
                found = tick_frames_of(line.raw) if line.is_whole else None
                if found is not None:
                    yield found
        except (OSError, RecordingError):
            # What could be read counts, as when it is played.
            return

    @property
    def bytes_per_s(self) -> float:
        """How much of it a second takes on disk, on average."""
        size_bytes = sum(file.passages[-1].end for file in self.files)
        return size_bytes / max(1.0, self.span.end - self.span.start)


class Playback:
    """Goes through a recording once, from some time on."""

    def __init__(
        self,
        recording: Recording,
        since: float | None = None,
        until: float = inf,
        coarse_until: float = -inf,
    ) -> None:
        """Begin to read.

        Args:
            recording: What is played.
            since: Unix time in the passage that is begun with; None: the first.
            until: No tick after it is played.
            coarse_until: Up to there one tick of each passage is enough.
        """
        self._recording = recording
        self._since = since
        self._coarse_until = coarse_until
        self._problems: list[tuple[str, str]] = []
        self._taken: list[Frame] = []
        self._ticks = takewhile(lambda tick: tick.at <= until, self.by_tick())
        self._next = next(self._ticks, None)

    @property
    def problems(self) -> tuple[SourceError, ...]:
        """What could not be read so far, each with its file and line."""
        return tuple(
            SourceError(where, message, "frames up to the next sync line are passed over")
            for where, message in self._problems
        )

    @property
    def next_at(self) -> float | None:
        """Unix time of the next tick, None at the end."""
        return self._next.at if self._next else None

    @property
    def period_s(self) -> float:
        """Seconds between ticks, as recorded."""
        return self._next.period_s if self._next else self._recording.header.period_s

    def advance(self, now: float, at: float) -> float | None:
        """Go on to the first tick from a time on, or to one that a clock set back made.

        The frames in between are stored for `take`.

        Returns:
            Unix time of the tick; None where there is none any more.
        """
        reached = None
        while self._next is not None:
            tick = self._next
            self._taken.extend(tick.frames)
            self._next = next(self._ticks, None)
            reached = tick.at
            if reached >= at or reached < now:
                break
        return reached

    def take(self) -> list[Frame]:
        """Frames since the last call."""
        frames = list(self._taken)
        self._taken.clear()
        return frames

    def by_tick(self) -> Iterator[TickFrames]:
        """The ticks with their frames."""
        frames: list[Frame] = []
        queues: list[Frame] = []
        has_ticks = False
        period_s = self._recording.header.period_s
        for content in self._contents():
            if isinstance(content, Header):
                period_s = content.period_s
            elif isinstance(content, QueueState):
                queues.append(content.frame)
            elif isinstance(content, Frame):
                # A recorder that ends no ticks gets one a period.
                if frames and not has_ticks and content.taken_at >= frames[0].taken_at + period_s:
                    yield TickFrames(frames[-1].taken_at, period_s, (*queues, *frames))
                    frames, queues = [], []
                frames.append(content)
            elif isinstance(content, TickFrames):
                has_ticks = True
                yield content._replace(frames=(*queues, *frames))
                frames, queues = [], []
        if frames and not has_ticks:
            yield TickFrames(frames[-1].taken_at, period_s, (*queues, *frames))

    def _contents(self) -> Iterator[LineContent]:
        """What the lines hold, in the order of files and lines."""
        files = self._recording.files
        first = 0
        if self._since is not None:
            begun = [n for n, file in enumerate(files) if file.header.started_at <= self._since]
            first = begun[-1] if begun else 0
        for number, file in enumerate(files[first:]):
            begin = file.passage_at(self._since) if self._since is not None and not number else 0
            try:
                yield from self._lines(file, begin)
            except (OSError, RecordingError) as error:
                self._note_problem(str(file.path), str(error))

    def _lines(self, file: RecordingFile, begin: int) -> Iterator[LineContent]:
        decoder = Decoder(is_own=file.header.is_own)
        # Continuous reading knows the state of a queue; one that begins in between needs it.
        is_new, is_skipping = True, False
        for line in file.lines(begin):
            if not line.raw.strip() or (is_skipping and not line.raw.startswith(SYNC_BEGIN)):
                continue
            try:
                if not line.is_whole:
                    raise LineError("cut off")
                content = decoder.read(line.raw)
            except LineError as error:
                self._note_problem(str(file.path), describe(line, error))
                is_new = True
                continue
            if content is not None and (is_new or not isinstance(content, QueueState)):
                yield content
            if isinstance(content, Sync):
                is_new, is_skipping = is_new or is_skipping, False
            elif isinstance(content, TickFrames):
                is_skipping = content.at < self._coarse_until
                is_new = is_skipping

    def _note_problem(self, where: str, message: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append((where, message))
        elif len(self._problems) == MAX_PROBLEMS:
            more = f"more lines cannot be read than these {MAX_PROBLEMS}; the others are not named"
            self._problems.append((where, more))


class RecordedTarget:
    """One target of a recording as a source; the first of them hands out everybody's frames."""

    def __init__(
        self, url: str, playback: Playback, closed: Callable[[], None], *, is_first: bool
    ) -> None:
        """Hand out what the clock, which the sampler is given, has moved the playback on to.

        Args:
            url: The target as it was recorded.
            playback: Shared by all targets of the recording.
            closed: Called when the sampler has ended, however it did.
            is_first: Whether it hands out the frames.
        """
        self.url = url
        self._closed = closed
        self._playback = playback
        self._is_first = is_first
        self._reported = 0

    def start(self, wake: Callable[[], None]) -> None:
        """The first tick is there at once."""
        wake()

    def poll(self) -> list[Frame]:
        """Frames of the ticks up to the recorded time, and what could not be read."""
        if not self._is_first:
            return []
        frames = self._playback.take()
        problems = self._playback.problems
        if len(problems) > self._reported:
            self._reported = len(problems)
            at = frames[-1].taken_at if frames else 0.0
            # A source of its own: an error of the file is none of a target's.
            frames.append(Frame(origin=problems[0].where, node="", taken_at=at, errors=problems))
        return frames

    def pending(self) -> bool:
        """Never: what was recorded is there."""
        return False

    def wish(self, wish: Wish) -> None:
        """The past cannot be sampled faster or more closely."""

    def close(self) -> None:
        """Nothing to free."""
        self._closed()
