from __future__ import annotations

import pytest

from gpumon.detect.engine import finding_life
from gpumon.detect.engine.finding_life import (
    CLEARED_SHOWN_S,
    MAX_NOTES,
    MAX_TEXT,
    DetectorResult,
    Lives,
    notes_from,
    subjects_of,
)
from gpumon.model.finding import Confidence, Finding, Severity, Window

VIEW = subjects_of(["1", "2"], ["GPU-a"], ["n1"])
ALL = (0.0, 1.0)
SUPPORTED = Confidence.SUPPORTED


LONG_S = 400.0


def claim(
    at,
    subject="job:1",
    start=None,
    confidence=Confidence.HYPOTHESIS,
    name="d",
    finding_class="c",
    **more,
):
    window = Window(at - LONG_S if start is None else start, at, 11)
    return Finding(
        name, finding_class, subject, Severity.WARNING, confidence, "s", (), window, at, at, (),
        None, **more,
    )  # fmt: skip


def look(at, *findings, blind=(), part=ALL, is_instant=False):
    made = tuple(f._replace(last_seen=at) for f in findings)
    return DetectorResult("d", made, part, frozenset(blind), is_instant)


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


def test_the_onset_stays_while_history_forgets():
    lives = lived(sure, sure, sure)
    assert lives.standing(1020.0)[0].began_at == 1000.0 - LONG_S
    assert lives.standing(1020.0)[0].first_seen == 1000.0


def test_an_earlier_onset_of_a_later_look_moves_nothing():
    lives = lived(sure)
    lives.take(1010.0, [look(1010.0, claim(1010.0, start=0.0))], VIEW)
    assert lives.standing(1010.0)[0].began_at == 1000.0 - LONG_S


def test_confidence_rises_and_does_not_fall_and_its_window_goes_on():
    steps = (Confidence.HYPOTHESIS, Confidence.ESTABLISHED, Confidence.SUPPORTED)
    lives, told = Lives(), []
    for number, step in enumerate(steps):
        at = 1000.0 + 7 * number
        made = claim(at, confidence=step)._replace(summary=f"{step}")
        lives.take(at, [look(at, made)], VIEW)
        told.append(lives.standing(at)[0])
    assert [f.confidence for f in told] == [steps[0], steps[1], steps[1]]
    assert told[2].summary == "supported"
    assert told[2].window.end == told[2].last_seen == 1014.0


def test_a_shorter_window_that_confirms_carries_the_longer_one_on_with_its_words():
    """As behind a neighbour's burst: five minutes confirm an hour, and are lost as well."""
    lives = Lives()
    long = claim(5000.0, confidence=Confidence.ESTABLISHED, start=1400.0)
    lives.take(5000.0, [look(5000.0, long._replace(summary="long", gpu_seconds=7200.0))], VIEW)
    short = claim(5200.0, start=4900.0)._replace(summary="short", gpu_seconds=450.0)
    lives.take(5200.0, [look(5200.0, short)], VIEW)
    (found,) = lives.standing(5200.0)
    assert (found.summary, found.confidence) == ("long", Confidence.ESTABLISHED)
    assert (found.window.start, found.window.end) == (1400.0, 5200.0)
    assert found.gpu_seconds == 7200.0 + 300.0


@pytest.mark.parametrize("gap", [dark, None])
def test_after_a_gap_a_short_window_confirms_what_was_earned(gap):
    lives = lived(sure, *[gap] * 9)
    lives.take(1100.0, [look(1100.0, claim(1100.0, start=1092.0))], VIEW)
    (finding,) = lives.standing(1100.0)
    assert (finding.began_at, finding.confidence) == (600.0, Confidence.SUPPORTED)
    assert (finding.last_seen, finding.unknown_since) == (1100.0, None)


def test_after_a_pause_of_all_sampling_a_short_window_confirms_too():
    lives = lived(sure)
    lives.take(2000.0, [look(2000.0, claim(2000.0, start=1990.0))], VIEW, (), 1980.0)
    assert lives.standing(2000.0)[0].began_at == 600.0


def test_a_short_claim_after_work_that_was_seen_is_none_and_the_old_one_clears():
    def anew(at):
        return look(at, claim(at, start=1005.0))

    lives = lived(sure, nothing, *[anew] * 5)
    assert lives.standing(1060.0) == ()
    assert [f.cleared_at for f in lives.cleared(1060.0)] == [1000.0]


