"""JSON of every version gives the records that the text of the same moment gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.records.cluster import Allocation, Job, SlurmNode
from gpumon.sources.slurm.json import values
from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.json.site import read_partitions, read_reservations
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from gpumon.sources.slurm.text.site import parse_partitions, parse_reservations
from tests.unit.sources.slurm.shapes import SLUID, jobs_of, nodes_of, number, partitions_of

DATA = Path(__file__).parents[1] / "data"
TEXT_JOBS = parse_jobs((DATA / "jobs-22.05-beside-json.txt").read_text(encoding="utf-8")).jobs
TEXT_NODES = tuple(
    # JSON of 22.05 does not tell of cores that Slurm keeps for the system.
    node._replace(cpus_usable=None)
    for node in parse_nodes((DATA / "nodes-22.05-beside-json.txt").read_text("utf-8")).nodes
)
TEXT_PARTITIONS = parse_partitions(
    (DATA / "partitions-22.05-beside-json.txt").read_text(encoding="utf-8")
).partitions
TEXT_RESERVATIONS = parse_reservations(
    (DATA / "reservations-22.05-beside-json.txt").read_text(encoding="utf-8")
).reservations
ASKED_AT = 1795256720.0
SHAPED = range(39, 47)


def told(jobs: tuple[Job, ...], **changes: Any) -> tuple[Job, ...]:
    """Jobs of the text as JSON of 22.05 can tell them: it has no word for planned nodes."""
    return tuple(job._replace(expected_nodes=(), **changes) for job in jobs)


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
    assert {"RUNNING", "PENDING", "SUSPENDED", "TIMEOUT", "FAILED"} <= states
    assert found.unreadable == 0
    assert found.jobs == told(TEXT_JOBS)


def test_every_fact_of_a_job_is_among_those_compared() -> None:
    on_the_mixed_cluster = {"gpu_types", "nodes_excluded", "is_exclusive"}
    for key in set(Job._fields) - {"sluid", "is_labelled"} - on_the_mixed_cluster:
        values = {getattr(job, key) for job in TEXT_JOBS}
        assert len(values) > 1, key
    exits = {job.name: job.exit_code for job in TEXT_JOBS if job.exit_code}
    assert exits["failed"] == "3:0"
    assert exits["killed"] == "0:9"
    assert exits["timed out"] == "0:15"
    by_name = {job.name: job for job in TEXT_JOBS}
    assert by_name["requeued"].restart_count == 1
    assert by_name["range"].mem_bytes == 6000 * 2**20
    assert by_name["range"].work_dir == "/home/alice/a b"
    assert by_name["after"].dependency == "afterok:5(unfulfilled),afterany:11(unfulfilled)"
    assert by_name["reserved"].reservation == "course"
    assert by_name["too big"].features == "h100&nvlink"
    assert by_name["out"].stdout_path == "/home/alice/out-000023-out-alice.txt"


def test_a_user_whom_only_other_records_name_is_named() -> None:
    nameless = [job["job_id"] for job in real("jobs", 36)["jobs"] if not job["user_name"]]
    users = {job.job_id: job.user for job in read_jobs(real("jobs", 36)["jobs"]).jobs}
    assert {users[str(job_id)] for job_id in nameless} == {"alice", "bob"}


@pytest.mark.parametrize("version", [37, 38])
def test_real_nodes_are_those_of_the_text(version: int) -> None:
    assert read_nodes(real("nodes", version)["nodes"]).nodes == TEXT_NODES
    assert [node.state for node in TEXT_NODES] == ["mixed", "mixed", "mixed+drain+reserved"]
    drained = TEXT_NODES[2]
    assert (drained.reason, drained.reason_user) == ("bad fan [x@y]", "root")
    assert drained.reason_at == 1795256604.0
    assert drained.partitions == ("gpu", "debug", "long")
    assert drained.features == ("h100", "nvlink")
    assert (drained.cpu_count, drained.cpus_used, drained.gpus_used) == (64, 2, 1)
    assert drained.mem_bytes == 1024000 * 2**20
    assert drained.boot_at == 1795244755.0


def test_the_oldest_version_knows_no_flags_of_nodes() -> None:
    nodes = read_nodes(real("nodes", 36)["nodes"]).nodes
    assert [node.state for node in nodes] == ["allocated", "allocated", "allocated"]
    assert [node.gpu_count for node in nodes] == [8, 8, 8]


@pytest.mark.parametrize("version", SHAPED)
def test_shaped_jobs_are_those_of_the_text(version: int) -> None:
    found = read_jobs(jobs_of(version, real("jobs", 38))["jobs"])
    assert found.unreadable == 0
    # From 26.05 on nothing tells who wants nodes alone.
    newest = {"sluid": SLUID, "is_exclusive": None} if version >= 45 else {}
    assert found.jobs == told(TEXT_JOBS, **newest)


@pytest.mark.parametrize("version", SHAPED)
def test_shaped_nodes_are_those_of_the_text(version: int) -> None:
    assert read_nodes(nodes_of(version, real("nodes", 38))["nodes"]).nodes == TEXT_NODES


@pytest.mark.parametrize("version", [36, 37, 38])
def test_real_partitions_are_those_of_the_text(version: int) -> None:
    found = read_partitions(real("partitions", version)["partitions"])
    assert found.unreadable == 0
    # The oldest one doesn't say whether a partition is up.
    expected = tuple(one._replace(state="") if version == 36 else one for one in TEXT_PARTITIONS)
    assert found.partitions == expected


def test_partitions_of_later_versions_are_those_of_the_text() -> None:
    found = read_partitions(partitions_of(real("partitions", 38))["partitions"])
    expected = tuple(one._replace(state="", is_default=False) for one in TEXT_PARTITIONS)
    assert found == (expected, 0, None)
    newer = {**partitions_of(real("partitions", 38))["partitions"][0], "partition": {}}
    newer["partition"] = {"state": ["UP"]}
    newer["accounts"] = {"allowed": "bio,ml", "deny": ""}
    (one,) = read_partitions([newer]).partitions
    assert (one.state, one.accounts) == ("UP", ("bio", "ml"))


@pytest.mark.parametrize("version", [37, 38])
def test_real_reservations_are_those_of_the_text(version: int) -> None:
    found = read_reservations(real("reservations", version)["reservations"], ASKED_AT)
    assert found == (TEXT_RESERVATIONS, 0, None)
    assert [one.is_maintenance for one in found.reservations] == [True, False]


def test_times_in_objects_say_when_a_reservation_is_active() -> None:
    (record, *_) = real("reservations", 38)["reservations"]
    shaped = {**record, "start_time": number(1000), "end_time": number(2000)}
    states = [read_reservations([shaped], now).reservations[0].state for now in (999, 1500, 2001)]
    assert states == ["INACTIVE", "ACTIVE", "INACTIVE"]


@pytest.mark.parametrize(
    ("told_as", "read_as"),
    [
        (768, "3:0"),
        (15, "0:15"),
        (3893, "0:53"),
        (number(256), "1:0"),
        (number(None), ""),
        ({"status": ["ERROR"], "return_code": number(3), "signal": {"id": number(None)}}, "3:0"),
        ({"status": ["SIGNALED"], "return_code": 0, "signal": {"signal_id": 9}}, "0:9"),
        ("?", ""),
        (2**31, ""),
    ],
)
def test_an_exit_is_told_in_many_shapes(told_as: object, read_as: str) -> None:
    assert one(job_state=["FAILED"], exit_code=told_as).exit_code == read_as
    assert one(job_state=["RUNNING"], exit_code=told_as).exit_code == ""


def test_each_entry_of_the_details_belongs_to_the_node_at_its_place() -> None:
    job = one(gres_detail=["gpu:h100:2(IDX:4-5)", "gpu:h100:1(IDX:0),gpu:h200:0(IDX:)"])
    assert job.allocations == (
        Allocation("gpu01", 2, (4, 5), gpu_types=("h100", "h100")),
        Allocation("gpu02", 1, (0,), gpu_types=("h100",)),
    )
    assert job.gpu_count == 3


def test_details_of_another_number_of_nodes_are_not_guessed_at() -> None:
    job = one(gres_detail=["gpu:h100:2(IDX:4-5)"], tres_alloc_str="cpu=2,gres/gpu=4,gres/gpu:a=4")
    assert job.allocations == ()
    assert job.gpu_count == 4


@pytest.mark.parametrize(
    ("asked", "gpu_count"),
    [({"tres_per_node": "gres/gpu:5"}, 10), ({"tres_per_job": "gpu:15"}, None)],
)
def test_a_completing_job_holds_what_is_on_the_nodes_that_it_has_not_left(
    asked: dict[str, str], gpu_count: int | None
) -> None:
    job = one(
        job_state=["CANCELLED", "COMPLETING"],
        nodes="gpu[02-03]",
        gres_detail=[],
        tres_alloc_str="cpu=6,node=3,billing=6,gres/gpu=15,gres/gpu:h100=15",
        **asked,
    )
    assert (job.state, job.gpu_count) == ("COMPLETING", gpu_count)


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
        assert read_jobs([{**record, "nodes": nodes}])[:2] == ((), 1)
    for name in ("-x", "a b", None, 5, ["a;b"]):
        assert read_nodes([{"name": name, "state": "idle"}]).unreadable == 1


def test_a_job_stays_though_what_it_holds_cannot_be_read() -> None:
    record = {"job_id": 7, "job_state": "RUNNING", "user_name": "alice", "nodes": "gpu01"}
    whole = {**record, "tres_alloc_str": "cpu=4,node=1,gres/gpu=3"}
    found = read_jobs([{**whole, "gres_detail": ["gpu:a100:3(IDX:1-x)"]}, whole])
    assert (found.unreadable, found.unplaced) == (0, 1)
    assert [job.gpu_count for job in found.jobs] == [3, 3]
    assert [a.gpu_indices for job in found.jobs for a in job.allocations] == [None, None]


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
    partitions, reservations = read_partitions(values), read_reservations(values, 0.0)
    assert len(partitions.partitions) + partitions.unreadable == len(values)
    assert len(reservations.reservations) + reservations.unreadable == len(values)
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


@given(st.dictionaries(st.sampled_from(sorted(real("partitions", 38)["partitions"][0])), JSON))
def test_no_member_of_a_partition_breaks_the_reader(odd: dict[str, Any]) -> None:
    found = read_partitions([{**real("partitions", 38)["partitions"][0], **odd}])
    assert len(found.partitions) + found.unreadable == 1


@given(st.dictionaries(st.sampled_from(sorted(real("reservations", 38)["reservations"][0])), JSON))
def test_no_member_of_a_reservation_breaks_the_reader(odd: dict[str, Any]) -> None:
    found = read_reservations([{**real("reservations", 38)["reservations"][0], **odd}], ASKED_AT)
    assert len(found.reservations) + found.unreadable == 1


@pytest.mark.parametrize(
    ("told", "cpu_count"),
    [({"cpus": None}, 2), ({"cpus": {"set": False, "number": 0}}, 2), ({"cpus": 6}, 6), ({}, 2)],
)
def test_cpus_that_are_untold_stand_in_the_tres(told, cpu_count):
    record = {
        "job_id": 5,
        "user_name": "alice",
        "job_state": "PENDING",
        "tres_req_str": "cpu=2,mem=2000G,node=2,billing=2",
        **told,
    }
    (found,) = read_jobs([record]).jobs
    assert found.cpu_count == cpu_count


def node_of(**members: Any) -> SlurmNode:
    (found,) = read_nodes([{"name": "gpu02", "state": "IDLE", **members}]).nodes
    return found


@pytest.mark.parametrize("mib", [2**45, 2**62, -5])
def test_more_memory_than_any_node_has_is_not_known(mib: int) -> None:
    node = node_of(real_memory=mib, alloc_memory=7)
    assert (node.mem_bytes, node.mem_used_bytes) == (None, 7 * 2.0**20)


@pytest.mark.parametrize("minutes", [-3, -0.5, 2**50, "-7", {"set": True, "number": 2**61}])
def test_a_time_limit_that_can_not_be_is_not_known(minutes: object) -> None:
    assert one(time_limit=minutes).time_limit_s is None
    (partition,) = read_partitions([{"name": "p", "max_time_limit": minutes}]).partitions
    assert partition.time_limit_s is None


@pytest.mark.parametrize("blank", ["\x1c", "\x1f", "\u2003", " "])
def test_a_number_in_blanks_of_any_kind_is_one(blank: str) -> None:
    assert values.number(blank + "7.5") == 7.5
    assert values.number("8" + blank) == values.whole(f"{blank}8{blank}") == 8
