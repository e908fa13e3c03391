"""Claims beside labels: found, missed, false, and of which nothing is known."""

from __future__ import annotations

from math import inf

import pytest

from gpumon.evaluation.events import Matcher
from gpumon.evaluation.witness import Account, Claim, Hold
from gpumon.model.records.label import HEALTHY, Label

LOOKED_FOR = {"rule": frozenset({"idle_held", "throttled"}), "other": frozenset({"gpu_fault"})}


def claim(kind, subject, onset=100.0, end=900.0, rank=1, detector="rule", lost_s=None):
    reached = [onset + 60.0 * step if step <= rank else inf for step in range(3)]
    return Claim(detector, kind, subject, onset, end, tuple(reached), lost_s)


def account(*claims, evaluations=()):
    holds = {
        "7": Hold("7", 0.0, 1000.0, frozenset({"A", "B"}), frozenset({"n1"}), 2),
        "8": Hold("8", 0.0, 1000.0, frozenset({"C"}), frozenset({"n1"}), 1),
        "9": Hold("9", 0.0, 1000.0, frozenset({"D"}), frozenset({"n2"}), 1),
    }
    node_of = {"A": "n1", "B": "n1", "C": "n1", "D": "n2", "E": "n2"}
    return Account(0.0, 1000.0, 10.0, claims, holds, node_of, {}, 5000.0, tuple(evaluations), ())


def judged(labels, *claims, evaluations=()):
    return Matcher(account(*claims, evaluations=evaluations), labels, LOOKED_FOR).events()


@pytest.mark.parametrize(
    ("own", "claimed"),
    [
        ("job:7", "job:7"),
        ("job:7", "gpu:B"),
        ("gpu:B", "job:7"),
        ("job:7/rank:3", "job:7"),
        ("job:7", "job:7/rank:0"),
        ("node:n2", "gpu:E"),
        ("job:7", "node:n1"),
    ],
)
def test_a_claim_about_a_part_or_the_whole_of_a_subject_finds_the_label(own, claimed):
    events = judged([Label(own, "throttled", 50.0, 500.0)], claim("throttled", claimed))
    (found,), (judged_claim,) = events.found, events.judged
    assert found.found_at(1) == 160.0
    assert found.found_at(2) == inf
    assert judged_claim.is_true
    assert found.is_named == (own == claimed)


@pytest.mark.parametrize(
    "wrong",
    [
        claim("idle_held", "job:7"),
        claim("throttled", "job:8"),
        claim("throttled", "gpu:C"),
        claim("throttled", "job:7/rank:1"),
        claim("throttled", "job:7", onset=501.0),
        claim("throttled", "job:7", onset=0.0, end=49.0),
    ],
)
def test_another_class_subject_or_time_is_a_miss_and_a_false_alarm(wrong):
    label = Label("job:7/rank:3", "throttled", 50.0, 500.0)
    others = [Label(f"job:{job}", HEALTHY, 0.0, 1000.0) for job in (8, 9)]
    events = judged([label, *others], wrong)
    (found,), (judged_claim,) = events.found, events.judged
    assert found.found_at(0) == inf
    assert judged_claim.is_true is False
    assert judged_claim.is_of_benign == (wrong.subject in ("job:8", "gpu:C"))


def test_any_of_the_subjects_that_share_a_fault_is_a_hit_and_the_others_are_no_false_alarms():
    label = Label("gpu:D", "throttled", 50.0, 500.0, None, ("gpu:A", "job:8"))
    events = judged([label], claim("throttled", "gpu:A"), claim("throttled", "gpu:C"))
    assert [judged_claim.is_true for judged_claim in events.judged] == [True, True]
    assert events.found[0].is_named


def test_what_befalls_a_machine_counts_for_the_job_that_held_it_then():
    """Whose GPU it was for longer otherwise does not matter: the books charge who held it."""
    holds = {
        "5": Hold("5", 0.0, 700.0, frozenset({"A"}), frozenset({"n1"}), 1),
        "6": Hold("6", 700.0, 1000.0, frozenset({"A"}), frozenset({"n1"}), 1),
    }
    told = claim("gpu_fault", "gpu:A", onset=760.0, end=1000.0, lost_s=240.0)
    whole = account(told)._replace(holds=holds)
    label = Label("gpu:A", "gpu_fault", 755.0, inf)
    events = Matcher(whole, [label], LOOKED_FOR).events()
    assert events.found[0].group == events.judged[0].group == "6"
    earlier = Label("gpu:A", "gpu_fault", 20.0, 720.0)
    assert Matcher(whole, [earlier], LOOKED_FOR).events().found[0].group == "5"


