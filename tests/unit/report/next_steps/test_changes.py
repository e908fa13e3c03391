"""A change is done when an answer of the queue shows it, and not before."""

from __future__ import annotations

import pytest

from gpumon.model.job_name import job_name
from gpumon.model.records.cluster import JobView
from gpumon.report.next_steps.changes import ANSWERS, SILENT_S, awaited, progress_of, why_not_now
from gpumon.report.next_steps.commands import Change
from tests.worlds.tick import AT, job, tick


def queue(*records, answer=0, **changes):
    """A tick after so many further answers, of records as number, label, state."""
    jobs = tuple(
        JobView(job(number, label=label, state=state, **more), (), 0, (), ())
        for number, label, state, more in ((*r, {}) if len(r) == 3 else r for r in records)
    )
    return tick(jobs, **{"queue_at": AT + answer, "at": AT + answer, **changes})


RUNS = (("812", "812_4", "RUNNING"), ("813", "812_1", "RUNNING"), ("812", "812_[5-9]", "PENDING"))


def cancel(number, label):
    return Change("cancel", job_name(number, label))


def test_a_task_is_cancelled_once_it_has_left_or_is_ending():
    one = awaited(cancel("812", "812_4"), queue(*RUNS))
    assert progress_of(one, queue(*RUNS)) == (one, "")
    _, outcome = progress_of(one, queue(*RUNS[1:], answer=5))
    assert outcome == "done: 812_4 has left the queue"
    ending = queue(("812", "812_4", "COMPLETING"), *RUNS[1:], answer=5)
    assert progress_of(one, ending) == (None, "done: the queue shows 812_4 COMPLETING")


def test_what_does_not_show_in_a_few_answers_is_told_to_be_missing():
    one = awaited(cancel("813", "812_1"), queue(*RUNS))
    outcome = ""
    for answer in range(1, ANSWERS + 1):
        assert one is not None
        assert not outcome
        one, outcome = progress_of(one, queue(*RUNS, answer=answer))
    assert one is None
    assert outcome == "sent, but after 3 answers of the queue 812_1 is still RUNNING"


def test_a_queue_that_does_not_answer_is_no_proof_that_a_job_has_left():
    one = awaited(cancel("813", "812_1"), queue(*RUNS))
    silent = queue(queue_at=None, at=AT + 10)
    assert progress_of(one, silent) == (one, "")
    over, outcome = progress_of(one, silent._replace(at=AT + SILENT_S + 1))
    assert over is None
    assert "not answered" in outcome


def test_tasks_that_waited_are_gone_once_none_of_them_is_listed():
    one = awaited(cancel("812", "812_[5-9]"), queue(*RUNS))
    assert progress_of(one, queue(*RUNS[:2], answer=5))[1].startswith("done")
    started = queue(*RUNS[:2], ("815", "812_5", "RUNNING"), answer=5)
    still, outcome = progress_of(one, started)
    assert still is not None
    assert not outcome
    # Slurm lists those that were cancelled while they waited by their array's number.
    ended = queue(*RUNS[:2], ("812", "812", "CANCELLED"), answer=5)
    assert progress_of(one, ended)[1].startswith("done")


@pytest.mark.parametrize(
    ("state", "more", "is_done"),
    [
        ("PENDING", {}, True),
        ("REQUEUED", {}, True),
        ("COMPLETING", {}, False),
        ("RUNNING", {"restart_count": 1}, False),
        ("RUNNING", {"restart_count": 2}, True),
    ],
)
def test_a_requeue_is_done_once_it_waits_or_has_begun_anew(state, more, is_done):
    before = ("812", "812_4", "RUNNING", {"restart_count": 1})
    one = awaited(Change("requeue", job_name("812", "812_4")), queue(before))
    _, outcome = progress_of(one, queue(("812", "812_4", state, more), answer=5))
    assert outcome == (f"done: the queue shows 812_4 {state}" if is_done else "")


def test_a_requeued_job_that_has_left_is_not_told_as_done():
    one = awaited(Change("requeue", job_name("812", "812_4")), queue(*RUNS))
    for answer in range(1, ANSWERS):
        one, _ = progress_of(one, queue(answer=answer))
    assert "has left it instead" in progress_of(one, queue(answer=ANSWERS))[1]


def test_what_its_page_says_must_still_be_so_when_a_change_is_made():
    assert not why_not_now(cancel("812", "812_4"), queue(*RUNS))
    assert not why_not_now(cancel("812", "812_4"), None)
    assert "no longer lists 812_3" in why_not_now(cancel("812", "812_3"), queue(*RUNS))
    assert not why_not_now(cancel("812", "812_[5-9]"), queue(*RUNS))
    started = queue(("812", "812_[6-9]", "PENDING"), ("815", "812_5", "RUNNING"))
    assert "812_[6-9], 812_5" in why_not_now(cancel("812", "812_[5-9]"), started)
