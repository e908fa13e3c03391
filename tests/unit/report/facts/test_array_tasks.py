"""Tasks of an array that wait under one number count one by one, wherever waiting is counted."""

from __future__ import annotations

import pytest

from gpumon.report.facts.array_tasks import asked_gpus, task_count
from gpumon.report.facts.groups import groups
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.job import JOB_COLUMNS
from gpumon.report.tables.pending import PENDING_COLUMNS, pending_summary
from gpumon.report.wording.paragraphs import job_facts
from gpumon.report.wording.pending import place_of
from tests.worlds.queue import cluster, waits
from tests.worlds.tick import AT


@pytest.mark.parametrize(
    ("label", "tasks"),
    [
        ("4", 1),
        ("4_5", 1),
        ("7+1", 1),
        ("4_[5]", 1),
        ("4_[4-5%2]", 2),
        ("15_[2-7%2]", 6),
        ("4_[0-10:3]", 4),
        ("4_[1,3,9-12%3]", 6),
        ("4_[0,2,4,...]", 3),
        ("4_[0-4,...%9]", 5),
        ("4_[]", 1),
        ("4_[x-y]", 1),
        ("4_[9-2]", 1),
    ],
)
def test_tasks_that_wait_together_are_counted_from_the_label(label, tasks):
    assert task_count(waits("4", label=label)) == tasks


def test_an_array_that_runs_or_ended_is_one_record():
    assert task_count(waits("4", label="4_[4-5]", state="CANCELLED")) == 1


def test_gpus_are_those_of_all_tasks_and_unknown_ones_stay_unknown():
    assert asked_gpus(waits("4", label="4_[4-5%2]", gpu_count=3)) == 6
    assert asked_gpus(waits("4", label="4_[4-5%2]", gpu_count=None)) is None


def queue():
    return cluster(
        waits("1", submit_at=AT - 30),
        waits("4", label="4_[4-7%2]", gpu_count=1, submit_at=AT - 20),
        waits("9", submit_at=AT - 10),
    )


def test_summary_column_head_groups_and_places_follow_one_rule():
    digest = Digest(queue())
    line = "".join(cell.text for cell in pending_summary(digest, 200)[0])
    assert line.startswith("6 jobs wait for 20 GPUs · ")
    assert line.endswith(": 6")
    for columns in (PENDING_COLUMNS, JOB_COLUMNS):
        shown = next(column for column in columns if column.key == "gpus")
        assert shown.cell(digest, digest.tick.job("4")).text == "4"
    facts = job_facts(digest, digest.tick.job("4"), 200)
    assert "GPUs 4, 1 for each of 4 tasks" in "".join(cell.text for line in facts for cell in line)
    for kind, name in (("user", "ada"), ("partition", "h100")):
        group = next(g for g in groups(digest, kind) if g.name == name)
        assert (group.jobs_pending, group.gpus_pending) == (6, 20)
    places = [place_of(digest, digest.tick.job(job_id)) for job_id in ("1", "4", "9")]
    assert [(p.position, p.of, p.jobs_before, p.gpus_before) for p in places] == [
        (1, 6, 0, 0),
        (2, 6, 1, 8),
        (6, 6, 5, 12),
    ]


def test_one_job_for_one_gpu_is_told_so():
    (line,) = pending_summary(Digest(cluster(waits("1", gpu_count=1))), 200)
    assert "".join(cell.text for cell in line).startswith("1 job waits for 1 GPU · ")
