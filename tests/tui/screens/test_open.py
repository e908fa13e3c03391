"""Views are imported while nobody types, and on a machine without a queue only once a key came."""

from __future__ import annotations

from math import inf

import pytest

from gpumon.tui.screens.open import VIEW_BEAT_S, ViewsAhead


class Beats:
    """An invented clock, keys, and a timer whose beats are made by hand."""

    def __init__(self):
        self.typed_s, self.now_s = -inf, 100.0
        self.beat, self.is_over = None, False
        self.views = iter(["one", "another"])
        self.ahead = ViewsAhead(self.every, lambda: self.typed_s, lambda: self.now_s)

    def every(self, _seconds, step):
        assert self.beat is None
        self.beat = step
        return self

    def stop(self):
        self.is_over = True

    def press(self):
        self.typed_s = self.now_s
        self.ahead.note_key()


def test_views_come_one_by_one_while_nobody_types():
    beats = Beats()
    beats.ahead.take(beats.views, is_queue=True)
    beats.press()
    beats.beat()
    beats.now_s += 2 * VIEW_BEAT_S
    beats.beat()
    assert next(beats.views) == "another"
    assert not beats.is_over
    beats.beat()
    assert beats.is_over


def test_who_only_watches_a_machine_without_a_queue_needs_none():
    beats = Beats()
    beats.ahead.take(beats.views, is_queue=False)
    assert beats.beat is None
    beats.press()
    assert beats.beat is not None


@pytest.mark.parametrize("is_queue", [True, False])
def test_a_key_before_the_first_picture_begins_nothing_and_is_not_forgotten(is_queue):
    beats = Beats()
    beats.press()
    assert beats.beat is None
    beats.ahead.take(beats.views, is_queue=is_queue)
    assert beats.beat is not None
