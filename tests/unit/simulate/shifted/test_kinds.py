"""Every kind of job by itself: it does something as long as it runs, and counts what is lost."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.simulate.shifted.boards import PLAIN, PROFILED
from gpumon.simulate.shifted.fleet import BENIGN, FAULTY
from gpumon.simulate.shifted.kinds import broken, exchange, idle, sound
from gpumon.simulate.shifted.ranges import Draw
from gpumon.simulate.shifted.signals import FIELDS
from gpumon.simulate.shifted.story import Life, Story

HOUR_S = 3600.0
SEEN_S = 600.0
KINDS = [pytest.param(kind, id=kind.name) for kind in (*FAULTY, *BENIGN)]


def story_of(kind, seed, shape=None, hours=3.0):
    """A job of a kind of which the recording sees all but the first ten minutes."""
    nodes, gpus = shape or kind.shapes[-1]
    fitting = [one for one in (*PROFILED, *PLAIN) if kind.fits(one) and one.gpus >= gpus]
    length_s = hours * HOUR_S
    life = Life(fitting[seed % len(fitting)], nodes, gpus, length_s, SEEN_S, length_s, False)
    story = Story(life, Draw(seed, kind.name))
    kind.make(story)
    return story


def lost_s(story):
    return sum(
        story.tapes[tape or 0].lost_s(story.phases, SEEN_S, story.life.length_s)
        for tape in story.tape_of
    )


def kind_named(name):
    return next(kind for kind in (*FAULTY, *BENIGN) if kind.name == name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_does_something_until_it_ends(kind, seed):
    story = story_of(kind, seed)
    used = {tape for tape in story.tape_of if tape is not None} or {0}
    for tape in used:
        assert story.tapes[tape].length_s >= story.life.length_s - 60.0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_what_the_kind_says_or_follows_from_it(kind):
    for seed in range(6):
        story = story_of(kind, seed)
        classes = [fault.finding_class for fault in story.faults]
        assert set(kind.classes) <= set(classes)
        counted = [fault for fault in story.faults if fault.lost_gpu_s is None]
        assert len(counted) <= 1
        for fault in story.faults:
            if fault.finding_class not in kind.classes:
                assert fault.lost_gpu_s == 0.0
            if CLASSES[fault.finding_class].loss is Loss.NONE:
                assert fault.lost_gpu_s == 0.0


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name) for kind in BENIGN])
def test_a_healthy_job_loses_nothing(kind):
    story = story_of(kind, 4)
    assert not story.faults
    assert lost_s(story) == 0.0


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=kind.name) for kind in FAULTY if kind.name != "gpu_fault"]
)
def test_a_counted_loss_is_some_and_less_than_all(kind):
    story = story_of(kind, 5)
    if any(fault.lost_gpu_s is None for fault in story.faults):
        assert 0.005 < lost_s(story) / (story.life.gpus * story.life.seen_s) <= 1.0


def test_a_hang_loses_everything_from_its_onset_on():
    story = story_of(kind_named("hang"), 7, (1, 4))
    (fault,) = story.faults
    assert lost_s(story) == pytest.approx(4 * (story.life.length_s - fault.from_s), rel=0.01)


def test_half_of_hangs_have_a_rank_that_left_in_each_way_that_can_be_seen():
    stories = [story_of(kind_named("hang"), seed, (1, 4)) for seed in range(80)]
    left = [story for story in stories if story.faults[0].also]
    assert 0.35 < len(left) / len(stories) < 0.65
    kinds = {
        "dead": sum(bool(story.leaves_s) for story in left),
        "stuck": sum(story.phases["left"].stuck == 1.0 for story in left),
        "kernel": sum(story.phases["left"].util == 1.0 for story in left),
    }
    assert all(kinds.values())
    assert sum(kinds.values()) < len(left)
    for story in stories:
        if not story.faults[0].also:
            assert story.phases["left"] == story.phases["hung"]


def test_a_slow_rank_costs_all_ranks_what_each_step_takes_longer():
    story = story_of(kind_named("straggler"), 8, (1, 4))
    spent = [tape.spent(story_end(story)) for tape in story.tapes]
    extra = {round(float(own.get("lag", own.get("drag"))[0]), 3) for own in spent}
    assert len(extra) == 1
    assert lost_s(story) == pytest.approx(4 * extra.pop(), rel=0.01)


def story_end(story):
    return np.array([story.life.length_s])


def test_heat_lengthens_the_work_of_its_own_gpu_and_the_wait_of_the_others():
    story = story_of(kind_named("throttled"), 9, (1, 4))
    sick = story.faults[0].at
    assert story.faults[0].subject == "gpu"
    mine = story.tapes[story.tape_of[sick]].spent(story_end(story))
    other = story.tapes[story.tape_of[(sick + 1) % 4]].spent(story_end(story))
    fault = story.faults[0]
    hot_s = sum(float(spent[0]) for name, spent in mine.items() if name.startswith("hot"))
    assert 0.5 * (fault.to_s - fault.from_s) < hot_s <= fault.to_s - fault.from_s
    assert mine["hot_more"][0] == pytest.approx(other["lag"][0], rel=1e-6)
    assert {mark.field for mark in story.marks} >= {"sm_clock_mhz", "clock_event_reasons"}


def bytes_of(story, tape, field, begin_s, end_s):
    """Mean rate of a field on one tape between two times."""
    seen = story.tapes[tape].seen(story.phases, np.array([begin_s]), np.array([end_s]))
    return float(seen[0, FIELDS.index(field)])


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_slot_lengthens_its_copies_and_the_others_wait_for_them(seed):
    story = story_of(kind_named("pcie_degraded"), seed, (1, 4))
    (fault,) = story.faults
    assert fault.lost_gpu_s is None
    mine, other = story.tape_of[fault.at], story.tape_of[(fault.at + 1) % 4]
    begin_s, end_s = max(fault.from_s, SEEN_S), story.life.length_s
    share = story.tapes[mine].lost_s(story.phases, begin_s, end_s) / (end_s - begin_s)
    assert 0.0005 < share < 0.5
    assert story.tapes[other].lost_s(story.phases, begin_s, end_s) == pytest.approx(
        share * (end_s - begin_s), rel=0.02
    )
    # The same bytes cross both slots, and where others wait their kernels run.
    mine_b, other_b = (bytes_of(story, tape, "to_gpu", begin_s, end_s) for tape in (mine, other))
    assert mine_b == pytest.approx(other_b, rel=0.02)
    more = bytes_of(story, other, "util", begin_s, end_s) - bytes_of(
        story, mine, "util", begin_s, end_s
    )
    assert more == pytest.approx(share, rel=0.05)


@pytest.mark.parametrize(
    ("name", "shape", "field"),
    [("link_degraded", (1, 4), "nvlink"), ("port_degraded", (2, 4), "port")],
)
def test_a_broken_fabric_lengthens_the_exchange_of_all_ranks(name, shape, field):
    for seed in range(4):
        story = story_of(kind_named(name), seed, shape)
        (fault,) = story.faults
        onset, end_s = fault.from_s, story.life.length_s
        lost = lost_s(story) / (8 if shape[0] == 2 else 4) / (end_s - onset)
        assert 0.005 < lost < 0.09
        work = [
            bytes_of(story, 0, key, *span)
            for key in (field, "tensor")
            for span in ((onset - 1500.0, onset - 900.0), (end_s - 3000.0, end_s))
        ]
        # A step moves as many bytes as before, more slowly.
        assert work[1] / work[3] == pytest.approx(work[0] / work[2], rel=0.02)
        slow, usual = (getattr(story.phases[phase], field) for phase in ("slow", "comm"))
        assert 0.0 < slow < 0.98 * usual


def test_the_rest_of_a_tail_holds_no_process_and_no_memory():
    story = story_of(kind_named("idle_tail"), 10)
    assert story.process_to_s == story.faults[0].from_s
    assert story.memory[0][-1][1] == 0.0


def test_kinds_are_named_once():
    names = [kind.name for kind in (*FAULTY, *BENIGN)]
    assert len(set(names)) == len(names)
    assert {kind.make.__module__ for kind in FAULTY} >= {
        module.__name__ for module in (broken, exchange, idle)
    }
    assert sound.KINDS[0] in BENIGN
