"""Jobstats' summaries of ended jobs: what they fill in, and what must not be believed."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from gpumon.sources.slurm.accounting.jobstats import (
    MOST_PACKED,
    MOST_UNPACKED,
    Summary,
    read_summary,
)
from gpumon.sources.slurm.accounting.json import read_ended
from gpumon.sources.slurm.accounting.text import FIELDS, parse_ended

GIB = 2**30
NODE = {
    "cpus": 16,
    "total_memory": 128 * GIB,
    "used_memory": 40 * GIB,
    "total_time": 7200.5,
    "gpu_total_memory": {"0": 80 * GIB, "3": 80 * GIB},
    "gpu_used_memory": {"0": 30 * GIB, "3": 10 * GIB},
    "gpu_utilization": {"0": 80.0, "3": 4.0},
}
WHOLE = {"nodes": {"n1": NODE, "n2": NODE}, "total_time": 3600, "gpus": 4}


def packed(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return "JS1:" + base64.b64encode(gzip.compress(text, mtime=0)).decode()


def ended(comment: str, **changes: str) -> Any:
    """The only job of an answer of sacct with such a comment: four GPUs for an hour."""
    row = dict.fromkeys(FIELDS, "")
    row |= {
        "JobIDRaw": "9",
        "JobID": "9",
        "User": "ada",
        "State": "COMPLETED",
        "Start": "1000",
        "End": "4600",
        "Elapsed": "01:00:00",
        "AllocTRES": "cpu=32,gres/gpu=4,mem=256G,node=2",
        "AdminComment": comment,
        **changes,
    }
    text = "".join("~@~".join((*line, "\n")) for line in (FIELDS, row.values()))
    found = parse_ended(text, "~@~")
    assert found is not None
    (job,) = found.jobs
    return job


def test_what_slurm_has_not_gathered_is_filled_in_and_named():
    job = ended(packed(WHOLE))
    assert job.gpu_util_ratio == pytest.approx(0.42)
    assert job.gpu_mem_bytes == 80 * GIB
    assert job.cpu_used_s == 14401.0
    assert job.mem_used_ratio == 80 / 256
    assert job.gpu_idle_seconds == pytest.approx(4 * 3600 * 0.58)
    assert set(job.jobstats_fields) == {
        "gpu_util_ratio",
        "gpu_mem_bytes",
        "cpu_used_s",
        "mem_used_bytes",
    }


def test_slurmrestd_tells_the_same_comment():
    record = {
        "job_id": 9,
        "user": "ada",
        "state": {"current": "COMPLETED"},
        "time": {"start": 1000, "end": 4600, "elapsed": 3600},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 4}]},
        "comment": {"administrator": packed(WHOLE), "job": None, "system": None},
    }
    (job,) = read_ended([record]).jobs
    assert job.gpu_util_ratio == pytest.approx(0.42)


def test_a_gpu_that_is_not_told_of_is_not_idle():
    part = {**NODE, "gpu_utilization": {"0": 80.0}}
    job = ended(packed({**WHOLE, "nodes": {"n1": NODE, "n2": part}}))
    assert (job.gpu_util_ratio, job.gpu_mem_bytes) == (None, None)
    assert job.mem_used_bytes == 80 * GIB
    silent = {key: value for key, value in NODE.items() if key != "gpu_utilization"}
    assert ended(packed({"nodes": {"n1": silent}})).gpu_util_ratio is None


def test_one_node_that_says_nothing_leaves_the_sum_unknown():
    part = {**NODE, "used_memory": None}
    assert ended(packed({"nodes": {"n1": NODE, "n2": part}})).mem_used_bytes is None


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "JS1:None",
        "JS1:Short",
        "a note of the operator",
        packed(WHOLE)[:-40],
        packed(WHOLE).replace("JS1:", "JS2:"),
        "JS1:" + base64.b64encode(b"no gzip").decode(),
        "JS1:\x1b[31m" + packed(WHOLE)[4:],
        packed([1, 2]),
        packed({"nodes": {}}),
        packed({"nodes": {"n1": 7}}),
        packed(b"[" * 100_000),
        packed(b'{"nodes":' + b" " * MOST_UNPACKED + b"{}}"),
        "JS1:" + "A" * MOST_PACKED,
    ],
)
def test_what_is_no_summary_is_none(comment):
    assert read_summary(comment) is None
    assert ended(comment).jobstats_fields == ()


@pytest.mark.parametrize("value", [-1, 1e300, 10**400, True, "9", None, [1], float("nan")])
def test_numbers_that_cannot_be_are_not_known(value):
    node = {
        "used_memory": value,
        "total_time": value,
        "gpu_used_memory": {"0": value},
        "gpu_utilization": {"0": value},
    }
    assert read_summary(packed({"nodes": {"n1": node}})) == Summary()


def test_the_same_summary_is_the_same_text_at_any_moment(monkeypatch):
    """Two workers that collect in different seconds must find the same tests."""
    monkeypatch.setattr("time.time", lambda: 1.0)
    first = packed(b"{}")
    monkeypatch.setattr("time.time", lambda: 99.0)
    assert packed(b"{}") == first
