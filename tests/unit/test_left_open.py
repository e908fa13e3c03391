"""Descriptors that tests leave open."""

from __future__ import annotations

import gc

from gpumon.detect.scene import Scene
from tests.left_open import FEW, count_open, let_go


def look() -> None:
    scene = Scene()
    (uuid,) = scene.node("a", 1)
    scene.job("1", [uuid])
    scene.run(30.0, {})
    assert len(scene.view().jobs) == 1


def test_views_that_nobody_holds_leave_few_descriptors_open():
    gc.collect()
    gc.disable()
    try:
        while count_open() <= FEW:
            look()
        let_go()
        assert count_open() < FEW
    finally:
        gc.enable()
