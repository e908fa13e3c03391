"""A window that moves on is not told as the time when something began."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon_detectors.evidence.episodes import over_words
from gpumon_detectors.evidence.phrases import clock_time

AT = 1_750_000_000.0


def over(length_s, first_s, **how):
    times = AT + np.arange(0.0, length_s + 1.0, 10.0)
    return over_words(times, int(first_s // 10), **how)


@pytest.mark.parametrize("first_s", [0.0, 170.0])
def test_what_goes_on_since_the_window_begins_is_told_by_the_window(first_s):
    assert over(3600.0, first_s) == "in the last hour"
    assert over(1500.0, first_s) == "in the last 25 min"


def test_an_onset_is_told_where_quiet_was_seen_before():
    assert over(3600.0, 900.0) == f"since {clock_time(AT + 900.0)}"


def test_scattered_events_have_no_onset():
    assert over(3600.0, 900.0, is_scattered=True) == "in the last hour"


def test_before_the_window_is_full_nothing_has_left_it():
    assert over(1200.0, 900.0, is_scattered=True) == f"since {clock_time(AT + 900.0)}"
    assert over(1200.0, 60.0, is_scattered=True) == "in the last 20 min"
