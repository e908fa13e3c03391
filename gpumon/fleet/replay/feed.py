"""A recording through the sampler that live targets have, from any instant on."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.replay.clock import ReplayClock
from gpumon.fleet.replay.judge import FINDINGS_WAIT_S, PacedJudge
from gpumon.fleet.sampler.pace import JUDGE_S
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.recording.source import Playback, RecordedTarget
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.sampler.protocols import Detection, Past
    from gpumon.model.fault import SourceError
    from gpumon.model.finding import DetectionReport
    from gpumon.model.records.tick import Tick
    from gpumon.sources.recording.source import Recording

SPAN_BEFORE_S: Final = 3600.0
"""How much of the past before the instant that is sought is known there: history's own span."""

FINE_S: Final = 600.0
"""How much of it in every picture at least; one of each passage, a minute, will do before."""

FINE_BYTES: Final = 2 * 2**20
"""So much of a file is read in every picture, for a second of a core: an hour of two dozen GPUs,
a quarter of one of 48, so that findings at the instant have the windows that they need."""


class _Patient(PacedJudge):
    """The detection engine, asked only for the pictures that are shown, and waited for if told."""

    def __init__(
        self,
        engine: Detection,
        is_wanted: Callable[[Tick], bool],
        wait_s: float,
        evaluations: float,
    ) -> None:
        """`evaluations`: how many are waited for, `wait_s` seconds each."""
        super().__init__(engine)
        self._is_wanted = is_wanted
        self._wait_s = wait_s
        self._evaluations = evaluations
        self._is_asked = False

    def submit(self, tick: Tick) -> bool:
        self._is_asked = self._is_wanted(tick) and self._engine.submit(tick)
        return self._is_asked

    def collect(self) -> DetectionReport | None:
        if not self._is_asked or self._evaluations <= 0:
            return self._engine.collect()
        self._evaluations -= 1
        return self._engine.finish(self._wait_s)


def patient(
    judge: Callable[[], Detection] | None,
    is_wanted: Callable[[Tick], bool],
    wait_s: float,
    evaluations: float = inf,
) -> Callable[[], Detection] | None:
    """Make engines that are asked for some pictures only, and waited for.

    Args:
        judge: Makes an engine; None: there is no detection.
        is_wanted: Told a picture; False: it is not judged.
        wait_s: Seconds that a picture's findings are waited for.
        evaluations: So many pictures are waited for; those after it are not.

    Returns:
        What makes such an engine; None without `judge`.
    """
    return None if judge is None else lambda: _Patient(judge(), is_wanted, wait_s, evaluations)


def playback_at(recording: Recording, at: float | None, until: float = inf) -> Playback:
    """A playback that begins as far before a time as its history needs."""
    if at is None:
        return Playback(recording, None, until)
    fine_s = max(FINE_S, FINE_BYTES / max(1.0, recording.bytes_per_s))
    return Playback(recording, at - SPAN_BEFORE_S, until, at - fine_s)


def sampler_of(
    recording: Recording,
    playback: Playback,
    clock: ReplayClock,
    remember: Callable[[], Past] | None,
    judge: Callable[[], Detection] | None,
) -> Sampler:
    """The sampler over a recording's targets, which judges as often as a live one does."""
    urls = recording.targets or (str(recording.path),)
    sources = [
        RecordedTarget(url, playback, clock.ended.set, is_first=not number)
        for number, url in enumerate(urls)
    ]
    return Sampler(
        sources,
        clock,
        playback.period_s,
        remember,
        judge,
        open_ledger=Ledger,
        judge_every_s=JUDGE_S,
    )


def play(
    recording: Recording,
    on_tick: Callable[[Tick], None],
    remember: Callable[[], Past] | None,
    judge: Callable[[], Detection] | None,
    *,
    since: float | None = None,
    until: float = inf,
    is_wanted: Callable[[float, bool], bool],
    speed: float = inf,
    ended: threading.Event | None = None,
) -> SourceError | None:
    """Play without a terminal, in a thread, until the end has been reached.

    Args:
        recording: What is played.
        on_tick: Called with every picture that is wanted, its findings with it.
        remember: Makes the memory.
        judge: Makes the detection engine; it is waited for.
        since: Unix time of the first picture; None: of the recording.
        until: Unix time after which nothing is played.
        is_wanted: Told the time of a picture and whether it is the last.
        speed: Recorded seconds per real one.
        ended: Set to end early.

    Returns:
        Why it ended early by itself; None: it did not.
    """
    playback = Playback(recording, since, until)
    clock = ReplayClock(playback, speed, SystemClock())
    over = ended or threading.Event()

    def show(tick: Tick) -> None:
        if is_wanted(tick.at, playback.next_at is None):
            on_tick(tick)

    # What is judged does not hang on what is shown: findings live from look to look.
    engine = patient(judge, lambda _: True, FINDINGS_WAIT_S)
    sampler = sampler_of(recording, playback, clock, remember, engine)
    sampler.start(show)
    try:
        while not (clock.ended.wait(0.05) or over.is_set() or sampler.failure):
            pass
    finally:
        clock.release()
        sampler.close()
    return sampler.failure
