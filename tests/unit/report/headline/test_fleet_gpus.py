"""The GPUs of the fleet by what they are: the parts sum to the whole, whichever source has them."""

from __future__ import annotations

import pytest

from gpumon.model.records.cluster import JobView, Node
from gpumon.model.records.frame import QueueRecords
from gpumon.report.facts.tick_index import Digest
from gpumon.report.headline import fleet_gpus as module
from gpumon.report.headline.fleet_gpus import UNCLEAR, UNLISTED, fleet_gpus
from tests.worlds.queue import slurm_node
from tests.worlds.tick import AT, BUSY, gpu, job, job_with_gpus, tick


def counted(fleet_tick):
    fleet = fleet_gpus(Digest(fleet_tick))
    if fleet.parts:
        assert sum(count for _, count in fleet.parts) == fleet.gpus
    return fleet


def queue(*nodes, is_filtered=False):
    return QueueRecords((), nodes, AT, AT, is_filtered=is_filtered)


def test_the_parts_sum_to_the_whole_also_where_telemetry_names_no_gpu():
    view, gpus = job_with_gpus("1", {"n1": 4})
    listed = queue(
        slurm_node("n1", "mixed", 4, gpus_used=3),
        slurm_node("n2", "allocated", 8, gpus_used=8),
        slurm_node("n3", "down+not_responding", 6, gpus_used=0),
        slurm_node("n4", "mixed+drain", 8, gpus_used=5),
        slurm_node("n5", "idle+maint", 2, gpus_used=0, reservation="update"),
        slurm_node("n6", "idle", 7, gpus_used=1, reservation="course"),
        slurm_node("n7", "idle+powered_down", 9, gpus_used=0),
        slurm_node("login", "idle", 0, gpus_used=0),
    )
    fleet = counted(tick((view,), gpus, queue=listed))
    assert fleet.gpus == 44
    assert fleet.nodes == 7
    assert dict(fleet.parts) == {
        "held": 17, "free": 1, "reserved": 6, "in maintenance": 2, "drained": 3,
        "powered down": 9, "down": 6,
    }  # fmt: skip


def test_gpus_that_only_telemetry_or_only_slurm_names_are_counted_once():
    gpus = [gpu("n1", i) for i in range(6)] + [gpu("desk", i) for i in range(3)]
    listed = queue(
        slurm_node("n1", "mixed", 4, gpus_used=4), slurm_node("n2", "idle", None, gpus_used=0)
    )
    fleet = counted(tick((), gpus, queue=listed))
    assert dict(fleet.parts) == {"held": 4, "free": 2, UNLISTED: 3}
    assert fleet.nodes == 2


def test_where_slurm_counts_no_use_the_jobs_in_view_do():
    view, gpus = job_with_gpus("1", {"n1": 5})
    shut = slurm_node("n2", "idle+drain", 8)
    every = counted(tick((view,), gpus, queue=queue(slurm_node("n1", "mixed", 8), shut)))
    assert dict(every.parts) == {"held": 5, "free": 3, "drained": 8}
    mine = queue(slurm_node("n1", "mixed", 8), shut, is_filtered=True)
    assert dict(counted(tick((view,), gpus, queue=mine)).parts) == {
        "held": 5, UNCLEAR: 3, "drained": 8,
    }  # fmt: skip


def test_instances_of_mig_are_no_gpus():
    gpus = [gpu("n1", i, {**BUSY, "mig_mode": 1}) for i in range(2)]
    view = JobView(job("1", gpu_count=1), (gpus[0].uuid,), 0, (), ())
    listed = queue(slurm_node("n1", "mixed", 14, gpus_used=3))
    assert dict(counted(tick((view,), gpus, queue=listed)).parts) == {"held": 1, "free": 1}


def test_without_a_queue_nothing_is_called_held():
    fleet_tick = tick((), [gpu("n1", 0), gpu("n2", 0), gpu("n2", 1)], queue_at=None)
    fleet_tick = fleet_tick._replace(
        nodes={**fleet_tick.nodes, "n3": Node("n3", (), None, True, None, ())}
    )
    assert counted(fleet_tick) == (3, 2, ())


@pytest.mark.parametrize("used", [None, 8])
def test_nodes_that_are_alike_are_counted_together(monkeypatch, used):
    """Ten thousand of them hold up no key, also where Slurm does not count what is in use."""
    asked = []
    rest = module._rest
    monkeypatch.setattr(module, "_rest", lambda *given: asked.append(given) or rest(*given))
    names = [f"n{number:03d}" for number in range(300)]
    jobs, gpus = [], []
    for number, name in enumerate(names):
        view, _ = job_with_gpus(str(number), {name: 8 if number % 3 else 5})
        jobs.append(view)
        gpus += [gpu(name, index) for index in range(8)]
    # Of some nodes nothing is seen.
    listed = queue(*(slurm_node(name, "mixed", 8, gpus_used=used) for name in names))
    seen = [one for one in gpus if one.node not in names[:4]]
    fleet = counted(tick(tuple(jobs), seen, queue=listed))
    held = 2400 if used else 100 * 5 + 200 * 8
    assert dict(fleet.parts).get("held") == held
    assert fleet.gpus == 2400
    assert len(asked) <= 4


def test_what_few_nodes_report_otherwise_is_counted_node_by_node():
    view, gpus = job_with_gpus("1", {"n1": 3, "n2": 4})
    listed = queue(slurm_node("n1", "mixed", 4), slurm_node("n2", "mixed", 4, gpus_used=4))
    fleet = counted(tick((view,), gpus, queue=listed))
    assert dict(fleet.parts) == {"held": 7, "free": 1}
    assert fleet.nodes == 2


def test_what_has_not_changed_since_the_tick_before_is_not_counted_again(monkeypatch):
    views, gpus = [], []
    for number in range(3):
        view, its = job_with_gpus(str(number), {f"n{number}": 4})
        views.append(view)
        gpus += its
    listed = queue(*(slurm_node(f"n{number}", "mixed", 4) for number in range(3)))
    asked = []
    part = module._part

    def noted(*given):
        asked.append(given[1:])
        return part(*given)

    monkeypatch.setattr(module, "_part", noted)
    lasting = {}

    def held(jobs, records=listed, seen=gpus):
        asked.clear()
        found = fleet_gpus(Digest(tick(tuple(jobs), list(seen), queue=records), lasting))
        return found.held, len(asked)

    assert held(views) == (12, 1)
    assert held([view._replace(contradictions=()) for view in views]) == (12, 0)
    assert held(views[:2]) == (8, 2)
    assert held(views[:2], seen=gpus[:4]) == (8, 3)
    drained = queue(*(slurm_node(f"n{number}", "mixed+drain", 4) for number in range(3)))
    assert held(views[:2], drained, gpus[:4])[1] > 0


def test_counting_takes_many_short_steps_in_a_large_fleet_and_is_done_once():
    nodes = [slurm_node(f"n{number}", "mixed", 4) for number in range(3 * module._STEP)]
    digest = Digest(tick((), [], queue=queue(*nodes)))
    assert sum(1 for _ in module.fleet_gpu_steps(digest)) > 3
    assert sum(1 for _ in module.fleet_gpu_steps(digest)) == 0
    assert fleet_gpus(digest).gpus == 12 * module._STEP
