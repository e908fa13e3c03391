"""What the monitor reads of who is at work, also where a plugin has written over it."""

from __future__ import annotations

import os
import struct
import time

import pytest

from gpumon.detect.wire.work_mark import WorkMark


def test_the_other_end_sees_who_began_last_and_when():
    mark = WorkMark()
    there = WorkMark(os.dup(mark.fd))
    assert mark.read().number is None
    before = time.monotonic()
    there.write(3)
    number, since = mark.read()
    assert number == 3
    assert before <= since <= time.monotonic()
    there.write(None)
    assert mark.read().number is None


def test_memory_that_was_cut_short_names_nobody():
    mark = WorkMark()
    mark.write(3)
    os.ftruncate(mark.fd, 4)
    assert mark.read() == (None, float("-inf"))


@pytest.mark.parametrize("since", [float("nan"), float("inf"), 1e30])
def test_a_time_that_is_not_over_puts_off_nothing(since):
    mark = WorkMark()
    os.pwrite(mark.fd, struct.pack("dq", since, 3), 0)
    assert mark.read() == (3, float("-inf"))
