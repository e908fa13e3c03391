"""Slurm's types of GPUs as a column, in filters and in what a plain word finds."""

from __future__ import annotations

import pytest

from gpumon.model.records.cluster import Allocation
from gpumon.model.records.queue import Partition
from gpumon.report.facts.columns import usual
from gpumon.report.facts.groups import partition_rows
from gpumon.report.facts.tick_index import Digest
from gpumon.report.filter.bind import row_filter
from gpumon.report.tables.group import PARTITION_COLUMNS, partition_search
from gpumon.report.tables.job import JOB_COLUMNS, search_text
from gpumon.report.tables.node import NODE_COLUMNS, node_rows, node_search
from tests.worlds.queue import cluster, slurm_node, waits

NODES = (
    slurm_node("gpu01", gpu_types=("l40s",) * 4),
    slurm_node("gpu02", gpu_types=("l40s", "t4", "t4"), partitions=("old", "h100")),
    slurm_node("gpu03"),
)
PARTITIONS = (
    Partition("h100", "UP", ("gpu01", "gpu02", "gpu03"), 24),
    Partition("old", "UP", ("gpu02",), 8),
)


@pytest.fixture
def digest():
    holds = Allocation("gpu02", 2, (0, 1), gpu_types=("l40s", "t4"))
    jobs = (
        waits("51", gpu_types=("l40s",)),
        waits("52"),
        waits("53", state="RUNNING", gpu_types=("t4",), allocations=(holds,), nodes=("gpu02",)),
    )
    tick = cluster(*jobs, nodes=NODES)
    return Digest(tick._replace(queue=tick.queue._replace(partitions=PARTITIONS)))


def shown(digest, columns, row):
    (column,) = [column for column in columns if column.key == "gpu_types"]
    assert column not in usual(columns)
    return column.cell(digest, row).text


def test_nodes_and_partitions_tell_types_with_counts(digest):
    nodes = {row.node.name: shown(digest, NODE_COLUMNS, row) for row in node_rows(digest)}
    assert (nodes["gpu01"], nodes["gpu02"], nodes["gpu03"]) == ("l40s:4", "l40s,t4:2", "")
    parts = {
        row.group.name: shown(digest, PARTITION_COLUMNS, row) for row in partition_rows(digest)
    }
    assert (parts["h100"], parts["old"]) == ("l40s:5,t4:2", "l40s,t4:2")


def test_a_job_tells_what_it_holds_else_what_it_asks_for(digest):
    types_by_job = {
        view.job.job_id: shown(digest, JOB_COLUMNS, view)
        for view in digest.tick.jobs
        if view.job.job_id in ("51", "52", "53")
    }
    assert types_by_job == {"51": "l40s", "52": "", "53": "l40s,t4"}


@pytest.mark.parametrize("text", ["types==*t4*", "t4"])
def test_rows_are_found_by_a_type(digest, text):
    passes = row_filter(text, NODE_COLUMNS, node_search)
    assert [row.node.name for row in node_rows(digest) if passes(digest, row)] == ["gpu02"]
    passes = row_filter(text, PARTITION_COLUMNS, partition_search)
    found = {row.group.name for row in partition_rows(digest) if passes(digest, row)}
    assert found == {"h100", "old"}
    passes = row_filter(text, JOB_COLUMNS, search_text)
    assert [v.job.job_id for v in digest.tick.jobs if passes(digest, v)] == ["53"]
