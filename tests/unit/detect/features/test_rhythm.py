"""Features of a job's beat, and of what goes on meanwhile off its GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.features.table import features_of
from gpumon.detect.scene import WORKING, Scene, Values

PERIODS = (70.0, 130.0, 300.0)


def _scene(wave: Values, seconds: float = 3600.0, gpus: int = 2, **cgroup: object) -> Scene:
    scene = Scene()
    uuids = scene.node("n1", gpus)
    scene.job("7", uuids, cpu_count=32)
    scene.host("n1", cpu_count=64, cpu_busy_ratio=0.2)
    scene.cgroup("7", job_cpu_count=32, **cgroup)
    scene.run(seconds, {uuid: {**WORKING, **wave} for uuid in uuids})
    return scene


def _feature(scene: Scene, key: str) -> float:
    return float(features_of(scene.view()).column(key)[0])


@pytest.mark.parametrize("period_s", PERIODS)
def test_the_beat_is_found(period_s: float) -> None:
    """A dip every so often."""
    scene = _scene({"sm_active_ratio": lambda s: 0.1 if s % period_s < 0.3 * period_s else 0.6})
    assert 10 ** _feature(scene, "period") == pytest.approx(period_s, rel=0.12)
    assert _feature(scene, "beat") > 0.5


def test_steady_work_has_no_beat() -> None:
    """No period, and nothing pauses."""
    scene = _scene({"sm_active_ratio": 0.5})
    assert np.isnan(_feature(scene, "period"))
    assert _feature(scene, "pause_share_60m") == 0.0
    assert np.isnan(_feature(scene, "pause_s_60m"))


def test_pauses_are_counted_and_measured() -> None:
    """Every ten minutes a pause of a minute and a half."""
    scene = _scene({"sm_active_ratio": lambda s: 0.0 if s % 600 < 90 else 0.6})
    assert _feature(scene, "pauses_60m") == pytest.approx(6.0, abs=1.0)
    assert 10 ** _feature(scene, "pause_s_60m") == pytest.approx(90.0, abs=10.0)
    assert _feature(scene, "pause_share_60m") == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize(("in_pause", "expected"), [(4e9, 1.0), (0.0, 0.0)])
def test_what_is_written_in_pauses(in_pause: float, expected: float) -> None:
    """All of it, or none."""
    at_work = 0.0 if in_pause else 4e9
    scene = _scene(
        {"sm_active_ratio": lambda s: 0.0 if s % 600 < 90 else 0.6},
        job_io_write_bytes_per_s=lambda s: in_pause if s % 600 < 90 else at_work,
    )
    assert _feature(scene, "pause_write") == pytest.approx(expected, abs=0.05)


def test_cpus_that_follow_the_gpus() -> None:
    """One with the other, or one instead of the other."""
    wave: Values = {"sm_active_ratio": lambda s: 0.1 if s % 200 < 100 else 0.6}
    with_it = _scene(wave, job_cpu_cores_used=lambda s: 2.0 if s % 200 < 100 else 20.0)
    instead = _scene(wave, job_cpu_cores_used=lambda s: 20.0 if s % 200 < 100 else 2.0)
    assert _feature(with_it, "cpu_follows") == pytest.approx(1.0, abs=0.05)
    assert _feature(instead, "cpu_follows") == pytest.approx(-1.0, abs=0.05)


def test_a_job_that_does_ever_less() -> None:
    """The last quarter of an hour beside the first."""
    scene = _scene({"sm_active_ratio": lambda s: 0.6 if s < 1800 else 0.45})
    assert _feature(scene, "drift_60m") == pytest.approx(-0.25, abs=0.01)


def test_without_sm_counters_utilisation_tells() -> None:
    """The beat of a board that has none."""
    wave: Values = {"sm_active_ratio": None,
                    "gpu_util_ratio": lambda s: 0.1 if s % 120 < 40 else 1.0}  # fmt: skip
    assert 10 ** _feature(_scene(wave), "period") == pytest.approx(120.0, rel=0.1)


def test_cpus_for_each_gpu() -> None:
    """Cores, and the share of what it may use."""
    scene = _scene({}, job_cpu_cores_used=8.0)
    assert _feature(scene, "cores_per_gpu") == pytest.approx(4.0)
    assert _feature(scene, "cpu_share") == pytest.approx(0.25)


def test_a_neighbours_traffic_is_not_the_jobs() -> None:
    """Two jobs on a node: whose bytes go over its network nobody can say."""
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("1", uuids[:1])
    scene.host("n1", net_rx_bytes_per_s=1e9, net_tx_bytes_per_s=1e9, cpu_count=64)
    scene.run(1800, dict.fromkeys(uuids, WORKING))
    alone = _feature(scene, "network")
    scene.job("2", uuids[1:])
    scene.run(600, dict.fromkeys(uuids, WORKING))
    assert alone == pytest.approx(np.log10(2e9))
    assert np.isnan(_feature(scene, "network"))
