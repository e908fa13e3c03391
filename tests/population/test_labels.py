"""Populations as recordings: labels are valid, within the recording, and lose what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.finding_classes import CLASSES
from gpumon.model.records.label import HEALTHY
from gpumon.sources.recording.labels import read_labels
from gpumon.sources.recording.source import Playback, Recording
from tests.population.fleet import Fleet, Plan
from tests.population.labels import labels_of, record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(Plan(417, jobs=12, hours=3.0, period_s=60))


def test_every_job_is_told_of_and_nothing_lies_outside(fleet: Fleet) -> None:
    labels = labels_of(fleet)
    assert {x.finding_class for x in labels} <= {*CLASSES, HEALTHY}
    told = {x.subject for x in labels}
    for case in fleet.cases:
        if case.begin_at < fleet.end_at and case.end_at > fleet.grid.start_at and not case.losses:
            assert f"job:{case.job_id}" in told
    for label in labels:
        assert fleet.grid.start_at <= label.start < label.end <= fleet.end_at


def test_a_loss_is_what_its_gpus_lost_within_the_recording(fleet: Fleet) -> None:
    cases = {f"job:{case.job_id}": case for case in fleet.cases}
    compared = 0
    for label in labels_of(fleet):
        if label.gpu_seconds is None:
            continue
        gpus = len(cases[label.subject].gpus)
        assert 0.0 <= label.gpu_seconds <= gpus * (label.end - label.start) + 1.0
        (loss, *others) = [
            x
            for x in cases[label.subject].losses
            if x.finding_class == label.finding_class and x.is_charged
        ]
        if not others and isinstance(loss.share, float):
            lost_s = loss.share * len(loss.gpus) * (label.end - label.start)
            assert label.gpu_seconds == pytest.approx(lost_s, abs=2.0 * gpus)
            compared += 1
    assert compared


def test_a_recording_of_it_is_read_without_a_complaint(fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "population.gpumon"
    told = labels_of(fleet)
    assert record(fleet, path) == len(told)
    read = read_labels(path)
    assert [x[:4] for x in read] == [x[:4] for x in told]
    playback = Playback(Recording(path))
    heard = {frame.node for beat in playback.by_tick() for frame in beat.frames}
    assert heard >= {machine.name for machine in fleet.machines}
    assert not playback.problems
