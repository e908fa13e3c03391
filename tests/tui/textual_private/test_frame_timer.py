"""A frame waits for the one before, but hardly where a key asks for it."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from gpumon.tui.screens.base.time_screen import TimeScreen
from gpumon.tui.textual_private.frame_timer import PERIOD_S, QUICK_S, FrameTimer, quicken
from tests.worlds.tick import fleet


class Call:
    def __init__(self, at_s, act):
        self.at_s, self.act = at_s, act

    def cancel(self):
        self.act = None


class Clock:
    """Time that passes when a test says so, and what was asked of it."""

    def __init__(self):
        self.now_s, self.typed_s = 100.0, -inf
        self.calls, self.frames = [], []
        self.timer = FrameTimer(
            lambda: self.frames.append(self.now_s),
            lambda: self.typed_s,
            lambda wait_s, act: self.calls.append(Call(self.now_s + wait_s, act)) or self.calls[-1],
            lambda: self.now_s,
        )

    def pass_by(self, seconds):
        end_s = self.now_s + seconds
        for call in sorted(self.calls, key=lambda one: one.at_s):
            if call.act is not None and call.at_s <= end_s:
                self.now_s, act, call.act = max(self.now_s, call.at_s), call.act, None
                act()
        self.now_s = end_s


@pytest.mark.parametrize("rest_s", [0.4, 3.0, 71.0])
def test_what_changes_after_a_rest_is_drawn_at_once(rest_s):
    clock = Clock()
    clock.timer.resume()
    clock.pass_by(rest_s)
    clock.timer.resume()
    clock.pass_by(0.0)
    assert clock.frames == [100.0, 100.0 + rest_s]


@pytest.mark.parametrize("after_s", [0.0007, 0.004, 0.011, 0.0163])
def test_right_after_a_frame_of_a_rest_nothing_waits_for_two_periods(after_s):
    clock = Clock()
    clock.timer.resume()
    clock.pass_by(4.321)
    clock.timer.resume()
    clock.pass_by(after_s)
    clock.timer.resume()
    clock.pass_by(1.0)
    assert clock.frames[-1] - clock.frames[-2] == pytest.approx(PERIOD_S)


@pytest.mark.parametrize("after_s", [0.0003, 0.0031, 0.0075])
def test_what_a_key_changes_waits_less(after_s):
    clock = Clock()
    clock.timer.resume()
    clock.pass_by(2.5)
    clock.timer.resume()
    clock.pass_by(after_s)
    clock.typed_s = clock.now_s
    clock.timer.resume()
    clock.pass_by(1.0)
    assert clock.frames[-1] - clock.frames[-2] == pytest.approx(QUICK_S)


def test_a_key_hastens_one_frame_and_what_follows_keeps_the_period():
    clock = Clock()
    clock.timer.resume()
    clock.pass_by(0.001)
    clock.typed_s = clock.now_s
    for _ in range(3):
        clock.timer.resume()
        clock.pass_by(0.0201)
    first, second, third, last = clock.frames
    assert second - first == pytest.approx(QUICK_S)
    assert third - second == pytest.approx(PERIOD_S)
    assert last - third == pytest.approx(PERIOD_S)


def test_several_changes_share_a_frame_and_what_is_drawn_otherwise_has_none():
    clock = Clock()
    for _ in range(5):
        clock.timer.resume()
    clock.pass_by(0.5)
    assert len(clock.frames) == 1
    clock.timer.resume()
    clock.timer.pause()
    clock.pass_by(0.5)
    assert len(clock.frames) == 1


async def test_every_view_has_this_timer(stage):
    async with stage(fleet()) as s:
        for key in ("", "enter", "question_mark"):
            if key:
                await s.press(key)
            assert isinstance(s.app.screen, TimeScreen)
            assert isinstance(s.app.screen._update_timer, FrameTimer)


class Other:
    """A screen of another textual."""


def test_a_screen_of_another_form_keeps_its_own():
    assert quicken(Other()) is None


async def test_what_fails_in_a_frame_ends_the_application(stage, monkeypatch):
    async with stage(fleet()) as s:
        caught, is_caught = [], asyncio.Event()

        def catch(error):
            caught.append(error)
            is_caught.set()

        with monkeypatch.context() as patched:
            patched.setattr(s.app, "_handle_exception", catch)
            patched.setattr(s.app.screen, "_compositor_refresh", lambda: 1 // 0)
            s.app.screen.refresh()
            await is_caught.wait()
        assert [type(one) for one in caught] == [ZeroDivisionError]
