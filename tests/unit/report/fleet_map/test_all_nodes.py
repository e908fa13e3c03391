"""A fleet marked at once has the marks that it has node by node, and reuses what did not change."""

from __future__ import annotations

import random

import pytest

from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.frame import QueueRecords
from gpumon.report.facts.slurm_nodes import used_gpus
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map import all_nodes
from gpumon.report.fleet_map.all_nodes import FleetMarks
from gpumon.report.fleet_map.columns import FleetColumns
from gpumon.report.fleet_map.map import MapMarks, units
from gpumon.report.fleet_map.marks import FIELDS
from tests.worlds.map import FIELD, columns_of, fleet_marks
from tests.worlds.queue import slurm_node
from tests.worlds.tick import AT, BUSY, IDLE, finding, gpu, job_with_gpus, tick

STATES = ("mixed", "allocated", "idle+drain", "down*", None)


def joined(fleet_tick):
    """The same with one report per node, as a probe sends it, in place of one per GPU."""
    gpus, nodes = dict(fleet_tick.gpus), {}
    for name, node in fleet_tick.nodes.items():
        mine = [gpus[uuid] for uuid in node.gpu_uuids]
        keys = sorted({key for one in mine for key in one.block.columns})
        block = Block(
            node.gpu_uuids,
            {key: column_for("mode" in key, [g.block.value(key, g.row) for g in mine])
             for key in keys},
            {},
            {(key, row): why for row, g in enumerate(mine)
             for (key, _), why in g.block.missing.items()},
        )  # fmt: skip
        for row, one in enumerate(mine):
            gpus[one.uuid] = one._replace(block=block, row=row, is_stale=node.is_stale)
        nodes[name] = node
    return fleet_tick._replace(gpus=gpus, nodes=nodes)


def test_the_values_of_a_tick_are_looked_up_in_steps():
    fleet_tick = joined(tick((), (gpu("n1", 0), gpu("n2", 0))))
    columns = columns_of(Digest(fleet_tick))
    again = FleetColumns(columns.digest, columns.roster).complete(columns)
    assert sum(1 for _ in again) == 5


@pytest.mark.parametrize(("jobs", "steps"), [(4, 1), (12, 3)])
def test_what_is_found_of_gpus_is_marked_in_steps(monkeypatch, jobs, steps):
    monkeypatch.setattr(all_nodes, "STEP", 4)
    made = [job_with_gpus(str(number), {f"n{number}": 1}) for number in range(jobs)]
    found = tuple(finding(f"job:{number}") for number in range(jobs))
    views, gpus = tuple(view for view, _ in made), [one for _, some in made for one in some]
    columns = columns_of(Digest(joined(tick(views, gpus, findings=found))))
    unmarked = sum(1 for _ in FleetMarks(columns, FIELD["power"]).complete())
    assert sum(1 for _ in FleetMarks(columns, FIELD["verdict"]).complete()) == unmarked + steps


