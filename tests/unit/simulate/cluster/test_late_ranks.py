"""Ranks whose host is late, whose slot is narrow, or whose program dies, in the wide world."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING

import pytest

from gpumon.model.records.label import HEALTHY
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.job_faults import (
    CRASH,
    CRASH_XID,
    HANG,
    NARROW,
    NARROW_LANES,
    STRAGGLER,
    STUCK,
    Trouble,
    after,
    slowed_share,
)
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.board import A30, H100, T4, Board, in_slot
from gpumon.simulate.physics.phase import TENSOR, UTIL
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.records.slurm_queue import queue_records
from gpumon.simulate.world.mix import WORLD

if TYPE_CHECKING:
    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.schedule import SimJob

ORIGIN = 1_800_000_000.0


LATE = (Trouble(STRAGGLER, 0, 2, age_s=600.0, is_hot=False), Trouble(NARROW, 0, 2, age_s=0.0))


@pytest.mark.parametrize("trouble", LATE, ids=lambda trouble: trouble.finding_class)
@pytest.mark.parametrize("board", [H100, T4, in_slot(A30, 8)], ids=lambda board: board.partition)
def test_all_ranks_of_a_late_one_take_as_long_and_lose_as_much(
    trouble: Trouble, board: Board
) -> None:
    shape = Shape(1, 4)
    slow, held = (
        after(trouble, board, shape, Random("late"), 0, is_cause=is_cause)
        for is_cause in (True, False)
    )
    share = slowed_share(trouble, board, shape, Random("late"))
    assert 0.02 < share < 0.6
    # Both run the same computation in the same time: their tensor work stays together for hours.
    ours, theirs = (one.at(7200.0).integrals[TENSOR] for one in (slow, held))
    assert ours == pytest.approx(theirs, rel=2e-3)
    # The others spin in a kernel where the late one's GPU does nothing.
    ours, theirs = (one.at(7200.0).integrals[UTIL] for one in (slow, held))
    assert theirs - ours == pytest.approx(share * 7200.0, rel=0.02)


def wide_fleet_with(kind: str, *, is_hot: bool | None = None) -> tuple[Fleet, SimJob]:
    """A fleet of the wide world in which a job has a trouble within its first hours."""
    for seed in range(60):
        fleet = Fleet(12, 8, seed, ORIGIN, 3600.0, WORLD)
        fleet.advance(ORIGIN + 8 * 3600.0)
        for job in fleet._schedule.started:
            trouble = job.request.trouble
            if trouble is None or trouble.finding_class != kind or job.start_at is None:
                continue
            is_other = is_hot is not None and trouble.is_hot != is_hot
            if is_other or job.end_at < trouble.ends_at(job.start_at, ORIGIN) + 900.0 < inf:
                continue
            if ORIGIN < trouble.begins_at(job.start_at, ORIGIN) < ORIGIN + 8 * 3600.0:
                node = fleet.nodes[job.spots[trouble.spot].node]
                if not fleet.is_silent(node, ORIGIN + 9 * 3600.0):
                    return fleet, job
    pytest.fail(f"no {kind} in sixty fleets")


def gpu_of(fleet: Fleet, job: SimJob) -> tuple[SimNode, int]:
    trouble = job.request.trouble
    assert trouble is not None
    spot = job.spots[trouble.spot]
    node = fleet.nodes[spot.node]
    return node, node.gpu_of_minor(spot.gpus[trouble.local])


def test_a_narrow_slot_is_seen_at_its_gpu_alone() -> None:
    fleet, job = wide_fleet_with(NARROW)
    node, row = gpu_of(fleet, job)
    (frame,) = FrameMaker(fleet, "demo:").frames(job.start_at + 300.0, 30.0, {node.name})
    widths = frame.blocks["gpu"].columns["pcie_width"]
    assert widths[row] == NARROW_LANES
    assert sum(width == NARROW_LANES for width in widths) == 1
    labels = fleet.labels(job.start_at + 600.0)
    labelled = {x.subject: x for x in labels if x.finding_class in (NARROW, STRAGGLER)}
    fault = labelled[f"gpu:{node.gpus[row].uuid}"]
    assert fault.finding_class == NARROW
    assert fault.gpu_seconds > 0.0
    (rank,) = [x for x in labels if x.subject.startswith(f"job:{job.job_id}/rank:")]
    assert (rank.finding_class, rank.gpu_seconds) == (STRAGGLER, 0.0)


def test_a_crash_is_told_by_the_driver_and_its_gpu_rests_until_the_job_ends() -> None:
    fleet, job = wide_fleet_with(CRASH)
    node, row = gpu_of(fleet, job)
    at = job.request.trouble.begins_at(job.start_at, ORIGIN)
    maker = FrameMaker(fleet, "demo:")
    (before,) = maker.frames(at - 1.0, 1.0, {node.name})
    (then,) = maker.frames(at + 12.0, 1.0, {node.name})
    key = f"{node.gpus[row].uuid}/{CRASH_XID}/1"
    assert key not in before.blocks["event"].keys
    assert key in then.blocks["event"].keys
    assert then.blocks["event"].columns["event_age_s"][0] == pytest.approx(12.0)
    assert then.blocks["gpu"].columns["gpu_util_ratio"][row] == 0.0
    (label,) = [x for x in fleet.labels(at + 30.0) if x.also == (f"job:{job.job_id}",)]
    assert (label.subject, label.finding_class) == (f"gpu:{node.gpus[row].uuid}", CRASH)
    assert (label.start, label.gpu_seconds) == (at, 0.0)


@pytest.mark.parametrize("is_hot", [True, False])
def test_a_slow_rank_is_well_again_and_its_label_ends_before_its_job(is_hot: bool) -> None:
    fleet, job = wide_fleet_with(STRAGGLER, is_hot=is_hot)
    node, row = gpu_of(fleet, job)
    trouble = job.request.trouble
    (peer, *_) = [
        node.gpu_of_minor(minor)
        for local, minor in enumerate(job.spots[trouble.spot].gpus)
        if local != trouble.local
    ]
    begin = trouble.begins_at(job.start_at, ORIGIN)
    over = trouble.ends_at(job.start_at, ORIGIN)
    assert 240.0 < over - begin < 2400.0
    labels = fleet.labels(over + 900.0)
    (slow,) = [x for x in labels if x.subject.startswith(f"job:{job.job_id}/rank:")]
    assert (slow.finding_class, slow.start, slow.end) == (STRAGGLER, begin, over)
    (before, again) = [x for x in labels if x.subject == f"job:{job.job_id}"]
    assert (before.finding_class, before.end) == (HEALTHY, begin)
    assert (again.finding_class, again.start, again.end) == (HEALTHY, over, over + 900.0)

    def seen(at: float) -> tuple[float, float, int]:
        # Who waits for it computes for less of the time; the late one itself may, or may not.
        reading = fleet.read(node, Spans(at, 120.0))[peer]
        (frame,) = FrameMaker(fleet, "demo:").frames(at, 10.0, {node.name})
        columns = frame.blocks["gpu"].columns
        return reading.means[TENSOR], columns["temp_c"][row], columns["clock_event_reasons"][row]

    usual, held, after_it = seen(begin - 200.0), seen(over - 1.0), seen(over + 500.0)
    assert held[0] < 0.95 * usual[0]
    assert after_it[0] == pytest.approx(usual[0], rel=0.1)
    assert after_it[1] == pytest.approx(usual[1], abs=8.0)
    assert bool(held[2] & 0x20) == is_hot
    assert not after_it[2] & 0x20


def test_where_all_wait_alike_the_rank_at_fault_runs_what_the_others_run() -> None:
    shape = Shape(1, 4)
    for is_alike in (True, False):
        trouble = Trouble(HANG, 0, 1, age_s=600.0, is_alike=is_alike)
        cause, other = (
            after(trouble, H100, shape, Random("hang"), 0, is_cause=is_cause)
            for is_cause in (True, False)
        )
        seen = [program.at(1800.0).integrals for program in (cause, other)]
        assert (seen[0] == seen[1]) is is_alike


def test_a_job_that_does_not_end_completing_keeps_its_node_and_has_no_process() -> None:
    fleet, job = wide_fleet_with(STUCK)
    node, row = gpu_of(fleet, job)
    begin = job.request.trouble.begins_at(job.start_at, ORIGIN)
    assert 900.0 <= job.end_at - begin <= 7200.0
    until = min(begin + 840.0, job.end_at - 1.0)
    for at, state in ((begin - 60.0, "RUNNING"), (until, "COMPLETING")):
        queue = queue_records(fleet, at)
        (record,) = [one for one in queue.jobs if one.job_id == str(job.job_id)]
        assert record.state == state
        (known,) = [one for one in queue.nodes if one.name == node.name]
        assert known.state.endswith("+completing") == (state == "COMPLETING")
        (frame,) = FrameMaker(fleet, "demo:").frames(at, 10.0, {node.name})
        held = frame.blocks["gpu"].columns["process_count"][row]
        assert bool(held) == (state == "RUNNING")
    assert record.end_at == begin
    assert record.nodes == (node.name,)
    labels = fleet.labels(until)
    (stuck,) = [x for x in labels if x.finding_class == STUCK and x.subject == f"node:{node.name}"]
    assert (stuck.start, stuck.end, stuck.gpu_seconds) == (begin, until, 0.0)
    ends = [x.end for x in labels if x.subject == f"job:{job.job_id}"]
    assert ends in ([begin], [])
