"""Two hours of the demo, lived through once for all tests that ask about them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.replay.catch_up import strides_of
from gpumon.fleet.replay.remembered_ticks import Tape
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.address import Sampling, parse
from gpumon.sources.open import open_source
from gpumon.sources.source import Wish
from tests.worlds.clocks import Hasty
from tools.tasks import DEMO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.tick import Tick

START: Final = 1_760_000_000.0
PAST_S: Final = 7200.0
PATIENCE_S: Final = 60.0
_JUDGED_EVERY: Final = 8
"""Of the demo's past one tick in two minutes is judged, and the last ones."""

_ASKED_S: Final = 120.0
"""So long before its end the accounting is asked."""


class Patient(DetectionEngine):
    """The detection engine, waited for, and asked for some ticks only."""

    is_asked = False

    def submit(self, tick):
        is_wanted = tick.number % _JUDGED_EVERY == 0 or tick.at > START + PAST_S - 60
        self.is_asked = is_wanted and super().submit(tick)
        return self.is_asked

    def collect(self):
        if not self.is_asked:
            return super().collect()
        self.is_asked = False
        return self.finish(PATIENCE_S)


class Lived(NamedTuple):
    """A past that was watched."""

    tape: Tape
    """All ticks before the newest, as far as they are stored."""
    newest: Tick
    """The accounting has answered about the day before it."""


@contextmanager
def lived() -> Iterator[Lived]:
    """Two hours, as `gpumon demo --past 2h` lives through them."""
    clock = Hasty(START)
    sampling = Sampling(
        strides_of(1.0).at(PAST_S), False, lambda _: True, everyone=True, past_s=PAST_S
    )
    sources = [open_source(parse(DEMO.split()[1]), sampling, clock)]
    tape, newest, asked = Tape(), [], []
    is_over, is_left = threading.Event(), threading.Event()

    def take(tick: Tick) -> None:
        if tick.at > START + PAST_S - _ASKED_S and not asked:
            asked.append(tick.at)
            sampler.wish(Wish(ended_since=tick.at - 86400.0))
        if tick.at < START + PAST_S:
            tape.add(tick)
        elif not newest:
            newest.append(tick)
            is_over.set()
            # A clock without rests would go on beside all tests that follow.
            is_left.wait()

    sampler = Sampler(sources, clock, sampling.period_s, History, Patient, open_ledger=Ledger)
    sampler.start(take)
    try:
        assert is_over.wait(3 * PATIENCE_S), sampler.failure
        yield Lived(tape, newest[0])
    finally:
        is_left.set()
        sampler.close()
