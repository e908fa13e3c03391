"""A node's place in the network wherever it is shown: columns, filters, facts and the document."""

from __future__ import annotations

import pytest

from gpumon.report.document.document import document
from gpumon.report.facts.columns import usual
from gpumon.report.facts.slurm_nodes import slurm_facts
from gpumon.report.facts.tick_index import Digest
from gpumon.report.filter.bind import row_filter
from gpumon.report.tables.gpu import FLEET_COLUMNS, RANK_COLUMNS, fleet_search_text
from tests.worlds.queue import cluster, slurm_node

NODES = (
    slurm_node("gpu01", leaf_switch="s0"),
    slurm_node("gpu02", leaf_switch="s1", block="b1"),
    slurm_node("gpu03"),
)


def gpus(text):
    digest = Digest(cluster(nodes=NODES))
    passes = row_filter(text, FLEET_COLUMNS, fleet_search_text)
    return {row.node.name for row in digest.gpu_rows if passes(digest, row)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("switch==s0", {"gpu01"}),
        ("switch~^s", {"gpu01", "gpu02"}),
        ("leaf_switch==s1 & block==b1", {"gpu02"}),
        ("block==b1", {"gpu02"}),
        ("switch?", {"gpu03"}),
    ],
)
def test_gpus_are_found_by_the_place_of_their_node(text, names):
    assert gpus(text) == names


def test_ranks_are_found_by_the_place_of_their_node():
    digest = Digest(cluster(nodes=NODES))
    passes = row_filter("switch==s1", RANK_COLUMNS, lambda _d, _r: "")
    view = next(view for view in digest.tick.jobs if view.job.job_id == "4690")
    rows = [row for row in digest.rank_rows(view) if passes(digest, row)]
    assert {row.gpu.node for row in rows} == {"gpu02"}
    assert len(rows) == 4


def test_the_columns_stand_where_somebody_chose_them():
    for columns in (FLEET_COLUMNS, RANK_COLUMNS):
        assert {"SWITCH", "BLOCK"} <= {column.title for column in columns}
        assert not {"SWITCH", "BLOCK"} & {column.title for column in usual(columns)}
    column = next(c for c in FLEET_COLUMNS if c.key == "leaf_switch")
    digest = Digest(cluster(nodes=NODES))
    shown = {row.node.name: column.cell(digest, row).text for row in digest.gpu_rows}
    assert (shown["gpu01"], shown["gpu03"]) == ("s0", "")
    assert {row.node.name: column.order(digest, row) for row in digest.gpu_rows}["gpu03"] is None


def test_a_node_tells_its_place():
    digest = Digest(cluster(nodes=NODES))
    assert ("leaf switch", "s1") in slurm_facts(digest, "gpu02")
    assert ("block", "b1") in slurm_facts(digest, "gpu02")
    assert ("leaf switch", "") in slurm_facts(digest, "gpu03")


def test_the_document_tells_the_place_of_every_node():
    nodes = {node["name"]: node["slurm"] for node in document(cluster(nodes=NODES))["nodes"]}
    assert (nodes["gpu02"]["leaf_switch"], nodes["gpu02"]["block"]) == ("s1", "b1")
    assert (nodes["gpu03"]["leaf_switch"], nodes["gpu03"]["block"]) == (None, None)
