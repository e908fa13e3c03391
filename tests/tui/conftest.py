"""A terminal under test: a feed whose ticks are posted by hand, and the text on its screen."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from textual import constants

from gpumon.report.headline.lines import TALL, headline
from gpumon.tui.app import GpumonApp
from gpumon.tui.look.saved_choices import NO_HABITS
from tests.tui.keyboard import press, resize, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rich.style import Style
    from textual.pilot import Pilot

    from gpumon.model.fault import SourceError
    from gpumon.model.records.tick import Tick
    from gpumon.sources.source import Wish
    from gpumon.tui.look.saved_choices import Habits, Shelf


class HandFeed:
    """A feed that gives what a test hands it."""

    def __init__(self) -> None:
        self.on_tick: Callable[[Tick], None] | None = None
        self.wishes: list[Wish] = []
        """All but those that tell whether processes are on screen."""
        self.processes: list[bool] = []
        """What these reported."""
        self.noted: list[tuple[tuple[str, str, str], bool]] = []
        self.mutes: list[tuple[float, str | None, str | None]] = []
        self.painted_before_start: str | None = None
        self.app: GpumonApp | None = None
        self.failure: SourceError | None = None

    def start(self, on_tick: Callable[[Tick], None]) -> None:
        self.on_tick = on_tick
        if self.app is not None:
            self.painted_before_start = text_of(self.app)

    def wish(self, wish: Wish) -> None:
        if wish.shows_processes is None:
            self.wishes.append(wish)
        else:
            self.processes.append(wish.shows_processes)

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        self.noted.append((identity, is_known))
        return True

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        self.mutes.append((until, finding_class, subject))

    def close(self) -> None:
        """Nothing to free."""


def text_of(app: GpumonApp) -> str:
    """The characters on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


class Stage:
    """One application with its feed and its pilot."""

    def __init__(self, app: GpumonApp, feed: HandFeed, pilot: Pilot[int], now: list[float]) -> None:
        self.app, self.feed, self.pilot, self.now = app, feed, pilot, now

    async def give(self, tick: Tick) -> None:
        """Post a tick and let it be drawn."""
        assert self.feed.on_tick is not None
        self.feed.on_tick(tick)
        await settle(self.pilot)

    async def press(self, *keys: str) -> None:
        """Press keys one by one, each drawn before the next."""
        await press(self.pilot, *keys)

    async def resize(self, width: int, height: int) -> None:
        """Another size of the terminal, everything drawn into it."""
        await resize(self.pilot, width, height)

    @property
    def text(self) -> str:
        return text_of(self.app)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def below(self) -> list[str]:
        """The lines without the headline, however many it has here."""
        digest, size = self.app.digest, self.app.size
        is_tall = size.height >= TALL
        lines = headline(digest, size.width - 2, is_tall=is_tall) if digest else []
        texts = {" " + "".join(cell.text for cell in line).rstrip() for line in lines}
        return [line for line in self.lines if line not in texts]

    def line_with(self, text: str) -> str:
        """The first line that contains this text."""
        return next(line for line in self.lines if text in line)

    def style_of(self, text: str) -> Style:
        """Style of the first segment that contains this text."""
        for strip in self.app.screen._compositor.render_strips():
            for segment in strip:
                if text in segment.text:
                    assert segment.style is not None
                    return segment.style
        raise AssertionError(f"{text!r} is not on the screen")

    def cursor_line(self) -> str:
        """The line that the cursor marks."""
        mark = self.app.look.cursor
        for strip in self.app.screen._compositor.render_strips():
            segments = list(strip)
            style = segments[0].style
            assert style is not None
            if (mark.bgcolor and style.bgcolor == mark.bgcolor) or (mark.reverse and style.reverse):
                return "".join(segment.text for segment in segments).rstrip()
        return ""


@pytest.fixture
def stage():
    """Opens a terminal: `async with stage(tick, size=(80, 24)) as s`."""

    @asynccontextmanager
    async def open_stage(
        tick: Tick | None = None,
        size: tuple[int, int] = (80, 24),
        shelf: Shelf | None = None,
        habits: Habits = NO_HABITS,
    ) -> AsyncIterator[Stage]:
        feed = HandFeed()
        now = [0.0]
        app = GpumonApp(feed, monotonic=lambda: now[0], shelf=shelf, habits=habits)
        feed.app = app
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            assert feed.on_tick is not None
            made = Stage(app, feed, pilot, now)
            if tick is not None:
                await made.give(tick)
            yield made

    return open_stage


@pytest.fixture(autouse=True)
def all_colours(monkeypatch):
    """Whatever terminal the tests run on, what they draw has all colours."""
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "truecolor")


@pytest.fixture(scope="session")
def demo_past():
    """Two hours of the demo; dear, so that who does not ask does not pay."""
    from tests.tui.demo_past import lived

    with lived() as past:
        yield past
