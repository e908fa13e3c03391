"""Features of jobs: what they are made of, when they are missing, that they know no names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpumon.detect.features import samples as reading
from gpumon.detect.features.table import COLUMN, FEATURES, features_of
from gpumon.detect.scene import HELD, WORKING, Scene, Values, working
from gpumon.model.catalogue.fields import CATALOGUE

BUSY: Values = {
    **WORKING, "tensor_active_ratio": 0.3, "dram_active_ratio": 0.2, "power_limit_w": 700.0,
    "sm_clock_mhz": 1700.0, "sm_clock_max_mhz": 1980.0,
}  # fmt: skip


def _feature(scene: Scene, key: str, job: int = 0) -> float:
    return float(features_of(scene.view()).column(key)[job])


def _scene(gpus: int = 4, seconds: float = 1800.0, period_s: float = 10.0, **values: Any) -> Scene:
    """One job on one node; `values` are of all GPUs, besides those of a busy one."""
    scene = Scene(period_s=period_s)
    uuids = scene.node("n1", gpus)
    scene.job("7", uuids, cpu_count=16)
    scene.run(seconds, {uuid: {**BUSY, **values} for uuid in uuids})
    return scene


def test_every_feature_is_documented_and_made_of_fields() -> None:
    """Unit, sources, and what absence means; no two have one name."""
    assert len(COLUMN) == len(FEATURES)
    for feature in FEATURES:
        assert set(feature.fields) <= set(CATALOGUE), feature.key
        assert feature.doc.endswith(".")
        assert feature.absence


def test_levels_are_means_over_all_gpus() -> None:
    """Shares of what there is."""
    scene = _scene(power_w=350.0, mem_used_bytes=20.0 * 2**30)
    assert _feature(scene, "util_15m") == pytest.approx(0.9)
    assert _feature(scene, "power_15m") == pytest.approx(0.5)
    assert _feature(scene, "mem_15m") == pytest.approx(0.25)
    assert _feature(scene, "tensor_per_sm_15m") == pytest.approx(0.5)
    assert _feature(scene, "gpus") == 2.0
    assert _feature(scene, "alone") == 1.0


@pytest.mark.parametrize("period_s", [1.0, 5.0, 10.0, 30.0, 60.0])
def test_the_period_hardly_changes_them(period_s: float) -> None:
    """Work for five minutes, rest for as long, whatever the beat is."""
    keys = ("gpu_util_ratio", "sm_active_ratio")
    wave: Values = dict.fromkeys(keys, lambda s: 0.8 if s % 600 < 300 else 0.0)
    scene = _scene(2, 3600.0, period_s, **wave)
    assert _feature(scene, "util_60m") == pytest.approx(0.4, abs=0.02)
    assert _feature(scene, "rest_share_60m") == pytest.approx(0.5, abs=0.03)
    assert _feature(scene, "bursts_60m") == pytest.approx(6.0, abs=1.1)
    assert _feature(scene, "pauses_60m") == pytest.approx(6.0, abs=1.1)


def test_what_is_missing_is_never_zero() -> None:
    """Without profiling counters nothing is told that needs them, and the rest is."""
    scene = _scene(sm_active_ratio=None, tensor_active_ratio=None, dram_active_ratio=None)
    for feature in FEATURES:
        is_blind = set(feature.fields) & {"tensor_active_ratio", "dram_active_ratio"}
        if is_blind or feature.fields == ("sm_active_ratio",):
            assert np.isnan(_feature(scene, feature.key)), feature.key
    assert _feature(scene, "util_15m") == pytest.approx(0.9)
    assert np.isfinite(_feature(scene, "beat"))


def test_most_of_a_window_must_be_known() -> None:
    """After five minutes nothing is said of an hour."""
    scene = _scene(seconds=300.0)
    assert np.isnan(_feature(scene, "util_60m"))
    assert np.isnan(_feature(scene, "util_15m"))
    assert _feature(scene, "observed") == pytest.approx(300.0, abs=20.0)


def test_what_was_before_the_job_is_another_jobs() -> None:
    """A GPU that worked for somebody else counts from when the job holds it."""
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("1", uuids)
    scene.run(2000, dict.fromkeys(uuids, BUSY))
    scene.end("1")
    scene.job("2", uuids)
    scene.run(1800, {uuid: {**BUSY, "gpu_util_ratio": 0.1} for uuid in uuids})
    assert _feature(scene, "util_60m") == pytest.approx(0.1, abs=0.01)


def test_names_tell_nothing() -> None:
    """Another name, user and program: the same numbers."""
    tables = []
    for name, user, program in (("train", "ann", "python"), ("jupyter", "bob", "vllm")):
        scene = Scene()
        uuids = scene.node("n1", 2)
        scene.job("7", uuids, name=name, user=user, account=user, partition=name)
        scene.process(4242, uuids, job_id="7", name=program, uid=1000)
        scene.run(1800, dict.fromkeys(uuids, BUSY))
        tables.append(features_of(scene.view()).values)
    np.testing.assert_array_equal(*tables)


def test_they_are_computed_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks second gets what the first one got; of new jobs only those are read."""
    scene = Scene()
    first, second = scene.node("n1", 2)
    scene.job("1", (first,))
    scene.job("2", (second,))
    scene.run(1800, working((first, second)))
    view = scene.view()
    one = features_of(view, view.running[:1])
    read = []
    original = reading.samples_of
    monkeypatch.setattr(
        "gpumon.detect.features.table.samples_of",
        lambda view, jobs, *rest, **more: (
            read.append(len(jobs)) or original(view, jobs, *rest, **more)
        ),
    )
    both = features_of(view)
    assert read == [1]
    np.testing.assert_array_equal(one.values[0], both.values[0])


