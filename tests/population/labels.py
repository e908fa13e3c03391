"""What is true of a population as labels beside a recording of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.model.records.label import HEALTHY, Label
from gpumon.sources.recording.labels import write_labels
from gpumon.sources.recording.write import RecordingWriter
from tests.population.fleet import FleetSource
from tests.population.machine import URL
from tests.worlds.clocks import Hasty

if TYPE_CHECKING:
    from pathlib import Path

    from tests.population.draft import Loss
    from tests.population.fleet import Case, Fleet


def record(fleet: Fleet, path: Path) -> int:
    """Write a population as a recording with labels; the number of these."""
    grid = fleet.grid
    clock = Hasty(float(grid.start_at))
    source = FleetSource(fleet, clock)
    writer = RecordingWriter(path, clock.now(), float(grid.period_s), [URL], is_forced=True)
    try:
        for number in range(grid.count):
            clock.time = float(grid.at(number))
            writer.frames(source.poll())
            writer.end_tick(clock.time, float(grid.period_s))
    finally:
        writer.close()
    labels = labels_of(fleet)
    write_labels(path, labels)
    return len(labels)


def labels_of(fleet: Fleet) -> list[Label]:
    """One label of each loss within the recording, and one of each job that loses nothing.

    Where several classes fit as well, the first is the label's: a label has one.
    """
    labels = []
    for case in fleet.cases:
        first = float(max(case.begin_at, fleet.grid.start_at))
        last = float(min(case.end_at, fleet.end_at))
        if first >= last:
            continue
        if not case.losses:
            labels.append(Label(f"job:{case.job_id}", HEALTHY, first, last))
        labels += [
            label for loss in case.losses if (label := _label(case, loss, first, last)) is not None
        ]
    return labels


def _label(case: Case, loss: Loss, first: float, last: float) -> Label | None:
    """A loss as far as it lies between two times; None where it does not."""
    begin, end = max(first, case.begin_at + loss.start), min(last, case.begin_at + loss.end)
    if begin >= end:
        return None
    origin = case.begin_at + loss.start
    share = np.broadcast_to(loss.share, (loss.end - loss.start,))
    lost_s = float(share[round(begin) - origin : round(end) - origin].sum()) * len(loss.gpus)
    subject = f"job:{case.job_id}"
    return Label(subject, loss.finding_class, begin, end, lost_s if loss.is_charged else None)
