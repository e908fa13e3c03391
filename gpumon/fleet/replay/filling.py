"""The time before now as sources remember it, put before what is sampled meanwhile.

A source takes a while to tell its past, and nobody waits for it: what is sampled is remembered as
ever. Once the past is there a new memory is made of both, beside the sampling, and takes the place
of the first one.
"""

from __future__ import annotations

import threading
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gpumon.fleet.join.join import join
from gpumon.model.records.tick import Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumon.fleet.sampler.protocols import Renewable
    from gpumon.model.records.frame import Frame
    from gpumon.model.records.tick import WindowReader
    from gpumon.sources.source import PastBeat, Remembering

MOST_HELD: Final = 128
"""Pictures that are held until the past is there: of more every other one will do, as a past takes
minutes and its windows are longer (our choice)."""

LATEST_S: Final = 60.0
"""Where others measure as well, so much of what they told may be lost to a past (our choice)."""

BREATH_S: Final = 0.001
"""Real pause after each picture of the past, in which the screen gets its turn."""


class FillingPast:
    """A memory that is given what sources remember."""

    def __init__(
        self,
        past: Renewable,
        sources: Sequence[Remembering],
        *,
        is_alone: bool = True,
        run: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Begin with a memory, and ask these sources for what was before.

        Args:
            past: What is sampled goes there.
            sources: Who may remember more.
            is_alone: Whether nobody else measures. Then a past is filled in whenever it is told;
                else in the beginning only, for it takes the place of what is remembered.
            run: Runs what takes long; None: in a thread.
        """
        self._past = past
        self._sources = sources
        self._run = run or _in_thread
        self._held: list[Tick] = []
        self._told: dict[int, Callable[[], Iterator[PastBeat]]] = {}
        self._is_new = False
        self._is_alone = is_alone
        self._made: Renewable | None = None
        self._is_making = False
        self._failure: Exception | None = None
        self._closing = threading.Event()

    @property
    def begins_at(self) -> float | None:
        """Unix time of the first picture that is remembered; None: there is none yet."""
        return self._past.begins_at

    def append(self, tick: Tick) -> None:
        """Remember a picture, behind the past as soon as that is there."""
        if self._made is not None:
            self._replace(self._made)
        self._past.append(tick)
        self._fill(tick)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _fill(self, tick: Tick) -> None:
        """Hold the picture while a past may come, and make room for one that has."""
        for number, one in enumerate(self._sources):
            told = one.recalled()
            if told is not None:
                self._told[number], self._is_new = told, True
        is_waiting = any(one.is_recalling for one in self._sources)
        if not (is_waiting or self._is_new or self._is_making):
            self._held.clear()
            return
        if tick.gpus:
            self._hold(tick)
        if self._is_new and self._held and not (is_waiting or self._is_making):
            self._is_new = False
            until = self._held[0].at
            if self._is_alone or until - (self.begins_at or until) <= LATEST_S:
                self._is_making = True
                told_by = [*self._told.values()]
                if len(self._sources) == 1:
                    # Of several each comes in its own time, and all are told of again.
                    self._told.clear()
                self._run(lambda: self._make(told_by, until))

    def reader(self) -> WindowReader:
        """Reader of everything remembered so far."""
        return self._past.reader()

    def close(self) -> None:
        """Free the memory."""
        self._closing.set()
        self._past.close()

    def _hold(self, tick: Tick) -> None:
        if len(self._held) >= MOST_HELD:
            del self._held[1::2]
        self._held.append(tick)

    def _make(self, told: Sequence[Callable[[], Iterator[PastBeat]]], until: float) -> None:
        """A memory of what is told; a past that fails half-way counts up to there."""
        made = self._past.blank()
        try:
            for tick in _ticks([begin() for begin in told], until):
                made.append(tick)
                if self._closing.wait(BREATH_S):
                    made.close()
                    return
        except Exception as error:  # noqa: BLE001 - told with the next picture, on the sampler's thread
            self._failure = error
        self._made = made

    def _replace(self, made: Renewable) -> None:
        held, self._held = self._held, []
        self._made, self._is_making = None, False
        if made.begins_at is None:
            return
        for tick in held:
            made.append(tick)
        # What readers hold of the other one lives as long as they do.
        self._past.close()
        self._past = made


def _ticks(told: Sequence[Iterator[PastBeat]], until: float) -> Iterator[Tick]:
    """A picture of each beat before a time: GPUs and nodes alone, for nobody knows its queue."""
    newest: dict[tuple[str, str], Frame] = {}
    beats = merge(*told, key=_at)
    for number, (at, together) in enumerate(groupby(beats, _at)):
        if at >= until:
            return
        period_s = 0.0
        for beat in together:
            newest.update(((frame.origin, frame.node), frame) for frame in beat.frames)
            period_s = max(period_s, beat.period_s)
        picture = join(list(newest.values()), None, {}, at, 0.0)
        yield Tick(
            *(number, at, at, period_s, (), picture.nodes, picture.gpus),
            *((), None, (), (), (), 0.0),
        )


def _at(beat: PastBeat) -> float:
    return beat.at


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="past", daemon=True).start()
