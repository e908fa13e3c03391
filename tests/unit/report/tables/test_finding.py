"""What findings cost is in one unit, which the column's title names."""

from __future__ import annotations

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.finding import FINDING_COLUMNS
from tests.worlds.tick import finding, tick

LOST = next(column for column in FINDING_COLUMNS if column.key == "gpu_seconds")


@pytest.mark.parametrize(
    ("gpu_seconds", "shown"),
    [(58.0, "0.02h"), (140.0, "0.04h"), (5_400.0, "1.50h"), (61_000.0, "16.9h"), (None, "–")],
)
def test_losses_are_gpu_hours_however_large(gpu_seconds, shown):
    one = finding("job:7", gpu_seconds=gpu_seconds)
    assert LOST.title == "LOST"
    assert LOST.cell(Digest(tick(findings=(one,))), one).text == shown
