"""Slurm 26.05 as it prints jobs and nodes: unique ids, who wants nodes alone, paths of arrays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes

DATA = Path(__file__).parents[1] / "data"


def text(what):
    return (DATA / f"{what}-26.05.txt").read_text(encoding="utf-8")


def listed(what):
    return json.loads((DATA / f"{what}-v0.0.45.json").read_bytes())[what]


def test_both_tell_the_same_but_for_who_wants_nodes_alone():
    jobs = parse_jobs(text("jobs")).jobs
    found = read_jobs(listed("jobs")).jobs
    assert found == tuple(job._replace(is_exclusive=None) for job in jobs)
    assert {job.state for job in jobs} >= {"RUNNING", "PENDING", "CANCELLED"}
    assert read_nodes(listed("nodes")).nodes == parse_nodes(text("nodes")).nodes


def test_a_job_wants_nodes_alone_where_it_said_so_and_not_where_it_shares_no_cores():
    """`OverSubscribe=NO` stands on every job there, also on one that shares its node."""
    jobs = parse_jobs(text("jobs")).jobs
    assert [job.job_id for job in jobs if job.is_exclusive] == ["4", "11"]
    assert len(jobs) > 8


@pytest.mark.parametrize(
    ("line", "is_exclusive"),
    [
        ("OverSubscribe=NO Contiguous=0", True),
        ("OverSubscribe=OK Contiguous=0", False),
        ("OverSubscribe=USER Contiguous=0", False),
        ("OverSubscribe=NO Exclusive=NO Contiguous=0", False),
        ("OverSubscribe=NO Exclusive=NODE Contiguous=0", True),
        ("OverSubscribe=NO Exclusive=USER Contiguous=0", False),
    ],
)
def test_each_version_says_in_its_own_words_who_wants_nodes_alone(line, is_exclusive):
    head = "JobId=7 JobName=one\n   UserId=bob(7002) GroupId=bob(7002)\n   JobState=PENDING"
    (job,) = parse_jobs(f"{head}\n   {line}\n").jobs
    assert job.is_exclusive is is_exclusive


def test_every_job_has_its_unique_id():
    ids = [job.sluid for job in parse_jobs(text("jobs")).jobs]
    assert all(one.startswith("s") and len(one) == 14 for one in ids)
    assert len(set(ids)) == len(ids)
