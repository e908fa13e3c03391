"""Mean, least and most over a job's GPUs, only while the job held them."""

from __future__ import annotations

from math import isnan

from gpumon.fleet.history.history import History
from gpumon.fleet.history.windows import job_spread
from tests.worlds.tick import AT, IDLE, gpu, job_with_gpus, tick


def history_of(seconds: int, gpus: int = 2) -> History:
    """One GPU busy, the others idle."""
    view, found = job_with_gpus("1", {"n": gpus})
    found = [found[0], *(gpu("n", index, IDLE) for index in range(1, gpus))]
    made = History()
    for second in range(seconds):
        made.append(tick((view,), found)._replace(at=AT + second))
    return made


def test_the_mean_lies_between_the_least_and_the_most():
    reader = history_of(5).reader()
    times, [(mean, low, high)] = job_spread(reader, "1", ["sm_active_ratio"], AT, AT + 4, most=8)
    assert times == [AT + i for i in range(5)]
    busy, idle = (gpu("n", 0).value("sm_active_ratio"), gpu("n", 1, IDLE).value("sm_active_ratio"))
    assert all(abs(value - (busy + idle) / 2) < 1e-6 for value in mean)
    assert all(abs(value - idle) < 1e-6 for value in low)
    assert all(abs(value - busy) < 1e-6 for value in high)


def test_what_no_gpu_has_is_missing():
    _, [(mean, low, high)] = job_spread(
        history_of(3).reader(), "1", ["fan_ratio"], AT, AT + 2, most=8
    )
    assert all(isnan(value) for value in (*mean, *low, *high))


def test_a_job_that_held_nothing_has_no_rows():
    times, [(mean, _, _)] = job_spread(
        history_of(3).reader(), "2", ["sm_active_ratio"], AT, AT + 2, most=8
    )
    assert len(times) == len(mean)
    assert all(isnan(value) for value in mean)


def test_of_many_gpus_some_are_taken():
    reader = history_of(3, gpus=8).reader()
    _, [(mean, _, _)] = job_spread(reader, "1", ["sm_active_ratio"], AT, AT + 2, most=1)
    busy = gpu("n", 0).value("sm_active_ratio")
    assert all(abs(value - busy) < 1e-6 for value in mean)
