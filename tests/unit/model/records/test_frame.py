"""What a source reported, with blocks that are there and blocks that are not."""

from __future__ import annotations

from gpumon.model.records.block import EMPTY_BLOCK, Block
from gpumon.model.records.frame import Frame


def test_a_frame_without_a_block_has_an_empty_one() -> None:
    frame = Frame("local", "n1", 1.0, 0.0, {"gpu": Block(("a", "b"), {}, {}, {})})
    assert frame.block("gpu").keys == ("a", "b")
    assert frame.block("process") is EMPTY_BLOCK
    assert frame.errors == ()
    assert frame.queue is None
