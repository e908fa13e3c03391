"""The time before now as sources remember it, put before what is sampled meanwhile.

A source takes a while to tell its past, and nobody waits for it: what is sampled is remembered as
ever. Once the past is there a new memory is made of both, beside the sampling, and takes the place
of the first one. What is missed later, in an outage, is put behind what is remembered, so pictures
without a value wait until it is known what they lacked.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from gpumon.fleet.replay.missing import BREATH_S, Missing, hold, ticks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumon.fleet.sampler.protocols import Renewable
    from gpumon.model.records.tick import Tick, WindowReader
    from gpumon.sources.source import PastFrames, Remembering

LATEST_S: Final = 60.0
"""Where others measure as well, so much of what they told may be lost to a past (our choice)."""


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
        self._remembered: dict[int, Callable[[], Iterator[PastFrames]]] = {}
        self._reporters: set[int] = set()
        """Sources that have told their whole past."""
        self._is_new = False
        self._is_alone = is_alone
        self._made: Renewable | None = None
        self._is_making = False
        self._failure: Exception | None = None
        self._closing = threading.Event()
        self._missing = Missing(past, self._run, self._closing)

    @property
    def begins_at(self) -> float | None:
        """Unix time of the first picture that is remembered; None: there is none yet."""
        return self._past.begins_at

    def append(self, tick: Tick) -> None:
        """Remember a picture, behind the past as soon as that is there.

        Raises:
            Exception: What making the past ended with, whatever that is.
        """
        if self._made is not None:
            self._replace(self._made)
        is_waiting = any(one.is_recalling for one in self._sources)
        recalled = self._missed()
        if not self._missing.takes(tick, recalled, is_waiting=is_waiting):
            self._past.append(tick)
            self._fill(tick)
        failure, self._failure = self._failure or self._missing.failure, None
        self._missing.failure = None
        if failure is not None:
            raise failure

    def _missed(self) -> Callable[[], Iterator[PastFrames]] | None:
        """What has just been told of an outage; what is told first is the whole past."""
        found = None
        for number, one in enumerate(self._sources):
            recalled = one.recalled()
            if recalled is None:
                continue
            if self._missing.is_begun and self._is_alone and len(self._sources) == 1:
                found = recalled
            elif number not in self._reporters:
                self._remembered[number], self._is_new = recalled, True
            self._reporters.add(number)
        return found

    def _fill(self, tick: Tick) -> None:
        """Hold the picture while a past may come, and make room for one that has."""
        is_waiting = any(one.is_recalling for one in self._sources)
        if not (is_waiting or self._is_new or self._is_making):
            self._held.clear()
            if self._is_alone and len(self._sources) == 1:
                self._missing.begin(tick)
            return
        if tick.gpus:
            self._hold(tick)
        if self._is_new and self._held and not (is_waiting or self._is_making):
            self._is_new = False
            until = self._held[0].at
            if self._is_alone or until - (self.begins_at or until) <= LATEST_S:
                self._is_making = True
                recalls = [*self._remembered.values()]
                if len(self._sources) == 1:
                    # Of several each comes in its own time, and all are told of again.
                    self._remembered.clear()
                self._run(lambda: self._make(recalls, until))

    def reader(self) -> WindowReader:
        """Reader of everything remembered so far."""
        return self._missing.reader() or self._past.reader()

    def close(self) -> None:
        """Free the memory."""
        self._closing.set()
        self._past.close()

    def _hold(self, tick: Tick) -> None:
        hold(self._held, tick)

    def _make(self, recalls: Sequence[Callable[[], Iterator[PastFrames]]], until: float) -> None:
        """A memory of what is told; a past that fails half-way counts up to there."""
        made = self._past.blank()
        try:
            for tick in ticks_of([begin() for begin in recalls], until):
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
        self._missing = Missing(made, self._run, self._closing)


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="past", daemon=True).start()
