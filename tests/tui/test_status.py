"""The line at the bottom: what is wrong and how old it is, on the width that there is."""

from __future__ import annotations

import time

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.tick import TargetState
from gpumon.report.text.cells import text_width
from gpumon.tui.status import Mood, status_line
from tests.worlds.tick import AT, tick

LONG = (
    "squeue: slurm_load_jobs error: Unable to contact slurm controller (connect failure), "
    "tried slurmctld at login-node-01.cluster.example.org:6817 and the backup"
)


def said(width, *, queue_age_s, message=LONG, queue=True):
    failing = TargetState("slurm", False, SourceError("slurm", message), queue_age_s)
    at = AT - queue_age_s if queue else None
    shown = tick()._replace(targets=(failing,), queue_at=at)
    text = "".join(cell.text for cell in status_line(shown, Mood(), width))
    assert text_width(text) <= width
    return text


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(("age_s", "words"), [(300.0, "queue stale 5m"), (60.0, "queue 60s old")])
def test_a_long_message_of_a_target_leaves_the_age_of_the_queue_in_sight(width, age_s, words):
    text = said(width, queue_age_s=age_s)
    assert words in text
    assert "✗ slurm: squeue: slurm_load_jobs" in text
    assert text.index(words) < text.index("✗ slurm")


def test_without_a_queue_the_failing_target_comes_first():
    assert said(80, queue_age_s=60.0, queue=False).startswith(" ✗ slurm: squeue")


def test_a_target_that_has_not_answered_yet_does_not_fail():
    awaited = TargetState("local", False, None, None)
    broken = TargetState("ssh://n1", False, SourceError("n1", "no route"), None)
    for targets, words in (
        ((awaited,), " … local: no answer yet · live "),
        ((awaited, awaited), " … 2 targets: no answer yet · live "),
        ((awaited, broken), " ✗ ssh://n1: no route · 1 of 2 targets fail (e) · live "),
    ):
        line = status_line(tick()._replace(targets=targets, queue_at=None), Mood(), 120)
        assert "".join(cell.text for cell in line).startswith(words)


def test_a_short_message_leaves_room_for_the_rest():
    text = said(120, queue_age_s=60.0, message="timed out")
    assert "✗ slurm: timed out · 1 of 1 targets fail (e) · " in text


def line_of(width, shown, mood=None):
    text = "".join(cell.text for cell in status_line(shown, mood or Mood(), width))
    assert text_width(text) <= width
    return text


def test_while_all_is_well_the_line_says_the_time_and_the_period_only():
    shown = tick()._replace(queue_at=AT - 12.0, lateness_s=0.3)
    mood = Mood(own_cpu_ratio=0.31, own_rss_bytes=700 * 2**20)
    clock = time.strftime("%H:%M:%S", time.localtime(AT))
    assert line_of(200, shown, mood) == f" ✓ live {clock} · every 1s"
    assert line_of(22, shown, mood) == f" ✓ live {clock}"


@pytest.mark.parametrize(
    ("changes", "mood", "words"),
    [
        ({"queue_at": AT - 400.0}, Mood(), "! queue stale 6m · live "),
        ({"lateness_s": 9.0}, Mood(), "! 9.0 s late · live "),
        ({"errors": (SourceError("n7", "timed out"),)}, Mood(), "! 1 error (e) · live "),
        ({}, Mood(silent_s=41.0), "no new sample for 41s · live "),
        ({}, Mood(own_cpu_ratio=2.6), " · every 1s · ! gpumon itself uses 260 % of a core"),
        ({}, Mood(own_rss_bytes=5 * 2**30), " · ! gpumon itself uses – % of a core, 5120 MiB"),
    ],
)
def test_what_is_wrong_is_shown_before_the_time(changes, mood, words):
    line = line_of(200, tick()._replace(**changes), mood)
    assert words in line
    assert ("✓" in line) == words.startswith(" ·")


def test_a_late_picture_stays_said(said):
    shown = tick()._replace(zoom_period_s=0.5, queue_at=AT - 12.0, lateness_s=9.0)
    whole = line_of(200, shown)
    text = line_of(len(whole) - 3, shown)
    assert "! 9.0 s late" in text
    said(text)
    assert "this job every" not in text


def test_a_target_that_answers_with_errors_has_no_sign_of_health():
    well = TargetState("local", True, None, 0.0)
    shown = tick()._replace(targets=(well,), queue_at=None)
    assert line_of(120, shown).startswith(" ✓ live ")
    shown = shown._replace(errors=(SourceError("local", "GPU 0 hangs"),))
    assert line_of(120, shown).startswith(" ! 1 error (e) · live ")
