"""Jobs that have ended, as text and in the document."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from gpumon.model.records.accounting import EndedJob, EndedJobs, RunningUse, StepUsage
from gpumon.model.records.ledger import Account, LedgerTotals
from gpumon.report.document.document import document
from gpumon.report.facts.columns import arranged
from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.once import table
from gpumon.report.pages.ended import ended_lines
from gpumon.report.tables.ended import ENDED_COLUMNS, ended_order, ended_search_text
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone
from gpumon.report.wording.ended import ended_title
from tests.worlds.tick import AT, fleet, job

STEP = StepUsage("9", "batch", "batch", "FAILED", "3:0", 7200.0, 1, 60.0, 2**30, 0.5, None, None)


def ended(job_id: str = "9", **changes):
    fields = {
        "job": job(
            job_id,
            state="FAILED",
            exit_code="3:0",
            gpu_count=2,
            cpu_count=4,
            end_at=AT - 600.0,
            name="train",
        ),
        "elapsed_s": 7200.0,
        "gpu_seconds": 14400.0,
        "cancelled_by": "",
        "cpu_used_s": 60.0,
        "max_rss_bytes": 2.0**30,
        "gpu_util_ratio": 0.25,
        "gpu_mem_bytes": None,
        "energy_j": None,
        "steps": (STEP,),
    }
    return EndedJob(**{**fields, **changes})


def ledger_of(*accounts):
    """A ledger of job 9 with these accounts, from its start to its end."""
    return LedgerTotals(AT, AT - 9000.0, closed=tuple(accounts), accounts=(), sums=())


def account(seconds, began_at=AT - 7800.0):
    return Account("9", "ada", "ml", "h100", "NVIDIA H100", began_at, AT - 7800.0, seconds)


def verdict(one, *accounts):
    tick = asked(one)._replace(ledger=ledger_of(*accounts))
    digest = Digest(tick)
    cells = {column.key: column.cell(digest, one) for column in ENDED_COLUMNS}
    page = "\n".join(
        "".join(cell.text for cell in line)
        for entry in ended_lines(digest, one, 100)
        for line in entry
    )
    return cells["verdict"], cells["wasted_gpu_s"].text, page


def run_of(start_at=AT - 7800.0, end_at=AT - 600.0, **changes):
    one = ended(**changes)
    return one._replace(job=one.job._replace(start_at=start_at, end_at=end_at))


@pytest.mark.parametrize(
    ("seconds", "words", "tone", "lost"),
    [
        (
            {"useful": 3600.0, "hang": 9000.0, "idle_held": 1800.0},
            "! hang 2.50h (62 %)",
            Tone.WARN,
            "3.00h",
        ),
        (
            {"useful": 7200.0, "~small_batch": 5400.0, "unexplained": 1800.0},
            "! small batch? ~1.50h (38 %)",
            Tone.WARN,
            "~1.50h",
        ),
        (
            {"useful": 6480.0, "unexplained": 720.0, "unobserved": 7200.0},
            "· useful 90 %, 50 % unseen",
            Tone.DIM,
            "0.00h",
        ),
        (
            {"useful": 14_330.0, "hang": 70.0},
            "· useful 100 %",
            Tone.DIM,
            "0.02h",
        ),
    ],
)
def test_a_job_that_was_watched_has_the_verdict_of_the_books(seconds, words, tone, lost):
    cell, wasted, page = verdict(run_of(), account(seconds))
    assert (cell.text, cell.tone, wasted) == (words, tone, lost)
    assert words in page
    assert f"useful {units.gpu_hours(seconds['useful'])} GPU-h" in page


def test_without_books_the_accounting_tells_and_without_both_nobody_watched():
    cell, wasted, _ = verdict(run_of(gpu_util_ratio=0.03))
    assert (cell.text, cell.tone, wasted) == ("! no kernel 3.88h (97 %)", Tone.WARN, "–")
    assert verdict(run_of(gpu_util_ratio=0.61))[0] == Cell("· kernels ran (61 %)", Tone.DIM)
    cell, _, page = verdict(run_of(gpu_util_ratio=None))
    assert cell.text == "– not watched"
    assert "– not watched: gpumon stored no ledger while it ran" in page
    none = run_of(gpu_util_ratio=None)
    none = none._replace(job=none.job._replace(gpu_count=0))
    assert verdict(none)[0].text == "– no GPUs"


def test_of_a_requeued_job_each_run_has_its_own_verdict():
    early = account({"useful": 60.0, "hang": 540.0}, AT - 20_000.0)
    late = account({"useful": 600.0}, AT - 7800.0)
    first = run_of(AT - 20_000.0, AT - 19_400.0)
    assert verdict(first, early, late)[0].text == "! hang 0.15h (90 %)"
    assert verdict(run_of(), early, late)[0].text == "· useful 100 %"


def test_books_that_saw_nothing_of_a_run_are_none():
    unseen = account({"unobserved": 7200.0})
    assert verdict(run_of(gpu_util_ratio=None), unseen)[0].text == "– not watched"


def asked(*jobs, unreadable=0):
    return fleet(ended=EndedJobs(jobs, AT - 86400.0, AT, unreadable))


def cells(one):
    digest = Digest(asked(one))
    return {column.key: column.cell(digest, one).text for column in ENDED_COLUMNS}


def test_the_table_tells_state_exit_gpu_hours_and_waste():
    text = table(asked(ended()), 160)
    (line,) = [line for line in text.split("\n") if line.startswith("9 ")]
    assert "1 job ended in the last 24 h, 4.00 GPU-h within" in text
    assert line.split()[1:] == ["ada", "F", "10m", "4.00", "–", "·", "kernels", "ran", "(25", "%)",
                                "train"]  # fmt: skip


def test_what_is_not_known_is_a_dash_and_never_0():
    unknown = ended(
        job=job("9", state="CANCELLED", gpu_count=None, exit_code="", end_at=None),
        **dict.fromkeys(("elapsed_s", "gpu_seconds", "cpu_used_s", "max_rss_bytes")),
        gpu_util_ratio=None,
        steps=(),
    )
    found = cells(unknown)
    for key in ("exit", "ended", "elapsed", "gpus", "gpu_hours", "gpu_util_ratio"):
        assert found[key] == "–", key
    for key in ("gpu_idle_hours", "cpu_used_ratio", "max_rss_bytes"):
        assert found[key] == "–", key


def test_a_signal_is_named():
    killed = ended()
    killed = killed._replace(job=killed.job._replace(exit_code="0:9"))
    assert cells(killed)["exit"] == "SIG9"
    killed = killed._replace(job=killed.job._replace(exit_code="0:125"))
    assert cells(killed)["exit"] == "OOM"


@pytest.mark.parametrize("seconds", [0.0, 36.0, 35_900.0, 44_640.0, 360_000.0, 5e6])
def test_hours_are_rounded_as_everywhere(seconds):
    found = cells(ended(gpu_seconds=seconds))
    assert found["gpu_hours"] == units.gpu_hours(seconds)


def test_the_last_to_end_comes_first():
    late = ended("8")
    late = late._replace(job=late.job._replace(end_at=AT))
    digest = Digest(asked(ended(), late))
    order = arranged([ended(), late], lambda one: ended_order(digest, one))
    assert [one.job.job_id for one in order] == ["8", "9"]


def test_every_column_sorts_without_tripping_over_what_is_missing():
    bare = ended(elapsed_s=None, gpu_seconds=None, gpu_util_ratio=None, cpu_used_s=None)
    digest = Digest(asked(ended(), bare))
    for column in ENDED_COLUMNS:
        order = column.order
        assert order is not None
        assert len(arranged([bare, ended()], lambda one, by=order: by(digest, one))) == 2


def test_the_filter_finds_name_and_user():
    words = ended_search_text(Digest(asked(ended())), ended())
    assert "train" in words
    assert ended().job.user in words


def test_no_escape_of_a_name_reaches_the_terminal():
    hostile = ended()
    hostile = hostile._replace(job=hostile.job._replace(name="\x1b[31mred"))
    assert "\x1b" not in table(asked(hostile), 160)


def test_nothing_is_said_where_nobody_asked():
    written = document(fleet())
    assert (written["ended_jobs"], written["ended_window"]) == (None, None)
    assert " ended " not in table(fleet())


def test_no_job_ended_is_an_answer():
    assert "0 jobs ended in the last 24 h" in table(asked())
    assert document(asked())["ended_jobs"] == []


@pytest.mark.parametrize(
    ("since", "words"),
    [
        (AT - 1800.0, "in the last 30 min"),
        (AT - 5400.0, "in the last 90 min"),
        (AT - 90000.0, "in the last 25 h"),
        (AT - 31 * 86400.0, "in the last 31 days"),
        (0.0, "as far back as the accounting goes"),
    ],
)
def test_the_window_is_told_as_people_tell_it(since, words):
    found = EndedJobs((), since, AT, 0)
    assert ended_title(found) == f"0 jobs ended {words}"


def test_of_a_run_that_began_before_the_window_only_its_part_counts():
    """8 GPUs for 30 h, of which 5 h in the window; 3 GPUs for 2 h, all in it."""
    early = ended(elapsed_s=108000.0, gpu_seconds=8 * 108000.0)
    began = {"gpu_count": 8, "start_at": AT - 86400.0 - 90000.0, "end_at": AT - 68400.0}
    early = early._replace(job=early.job._replace(**began))
    late = ended("8", gpu_seconds=3 * 7200.0)
    late = late._replace(job=late.job._replace(gpu_count=3, start_at=AT - 7800.0))
    asked_tick = asked(early, late)
    inside = 8 * 5 * 3600 + 3 * 7200
    assert "2 jobs ended in the last 24 h, 46.0 GPU-h within" in table(asked_tick, 160)
    window = document(asked_tick)["ended_window"]
    assert (window["gpu_seconds"], window["runs_without_gpu_seconds"]) == (inside, 0)


def test_what_was_suspended_is_not_counted_twice():
    """Held back for an hour of its two and a half: never more than it ran."""
    paused = ended(elapsed_s=5400.0, gpu_seconds=2 * 5400.0)
    began = {"gpu_count": 2, "start_at": AT - 86400.0 - 1800.0, "end_at": AT - 86400.0 + 7200.0}
    paused = paused._replace(job=paused.job._replace(**began))
    assert document(asked(paused))["ended_window"]["gpu_seconds"] == 2 * 5400


def test_runs_of_one_job_are_told_apart():
    first = ended(gpu_seconds=1200.0)
    first = first._replace(job=first.job._replace(state="REQUEUED", start_at=AT - 9000.0))
    last = ended(gpu_seconds=None)
    asked_tick = asked(last, first)
    assert "2 runs of 1 job ended in the last 24 h" in table(asked_tick, 160)
    assert cells(first)["state"] == "RQ"
    assert first.run_key != last.run_key
    window = document(asked_tick)["ended_window"]
    assert (window["gpu_seconds"], window["runs_without_gpu_seconds"]) == (1200, 1)


def test_no_known_gpu_time_is_unknown_and_not_0():
    assert document(asked(ended(gpu_seconds=None)))["ended_window"]["gpu_seconds"] is None
    assert document(asked())["ended_window"]["gpu_seconds"] == 0


def test_running_steps_stand_at_their_job_and_nowhere_else():
    use = RunningUse({"4711": (STEP,)}, AT)
    written = document(fleet(running_use=use))
    schema = json.loads(files("gpumon.report").joinpath("document-2.schema.json").read_text())
    jsonschema.validate(written, schema)
    steps = {job["job_id"]: job["running_steps"] for job in written["jobs"]}
    assert steps.pop("4711")[0]["cpu_used_s"] == 60
    assert set(steps.values()) == {None}


def test_the_document_tells_all_and_keeps_to_its_schema():
    written = document(asked(ended(), unreadable=1))
    schema = json.loads(files("gpumon.report").joinpath("document-2.schema.json").read_text())
    jsonschema.validate(written, schema)
    (found,) = written["ended_jobs"]
    assert written["ended_window"]["unreadable"] == 1
    assert (found["exit_status"], found["exit_signal"]) == (3, 0)
    assert (found["gpu_seconds"], found["gpu_idle_seconds"]) == (14400, 10800)
    assert found["energy_j"] is None
    assert found["steps"][0]["max_rss_bytes"] == 2**30
    declared = schema["$defs"]
    assert found.keys() == declared["ended_job"]["properties"].keys()
    assert found["steps"][0].keys() == declared["ended_step"]["properties"].keys()


def test_a_list_without_earlier_runs_says_so():
    found = EndedJobs((), AT - 3600.0, AT, 0, has_last_runs_only=True)
    assert ", of each its last run alone" in ended_title(found)
    assert "last run" not in ended_title(found._replace(has_last_runs_only=False))
