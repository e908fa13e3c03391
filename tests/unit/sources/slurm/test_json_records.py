"""JSON of every version gives the records that the text of the same moment gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.cluster import Allocation, Job
from gpumon.sources.slurm.jobs_json import read_jobs
from gpumon.sources.slurm.jobs_text import parse_jobs
from gpumon.sources.slurm.nodes_json import read_nodes
from gpumon.sources.slurm.nodes_text import parse_nodes
from tests.unit.sources.slurm.shapes import jobs_of, nodes_of

DATA = Path(__file__).parent / "data"
TEXT_JOBS = parse_jobs((DATA / "jobs-22.05-beside-json.txt").read_text(encoding="utf-8")).jobs
TEXT_NODES = parse_nodes((DATA / "nodes-22.05-beside-json.txt").read_text(encoding="utf-8")).nodes
SHAPED = range(39, 47)


def real(what: str, version: int) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((DATA / f"{what}-v0.0.{version}.json").read_bytes())
    return answer


def one(**members: Any) -> Job:
    """The job that a minimal record with these members is."""
    record = {"job_id": 7, "job_state": "RUNNING", "user_name": "alice", "nodes": "gpu[01-02]"}
    (job,) = read_jobs([{**record, **members}]).jobs
    return job


@pytest.mark.parametrize("version", [36, 37, 38])
def test_real_jobs_are_those_of_the_text(version: int) -> None:
    found = read_jobs(real("jobs", version)["jobs"])
    states = {job.state for job in TEXT_JOBS}
    assert {"RUNNING", "PENDING", "SUSPENDED", "COMPLETED", "TIMEOUT", "FAILED"} <= states
    assert found.unreadable == 0
    assert found.jobs == TEXT_JOBS


def test_a_user_whom_only_other_records_name_is_named() -> None:
    nameless = [job["job_id"] for job in real("jobs", 36)["jobs"] if not job["user_name"]]
    users = {job.job_id: job.user for job in read_jobs(real("jobs", 36)["jobs"]).jobs}
    assert {users[str(job_id)] for job_id in nameless} == {"alice"}


@pytest.mark.parametrize("version", [37, 38])
def test_real_nodes_are_those_of_the_text(version: int) -> None:
    assert read_nodes(real("nodes", version)["nodes"]).nodes == TEXT_NODES
    assert [node.state for node in TEXT_NODES] == ["mixed", "mixed", "idle+drain"]


def test_the_oldest_version_knows_no_flags_of_nodes() -> None:
    nodes = read_nodes(real("nodes", 36)["nodes"]).nodes
    assert [node.state for node in nodes] == ["allocated", "allocated", "idle"]
    assert [node.gpu_count for node in nodes] == [8, 8, 8]


@pytest.mark.parametrize("version", SHAPED)
def test_shaped_jobs_are_those_of_the_text(version: int) -> None:
    found = read_jobs(jobs_of(version, real("jobs", 38))["jobs"])
    assert found.unreadable == 0
    assert found.jobs == TEXT_JOBS


@pytest.mark.parametrize("version", SHAPED)
def test_shaped_nodes_are_those_of_the_text(version: int) -> None:
    assert read_nodes(nodes_of(version, real("nodes", 38))["nodes"]).nodes == TEXT_NODES


def test_each_entry_of_the_details_belongs_to_the_node_at_its_place() -> None:
    job = one(gres_detail=["gpu:h100:2(IDX:4-5)", "gpu:h100:1(IDX:0),gpu:h200:0(IDX:)"])
    assert job.allocations == (Allocation("gpu01", 2, (4, 5)), Allocation("gpu02", 1, (0,)))
    assert job.gpu_count == 3


def test_details_of_another_number_of_nodes_are_not_guessed_at() -> None:
    job = one(gres_detail=["gpu:h100:2(IDX:4-5)"], tres_alloc_str="cpu=2,gres/gpu=4,gres/gpu:a=4")
    assert job.allocations == ()
    assert job.gpu_count == 4


def test_typed_gpus_and_accounting_are_not_counted_twice() -> None:
    job = one(tres_alloc_str="gres/gpu=4,gres/gpu:a100=4,gres/gpumem=72532M,gres/gpuutil=200")
    assert job.gpu_count == 4


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("RUNNING", "RUNNING"),
        (["RUNNING"], "RUNNING"),
        (["CANCELLED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "SIGNALING", "RESIZING"], "RESIZING"),
        (["PENDING", "REQUEUE_HOLD"], "REQUEUE_HOLD"),
        (["RUNNING", "POWER_UP_NODE"], "RUNNING"),
    ],
)
def test_a_state_with_flags_is_the_word_that_squeue_prints(value: object, state: str) -> None:
    assert one(job_state=value).state == state


@pytest.mark.parametrize("resources", [None, {}, [], "none", {"nodes": None}])
def test_a_finished_job_holds_nothing_though_it_stays_listed(resources: object) -> None:
    job = one(
        job_state=["COMPLETED"],
        gres_detail=["gpu:2(IDX:0-1)", "gpu:2(IDX:0-1)"],
        job_resources=resources,
    )
    assert job.allocations == ()


@pytest.mark.parametrize("limit", [None, "Infinity", {"set": False, "infinite": True, "number": 0}])
def test_a_job_without_a_limit_has_no_end(limit: object) -> None:
    job = one(time_limit=limit, end_time=1826787000)
    assert (job.time_limit_s, job.end_at) == (None, None)
    ended = one(job_state="COMPLETED", time_limit=limit, end_time=1795251500)
    assert ended.end_at == 1795251500.0


@pytest.mark.parametrize("limit", [60, "60", 60.0, {"set": True, "infinite": False, "number": 60}])
def test_a_limit_is_minutes_in_any_form(limit: object) -> None:
    assert one(time_limit=limit).time_limit_s == 3600.0


def test_cores_become_cpus_by_the_threads_of_the_job() -> None:
    socket = {"0": {"cores": {"0": "allocated", "1": "ALLOCATED", "2": "unassigned"}}}
    entries = [{"nodename": name, "sockets": socket} for name in ("gpu01", "gpu02")]
    resources = {"allocated_nodes": entries}
    counts = [a.cpu_count for a in one(job_resources=resources, cpus=8).allocations]
    assert counts == [4, 4]
    assert {a.cpu_count for a in one(job_resources=resources, cpus=7).allocations} == {None}


def test_hostile_text_is_made_harmless_and_hostile_names_are_refused() -> None:
    job = one(name="\x1b[31mred", account="a\u202eb", state_description="a b\x07")
    assert (job.name, job.account, job.reason) == ("�[31mred", "a�b", "a_b�")
    record = {"job_id": 7, "job_state": "RUNNING", "user_name": "alice"}
    for nodes in ("-oProxyCommand=x", "gpu01;reboot", "gpu[01-", "x" * 400):
        assert read_jobs([{**record, "nodes": nodes}]) == ((), 1, None)
    for name in ("-x", "a b", None, 5, ["a;b"]):
        assert read_nodes([{"name": name, "state": "idle"}]).unreadable == 1


def test_one_bad_record_does_not_hide_the_others() -> None:
    good = {"job_id": "7", "job_state": ["RUNNING"], "user_id": {"set": True, "number": 7001}}
    found = read_jobs([None, good, {}, {**good, "job_id": -3}, {**good, "gres_detail": 5}])
    assert [job.user for job in found.jobs] == ["7001", "7001"]
    assert found.unreadable == 3


NUMBERISH = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.fixed_dictionaries(
        {}, optional={"set": st.booleans(), "infinite": st.booleans(), "number": st.integers()}
    ),
)
JSON = st.recursive(
    NUMBERISH,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
REAL = real("jobs", 38)["jobs"]
KEYS = st.sampled_from([*sorted(REAL[10]), "sockets", "cores", "nodename", "allocation", "name"])


@given(st.lists(JSON, max_size=4))
def test_no_json_value_breaks_the_readers(values: list[Any]) -> None:
    assert len(read_jobs(values).jobs) + read_jobs(values).unreadable == len(values)
    assert len(read_nodes(values).nodes) + read_nodes(values).unreadable == len(values)


@given(st.sampled_from(REAL), st.dictionaries(KEYS, JSON, max_size=5))
def test_no_member_of_a_job_breaks_the_reader(job: dict[str, Any], odd: dict[str, Any]) -> None:
    found = read_jobs([{**job, **odd}])
    assert len(found.jobs) + found.unreadable == 1
    for read in found.jobs:
        assert read.gpu_count is None or read.gpu_count >= 0
        assert all(allocation.node in read.nodes for allocation in read.allocations)


@given(
    st.sampled_from(REAL),
    st.dictionaries(st.sampled_from(["allocated_nodes", "nodes", "allocation"]), JSON),
)
def test_no_shape_of_resources_breaks_the_reader(job: dict[str, Any], odd: dict[str, Any]) -> None:
    for resources in (odd, {"nodes": odd}, {"allocated_nodes": [odd]}):
        assert read_jobs([{**job, "job_resources": resources}]).unreadable == 0


@given(st.dictionaries(st.sampled_from(sorted(real("nodes", 38)["nodes"][0])), JSON, max_size=5))
def test_no_member_of_a_node_breaks_the_reader(odd: dict[str, Any]) -> None:
    found = read_nodes([{**real("nodes", 38)["nodes"][0], **odd}])
    assert len(found.nodes) + found.unreadable == 1
