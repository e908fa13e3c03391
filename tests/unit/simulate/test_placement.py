"""Where simulated ranks run: beside their GPUs, unless their job is misplaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.shifted.fleet import planned
from gpumon.simulate.shifted.recording import ShiftedFleet
from gpumon.simulate.world.mix import WORLD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.frame import Frame

ORIGIN = 1_800_000_000.0


def numbers(text: str | None) -> set[int]:
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def ranks(frame: Frame) -> Iterator[tuple[str | None, int | None, set[int]]]:
    """Job, NUMA node of the GPU and those of the CPUs, for each context of known placement."""
    gpus, processes = frame.block("gpu"), frame.block("process")
    for key in frame.block("context").keys:
        pid, _, uuid = key.partition("/")
        row = processes.keys.index(pid)
        text = processes.label("cpus_allowed", row)
        assert len(numbers(text)) == processes.value("cpus_allowed_count", row)
        assert processes.value("process_stopped_s", row) == 0.0
        nodes = processes.label("cpu_numa_nodes", row)
        at = gpus.value("gpu_numa_node", gpus.keys.index(uuid))
        if nodes is None or at is None:
            assert nodes is at is None
            continue
        yield processes.label("job_id", row), int(at), numbers(nodes)


def met(finding_class: str) -> tuple[Fleet, float]:
    """The first fleet of the wide world in which a class is true of a job, and a time of it."""
    for seed in range(60):
        fleet = Fleet(24, 8, seed, ORIGIN, 3600.0, WORLD)
        for label in fleet.labels(ORIGIN + 8 * 3600.0):
            if label.finding_class == finding_class and label.end - label.start > 1800.0:
                return fleet, max(label.start, ORIGIN) + 900.0
    raise AssertionError(finding_class)


def test_ranks_run_beside_their_gpus_unless_they_are_bound_to_the_other_socket() -> None:
    fleet, now = met("numa_misplaced")
    kinds = {str(j.job_id): j.request.workload.kind for j in fleet.running(now)}
    near = far = 0
    for frame in FrameMaker(fleet, "demo").frames(now, 10.0):
        assert frame.block("node").label("numa_distances", 0) == "0:10,21 1:21,10"
        for job_id, at, nodes in ranks(frame):
            is_far = kinds[str(job_id)] == "numa_misplaced"
            assert (at in nodes) is not is_far, (job_id, at, nodes)
            near, far = near + (not is_far), far + is_far
    assert near > 50
    assert far


def test_a_job_on_one_port_leaves_those_beside_its_other_gpus_silent() -> None:
    fleet, now = met("nic_misplaced")
    seen = 0
    jobs = [job for job in fleet.running(now) if job.request.workload.kind == "nic_misplaced"]
    frames = {f.node: f for f in FrameMaker(fleet, "demo").frames(now, 60.0)}
    for job in jobs:
        for spot in job.spots:
            ports = frames[fleet.nodes[spot.node].name].block("nic")
            rates = [ports.value("nic_tx_bytes_per_s", gpu) or 0.0 for gpu in spot.gpus]
            assert sum(rate > 0 for rate in rates) == 1
            assert rates[0] < fleet.nodes[spot.node].board.port_bytes_per_s
            seen += 1
    assert seen


def test_the_shifted_fleet_places_its_ranks_likewise() -> None:
    """On one, two and four NUMA nodes, and on machines that report none."""
    layouts: set[int] = set()
    near = far = 0
    for seed in (11, 12):
        fleet = ShiftedFleet(planned(seed, ORIGIN, 5400.0, 600.0))
        far_jobs = {
            one.subject.removeprefix("job:")
            for one in fleet.labels()
            if one.finding_class == "numa_misplaced"
        }
        for _, frames in fleet.samples():
            for frame in frames:
                if not frame.blocks.get("node"):
                    continue
                distances = frame.block("node").label("numa_distances", 0)
                layouts.add(len(distances.split()) if distances else 0)
                for job_id, at, nodes in ranks(frame):
                    assert (at in nodes) is (job_id not in far_jobs)
                    near, far = near + (at in nodes), far + (at not in nodes)
    assert layouts == {0, 1, 2, 4}
    assert near > 50
    assert far