def test_what_is_not_asked_for_is_not_computed() -> None:
    """And says the same when it is, whoever asked for what before."""
    scene = _scene(seconds=3600.0)
    whole = features_of(scene.view()).values[0]
    view = scene.view()
    part = features_of(view, keys=("power_15m", "gpus")).values[0].copy()
    assert np.isfinite(part[COLUMN["power_15m"]])
    for key in ("power_60m", "power_lag", "beat", "host_cpu"):
        assert np.isnan(part[COLUMN[key]])
    known = np.isfinite(part)
    np.testing.assert_array_equal(part[known], whole[known])
    np.testing.assert_array_equal(features_of(view).values[0], whole)


def test_jobs_are_read_in_batches_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many are read at once changes nothing."""
    scene = Scene()
    loads: dict[str, Values] = {}
    for number in range(5):
        uuids = scene.node(f"n{number}", 3)
        scene.job(str(number), uuids)
        loads.update({uuid: {**BUSY, "sm_active_ratio": 0.1 + 0.1 * number} for uuid in uuids})
    scene.run(1200, loads)
    whole = features_of(scene.view()).values
    monkeypatch.setattr(reading, "_MOST_VALUES", 20_000)
    np.testing.assert_array_equal(features_of(scene.view()).values, whole)


def test_a_job_without_known_gpus_has_no_features() -> None:
    """All are missing, and others are told as ever."""
    scene = Scene()
    uuids = scene.node("n1", 1)
    scene.job("1", uuids)
    scene.job("2", (), gpus_unknown=4)
    scene.run(1200, working(uuids))
    values = features_of(scene.view()).values
    assert np.isfinite(values[0]).any()
    assert np.isnan(values[1]).all()


def test_a_gap_is_not_filled() -> None:
    """Ten minutes without a sample are ten minutes of which nothing is known."""
    scene = _scene(2, 600.0)
    scene.skip(600.0)
    scene.run(300.0, dict.fromkeys(("GPU-n1-0", "GPU-n1-1"), BUSY))
    assert _feature(scene, "observed") == pytest.approx(900.0, abs=30.0)


def test_large_jobs_are_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs evenly spread stand for all."""
    monkeypatch.setattr(reading, "MOST_GPUS", 4)
    scene = Scene()
    uuids = scene.node("n1", 16)
    scene.job("1", uuids)
    low: Values = {**HELD, "sm_active_ratio": 0.0}
    scene.run(1200, {uuid: BUSY if place % 4 == 0 else low for place, uuid in enumerate(uuids)})
    assert _feature(scene, "util_15m") == pytest.approx(0.9)
    assert _feature(scene, "gpus") == 4.0
