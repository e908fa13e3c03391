"""What a waiting job lacks on a cluster of several types, sizes and loads, and what would fit."""

from __future__ import annotations

from typing import Any

import pytest

from gpumon.report.facts.pending_room import room_hints
from gpumon.report.facts.tick_index import Digest
from tests.worlds.queue import cluster, slurm_node, waits

GIB = 2.0**30


def node(name: str, *types: str, used: tuple[str, ...] = (), **changes: Any) -> Any:
    """A node with such GPUs, 96 CPUs and 500 GiB."""
    facts = {
        "gpus_used": len(used),
        "gpu_types": types,
        "gpu_types_used": used,
        "cpu_count": 96,
        "cpus_used": 0,
        "mem_bytes": 500 * GIB,
        "mem_used_bytes": 0.0,
        **changes,
    }
    return slurm_node(name, gpus=len(types), **facts)


MIXED = (
    node("a1", *["l40s"] * 6, used=("l40s",) * 5, features=("fast", "new")),
    node("a2", *["l40s"] * 6, used=("l40s",) * 6, features=("fast",)),
    node("b1", *["t4"] * 3, *["l40s"] * 3, used=("l40s", "l40s", "t4"), features=("old",)),
    node("b2", *["t4"] * 6, cpus_used=90, mem_used_bytes=100 * GIB, features=("old", "new")),
    node("b3", *["t4"] * 6, mem_used_bytes=470 * GIB, cpus_used=8, features=("new",)),
    node("b4", *["t4"] * 6, state="idle+drain"),
)


def hint_texts(*nodes: Any, **changes: Any) -> list[str]:
    """The hints of a job that waits before these nodes."""
    tick = cluster(waits("1", **changes), nodes=nodes or MIXED)
    tick = tick._replace(queue=tick.queue._replace(partitions=(), reservations=()))
    return [hint.text for hint in room_hints(Digest(tick), tick.job("1").job)]


def test_only_gpus_of_the_type_that_is_asked_for_count():
    first, instead = hint_texts(gpu_count=3, gpu_types=("l40s",))
    assert first == "asks for 3 l40s GPUs on one node: no node has 3 free, 2 have 1"
    assert instead == "with t4 instead it would fit now, on b2, b3"
    assert hint_texts(gpu_count=5, gpu_types=("l40s",), gpus_per_node=5)[0].endswith(
        "no node has 5 free, 2 have 1"
    )


def test_a_type_that_no_node_has_enough_of_is_told():
    (first, *_) = hint_texts(gpu_count=7, gpu_types=("l40s",))
    assert "no node of h100 that may be used has 7 l40s GPUs at all" in first
    (first, *_) = hint_texts(gpu_count=10, node_count=2, gpu_types=("mi300",))
    assert "no node of h100 that may be used has 5 mi300 GPUs at all" in first


def test_free_gpus_of_a_mixed_node_are_not_told_where_nobody_says_which_are_taken():
    unknown = node("b1", "t4", "t4", "l40s", used=("l40s",), gpu_types_used=())
    assert hint_texts(unknown, gpu_count=2, gpu_types=("t4",)) == []
    assert "1 node has 2 free" in hint_texts(unknown, gpu_count=2)[0]


def test_gpus_may_be_free_where_cpus_are_not():
    full = (MIXED[3], node("b5", *["t4"] * 6, cpus_used=70))
    (first,) = hint_texts(*full, gpu_count=6, cpu_count=40, gpu_types=("t4",))
    assert first == (
        "asks for 6 t4 GPUs on one node: 2 nodes have 6 free, but none has 40 CPUs free too, "
        "26 at most"
    )
    (first,) = hint_texts(*full, gpu_count=12, node_count=2, cpu_count=40)
    assert first.endswith(
        "2 nodes have 6 free, but only 1 has 20 CPUs free too, the others 6 at most"
    )


def test_cpus_that_slurm_keeps_for_itself_are_not_free():
    reserved = node("b5", *["t4"] * 6, cpus_usable=88)
    assert (
        "none has 90 CPUs free too, 88 at most"
        in hint_texts(reserved, gpu_count=6, cpu_count=90)[0]
    )
    assert "something other" in hint_texts(reserved, gpu_count=6, cpu_count=88)[0]


def test_gpus_may_be_free_where_memory_is_not():
    (first,) = hint_texts(MIXED[4], gpu_count=2, cpu_count=4, mem_bytes=64 * GIB)
    assert "1 node has 2 free, but none has 64 GiB of memory free too, 30 GiB at most" in first


