"""Jobs are grouped in a process of their own, as they would be in this one."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gpumon.detect.learning import grouping
from gpumon.detect.learning.grouping import Grouping, GroupingError
from gpumon.detect.learning.patterns import patterns_in
from tests.unit.detect.learning.test_novelty import STRANGE
from tests.unit.detect.learning.test_patterns import behaviour, gathered


def test_another_process_finds_what_this_one_would():
    given = gathered(5, others=120, missing=("read_wait", "step"))
    strange = behaviour(np.random.default_rng(1), "strange", STRANGE)
    given = given._replace(others=(*given.others, strange))
    cards, single, odd = Grouping(given).done()
    here = patterns_in(given)
    assert cards == tuple(one.card for one in here.patterns)
    assert [len(card.jobs) for card in cards] == [6, 6, 6]
    assert sorted(single) == sorted(job.job_id for job in here.single)
    assert odd == tuple(one.card for one in here.odd)
    assert [card.exemplar for card in odd] == ["strange"]


def test_what_ends_the_process_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(grouping, "_ENTRY", ("-c", "raise MemoryError('no room')"))
    with pytest.raises(GroupingError, match=r"^jobs cannot be grouped: MemoryError: no room$"):
        Grouping(gathered(1)).done()


def test_a_python_that_cannot_be_started_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(GroupingError, match="jobs cannot be grouped: No such file"):
        Grouping(gathered(1)).done()


def test_what_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(grouping, "LIMIT_S", 0.05)
    monkeypatch.setattr(grouping, "_ENTRY", ("-c", "import time; time.sleep(600)"))
    with pytest.raises(GroupingError, match="took longer than 0 s"):
        Grouping(gathered(1)).done()


def test_one_that_is_ended_before_it_begins_answers_nothing(monkeypatch):
    monkeypatch.setattr(grouping, "_ENTRY", ("-c", "import time; time.sleep(600)"))
    one = Grouping(gathered(1))
    one.end()
    with pytest.raises(GroupingError):
        one.done()
