"""The plain table for scripts, logs and terminals without a terminal."""

from __future__ import annotations

import itertools

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.finding import Confidence, Severity
from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Process
from gpumon.report.lists.filter_tables import understood
from gpumon.report.lists.once import table
from tests.worlds.node import without_gpus
from tests.worlds.tick import BUSY, failed, finding, fleet, gpu, job_with_gpus, tick


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_asked_and_none_ends_in_blanks(width):
    for line in table(fleet(), width).split("\n"):
        assert len(line) <= width
        assert line == line.rstrip()


def test_jobs_findings_and_time_in_that_order():
    text = table(fleet())
    lines = text.split("\n")
    assert lines[0] == "28 GPUs on 4 nodes"
    assert lines[2].split()[:2] == ["LOST/H", "JOBID"]
    assert lines[3].split()[1] == "4711"
    assert text.index("4730") < text.index("job:4711") < text.index("✓ slurm")
    assert "  → Ask for 5 GPUs: sbatch --gpus=5" in lines
    assert text.endswith("observed for 10m\n")


def test_gpus_where_there_are_no_jobs():
    text = table(tick((), [gpu("here", 0), gpu("here", 1)], queue_at=None))
    assert text.startswith("2 GPUs on 1 node\n\nNODE")
    assert text.count("61/80") == 2


def test_where_nothing_matches_it_says_of_how_many():
    jobs = len(fleet().jobs)
    assert f"\nnone of {jobs} jobs matches\n" in table(fleet(), wanted=lambda _: False)
    gpus = tick((), [gpu("here", 0), gpu("here", 1)], queue_at=None)
    assert "\nnone of 2 GPUs matches\n" in table(gpus, user="nobody")
    assert "matches" not in table(fleet())
    assert "matches" not in table(gpus)


def test_errors_with_the_way_out():
    text = table(failed())
    assert "no jobs and no GPUs" in text
    assert "✗ slurm: squeue: command not found" in text
    assert "→ load the slurm module" in text


def test_nothing_from_outside_reaches_the_terminal_raw():
    view, gpus = job_with_gpus("1", {"n": 1}, name="\x1b[31mred\x07\nrow", user="\x9bmallory")
    text = table(tick((view,), gpus, errors=(SourceError("\x1b]0;x", "\x08", "\u202e"),)), 200)
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text.replace("\n", ""))
    assert "\u202e" not in text
    assert text.split("\n")[3].split()[1] == "1"


def test_the_finding_that_loses_most_is_told_first():
    """A guess at 8 GPUs weighs 3.2, what is sure of 2.5 weighs 2.5, and info that costs nothing."""
    window_s = finding("job:1").window.end - finding("job:1").window.start
    claims = (
        finding("job:4690", severity=Severity.CRITICAL, gpu_seconds=None),
        finding("job:4702", confidence=Confidence.ESTABLISHED, gpu_seconds=2.5 * window_s),
        finding("job:4711", confidence=Confidence.HYPOTHESIS, gpu_seconds=8 * window_s),
    )
    lines = table(fleet()._replace(findings=claims)).split("\n")
    subjects = [line for line in lines if line.startswith("job:")]
    assert subjects == ["job:4711", "job:4702", "job:4690"]


def held(node, number, user):
    one = gpu(node, 0, BUSY)
    process = Process(
        node=node, pid=4000 + number, name="train", uid=1000, job_id=None, step=None, rank_vars={},
        why=None, gpu_uuids=(one.uuid,), mem_used_bytes={one.uuid: number * 2.0**30}, user=user,
        types={one.uuid: "C"},
    )  # fmt: skip
    return one._replace(processes=(process,))


@pytest.mark.parametrize(
    ("width", "wanted"),
    [(60, {"MEM"}), (80, {"MEM", "USER"}), (200, {"MEM", "USER"})],
)
def test_where_no_job_can_be_its_column_leaves_its_room_to_users_and_memory(width, wanted):
    titles = table(tick((), [held("desk", 3, "ada")], queue_at=None), width).splitlines()[2].split()
    assert "JOB" not in titles
    assert wanted <= set(titles)


def test_where_a_queue_is_asked_the_column_of_jobs_stays_without_any():
    titles = table(tick((), [held("desk", 3, "ada")], queue_at=5.0), 120).splitlines()
    assert any("JOB" in line.split() for line in titles)


