"""What bounds a GPU: shares of the time times what its data sheet promises at this clock."""

from __future__ import annotations

from math import isnan

import pytest

from gpumon.model.gpu.ceilings import (
    ceilings_of,
    clock_ratio,
    half_of,
    memory_bytes_per_s,
    operations_per_s,
    pipe_ratios,
)
from gpumon.model.gpu.hardware import sheet_named

H100, A100, V100 = (
    sheet_named(name)
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB")
)
assert H100
assert A100
assert V100

TRAINS = {
    "tensor_active_ratio": 0.4,
    "fp32_active_ratio": 0.06,
    "dram_active_ratio": 0.3,
    "sm_clock_mhz": 1830.0,
    "sm_clock_max_mhz": 1980.0,
}


def by_what(sheet, values):
    return {one.what: one for one in ceilings_of(sheet, values)}


def test_the_peaks_hold_at_the_clock_that_the_vendor_names():
    """132 SMs of 4 tensor cores, 512 multiply-adds a cycle each: 989 TFLOPS at 1830 MHz."""
    assert clock_ratio(H100, TRAINS) == 1.0
    tensor = by_what(H100, TRAINS)["bf16"]
    assert tensor.per_s == pytest.approx(132 * 4 * 512 * 2 * 1830e6, rel=1e-3)
    assert tensor.reached_per_s == pytest.approx(0.4 * 989e12)
    slower = by_what(H100, {**TRAINS, "sm_clock_mhz": 1215.0})["bf16"]
    assert slower.per_s == pytest.approx(989e12 * 1215 / 1830)
    assert slower.published_per_s == 989e12
    assert slower.ratio == tensor.ratio


def test_without_that_clock_it_is_the_highest_that_nvml_names():
    values = {"sm_clock_mhz": 1020.0, "sm_clock_max_mhz": 1530.0}
    assert clock_ratio(V100, values) == pytest.approx(2 / 3)
    assert isnan(clock_ratio(V100, {"sm_clock_mhz": 1020.0}))
    assert by_what(V100, {"tensor_active_ratio": 0.5, "sm_clock_mhz": 1020.0}) == {}


def test_the_pipe_that_does_the_most_comes_first():
    first, second, memory = ceilings_of(H100, TRAINS)
    assert (first.what, second.what, memory.what) == ("bf16", "fp32", "memory")
    assert [one.is_compute for one in (first, second, memory)] == [True, True, False]
    only_simple = {**TRAINS, "tensor_active_ratio": 0.001, "fp32_active_ratio": 0.8}
    assert ceilings_of(H100, only_simple)[0].what == "fp32"


def test_integers_and_double_precision_are_no_halves():
    values = {
        "tensor_active_ratio": 0.6,
        "tensor_imma_active_ratio": 0.25,
        "tensor_dfma_active_ratio": 0.0,
        "tensor_dmma_active_ratio": 0.15,
    }
    found = pipe_ratios(H100, values)
    assert found["int8"] == 0.25
    assert found["fp64_tensor"] == 0.15
    assert found["bf16"] == pytest.approx(0.2)
    rounded = {"tensor_active_ratio": 0.2, "tensor_imma_active_ratio": 0.21}
    assert pipe_ratios(H100, rounded)["bf16"] == 0.0


def test_a_sheet_names_its_own_precision_of_16_bits():
    assert [half_of(sheet) for sheet in (H100, A100, V100)] == ["bf16", "bf16", "fp16"]
    assert "fp64_tensor" not in pipe_ratios(V100, {"tensor_dfma_active_ratio": 0.5})


def test_operations_for_each_byte():
    done, moved = operations_per_s(H100, TRAINS), memory_bytes_per_s(H100, TRAINS)
    assert done == pytest.approx(0.4 * 989e12 + 0.06 * 67e12)
    assert moved == pytest.approx(0.3 * 3.35e12)
    assert isnan(operations_per_s(H100, {"dram_active_ratio": 0.2, "sm_clock_mhz": 1830.0}))
    assert isnan(memory_bytes_per_s(H100, {"tensor_active_ratio": 0.2}))


def test_of_a_link_the_busier_direction_counts():
    values = {
        "nvlink_rx_bytes_per_s": 90e9,
        "nvlink_tx_bytes_per_s": 360e9,
        "pcie_rx_bytes_per_s": 3.0e9,
        "pcie_gen": 4.0,
        "pcie_width": 8.0,
    }
    found = by_what(H100, values)
    assert found["nvlink"].ratio == pytest.approx(0.8)
    assert found["pcie"].ratio == pytest.approx(3.0 / 15.75, rel=0.01)
    assert "pcie" not in by_what(H100, {"pcie_rx_bytes_per_s": 3.0e9})


def test_where_nothing_is_known_nothing_bounds():
    assert ceilings_of(A100, {}) == ()
    assert ceilings_of(A100, {"sm_clock_mhz": 1410.0, "gpu_util_ratio": 1.0}) == ()
