"""Recording as the sampler sees it: sources that note down what they say, and the beats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.frame import Frame
    from gpumon.model.records.tick import Tick
    from gpumon.sources.source import Source, Wish


class RecordingSink(Protocol):
    """What is recorded into; a file or a folder of segments."""

    def frames(self, frames: Iterable[Frame]) -> None:
        """Take frames."""
        ...

    def end_tick(self, at: float, period_s: float) -> None:
        """Close a picture."""
        ...


class Recorder:
    """Writes what sources say into a book. A book that cannot be written stops nothing else."""

    def __init__(
        self, sink: RecordingSink, failed: Callable[[OSError], SourceError | None]
    ) -> None:
        """Record from now on.

        Args:
            sink: Where to.
            failed: Called with the first error of the book, after which nothing is written; what
                it returns is kept in `failure`.
        """
        self._sink = sink
        self._failed = failed
        self.failure: SourceError | None = None
        self.is_stopped = False
        self.frame_count = 0

    def sources(self, sources: Sequence[Source]) -> list[Source]:
        """The sources, with everything that they say recorded."""
        return [_Recorded(source, self) for source in sources]

    def frames(self, frames: Iterable[Frame]) -> None:
        """Note down frames."""
        noted = list(frames)
        if noted and not self.is_stopped:
            self.frame_count += len(noted)
            self._sink.frames(noted)

    def end_tick(self, tick: Tick) -> None:
        """Note down that a picture was made of what was said."""
        if self.is_stopped:
            return
        try:
            self._sink.end_tick(tick.at, tick.period_s)
        except OSError as error:
            self.is_stopped = True
            self.failure = self._failed(error)


class _Recorded:
    """A source whose frames are noted down as they are taken."""

    def __init__(self, source: Source, recorder: Recorder) -> None:
        self.url = source.url
        self._source = source
        self._recorder = recorder

    def start(self, wake: Callable[[], None]) -> None:
        self._source.start(wake)

    def poll(self) -> list[Frame]:
        frames = self._source.poll()
        self._recorder.frames(frames)
        return frames

    def pending(self) -> bool:
        return self._source.pending()

    def wish(self, wish: Wish) -> None:
        self._source.wish(wish)

    def close(self) -> None:
        self._source.close()