def test_long_evidence_that_begins_later_is_another_finding():
    lives = lived(seen, seen)
    after = claim(1400.0, start=1015.0, confidence=Confidence.SUPPORTED)
    lives.take(1400.0, [look(1400.0, after)], VIEW)
    (finding,) = lives.standing(1400.0)
    assert (finding.began_at, finding.first_seen) == (1015.0, 1400.0)


def test_a_claim_about_other_gpus_does_not_inherit_the_onset():
    def about(at, *gpus):
        return look(at, claim(at, start=0.0, confidence=Confidence.SUPPORTED, gpus=gpus))

    lives = lived(lambda at: about(at, "GPU-a", "GPU-b"))
    lives.take(1010.0, [about(1010.0, "GPU-b", "GPU-c")], VIEW)
    assert lives.standing(1010.0)[0].first_seen == 1000.0
    other = claim(1020.0, start=500.0, confidence=Confidence.SUPPORTED, gpus=("GPU-d",))
    lives.take(1020.0, [look(1020.0, other)], VIEW)
    assert lives.standing(1020.0)[0].began_at == 500.0


@pytest.mark.parametrize(
    ("seconds", "onset_s", "finding_class", "told"),
    [
        (299.0, None, "cpu_only", 0),
        (300.0, None, "cpu_only", 1),
        (20.0, 301.0, "cpu_only", 1),
        (20.0, None, "a_plugins_own", 0),
        (20.0, None, "gpu_fault", 1),
        (20.0, None, "telemetry_lost", 1),
        (20.0, None, "fabric_degraded", 1),
        (20.0, None, "throttled", 0),
        (170.0, None, "hang", 0),
        (190.0, None, "hang", 1),
    ],
)
def test_under_five_minutes_of_evidence_only_faults_are_told(seconds, onset_s, finding_class, told):
    onset = None if onset_s is None else 1000.0 - onset_s
    for confidence in Confidence:
        lives = Lives()
        made = claim(1000.0, "job:1", 1000.0 - seconds, confidence, "d", finding_class, onset=onset)
        lives.take(1000.0, [look(1000.0, made)], VIEW, (), float("-inf"), 700.0)
        assert len(lives.standing(1000.0)) == told


def test_a_hang_that_nobody_saw_begin_waits_for_five_minutes():
    lives = Lives()
    made = claim(1000.0, start=750.0, finding_class="hang")
    lives.take(1000.0, [look(1000.0, made)], VIEW, (), float("-inf"), 750.0)
    assert lives.standing(1000.0) == ()


def test_what_one_sample_proves_is_told_at_once():
    lives = Lives()
    lives.take(1000.0, [look(1000.0, claim(1000.0, start=1000.0), is_instant=True)], VIEW)
    assert len(lives.standing(1000.0)) == 1


def test_a_fault_whose_evidence_is_always_this_instant_keeps_its_first_one():
    def now(at):
        made = claim(at, start=at, finding_class="gpu_fault")
        return look(at, made, is_instant=True)

    lives = lived(now, now, now)
    assert lives.standing(1020.0)[0].first_seen == 1000.0
    assert lives.standing(1020.0)[0].began_at == 1000.0


def test_a_part_of_the_jobs_says_nothing_of_the_others():
    lives = Lives()
    lives.take(1000.0, [sure(1000.0)], VIEW)
    parts = [
        part
        for part in ((0.0, 0.5), (0.5, 1.0))
        if not DetectorResult("d", (), part, ()).had("job:1")
    ]
    for at in range(1010, 1200, 10):
        lives.take(float(at), [look(float(at), part=parts[0])], VIEW)
    (finding,) = lives.standing(1200.0)
    assert finding.unknown_since is None


def rarely(step_s, *looks):
    """Lives of a detector that has the subject before it once in so many seconds."""
    lives, elsewhere = Lives(), ((0.0, 0.5), (0.5, 1.0))
    (other,) = [part for part in elsewhere if not DetectorResult("d", (), part, ()).had("job:1")]
    at = 1000.0
    for made in looks:
        lives.take(at, [made(at)], VIEW)
        for between in range(10, int(step_s), 10):
            lives.take(at + between, [look(at + between, part=other)], VIEW)
        at += step_s
    return lives


def short(at):
    """A claim of a detector that looks back five minutes and no further."""
    return look(at, claim(at, start=at - 300.0, confidence=Confidence.SUPPORTED))


def test_what_is_looked_at_rarely_is_no_other_finding_because_windows_are_shorter_than_the_pause():
    lives = rarely(600.0, short, short, short)
    (finding,) = lives.standing(2200.0)
    assert finding.began_at == 700.0
    assert (finding.first_seen, finding.last_seen) == (1000.0, 2200.0)
    assert lives.cleared(2200.0) == ()


