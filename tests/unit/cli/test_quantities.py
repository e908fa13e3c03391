"""Sizes as people type them."""

from __future__ import annotations

import pytest

from gpumon.cli.quantities import MIN_SIZE, size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("2G", 2**31), ("1K", MIN_SIZE), ("700.5M", 734_527_488), ("900000000000T", 2**60)],
)
def test_a_size_is_one_that_a_disk_may_have(text: str, size_bytes: int) -> None:
    assert size(text) == size_bytes
