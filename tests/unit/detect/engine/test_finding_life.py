from __future__ import annotations

import pytest

from gpumon.detect.engine.finding_life import KEPT_S, Lives, Look, notes_from, subjects_of
from gpumon.model.finding import Confidence, Finding, Severity, Window

VIEW = subjects_of(["1", "2"], ["GPU-a"], ["n1"])
ALL = (0, 1)


def claim(at, subject="job:1", start=None, confidence=Confidence.HYPOTHESIS, name="d"):
    window = Window(at - 100.0 if start is None else start, at, 11)
    return Finding(
        name, "c", subject, Severity.WARNING, confidence, "s", (), window, at, at, (), None
    )


def look(at, *findings, blind=(), part=ALL, is_instant=False):
    made = tuple(f._replace(last_seen=at) for f in findings)
    return Look("d", made, part, frozenset(blind), is_instant)


def lived(*looks, view=VIEW):
    """Lives after looks of a detector every ten seconds; None is a look without an answer."""
    lives = Lives()
    for number, made in enumerate(looks):
        at = 1000.0 + 10 * number
        lives.take(at, () if made is None else (made(at),), view)
    return lives


def seen(at):
    return look(at, claim(at))


def sure(at):
    return look(at, claim(at, confidence=Confidence.SUPPORTED))


def nothing(at):
    return look(at)


def dark(at):
    return look(at, blind=["job:1"])


def test_what_is_claimed_is_shown_at_once_with_the_confidence_of_its_window():
    (finding,) = lived(sure).standing(1000.0)
    assert finding.confidence is Confidence.SUPPORTED
    assert finding.is_open
    (finding,) = lived(seen).standing(1000.0)
    assert finding.confidence is Confidence.HYPOTHESIS


def test_a_guess_that_was_claimed_once_leaves_no_trace():
    lives = lived(seen, nothing)
    assert lives.standing(1010.0) == lives.cleared(1010.0) == ()


@pytest.mark.parametrize("entered", [(sure,), (seen, seen), (seen, seen, nothing, seen)])
def test_what_was_entered_outlives_two_looks_without_it_and_not_four(entered):
    assert len(lived(*entered, nothing, nothing).standing(2000.0)) == 1
    lives = lived(*entered, *[nothing] * 4)
    assert lives.standing(2000.0) == ()
    (finding,) = lives.cleared(2000.0)
    assert finding.cleared_at == finding.last_seen == 1000.0 + 10 * (len(entered) - 1)


def test_looks_that_follow_fast_do_not_clear_before_half_a_minute():
    lives = Lives()
    lives.take(1000.0, [sure(1000.0)], VIEW)
    for second in range(1, 30):
        lives.take(1000.0 + second, [nothing(1000.0 + second)], VIEW)
    assert len(lives.standing(1029.0)) == 1
    lives.take(1030.0, [nothing(1030.0)], VIEW)
    assert lives.standing(1030.0) == ()


def test_what_one_sample_proves_is_entered_and_cleared_by_one():
    def event(at):
        return look(at, claim(at), is_instant=True)

    def over(at):
        return look(at, is_instant=True)

    lives = lived(event, over)
    assert lives.standing(1010.0) == ()
    assert lives.cleared(1010.0)[0].cleared_at == 1000.0


@pytest.mark.parametrize("gap", [dark, None])
def test_a_gap_neither_clears_nor_confirms(gap):
    lives = lived(sure, *[gap] * 20)
    (finding,) = lives.standing(1200.0)
    assert finding.unknown_since == 1000.0
    assert finding.last_seen == 1000.0
    lives.take(1210.0, [sure(1210.0)], VIEW)
    (finding,) = lives.standing(1210.0)
    assert (finding.unknown_since, finding.last_seen) == (None, 1210.0)


def test_a_node_that_is_gone_is_unknown_and_a_job_that_is_gone_has_ended():
    lives = Lives()
    claims = [claim(1000.0, s, confidence=Confidence.SUPPORTED) for s in ("node:n1", "job:1")]
    lives.take(1000.0, [look(1000.0, *claims)], VIEW)
    lives.take(1010.0, [look(1010.0)], subjects_of(["2"], [], []))
    (node,) = lives.standing(1010.0)
    assert (node.subject, node.unknown_since) == ("node:n1", 1000.0)
    (job,) = lives.cleared(1010.0)
    assert (job.subject, job.cleared_at) == ("job:1", 1000.0)


