from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.slurm.text.job_output import output_path
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.site import parse_partitions, parse_reservations

DATA = Path(__file__).parents[1] / "data"
PARTITIONS = (DATA / "partitions-22.05-beside-json.txt").read_text(encoding="utf-8")
RESERVATIONS = (DATA / "reservations-22.05-beside-json.txt").read_text(encoding="utf-8")


def test_reads_a_real_partition() -> None:
    found = parse_partitions(PARTITIONS)
    assert (len(found.partitions), found.unreadable, found.announced) == (3, 0, 3)
    gpu, debug, long = found.partitions
    assert (gpu.name, gpu.state, gpu.is_default, gpu.gpu_count) == ("gpu", "UP", True, 24)
    assert gpu.nodes == ("gpu01", "gpu02", "gpu03")
    assert (gpu.time_limit_s, debug.time_limit_s, long.time_limit_s) == (172800.0, 1800.0, None)
    assert (gpu.priority, debug.priority, debug.is_default) == (1, 10, False)
    assert (gpu.accounts, gpu.qos) == ((), "")


def test_accounts_and_qos_of_a_partition() -> None:
    text = PARTITIONS.replace("AllowAccounts=ALL", "AllowAccounts=ml,bio").replace(
        "QoS=N/A", "QoS=p"
    )
    (gpu, *_) = parse_partitions(text).partitions
    assert (gpu.accounts, gpu.qos) == (("ml", "bio"), "p")


def test_reads_a_real_reservation() -> None:
    found = parse_reservations(RESERVATIONS)
    assert (len(found.reservations), found.unreadable, found.announced) == (2, 0, 2)
    service, course = found.reservations
    assert service.is_maintenance
    assert service.flags == ("MAINT", "IGNORE_JOBS", "SPEC_NODES")
    assert (service.state, course.state) == ("INACTIVE", "ACTIVE")
    assert (course.users, course.partition, course.nodes) == (("bob",), "gpu", ("gpu03",))
    # Without GPUs in its TRES nobody has said that there are none.
    assert course.gpu_count is None


@pytest.mark.parametrize("text", ["No reservations in the system\n", "", "what?"])
def test_no_record_is_none(text: str) -> None:
    assert parse_reservations(text).reservations == ()
    assert parse_partitions(text).partitions == ()


@given(st.integers(0, 3000), st.text(max_size=20))
def test_damage_anywhere_never_raises(place: int, text: str) -> None:
    for whole, parse in ((PARTITIONS, parse_partitions), (RESERVATIONS, parse_reservations)):
        cut = place % len(whole)
        parse(whole[:cut] + text + whole[cut + len(text) :])


JOB = "JobId=7{} JobName=x\n   UserId=a(1) GroupId=a(1)\n   JobState=RUNNING Reason=None\n{}"


@pytest.mark.parametrize(
    ("head", "line"),
    [(" SLUID=s8FXKTA79XAR00", ""), ("", "   SLUID=s8FXKTA79XAR00\n")],
)
def test_a_sluid_is_read_wherever_it_stands(head: str, line: str) -> None:
    (job,) = parse_jobs(JOB.format(head, line)).jobs
    assert job.sluid == "s8FXKTA79XAR00"


def test_what_is_no_sluid_is_none() -> None:
    for text in ("s8FXKTA79XAR", "s8FXKTA79XAR0U", "../8FXKTA79XAR00"):
        (job,) = parse_jobs(JOB.format(f" SLUID={text}", "")).jobs
        assert job.sluid == ""


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("", "/w/slurm-7.out"),
        ("out.txt", "/w/out.txt"),
        ("/o/%j-%6A-%x-%u.txt", "/o/7-000005-job-ada.txt"),
        ("%%j", "/w/%j"),
        ("%N.out", None),
        ("%a.out", None),
    ],
)
def test_where_a_job_writes(pattern: str, path: str | None) -> None:
    values = {"j": "7", "A": "5", "x": "job", "u": "ada"}
    assert output_path(pattern, "/w", values) == path


def test_where_an_array_task_writes() -> None:
    values = {"j": "7", "A": "5", "a": "3", "x": "job", "u": "ada"}
    assert output_path("", "/w", values) == "/w/slurm-5_3.out"
    assert output_path("relative", "", values) is None
