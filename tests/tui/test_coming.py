"""A tick is made ready in slices before it is drawn: a key never waits for the whole of it."""

from __future__ import annotations

from types import SimpleNamespace

from gpumon.report.facts.tick_index import Digest
from gpumon.report.headline.fleet_gpus import fleet_gpu_steps
from gpumon.tui.coming import Coming
from gpumon.tui.screens.base.root_view import RootView
from gpumon.tui.screens.base.view import View
from gpumon.tui.widgets.text.time_slices import SLICE_S, Slices
from tests.unit.report.headline.test_lines import fleet_tick
from tests.worlds.tick import AT, tick

STEPS = 5


class Turns:
    """What is to be called later, one a turn; each look at its clock ends a slice."""

    def __init__(self):
        self.waiting, self._now_s = [], 0.0

    def later(self, _delay_s, call):
        self.waiting.append(call)

    def clock(self):
        self._now_s += SLICE_S * 1.01
        return self._now_s

    def turn(self):
        self.waiting.pop(0)()


class Counting(View):
    """A view that has something counted before it draws."""

    def __init__(self, counted):
        self._counted = counted

    def steps_before(self, digest):
        for _ in range(STEPS):
            self._counted.append(digest.tick.number)
            yield

    def body(self):
        raise NotImplementedError

    trail = draw = apply_needle = needle = body


class App:
    """Shows ticks."""

    def __init__(self):
        self.digest, self.newest = None, None
        self.counted, self.shown = [], []
        self.screen_stack = [Counting(self.counted)]

    def wanted(self):
        return self.newest, None

    def show_again(self):
        self.shown.append(None if self.digest is None else self.digest.tick.number)


def begun():
    app, turns = App(), Turns()
    return app, turns, Coming(app, Slices(turns.later, turns.clock))


def give(app, coming, number):
    app.newest = tick(at=AT + number)._replace(number=number)
    coming.show_when_ready()


def test_the_first_tick_is_shown_at_once_and_others_when_all_is_counted():
    app, turns, coming = begun()
    give(app, coming, 1)
    assert (app.shown, app.counted) == ([1], [])
    give(app, coming, 2)
    assert (app.shown, app.counted) == ([1], [2])
    for _ in range(STEPS - 1):
        turns.turn()
        assert app.shown == [1]
    turns.turn()
    assert app.shown == [1, 2]
    assert app.counted == [2] * STEPS
    assert not coming.is_busy


def test_a_tick_that_comes_meanwhile_is_shown_next_and_every_tick_is_counted_once():
    app, turns, coming = begun()
    give(app, coming, 1)
    for number in (2, 3, 4):
        give(app, coming, number)
    while turns.waiting:
        turns.turn()
    assert app.shown == [1, 2, 4]
    assert app.counted == [2] * STEPS + [4] * STEPS


def test_what_a_key_asks_for_is_shown_at_once_instead():
    app, turns, coming = begun()
    give(app, coming, 1)
    give(app, coming, 2)
    app.newest = app.newest._replace(number=7)
    coming.show_at_once()
    assert app.shown == [1, 7]
    while turns.waiting:
        turns.turn()
    assert app.shown == [1, 7]


def test_nothing_is_drawn_once_the_application_ends():
    app, turns, coming = begun()
    give(app, coming, 1)
    give(app, coming, 2)
    app.screen_stack.clear()
    while turns.waiting:
        turns.turn()
    assert app.shown == [1]


def test_views_of_the_whole_fleet_have_their_headline_counted_before():
    digest = Digest(fleet_tick())
    assert any(True for _ in fleet_gpu_steps(Digest(fleet_tick())))
    for _ in RootView.steps_before(SimpleNamespace(), digest):
        pass
    assert not any(True for _ in fleet_gpu_steps(digest))
