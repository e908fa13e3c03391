"""Ranks over time in ticks between two samples, for which history has no row."""

from __future__ import annotations

import pytest

from gpumon.fleet.history.history import History
from gpumon.report.facts.rank_groups import rank_groups
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map.marks import FIELDS
from gpumon.report.rank_map.slots import BLANK, RankSlots
from tests.worlds.tick import AT, BUSY, job_with_gpus, tick

SM = next(field for field in FIELDS if field.key == "sm")


def newest_slot(after_s):
    """The last slot of half a second in a tick so long after the newest sample."""
    history = History()
    view, gpus = job_with_gpus("7", {"n1": 4})
    for number in range(10):
        at = AT - 9 + number
        rows = [one._replace(taken_at=at) for one in gpus]
        last = tick((view,), rows, at=at, number=number)
        history.append(last)
    digest = Digest(last._replace(at=AT + after_s, history=history.reader()))
    groups = rank_groups(digest, digest.tick.job("7"))
    return RankSlots().read(digest, "7", groups, SM, 0.5, 12).columns[-1]


@pytest.mark.parametrize("after_s", [0.0, 0.6, 1.4])
def test_a_tick_between_two_samples_ends_with_the_newest_sample(after_s):
    assert newest_slot(after_s).values[0] == pytest.approx(BUSY["sm_active_ratio"], abs=1e-6)


def test_silence_is_drawn_as_silence():
    assert (newest_slot(5.0).codes == BLANK).all()
