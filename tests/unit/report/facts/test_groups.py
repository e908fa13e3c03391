"""Jobs summed up: what each user, account, partition and reservation holds and waits for."""

from __future__ import annotations

from gpumon.model.records.cluster import Process
from gpumon.model.records.queue import Reservation
from gpumon.report.document.document import document
from gpumon.report.document.queue import stray_lines
from gpumon.report.facts.groups import (
    Scope,
    group_steps,
    groups,
    jobs_of,
    partition_row_steps,
    partition_rows,
)
from gpumon.report.facts.reservations import reservation_rows
from gpumon.report.facts.slurm_nodes import is_open
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.reservation import when_words, who_words
from tests.unit.report.json.test_document import checked
from tests.worlds.queue import HOUR, cluster, slurm_node, waits
from tests.worlds.tick import AT, fleet, gpu, job_with_gpus, tick


def by_name(tick_, kind):
    return {group.name: group for group in groups(Digest(tick_), kind)}


def test_users_hold_use_lose_and_wait():
    found = by_name(cluster(waits("1", submit_at=AT - 60), waits("2", submit_at=AT - HOUR)), "user")
    grace, ada = found["grace"], found["ada"]
    assert (grace.jobs_running, grace.gpus_running, grace.gpus_busy, grace.gpus_low) == (1, 8, 5, 3)
    assert grace.activity_ratio == 5 * 0.84 / 8
    assert (grace.findings, grace.total) == (1, None)
    assert grace.oldest_wait_s is None
    assert (ada.jobs_pending, ada.gpus_pending, ada.oldest_wait_s) == (2, 16, HOUR)


def test_accounts_and_partitions_group_the_same_jobs():
    tick_ = cluster(waits("1", partition="a100,h100"))
    assert by_name(tick_, "account")["nlp"].gpus_running == 8
    parts = by_name(tick_, "partition")
    assert parts["h100"].jobs_running == 2
    assert parts["h100"].jobs_pending == parts["a100"].jobs_pending == 1


def test_a_gpu_without_a_value_counts_as_unknown_not_as_idle():
    stale = by_name(fleet(), "user")["edsger"]
    assert (stale.gpus_running, stale.gpus_busy, stale.gpus_low) == (4, 0, 0)
    assert stale.activity_ratio is None


def test_partitions_count_nodes_and_gpus():
    row = next(r for r in partition_rows(Digest(cluster())) if r.group.name == "h100")
    assert (row.nodes, row.nodes_out) == (4, 1)
    assert (row.gpus, row.gpus_used, row.gpus_free, row.gpus_out) == (32, 16, 8, 8)
    bare = next(r for r in partition_rows(Digest(cluster())) if r.group.name == "a100")
    assert (bare.nodes, bare.gpus, bare.gpus_free) == (0, None, None)


def test_a_partition_that_only_a_job_names_has_no_facts():
    (row,) = [r for r in partition_rows(Digest(fleet())) if r.group.name == "h100"]
    assert row.partition is None
    assert row.gpus is None


def test_states_under_which_a_node_takes_jobs():
    assert all(is_open(s) for s in ("idle", "mixed", "allocated", "mixed+planned", "completing"))
    out = ("down", "idle+drain", "mixed+maint", "down*", "drained", "idle+not_responding")
    assert not any(is_open(state) for state in out)


def test_jobs_that_cross_a_maintenance():
    long = waits("1", time_limit_s=9 * HOUR)
    tick_ = cluster(long, waits("2", time_limit_s=HOUR), waits("3", time_limit_s=None))
    (row,) = reservation_rows(Digest(tick_))
    assert [view.job.job_id for view in row.crossing] == ["4711", "4690", "1"]
    assert when_words(Digest(tick_), row.reservation) == "in 5h30m for 3h30m"
    assert [v.job.job_id for v in jobs_of(Digest(tick_), Scope("reservation", "maint-oct"))] == [
        "4711", "4690", "1",
    ]  # fmt: skip


