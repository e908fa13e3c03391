"""Rows of one's own jobs, of their GPUs, and of what is found about both."""

from __future__ import annotations

from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.own_rows import own_rows
from tests.worlds.tick import finding, gpu, job_with_gpus, tick, uuid_of

ME = "hopper"


def fleet_digest():
    mine, a = job_with_gpus("81", {"n1": 3}, user=ME)
    theirs, b = job_with_gpus("82", {"n2": 5}, user="lovelace")
    free = gpu("n3", 0)
    findings = (
        finding("job:81/rank:2"),
        finding("job:82"),
        finding(f"gpu:{uuid_of('n1', 1)}"),
        finding(f"gpu:{uuid_of('n2', 4)}"),
        finding("node:n1"),
        finding("node:n2"),
        finding("job:9999"),
    )
    return Digest(tick((mine, theirs), [*a, *b, free], findings=findings))


def test_jobs_gpus_and_findings_of_a_user():
    digest = fleet_digest()
    assert [v.job.job_id for v in own_rows(digest, digest.tick.jobs, ME)] == ["81"]
    gpus = own_rows(digest, digest.gpu_rows, ME)
    assert [row.gpu and (row.gpu.node, row.gpu.nvml_index) for row in gpus] == [
        ("n1", 0), ("n1", 1), ("n1", 2),
    ]  # fmt: skip
    own = own_rows(digest, digest.tick.findings, ME)
    assert [f.subject for f in own] == ["job:81/rank:2", f"gpu:{uuid_of('n1', 1)}", "node:n1"]


def test_nobody_else_owns_anything():
    digest = fleet_digest()
    for rows in (digest.tick.jobs, digest.gpu_rows, digest.tick.findings):
        assert own_rows(digest, rows, "nobody") == []


def test_without_a_queue_processes_tell_whose_a_gpu_is():
    _, gpus = job_with_gpus("0", {"n1": 2})
    named = [
        one._replace(processes=tuple(p._replace(user=ME) for p in one.processes)) for one in gpus
    ]
    digest = Digest(tick((), [named[0], gpus[1]]))
    assert [row.gpu.nvml_index for row in own_rows(digest, digest.gpu_rows, ME)] == [0]
