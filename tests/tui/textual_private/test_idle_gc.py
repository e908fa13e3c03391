"""Dead objects are collected while no key comes, and neither too often nor never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.tui.textual_private.idle_gc import (
    FEW,
    LATEST_S,
    PAUSE_S,
    PERIOD_S,
    QUIET_S,
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
        self.freezes: list[float] = []
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.collector = QuietCollector(
            lambda seconds, what: self._due.append((self.now_s + seconds, what)),
            lambda: self.now_s,
            lambda generation: self.collections.append((self.now_s, generation)),
            lambda: self.new_objects,
            lambda: self.freezes.append(self.now_s),
        )

    def paint(self, every_s: float, seconds: float, *, is_typing: bool = False) -> None:
        """Paint at an even pace for so long, each frame for a key where somebody types."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            if is_typing:
                self.collector.note_key()
            self.collector.note_frame()
            self._pass_to(self.now_s + every_s)

    def _pass_to(self, end_s: float) -> None:
        while ready := [one for one in self._due if one[0] <= end_s]:
            self._due.remove(ready[0])
            self.now_s = ready[0][0]
            ready[0][1]()
        self.now_s = end_s


def test_it_collects_between_two_ticks_every_period():
    terminal = Terminal()
    terminal.collector.note_key()
    terminal.paint(1.0, 3 * PERIOD_S + 5.0)
    assert [generation for _, generation in terminal.collections] == [1, 1, 1]
    assert all((at - 100.0) % 1.0 == pytest.approx(PAUSE_S) for at, _ in terminal.collections)


def test_while_keys_are_typed_it_waits_but_not_for_ever():
    terminal = Terminal()
    terminal.paint(0.3, LATEST_S - 1.0, is_typing=True)
    assert terminal.collections == []
    terminal.paint(0.3, 2.0, is_typing=True)
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
    terminal.collector.note_key()
    terminal.paint(1.0, 2 * (WHOLE_S + PERIOD_S))
    assert [generation for _, generation in terminal.collections] == [2, 2]


def test_what_the_start_made_is_passed_over_instead_of_searched():
    terminal = Terminal()
    terminal.paint(1.0, PERIOD_S + 5.0)
    assert (len(terminal.freezes), terminal.collections) == (1, [])
    terminal.paint(1.0, 2 * PERIOD_S)
    assert [generation for _, generation in terminal.collections] == [1, 1]
    assert len(terminal.freezes) == 1


def test_after_a_key_nothing_is_passed_over_views_may_have_been_closed():
    terminal = Terminal()
    terminal.collector.note_key()
    terminal.paint(1.0, 2 * PERIOD_S + 5.0)
    assert terminal.freezes == []
    assert len(terminal.collections) == 2
