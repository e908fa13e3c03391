"""The queue: no two jobs share a GPU, and to read it changes nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpumon.simulate.cluster.people import FIRST_PARTITION, Request
from gpumon.simulate.cluster.schedule import Schedule
from gpumon.simulate.cluster.workloads import DATA_PARALLEL, SWEEP
from gpumon.simulate.physics.training import Shape

ORIGIN = 1_800_000_000.0


def request(nodes: int, gpus: int, run_s: float = 3600.0, **more: object) -> Request:
    workload = SWEEP if "array_tasks" in more else DATA_PARALLEL
    base = Request(workload, "job", "amina", FIRST_PARTITION, Shape(nodes, gpus), run_s, 7200.0, 0)
    return base._replace(**more)


def schedule(nodes: int = 4, gpus: int = 4) -> Schedule:
    return Schedule(1, [FIRST_PARTITION] * nodes, gpus, ORIGIN)


def history(queue: Schedule) -> list[tuple[object, ...]]:
    return [(job.job_id, job.submit_at, job.start_at, job.end_at, job.spots) for job in queue.jobs]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_gpu_is_held_twice(seed: int) -> None:
    queue = Schedule(seed, [FIRST_PARTITION] * 10, 8, ORIGIN)
    queue.fill()
    queue.open_doors([])
    queue.advance(ORIGIN + 48 * 3600.0)
    held: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for job in queue.started:
        assert job.start_at is not None
        assert job.end_at is not None
        for spot in job.spots:
            for gpu in spot.gpus:
                held.setdefault((spot.node, gpu), []).append((job.start_at, job.end_at))
    assert len(held) == 80
    for stretches in held.values():
        stretches.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(stretches))


def test_one_leap_equals_many_steps() -> None:
    leap, steps = schedule(), schedule()
    for queue in (leap, steps):
        queue.fill()
        queue.open_doors([(request(1, 4), 60.0)])
    leap.advance(ORIGIN + 40_000.0)
    for second in range(0, 40_001, 250):
        steps.advance(ORIGIN + second)
    assert history(leap) == history(steps)
    assert len(leap.started) > 10


def test_job_ids_are_unique_and_follow_submission() -> None:
    queue = schedule()
    queue.fill()
    queue.open_doors([(request(1, 1, array_tasks=5, array_throttle=2), 30.0)])
    queue.advance(ORIGIN + 20_000.0)
    ids = [job.job_id for job in queue.started]
    assert len(set(ids)) == len(ids)
    plain = [job for job in queue.jobs if job.array_task is None]
    ordered = sorted(plain, key=lambda job: job.submit_at)
    assert [job.job_id for job in ordered] == sorted(job.job_id for job in plain)


def test_array_throttle_is_kept() -> None:
    queue = schedule(1, 4)
    queue.open_doors([(request(1, 1, 600.0, array_tasks=6, array_throttle=2), 0.0)])
    assert sum(job.is_running(ORIGIN) for job in queue.jobs) == 2
    assert sum(job.is_waiting(ORIGIN) for job in queue.jobs) == 4


def test_a_job_that_fits_nowhere_is_not_seated() -> None:
    queue = schedule(2, 4)
    assert queue.seat(request(2, 4), 10.0, 100.0) is not None
    assert queue.seat(request(1, 1), 10.0, 100.0) is None


def test_drained_nodes_take_no_jobs() -> None:
    queue = Schedule(1, [FIRST_PARTITION, ""], 4, ORIGIN)
    assert queue.seat(request(2, 1), 10.0, 100.0) is None
    queue.open_doors([])
    queue.advance(ORIGIN + 20_000.0)
    assert {spot.node for job in queue.started for spot in job.spots} == {0}


def test_a_younger_job_overtakes_only_if_it_cannot_delay_the_first_in_line() -> None:
    queue = schedule(2, 4)
    queue.seat(request(1, 4), 0.0, 5000.0)
    first = request(2, 4)
    short = request(1, 1, 600.0, limit_s=1200.0)
    long = request(1, 1, 600.0, limit_s=90_000.0)
    queue.open_doors([(first, 90.0), (long, 60.0), (short, 30.0)])
    states = {job.request: job.is_running(ORIGIN) for job in queue.jobs[1:]}
    assert states == {first: False, long: False, short: True}
    queue.advance(ORIGIN + 6000.0)
    assert next(job.start_at for job in queue.jobs if job.request == first) == ORIGIN + 5000.0
