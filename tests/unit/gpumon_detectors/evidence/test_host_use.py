"""The quieter quarter of what a host did."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon_detectors.evidence.host_use import lower_quartile


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 61, 360, 1001])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 3e9])
def test_the_lower_quartile_is_numpys(count, scale):
    values = np.random.default_rng(count).exponential(scale, count)
    before = values.copy()
    assert lower_quartile(values) == np.percentile(values, 25)
    assert (values == before).all()
    same = np.full(count, scale)
    assert lower_quartile(same) == scale
