"""Turns are counted here, in judgements of one job by one detector: no clock is read."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from gpumon.detect.contract import Declaration
from gpumon.detect.facts.facts import MARK_STEP, WHOLE, is_in_part, part_mark
from gpumon.detect.worker.rotation import (
    JOBS_PER_EVALUATION,
    JUDGED_PER_EVALUATION,
    LEAST_JOBS,
    RESTING_PER_EVALUATION,
    Turns,
    part_after,
    shared_out,
)

DEAR = Declaration("dear", "1", ("waste",), ("power_w",), 60.0, 600.0, every_s=10.0)
PACES = (0.0, 10.0, 20.0, 30.0, 60.0, 300.0)


def ring_of(ids):
    return np.sort([part_mark(job_id) for job_id in ids])


def names(count, first=0):
    return [str(number) for number in range(first, first + count)]


def many(count, paces=PACES, **change):
    """So many detectors, which ask to be asked at these paces by turns."""
    return {
        f"d{number}": DEAR._replace(every_s=paces[number % len(paces)], **change)
        for number in range(count)
    }


def judged(turns, ids):
    """By detector the jobs of its turn; none is in two of its parts."""
    found = {}
    for key, parts in turns.items():
        mine = [job_id for part in parts for job_id in ids if is_in_part(job_id, *part)]
        assert len(mine) == len(set(mine))
        found[key] = set(mine)
    return found


def looked(times, jobs=1, declared=DEAR):
    """When the parts were asked about, and which."""
    asked, ring = Turns(), ring_of(names(jobs))
    turns = ((at, asked.take(at, ring, {"dear": declared})) for at in times)
    return [(at, part) for at, found in turns for part in found.get("dear", ())]


def test_a_dear_detector_rests_between_two_looks():
    assert looked(range(31)) == [(0, WHOLE), (10, WHOLE), (20, WHOLE), (30, WHOLE)]


@pytest.mark.parametrize("subjects", ["job", "gpu", "node"])
def test_without_jobs_it_rests_as_long(subjects):
    found = looked(range(31), jobs=0, declared=DEAR._replace(subjects=subjects))
    assert found == [(0, WHOLE), (10, WHOLE), (20, WHOLE), (30, WHOLE)]


def test_a_look_that_comes_a_little_early_is_its_turn():
    """Else it would rest until the next look, which is five seconds away."""
    assert [at for at, _ in looked([0.0, 5.01, 9.99, 15.0, 19.98])] == [0.0, 9.99, 19.98]


def test_a_clock_that_was_set_back_lets_nobody_rest_until_it_is_as_late_again():
    assert [at for at, _ in looked([5000.0, 100.0, 105.0, 110.0])] == [5000.0, 100.0, 110.0]


def test_of_many_jobs_a_part_has_its_turn_oftener():
    found = looked(range(31), jobs=2 * JOBS_PER_EVALUATION)
    assert [at for at, _ in found][:5] == [0, 0, 5, 10, 15]
    (begin, middle), (again, end) = (part for _, part in found[2:4])
    assert middle == again
    assert {begin, end} <= {0.0, 1.0, *(part[1] for _, part in found)}


@pytest.mark.parametrize(
    ("every_s", "parts"), [(0.0, 3), (20.0, 6), (30, 9), (60.0, 18), (300.0, 18)]
)
def test_what_is_asked_rarely_takes_fewer_jobs_a_look_and_still_sees_all(every_s, parts):
    ids = names(3 * JOBS_PER_EVALUATION)
    found = looked(range(0, 6000, 10), len(ids), DEAR._replace(every_s=every_s))
    first = [part for at, part in found if not at]
    later = [(at, part) for at, part in found if at]
    assert len(first) == parts
    round_s = later[parts][0] - later[0][0]
    # Looks are ten seconds apart here.
    assert max(10.0 * parts, every_s) <= round_s <= every_s + 10.0 * parts
    for some in (first, [part for _, part in later[:parts]]):
        times = Counter(name for name in ids for part in some if is_in_part(name, *part))
        assert set(times) == set(ids)


@pytest.mark.parametrize("jobs", [1001, 3000, 10_000, 30_000])
@pytest.mark.parametrize("count", [3, 14, 29, 60, 200])
def test_a_look_has_room_for_so_many_judgements_however_many_detectors_there_are(jobs, count):
    turns, ring, declared = Turns(), ring_of(names(jobs)), many(count)
    turns.take(0.0, ring, declared)
    for number in range(1, 40):
        total = 0
        found = turns.take(10.0 * number, ring, declared)
        assert len(found) <= JUDGED_PER_EVALUATION // LEAST_JOBS
        for parts in found.values():
            (part,) = parts
            inside = (ring >= part[0]) & (ring < part[1])
            over_the_end = (ring >= part[0]) | (ring < part[1])
            total += int((inside if part[0] < part[1] else over_the_end).sum())
        assert total <= JUDGED_PER_EVALUATION


@pytest.mark.parametrize(("jobs", "count"), [(2500, 14), (4000, 40), (10_000, 29), (3000, 120)])
def test_every_detector_sees_every_job_within_a_bound(jobs, count):
    """A fair share each look, or its wish; who got nothing is first in line next time."""
    ids, declared = names(jobs), many(count)
    turns, ring = Turns(), ring_of(ids)
    waits = -(-count // (JUDGED_PER_EVALUATION // LEAST_JOBS))
    share = max(LEAST_JOBS, JUDGED_PER_EVALUATION // count)
    seen = dict.fromkeys(declared, 0.0)
    turns.take(0.0, ring, declared)
    bounds = {
        key: waits
        * (jobs / min(share, JOBS_PER_EVALUATION * 10.0 / min(max(10.0, one.every_s), 60.0)) + 2)
        for key, one in declared.items()
    }
    rounds = dict.fromkeys(declared, 0)
    begun = dict.fromkeys(declared, 0)
    for number in range(1, 1 + int(2 * max(bounds.values()))):
        # Looks so far apart that nobody rests.
        for key, (part,) in turns.take(400.0 * number, ring, declared).items():
            assert part == WHOLE or part[0] == seen[key], "it goes on where it left off"
            if part == WHOLE or part[1] <= part[0]:
                assert number - begun[key] <= bounds[key]
                rounds[key] += 1
                begun[key] = number
            seen[key] = part[1] % 1.0
    assert min(rounds.values()) >= 1


def test_jobs_that_stay_are_seen_whoever_comes_and_goes():
    """Numbers of jobs and of detectors change all the time: nobody is passed over for it."""
    chance = random.Random(7)
    stay, others = names(1500), names(1700, first=50_000)
    declared = many(20)
    turns = Turns()
    turns.take(0.0, ring_of(stay), declared)
    unseen = {key: dict.fromkeys(stay, 0) for key in declared}
    for number in range(1, 160):
        ids = [*stay, *chance.sample(others, chance.randrange(len(others)))]
        asked = {key: one for key, one in declared.items() if chance.random() < 0.9}
        for key, jobs in judged(turns.take(100.0 * number, ring_of(ids), asked), ids).items():
            for name in stay:
                unseen[key][name] = 0 if name in jobs else unseen[key][name] + 1
        # Of at most 3,200 jobs a turn takes 167 or more: twenty turns; and who comes behind is one.
        assert max(max(one.values()) for one in unseen.values()) <= 24


def test_turns_follow_from_counts_and_times_alone():
    def run():
        turns, ring = Turns(), ring_of(names(5000))
        return [list(turns.take(7.0 * n, ring, many(33)).items()) for n in range(80)]

    assert run() == run()


def test_small_fleets_are_judged_without_sharing_out():
    turns, declared = Turns(), many(60, paces=(10.0,))
    ring = ring_of(names(JOBS_PER_EVALUATION))
    assert all(parts == (WHOLE,) for parts in turns.take(0.0, ring, declared).values())
    assert turns.take(5.0, ring, declared) == {}
    assert turns.take(10.0, ring, declared) == dict.fromkeys(declared, (WHOLE,))


def test_hardware_of_a_large_fleet_is_judged_in_every_look():
    declared = {**many(50), "fault": DEAR._replace(subjects="gpu", every_s=0.0)}
    turns, ring = Turns(), ring_of(names(9000))
    for number in range(30):
        assert turns.take(10.0 * number, ring, declared)["fault"] == (WHOLE,)


def test_those_that_rest_and_judge_the_whole_fleet_do_not_fall_due_together():
    declared = many(9, paces=(60.0,), subjects="node")
    turns, ring = Turns(), ring_of(names(2000))
    assert len(turns.take(0.0, ring, declared)) == 9
    counts = Counter()
    for number in range(1, 61):
        found = turns.take(10.0 * number, ring, declared)
        assert len(found) <= RESTING_PER_EVALUATION
        counts.update(list(found))
    assert set(counts) == set(declared)
    assert min(counts.values()) >= 8


def test_a_fair_share_is_what_is_wished_for_or_as_much_as_anybody_has():
    assert shared_out({"a": 300, "b": 200}, 1000) == {"a": 300, "b": 200}
    shares = shared_out({"a": 1000, "b": 170, "c": 900, "d": 1000}, 2000)
    assert shares["b"] == 170
    assert sum(shares.values()) == 2000
    assert {shares[key] for key in "acd"} == {610}


def test_where_a_fair_share_is_too_little_the_last_in_line_wait():
    shares = shared_out({str(n): 1000 for n in range(30)}, 10 * LEAST_JOBS)
    assert shares == {str(n): LEAST_JOBS for n in range(10)}


def test_a_part_goes_over_the_end_of_the_ring():
    ring = np.array([0.1, 0.2, 0.5, 0.9])
    assert part_after(ring, 0.2 + MARK_STEP, 2) == (0.2 + MARK_STEP, 0.9 + MARK_STEP)
    part = part_after(ring, 0.9, 2)
    assert part == (0.9, 0.1 + MARK_STEP)
    assert part_after(ring, 0.3, 4) == WHOLE
    ids = names(50)
    marks = {name: part_mark(name) for name in ids}
    inside = {name for name in ids if is_in_part(name, 0.9, 0.1)}
    assert inside == {name for name in ids if marks[name] >= 0.9 or marks[name] < 0.1}


def test_jobs_of_one_mark_stay_together():
    ring = np.array([0.1, 0.4, 0.4, 0.4, 0.8])
    assert part_after(ring, 0.0, 2) == (0.0, 0.4 + MARK_STEP)
    assert part_after(np.array([0.3, 0.3, 0.3]), 0.3 + MARK_STEP, 1) == WHOLE
