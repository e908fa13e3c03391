"""What a page of dcgm-exporter becomes: fields by every name of DCGM's, units, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.sources.exporters import dcgm
from gpumon.sources.exporters.dcgm import PageReader, Reading
from gpumon.sources.exporters.gpu_names import FREE, METRICS
from tests.unit.sources.exporters.page_server import labels, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.block import Block

NOW = 1_795_260_000.0


def read(body: bytes, reader: PageReader | None = None, at: float = 10.0) -> Reading:
    (found,) = (reader or PageReader("gpu01")).read(body, NOW + at, at)
    return found


def gpus(body: bytes) -> Block:
    return read(body).blocks["gpu"]


def line(name: str, value: float | str, **others: str) -> bytes:
    return f"DCGM_FI_{name}{{{labels(**others)}}} {value}\n".encode()


@pytest.mark.parametrize(
    ("name", "reported", "key", "value"),
    [
        ("DEV_GPU_UTIL", 97, "gpu_util_ratio", 0.97),
        ("DEV_GPU_UTIL_RATIO", 97, "gpu_util_ratio", 0.97),
        ("DEV_MEM_COPY_UTIL", 40, "mem_activity_ratio", 0.4),
        ("DEV_ENC_UTIL", 5, "encoder_util_ratio", 0.05),
        ("PROF_SM_ACTIVE", 0.25, "sm_active_ratio", 0.25),
        ("PROF_SM_UTIL_RATIO", 0.25, "sm_active_ratio", 0.25),
        ("PROF_PIPE_TENSOR_ACTIVE", 0.5, "tensor_active_ratio", 0.5),
        ("PROF_TENSOR_UTIL_RATIO", 0.5, "tensor_active_ratio", 0.5),
        ("PROF_DRAM_ACTIVE", 0.5, "dram_active_ratio", 0.5),
        ("DEV_FB_USED", 1000, "mem_used_bytes", 1000 * 2**20),
        ("DEV_POWER_USAGE", 412.5, "power_w", 412.5),
        ("DEV_BOARD_POWER_WATTS", 412.5, "power_w", 412.5),
        ("DEV_ENFORCED_POWER_LIMIT", 700, "power_limit_w", 700.0),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", 123456789, "energy_j", 123456),
        ("DEV_GPU_TEMP", 61, "temp_c", 61.0),
        ("DEV_GPU_TEMP_CELSIUS", 61, "temp_c", 61.0),
        ("DEV_MEMORY_TEMP_CELSIUS", 61, "mem_temp_c", 61.0),
        ("DEV_CLOCK_THROTTLE_REASONS", 4, "clock_event_reasons", 4),
        ("DEV_CLOCKS_EVENT_REASONS", 4, "clock_event_reasons", 4),
        ("DEV_POWER_VIOLATION", 5_000_000, "sw_power_cap_us", 5000),
        ("PROF_PCIE_TX_BYTES", 5e9, "pcie_tx_bytes_per_s", 5e9),
        ("PROF_NVLINK_RX_BYTES", 5e9, "nvlink_rx_bytes_per_s", 5e9),
        ("DEV_ECC_DBE_VOL_TOTAL", 2, "ecc_uncorrected_volatile_count", 2),
        ("DEV_ROW_REMAP_PENDING", 3, "remap_pending", 1),
        ("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 7, "nvlink_crc_flit_count", 7),
        ("DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", 7, "nvlink_crc_flit_count", 7),
    ],
)
def test_each_name_is_a_field_in_its_unit(
    name: str, reported: float, key: str, value: float
) -> None:
    block = gpus(line(name, reported))
    assert block.value(key, 0) == pytest.approx(value)
    assert (key, 0) not in block.missing


def test_no_two_fields_have_one_name_and_each_dcgm_name_of_the_catalogue_is_known() -> None:
    named = [field.dcgm for field in CATALOGUE.values() if field.dcgm]
    assert len(set(named)) == len(named)
    assert set(named) <= set(METRICS)
    assert all(metric.field.key in {*CATALOGUE, FREE} for metric in METRICS.values())


def test_gpus_are_in_their_order_with_what_labels_say() -> None:
    block = gpus(line("DEV_GPU_UTIL", 1, gpu=10) + line("DEV_GPU_UTIL", 2, gpu=2))
    assert block.keys == ("GPU-2", "GPU-10")
    assert [block.value("gpu_util_ratio", row) for row in (0, 1)] == [0.02, 0.01]
    assert [block.value("index", row) for row in (0, 1)] == [2, 10]
    assert [block.value("minor_number", row) for row in (0, 1)] == [2, 10]
    assert block.label("name", 0) == "NVIDIA H100 80GB HBM3"
    assert block.label("pci_bus_id", 1) == "00000000:25:00.0"


@pytest.mark.parametrize(
    "drift",
    [
        {"UUID": "", "uuid": "GPU-0"},
        {"Hostname": "", "hostname": "gpu01"},
        {"modelName": "", "model_name": "NVIDIA H100 80GB HBM3"},
        {"pod": "trainer-0", "namespace": "team", "container": "main", "pod_uid": "1-2"},
        {"pod_name": "", "container_name": "x", "vgpu": "", "dra_device": "gpu-0"},
        {"DCGM_FI_DRIVER_VERSION": "", "DCGM_FI_SYSTEM_DRIVER_VERSION": "550.54.15"},
    ],
)
def test_labels_may_drift(drift: dict[str, str]) -> None:
    found = read(line("DEV_GPU_UTIL", 97, **drift))
    assert found.host_name == "gpu01"
    assert found.blocks["gpu"].keys == ("GPU-0",)
    assert found.blocks["gpu"].label("name", 0) == "NVIDIA H100 80GB HBM3"
    assert found.blocks["node"].label("driver_version", 0) == "550.54.15"


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        (2147483632, Reason.NOT_SAMPLED),
        (2147483634, Reason.NOT_SUPPORTED),
        (2147483635, Reason.NO_PERMISSION),
        ("9223372036854775794", Reason.NOT_SUPPORTED),
        ("9.223372036854776e+18", Reason.NOT_SUPPORTED),
        ("140737488355328.000000", Reason.NOT_SAMPLED),
        ("140737488355330.000000", Reason.NOT_SUPPORTED),
        ("NaN", Reason.NOT_SAMPLED),
        ("+Inf", Reason.GARBAGE),
        (-5, Reason.GARBAGE),
        (101, Reason.GARBAGE),
    ],
)
@pytest.mark.parametrize("name", ["DEV_GPU_UTIL"])
def test_what_is_no_value_is_missing_with_its_reason(
    name: str, reported: float | str, reason: Reason
) -> None:
    block = gpus(line(name, reported) + line("DEV_GPU_TEMP", 61))
    assert block.value("gpu_util_ratio", 0) is None
    assert block.reason("gpu_util_ratio", 0) is reason
    assert block.value("temp_c", 0) == 61.0


def test_what_the_page_leaves_out_is_not_shared_and_never_zero() -> None:
    block = gpus(line("DEV_GPU_UTIL", 0))
    assert block.value("gpu_util_ratio", 0) == 0.0
    for key in ("sm_active_ratio", "power_w", "energy_j", "mem_total_bytes"):
        assert block.value(key, 0) is None
        assert block.reason(key, 0) is Reason.NOT_SHARED
    assert block.reason("serial", 0) is Reason.NOT_SHARED


def test_a_sensor_that_a_board_has_not_is_no_temperature_of_zero() -> None:
    block = gpus(line("DEV_MEMORY_TEMP", 0) + line("DEV_GPU_UTIL", 0))
    assert block.value("mem_temp_c", 0) is None
    assert block.reason("mem_temp_c", 0) is Reason.NOT_SUPPORTED
    assert block.value("gpu_util_ratio", 0) == 0.0


def test_the_whole_memory_is_what_is_used_and_free_and_reserved() -> None:
    reported = line("DEV_FB_USED", 1000) + line("DEV_FB_FREE", 79000)
    assert gpus(reported).value("mem_total_bytes", 0) == 80000 * 2**20
    reserved = reported + line("DEV_FB_RESERVED", 500)
    assert gpus(reserved).value("mem_total_bytes", 0) == 80500 * 2**20
    whole = reserved + line("DEV_FB_TOTAL", 81559)
    assert gpus(whole).value("mem_total_bytes", 0) == 81559 * 2**20
    assert gpus(line("DEV_FB_FREE", 79000)).value("mem_total_bytes", 0) is None


def test_of_several_names_of_one_field_the_better_one_counts() -> None:
    block = gpus(line("DEV_POWER_MGMT_LIMIT", 700) + line("DEV_ENFORCED_POWER_LIMIT", 450))
    assert block.value("power_limit_w", 0) == 450.0
    both = gpus(line("DEV_GPU_TEMP", 61) + line("DEV_GPU_TEMP_CELSIUS", 61))
    assert both.value("temp_c", 0) == 61.0


def test_series_that_come_for_each_job_or_pod_are_one() -> None:
    reported = [line("DEV_GPU_UTIL", 97, hpc_job=job) for job in ("7", "8", "9")]
    found = read(b"".join(reported))
    assert found.blocks["gpu"].value("gpu_util_ratio", 0) == 0.97
    assert found.errors == ()


def test_series_that_contradict_each_other_are_told_and_the_first_counts(
    said: Callable[..., None],
) -> None:
    found = read(line("DEV_GPU_UTIL", 97) + line("DEV_GPU_UTIL", 3, pod="x"))
    assert found.blocks["gpu"].value("gpu_util_ratio", 0) == 0.97
    (error,) = found.errors
    said(error.message, error.hint)
    assert "DCGM_FI_DEV_GPU_UTIL of GPU-0 twice" in error.message
    assert error.hint


def mig(name: str, value: float, instance: str) -> bytes:
    return line(name, value, GPU_I_ID=instance, GPU_I_PROFILE="1g.10gb")


def test_instances_have_what_is_theirs_and_the_gpu_the_rest() -> None:
    body = (
        line("DEV_GPU_UTIL", 5, gpu=1)
        + mig("PROF_DRAM_ACTIVE", 0.5, "7")
        + mig("PROF_DRAM_ACTIVE", 0.25, "11")
        + mig("DEV_FB_USED", 100, "7")
        + mig("DEV_FB_FREE", 9000, "7")
        + mig("DEV_GPU_TEMP", 50, "7")
        + mig("DEV_GPU_TEMP", 50, "11")
        + mig("PROF_GR_ENGINE_ACTIVE", 0.9, "7")
    )
    found = read(body)
    whole, parts = found.blocks["gpu"], found.blocks["mig"]
    assert parts.keys == ("MIG-GPU-0.7", "MIG-GPU-0.11")
    assert [parts.value("mig_dram_active_ratio", row) for row in (0, 1)] == [0.5, 0.25]
    assert parts.value("mig_mem_total_bytes", 0) == 9100 * 2**20
    assert parts.value("mig_mem_used_bytes", 1) is None
    assert [parts.value("mig_gpu_instance", row) for row in (0, 1)] == [7, 11]
    assert (parts.label("parent", 0), parts.label("profile", 0)) == ("GPU-0", "1g.10gb")
    assert whole.keys == ("GPU-0", "GPU-1")
    assert whole.value("temp_c", 0) == 50.0
    assert whole.value("dram_active_ratio", 0) is None
    assert whole.value("graphics_active_ratio", 0) is None
    assert whole.reason("gpu_util_ratio", 0) is Reason.NOT_SUPPORTED
    assert [whole.value("mig_mode", row) for row in (0, 1)] == [1, None]
    assert found.errors == ()


def test_counters_become_shares_and_rates_over_the_time_between_pages_that_differ() -> None:
    reader = PageReader("gpu01")
    first = read(page(1, DEV_POWER_VIOLATION=0, DEV_GPU_UTIL=9), reader, 10.0)
    assert first.blocks["gpu"].value("sw_power_cap_ratio", 0) is None
    assert first.blocks["gpu"].reason("sw_power_cap_ratio", 0) is Reason.NOT_SAMPLED
    # The exporter collects every 30 s, and says the same in between.
    again = read(page(1, DEV_POWER_VIOLATION=0, DEV_GPU_UTIL=9), reader, 39.0)
    assert again.blocks["gpu"].value("sw_power_cap_ratio", 0) is None
    later = read(page(1, DEV_POWER_VIOLATION=15_000_000_000, DEV_GPU_UTIL=9), reader, 40.0)
    assert later.blocks["gpu"].value("sw_power_cap_ratio", 0) == pytest.approx(0.5)
    same = read(page(1, DEV_POWER_VIOLATION=15_000_000_000, DEV_GPU_UTIL=9), reader, 41.0)
    assert same.blocks["gpu"].value("sw_power_cap_ratio", 0) == pytest.approx(0.5)


def test_a_counter_that_begins_anew_gives_no_rate_once() -> None:
    reader = PageReader("gpu01")
    for at, reported, share in (
        (10.0, 9_000_000_000, None),
        (20.0, 1_000_000_000, None),
        (30.0, 2_000_000_000, 0.1),
    ):
        block = read(page(1, DEV_POWER_VIOLATION=reported), reader, at).blocks["gpu"]
        assert block.value("sw_power_cap_ratio", 0) == (share and pytest.approx(share))


def test_a_page_whose_labels_change_keeps_its_counters() -> None:
    reader = PageReader("gpu01")
    read(line("DEV_POWER_VIOLATION", 0, hpc_job="7"), reader, 10.0)
    later = read(line("DEV_POWER_VIOLATION", 5_000_000_000, hpc_job="8"), reader, 20.0)
    assert later.blocks["gpu"].value("sw_power_cap_ratio", 0) == pytest.approx(0.5)


def test_the_short_way_and_the_strict_one_say_the_same() -> None:
    reported = {"DEV_GPU_UTIL": 5, "DEV_FB_USED": 7, "DEV_FB_FREE": 8, "DEV_XID_ERRORS": 0}
    reader = PageReader("gpu01")
    read(page(3, **dict.fromkeys(reported, 1)), reader, 10.0)
    short = read(page(3, **reported), reader, 20.0).blocks["gpu"]
    strict = read(page(3, **reported)).blocks["gpu"]
    assert short.keys == strict.keys
    for key, column in strict.columns.items():
        assert repr(short.columns[key]) == repr(column)


def test_only_an_xid_that_comes_while_somebody_looks_is_an_event() -> None:
    reader = PageReader("gpu01")
    assert read(page(1, DEV_XID_ERRORS=13), reader, 10.0).blocks["event"].keys == ()
    came = read(page(1, DEV_XID_ERRORS=79), reader, 20.0).blocks["event"]
    assert len(came.keys) == 1
    assert came.keys[0].startswith("GPU-0/79/")
    assert (came.value("xid", 0), came.value("event_age_s", 0)) == (79, 0.0)
    later = read(page(1, DEV_XID_ERRORS=79), reader, 50.0).blocks["event"]
    assert (later.keys, later.value("event_age_s", 0)) == (came.keys, 30.0)
    gone = read(page(1, DEV_XID_ERRORS=79), reader, 21.0 + dcgm.SHOWN_S).blocks["event"]
    assert gone.keys == ()


def test_no_more_xids_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dcgm, "MOST_EVENTS", 3)
    reader = PageReader("gpu01")
    for number in range(9):
        found = read(page(1, DEV_XID_ERRORS=number + 1), reader, 10.0 + number)
    assert len(found.blocks["event"].keys) == 3


def test_a_page_that_tells_the_same_for_minutes_is_no_picture_of_now(
    said: Callable[..., None],
) -> None:
    reader = PageReader("gpu01")
    body = page(1, DEV_TOTAL_ENERGY_CONSUMPTION=5000, DEV_GPU_UTIL=9)
    assert read(body, reader, 10.0).errors == ()
    hung = read(body, reader, 11.0 + dcgm.HUNG_S)
    said(hung.errors[0].message, hung.errors[0].hint)
    assert hung.blocks == {}
    assert "the same values for 5 min" in hung.errors[0].message
    assert "collection hangs" in hung.errors[0].hint
    moved = page(1, DEV_TOTAL_ENERGY_CONSUMPTION=6000, DEV_GPU_UTIL=9)
    assert read(moved, reader, 12.0 + dcgm.HUNG_S).errors == ()


def test_without_a_counter_that_grows_nobody_can_tell_that_a_page_hangs() -> None:
    reader = PageReader("gpu01")
    assert read(page(1, DEV_GPU_UTIL=9), reader, 10.0).errors == ()
    assert read(page(1, DEV_GPU_UTIL=9), reader, 11.0 + dcgm.HUNG_S).errors == ()


def test_a_value_with_an_old_time_is_stale() -> None:
    old_ms, new_ms = int((NOW - 9 - dcgm.OLD_S) * 1000), int(NOW * 1000)
    body = line("DEV_GPU_UTIL", f"97 {old_ms}") + line("DEV_GPU_TEMP", f"61 {new_ms}")
    block = gpus(body)
    assert block.reason("gpu_util_ratio", 0) is Reason.STALE
    assert block.value("temp_c", 0) == 61.0


def test_values_that_are_old_by_their_own_times_are_said_to_be(said: Callable[..., None]) -> None:
    reader, now_ms = PageReader("gpu01"), int((NOW + 10.0) * 1000)
    values = (line("DEV_GPU_UTIL", 5)[:-1], line("DEV_POWER_USAGE", 300)[:-1])
    page = b"".join(one + b" %d\n" % (now_ms - 660_000) for one in values)
    (error,) = read(page, reader).errors
    said(error.message, error.hint)
    assert error.message == "has values that are too old by their own times: 2, by up to 11 min"
    page = b"".join(one + b" %d\n" % now_ms for one in values)
    assert not read(page, reader).errors


def test_hostile_labels_are_harmless() -> None:
    block = gpus(line("DEV_GPU_UTIL", 1, modelName="\x1b]0;owned\x07[bold]"))
    assert block.label("name", 0) == "�]0;owned�[bold]"


def test_a_page_of_many_nodes_is_one_reading_for_each() -> None:
    body = page(2, host="gpu01") + page(2, host="gpu02").replace(b"GPU-", b"GPU-B")
    found = PageReader("here").read(body, NOW, 10.0)
    assert [(one.host_name, one.blocks["gpu"].keys) for one in found] == [
        ("gpu01", ("GPU-0", "GPU-1")),
        ("gpu02", ("GPU-B0", "GPU-B1")),
    ]
