"""A past that is lived through quickly: a simulated fleet has been watched before it is shown."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.replay.judge import FINDINGS_WAIT_S, PacedJudge
from gpumon.sources.source import SystemClock, Wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.sampler.protocols import Detection
    from gpumon.fleet.sampler.sampler import Sampler
    from gpumon.model.fault import SourceError
    from gpumon.model.finding import DetectionReport
    from gpumon.model.records.tick import Tick
    from gpumon.sources.source import Clock

RUN_UP_S: Final = 60.0
"""So much earlier a past begins: a claim that needs all of it must not lack its first samples."""

STRIDE_S: Final = 25.0
"""Between two pictures of the early past: in windows of the present, 30 s without one are a gap."""

LATE_S: Final = 900.0
"""The late past, which is looked at closer: the youngest troubles are minutes old."""

LATE_STRIDE_S: Final = 12.5
"""Seconds between two ticks of the late past. A choice: half of the early one's."""

EVALUATION_S: Final = 180.0
"""Between two judged pictures of the early past: what a look finds, it dates by the windows."""

LATE_EVALUATION_S: Final = 90.0
"""Seconds between two evaluations of the late past. A choice: half of the early one's."""

_WAITED_S: Final = 0.05
"""Real time between two looks at whether the past is over."""

BREATH_S: Final = 0.0002
"""Real pause after each picture of the past, in which the screen gets its turn."""


class Strides(NamedTuple):
    """How a past is walked through: in long strides first, in short ones at its end."""

    early_s: float
    late_s: float

    def at(self, behind_s: float) -> float:
        """Seconds from a picture so far behind the present to the next."""
        return self.early_s if behind_s > LATE_S else self.late_s

    def left(self, behind_s: float) -> float:
        """About how many pictures there still are."""
        late_s = min(behind_s, LATE_S)
        return (behind_s - late_s) / self.early_s + late_s / self.late_s


def strides_of(period_s: float) -> Strides:
    """Strides through a past, none of them shorter than the beat of the present."""
    return Strides(max(period_s, STRIDE_S), max(period_s, LATE_STRIDE_S))


class Progress(NamedTuple):
    """How far the past has been lived through."""

    ratio: float
    past_s: float