def test_reservations_of_others_running_over_and_without_an_end():
    own = Reservation("own", "ACTIVE", AT - 9, AT + HOUR, ("gpu01",), (), ("ada", "eve"))
    over = Reservation("over", "INACTIVE", AT - 9, AT - 1, ("gpu01",))
    endless = Reservation("endless", "ACTIVE", AT - 9, None, ("gpu02",))
    tick_ = cluster(waits("1", reservation="own"), reservations=(own, over, endless))
    rows = {row.reservation.name: row for row in reservation_rows(Digest(tick_))}
    assert set(rows) == {"own", "endless"}
    assert [view.job.job_id for view in rows["own"].members] == ["1"]
    assert rows["own"].crossing == ()
    assert when_words(Digest(tick_), own) == "now, 60m left"
    assert when_words(Digest(tick_), endless) == "now, without an end"
    assert who_words(own) == "ada, eve"


def test_the_document_tells_what_the_queue_tells():
    asked = waits("1", "JobHeldUser", priority=0, dependency="afterok:4711", mem_bytes=2.0**40)
    data = checked(
        document(cluster(asked, waits("2", start_at=AT + 60, expected_nodes=("gpu02",))))
    )
    assert data["queue_age_s"] == 12
    jobs = {job["job_id"]: job for job in data["jobs"]}
    held, next_up = jobs["1"], jobs["2"]
    assert held["waiting"]["stuck"] is True
    assert held["waiting"]["position"] is None
    assert held["dependency"] == "afterok:4711"
    assert held["mem_bytes"] == 2**40
    assert next_up["waiting"]["position"] == next_up["waiting"]["position_of"] == 1
    assert next_up["expected_start_at"] is not None
    assert next_up["expected_nodes"] == ["gpu02"]
    assert jobs["4711"]["waiting"] is None
    assert jobs["4711"]["expected_start_at"] is None
    nodes = {node["name"]: node for node in data["nodes"]}
    assert nodes["gpu02"]["slurm"]["gpus_used"] == 4
    assert nodes["gpu02"]["slurm"]["partitions"] == ["h100"]
    h100 = next(part for part in data["partitions"] if part["name"] == "h100")
    assert (h100["gpus_free"], h100["gpus_out"], h100["jobs_pending"]) == (8, 8, 2)
    (maintenance,) = data["reservations"]
    assert maintenance["maintenance"] is True
    assert "4711" in maintenance["crossing_jobs"]


def test_the_document_without_a_queue_leaves_its_parts_empty():
    data = checked(document(tick((), [gpu("n", 0)], queue_at=None)))
    assert data["queue_age_s"] is None
    assert data["partitions"] == data["reservations"] == data["stray_processes"] == []
    assert data["nodes"][0]["slurm"] is None


def test_processes_of_no_job_are_named():
    stray = Process("gpu02", 77, "python", 1000, None, None, {}, None, ("GPU-1",), {})
    tick_ = cluster(nodes=(slurm_node("gpu02"),))._replace(strays=(stray,))
    (line,) = stray_lines(Digest(tick_), 100)
    assert line[0].text == "! 1 process is on GPUs that no job holds: gpu02 python 77"
    (listed,) = checked(document(tick_))["stray_processes"]
    assert listed["pid"] == 77
    assert listed["gpu_uuids"] == ["GPU-1"]


def test_groups_are_summed_up_in_steps_that_may_begin_anew():
    jobs = [job_with_gpus(str(number), {f"n{number}": 1}) for number in range(600)]
    digest = Digest(tick(tuple(view for view, _ in jobs), tuple(g for _, gs in jobs for g in gs)))
    next(group_steps(digest, "user"))
    assert len(list(group_steps(digest, "user"))) == 600 // 50 - 1
    assert list(group_steps(digest, "user")) == []
    assert sum(group.gpus_running for group in groups(digest, "user")) == 600
    for _ in partition_row_steps(digest):
        pass
    assert sum(row.group.jobs_running for row in partition_rows(digest)) == 600


def test_a_gpu_that_two_jobs_share_counts_once_among_those_in_use():
    view, gpus = job_with_gpus("1", {"n": 2})
    other = view._replace(job=view.job._replace(job_id="2"))
    (group,) = groups(Digest(tick((view, other), gpus)), "user")
    assert (group.jobs_running, group.gpus_busy + group.gpus_low) == (2, 2)