def mixture(seed, is_joined):
    """Nodes in every state, with GPUs that are busy, idle, free, lost, silent or shared."""
    chance = random.Random(seed)
    views, gpus, listed = [], [], []
    for number in range(24):
        name = f"n{number}"
        count = chance.choice((1, 4, 8))
        stale_s = 42.0 if chance.random() < 0.15 else None
        if chance.random() < 0.7:
            view, mine = job_with_gpus(
                str(number), {name: count}, idle=chance.randrange(count + 1),
                user=chance.choice(("ada", "bob", "eve")), stale_s=stale_s,
            )  # fmt: skip
            views.append(view)
        else:
            mine = [gpu(name, at, chance.choice((BUSY, IDLE)), stale_s=stale_s)
                    for at in range(count)]  # fmt: skip
        if chance.random() < 0.4:
            at = chance.randrange(count)
            why = chance.choice((Reason.LOST, Reason.NOT_SUPPORTED))
            worse = gpu(name, at, {**BUSY, "power_w": None, "sm_active_ratio": None,
                                   "gpu_util_ratio": None, "temp_c": None})  # fmt: skip
            missing = dict.fromkeys(worse.block.missing, why)
            block = worse.block._replace(missing=missing)
            mine[at] = mine[at]._replace(block=block)
        gpus += mine
        listed.append(slurm_node(name, gpus=count + chance.choice((0, 0, 2)),
                                 gpus_used=chance.choice((None, 0, count))))  # fmt: skip
    fleet_tick = tick(tuple(views), gpus, queue=QueueRecords((), tuple(listed), AT, AT))
    nodes = {
        name: node._replace(
            state=chance.choice(STATES), left_at=chance.choice((None, None, AT - 50))
        )
        for name, node in fleet_tick.nodes.items()
    }
    found = (finding(f"job:{views[0].job.job_id}"), finding(f"gpu:{gpus[-1].uuid}"))
    fleet_tick = fleet_tick._replace(nodes=nodes, findings=found)
    if chance.random() < 0.3:
        fleet_tick = fleet_tick._replace(queue_at=None, queue=None)
    return joined(fleet_tick) if is_joined else fleet_tick


@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_all_at_once_gives_the_same_as_node_by_node(seed, is_joined):
    digest = Digest(mixture(seed, is_joined))
    for field in FIELDS:
        whole, single = fleet_marks(digest, field), MapMarks(digest, field)
        for unit in units(digest):
            made = whole.marks(unit)
            assert made == single.marks(unit), (field.key, unit)
            assert whole.node_mark(unit, False).rank == single.node_mark(unit, False).rank
            if field.keys:
                assert whole.node_mark(unit, True) == single.node_mark(unit, True)
            else:
                most = max(made.count(mark) for mark in made if mark.rank) if any(
                    mark.rank for mark in made) else 0  # fmt: skip
                assert made.count(whole.node_mark(unit, True)) >= most
        assert whole.seen() == single.seen()
    columns = columns_of(digest)
    used = [used_gpus(digest, digest.tick.nodes[unit.name]) for unit in columns.roster.units]
    assert columns.used.tolist() == used


def test_nodes_keep_their_numbers_while_they_and_their_gpus_stay():
    fleet_tick = mixture(1, is_joined=True)
    before = fleet_marks(Digest(fleet_tick), FIELDS[0])
    after = fleet_marks(Digest(fleet_tick._replace(number=2)), FIELDS[0], before)
    assert after.roster is before.roster
    assert after.columns.holders is before.columns.holders
    assert after.changed_since(before, is_by_node=False, is_mean=False) == []
    fewer = dict(list(fleet_tick.nodes.items())[1:])
    other = fleet_marks(Digest(fleet_tick._replace(nodes=fewer)), FIELDS[0], before)
    assert other.changed_since(before, is_by_node=False, is_mean=False) is None


def test_another_queue_answer_that_promises_more_gpus_is_heard():
    fleet_tick = tick((), [gpu("n1", 0, IDLE)])
    first = fleet_marks(Digest(fleet_tick), FIELDS[0])
    answer = QueueRecords((), (slurm_node("n1", gpus=4),), AT, AT)
    after = fleet_marks(Digest(fleet_tick._replace(queue=answer)), FIELDS[0], first)
    assert [unit.size for unit in after.roster.units] == [4]


def test_what_has_changed_is_found_by_gpu_and_by_node():
    view, gpus = job_with_gpus("1", {"n1": 4, "n2": 4}, idle=1)
    before = fleet_marks(Digest(tick((view,), gpus)), FIELDS[0])
    view, gpus = job_with_gpus("1", {"n1": 4, "n2": 4}, idle=2)
    after = fleet_marks(Digest(tick((view,), gpus)), FIELDS[0], before)
    by_gpu = after.changed_since(before, is_by_node=False, is_mean=False)
    assert by_gpu
    # A node whose worst GPU was idle before has the same cell.
    assert after.changed_since(before, is_by_node=True, is_mean=False) == []
