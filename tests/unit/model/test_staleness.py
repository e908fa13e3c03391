"""From when on a value is not the present any more."""

from __future__ import annotations

import pytest

from gpumon.model.staleness import stale_after_s


@pytest.mark.parametrize(
    ("period_s", "limit_s"), [(0.5, 5.0), (1.0, 5.0), (2.0, 6.0), (30.0, 90.0)]
)
def test_three_periods_are_stale_but_never_less_than_five_seconds(
    period_s: float, limit_s: float
) -> None:
    assert stale_after_s(period_s) == limit_s
