"""Every view can be paused, stepped, scrubbed and made live again, live and in a recording."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

import pytest

from gpumon.fleet.replay.catch_up import Progress
from gpumon.sources.source import Wish
from gpumon.tui.app import FILLING_S, GpumonApp
from gpumon.tui.screens.pages.gpu import GpuScreen
from tests.tui.conftest import HandFeed, Stage
from tests.tui.keyboard import settle
from tests.worlds.probe import PATIENCE_S
from tests.worlds.tick import AT, Past, fleet, tick


def at_second(second: float):
    """The fleet so many seconds on, with a job named after the second."""
    made = fleet()
    first, *rest = made.jobs
    named = first._replace(job=first.job._replace(name=f"at-{second:.0f}"))
    return made._replace(at=AT + second, jobs=(named, *rest), number=int(second) + 1)


async def given(s: Stage, *seconds: float) -> None:
    for second in seconds:
        await s.give(at_second(second))


async def test_a_step_back_and_on_shows_the_neighbouring_ticks(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 1, 2, 3)
        await s.press("comma")
        assert "at-2" in s.text
        assert "PAUSED " in s.lines[-2]
        await s.press("comma", "comma")
        assert "at-0" in s.text
        await s.press("comma")
        assert "at-0" in s.text
        await s.press("full_stop")
        assert "at-1" in s.text


async def test_the_tick_is_paused_while_sampling_goes_on_and_one_key_is_live_again(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 1, 2)
        await s.press("comma")
        await given(s, 3, 243)
        assert "at-1" in s.text
        assert "(−4m)" in s.lines[-2]
        assert "●" in s.lines[-2]
        await s.press("L")
        assert "at-243" in s.text
        assert "PAUSED" not in s.text
        await given(s, 244)
        assert "at-244" in s.text


@pytest.mark.parametrize("key", ["p", "space"])
async def test_pause_holds_and_lets_go(stage, key):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 1)
        await s.press(key)
        await given(s, 2)
        assert "at-1" in s.text
        await s.press(key)
        assert "at-2" in s.text


@pytest.mark.parametrize("key", ["p", "space"])
async def test_pause_freezes_the_tick_and_says_so(stage, key):
    async with stage(fleet()) as s:
        await s.press(key)
        assert "PAUSED " in s.lines[-2]
        await s.give(tick())
        assert "4711" in s.text
        await s.press("enter", "escape", "tab", "1")
        assert "4711" in s.text
        await s.press(key)
        assert "The queue lists no jobs." in s.text
        assert "PAUSED" not in s.text


async def test_a_minute_back_and_on(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 30, 60, 90, 120)
        await s.press("left_curly_bracket")
        assert "at-60" in s.text
        await s.press("left_curly_bracket", "left_curly_bracket")
        assert "at-0" in s.text
        await s.press("right_curly_bracket")
        assert "at-60" in s.text


async def test_a_typed_time_leads_there_and_nonsense_is_refused(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 30, 60)
        await s.press("T", *"soon", "enter")
        assert "“soon” is not a time" in s.lines[-2]
        await s.press(*["backspace"] * 4, *"-25s", "enter")
        assert "at-30" in s.text
        assert "PAUSED" in s.lines[-2]
        await s.press("T", "escape")
        assert "at-30" in s.text


async def test_every_view_shows_the_instant_and_views_keep_it(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 1)
        await s.press("comma", "tab")
        assert "PAUSED" in s.lines[-2]
        await s.press("1")
        assert "at-0" in s.text


async def test_what_is_stale_is_judged_at_the_shown_instant(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 600)
        s.now[0] += 1
        await s.press("comma")
        assert "stale 42s" in s.line_with("4702")


async def test_curves_of_a_shown_instant_end_there(stage):
    """The past is read with the newest reader, up to the tick's own time."""
    first, later = at_second(0), at_second(100)
    asked: list[float] = []

    class Asked(Past):
        def window(self, uuid, key, start, end, block="gpu"):
            asked.append(end)
            return [end - 1, end], [0.1, 0.2]

    async with stage(size=(120, 40)) as s:
        await s.give(first._replace(history=Asked(first.gpus)))
        await s.give(later._replace(history=Asked(later.gpus)))
        await s.press("enter", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        asked.clear()
        await s.press("comma")
        assert set(asked) == {AT}


async def test_no_closer_look_is_asked_for_while_the_past_is_looked_at(stage):
    async with stage(size=(120, 24)) as s:
        await given(s, 0, 1)
        await s.press("comma", "enter")
        assert not [wish for wish in s.feed.wishes if wish.zoom_nodes]
        await s.press("L")
        assert s.feed.wishes[-1].zoom_nodes
        await s.press("comma")
        assert s.feed.wishes[-1] == Wish()


class Stretch(NamedTuple):
    start: float
    end: float


class TapeFeed(HandFeed):
    """A recording of a hundred seconds that plays when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.span = Stretch(AT, AT + 100)
        self.now = AT
        self.times = 1.0
        self.is_paused = False
        self.calls: list[object] = []

    def pause(self, is_paused: bool = True) -> None:
        self.is_paused = is_paused

    def speed(self, times: float) -> float:
        self.times = times
        return times

    def seek(self, at: float) -> None:
        self.calls.append(("seek", at - AT))
        self._show(at)

    def step(self, ticks: int) -> None:
        self.is_paused = True
        self._show(self.now + ticks)

    def _show(self, at: float) -> None:
        self.now = at
        self.on_tick(at_second(at - AT))


@pytest.fixture
async def replayed():
    feed = TapeFeed()
    app = GpumonApp(feed, monotonic=lambda: 0.0)
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.pause()
        made = Stage(app, feed, pilot, [0.0])
        await made.give(at_second(0))
        yield made


async def settled(s: Stage, *keys: str) -> None:
    await s.press(*keys)
    s.app.travel.rest()
    await settle(s.pilot)
    # Every second, for what a tick that came before the errand had ended still says.
    s.app.check_silence()
    await settle(s.pilot)


async def test_a_recording_has_the_same_keys(replayed):
    s = replayed
    assert "REPLAY x1 " in s.lines[-2]
    await settled(s, "full_stop")
    assert "at-1" in s.text
    assert "PAUSED" in s.lines[-2]
    await settled(s, "right_curly_bracket")
    assert "at-61" in s.text
    await settled(s, "T", *"-21s", "enter")
    assert "at-40" in s.text
    assert "(−60s)" in s.lines[-2]
    await settled(s, "comma")
    assert "at-39" in s.text
    await settled(s, "space")
    assert "REPLAY" in s.lines[-2]
    await settled(s, "L")
    assert "at-100" in s.text
    assert "(−" not in s.lines[-2]
    assert s.feed.calls == [("seek", 61.0), ("seek", 40.0), ("seek", 100.0)]


async def test_a_place_that_is_reached_while_its_tick_is_drawn_is_no_longer_sought(replayed):
    s, shown, reached = replayed, threading.Event(), threading.Event()
    show = s.feed._show

    def seek(at):
        show(at)
        shown.set()
        reached.wait(PATIENCE_S)

    s.feed.seek = seek
    await s.press("p", "right_curly_bracket")
    assert shown.wait(PATIENCE_S)
    await settle(s.pilot)
    assert "at-60" in s.text
    assert "going to " in s.lines[-2]
    reached.set()
    s.app.travel.rest()
    # As after every tick that was drawn: is another one wanted?
    s.app.wanted()
    s.app.check_silence()
    await settle(s.pilot)
    assert "PAUSED " in s.lines[-2]
    assert "(−40s)" in s.lines[-2]


async def test_the_speed_of_a_recording_has_its_keys(replayed):
    s = replayed
    await settled(s, "plus", "plus")
    assert "REPLAY x4 " in s.lines[-2]
    await settled(s, "minus")
    assert "REPLAY x2 " in s.lines[-2]


async def test_a_paused_recording_is_not_called_silent(replayed):
    s = replayed
    await settled(s, "p")
    s.app.check_silence()
    assert "no new sample" not in s.text


async def test_a_place_that_cannot_be_read_is_reported_and_the_next_one_is_shown(replayed):
    s = replayed
    show, s.feed._show = s.feed._show, lambda at: (_ for _ in ()).throw(OSError(5, "no\nsuch disk"))
    await settled(s, "T", *"-21s", "enter")
    s.app.check_silence()
    assert "✗ cannot go there: OSError: [Errno 5] no" in s.lines[-2]
    assert "at-0" in s.text
    s.feed._show = show
    await settled(s, "right_curly_bracket")
    s.app.check_silence()
    assert "at-60" in s.text
    assert "cannot go there" not in s.text


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_a_past_is_announced_and_shown_at_once_when_it_is_over(stage, size):
    async with stage(size=size) as s:
        s.feed.progress = Progress(0.37, 5400.0)
        await given(s, 0)
        assert s.text.count("simulating the last 90m: 37 %") == 2
        assert "at-0" not in s.text
        await s.press("p")
        s.now[0] += FILLING_S
        s.feed.progress = Progress(0.81, 5400.0)
        await given(s, 1)
        assert "81 %" in s.text
        assert "at-1" not in s.text
        await s.press("L")
        s.feed.progress = None
        await given(s, 2)
        assert "at-2" in s.text
        assert "simulating" not in s.text
        await s.press("comma")
        assert "at-1" in s.text


async def test_a_user_who_paused_while_a_past_was_lived_through_sees_where(stage):
    async with stage(size=(120, 24)) as s:
        s.feed.progress = Progress(0.6, 600.0)
        await given(s, 0, 1)
        await s.press("p")
        s.feed.progress = None
        await given(s, 2)
        assert "PAUSED" in s.lines[-2]
        assert "at-1" in s.text


async def test_what_is_said_leaves_the_paused_instant_in_sight(stage):
    async with stage(fleet(), size=(80, 24)) as s:
        await s.press("p")
        paused = next(part for part in s.lines[-2].split(" · ") if "PAUSED" in part).strip()
        for keys in (("J",), ("colon", *"pend"), ("escape", "slash", *"nowhere==3")):
            await s.press(*keys)
            assert paused in s.lines[-2], keys
            assert len(s.lines[-2]) <= 80
        await s.press("escape", "y")
        assert "copied" in s.lines[-2]
        assert paused in s.lines[-2]


async def test_a_time_before_the_past_says_so_and_shows_where_it_begins(stage):
    async with stage(fleet(), size=(120, 24)) as s:
        for number in range(1, 6):
            await s.give(fleet()._replace(at=AT + 7.0 * number, number=number))
        await s.press("T", *"25", "enter")
        begins = time.strftime("%H:%M:%S", time.localtime(AT))
        assert f"nothing before {begins} is stored" in s.lines[-2]
        assert f"PAUSED {begins}" in s.lines[-2]
        s.now[0] += 60.0
        await s.press("L", "T", *"-14s", "enter")
        assert "nothing before" not in s.lines[-2]
        await s.press("T", *"+90m", "enter")
        assert "still to come" in s.lines[-2]
