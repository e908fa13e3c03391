"""What counts as measured work, counter by counter."""

from __future__ import annotations

from math import nan

import pytest

from gpumon.model.records.block import Block, column_for
from gpumon.model.records.ledger import UNEXPLAINED, UNOBSERVED, USEFUL
from gpumon.model.work_floor import states_of


def state(**values):
    keys = {
        "sm": "sm_active_ratio", "util": "gpu_util_ratio", "graphics": "graphics_active_ratio",
        "tensor": "tensor_active_ratio", "dram": "dram_active_ratio", "power": "power_w",
        "limit": "power_limit_w", "encoder": "encoder_util_ratio", "decoder": "decoder_util_ratio",
        "nvlink": "nvlink_tx_bytes_per_s", "pcie": "pcie_rx_bytes_per_s",
    }  # fmt: skip
    columns = {keys[key]: column_for(False, [None, value]) for key, value in values.items()}
    first, second = states_of(Block(("x", "y"), columns, {}, {}))
    assert first == UNOBSERVED
    return second


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, UNOBSERVED),
        ({"power": 300.0, "limit": 700.0, "dram": nan}, UNOBSERVED),
        ({"sm": 0.0, "util": 0.0}, UNEXPLAINED),
        ({"sm": 0.31, "util": 0.4}, USEFUL),
        # A collective that waits: a kernel, at full utilisation, that touches nothing.
        ({"sm": 0.2, "util": 1.0, "tensor": 0.0, "dram": 0.01, "nvlink": 0.0}, UNEXPLAINED),
        ({"sm": 0.2, "util": 1.0, "tensor": 0.0, "dram": 0.01, "nvlink": 3e9}, USEFUL),
        ({"sm": 0.2, "util": 1.0, "tensor": 0.0, "dram": 0.01, "pcie": 4e6}, UNEXPLAINED),
        ({"sm": 0.2, "util": 1.0, "tensor": 0.08, "dram": 0.01}, USEFUL),
        ({"sm": 0.12, "util": 1.0, "tensor": 0.0, "dram": 0.45}, USEFUL),
        ({"sm": 0.0, "util": 0.0, "decoder": 0.6}, USEFUL),
        ({"util": 0.1, "encoder": 0.25}, USEFUL),
        # Small kernels of some kind: more than polling a flag.
        ({"sm": 0.11, "tensor": 0.0, "dram": 0.09}, USEFUL),
        ({"sm": 0.03, "tensor": 0.2, "dram": 0.1}, UNEXPLAINED),
        # Without the profiling counters power and utilisation decide together.
        ({"util": 0.97, "power": 560.0, "limit": 700.0}, USEFUL),
        ({"util": 1.0, "power": 130.0, "limit": 700.0}, UNEXPLAINED),
        ({"util": 1.0}, UNEXPLAINED),
        ({"util": 0.0, "power": 400.0, "limit": 700.0}, UNEXPLAINED),
        ({"graphics": 0.8, "power": 210.0, "limit": 300.0}, USEFUL),
        # A profiling counter that is at nought beside full power does not work.
        ({"sm": 0.0, "util": 0.95, "power": 600.0, "limit": 700.0}, USEFUL),
        ({"sm": 0.0, "util": 0.95, "power": 90.0, "limit": 700.0}, UNEXPLAINED),
    ],
)
def test_the_floor(values, expected):
    assert state(**values) == expected
