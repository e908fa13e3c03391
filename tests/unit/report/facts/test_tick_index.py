"""What a tick has of a job, a GPU and the nodes that they are on."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Confidence, Evidence, Severity
from gpumon.report.facts.tick_index import Digest, RankRow
from gpumon.report.tables.gpu import rank_why
from gpumon.report.tables.job import default_order
from gpumon.report.wording.verdict_words import verdict_cell
from tests.worlds.tick import finding, job_with_gpus, tick

PORT = {
    "detector": "network_degraded",
    "finding_class": "fabric_degraded",
    "confidence": Confidence.HYPOTHESIS,
}


def fleet(*findings, state="RUNNING"):
    first, gpus = job_with_gpus("31", {"n7": 2, "n8": 2}, state=state)
    other, others = job_with_gpus("32", {"n9": 3})
    return Digest(tick((first, other), gpus + others, findings=findings)), first, other


def test_a_fault_of_a_node_is_seen_on_the_jobs_that_run_there():
    digest, first, other = fleet(finding("node:n8", **PORT, summary="a port is down"))
    assert verdict_cell(digest, first).text == "!○ n8: a port is down"
    assert "node" not in verdict_cell(digest, other).text
    assert default_order(digest, first) < default_order(digest, other)


def test_it_explains_and_is_not_the_jobs_own():
    grave = {"finding_class": "telemetry_lost", "severity": Severity.CRITICAL}
    digest, first, _ = fleet(finding("node:n7", **grave), finding("job:31", summary="waits"))
    assert verdict_cell(digest, first).text == "!◐ waits"
    assert digest.verdict(first).subject == "job:31"
    assert [f.subject for f in digest.findings_by_job["31"]] == ["job:31"]
    assert [f.subject for f in digest.findings_of_nodes(first)] == ["node:n7"]


@pytest.mark.parametrize("state", ["PENDING", "COMPLETED", "FAILED"])
def test_a_job_that_holds_nothing_has_no_node(state):
    digest, first, _ = fleet(finding("node:n8", **PORT), state=state)
    assert digest.findings_of_nodes(first) == ()


def test_a_gpu_knows_the_finding_of_its_node_that_names_it():
    digest, first, other = fleet()
    named, in_evidence, silent, _ = first.gpu_uuids
    evidence = (Evidence("nic_state", f"gpu:{in_evidence}", "beside the port", 1.0),)
    of_n7 = finding("node:n7", **PORT, gpus=(named,), evidence=evidence)
    of_n9 = finding("node:n9", **PORT, gpus=(silent,), evidence=())
    digest = Digest(digest.tick._replace(findings=(of_n7, of_n9)))
    assert digest.findings_naming_gpu(named) == (of_n7,)
    assert digest.findings_naming_gpu(in_evidence) == (of_n7,)
    assert digest.findings_naming_gpu(silent) == ()
    assert digest.findings_naming_gpu(other.gpu_uuids[0]) == ()
    assert digest.findings_naming_gpu("GPU-nowhere") == ()


def test_a_rank_knows_the_finding_of_its_job_that_names_its_gpu():
    digest, first, _ = fleet()
    others, named = first.gpu_uuids[:2], first.gpu_uuids[2]
    evidence = (Evidence("gpu_util_ratio", f"gpu:{named}", "does not wait with the others", 0.0),)
    hang = finding("job:31", finding_class="hang", evidence=evidence)
    digest = Digest(digest.tick._replace(findings=(hang,)))
    why_by_gpu = {row.uuid: rank_why(digest, row).text for row in digest.rank_rows(first)}
    assert why_by_gpu[named] == "! hang"
    assert not any("hang" in why_by_gpu[uuid] for uuid in others)
    empty = RankRow(first, None, digest.tick.gpus[named], named)
    assert rank_why(digest, empty).text == "no process"


def test_a_gpu_knows_the_finding_of_its_rank_that_names_it():
    digest, first, _ = fleet()
    other, named = first.gpu_uuids[:2]
    evidence = (Evidence("sm_active_ratio", f"gpu:{named}", "SMs 80 % (the others 60)", 0.8),)
    slow = finding(
        "job:31/rank:1", finding_class="straggler", evidence=evidence, gpus=first.gpu_uuids
    )
    hot = finding(f"gpu:{other}", finding_class="throttled", evidence=evidence)
    digest = Digest(digest.tick._replace(findings=(slow, hot)))
    assert digest.findings_naming_gpu(named) == (slow,)
    assert digest.findings_naming_gpu(other) == ()
    why_by_gpu = {row.uuid: rank_why(digest, row).text for row in digest.rank_rows(first)}
    assert why_by_gpu[named] == "! straggler"


def test_a_rank_shows_the_graver_of_what_is_found_about_it_and_about_its_gpu():
    """As the list of GPUs does: the heat costs GPU time, the lag is what comes of it."""
    digest, first, _ = fleet()
    named = first.gpu_uuids[1]
    grave = {"severity": Severity.CRITICAL, "gpus": first.gpu_uuids}
    late = finding("job:31/rank:1", finding_class="straggler", gpu_seconds=None, **grave)
    hot = finding(f"gpu:{named}", finding_class="throttled", **grave)
    digest = Digest(digest.tick._replace(findings=(late, hot)))
    why_by_gpu = {row.uuid: rank_why(digest, row).text for row in digest.rank_rows(first)}
    assert why_by_gpu[named] == "‼ throttled"
    alike = Digest(digest.tick._replace(findings=(late, hot._replace(gpu_seconds=None))))
    row = next(row for row in alike.rank_rows(first) if row.uuid == named)
    assert alike.row_finding(row) is late
