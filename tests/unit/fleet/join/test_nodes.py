"""One name for a node that each source calls by its own."""

from __future__ import annotations

import pytest

from gpumon.fleet.join.join import join
from gpumon.fleet.join.nodes import NodeNames
from gpumon.model.fault import SourceError
from tests.unit.fleet.factories import frame, gpu_block, job, node, queue, uuid

PAGE, PROBE = "dcgm+http://10.0.0.9:9400/metrics", "ssh://login9"
DEVICES = ("/dev/nvidia0", "/dev/nvidia1")


def test_a_node_matches_by_host_name_address_and_short_name():
    names = NodeNames(
        [node("n1", host_name="host1.site", address="10.0.0.1"), node("n2.site", address="")]
    )
    assert names.canonical("host1.site", ()) == "n1"
    assert names.canonical("10.0.0.1", ()) == "n1"
    assert names.canonical("n2", ()) == "n2.site"
    assert names.canonical("unknown", ("n1",)) == "n1"
    assert names.canonical("stranger", ()) == "stranger"


def test_an_alias_of_two_nodes_matches_neither():
    names = NodeNames([node("n1", host_name="login"), node("n2", host_name="login")])
    assert names.canonical("login", ()) == "login"
    assert names.canonical("n1", ()) == "n1"


def told(name, minors, origin, at=99.0, of="a", **values):
    """A frame of some GPUs of node `of`, called `name` by its source."""
    return frame(name, {"gpu": gpu_block(of, minors, **values)}, at, origin)


def picture(frames, records=None, errors=None):
    return join(frames, records, errors or {}, 100.0, 5.0)


@pytest.mark.parametrize("probe_at", [99.0, 40.0])
def test_a_page_of_a_nodes_gpus_tells_of_that_node_whatever_it_calls_it(probe_at) -> None:
    """Also while the probe is silent: a node does not change its name by that."""
    frames = [
        told("a", [0, 1], PROBE, probe_at, power_w=[1.0, 2.0]),
        told("c94f", [1, 0], PAGE, power_w=[3.0, 4.0]),
    ]
    for ordered in (frames, frames[::-1]):
        seen = picture(ordered)
        assert set(seen.nodes) == {"a"}
        assert {gpu.node for gpu in seen.gpus.values()} == {"a"}
        assert seen.nodes["a"].gpu_uuids == (uuid("a", 0), uuid("a", 1)) or probe_at == 40.0


def test_the_queues_name_counts_before_a_probes() -> None:
    records = queue([job("7", {"a": (1,)})], [node("a", DEVICES)])
    frames = [told("a", [0, 1], PAGE), told("rack7-node3", [0, 1], PROBE)]
    seen = picture(frames, records)
    assert set(seen.nodes) == {"a"}
    assert seen.jobs[0].gpu_uuids == (uuid("a", 1),)
    assert {gpu.origin for gpu in seen.gpus.values()} == {PROBE}


def test_what_is_wrong_with_a_page_stands_at_the_node_it_tells_of() -> None:
    error = SourceError("c94f", "one series comes twice", "look")
    frames = [told("a", [0], PROBE), told("c94f", [0], PAGE)]
    assert picture(frames, errors={"c94f": (error,)}).nodes["a"].errors == (error,)


def test_gpus_of_several_nodes_make_no_node_of_one_name() -> None:
    both = gpu_block("a", [0])
    both = both._replace(keys=(uuid("a", 0), uuid("b", 0)), columns={})
    frames = [
        told("a", [0], PROBE),
        told("b", [0], PROBE, of="b"),
        frame("gateway", {"gpu": both}, 99.0, PAGE),
    ]
    seen = picture(frames)
    assert set(seen.nodes) == {"a", "b", "gateway"}
    assert {gpu.node for gpu in seen.gpus.values()} == {"a", "b"}


def test_two_listed_nodes_stay_two() -> None:
    records = queue([], [node("a", DEVICES), node("b", DEVICES)])
    frames = [told("a", [0], PROBE), told("b", [0], PAGE)]
    assert set(picture(frames, records).nodes) == {"a", "b"}


def test_one_target_alone_is_believed_as_it_names_its_nodes() -> None:
    frames = [told("a", [0], PAGE), told("b", [0], PAGE, at=98.0)]
    assert set(picture(frames).nodes) == {"a", "b"}
