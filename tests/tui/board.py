"""A keyboard before the demo's fleet: what is on the screen before a key, and after it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.finding import Severity
from gpumon.sources.demo import DemoSource
from gpumon.sources.source import Wish
from gpumon.tui.app import GpumonApp
from gpumon.tui.screens.base.view import View
from tests.tui.conftest import HandFeed
from tests.tui.keyboard import press, settle
from tests.worlds.clocks import Hasty
from tests.worlds.tick import finding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from gpumon.model.records.tick import Tick

START_AT = 1_760_000_000.0
STEP_S = 20.0
TICKS = 90
WASTING = "48209"
"""A job of the demo's with a rank on each of its sixteen GPUs."""


@cache
def ticks() -> tuple[Tick, ...]:
    """The last few ticks of half an hour of the demo's fleet, with findings and a history."""
    clock = Hasty(START_AT)
    made: list[Tick] = []
    source = DemoSource("demo:4x8", 4, 8, 1, clock, STEP_S)
    source.wish(Wish(ended_since=0.0))
    sampler = Sampler([source], clock, STEP_S, History)
    sampler.start(lambda tick: made.append(judged(tick)) if len(made) < TICKS else sampler.close())
    assert sampler._thread is not None
    sampler._thread.join()
    return tuple(made[-8:])


def judged(tick: Tick) -> Tick:
    """The tick with what detectors find, and a second partition."""
    first = next(iter(tick.gpus))
    findings = (
        finding(f"job:{WASTING}", onset=tick.at - 60, last_seen=tick.at),
        finding(f"job:{WASTING}/rank:5", finding_class="straggler_rank", last_seen=tick.at),
        finding(f"gpu:{first}", finding_class="ecc_errors", severity=Severity.CRITICAL),
        *(finding(f"node:{name}", finding_class="idle_held") for name in tick.nodes),
    )
    queue = tick.queue
    if queue is not None:
        other = queue.partitions[0]._replace(name="a100", is_default=False)
        queue = queue._replace(partitions=(*queue.partitions, other))
    return tick._replace(findings=findings, queue=queue)


class Seen(NamedTuple):
    """Everything that a key can change."""

    views: tuple[str, ...]
    """Names of the screens, that on top last."""
    prompt: str | None
    """What is asked, by the name of its class."""
    lines: tuple[str, ...]
    styles: tuple[tuple[tuple[str, str], ...], ...]
    """Texts of each line with their styles."""
    handed: tuple[object, ...]
    """Wishes, notes and mutes that went to the feed, and what was copied."""
    exit_code: int | None
    repaints: int
    """How often everything was drawn afresh."""


class Board:
    """One terminal, its feed, and keys that are pressed."""

    def __init__(self, app: GpumonApp, feed: HandFeed, pilot: Pilot[int]) -> None:
        self.app, self.feed, self.pilot = app, feed, pilot
        self.repaints = 0

    async def press(self, *keys: str) -> None:
        """One key after the other, each done before the next."""
        await press(self.pilot, *keys)

    async def settle(self) -> None:
        """Until what has come is drawn, and what that sets off, too."""
        await settle(self.pilot)

    def seen(self) -> Seen:
        """What is there now."""
        app, feed = self.app, self.feed
        strips = app.screen._compositor.render_strips()
        stack = [screen for screen in app.screen_stack if isinstance(screen, View)]
        prompt = stack[-1].prompt
        return Seen(
            tuple(view.view for view in stack),
            None if prompt is None else type(prompt).__name__,
            tuple("".join(segment.text for segment in strip).rstrip() for strip in strips),
            tuple(tuple((part.text, str(part.style)) for part in strip) for strip in strips),
            (*feed.wishes, *feed.noted, *feed.mutes, app.clipboard),
            app.return_value,
            self.repaints,
        )


@asynccontextmanager
async def board(*keys: str, size: tuple[int, int] = (120, 24)) -> AsyncIterator[Board]:
    """A terminal that shows the newest tick of the demo's fleet after these keys."""
    feed = HandFeed()
    app = GpumonApp(feed, monotonic=lambda: 0.0)
    # A measure of this process would be drawn whenever three seconds have passed.
    app.measure_footprint = lambda: None  # type: ignore[method-assign]
    async with app.run_test(size=size) as pilot:
        made = Board(app, feed, pilot)
        while feed.on_tick is None:
            await made.settle()
        *older, newest = ticks()
        for tick in older:
            app.travel.take(tick)
        feed.on_tick(newest)
        await made.settle()
        shown = app.show_newest

        def counted() -> None:
            made.repaints += 1
            shown()

        app.show_newest = counted  # type: ignore[method-assign]
        await made.press(*keys)
        yield made