def test_processes_stand_below_the_gpus_where_no_queue_is_asked():
    shown = table(tick((), [held("desk", 3, "ada")], queue_at=None))
    lines = shown.splitlines()
    place = next(n for n, line in enumerate(lines) if "PROGRAM" in line)
    assert lines[place].split()[0] == "GPU"
    assert lines[place + 1].split()[:5] == ["0", "4003", "train", "C", "ada"]
    of_two = tick((), [held("a", 3, "ada"), held("b", 5, "bob")], queue_at=None)
    lines = table(of_two).splitlines()
    place = next(n for n, line in enumerate(lines) if "PROGRAM" in line)
    assert lines[place].split()[0] == "NODE"
    assert [line.split()[0] for line in lines[place + 1 : place + 3]] == ["b", "a"]


def test_of_processes_that_cannot_be_read_it_says_why():
    one = held("n1", 0, "ada")
    (process,) = one.processes
    dark = process._replace(name=None, uid=None, user=None, why=Reason.NO_PERMISSION)
    lines = table(tick((), [one._replace(processes=(dark,))], queue_at=None), 100).splitlines()
    head, gpu_line = next(pair for pair in itertools.pairwise(lines) if "USER" in pair[0])
    assert gpu_line[head.index("USER")] == "–", "somebody is on it, and nobody knows who"
    why = "1 of 1 by their PID alone: /proc shows this user no more of them."
    assert why in [line.strip() for line in lines]


def test_of_one_user_only_that_users_processes_are_listed():
    of_two = tick((), [held("a", 3, "ada"), held("b", 5, "bob")], queue_at=None)
    shown = table(of_two, user="ada")
    assert "4003" in shown
    assert "4005" not in shown


def test_where_a_queue_is_asked_processes_have_their_jobs_page():
    assert "PROGRAM" not in table(tick((), [held("desk", 3, "ada")]))


def test_a_machine_whose_gpus_cannot_be_read_shows_its_host():
    lines = table(without_gpus("desk")).split("\n")
    (line,) = [line for line in lines if line.startswith("host desk")]
    assert "CPU 37 % of 64 CPUs" in line


def test_a_machine_of_which_nothing_is_known_has_no_line():
    made = without_gpus("desk")
    nodes = {"desk": made.nodes["desk"]._replace(blocks={}, taken_at=None)}
    assert "host desk" not in table(made._replace(nodes=nodes))


def test_a_filter_that_only_processes_have_columns_for_shows_their_table_alone():
    two = tick((), [held("a", 3, "ada"), held("b", 5, "bob")], queue_at=None)
    shown = table(two, passes=understood("pid==4005 | command==tram"), width=120).splitlines()
    place = next(n for n, line in enumerate(shown) if "PROGRAM" in line)
    assert shown[place].split()[:2] == ["NODE", "GPU"]
    assert shown[place + 1].split()[:3] == ["b", "0", "4005"]
    assert not any("4003" in line or "UTIL" in line for line in shown)
    none = table(two, passes=understood("pid==1"), width=120)
    assert "\nnone of 2 processes matches\n" in none
    only = table(two, passes=understood("pid>1"), width=120, user="ada")
    assert "4003" in only
    assert "4005" not in only


def test_a_filter_of_jobs_and_processes_is_about_processes_where_no_queue_answers():
    # A job has an age, too, and no GPU has one.
    alone = tick((), [held("a", 3, "ada")], queue_at=None)
    shown = table(alone, passes=understood("age? & type==C"), width=120)
    assert "PROGRAM" in shown
    assert "4003" in shown
    jobs = fleet()
    assert "PROGRAM" not in table(jobs, passes=understood("age>1s"), width=120)


def test_such_a_filter_shows_findings_of_the_gpus_of_what_it_leaves():
    gpus = [held("a", 3, "ada"), held("b", 5, "bob")]
    claims = tuple(finding(f"gpu:{one.uuid}") for one in gpus)
    shown = table(tick((), gpus, queue_at=None, findings=claims), passes=understood("pid==4005"))
    assert f"gpu:{gpus[1].uuid}" in shown
    assert f"gpu:{gpus[0].uuid}" not in shown
    jobs = fleet()
    assert "LOST/H" not in table(jobs, passes=understood("pid==4711"))
