from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.contract import Declaration
from gpumon.detect.scene import START_AT, UNUSED, WORKING, Scene
from gpumon.detect.worker.coverage import places_of
from gpumon.fleet.history.chunk import Chunk
from gpumon.model.finding import Severity, Window

DECLARED = Declaration("d", "1", ("d",), ("power_w", "temp_c"), 60.0, 600.0)


def everywhere(uuids, values):
    return dict.fromkeys(uuids, values)


def test_no_window_crosses_from_one_job_into_the_next():
    scene = Scene()
    (gpu,) = scene.node("n", 1)
    scene.job("1", [gpu])
    scene.run(100, {gpu: {**WORKING, "power_w": 500.0}})
    scene.end("1")
    scene.job("2", [gpu])
    scene.run(50, {gpu: {**WORKING, "power_w": 200.0}})
    (job,) = scene.view().jobs
    assert job.window(gpu, "power_w", 3600.0).values.tolist() == [200.0] * 5
    assert len(scene.view().series(gpu, "power_w", 3600.0).values) == 15


def test_a_gpu_that_joined_a_job_late_counts_from_then_on():
    scene = Scene()
    first, second = scene.node("n", 2)
    scene.job("1", [first], start_at=START_AT)
    scene.run(100, {})
    scene.job("1", [first, second], start_at=START_AT)
    scene.run(50, {})
    (job,) = scene.view().jobs
    assert job.held_since(first) == START_AT
    assert job.held_since(second) == START_AT + 100
    assert len(job.window(first, "power_w", 3600.0).times) == 15
    assert len(job.window(second, "power_w", 3600.0).times) == 5
    assert len(job.table(("power_w",), 3600.0).times) == 5


def test_when_there_are_rows_is_told_without_a_look_at_any_entity(monkeypatch):
    """Every detector asks at every look how far apart values are."""
    scene = Scene()
    scene.node("n", 2)
    scene.run(100, {})
    monkeypatch.delattr(Chunk, "places")
    times, _, values, _ = scene.view().history.slab((), ("power_w",), START_AT, START_AT + 100)
    assert len(times) == 10
    assert values.shape == (10, 1, 0)


def test_a_table_begins_after_the_last_gap():
    scene = Scene()
    gpus = scene.node("n", 2)
    scene.job("1", gpus)
    scene.run(100, {})
    scene.skip(25)
    scene.run(100, {})
    (job,) = scene.view().jobs
    assert len(job.table(("power_w",), 3600.0).times) == 10
    scene.skip(20)
    scene.run(100, {})
    (job,) = scene.view().jobs
    assert len(job.table(("power_w",), 3600.0).times) == 20


def test_what_is_kept_every_ten_seconds_has_a_table_at_every_look():
    scene = Scene(period_s=1.0)
    uuids = scene.node("n", 1)
    scene.job("1", uuids, cpu_count=8)
    scene.cgroup("1", job_cpu_cores_used=2.0)
    lengths = []
    for _ in range(45):
        scene.run(1, everywhere(uuids, WORKING))
        (job,) = scene.view().jobs
        lengths.append(len(job.cgroup(("job_cpu_cores_used",), 3600.0).times))
    assert min(lengths) == 1
    assert lengths == sorted(lengths)
    assert lengths[-1] == 5


def test_latest_values_and_missing_keys():
    scene = Scene()
    gpus = scene.node("n", 2)
    scene.job("1", gpus)
    scene.run(20, {gpus[0]: {"power_w": 500.0}, gpus[1]: {"power_w": None, "temp_c": 40.0}})
    (job,) = scene.view().jobs
    assert np.array_equal(job.latest("power_w"), [500.0, np.nan], equal_nan=True)
    assert job.missing(("power_w", "temp_c")) == ("power_w", "temp_c")
    scene.run(20, everywhere(gpus, {"power_w": 1.0}))
    (job,) = scene.view().jobs
    assert job.missing(("power_w", "temp_c")) == ("temp_c",)


def test_gpus_that_no_telemetry_names_are_unknown():
    scene = Scene()
    gpus = scene.node("n", 2)
    scene.job("1", [*gpus, "GPU-elsewhere-0"], gpus_unknown=2)
    scene.run(20, {})
    (job,) = scene.view().jobs
    assert job.uuids == gpus
    assert job.gpus_unknown == 3


def test_arrays_cannot_be_written():
    scene = Scene()
    gpus = scene.node("n", 1)
    scene.job("1", gpus)
    scene.run(20, {})
    (job,) = scene.view().jobs
    with pytest.raises(ValueError, match="read-only"):
        job.window(gpus[0], "power_w", 99.0).values[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        job.table(("power_w",), 99.0).columns["power_w"][0, 0] = 1.0


def test_a_finding_gets_the_confidence_of_its_window():
    scene = Scene()
    scene.run(20, {})
    view = scene.view()

    def confidence(window):
        found = view.finding(
            DECLARED_DETECTOR,
            subject="node:n",
            severity=Severity.INFO,
            summary="x",
            window=window,
            evidence=(),
        )
        return found.confidence.value

    assert confidence(Window(0.0, 59.0, 60)) == "hypothesis"
    assert confidence(Window(0.0, 60.0, 60)) == "supported"
    assert confidence(Window(0.0, 600.0, 60)) == "established"


class DECLARED_DETECTOR:  # noqa: N801
    name = "d"
    finding_classes = ("d",)
    supported_after_s = 60.0
    established_after_s = 600.0


def test_coverage_counts_blind_jobs_and_names_what_is_missing():
    scene = Scene()
    gpus = scene.node("n", 4)
    scene.job("1", gpus[:2])
    scene.job("2", gpus[2:3])
    scene.job("3", gpus[3:], gpus_unknown=1)
    whole = {"power_w": 1.0, "temp_c": 2.0}
    scene.run(100, {**everywhere(gpus, whole), gpus[1]: {"power_w": 1.0}})
    got = places_of(scene.view(), DECLARED)[0]
    assert (got.subjects_seen, got.subjects_blind) == (1, 2)
    assert got.missing_fields == ("temp_c",)
    assert got.state == "ok"
    by_gpu = places_of(scene.view(), DECLARED._replace(subjects="gpu"))[0]
    assert (by_gpu.subjects_seen, by_gpu.subjects_blind) == (3, 1)


def test_coverage_waits_for_the_window():
    scene = Scene()
    gpus = scene.node("n", 1)
    scene.job("1", gpus)
    scene.run(50, everywhere(gpus, UNUSED))
    got = places_of(scene.view(), DECLARED)[0]
    assert (got.state, got.note) == ("waiting", "observed for 40 s of 60 s")


def test_coverage_without_jobs_counts_nothing():
    scene = Scene()
    scene.run(0, {})
    got = places_of(scene.view(), DECLARED)[0]
    assert (got.subjects_seen, got.subjects_blind, got.missing_fields) == (0, 0, ())
