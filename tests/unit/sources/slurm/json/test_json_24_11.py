"""Answers of a real Slurm 24.11: its JSON gives the records of its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.json.site import read_partitions, read_reservations
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from gpumon.sources.slurm.text.site import parse_partitions, parse_reservations

DATA = Path(__file__).parents[1] / "data"
VERSIONS = pytest.mark.parametrize("version", [40, 41])
ASKED_AT = 1795258172.0


def text(what: str) -> str:
    return (DATA / f"{what}-24.11-beside-json.txt").read_text(encoding="utf-8")


def listed(what: str, version: int) -> list[Any]:
    answer = json.loads((DATA / f"{what}-v0.0.{version}.json").read_bytes())
    found: list[Any] = answer[what]
    return found


@VERSIONS
def test_jobs(version: int) -> None:
    expected = parse_jobs(text("jobs"))
    assert (len(expected.jobs), expected.unreadable) == (20, 0)
    assert read_jobs(listed("jobs", version)) == (expected.jobs, 0, None, 0)
    jobs = {job.name: job for job in expected.jobs}
    assert (jobs["failed"].exit_code, jobs["killed"].exit_code) == ("3:0", "0:9")
    assert jobs["uneven"].gpu_count == 3
    assert jobs["requeued"].restart_count == 1
    assert jobs["sixteen"].qos == "high"
    assert jobs["too big"].features == "h100&nvlink"
    assert jobs["range"].work_dir == "/home/alice/a b"
    assert jobs["reserved"].reservation == "course"


@VERSIONS
def test_nodes(version: int) -> None:
    expected = parse_nodes(text("nodes"))
    assert read_nodes(listed("nodes", version)) == (expected.nodes, 0, None)
    drained = expected.nodes[2]
    assert (drained.state, drained.reason) == ("mixed+drain+reserved", "bad fan [x@y]")
    assert drained.reservation == "course"


@VERSIONS
def test_partitions(version: int) -> None:
    expected = parse_partitions(text("partitions")).partitions
    shown = tuple(one._replace(is_default=False) for one in expected)
    assert read_partitions(listed("partitions", version)) == (shown, 0, None)
    assert [one.is_default for one in expected] == [True, False, False]


@VERSIONS
def test_reservations(version: int) -> None:
    expected = parse_reservations(text("reservations")).reservations
    assert read_reservations(listed("reservations", version), ASKED_AT) == (expected, 0, None)
    assert [one.state for one in expected] == ["INACTIVE", "ACTIVE"]
