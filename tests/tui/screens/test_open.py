"""Views are imported while no key comes, and on a machine without a queue only once a key came."""

from __future__ import annotations

from math import inf

import pytest

from gpumon.tui.screens.open import VIEW_PERIOD_S, ViewsAhead


class Opening:
    """An invented clock, keys, and a timer whose steps are made by hand."""

    def __init__(self):
        self.typed_s, self.now_s = -inf, 100.0
        self.step, self.is_over = None, False
        self.views = iter(["one", "another"])
        self.ahead = ViewsAhead(self.every, lambda: self.typed_s, lambda: self.now_s)

    def every(self, _seconds, step):
        assert self.step is None
        self.step = step
        return self

    def stop(self):
        self.is_over = True

    def press(self):
        self.typed_s = self.now_s
        self.ahead.note_key()


def test_views_come_one_by_one_while_nobody_types():
    opening = Opening()
    opening.ahead.take(opening.views, is_queue=True)
    opening.press()
    opening.step()
    opening.now_s += 2 * VIEW_PERIOD_S
    opening.step()
    assert next(opening.views) == "another"
    assert not opening.is_over
    opening.step()
    assert opening.is_over


def test_who_only_watches_a_machine_without_a_queue_needs_none():
    opening = Opening()
    opening.ahead.take(opening.views, is_queue=False)
    assert opening.step is None
    opening.press()
    assert opening.step is not None


@pytest.mark.parametrize("is_queue", [True, False])
def test_a_key_before_the_first_screen_begins_nothing_and_is_not_forgotten(is_queue):
    opening = Opening()
    opening.press()
    assert opening.step is None
    opening.ahead.take(opening.views, is_queue=is_queue)
    assert opening.step is not None
