"""What a page tells of a node is what its probe told, in the same units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.sources.exporters.dcgm import PageReader
from tests.bench.roads import DEFAULT, names_told, page_of

if TYPE_CHECKING:
    from gpumon.model.records.block import Block


def node_block() -> tuple[str, Block]:
    at = 1_800_000_000.0
    frames = FrameMaker(Fleet(2, 4, 7, at - 900.0), "demo").frames(at, 5.0)
    frame = next(one for one in frames if one.block("gpu").keys)
    return frame.node, frame.block("gpu")


@pytest.mark.parametrize("is_all", [True, False])
def test_every_value_comes_back_in_the_catalogues_unit(is_all: bool) -> None:
    node, block = node_block()
    names = names_told(is_all=is_all)
    (reading,) = PageReader(node).read(page_of(block, node, names), 1_800_000_000.0, 5.0)
    read = reading.blocks["gpu"]
    assert read.keys == block.keys
    told = 0
    for key in names:
        for row in range(len(block.keys)):
            value = block.value(key, row) if key in CATALOGUE else None
            if value is not None:
                told += 1
                assert read.value(key, row) == pytest.approx(value, rel=1e-9, abs=1e-9), key
    assert told > 8 * len(block.keys)
    assert len(names) == (len(names_told(is_all=True)) if is_all else len(DEFAULT))
