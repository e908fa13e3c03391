"""The fleet: what it shows is a function of seed and time, and its labels are true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.finding_classes import CLASSES
from gpumon.model.records.label import HEALTHY, Label
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.cluster.workloads import OVERSIZED, WORKLOADS

if TYPE_CHECKING:
    from gpumon.simulate.cluster.schedule import SimJob

ORIGIN = 1_800_000_000.0


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(6, 8, 1, ORIGIN)


def truths(fleet: Fleet, until: float) -> dict[str, str]:
    return {label.subject: label.finding_class for label in fleet.labels(until)}


def test_every_kind_of_job_runs_at_the_start(fleet: Fleet) -> None:
    kinds = {job.request.workload.kind for job in fleet.running(ORIGIN)}
    assert kinds == {*WORKLOADS, OVERSIZED.kind}


def test_every_running_job_has_one_label_that_covers_it(fleet: Fleet) -> None:
    until = ORIGIN + 3600.0
    labelled = [x for x in fleet.labels(until) if x.subject.startswith("job:")]
    labels = {x.subject: x for x in labelled}
    running = {job.job_id: job for at in (ORIGIN, until) for job in fleet.running(at)}
    assert len(labels) == len(labelled) >= len(running)
    for job in running.values():
        label = labels[f"job:{job.job_id}"]
        assert label.finding_class == job.request.truth
        assert label.start >= max(job.start_at, ORIGIN)
        # What is true beyond what was recorded is not to be found.
        assert label.end == min(job.end_at, until)


def idle_seconds(fleet: Fleet, job: SimJob, label: Label) -> float:
    """How long a session's GPU does nothing, read off as a probe would."""
    node = fleet.nodes[job.spots[0].node]
    row = node.gpu_of_minor(job.spots[0].gpus[0])
    ends = range(10, int(label.end - label.start) + 1, 10)
    readings = (fleet.read(node, Spans(label.start + s, 10.0))[row] for s in ends)
    return sum(10.0 * (1.0 - reading.means[0]) for reading in readings)


def test_losses_are_those_of_the_gpus_that_do_nothing(fleet: Fleet) -> None:
    until = ORIGIN + 3600.0
    jobs = {f"job:{job.job_id}": job for job in fleet.running(ORIGIN)}
    labelled = {x.subject: x for x in fleet.labels(until) if x.subject in jobs}
    partial = [x for x in labelled.values() if x.finding_class == "partial_gpus_idle"]
    assert partial
    for label in partial:
        shape = jobs[label.subject].request.shape
        unused = shape.nodes * (shape.gpus - round(0.625 * shape.gpus))
        assert label.gpu_seconds == pytest.approx(unused * (label.end - label.start))
    for label in labelled.values():
        if label.finding_class == "idle_held":
            world = jobs[label.subject].request.shape.world
            assert label.gpu_seconds == pytest.approx(world * (label.end - label.start))
        elif label.finding_class == "interactive_idle":
            job = jobs[label.subject]
            assert label.gpu_seconds == pytest.approx(idle_seconds(fleet, job, label), rel=0.02)
        elif label.finding_class == "input_bound":
            job = jobs[label.subject]
            waited_s = job.request.shape.world * idle_seconds(fleet, job, label)
            assert 0.9 * waited_s < label.gpu_seconds < waited_s
        elif label.finding_class == "no_tensor_cores":
            held_s = jobs[label.subject].request.shape.world * (label.end - label.start)
            assert 0.3 * held_s < label.gpu_seconds < 0.5 * held_s
        elif label.finding_class == "healthy":
            assert label.gpu_seconds is None


def test_broken_hardware_is_labelled_where_it_is_by_a_class_of_findings(fleet: Fleet) -> None:
    broken = [x for x in fleet.labels(ORIGIN) if not x.subject.startswith("job:")]
    link, port, memory = fleet.ailments.link, fleet.ailments.port, fleet.ailments.memory
    assert link is not None
    assert port is not None
    assert memory is not None
    assert sorted((x.subject, x.finding_class) for x in broken) == sorted(
        [
            (f"gpu:{fleet.nodes[link.node].gpus[link.gpu].uuid}", "fabric_degraded"),
            (f"node:{fleet.nodes[port.node].name}", "fabric_degraded"),
            (f"gpu:{fleet.nodes[memory.node].gpus[memory.gpu].uuid}", "gpu_fault"),
        ]
    )
    for label in broken:
        assert label.start == ORIGIN == label.end
        assert label.gpu_seconds == 0.0


