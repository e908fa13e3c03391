"""What a job's facts say of its requeues, with a cause only where reported, and of its NVLinks."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Severity
from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.gpu_cells import nvlink_cell, nvlink_rate
from gpumon.report.wording.paragraphs import (
    finding_lines,
    gpu_facts,
    job_facts,
    nvlink_words,
    requeue_words,
)
from tests.worlds.tick import BUSY, finding, gpu, job_with_gpus, tick

NONE = {**BUSY, "nvlink_tx_bytes_per_s": None, "nvlink_rx_bytes_per_s": None}
STILL = {**BUSY, "nvlink_tx_bytes_per_s": 900.0, "nvlink_rx_bytes_per_s": 0.0}


def requeue_text(count, *, state="PENDING", reason="BeginTime", node_state="mixed"):
    view, gpus = job_with_gpus(
        "7", {"n1": 2, "n2": 2}, restart_count=count, state=state, reason=reason
    )
    given_tick = tick((view,), gpus)
    nodes = {**given_tick.nodes, "n2": given_tick.nodes["n2"]._replace(state=node_state)}
    return requeue_words(Digest(given_tick._replace(nodes=nodes)), view)


@pytest.mark.parametrize(("count", "words"), [(None, ""), (0, ""), (1, "once"), (3, "3 times")])
def test_restarts_are_counted_in_words(count, words):
    assert requeue_text(count) == words


def test_a_cause_that_slurm_tells_is_told():
    assert requeue_text(2, reason="NodeDown") == "2 times: a node failed"
    assert requeue_text(1, reason="JobLaunchFailure") == "once: it could not be launched"


def test_a_node_that_is_down_and_held_its_ranks_is_named():
    assert requeue_text(1, node_state="down+not_responding") == "once: n2, where it ran, is down"


def test_a_job_that_runs_again_has_no_cause_any_more():
    assert requeue_text(1, state="RUNNING", reason="", node_state="down") == "once"


def test_the_facts_of_a_job_say_it():
    view, gpus = job_with_gpus("7", {"n1": 1}, restart_count=2)
    text = "".join(
        c.text for line in job_facts(Digest(tick((view,), gpus)), view, 120) for c in line
    )
    assert "requeued 2 times" in text


def words(*values, name="NVIDIA H100 80GB HBM3"):
    view, _ = job_with_gpus("7", {"n0": len(values)})
    gpus = [gpu("n0", index, one, name=name) for index, one in enumerate(values)]
    return nvlink_words(Digest(tick((view,), gpus)), view)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((BUSY, BUSY), "used, 151 GB/s each way, 34 % of 450 GB/s"),
        ((BUSY, STILL, STILL), "used, 151 GB/s each way on 1 of 3 GPUs, 34 % of 450 GB/s"),
        ((BUSY, NONE), "used, 151 GB/s each way, 34 % of 450 GB/s"),
        ((STILL, STILL), "unused"),
        ((NONE, NONE), ""),
    ],
)
def test_how_much_of_what_on_how_many(values, expected):
    assert words(*values) == expected


def test_without_a_data_sheet_no_share_is_told():
    assert words(BUSY, name="NVIDIA X1000") == "used, 151 GB/s each way"


@pytest.mark.parametrize(
    ("sent", "received", "rate"),
    [(66e9, 60e9, 66e9), (60e9, 66e9, 66e9), (None, 60e9, 60e9), (None, None, None)],
)
def test_the_column_counts_the_busier_direction_as_the_words_do(sent, received, rate):
    values = {**BUSY, "nvlink_tx_bytes_per_s": sent, "nvlink_rx_bytes_per_s": received}
    one = gpu("n0", 0, values, name="NVIDIA H100 80GB HBM3")
    assert nvlink_rate(one) == rate
    assert nvlink_cell(one).text == ("–" if rate is None else f"{rate / 1e9:.0f}G")
    assert words(values).startswith("used, 66 GB/s each way") is (rate == 66e9)


def test_a_gpus_page_names_the_other_target_that_tells_some_of_its_values():
    page = "dcgm+http://n1:9400/metrics"
    keys = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "temp_c", "serial")
    (view, gpus) = job_with_gpus("7", {"n1": 1})
    one = gpus[0]
    for borrowed, text in (
        (keys, f"{page}: SM, TENS, DRAM, TEMP and 1 more"),
        (keys[-1:], f"{page}: serial"),
        ((), ""),
    ):
        borrower = one._replace(borrowed=dict.fromkeys(borrowed, page))
        lines = gpu_facts(Digest(tick((view,), [borrower])), borrower, 300)
        joined = " ".join("".join(cell.text for cell in line) for line in lines)
        assert ("also from" in joined) is bool(text)
        assert text in joined


@pytest.mark.parametrize(
    ("finding_class", "title"),
    [
        ("fabric_degraded", "! fabric degraded: critical, supported, seen for 9m until "),
        ("gpu_fault", "‼ GPU fault: supported, seen for 9m until "),
    ],
)
def test_what_is_critical_and_costs_nothing_says_so_where_its_mark_does_not(finding_class, title):
    one = finding(
        "gpu:a", finding_class=finding_class, severity=Severity.CRITICAL, gpu_seconds=None
    )
    head = finding_lines(tick((), findings=(one,)), one, 120)[0]
    assert "".join(cell.text for cell in head).startswith(title)
