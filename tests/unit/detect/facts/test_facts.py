"""What a detector is told besides history, the same in the worker as in a test."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpumon.detect.facts.facts import WHOLE
from gpumon.detect.facts.fleet_facts import FleetFacts
from gpumon.detect.scene import START_AT, WORKING, Scene, working
from gpumon.detect.series import rows_since
from gpumon.detect.view import View
from gpumon.detect.wire.protocol import encode
from gpumon.detect.wire.tick_messages import FactSender


@pytest.fixture
def scene():
    scene = Scene()
    gpus = scene.node("n1", 2) + scene.node("n2", 2)
    scene.job("7", gpus[:3], cpu_count=32, qos="high", is_interactive=True)
    scene.links(gpus[0], 2, link_speed_bytes_per_s=25e9)
    return scene


def take_changes(sender, facts, tick):
    """Has the worker's book take what the sender tells, through JSON; returns what was told."""
    changes = json.loads(encode(sender.changes(tick)))
    facts.take(changes)
    return changes


def test_facts_survive_the_way_to_the_worker(scene):
    scene.gpu("GPU-n1-0", remap_failure=1, ecc_uncorrected_volatile_count=2**40 + 1)
    scene.xid("GPU-n1-1", 79)
    scene.process(41, ["GPU-n1-0"], job_id="7", name="python", uid=1000)
    scene.slurm("n2", state="drained", reason="bad fan")
    tick = scene.run(100, {})
    sender, facts = FactSender(), FleetFacts()
    take_changes(sender, facts, tick)
    here = scene.view()
    assert facts.nodes == dict(here.nodes)
    assert facts.gpus == dict(here.gpus)
    assert facts.gpus["GPU-n1-0"].value("remap_failure") == 1
    assert facts.gpus["GPU-n1-0"].value("ecc_uncorrected_volatile_count") == 2**40 + 1
    assert facts.gpus["GPU-n1-1"].value("remap_failure") is None
    assert facts.nodes["n2"].slurm.reason == "bad fan"


def test_what_does_not_change_is_told_once(scene):
    sender, facts = FactSender(), FleetFacts()
    take_changes(sender, facts, scene.run(10, working(["GPU-n1-0"])))
    again = take_changes(sender, facts, scene.run(10, working(["GPU-n1-0"], temp_c=80.0)))
    assert again == {"nodes": [], "nodes_gone": []}
    scene.gpu("GPU-n2-0", remap_pending=1)
    changed = take_changes(sender, facts, scene.run(10, {}))
    assert [(name, list(blocks)) for name, _, blocks, _, _ in changed["nodes"]] == [("n2", ["gpu"])]


def test_a_gpu_that_fell_off_the_bus_is_told(scene):
    sender, facts = FactSender(), FleetFacts()
    scene.gpu("GPU-n1-0", recovery_action=2)
    take_changes(sender, facts, scene.run(10, {}))
    assert not any(gpu.is_lost for gpu in facts.gpus.values())
    scene.fall("GPU-n1-0")
    take_changes(sender, facts, scene.run(10, {}))
    assert [uuid for uuid, gpu in facts.gpus.items() if gpu.is_lost] == ["GPU-n1-0"]
    assert facts.gpus["GPU-n1-0"].nvml_index == 0
    assert facts.gpus["GPU-n1-0"].value("recovery_action") is None
    assert facts.gpus == dict(scene.view().gpus)


def test_a_lost_gpu_and_a_silent_node_are_told(scene):
    sender, facts = FactSender(), FleetFacts()
    take_changes(sender, facts, scene.run(10, {}))
    scene.lose("GPU-n2-1")
    scene.silence("n1")
    take_changes(sender, facts, scene.run(100, {}))
    assert "GPU-n2-1" not in facts.gpus
    assert facts.nodes["n1"].silent_since == START_AT
    assert facts.gpus["GPU-n1-0"].is_stale
    assert not facts.nodes["n2"].is_stale
    scene.revive("n1")
    take_changes(sender, facts, scene.run(10, {}))
    assert not facts.nodes["n1"].is_stale


def test_links_events_and_processes_are_found_by_gpu_and_by_job(scene):
    scene.run(100, {})
    scene.link("GPU-n1-0", 1, link_state=0)
    scene.xid("GPU-n1-0", 74)
    scene.process(41, ["GPU-n1-0"], job_id="7", name="python")
    scene.process(42, ["GPU-n1-1"], job_id="8", name="other")
    scene.run(50, {})
    view = scene.view()
    assert [link.value("link_state") for link in view.links("GPU-n1-0")] == [1, 0]
    (event,) = view.events("GPU-n1-0")
    assert (event.xid.number, event.at) == (74, START_AT + 100)
    (job,) = view.jobs
    assert [event.uuid for event in job.events] == ["GPU-n1-0"]
    assert [process.name for process in job.processes] == ["python"]
    # Eight rules ask for them in one look.
    assert job.processes is job.processes
    assert view.jobs_of("GPU-n1-0") == view.jobs_on("n2") == (job,)
    assert view.jobs_of("GPU-n2-1") == ()


