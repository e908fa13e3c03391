"""Ended jobs by text and JSON: the real answers of one moment, and what other versions write."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.slurm.accounting.json import read_ended
from gpumon.sources.slurm.accounting.text import FIELDS, OLD_FIELDS, cpu_time_s, parse_ended

if TYPE_CHECKING:
    from gpumon.model.records.accounting import EndedJob

DATA = Path(__file__).parents[1] / "data"
TEXT = (DATA / "ended-22.05.txt").read_text(encoding="utf-8")
JSON = json.loads((DATA / "ended-v0.0.38.json").read_bytes())
MARK = "@5eed@"
CPU_TOLERANCE_S = 0.02


def by_id(jobs: tuple[EndedJob, ...]) -> dict[str, EndedJob]:
    return {ended.job.job_id: ended for ended in jobs}


@pytest.fixture
def ended_jobs() -> dict[str, EndedJob]:
    found = parse_ended(TEXT, MARK)
    assert found is not None
    assert found.unreadable == 0
    return by_id(found.jobs)


def row(fields: tuple[str, ...] = FIELDS, mark: str = MARK, **values: str) -> str:
    """One record as sacct prints it."""
    full = {
        "JobIDRaw": "9",
        "JobID": "9",
        "JobName": "train",
        "User": "alice",
        "State": "COMPLETED",
        "ExitCode": "0:0",
        "Start": "1795256605",
        "End": "1795260205",
        "Elapsed": "01:00:00",
        "NodeList": "gpu01",
        "AllocTRES": "billing=8,cpu=8,gres/gpu:h100=4,gres/gpu=4,mem=64G,node=1",
    }
    return "".join({**full, **values}.get(field, "") + mark for field in fields) + "\n"


def parsed(*rows: str, fields: tuple[str, ...] = FIELDS) -> tuple[list[EndedJob], int]:
    titles = "".join(field + MARK for field in fields) + "\n"
    found = parse_ended(titles + "".join(rows), MARK, fields)
    assert found is not None
    return list(found.jobs), found.unreadable


def only(*rows: str, fields: tuple[str, ...] = FIELDS) -> EndedJob:
    (ended,), unreadable = parsed(*rows, fields=fields)
    assert unreadable == 0
    return ended


def test_real_jobs_have_their_ends(ended_jobs):
    ends = {e.job.name: (e.job.state, e.exit_status, e.exit_signal) for e in ended_jobs.values()}
    assert ends["ok"] == ("COMPLETED", 0, 0)
    assert ends["fail"] == ("FAILED", 3, 0)
    assert ends["bobs"] == ("FAILED", 0, 9)
    assert ends["toolong"] == ("TIMEOUT", 0, 0)
    assert ends["cancelme"] == ("CANCELLED", 0, 0)
    cancelled = next(e for e in ended_jobs.values() if e.job.name == "cancelme")
    assert cancelled.cancelled_by == "7001"
    assert (cancelled.job.gpu_count, cancelled.elapsed_s, cancelled.gpu_seconds) == (4, 5.0, 20.0)


def test_a_job_cancelled_before_it_began_held_nothing(ended_jobs):
    held = next(e for e in ended_jobs.values() if e.job.name == "heldcancel")
    assert (held.job.start_at, held.job.nodes, held.job.gpu_count) == (None, (), 0)
    assert held.gpu_seconds == 0
    assert held.cpu_used_s is None
    assert held.max_rss_bytes is None


def test_a_line_break_and_a_bar_in_a_name_cost_nothing(ended_jobs):
    named = next(e for e in ended_jobs.values() if e.job.name.startswith("a|b"))
    assert named.job.user == "alice"
    assert "\n" not in named.job.name
    assert "\x1f" not in named.job.name


def test_labels_are_those_that_people_use(ended_jobs):
    labels = {e.job.label for e in ended_jobs.values()}
    assert {"5_0", "5_1", "10+0", "10+1"} <= labels


def test_waiting_tasks_of_an_array_go_by_their_numbers_where_slurmdbd_sends_a_bitmap():
    made = copy.deepcopy(JSON["jobs"][0])
    made["array"] = {"job_id": 77, "task_id": {"set": False, "number": 0}, "task": "0x1FE0%3"}
    (ended,) = read_ended([made]).jobs
    assert ended.job.label == "77_[5-12%3]"


def test_use_comes_from_the_steps_and_counts_gpus_once(ended_jobs):
    two = next(e for e in ended_jobs.values() if e.job.name == "two")
    assert {step.step for step in two.steps} == {"batch", "extern", "0"}
    assert two.job.gpu_count == 4
    assert two.job.nodes == ("gpu01", "gpu02")
    assert two.max_rss_bytes == max(step.max_rss_bytes or 0 for step in two.steps)
    assert two.cpu_used_s == pytest.approx(sum(step.cpu_used_s or 0 for step in two.steps))


def test_energy_and_utilisation_that_nobody_gathered_are_unknown(ended_jobs):
    for ended in ended_jobs.values():
        assert ended.energy_j is None
        assert ended.gpu_util_ratio is None
        assert ended.gpu_mem_bytes is None


def test_json_of_the_same_moment_says_the_same(ended_jobs):
    """22.05 tells neither the status of a failed job nor jobs that were cancelled while held."""
    found = read_ended(JSON["jobs"])
    assert found.unreadable == 0
    read = by_id(found.jobs)
    assert {ended_jobs[job_id].job.name for job_id in ended_jobs.keys() - read.keys()} == {
        "heldcancel"
    }
    for job_id, ended in read.items():
        text = ended_jobs[job_id]
        is_silent = text.job.name == "fail"
        assert ended.job.exit_code == ("" if is_silent else text.job.exit_code)
        assert ended.job._replace(exit_code="") == text.job._replace(exit_code="")
        assert ended.elapsed_s == text.elapsed_s
        assert ended.gpu_seconds == text.gpu_seconds
        assert ended.max_rss_bytes == text.max_rss_bytes
        assert ended.cpu_used_s == pytest.approx(text.cpu_used_s, abs=CPU_TOLERANCE_S)
        assert [s.step for s in ended.steps] == [s.step for s in text.steps]
        assert [s.max_rss_bytes for s in ended.steps] == [s.max_rss_bytes for s in text.steps]


def test_jobs_that_still_run_are_left_out():
    jobs, unreadable = parsed(row(State="RUNNING", End="Unknown"), row(State="PENDING"))
    assert (jobs, unreadable) == ([], 0)


def test_every_run_of_a_requeued_job_is_a_record_with_its_own_steps():
    runs = [
        ("REQUEUED", 1795256605, 700),
        ("PREEMPTED", 1795258000, 90),
        ("COMPLETED", 1795259000, 60),
    ]
    rows = []
    for place, (state, start, ran_s) in enumerate(runs):
        elapsed = f"00:{ran_s // 60:02}:{ran_s % 60:02}"
        when = {"Start": str(start), "End": str(start + ran_s), "Elapsed": elapsed}
        rows.append(row(State=state, **when))
        rows.append(row(JobIDRaw="9.batch", User="", State=state, MaxRSS=f"{place + 1}M", **when))
    jobs, unreadable = parsed(*rows)
    assert unreadable == 0
    assert [(e.job.state, e.job.start_at, e.gpu_seconds) for e in jobs] == [
        (state, float(start), 4.0 * ran_s) for state, start, ran_s in runs
    ]
    assert [e.max_rss_bytes for e in jobs] == [2**20, 2 * 2**20, 3 * 2**20]
    assert [len(e.steps) for e in jobs] == [1, 1, 1]
    assert len({e.run_key for e in jobs}) == 3


def test_a_job_that_changed_its_size_is_a_record_for_each_size():
    wide = row(State="RESIZING", Elapsed="00:02:00", AllocTRES="cpu=2,gres/gpu=6,node=2")
    narrow = row(Start="1795256725", Elapsed="00:05:00", AllocTRES="cpu=1,gres/gpu=3,node=1")
    jobs, _ = parsed(wide, narrow)
    assert [ended.gpu_seconds for ended in jobs] == [720.0, 900.0]


def test_steps_behind_an_unreadable_record_belong_to_no_other_run():
    cut = MARK.join(("9", "9", "cut")) + MARK + "\n"
    stray = row(JobIDRaw="9.batch", User="", MaxRSS="7G")
    jobs, unreadable = parsed(row(State="REQUEUED"), cut, stray)
    assert [ended.steps for ended in jobs] == [()]
    assert unreadable == 1


@pytest.mark.parametrize("flagged", ["REQUEUED", ["REQUEUED"], ["PENDING", "REQUEUED"]])
def test_json_tells_a_requeued_run_as_text_does(flagged):
    first = copy.deepcopy(next(one for one in JSON["jobs"] if one["name"] == "cancelme"))
    first["state"]["current"] = flagged
    (ended,) = read_ended([first]).jobs
    assert (ended.job.state, ended.gpu_seconds) == ("REQUEUED", 20.0)


def test_a_record_with_too_few_values_is_skipped_alone():
    cut = MARK.join(("7", "7", "cut")) + MARK + "\n"
    jobs, unreadable = parsed(row(JobIDRaw="8", JobID="8"), cut, row())
    assert [ended.job.job_id for ended in jobs] == ["8", "9"]
    assert unreadable == 1


def test_a_name_cannot_forge_a_record():
    forged = row(mark="|", JobIDRaw="1", User="root").rstrip("\n")
    ended = only(row(JobName=f"\n{forged}\n8"))
    assert (ended.job.job_id, ended.job.user) == ("9", "alice")


def test_an_answer_without_titles_is_none():
    assert parse_ended("Welcome to the cluster\n", MARK) is None


def test_a_greeting_before_the_titles_is_no_record():
    found = parse_ended("Welcome!\n" + TEXT, MARK)
    assert found is not None
    assert found == parse_ended(TEXT, MARK)


def test_old_fields_suffice():
    ended = only(row(fields=OLD_FIELDS), fields=OLD_FIELDS)
    assert (ended.job.gpu_count, ended.gpu_seconds, ended.job.work_dir) == (4, 14400.0, None)
    assert ended.job.mem_bytes == 64 * 2**30


def test_gathered_utilisation_is_a_mean_over_the_jobs_gpus():
    step = row(
        JobIDRaw="9.batch",
        User="",
        TRESUsageInTot="cpu=00:10:00,gres/gpumem=72532M,gres/gpuutil=300,mem=51.54M",
        MaxRSS="51.54M",
        TotalCPU="10:00.500",
    )
    ended = only(row(), step)
    assert ended.gpu_util_ratio == 0.75
    assert ended.gpu_mem_bytes == 72532 * 2**20
    assert ended.gpu_idle_seconds == 3600.0
    assert ended.max_rss_bytes == pytest.approx(51.54 * 2**20)
    assert ended.cpu_used_s == 600.5
    assert ended.cpu_used_ratio == pytest.approx(600.5 / (8 * 3600))


@pytest.mark.parametrize(
    ("tasks", "total", "used_gib"),
    [
        ("8", "cpu=00:10:00,mem=24G", 24.0),
        ("1", "", 6.0),
        # Nobody knows what eight tasks used together where the accounting does not add them up.
        ("8", "", None),
        ("8", "cpu=00:10:00,mem=0", None),
    ],
)
def test_memory_used_is_that_of_all_tasks_of_the_largest_step(tasks, total, used_gib):
    steps = (
        row(JobIDRaw="9.0", User="", TRESUsageInTot=total, MaxRSS="6G", NTasks=tasks),
        row(JobIDRaw="9.extern", User="", TRESUsageInTot="mem=1M", MaxRSS="1M", NTasks="1"),
    )
    ended = only(row(), *steps)
    used = None if used_gib is None else used_gib * 2**30
    assert (ended.mem_used_bytes, ended.steps[0].mem_used_bytes) == (used, used)
    assert ended.mem_used_ratio == (None if used_gib is None else pytest.approx(used_gib / 64))


@pytest.mark.parametrize(
    "usage",
    [
        "gres/gpumem=0,gres/gpuutil=0",
        "gres/gpuutil=18446744073709551614",
        "gres/gpuutil=4200",
        "gres/gpuutil=-2",
        "",
    ],
)
def test_utilisation_that_cannot_be_is_unknown(usage):
    ended = only(row(), row(JobIDRaw="9.0", TRESUsageInTot=usage))
    assert ended.gpu_util_ratio is None
    assert ended.gpu_idle_seconds is None


def test_a_gpu_that_holds_memory_and_does_nothing_is_idle():
    ended = only(row(), row(JobIDRaw="9.0", TRESUsageInTot="gres/gpumem=500M,gres/gpuutil=0"))
    assert ended.gpu_util_ratio == 0
    assert ended.gpu_idle_seconds == 14400


@pytest.mark.parametrize(
    ("energy", "expected"),
    [("0", None), ("-2", None), ("18446744073709551614", None), ("7200000", 7.2e6), ("", None)],
)
def test_only_sane_energy_counts(energy, expected):
    assert only(row(), row(JobIDRaw="9.batch", ConsumedEnergyRaw=energy)).energy_j == expected


def test_no_gpus_are_none_only_where_the_accounting_counts_gpus():
    plain_job = row(AllocTRES="billing=1,cpu=1,node=1")
    assert only(plain_job).job.gpu_count is None
    assert only(plain_job).gpu_seconds is None
    jobs, _ = parsed(plain_job, row(JobIDRaw="10", JobID="10"))
    assert [ended.job.gpu_count for ended in jobs] == [0, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-02:03:04", 93784.0),
        ("02:03:04", 7384.0),
        ("03:04.567", 184.567),
        ("00:00:00", 0.0),
        ("", None),
        ("INVALID", None),
        ("-1", None),
    ],
)
def test_cpu_time(text, expected):
    assert cpu_time_s(text) == (None if expected is None else pytest.approx(expected))


def newer(record: dict[str, Any]) -> dict[str, Any]:
    """A job of 22.05 in the form of v0.0.40 and later."""

    def boxed(value: object) -> object:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    made = copy.deepcopy(record)
    made["state"] = {"current": [made["state"]["current"]], "reason": "None"}
    code = made["exit_code"]
    made["exit_code"] = {
        "status": [code["status"]],
        "return_code": boxed(code["return_code"]),
        "signal": {"id": boxed((code.get("signal") or {}).get("signal_id")), "name": ""},
    }
    made["array"]["task_id"] = boxed(made["array"]["task_id"])
    made["het"]["job_offset"] = boxed(made["het"]["job_offset"])
    made["time"]["limit"] = boxed(made["time"]["limit"])
    for one in made["tres"]["allocated"]:
        if one["count"] is None:
            one["count"] = -2
    for step in made["steps"]:
        step["state"] = [step["state"]]
        step["step"]["id"] = f"{made['job_id']}.{step['step']['id']}"
        step["statistics"]["energy"]["consumed"] = boxed(None)
    return made


def test_the_form_of_newer_versions_says_the_same():
    old = read_ended(JSON["jobs"])
    assert read_ended([newer(record) for record in JSON["jobs"]]) == old


def test_newer_versions_tell_the_status_of_a_failed_job():
    record = newer(next(one for one in JSON["jobs"] if one["name"] == "fail"))
    record["exit_code"] = {
        "status": ["ERROR"],
        "return_code": {"set": True, "infinite": False, "number": 3},
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    }
    (ended,) = read_ended([record]).jobs
    assert (ended.exit_status, ended.exit_signal) == (3, 0)


def test_utilisation_by_json():
    record = copy.deepcopy(next(one for one in JSON["jobs"] if one["name"] == "cancelme"))
    record["steps"][0]["tres"]["requested"]["total"] += [
        {"type": "gres", "name": "gpuutil", "count": 100},
        {"type": "gres", "name": "gpumem", "count": 2**30},
    ]
    (ended,) = read_ended([record]).jobs
    assert (ended.gpu_util_ratio, ended.gpu_mem_bytes) == (0.25, 2**30)


KEYS = [
    *("job_id", "user", "state", "current", "time", "tres", "allocated", "steps", "step", "id"),
    *("exit_code", "signal", "nodes", "array", "count", "type", "name"),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(st.lists(ANYTHING, max_size=3))
def test_no_json_makes_it_raise(records):
    found = read_ended(records)
    assert len(found.jobs) + found.unreadable <= len(records)


@given(
    st.sampled_from([record["name"] for record in JSON["jobs"]]),
    st.sampled_from(sorted(JSON["jobs"][0])),
    ANYTHING,
)
def test_any_value_in_the_place_of_a_member_leaves_the_others(name, key, value):
    changed = [{**one, key: value} if one["name"] == name else one for one in JSON["jobs"]]
    found = read_ended(changed)
    spoilt = sum(one["name"] == name for one in JSON["jobs"])
    assert len(found.jobs) >= len(JSON["jobs"]) - spoilt


@given(st.text(max_size=200), st.text(max_size=20))
def test_no_text_makes_it_raise(text, mark):
    parse_ended(text, mark or "|")


@given(st.sampled_from(FIELDS), st.text(max_size=40))
def test_no_value_makes_it_raise(field, value):
    jobs, unreadable = parsed(row(), row(JobIDRaw="10", JobID="10") if field else "")
    assert (len(jobs), unreadable) == (2, 0)
    spoilt, bad = parsed(row(**{field: value.replace(MARK, "")}), row(JobIDRaw="10", JobID="10"))
    assert [ended.job.job_id for ended in spoilt][-1:] == ["10"]
    assert len(spoilt) + bad <= 2


@pytest.mark.parametrize("number", [2**33 + 2**40, 2**63 - 1])
def test_a_number_that_no_job_has_is_unreadable(number: int) -> None:
    record = {**copy.deepcopy(JSON["jobs"][0]), "job_id": number}
    assert read_ended([record]).unreadable == 1


@pytest.mark.parametrize("count", [3e-300, 0.5, 1e-9])
def test_a_part_of_a_byte_is_no_memory(count: float) -> None:
    record = copy.deepcopy(JSON["jobs"][0])
    record["tres"]["allocated"] = [{"type": "mem", "name": "", "count": count}]
    (ended,) = read_ended([record]).jobs
    assert ended.job.mem_bytes is None


@pytest.mark.parametrize("elapsed", [4e-320, 0.25])
def test_a_part_of_a_second_is_no_time_that_a_job_ran(elapsed: float) -> None:
    record = copy.deepcopy(JSON["jobs"][0])
    record["time"]["elapsed"] = elapsed
    (ended,) = read_ended([record]).jobs
    assert (ended.elapsed_s, ended.cpu_used_ratio) == (None, None)


def test_no_job_has_the_number_0() -> None:
    found, unreadable = parsed(row(JobIDRaw="0"), row(JobIDRaw="00"), row(JobIDRaw="7"))
    assert ([ended.job.job_id for ended in found], unreadable) == (["7"], 2)