def test_the_onset_stays_while_history_forgets_and_moves_on_after_a_break():
    def over_an_hour(at):
        return look(at, claim(at, start=at - 5.0, confidence=Confidence.SUPPORTED))

    unbroken = lived(sure, sure, sure)
    assert unbroken.standing(1020.0)[0].began_at == 900.0
    assert unbroken.standing(1020.0)[0].first_seen == 1000.0
    anew = lived(sure, nothing, over_an_hour)
    assert anew.standing(1020.0)[0].began_at == 1015.0


def test_a_part_of_the_jobs_says_nothing_of_the_others():
    lives = Lives()
    lives.take(1000.0, [sure(1000.0)], VIEW)
    parts = [part for part in ((0, 2), (1, 2)) if not Look("d", (), part, ()).had("job:1")]
    for at in range(1010, 1200, 10):
        lives.take(float(at), [look(float(at), part=parts[0])], VIEW)
    (finding,) = lives.standing(1200.0)
    assert finding.unknown_since is None


def test_a_resting_detector_stands_by_what_it_said():
    lives = Lives()
    lives.take(1000.0, [sure(1000.0)], VIEW)
    lives.take(1010.0, [], VIEW, frozenset({"d"}))
    assert lives.standing(1010.0)[0].unknown_since is None


def test_cleared_findings_are_kept_for_an_hour():
    lives = lived(sure, *[nothing] * 4)
    lives.take(1000.0 + KEPT_S, [nothing(1000.0 + KEPT_S)], VIEW)
    assert len(lives.cleared(1000.0 + KEPT_S)) == 1
    lives.take(1001.0 + KEPT_S, [nothing(1001.0 + KEPT_S)], VIEW)
    assert lives.cleared(1001.0 + KEPT_S) == ()


def test_an_acknowledged_finding_stays_so_until_it_clears_and_over_a_restart():
    lives = lived(sure)
    identity = ("d", "c", "job:1")
    assert lives.acknowledge(identity)
    assert not lives.acknowledge(("d", "c", "job:2"))
    lives.take(1010.0, [sure(1010.0)], VIEW)
    assert lives.standing(1010.0)[0].is_acknowledged
    again = Lives()
    again.restore(*notes_from(lives.notes()))
    again.take(1020.0, [sure(1020.0)], VIEW)
    assert again.standing(1020.0)[0].is_acknowledged
    for at in (1030.0, 1040.0, 1050.0, 1060.0):
        again.take(at, [nothing(at)], VIEW)
    again.take(1070.0, [sure(1070.0)], VIEW)
    assert not again.standing(1070.0)[0].is_acknowledged


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"finding_class": "c"}, 0),
        ({"subject": "job:1"}, 0),
        ({"finding_class": "c", "subject": "job:2"}, 1),
        ({"finding_class": "other"}, 1),
        ({}, 0),
    ],
)
def test_what_is_muted_is_not_told_until_the_time_is_over(given, told):
    lives = lived(sure)
    lives.mute(1500.0, **given)
    assert len(lives.standing(1499.0)) == told
    assert len(lives.muted(1499.0)) == 1 - told
    assert len(lives.standing(1500.0)) == 1
    assert lives.muted(1500.0) == ()


def test_what_went_away_while_it_was_muted_is_muted_too():
    lives = lived(sure, look, look, look, look)
    lives.mute(1500.0, "c")
    assert lives.cleared(1100.0) == ()
    assert [f.cleared_at for f in lives.muted(1100.0)] == [1000.0]


@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        [],
        "x",
        {"acknowledged": 3, "muted": {}},
        {"acknowledged": [["a", "b"], [1, 2, 3]], "muted": [["c", None, "soon"], [1, 2, 3]]},
        {"muted": [["c", None, float("nan")], ["c", None, True]]},
        {"muted": [["c", None, 10**400], ["c", None, float("inf")]]},
    ],
)
def test_notes_that_are_none_are_ignored(rubbish):
    assert notes_from(rubbish) == ([], [])