@pytest.mark.parametrize(("nodes", "gpus", "seed"), [(8, 8, 3), (12, 4, 9), (1, 1, 5), (3, 2, 6)])
def test_every_label_is_a_class_of_findings_or_healthy(nodes: int, gpus: int, seed: int) -> None:
    some = Fleet(nodes, gpus, seed, ORIGIN)
    assert {x.finding_class for x in some.labels(ORIGIN + 7200.0)} <= {*CLASSES, HEALTHY}


def test_the_known_fault_uses_five_of_its_eight_gpus(fleet: Fleet) -> None:
    (label,) = [x for x in fleet.labels(ORIGIN) if x.finding_class == "partial_gpus_idle"]
    (job,) = [x for x in fleet.running(ORIGIN) if f"job:{x.job_id}" == label.subject]
    node = fleet.nodes[job.spots[0].node]
    readings = fleet.read(node, Spans(ORIGIN, 1.0))
    assert len(readings) == 8
    assert sum(reading.stay.is_used for reading in readings) == 5
    assert sum(reading.phase.mem_bytes > 0 for reading in readings) == 5
    for reading in readings:
        assert (reading.means[0] > 0.9) == reading.stay.is_used


def test_a_partial_job_that_cannot_be_partial_is_healthy() -> None:
    for gpus in (1, 2, 4):
        small = Fleet(3, gpus, 1, ORIGIN)
        small.advance(ORIGIN + 40_000.0)
        faulty = [s for s, t in truths(small, ORIGIN + 40_000.0).items() if t.startswith("part")]
        assert bool(faulty) == (gpus > 1)


def test_jobs_end_and_others_begin(fleet: Fleet) -> None:
    before = {job.job_id for job in fleet.running(ORIGIN)}
    after = {job.job_id for job in fleet.running(ORIGIN + 6 * 3600.0)}
    assert before - after
    assert after - before
    assert {job.job_id for job in fleet.running(ORIGIN)} == before


def test_counters_and_heat_carry_over_from_job_to_job(fleet: Fleet) -> None:
    until = ORIGIN + 12 * 3600.0
    fleet.advance(until)
    ends = [job for job in fleet._schedule.started if job.end_at and job.end_at < until]
    assert ends
    for job in ends:
        node = fleet.nodes[job.spots[0].node]
        before = fleet.read(node, Spans(job.end_at - 1e-3, 1.0))
        after = fleet.read(node, Spans(job.end_at + 1e-3, 1.0))
        for early, late in zip(before, after, strict=True):
            assert 0.0 <= late.totals.energy_j - early.totals.energy_j < 10.0
            assert late.totals.power_w == pytest.approx(early.totals.power_w, abs=10.0)
            assert late.totals.heat_w == pytest.approx(early.totals.heat_w, abs=1.0)


def test_seeds_differ_and_one_seed_repeats() -> None:
    def uuids(seed: int) -> list[str]:
        return [gpu.uuid for node in Fleet(6, 8, seed, ORIGIN).nodes for gpu in node.gpus]

    assert uuids(1) == uuids(1)
    assert not set(uuids(1)) & set(uuids(2))
    assert len(set(uuids(1))) == 48


def test_older_nodes_count_their_devices_in_another_order(fleet: Fleet) -> None:
    old = fleet.nodes[4]
    minors = [gpu.minor for gpu in old.gpus]
    assert minors != sorted(minors)
    assert sorted(minors) == list(range(8))


def test_a_large_fleet_is_full_of_jobs() -> None:
    large = Fleet(100, 8, 7, ORIGIN)
    running = large.running(ORIGIN)
    held = sum(len(spot.gpus) for job in running for spot in job.spots)
    assert len(running) > 80
    assert 0.9 * 98 * 8 < held <= 98 * 8
    assert "partial_gpus_idle" in truths(large, ORIGIN).values()
