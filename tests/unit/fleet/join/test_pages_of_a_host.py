"""Several targets that tell of one host are one node, with what each tells."""

from __future__ import annotations

import pytest

from gpumon.fleet.join.join import join
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from tests.unit.fleet.factories import frame


def picture(frames):
    return join(frames, None, {}, 100.0, 5.0)


def host_frame(origin, at=100.0, labels=None, **values):
    columns = {key: column_for(False, [value]) for key, value in values.items()}
    missing = {("load_1m", 0): Reason.NOT_SHARED} if "load_1m" not in values else {}
    block = Block(("n1",), columns, {k: (v,) for k, v in (labels or {}).items()}, missing)
    return frame("gpu01", {"node": block}, at, origin)


GPU_PAGE = "dcgm+http://gpu01:9400/metrics"
HOST_PAGE = "dcgm+http://gpu01:9100/metrics"


@pytest.mark.parametrize("first", [99.0, 100.0])
def test_several_pages_of_a_host_make_one_node_with_what_each_tells(first):
    seen = picture(
        [
            host_frame(GPU_PAGE, first, {"driver_version": "550"}),
            host_frame(HOST_PAGE, 99.5, {"host_name": "gpu01"}, load_1m=5.0),
        ]
    )
    (one,) = seen.nodes.values()
    assert one.block.value("load_1m", 0) == 5.0
    assert one.block.reason("load_1m", 0) is None
    assert one.block.label("driver_version", 0) == "550"
    assert one.block is one.blocks["node"]


def test_of_what_two_tell_the_better_counts():
    seen = picture(
        [host_frame("ssh://gpu01", 99.0, load_1m=1.0), host_frame(HOST_PAGE, 100.0, load_1m=2.0)]
    )
    assert seen.nodes["gpu01"].block.value("load_1m", 0) == 1.0


def test_what_a_silent_page_told_of_a_host_is_not_of_the_present():
    seen = picture(
        [
            host_frame(HOST_PAGE, 50.0, load_1m=5.0),
            host_frame(GPU_PAGE, 100.0, {"driver_version": "550"}),
        ]
    )
    assert seen.nodes["gpu01"].block.value("load_1m", 0) is None
    assert not seen.nodes["gpu01"].is_stale
