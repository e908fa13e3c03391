"""What is looked up for a large fleet is looked up in short steps, with the same result."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpumon.report.facts import charges, groups, slurm_nodes
from gpumon.report.facts.charges import stake_steps
from gpumon.report.facts.groups import partition_row_steps, partition_rows
from gpumon.report.facts.slurm_nodes import room_steps, rooms
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map import map as fleet_map
from gpumon.report.fleet_map import numbered_nodes
from gpumon.report.fleet_map.map import unit_steps, units
from gpumon.report.fleet_map.numbered_nodes import NO_JOB, Holders, holders_of, roster_of
from gpumon.report.tables import node as node_table
from gpumon.report.tables.node import node_row_steps, node_rows
from tests.worlds.queue import cluster, slurm_node
from tests.worlds.steps import outcome
from tests.worlds.tick import finding, job_with_gpus, tick, uuid_of

NODES = 23


def fleet_tick(gpus_used=None, count=NODES, **queue):
    """A node for each job, of which each has a finding, and one GPU has a finding too."""
    made = [job_with_gpus(str(number), {f"n{number:02}": 2}) for number in range(count)]
    found = tuple(finding(f"job:{number}") for number in range(count))
    nodes = tuple(slurm_node(f"n{n:02}", gpus=8, gpus_used=gpus_used) for n in range(count))
    views, gpus = tuple(v for v, _ in made), [gpu for _, some in made for gpu in some]
    given_tick = tick(views, gpus, findings=(*found, finding(f"gpu:{uuid_of('n03', 1)}")))
    asked = cluster().queue
    return given_tick._replace(queue=asked._replace(nodes=nodes, **queue))


@pytest.fixture
def step(monkeypatch):
    """So many nodes, jobs or GPUs at most are read in one step."""
    monkeypatch.setattr(slurm_nodes, "_ENTITIES_A_STEP", 5)
    monkeypatch.setattr(groups, "_JOBS_A_STEP", 5)
    monkeypatch.setattr(node_table, "_NODES_A_STEP", 5)
    monkeypatch.setattr(fleet_map, "_NODES_A_STEP", 5)
    monkeypatch.setattr(charges, "_GPUS", 5)
    return 5


def growth(steps, made):
    """By how much something grew with each step."""
    sizes = [len(made()), *(len(made()) for _ in steps)]
    return [after - before for before, after in pairwise(sizes)]


@pytest.mark.parametrize("gpus_used", [None, 2], ids=["jobs are counted", "Slurm counts"])
def test_no_step_makes_more_than_some_rooms(step, gpus_used):
    digest = Digest(fleet_tick(gpus_used))
    grown = growth(room_steps(digest), lambda: slurm_nodes._made(digest))
    assert max(grown) == step
    assert sum(grown) == NODES
    assert len(grown) == (2 if gpus_used is None else 1) * -(-NODES // step)
    assert list(room_steps(digest)) == []
    assert {room.free for room in rooms(digest).values()} == {6}


def test_rooms_that_were_begun_are_completed_for_who_asks_for_all(step):
    digest = Digest(fleet_tick())
    begun = iter(room_steps(digest))
    for _ in range(6):
        next(begun)
    assert 0 < len(slurm_nodes._made(digest)) < NODES
    assert rooms(digest) == rooms(Digest(fleet_tick()))
    assert list(begun) == []
    assert len(rooms(digest)) == NODES


def test_jobs_of_a_user_alone_say_nothing_of_what_is_free(step):
    found = rooms(Digest(fleet_tick(is_filtered=True)))
    assert {(room.free, room.types_used) for room in found.values()} == {(None, None)}


def test_rows_of_nodes_rest_on_what_was_looked_up_in_steps(step):
    digest = Digest(fleet_tick())
    steps, rows = node_row_steps(digest), node_table._made(digest)
    while not rows:
        next(steps)
    assert {"stakes", "stakes_by_node"} <= vars(digest).keys()
    assert list(room_steps(digest)) == []
    assert len(rows) == step
    assert max(growth(steps, lambda: rows)) == step
    assert node_rows(digest) == node_rows(Digest(digest.tick))
    worst = next(row for row in node_rows(digest) if row.node.name == "n03")
    assert worst.finding is not None
    assert worst.finding.subject == f"gpu:{uuid_of('n03', 1)}"


def test_what_nodes_lose_is_added_up_in_steps(step):
    digest = Digest(fleet_tick())
    assert len(list(stake_steps(digest))) >= 2 * NODES // step
    assert vars(digest)["stakes_by_node"] == Digest(fleet_tick()).stakes_by_node


def test_rooms_of_partitions_are_made_in_steps(step):
    digest = Digest(fleet_tick())
    assert max(growth(partition_row_steps(digest), lambda: slurm_nodes._made(digest))) == step
    assert partition_rows(digest) == partition_rows(Digest(fleet_tick()))


def test_the_nodes_of_a_map_are_numbered_in_steps(step):
    digest = Digest(fleet_tick())
    assert max(growth(roster_of(digest, None), lambda: fleet_map._made(digest))) == step
    assert list(unit_steps(digest)) == []
    assert units(digest) == units(Digest(fleet_tick()))
    assert len(units(digest)) == NODES


def test_who_holds_the_gpus_of_a_map_is_looked_up_in_steps(step, monkeypatch):
    monkeypatch.setattr(numbered_nodes, "STEP", step)
    digest = Digest(fleet_tick())
    roster = outcome(roster_of(digest, None))
    held = [view.gpu_uuids for view in digest.tick.jobs]
    made = Holders(roster, held)
    grown = growth(made.complete(), lambda: np.flatnonzero(made.of_row != NO_JOB))
    assert max(grown) == 2 * step
    assert sum(grown) == 2 * NODES
    at_once = outcome(holders_of(roster, digest.tick.jobs, None))
    places = [held[job].index(uuid) for uuid, job in zip(roster.index, at_once.of_row, strict=True)]
    assert places == [0, 1] * NODES
    assert made.of_row.tolist() == at_once.of_row.tolist()
    assert at_once.counts.tolist() == [2] * NODES
    assert outcome(holders_of(roster, digest.tick.jobs, at_once)) is at_once
