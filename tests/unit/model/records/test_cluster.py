"""A GPU's newest values: what is stale is missing, what it is stays known."""

from __future__ import annotations

import pytest

from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Gpu


def gpu(is_stale: bool = False, row: int = 1) -> Gpu:
    block = Block(
        ("GPU-a", "GPU-b"),
        {
            "temp_c": column_for(False, [40, 50]),
            "power_w": column_for(False, [100, None]),
            "index": column_for(True, [0, 1]),
            "minor_number": column_for(True, [None, 0]),
        },
        {"name": ("A100", "H100")},
        {("power_w", 1): Reason.NO_PERMISSION},
    )
    return Gpu(block.keys[row], "n1", block, row, 1.0, "local", is_stale, ())


def test_values_are_those_of_its_own_row() -> None:
    assert gpu().value("temp_c") == 50
    assert gpu(row=0).value("temp_c") == 40
    assert gpu().label("name") == "H100"
    assert gpu().reason("temp_c") is None
    assert gpu().reason("power_w") is Reason.NO_PERMISSION


@pytest.mark.parametrize("key", ["temp_c", "power_w", "mem_used_bytes"])
def test_a_stale_gpu_has_no_values_and_says_so(key: str) -> None:
    assert gpu(is_stale=True).value(key) is None
    assert gpu(is_stale=True).reason(key) is Reason.STALE


def test_what_a_stale_gpu_is_stays_known() -> None:
    assert gpu(is_stale=True).label("name") == "H100"
    assert gpu(is_stale=True).nvml_index == 1
    assert gpu(is_stale=True).minor_number == 0


def test_numbers_that_name_are_integers_or_unknown() -> None:
    assert gpu(row=0).nvml_index == 0
    assert gpu(row=0).minor_number is None
