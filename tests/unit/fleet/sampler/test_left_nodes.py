"""What is kept of a node whose probe was ended on purpose."""

from __future__ import annotations

import pytest

from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import FORGET_AFTER_S, Newest
from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from tests.unit.fleet.factories import frame, gpu_block, uuid

REPORT = {"gpu": gpu_block("gpu01", [0])}


def left(at):
    return Frame("slurm", "gpu01", at, 0.0, {}, is_left=True)


def node_after(*frames, now):
    newest = Newest()
    newest.take(frames)
    newest.forget(now)
    seen = join(newest.frames, None, newest.node_errors, now, 5.0, newest.left)
    return seen.nodes.get("gpu01")


def test_a_node_that_was_left_keeps_its_values_and_the_time():
    node = node_after(frame("gpu01", REPORT, 100.0), left(101.0), now=160.0)
    assert (node.left_at, node.is_stale, node.is_silent) == (101.0, True, False)
    assert node.gpu_uuids == (uuid("gpu01", 0),)


def test_a_node_that_nobody_left_is_silent():
    node = node_after(frame("gpu01", REPORT, 100.0), now=160.0)
    assert (node.left_at, node.is_stale, node.is_silent) == (None, True, True)


@pytest.mark.parametrize(
    "again",
    [
        frame("gpu01", REPORT, 150.0),
        Frame("slurm", "gpu01", 150.0, 0.0, {}, (SourceError("gpu01", "no route to host"),)),
    ],
    ids=["report", "failure"],
)
def test_a_node_that_a_job_came_back_to_is_watched_again(again):
    node = node_after(frame("gpu01", REPORT, 100.0), left(101.0), again, now=152.0)
    assert node.left_at is None


def test_a_node_that_was_left_long_ago_is_forgotten():
    assert node_after(frame("gpu01", REPORT), left(101.0), now=102.0 + FORGET_AFTER_S) is None
