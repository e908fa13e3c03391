"""A past that is lived through quickly: a simulated fleet has been watched before it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.source import SystemClock, Wish

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from gpumon.fleet.sampler.sampler import Sampler
    from gpumon.model.fault import SourceError
    from gpumon.model.records.tick import Tick
    from gpumon.sources.source import Clock

STRIDES: Final = 480
"""Pictures in which the past is lived through: two hours at one in fifteen seconds, for which
80 GPUs take about four seconds of one core."""

BREATH_S: Final = 0.001
"""Real pause after each picture of the past, in which the screen gets its turn."""


class CatchUpClock:
    """Begins in the past and runs as fast as somebody waits, until it is the real clock."""

    def __init__(self, past_s: float, real: Clock | None = None) -> None:
        """Begin so many seconds ago."""
        self._real = real or SystemClock()
        self._past_s = past_s
        self._behind_s = past_s
        self._lead_s = 0.0
        """What the last wait of the past was too long for the present."""

    @property
    def behind_s(self) -> float:
        """Seconds to the real clock; 0 once it has been reached."""
        return self._behind_s

    @property
    def progress(self) -> float | None:
        """Share of the past that has been lived through; None: all of it."""
        return 1.0 - self._behind_s / self._past_s if self._behind_s > 0 else None

    def now(self) -> float:
        """Unix time."""
        return self._real.now() - self._behind_s

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self._real.monotonic() - self._behind_s + self._lead_s

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Whether the event was set; in the past the seconds pass at once."""
        if self._behind_s <= 0 or seconds <= 0:
            return self._real.wait(event, seconds)
        self._lead_s = max(0.0, seconds - self._behind_s)
        self._behind_s = max(0.0, self._behind_s - seconds)
        return self._real.wait(event, BREATH_S)


class CatchUpFeed:
    """Ticks of a sampler that takes large strides until the present is reached."""

    def __init__(self, sampler: Sampler, clock: CatchUpClock, period_s: float) -> None:
        """`period_s` is the beat from then on; the sampler was made with `stride_s` as its own."""
        self._sampler = sampler
        self._clock = clock
        self._period_s = period_s
        self._is_live = False
        self._zoom = Wish()

    @property
    def progress(self) -> float | None:
        """Share of the past that has been lived through; None: all of it."""
        return self._clock.progress

    @property
    def failure(self) -> SourceError | None:
        """Why there will be no tick any more; None: there will."""
        return self._sampler.failure

    def start(self, on_tick: Callable[[Tick], None]) -> None:
        """Begin; `on_tick` is called for every picture, those of the past too."""

        def take(tick: Tick) -> None:
            if not self._is_live and self._clock.behind_s <= 0:
                self._is_live = True
                self._sampler.wish(Wish(period_s=self._period_s))
                if self._zoom.zoom_nodes:
                    self._sampler.wish(self._zoom)
            on_tick(tick)

        self._sampler.start(take)

    def wish(self, wish: Wish) -> None:
        """Pass a wish on; one for a period or a closer look waits for the present."""
        if self._is_live:
            self._sampler.wish(wish)
        elif wish.period_s is not None:
            self._period_s = wish.period_s
        elif wish.is_about_zoom:
            self._zoom = wish
        else:
            self._sampler.wish(wish)

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


def stride_s(past_s: float, period_s: float) -> float:
    """Seconds between two pictures of the past."""
    return max(period_s, past_s / STRIDES)