def test_a_cluster_that_gives_out_no_memory_lacks_none():
    whole = node("n1", *["t4"] * 6, used=("t4",), cpus_used=4, mem_kept_bytes=8 * GIB)
    (first,) = hint_texts(whole, gpu_count=5, mem_bytes=500 * GIB)
    assert first.endswith("it lacks something other than GPUs or memory")


def test_a_job_without_gpus_is_compared_by_its_cpus():
    (first,) = hint_texts(MIXED[3], gpu_count=0, cpu_count=30)
    assert first == "asks for 30 CPUs on one node: none has 30 CPUs free, 6 at most"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_required": ("a2",)}, "which must be a2: a2 has none free"),
        ({"nodes_required": ("b4",)}, "which must be b4: b4 is idle+drain"),
        ({"nodes_required": ("b1",), "gpu_count": 4}, "b1 has 3 free"),
        ({"nodes_required": ("b2",), "cpu_count": 9}, "b2 has 6 of 9 CPUs free"),
        ({"nodes_required": ("b3",), "mem_bytes": 40 * GIB}, "b3 has 30 GiB of 40 GiB free"),
        ({"nodes_required": ("b3",), "is_exclusive": True}, "b3 is not empty, and it wants it"),
        ({"nodes_required": ("a1",), "gpu_types": ("t4",)}, "a1 has 0 t4 GPUs at all"),
        ({"nodes_required": ("b2",), "features": "fast"}, "b2 lacks the features fast"),
        (
            {"nodes_required": ("a2", "b4"), "node_count": 2, "gpu_count": 4},
            "which must be a2, b4: a2 has none free, b4 is idle+drain",
        ),
    ],
)
def test_each_node_that_it_must_have_is_judged(changes, words):
    facts = {"gpu_count": 2, "cpu_count": None, **changes}
    assert words in hint_texts(**facts)[0]


def test_required_nodes_that_have_room_are_not_what_it_lacks():
    (first,) = hint_texts(gpu_count=3, nodes_required=("b2",), gpu_types=("t4",), cpu_count=2)
    assert first.endswith("1 node has 3 free: it lacks something other than GPUs or CPUs")


def test_what_its_lists_of_nodes_cost_is_told():
    bound = hint_texts(gpu_count=4, nodes_required=("b1",))
    assert bound[1:] == ["without its list of nodes it would fit now, on b2, b3"]
    excluding = hint_texts(gpu_count=4, nodes_excluded=("b2", "b3"))
    assert "no node has 4 free, 1 has 3" in excluding[0]
    assert excluding[1:] == ["without its list of excluded nodes it would fit now, on b2, b3"]


def test_a_required_node_of_another_partition_is_named():
    elsewhere = node("z9", "t4", partitions=("cpu",))
    (first, *_) = hint_texts(*MIXED, elsewhere, gpu_count=1, nodes_required=("z9",))
    assert "z9 is not in h100" in first


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ("fast&new", "no node has 2 free, 1 has 1"),
        ("new|old", "3 nodes have 2 free"),
        ("old", "2 nodes have 2 free"),
        ("[rack1*2&rack2*2]", "its constraint not counted"),
        ("nowhere", "no node of h100 may be used: a1 lacks the features nowhere"),
    ],
)
def test_lists_of_features_narrow_the_nodes(constraint, words):
    assert words in hint_texts(gpu_count=2, features=constraint)[0]


def test_a_job_that_wants_its_nodes_alone_needs_empty_ones():
    busy = (node("n1", *["t4"] * 4, cpus_used=2), node("n2", *["t4"] * 4, cpus_used=3))
    (first,) = hint_texts(*busy, gpu_count=4, is_exclusive=True)
    assert first.endswith("2 nodes have 4 free, but none is empty, and it wants its nodes alone")


def test_gpus_that_may_lie_anywhere_are_counted_together():
    (first,) = hint_texts(gpu_count=16, node_count=3, gpus_per_node=None, gpu_types=("t4",))
    assert first == "asks for 16 t4 GPUs: 14 t4 GPUs are free in h100"


def test_a_mix_of_types_is_said_not_to_be_counted():
    (first,) = hint_texts(gpu_count=2, gpu_types=("l40s", "t4"))
    assert first.endswith("it lacks something other than GPUs, its mix of types not counted")