def test_an_event_before_the_job_held_the_gpu_is_not_the_jobs(scene):
    scene.xid("GPU-n1-0", 79)
    scene.run(100, {})
    scene.end("7")
    scene.job("8", ["GPU-n1-0"])
    scene.run(10, {})
    (job,) = scene.view().jobs
    assert job.events == ()


def test_the_cgroup_is_the_jobs_own_one_column_per_node(scene):
    scene.cgroup("7", "n1", job_cpu_cores_used=3.0)
    scene.cgroup("7", "n2", job_cpu_cores_used=lambda s: s / 10)
    scene.host("n1", cpu_busy_ratio=0.5)
    scene.run(100, {})
    (job,) = scene.view().jobs
    cores = job.cgroup(("job_cpu_cores_used",), 3600.0).columns["job_cpu_cores_used"]
    assert cores[:, 0].tolist() == [3.0] * 10
    assert cores[:, 1].tolist() == list(range(10))
    busy = job.hosts(("cpu_busy_ratio",), 3600.0).columns["cpu_busy_ratio"]
    assert busy[-1, 0] == 0.5
    assert np.isnan(busy[-1, 1])


def test_newest_values_are_those_of_any_field(scene):
    scene.gpu("GPU-n1-0", clock_event_reasons=0x48, remap_failure=1)
    scene.run(10, {"GPU-n1-0": WORKING})
    got = scene.view().latest(
        ["GPU-n1-0", "nowhere"], ["power_w", "clock_event_reasons", "remap_failure"]
    )
    assert got[:, 0].tolist() == [500.0, 0x48, 1.0]
    assert np.isnan(got[:, 1]).all()


def test_jobs_that_wait_or_ended_are_records(scene):
    scene.record("8", gpu_count=4)
    scene.record("9", state="TIMEOUT")
    scene.run(10, {})
    view = scene.view()
    assert [job.job_id for job in view.pending] == ["8"]
    assert [job.job_id for job in view.ended] == ["9"]
    assert (view.jobs[0].job.qos, view.jobs[0].job.is_interactive) == ("high", True)


def test_the_parts_of_a_view_hold_every_job_once():
    scene = Scene()
    for number in range(20):
        scene.job(str(number), scene.node(f"n{number}", 1))
    scene.run(10, {})
    view = scene.view()
    parts = [view.part(*ends) for ends in ((0.2, 0.5), (0.5, 0.9), (0.9, 0.2))]
    assert sorted(j.subject for p in parts for j in p.jobs) == sorted(j.subject for j in view.jobs)
    assert all(len(part.running) == 20 for part in parts)
    assert all(len(part.jobs) == len(part.numbers) for part in parts)
    assert view.part(*WHOLE) is view
    assert isinstance(parts[0], View)


def test_rows_since_is_the_begin_of_the_last_unbroken_stretch():
    flags = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1]], bool)
    assert rows_since(flags).tolist() == [2, 4, 0]
    assert rows_since(flags[:0]).tolist() == [0, 0, 0]


def test_who_only_draws_is_told_apart_from_who_computes(scene):
    uuids = ["GPU-n1-0", "GPU-n1-1"]
    scene.process(41, uuids, job_id="7", uid=1000, user="olga")
    scene.process(90, uuids, job_id="7", uid=0, name="Xorg")
    scene.process(91, uuids, uid=1001)
    kinds = {"41/GPU-n1-0": "C+G", "41/GPU-n1-1": "G", "90/GPU-n1-0": "G", "90/GPU-n1-1": "G"}
    for key, kind in kinds.items():
        scene._set("n1", "context", key, {"type": kind})
    tick = scene.run(100, {})
    sender, facts = FactSender(), FleetFacts()
    take_changes(sender, facts, tick)
    node = facts.nodes["n1"]
    assert [(p.pid, p.gpu_uuids, p.graphics_uuids) for p in node.processes] == [
        (41, ("GPU-n1-0",), tuple(uuids)),
        (91, tuple(uuids), ()),
    ]
    assert [(p.pid, p.gpu_uuids) for p in node.graphics_processes] == [(90, ())]
    assert node.processes[0].user == "olga"
    assert [p.pid for p in scene.view().jobs[0].processes] == [41]
