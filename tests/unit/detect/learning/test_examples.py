"""Which jobs of a labelled recording become examples, and of what."""

from __future__ import annotations

import numpy as np

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.cases import case_of
from gpumon.detect.learning.examples import Collector, Examples
from gpumon.detect.scene import START_AT, WORKING, Scene
from gpumon.model.records.label import HEALTHY, Label


def _label(finding_class: str, subject: str, start: float, end: float, lost: float | None) -> Label:
    return Label(subject, finding_class, START_AT + start, START_AT + end, gpu_seconds=lost)


def _collected(labels: list[Label], seconds: float = 3600.0) -> Examples:
    """Two jobs of one GPU each, a tick every five minutes."""
    scene, collector = Scene(), Collector()
    first, second = scene.node("n1", 2)
    scene.job("1", (first,))
    scene.job("2", (second,))
    collector.begin(labels)
    for _ in range(round(seconds / 300.0)):
        collector.take(scene.run(300.0, dict.fromkeys((first, second), WORKING)))
    return collector.examples()


def test_only_what_a_label_speaks_of_is_an_example() -> None:
    """Of the other job nobody knows."""
    found = _collected([_label(HEALTHY, "job:1", 0.0, 3600.0, None)])
    assert set(found.classes) == {frozenset()}
    assert len(set(found.jobs)) == 1


def test_the_first_and_the_last_minutes_of_a_fault_are_none() -> None:
    """The windows hold some of both then."""
    labels = [_label("hang", "job:1", 1500.0, 2400.0, 900.0),
              _label(HEALTHY, "job:2", 0.0, 3600.0, None)]  # fmt: skip
    found = _collected(labels)
    of_first = [one for job, one in zip(found.jobs, found.classes, strict=True) if job == 0]
    assert frozenset({"hang"}) in of_first
    # At 600, 900, 1200, then 1800 to 2400, then 3300 on: what lies between is neither.
    assert len(of_first) < len(found.classes) - len(of_first)
    assert of_first.count(frozenset({"hang"})) in (2, 3)


def test_two_faults_at_once_are_both_true() -> None:
    """And what they lose adds up, to all of it at most."""
    labels = [_label("input_bound", "job:1", 0.0, 3600.0, 1800.0),
              _label("small_batch", "job:1", 0.0, 3600.0, 2880.0)]  # fmt: skip
    found = _collected(labels)
    assert set(found.classes) == {frozenset({"input_bound", "small_batch"})}
    np.testing.assert_allclose(found.lost, 1.0)


def test_a_fault_of_a_gpu_is_its_jobs() -> None:
    """Whoever holds the GPU is no healthy example."""
    labels = [_label("throttled", "gpu:GPU-n1-0", 0.0, 3600.0, 360.0),
              _label(HEALTHY, "job:1", 0.0, 3600.0, None)]  # fmt: skip
    assert set(_collected(labels).classes) == {frozenset({"throttled"})}


def test_a_loss_that_nobody_tells_is_missing() -> None:
    """Not 0."""
    found = _collected([_label("hang", "job:1", 0.0, 3600.0, None)])
    assert np.isnan(found.lost).all()


def test_a_case_is_an_example_of_its_own_class_alone():
    """Right or wrong; of other classes nobody has said anything about its job."""
    row = np.full(len(FEATURES), np.nan)
    row[COLUMN["util_15m"]] = 0.9
    cases = [
        case_of("comm_bound", "7", row, "ada", 1.0, 0.4, is_right=True),
        case_of("straggler", "8", row, "ada", 2.0, 0.4, is_right=False),
    ]
    made = Examples.of_cases(cases)
    assert made.is_of("comm_bound").tolist() == [True, False]
    assert made.speaks_of("comm_bound").tolist() == [True, False]
    assert made.speaks_of("straggler").tolist() == [False, True]
    assert made.is_of("straggler").tolist() == [False, False]
    np.testing.assert_array_equal(made.lost, [0.4, np.nan])
    assert len(set(made.recordings)) == len(set(made.jobs)) == 2
    joined = Examples.joined([made, made])
    assert joined.judged == ["comm_bound", "straggler"] * 2
    assert len(set(joined.jobs)) == 4
    assert Examples.joined([Examples.of(()), made]).jobs == [0, 1]
