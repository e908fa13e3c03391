"""How a detector with an estimator is tested: the conformance kit, then scenes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpumon_detector_sklearn_example.low_power import LowPower

from gpumon.plugin.testing import WORKING, Scene, check_detector

if TYPE_CHECKING:
    from gpumon.plugin import Finding

PEERS = 24


def _load(chance: np.random.Generator, share: float = 1.0) -> dict[str, Any]:
    """A GPU of any load, whose power follows it."""
    sm, dram = chance.uniform(0.2, 0.9), chance.uniform(0.1, 0.6)
    power_w = share * (110 + 380 * sm + 190 * dram) * chance.normal(1.0, 0.02)
    return {**WORKING, "sm_active_ratio": sm, "dram_active_ratio": dram, "power_w": power_w}


def _fleet(seed: int, seconds: float, share: float, peers: int = PEERS) -> tuple[Scene, str]:
    """A fleet of one product; the first GPU draws a share of what its load takes."""
    chance, scene = np.random.default_rng(seed), Scene()
    first, *others = scene.node("n1", peers)
    scene.run(seconds, {first: _load(chance, share), **{gpu: _load(chance) for gpu in others}})
    return scene, first


def _findings(scene: Scene, **parameters: int) -> list[Finding]:
    return list(LowPower(**parameters).evaluate(scene.view()))


def test_it_keeps_the_contract() -> None:
    """The kit finds no problem."""
    assert [check for check in check_detector(LowPower) if check.problem] == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("seconds", "confidence"), [(600, "hypothesis"), (1200, "supported")])
def test_a_gpu_that_draws_half_of_what_its_load_takes_is_found(
    seed: int, seconds: float, confidence: str
) -> None:
    """Whatever the loads are, only that GPU is claimed."""
    scene, low = _fleet(seed, seconds, 0.5)
    (finding,) = _findings(scene)
    assert finding.subject == f"gpu:{low}"
    assert finding.confidence == confidence


@pytest.mark.parametrize("seed", range(5, 15))
def test_gpus_that_draw_what_their_load_takes_are_not_claimed(seed: int) -> None:
    """A GPU with little to do draws little."""
    scene, _ = _fleet(seed, 1200, 1.0)
    assert _findings(scene) == []


def test_a_few_gpus_are_no_peers() -> None:
    """A line through a handful of points says nothing."""
    scene, _ = _fleet(3, 1200, 0.5, peers=8)
    assert _findings(scene) == []
    assert len(_findings(scene, least_peers=8)) == 1


def test_a_gpu_at_rest_is_not_judged() -> None:
    """What it draws then has nothing to do with work."""
    chance, scene = np.random.default_rng(9), Scene()
    first, *others = scene.node("n1", PEERS)
    rest = {**_load(chance, 0.2), "sm_active_ratio": 0.0, "dram_active_ratio": 0.0}
    scene.run(1200, {first: rest, **{gpu: _load(chance) for gpu in others}})
    assert _findings(scene) == []


def test_a_missing_counter_is_no_claim() -> None:
    """A GPU of which the load is not known cannot be compared."""
    chance, scene = np.random.default_rng(11), Scene()
    first, *others = scene.node("n1", PEERS)
    blind = {**_load(chance, 0.5), "sm_active_ratio": None}
    scene.run(1200, {first: blind, **{gpu: _load(chance) for gpu in others}})
    assert _findings(scene) == []
