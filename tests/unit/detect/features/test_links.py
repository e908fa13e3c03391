"""Features of a job's links."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpumon.detect.features.table import features_of
from gpumon.detect.scene import WORKING, Scene

BUSY = WORKING


def _feature(scene: Scene, key: str) -> float:
    return float(features_of(scene.view()).column(key)[0])


def _scene(gpus: int, seconds: float = 1800.0, **values: Any) -> Scene:
    """One job on one node; `values` are of all GPUs, besides those of a busy one."""
    scene = Scene()
    uuids = scene.node("n1", gpus)
    scene.job("7", uuids)
    scene.run(seconds, {uuid: {**BUSY, **values} for uuid in uuids})
    return scene


@pytest.mark.parametrize(
    ("lanes", "most", "expected"),
    [
        ((16.0, 16.0, 16.0), (16.0, 16.0, 16.0), 1.0),
        ((16.0, 4.0, 16.0), (16.0, 16.0, 16.0), 0.25),
        ((8.0, 8.0, 16.0), (8.0, 8.0, 16.0), 1.0),
        ((12.0,), (16.0,), 0.75),
    ],
)
def test_the_narrowest_pcie_link_counts(
    lanes: tuple[float, ...], most: tuple[float, ...], expected: float
) -> None:
    """Of the GPU with the fewest lanes of those it could have; a narrow slot is whole."""
    scene = Scene()
    uuids = scene.node("n1", len(lanes))
    scene.job("7", uuids)
    scene.run(1200, {
        uuid: {**BUSY, "pcie_width": now, "pcie_width_max": could}
        for uuid, now, could in zip(uuids, lanes, most, strict=True)
    })  # fmt: skip
    assert _feature(scene, "pcie_lanes") == pytest.approx(expected)


def test_a_pcie_link_counts_at_its_widest() -> None:
    """A link that has been whole within the window is no narrow one."""
    widths: dict[str, Any] = {
        "pcie_width": lambda s: 16.0 if s > 1500 else 2.0,
        "pcie_width_max": 16.0,
    }
    assert _feature(_scene(2, **widths), "pcie_lanes") == pytest.approx(1.0)


@pytest.mark.parametrize("unknown", ["pcie_width", "pcie_width_max"])
def test_without_lanes_or_their_most_nothing_is_said_of_a_link(unknown: str) -> None:
    """Nor where most of the window is not known."""
    link: dict[str, Any] = {"pcie_width": 8.0, "pcie_width_max": 16.0}
    assert np.isnan(_feature(_scene(2, **{**link, unknown: None}), "pcie_lanes"))
    assert np.isnan(_feature(_scene(2, 300.0, **link), "pcie_lanes"))


def test_a_generation_counts_under_load_only() -> None:
    """It falls at rest, which tells nothing; under load the lowest GPU counts."""
    full: dict[str, Any] = {"pcie_gen": 4.0, "pcie_gen_max": 4.0}
    rests: dict[str, Any] = {**full, "gpu_util_ratio": 0.1, "pcie_gen": 1.0}
    assert np.isnan(_feature(_scene(2, **rests), "pcie_generation"))
    wave: dict[str, Any] = {**full, "gpu_util_ratio": lambda s: 0.9 if s % 600 < 300 else 0.0,
                    "pcie_gen": lambda s: 4.0 if s % 600 < 300 else 1.0}  # fmt: skip
    assert _feature(_scene(2, **wave), "pcie_generation") == pytest.approx(1.0)
    scene = Scene()
    uuids = scene.node("n1", 3)
    scene.job("7", uuids)
    gens = (4.0, 2.0, 4.0)
    scene.run(1200, {u: {**BUSY, **full, "pcie_gen": g} for u, g in zip(uuids, gens, strict=True)})
    assert _feature(scene, "pcie_generation") == pytest.approx(0.5)


def test_packets_sent_again_are_a_rate_of_the_worst_gpu() -> None:
    """None is 1/h or less; a counter that begins again is no rate."""
    scene = Scene()
    quiet, noisy = scene.node("n1", 2)
    scene.job("7", (quiet, noisy))
    scene.run(3600, {quiet: {**BUSY, "pcie_replay_count": 5.0},
                     noisy: {**BUSY, "pcie_replay_count": lambda s: s % 2000 / 10.0}})  # fmt: skip
    assert _feature(scene, "pcie_replays_60m") == pytest.approx(np.log10(360.0), abs=0.05)
    still = _scene(2, 3600.0, pcie_replay_count=70.0)
    assert _feature(still, "pcie_replays_60m") == 0.0
    assert np.isnan(_feature(_scene(2, pcie_replay_count=None), "pcie_replays_60m"))
    assert np.isnan(_feature(_scene(2, 300.0, pcie_replay_count=7.0), "pcie_replays_60m"))


def test_nvlinks_that_are_inactive_are_missed_at_their_gpu() -> None:
    """A link asleep is none that is lost; another job's is not counted; without any, missing."""
    scene = Scene()
    first, second, others = scene.node("n1", 3)
    scene.job("7", (first, second))
    scene.job("8", (others,))
    work = dict.fromkeys((first, second, others), BUSY)
    scene.run(1200, work)
    assert np.isnan(_feature(scene, "nvlinks"))
    for uuid in (first, second, others):
        scene.links(uuid, 8)
    scene.link(first, 0, link_state=2)
    scene.link(others, 0, link_state=0)
    scene.run(20, work)
    assert _feature(scene, "nvlinks") == 1.0
    scene.link(second, 3, link_state=0)
    scene.link(second, 4, link_state=None)
    scene.run(20, work)
    assert _feature(scene, "nvlinks") == pytest.approx(6 / 7)