def test_of_jobs_without_a_label_nothing_is_known_of_machines_everything():
    labels = [Label("job:7", HEALTHY, 0.0, 1000.0)]
    told = (
        claim("idle_held", "job:9"),
        claim("throttled", "gpu:D"),
        claim("gpu_fault", "gpu:E", detector="other"),
        claim("throttled", "gpu:A"),
        claim("gpu_fault", "node:n1", detector="other"),
    )
    events = judged(labels, *told)
    # On node n1 runs a job that no label names.
    assert [judged_claim.is_true for judged_claim in events.judged] == [
        None,
        None,
        False,
        False,
        None,
    ]
    assert [judged_claim.is_of_benign for judged_claim in events.judged] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert events.benign == {"7"}


def test_a_job_with_a_fault_in_part_of_its_time_is_not_benign():
    labels = [
        Label("job:7", HEALTHY, 0.0, 400.0),
        Label("job:7/rank:1", "throttled", 400.0, 1000.0),
        Label("job:8", HEALTHY, 0.0, 1000.0),
    ]
    assert judged(labels).benign == {"8"}


def test_what_nobody_looks_for_or_could_see_is_told_apart():
    labels = [Label("job:7", kind, 0.0, 1000.0) for kind in ("hang", "idle_held", "gpu_fault")]
    dark = frozenset({"job:7"})
    evaluations = [
        (at, {"rule": dark if at < 700.0 else frozenset()}) for at in range(0, 1000, 100)
    ]
    hang, idle, fault = judged(labels, evaluations=evaluations).found
    assert (hang.is_looked_for, hang.is_unseen) == (False, False)
    assert (idle.is_looked_for, idle.is_unseen) == (True, True)
    assert (fault.is_looked_for, fault.is_unseen) == (True, False)


def test_claims_and_labels_are_drawn_with_their_jobs():
    events = judged(
        [Label("gpu:B", "throttled", 0.0, 1000.0), Label("node:n9", "gpu_fault", 0.0, 1000.0)],
        claim("idle_held", "gpu:C"),
        claim("gpu_fault", "gpu:E", detector="other"),
    )
    assert [one.group for one in events.found] == ["7", "node:n9"]
    assert [one.group for one in events.judged] == ["8", "gpu:E"]


def unsure(subject, *classes, **changes):
    first, *others = classes
    return claim(first, subject, **changes)._replace(others=tuple(others))


def test_a_claim_of_several_classes_finds_each_label_and_counts_as_the_first_that_is_true():
    labels = [
        Label("job:7", "idle_held", 0.0, 400.0),
        Label("gpu:A", "throttled", 300.0, 1000.0),
    ]
    events = judged(labels, unsure("job:7", "cpu_only", "idle_held", "throttled"))
    assert [one.found_at(1) for one in events.found] == [160.0, 160.0]
    (judged_claim,) = events.judged
    assert (judged_claim.is_true, judged_claim.claim.classes) == (True, ("idle_held",))


def test_a_false_claim_of_several_classes_counts_as_one_that_has_a_score():
    labels = [Label("job:7", "idle_held", 0.0, 400.0), Label("job:8", HEALTHY, 0.0, 1000.0)]
    for classes, counted in (
        (("cpu_only", "idle_held"), "idle_held"),
        (("cpu_only", "idle_tail"), "cpu_only"),
    ):
        (judged_claim,) = judged(labels, unsure("job:8", *classes)).judged
        assert (judged_claim.is_true, judged_claim.claim.classes) == (False, (counted,))
        assert judged_claim.is_of_benign


@pytest.mark.parametrize("subject", ["job:7", "job:7/rank:1", "gpu:A", "node:n1", "world:n:1"])
def test_who_is_near_to_whom_is_found_whatever_it_is(subject):
    events = judged([Label(subject, "throttled", 50.0, 500.0)], claim("throttled", subject))
    assert events.found[0].is_named
    assert events.judged[0].is_true
