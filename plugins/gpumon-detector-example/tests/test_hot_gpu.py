"""How a detector is tested: the conformance kit, then scenes in invented time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gpumon_detector_example.hot_gpu import HotGpu

from gpumon.plugin.testing import WORKING, Scene, check_detector

if TYPE_CHECKING:
    from gpumon.plugin import Finding

HOT = {**WORKING, "temp_c": 90.0}


def _findings(scene: Scene, limit_c: float = 83.0) -> list[Finding]:
    return list(HotGpu(limit_c).evaluate(scene.view()))


def test_it_keeps_the_contract() -> None:
    """The kit finds no problem."""
    assert [check for check in check_detector(HotGpu) if check.problem] == []


@pytest.mark.parametrize(
    ("seconds", "confidence"), [(60, "hypothesis"), (400, "supported"), (1000, "established")]
)
def test_a_hot_gpu_is_found(seconds: float, confidence: str) -> None:
    """The claim grows with the time observed, and only the hot GPU gets one."""
    scene = Scene()
    hot, cool = scene.node("n", 2)
    scene.run(seconds, {hot: HOT, cool: WORKING})
    (finding,) = _findings(scene)
    assert finding.subject == f"gpu:{hot}"
    assert finding.confidence == confidence


def test_the_window_begins_when_it_became_hot() -> None:
    """A hot spell after a cool hour is a short spell."""
    scene = Scene()
    (gpu,) = scene.node("n", 1)
    scene.run(2000, {gpu: WORKING})
    scene.run(100, {gpu: HOT})
    (finding,) = _findings(scene)
    assert finding.window.samples == 10
    assert finding.confidence == "hypothesis"


def test_a_missing_temperature_is_no_claim() -> None:
    """What is not known is not hot."""
    scene = Scene()
    (gpu,) = scene.node("n", 1)
    scene.run(1000, {gpu: HOT})
    scene.run(10, {gpu: {**HOT, "temp_c": None}})
    assert _findings(scene) == []


def test_the_limit_is_the_sites() -> None:
    """The threshold is a parameter."""
    scene = Scene()
    (gpu,) = scene.node("n", 1)
    scene.run(1000, {gpu: HOT})
    assert _findings(scene, limit_c=95.0) == []