class CatchUpClock:
    """Begins in the past, whose time passes in waits alone, until it is the real clock.

    What the pictures of the past cost is no part of its time, so that they lie equally far apart
    on every machine.
    """

    def __init__(self, past_s: float, real: Clock | None = None) -> None:
        """Begin so many seconds ago, and a little more."""
        self._real = real or SystemClock()
        self.past_s = past_s
        self._at = self._real.now() - past_s - RUN_UP_S
        self._passed_s = 0.0
        self._is_live = False
        self._offset_s = 0.0
        """From the real clock's monotonic seconds to these."""

    @property
    def behind_s(self) -> float:
        """Seconds to the real clock; 0 once it has been reached."""
        return 0.0 if self._is_live else max(0.0, self._real.now() - self._at)

    def now(self) -> float:
        """Unix time."""
        return self._real.now() if self._is_live else self._at

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self._real.monotonic() + self._offset_s if self._is_live else self._passed_s

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Whether the event was set; in the past the seconds pass at once."""
        if self._is_live or seconds <= 0:
            return self._real.wait(event, seconds)
        self._at += seconds
        self._passed_s += seconds
        # A rest of less than a stride joins the one before it: so soon no source says more.
        if self.behind_s < seconds:
            self._offset_s = self._passed_s - self._real.monotonic()
            self._is_live = True
        return self._real.wait(event, BREATH_S)


class _LaggingJudge(PacedJudge):
    """The detection engine, which judges some pictures of the past beside the making of others.

    Each answer is heard with the next picture that is judged, however fast the worker is: so the
    same past has the same findings on every machine. That of the last picture is waited for.
    """

    def __init__(self, engine: Detection, clock: CatchUpClock) -> None:
        super().__init__(engine)
        self._clock = clock
        self._judged_at: float | None = None
        self._report: DetectionReport | None = None
        self._is_live = False

    def submit(self, tick: Tick) -> bool:
        if self._is_live:
            return self._engine.submit(tick)
        behind_s = self._clock.behind_s
        every_s = EVALUATION_S if behind_s > LATE_S else LATE_EVALUATION_S
        before = self._judged_at
        if behind_s > 0 and before is not None and tick.at - before < every_s:
            return False
        self._report = None if before is None else self._engine.finish(FINDINGS_WAIT_S)
        self._judged_at = tick.at
        is_taken = self._engine.submit(tick)
        if behind_s <= 0:
            self._is_live = True
            self._report = self._engine.finish(FINDINGS_WAIT_S) or self._report
        return is_taken

    def collect(self) -> DetectionReport | None:
        report, self._report = self._report, None
        return self._engine.collect() if self._is_live and report is None else report


def lagging(judge: Callable[[], Detection], clock: CatchUpClock) -> Callable[[], Detection]:
    """Make engines that judge a past at its own pace, and the present as ever."""
    return lambda: _LaggingJudge(judge(), clock)


class CatchUpFeed:
    """Ticks of a sampler that takes large strides until the present is reached."""

    def __init__(self, sampler: Sampler, clock: CatchUpClock, period_s: float) -> None:
        """`period_s` is the beat from then on; the sampler begins with the early stride."""
        self._sampler = sampler
        self._clock = clock
        self._begun_s = clock.behind_s
        self._period_s = period_s
        self._strides = strides_of(period_s)
        self._is_late = self._begun_s <= LATE_S
        self._is_live = False
        self._zoom = Wish()
        self._held: list[Wish] = []
        """Questions about the accounting, whose answers are to be of the present."""

    @property
    def progress(self) -> Progress | None:
        """How far the past has been lived through; None: it has been."""
        behind_s, strides = self._clock.behind_s, self._strides
        if self._is_live:
            return None
        # What passed before the first picture makes the past longer than it was.
        ratio = max(0.0, 1.0 - strides.left(behind_s) / strides.left(self._begun_s))
        return Progress(ratio, self._clock.past_s)

    @property
    def failure(self) -> SourceError | None:
        """Why there will be no tick any more; None: there will."""
        return self._sampler.failure

    def start(
        self,
        on_tick: Callable[[Tick], None],
        on_failure: Callable[[SourceError], None] = lambda _failure: None,
    ) -> None:
        """Begin; `on_tick` is called for every picture, those of the past too."""

        def take(tick: Tick) -> None:
            behind_s = self._clock.behind_s
            if not self._is_live and behind_s < 2 * self._strides.late_s:
                # The next picture is the first of the present.
                self._ask()
            if not self._is_live and behind_s <= 0:
                self._is_live = True
                self._sampler.wish(Wish(period_s=self._period_s))
                # The next one comes after a beat, not after another stride.
                tick = tick._replace(period_s=self._period_s)
                if self._zoom.zoom_nodes:
                    self._sampler.wish(self._zoom)
            elif not self._is_late and behind_s <= LATE_S:
                self._is_late = True
                self._sampler.wish(Wish(period_s=self._strides.late_s))
            on_tick(tick)

        self._sampler.start(take, on_failure)

    def _ask(self) -> None:
        held, self._held = self._held, []
        for wish in held:
            self._sampler.wish(wish)

    def lived_through(self) -> Tick | None:
        """Live through all of the past; its last picture, None where none will come."""
        newest: list[Tick] = []
        is_over = threading.Event()

        def take(tick: Tick) -> None:
            if self.progress is None and not newest:
                newest.append(tick)
                is_over.set()

        self.start(take, lambda _failure: is_over.set())
        # Short waits: a main thread in a long one hears of no Ctrl-C on some systems.
        while not is_over.wait(_WAITED_S):
            pass
        return newest[0] if newest else None

    def wish(self, wish: Wish) -> None:
        """Pass a wish on; one for a period or a closer look waits for the present."""
        if self._is_live:
            self._sampler.wish(wish)
        elif wish.period_s is not None:
            self._period_s = wish.period_s
        elif wish.is_about_zoom:
            self._zoom = wish
        else:
            self._held.append(wish)

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding; False: it does not stand."""
        return self._sampler.acknowledge(identity, is_known=is_known)

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Have a class, a subject, or a class about a subject not told before a Unix time."""
        self._sampler.mute(until, finding_class, subject)

    def close(self) -> None:
        """End the sampler."""
        self._sampler.close()
