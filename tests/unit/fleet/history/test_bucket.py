"""Which rows a coarse one is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpumon.fleet.history.bucket import Bucket
from gpumon.fleet.history.chunk import Stamp

KEYS, GPUS = ("gpu_util_ratio",), ["a"]
SOURCE: Any = SimpleNamespace(entities=GPUS, columns={"a": 0}, fields={"gpu_util_ratio": 0})


@pytest.mark.parametrize(("begin", "goes_on"), [(2.0, True), (4.0, True), (4.1, False)])
def test_a_gap_of_more_than_three_periods_ends_it(begin: float, goes_on: bool) -> None:
    bucket = Bucket(KEYS, GPUS)
    bucket.stamp = Stamp(1.0, 1.0, 1.0, 1)
    assert bucket.goes_on(Stamp(begin, begin, 1.0, 1), 60.0, SOURCE) is goes_on
