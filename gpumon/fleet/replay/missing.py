"""What was missed in an outage, put behind what is remembered and before what is sampled since.

A memory only grows at its end. So pictures without a present value, and those behind them, wait
until their source has told what it holds of that time, or that it tells nothing.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gpumon.fleet.join.join import join
from gpumon.model.records.tick import Tick

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from gpumon.fleet.sampler.protocols import Past
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.frame import Frame
    from gpumon.model.records.tick import WindowReader
    from gpumon.sources.source import PastFrames

MOST_HELD: Final = 128
"""Pictures that are held until the past is there: of more every other one will do, as a past takes
minutes and its windows are longer (our choice)."""

BREATH_S: Final = 0.001
"""Real pause after each picture of the past, in which the screen gets its turn."""


class Missing:
    """Pictures that wait, as what came before them is not known yet."""

    def __init__(
        self, past: Past, run: Callable[[Callable[[], None]], None], closing: threading.Event
    ) -> None:
        """Nothing waits before `begin`.

        Args:
            past: What is remembered.
            run: Runs what takes long.
            closing: Set at the end.
        """
        self._past = past
        self._run = run
        self._closing = closing
        self._held: list[Tick] = []
        self._last: Tick | None = None
        """The newest picture that is remembered; None: nobody measures yet."""
        self._reader: WindowReader | None = None
        """Of what was remembered before, while more is put behind it."""
        self._filled_at: float | None = None
        """Time of the newest picture that was missed; None: none is put there now."""
        self.failure: Exception | None = None

    @property
    def is_begun(self) -> bool:
        """Whether something is remembered that more may be put behind."""
        return self._last is not None

    def begin(self, tick: Tick) -> None:
        """Take note of a picture that is remembered, in which something is measured."""
        if self._last is not None or not _is_silent(tick):
            self._last = tick

    def reader(self) -> WindowReader | None:
        """Reader of the past while more is put behind it; None: ask the past itself."""
        return self._reader

    def takes(
        self, tick: Tick, recall: Callable[[], Iterator[PastFrames]] | None, *, is_waiting: bool
    ) -> bool:
        """Whether a picture waits; if not, all that waited is remembered.

        Args:
            tick: The picture.
            recall: Gives what was missed, where that has just come.
            is_waiting: Whether it may still come.
        """
        last = self._last
        if last is None:
            return False
        if recall is not None and self._reader is None:
            hold(self._held, tick)
            self._reader = self._past.reader()
            waiting = [*self._held]
            self._run(lambda: self._fill(recall, last, waiting))
            return True
        if self._reader is not None and self._filled_at is not None:
            last_at, self._reader, self._filled_at = self._filled_at, None, None
            self._held = [one for one in self._held if one.at > last_at]
        if self._reader is not None or is_waiting or _is_silent(tick):
            hold(self._held, tick)
            return True
        held, self._held = self._held, []
        for one in held:
            self._past.append(one)
        return False

    def _fill(
        self, recall: Callable[[], Iterator[PastFrames]], last: Tick, waiting: Sequence[Tick]
    ) -> None:
        """Remember what is told of the time between two pictures, with the jobs of that time."""
        until = next((one.at for one in waiting if not _is_silent(one)), waiting[-1].at)
        filled_at = last.at
        try:
            for tick in ticks_of([recall()], until):
                if tick.at <= filled_at:
                    continue
                jobs = _jobs_at(tick.at, (last, *waiting))
                self._past.append(tick._replace(jobs=jobs))
                filled_at = tick.at
                if self._closing.wait(BREATH_S):
                    self._past.close()
                    return
        except Exception as error:  # noqa: BLE001 - told with the next picture, on the sampler's thread
            self.failure = error
        self._filled_at = filled_at


def hold(held: list[Tick], tick: Tick) -> None:
    """Keep one more picture that waits; of too many every other one."""
    if len(held) >= MOST_HELD:
        del held[1::2]
    held.append(tick)


def ticks_of(pasts: Sequence[Iterator[PastFrames]], until: float) -> Iterator[Tick]:
    """A picture of each beat before a time: GPUs and nodes alone, for nobody knows its queue."""
    newest: dict[tuple[str, str], Frame] = {}
    samples = merge(*pasts, key=_at)
    for number, (at, together) in enumerate(groupby(samples, _at)):
        if at >= until:
            return
        period_s = 0.0
        for sample in together:
            newest.update(((frame.origin, frame.node), frame) for frame in sample.frames)
            period_s = max(period_s, sample.period_s)
        joined = join(list(newest.values()), None, {}, at, 0.0)
        yield Tick(
            *(number, at, at, period_s, (), joined.nodes, joined.gpus),
            *((), None, (), (), (), 0.0),
        )


def _jobs_at(at: float, known: Sequence[Tick]) -> tuple[JobView, ...]:
    return next((one.jobs for one in reversed(known) if one.at <= at), known[0].jobs)


def _is_silent(tick: Tick) -> bool:
    """Whether a picture has no present value of a GPU."""
    return all(gpu.is_stale for gpu in tick.gpus.values())


def _at(sample: PastFrames) -> float:
    return sample.at
