"""A day in few ticks leaves nothing behind; `python -m tests.bench.day` lives through all."""

from __future__ import annotations

import functools
import gc
import sys

import pytest

from gpumon.model.finding import DetectionReport
from tests.bench.day import Day
from tests.worlds.tick import finding

pytestmark = pytest.mark.slow

HOURS = 24
PERIOD_S = 120.0
AN_HOUR = int(3600 / PERIOD_S)
EACH = 5
"""An hour's memory is the most of a sample every so many ticks."""

ROUND = (
    *("1", "enter", "v", "escape", "escape", "2", "enter", "escape", "o", "escape"),
    *("3", "4", "5", "6", "7", "8", "9", "enter", "escape", "0", "Z", "f", "enter", "escape"),
    *("escape", "e", "escape", "question_mark", "escape", "x"),
)
"""What a user presses in an hour, a key a tick."""

VIEWS = 12
"""So many kinds of views at least are drawn on the way."""


class Judge:
    """Finds something about every job that runs, at once."""

    def __init__(self):
        self.report = None

    def submit(self, tick):
        found = tuple(
            finding(f"job:{view.job.job_id}", last_seen=tick.at)
            for view in tick.jobs
            if view.gpu_uuids
        )
        self.report = DetectionReport(tick.at, found, (), ())
        return True

    def collect(self):
        report, self.report = self.report, None
        return report

    def finish(self, _timeout_s):
        return self.collect()

    def acknowledge(self, _identity, *, is_known=True):
        return is_known

    def mute(self, until, finding_class=None, subject=None):
        """Nothing is muted."""

    def close(self):
        """Nothing to end."""


def block_count():
    """Python's allocated blocks without caches of results, which are bounded but slow to fill."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()


async def test_the_last_hour_of_a_day_holds_no_more_than_the_second(tmp_path):
    day = Day(2, 2, tmp_path, Judge, PERIOD_S, key_every=1, tour=ROUND)
    held = {2: 0, HOURS: 0}
    async for number in day.pictures(HOURS * AN_HOUR):
        hour = number // AN_HOUR + 1
        if hour in held and number % EACH == 0:
            held[hour] = max(held[hour], block_count())
    assert held[HOURS] <= 1.05 * held[2], held
    assert len(day.seen) >= VIEWS
