"""Dead objects are collected while no key comes, and neither too often nor never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.tui.textual_private.idle_gc import (
    ANYWAY_S,
    FEW,
    LATEST_S,
    PAUSE_S,
    PERIOD_S,
    QUIET_S,
    SETTLE_S,
    WHOLE_S,
    QuietCollector,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Terminal:
    """Paints when a test says so, on an invented clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.new_objects = FEW
        self.collections: list[tuple[float, int]] = []
        """When it collected, and which generation."""
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.collector = QuietCollector(
            lambda seconds, what: self._due.append((self.now_s + seconds, what)),
            lambda: self.now_s,
            lambda generation: self.collections.append((self.now_s, generation)),
            lambda: self.new_objects,
        )

    def paint(self, every_s: float, seconds: float, *, is_typing: bool = False) -> None:
        """Paint at an even pace for so long, each frame for a key where somebody types."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            if is_typing:
                self.collector.note_key()
            self.collector.note_frame()
            self._pass_to(self.now_s + every_s)

    def type(self, keys: int, every_s: float, answered_s: float) -> None:
        """Type at an even pace; each key has its frame, and a tick has one before the next key."""
        for _ in range(keys):
            next_s = self.now_s + every_s
            self.collector.note_key()
            self._pass_to(self.now_s + answered_s)
            self.collector.note_frame()
            self._pass_to(next_s - 0.15)
            self.collector.note_frame()
            self._pass_to(next_s)

    def _pass_to(self, end_s: float) -> None:
        while ready := [one for one in self._due if one[0] <= end_s]:
            self._due.remove(ready[0])
            self.now_s = ready[0][0]
            ready[0][1]()
        self.now_s = end_s


def test_it_collects_between_two_ticks_every_period():
    terminal = Terminal()
    terminal.paint(1.0, 3 * PERIOD_S + 5.0)
    assert [generation for _, generation in terminal.collections] == [1, 1, 1]
    assert all((at - 100.0) % 1.0 == pytest.approx(PAUSE_S) for at, _ in terminal.collections)


def test_while_keys_are_typed_it_waits_but_not_for_ever():
    terminal = Terminal()
    terminal.paint(0.3, LATEST_S - 1.0, is_typing=True)
    assert terminal.collections == []
    terminal.paint(0.3, 2.0, is_typing=True)
    assert len(terminal.collections) == 1


def test_while_keys_are_typed_it_begins_where_the_next_key_is_furthest_away():
    """Soon after the frame that answers one; a tick's frame may be just before the next."""
    terminal = Terminal()
    terminal.type(keys=600, every_s=0.4, answered_s=0.02)
    assert len(terminal.collections) == 3
    assert all(
        (at - 100.0) % 0.4 == pytest.approx(0.02 + SETTLE_S) for at, _ in terminal.collections
    )


def test_a_key_that_comes_before_it_begins_goes_first():
    terminal = Terminal()
    terminal.type(keys=round((ANYWAY_S - 1.0) / 0.03), every_s=0.03, answered_s=0.01)
    assert terminal.collections == []
    terminal.type(keys=200, every_s=0.03, answered_s=0.01)
    assert len(terminal.collections) == 1


def test_a_collection_that_is_due_waits_until_the_last_key_is_a_while_ago():
    terminal = Terminal()
    terminal.paint(0.3, PERIOD_S + 5.0, is_typing=True)
    typed_s = terminal.now_s
    terminal.paint(0.3, QUIET_S + 1.0)
    assert [at >= typed_s - 0.3 + QUIET_S for at, _ in terminal.collections] == [True]


def test_few_objects_are_not_worth_a_collection():
    terminal = Terminal()
    terminal.new_objects = FEW - 1
    terminal.paint(1.0, 5 * PERIOD_S)
    assert terminal.collections == []


def test_everything_is_collected_now_and_then_however_little_is_new():
    terminal = Terminal()
    terminal.new_objects = 0
    terminal.paint(1.0, 2 * (WHOLE_S + PERIOD_S))
    assert [generation for _, generation in terminal.collections] == [2, 2]
