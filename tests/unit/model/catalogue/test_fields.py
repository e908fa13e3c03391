"""The catalogue: keys carry units, ranges are sound, origins are calls that really exist."""

from __future__ import annotations

import re

import pynvml
import pytest

from gpumon.model.catalogue.field import Field, Kind
from gpumon.model.catalogue.fields import CATALOGUE, LABELS, clock_event_names
from gpumon.probe.driver.gpm import METRICS

UNITS = {
    "_bytes_per_s": "bytes/s",
    "_per_s": "1/s",
    "_gbps": "Gb/s",
    "_us": "us",
    "_bytes": "bytes",
    "_ratio": "ratio",
    "_w": "W",
    "_j": "J",
    "_c": "C",
    "_mhz": "MHz",
    "_s": "s",
}
FIRST_KEYS = (
    *("gpu_util_ratio", "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio"),
    *("dram_active_ratio", "mem_used_bytes", "mem_total_bytes", "power_w", "power_limit_w"),
    *("energy_j", "temp_c", "sm_clock_mhz", "sm_clock_max_mhz", "clock_event_reasons"),
    *("pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max", "pcie_tx_bytes_per_s"),
    *("pcie_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"),
    *("encoder_util_ratio", "decoder_util_ratio"),
)
"""Keys that scripts rely on: taking one away breaks them."""

every_field = pytest.mark.parametrize("field", CATALOGUE.values(), ids=lambda field: field.key)


@pytest.mark.parametrize("key", FIRST_KEYS)
def test_the_keys_that_others_build_on_are_there(key: str) -> None:
    assert CATALOGUE[key].block == "gpu"


@every_field
def test_a_key_carries_its_unit(field: Field) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", field.key)
    unit = next((unit for end, unit in UNITS.items() if field.key.endswith(end)), "")
    assert field.unit == unit


@every_field
def test_a_range_is_sound_and_fits_its_column(field: Field) -> None:
    assert field.low < field.high
    assert field.high <= 2.0**63
    if field.unit == "ratio":
        assert (field.low, field.high) == (0.0, 1.0)
    if field.kind in (Kind.COUNTER, Kind.MASK, Kind.ID):
        assert field.low == 0
        assert field.kind.is_integer
    assert field.key.endswith("_per_s") is (field.kind is Kind.RATE)


@every_field
def test_a_field_explains_itself(field: Field) -> None:
    assert field.block in LABELS
    assert field.doc.endswith(".")
    assert field.origin
    if field.block == "gpu" and field.kind is not Kind.COUNTER:
        assert field.title


def test_keys_titles_and_metric_names_are_unique() -> None:
    assert all(key == field.key for key, field in CATALOGUE.items())
    names = [field.openmetrics for field in CATALOGUE.values()]
    assert len(set(names)) == len(names)
    titles = [field.title for field in CATALOGUE.values() if field.title and field.block == "gpu"]
    assert len(set(titles)) == len(titles)


@every_field
def test_an_origin_names_what_the_official_binding_knows(field: Field) -> None:
    for function in re.findall(r"\bnvml[A-Z]\w+", field.origin):
        assert hasattr(pynvml, function)
    for name, number in re.findall(r"(NVML_FI_\w+) \((\d+)", field.origin):
        assert getattr(pynvml, name) == int(number)


def test_gpm_metrics_are_those_of_the_probe() -> None:
    for metric, key, _ in METRICS:
        assert re.search(rf"GPM metric {metric}\b", CATALOGUE[key].origin), key


def test_labels_and_fields_of_a_block_do_not_collide() -> None:
    for block, labels in LABELS.items():
        keys = {field.key for field in CATALOGUE.values() if field.block == block}
        assert not keys & set(labels)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("power_w", "gpumon_power_watts"),
        ("energy_j", "gpumon_energy_joules_total"),
        ("temp_c", "gpumon_temp_celsius"),
        ("pcie_tx_bytes", "gpumon_pcie_tx_bytes_total"),
        ("gpu_util_ratio", "gpumon_gpu_util_ratio"),
        ("mem_used_bytes", "gpumon_mem_used_bytes"),
        ("uptime_s", "gpumon_uptime_seconds"),
        ("pcie_tx_bytes_per_s", "gpumon_pcie_tx_bytes_per_s"),
    ],
)
def test_openmetrics_names_spell_the_unit_out(key: str, name: str) -> None:
    assert CATALOGUE[key].openmetrics == name


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ()),
        (0x1, ("idle",)),
        (0x44, ("software power cap", "hardware thermal slowdown")),
        (0x180, ("hardware power brake", "display clocks")),
        (0x200, ("0x200",)),
        (0x1004, ("software power cap", "0x1000")),
        (2**63 - 1 & ~0x1FF, (f"0x{2**63 - 1 & ~0x1FF:x}",)),
    ],
)
def test_clock_event_names(mask: int, names: tuple[str, ...]) -> None:
    assert clock_event_names(mask) == names


def test_clock_event_bits_are_the_driver_s() -> None:
    assert clock_event_names(pynvml.nvmlClocksEventReasonGpuIdle) == ("idle",)
    assert clock_event_names(pynvml.nvmlClocksEventReasonSwPowerCap) == ("software power cap",)
    thermal = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    assert clock_event_names(thermal) == ("hardware thermal slowdown",)
    brake = pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
    assert clock_event_names(brake) == ("hardware power brake",)