def test_what_was_seen_to_end_between_two_rare_looks_is_another_finding():
    """It looks back further than its pause, so it would have seen the old one go on."""

    def long(at):
        return look(at, claim(at, start=at - 900.0, confidence=Confidence.SUPPORTED))

    lives = rarely(600.0, long, short)
    assert [(f.began_at, f.first_seen) for f in lives.standing(1600.0)] == [(1300.0, 1600.0)]
    lives = rarely(600.0, short, nothing, short)
    assert [f.began_at for f in lives.standing(2200.0)] == [1900.0]


@pytest.mark.parametrize("step_s", [10.0, 30.0, 60.0])
def test_a_subject_that_is_looked_at_every_minute_or_oftener_is_in_sight(step_s):
    """Even where windows are as short: the old one ended, the new one began since."""

    def moment(at):
        return look(at, claim(at, start=at - 1.0, onset=at - 400.0, confidence=SUPPORTED))

    lives = rarely(step_s, moment, moment)
    assert [f.first_seen for f in lives.standing(1000.0 + step_s)] == [1000.0 + step_s]


def test_a_rare_look_counts_as_any_other():
    lives = rarely(600.0, sure, nothing, nothing)
    assert [f.unknown_since for f in lives.standing(2200.0)] == [None]
    lives = rarely(600.0, sure, nothing, nothing, nothing)
    assert lives.standing(2800.0) == ()
    assert [f.cleared_at for f in lives.cleared(2800.0)] == [1000.0]


def test_a_resting_detector_stands_by_what_it_said():
    lives = Lives()
    lives.take(1000.0, [sure(1000.0)], VIEW)
    lives.take(1010.0, [], VIEW, frozenset({"d"}))
    assert lives.standing(1010.0)[0].unknown_since is None


def test_cleared_findings_are_kept_for_an_hour():
    lives = lived(sure, *[nothing] * 4)
    lives.take(1000.0 + CLEARED_SHOWN_S, [nothing(1000.0 + CLEARED_SHOWN_S)], VIEW)
    assert len(lives.cleared(1000.0 + CLEARED_SHOWN_S)) == 1
    lives.take(1001.0 + CLEARED_SHOWN_S, [nothing(1001.0 + CLEARED_SHOWN_S)], VIEW)
    assert lives.cleared(1001.0 + CLEARED_SHOWN_S) == ()


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


def test_of_notes_without_number_the_newest_are_taken():
    rows = [["d", "c", f"job:{number}"] for number in range(MAX_NOTES + 5)]
    mutes = [["c", f"job:{number}", 9.0] for number in range(MAX_NOTES + 5)]
    known, muted = notes_from({"acknowledged": rows, "muted": mutes})
    assert (len(known), len(muted)) == (MAX_NOTES, MAX_NOTES)
    assert (known[-1], muted[-1].subject) == (("d", "c", rows[-1][2]), mutes[-1][1])
    long = "x" * (MAX_TEXT + 1)
    assert notes_from({"acknowledged": [["d", "c", long]]}) == ([], [])


def test_what_is_said_last_is_kept_where_there_is_no_room_for_all(monkeypatch):
    monkeypatch.setattr(finding_life, "MAX_NOTES", 2)
    lives = Lives()
    names = ("c", "a", "b")
    every = [claim(1000.0, f"job:{n}", confidence=SUPPORTED) for n in names]
    lives.take(1000.0, [look(1000.0, *every)], subjects_of(names, [], []))
    for finding in every:
        assert lives.acknowledge(finding.identity)
        lives.mute(2000.0, subject=finding.subject)
    said = lives.notes()
    assert [row[2] for row in said["acknowledged"]] == ["job:a", "job:b"]
    assert [row[1] for row in said["muted"]] == ["job:a", "job:b"]


def test_of_findings_that_cleared_the_newest_are_kept(monkeypatch):
    monkeypatch.setattr(finding_life, "MAX_CLEARED", 2)
    lives = Lives()
    every = [claim(1000.0, f"job:{n}", confidence=SUPPORTED) for n in (1, 2, 3)]
    view = subjects_of(["1", "2", "3"], [], [])
    left = list(every)
    for beat in range(30):
        at = 1000.0 + 10 * beat
        # One after the other goes away.
        left = every[beat // 8 :]
        lives.take(at, [look(at, *left)], view)
    assert [finding.subject for finding in lives.cleared(1300.0)] == ["job:2", "job:3"]
