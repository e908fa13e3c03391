"""A real cluster of two types of GPUs, one node with both: requests and nodes, by text and JSON.

On gpu01 are eight h100, on gpu02 four h100 and four t4, on gpu03 eight t4. Each keeps two CPUs and
4000 MiB for the system.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from gpumon.sources.slurm.text.requests import GpuRequest, gpu_request

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Job

DATA = Path(__file__).parents[1] / "data"
EACH = pytest.mark.parametrize(("slurm", "version"), [("22.05", 38), ("24.11", 42)])
MIB = 2.0**20


def text(what: str, slurm: str) -> str:
    return (DATA / f"{what}-mixed-{slurm}.txt").read_text(encoding="utf-8")


def listed(what: str, version: int) -> list[Any]:
    answer = json.loads((DATA / f"{what}-mixed-v0.0.{version}.json").read_bytes())
    found: list[Any] = answer[what]
    return found


def asked(job: Job) -> tuple[object, ...]:
    """What a job wants: how many, of which types, how many on each node."""
    return (job.gpu_count, job.gpu_types, job.gpus_per_node)


@EACH
def test_both_tell_the_same_requests(slurm: str, version: int) -> None:
    jobs = parse_jobs(text("jobs", slurm)).jobs
    found = read_jobs(listed("jobs", version)).jobs
    # JSON of 22.05 has no word for planned nodes.
    hidden: dict[str, Any] = {"expected_nodes": ()} if slurm == "22.05" else {}
    assert found == tuple(job._replace(**hidden) for job in jobs)


@EACH
def test_requests_are_read_as_they_were_made(slurm: str, version: int) -> None:
    jobs = {job.name: job for job in read_jobs(listed("jobs", version)).jobs}
    assert asked(jobs["typed"]) == (4, ("h100",), 4)
    # --gpus without -N: Slurm may spread them; with -N1 all are on one node.
    assert asked(jobs["perjob"]) == (16, (), None)
    assert asked(jobs["perjobN1"]) == (5, ("h100",), 5)
    assert asked(jobs["pertaskN"]) == (12, (), None)
    assert asked(jobs["range"]) == (12, (), 6)
    assert asked(jobs["two"]) == (4, ("h100", "t4"), 4)
    assert asked(jobs["cpuonly"]) == (0, (), None)
    assert jobs["req"].nodes_required == ("gpu02", "gpu03")
    assert jobs["exc"].nodes_excluded == ("gpu03",)
    assert [name for name, job in jobs.items() if job.is_exclusive] == ["excl"]
    assert jobs["either"].features == "h100|t4"


@EACH
def test_both_tell_the_same_nodes(slurm: str, version: int) -> None:
    nodes = parse_nodes(text("nodes", slurm)).nodes
    # JSON of 22.05 does not tell what Slurm keeps for the system.
    hidden: dict[str, Any] = (
        {"cpus_usable": None, "mem_kept_bytes": None} if slurm == "22.05" else {}
    )
    found = read_nodes(listed("nodes", version)).nodes
    assert found == tuple(node._replace(**hidden) for node in nodes)


@EACH
def test_nodes_have_types_and_what_is_taken_of_them(slurm: str, version: int) -> None:
    del version
    first, mixed, last = parse_nodes(text("nodes", slurm)).nodes
    assert first.gpu_types == ("h100",) * 8
    assert first.gpu_types_used == ("h100",) * 7
    assert mixed.gpu_types == ("h100",) * 4 + ("t4",) * 4
    assert mixed.gpu_types_used == ("h100",) * 2
    assert last.gpu_types_used == ()
    assert (mixed.cpu_count, mixed.cpus_usable, mixed.cpus_used) == (64, 62, 40)
    assert (mixed.mem_used_bytes, mixed.mem_kept_bytes) == (102400 * MIB, 4000 * MIB)


def test_a_request_that_cannot_be_read_is_none_and_costs_no_job() -> None:
    assert gpu_request({"TresPerNode": "gres/gpu:h100(IDX:x-9)"}, 4) == GpuRequest()
