from __future__ import annotations

from gpumon.detect.contract import Declaration
from gpumon.detect.worker.worker import JOBS_A_LOOK, Turns

DEAR = Declaration("dear", "1", ("waste",), ("power_w",), 60.0, 600.0, every_s=10.0)


def turns(times, jobs=1, declared=DEAR):
    """When the parts were asked about, and which."""
    asked = Turns()
    return [(at, part) for at in times for part in asked.take("dear", at, jobs, declared)]


def test_a_dear_detector_rests_between_two_looks():
    assert turns(range(31)) == [(0, (0, 1)), (10, (0, 1)), (20, (0, 1)), (30, (0, 1))]


def test_a_look_that_comes_a_little_early_is_its_turn():
    """Else it would rest until the next look, which is five seconds away."""
    assert [at for at, _ in turns([0.0, 5.01, 9.99, 15.0, 19.98])] == [0.0, 9.99, 19.98]


def test_of_many_jobs_a_part_has_its_turn_oftener():
    found = turns(range(31), jobs=2 * JOBS_A_LOOK)
    assert [at for at, _ in found][:5] == [0, 0, 5, 10, 15]
    assert [part for _, part in found][:4] == [(0, 2), (1, 2), (1, 2), (0, 2)]


def test_what_is_asked_rarely_takes_fewer_jobs_a_look_and_still_sees_all():
    jobs = 3 * JOBS_A_LOOK
    for every_s, parts in ((0.0, 3), (20.0, 6), (30, 9), (60.0, 18), (300.0, 18)):
        found = turns(range(0, 6000, 10), jobs, DEAR._replace(every_s=every_s))
        assert [part for at, part in found if not at] == [(n, parts) for n in range(parts)]
        later = [(at, part) for at, part in found if at]
        assert {part for _, part in later[:parts]} == {part for _, part in found[:parts]}
        round_s = later[parts][0] - later[0][0]
        # Looks are ten seconds apart here.
        assert max(10.0 * parts, every_s) <= round_s <= every_s + 10.0 * parts
