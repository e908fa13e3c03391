"""A recording as sources: the frames of each target, beat by beat, on the recorded clock."""

from __future__ import annotations

from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.sources.recording.decode import (
    Beat,
    Decoder,
    Header,
    LineError,
    RecordingError,
    Said,
    Sync,
    Told,
    beat_of,
)
from gpumon.sources.recording.read import SYNC_BEGIN, RecordingFile, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpumon.sources.source import Wish

SEGMENTS: Final = ("*.gpumon", "*.gpumon.zst")
"""Names of the files that make up a recording in a folder."""

MAX_PROBLEMS: Final = 20
"""Lines that could not be read and are named; that there are more is said."""


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
        """From the first picture to the last; reads the last passage when first asked for."""
        if self._span is None:
            start = self.files[0].header.started_at
            last = self.files[-1].passages[-1].at
            beats = [beat.at for beat in self._last_beats()]
            if beats:
                self._span = Span(start, max(beats))
                return self._span
            playback, ends = Playback(self, last), list[float]()
            # Played to its end, for one that is left in between keeps its file open.
            while (at := playback.next_at) is not None:
                ends.append(at)
                playback.advance(at, at)
                playback.take()
            self._span = Span(start, max(ends, default=last))
        return self._span

    def _last_beats(self) -> Iterator[Beat]:
        """Beats of the last passage: of a large fleet the frames between them take seconds."""
        file = self.files[-1]
        try:
            for line in file.lines(len(file.passages) - 1):
                beat = beat_of(line.raw) if line.is_whole else None
                if beat is not None:
                    yield beat
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
            until: No picture after it is played.
            coarse_until: Up to there one picture of each passage is enough.
        """
        self._recording = recording
        self._since = since
        self._coarse_until = coarse_until
        self._told: list[tuple[str, str]] = []
        self._taken: list[Frame] = []
        self._beats = takewhile(lambda beat: beat.at <= until, self.beats())
        self._next = next(self._beats, None)

    @property
    def problems(self) -> tuple[SourceError, ...]:
        """What could not be read so far, each with its file and line."""
        return tuple(
            SourceError(where, message, "frames up to the next sync line are passed over")
            for where, message in self._told
        )

    @property
    def next_at(self) -> float | None:
        """Unix time of the next picture, None at the end."""
        return self._next.at if self._next else None

    @property
    def period_s(self) -> float:
        """Seconds between pictures, as recorded."""
        return self._next.period_s if self._next else self._recording.header.period_s

    def advance(self, now: float, at: float) -> float | None:
        """Go on to the first picture from a time on, or to one that a clock set back made.

        What the frames in between said is kept for `take`.

        Returns:
            Unix time of the picture; None where there is none any more.
        """
        reached = None
        while self._next is not None:
            beat = self._next
            self._taken.extend(beat.frames)
            self._next = next(self._beats, None)
            reached = beat.at
            if reached >= at or reached < now:
                break
        return reached

    def take(self) -> list[Frame]:
        """Frames since the last call."""
        frames = list(self._taken)
        self._taken.clear()
        return frames

    def beats(self) -> Iterator[Beat]:
        """The pictures with their frames."""
        frames: list[Frame] = []
        told: list[Frame] = []
        has_beats = False
        period_s = self._recording.header.period_s
        for said in self._said():
            if isinstance(said, Header):
                period_s = said.period_s
            elif isinstance(said, Told):
                told.append(said.frame)
            elif isinstance(said, Frame):
                # Whoever writes no beats gets one a period.
                if frames and not has_beats and said.taken_at >= frames[0].taken_at + period_s:
                    yield Beat(frames[-1].taken_at, period_s, (*told, *frames))
                    frames, told = [], []
                frames.append(said)
            elif isinstance(said, Beat):
                has_beats = True
                yield said._replace(frames=(*told, *frames))
                frames, told = [], []
        if frames and not has_beats:
            yield Beat(frames[-1].taken_at, period_s, (*told, *frames))

    def _said(self) -> Iterator[Said]:
        """What the lines say, in the order of files and lines."""
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
                self._tell(str(file.path), str(error))

    def _lines(self, file: RecordingFile, begin: int) -> Iterator[Said]:
        decoder = Decoder(is_own=file.header.is_own)
        # Continuous reading knows what a queue said; whoever comes in between has to be told.
        is_new, is_skipping = True, False
        for line in file.lines(begin):
            if not line.raw.strip() or (is_skipping and not line.raw.startswith(SYNC_BEGIN)):
                continue
            try:
                if not line.is_whole:
                    raise LineError("cut off")
                said = decoder.read(line.raw)
            except LineError as error:
                self._tell(str(file.path), describe(line, error))
                is_new = True
                continue
            if said is not None and (is_new or not isinstance(said, Told)):
                yield said
            if isinstance(said, Sync):
                is_new, is_skipping = is_new or is_skipping, False
            elif isinstance(said, Beat):
                is_skipping = said.at < self._coarse_until
                is_new = is_skipping

    def _tell(self, where: str, message: str) -> None:
        if len(self._told) < MAX_PROBLEMS:
            self._told.append((where, message))
        elif len(self._told) == MAX_PROBLEMS:
            more = f"more lines cannot be read than these {MAX_PROBLEMS}; the others are not named"
            self._told.append((where, more))


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
        self._told = 0

    def start(self, wake: Callable[[], None]) -> None:
        """The first picture is there at once."""
        wake()

    def poll(self) -> list[Frame]:
        """Frames of the pictures up to the recorded time, and what could not be read."""
        if not self._is_first:
            return []
        frames = self._playback.take()
        problems = self._playback.problems
        if len(problems) > self._told:
            self._told = len(problems)
            at = frames[-1].taken_at if frames else 0.0
            # A source of its own: an error of the file is none of a target's.
            frames.append(Frame(origin=problems[0].where, node="", taken_at=at, errors=problems))
        return frames

    def pending(self) -> bool:
        """Never: what was recorded is there."""
        return False

    def wish(self, wish: Wish) -> None:
        """The past cannot be asked to go faster or look closer."""

    def close(self) -> None:
        """Nothing to free."""
        self._closed()
