"""What the driver reports arrives as in the catalogue: right unit, right GPU, or right reason."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

import pytest

from gpumon.model.missing import Reason
from gpumon.probe import tiers
from gpumon.probe.driver.gpu import POWER_RANGE
from tests.lab.standin.client import running
from tests.worlds.probe import Probe, sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

GIB = 2**30
MIB = 2**20
UINT_MAX = 2**32 - 1
SCRIPTED = {
    "gpu_util_ratio": 0.87,
    "mem_activity_ratio": 0.43,
    "mem_used_bytes": 61 * GIB,
    "mem_total_bytes": 80 * GIB,
    "mem_reserved_bytes": 3 * GIB,
    "power_w": 612.345,
    "power_limit_w": 650.0,
    "energy_j": 123_456_789,
    "temp_c": 64,
    "sm_clock_mhz": 1755,
    "sm_clock_max_mhz": 1980,
    "clock_event_reasons": 0x44,
    "pcie_gen": 3,
    "pcie_gen_max": 5,
    "pcie_width": 8,
    "pcie_width_max": 16,
    "pcie_tx_bytes": 2**61 + 1,
    "pcie_rx_bytes": 7,
    "nvlink_tx_bytes": 5 * 1024,
    "nvlink_rx_bytes": 2 * 1024,
    "encoder_util_ratio": 0.12,
    "decoder_util_ratio": 0.07,
    "sm_active_ratio": 0.615,
    "sm_occupancy_ratio": 0.3,
    "tensor_active_ratio": 0.4725,
    "dram_active_ratio": 0.36,
    "index": 1,
    "minor_number": 4,
    "process_count": 0,
    "nvlink_tx_bytes_per_s": 0,
    "pcie_rx_bytes_per_s": 0,
}


def value(frame: Frame, key: str, row: int = 0) -> float | int | None:
    return frame.block("gpu").value(key, row)


def reason(frame: Frame, key: str, row: int = 0) -> Reason | None:
    return frame.block("gpu").reason(key, row)


def script(node: Standin) -> None:
    """The state behind `SCRIPTED`, on the second GPU."""
    state = node.state
    state.set(counters_live=0)
    state.gpu(
        1,
        util_gpu=87,
        util_mem=43,
        mem_used_bytes=61 * GIB,
        mem_total_bytes=80 * GIB,
        mem_reserved_bytes=3 * GIB,
        power_mw=612_345,
        power_limit_mw=650_000,
        energy_mj=123_456_789_999,
        temp_c=64,
        sm_clock_mhz=1755,
        clock_event_reasons=0x44,
        pcie_gen=3,
        pcie_width=8,
        pcie_tx_bytes=2**61 + 1,
        pcie_rx_bytes=7,
        util_encoder=12,
        util_decoder=7,
    )
    state.link(1, 3, tx_bytes=4 * 1024, rx_bytes=2 * 1024)
    state.link(1, 4, tx_bytes=1024)
    for metric, percent in ((2, 61.5), (3, 30), (5, 47.25), (10, 36)):
        state.gpm(1, metric, percent)
    state.write()


def test_every_value_has_the_unit_of_its_name(standin: Start) -> None:
    script(standin("h100", gpus=2, minors=(6, 4)))
    with Probe() as probe:
        frame = probe.frame(sampled)
    found = {key: value(frame, key, row=1) for key in SCRIPTED}
    assert found == pytest.approx(SCRIPTED, rel=1e-9, abs=0)
    # A float would have lost the lowest bit of the counter.
    assert value(frame, "pcie_tx_bytes", row=1) == 2**61 + 1
    assert value(frame, "mem_used_bytes", row=0) == 0
    assert frame.errors == ()


def test_identity_is_the_uuid_whatever_the_order_of_minor_numbers(standin: Start) -> None:
    node = standin("h100", gpus=4, minors=(3, 1, 0, 2))
    for index in range(4):
        node.state.gpu(index, temp_c=40 + index)
    node.state.write()
    with Probe() as probe:
        gpus = probe.frame().block("gpu")
    assert gpus.keys == tuple(node.state.values[f"gpu.{i}.uuid"] for i in range(4))
    assert list(gpus.columns["index"]) == [0, 1, 2, 3]
    assert list(gpus.columns["minor_number"]) == [3, 1, 0, 2]
    assert list(gpus.columns["temp_c"]) == [40, 41, 42, 43]
    assert gpus.labels["pci_bus_id"][1] == node.state.values["gpu.1.pci_bus_id"]


def test_a_change_reaches_the_next_frames_and_rare_quantities_too(standin: Start) -> None:
    node = standin("h100", gpus=1)
    with Probe() as probe:
        assert value(probe.frame(), "temp_c") == 30
        node.state.gpu(0, temp_c=71, util_gpu=100)
        node.state.write()
        frame = probe.next_frame(lambda frame: value(frame, "temp_c") == 71)
    assert value(frame, "gpu_util_ratio") == 1.0


def test_rates_are_what_the_counters_gain_per_second(standin: Start) -> None:
    node = standin("h100", gpus=1)
    rates = {
        "pcie_tx_bytes_per_s": 2 * 10**9,
        "pcie_rx_bytes_per_s": 3 * 10**9,
        "nvlink_tx_bytes_per_s": 151 * 10**9,
        "nvlink_rx_bytes_per_s": 149 * 10**9,
    }
    node.state.gpu(0, **rates)
    # What GPM would report must not be taken where a counter is.
    for metric in (20, 21, 60, 61):
        node.state.gpm_error(0, metric, 999)
    node.state.write()

    def close(frame: Frame) -> bool:
        got = [value(frame, key) for key in rates]
        return got == [pytest.approx(rate, rel=0.2) for rate in rates.values()]

    with Probe() as probe:
        first, *_ = probe.frames(close)
    for key in rates:
        assert reason(first, key) is Reason.NOT_SAMPLED
        assert value(first, key) is None


def test_gpm_gives_the_rate_where_no_counter_answers(standin: Start) -> None:
    node = standin("h100", gpus=1)
    for field in (197, 198, 138, 139):
        node.state.field_error(0, field, 3)
    node.state.gpu(0, pcie_tx_bytes_per_s=3 * MIB, nvlink_rx_bytes_per_s=36 * MIB)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(sampled)
    assert value(frame, "pcie_tx_bytes_per_s") == 3 * MIB
    assert value(frame, "nvlink_rx_bytes_per_s") == 36 * MIB
    assert reason(frame, "pcie_tx_bytes") is Reason.NOT_SUPPORTED


def test_what_needs_two_samples_is_not_sampled_at_first(standin: Start) -> None:
    node = standin("h100", gpus=1)
    with Probe(once=True) as probe:
        frame = probe.frame()
        probe.until_end()
    for key in ("sm_active_ratio", "tensor_active_ratio", "nvlink_tx_bytes_per_s"):
        assert (value(frame, key), reason(frame, key)) == (None, Reason.NOT_SAMPLED)
    # Nor is room made for a second one.
    assert node.counts()["nvmlGpmSampleAlloc"].total == 1


def test_a_lost_gpu_has_no_values_and_the_others_are_right(
    standin: Start, said: Callable[..., None]
) -> None:
    node = standin("h100", gpus=3)
    with Probe() as probe:
        assert value(probe.frame(sampled), "temp_c", row=1) == 30
        node.state.lose(1)
        node.state.gpu(2, temp_c=55)
        node.state.write()
        frame = probe.next_frame(lambda frame: value(frame, "temp_c", row=2) == 55)
    gpus = frame.block("gpu")
    (error,) = frame.errors
    said(error.message, error.hint)
    assert error.where.endswith(f"GPU 1 {gpus.keys[1]}")
    fixed = {reading[0] for reading in tiers.START} | set(POWER_RANGE)
    measured = set(gpus.columns) - fixed - {"index", "open_error", "watched_events"}
    assert {key: gpus.value(key, 1) for key in measured} == dict.fromkeys(measured)
    assert {gpus.reason(key, 1) for key in measured} == {Reason.LOST}
    assert gpus.value("minor_number", 1) == 1
    assert [gpus.value("power_w", row) for row in (0, 2)] == [70.0, 70.0]


def test_a_gpu_that_was_lost_before_the_start_is_named_and_the_others_are_right(
    standin: Start,
) -> None:
    node = standin("h100", gpus=3)
    node.state.lose(1, before_init=True)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert list(frame.block("gpu").columns["index"]) == [0, 1, 2]
    assert [value(frame, "power_w", row) for row in (0, 1, 2)] == [70.0, None, 70.0]
    assert reason(frame, "power_w", 1) is Reason.LOST
    assert len(frame.errors) == 1
    assert "GPU index 1" in frame.errors[0].where
    assert "lost" in frame.errors[0].message.lower()


def test_a_call_that_never_returns_is_named_while_frames_go_on(standin: Start) -> None:
    node = standin("h100", gpus=3)
    node.state.gpu(0, temp_c=44)
    node.state.hang("nvmlDeviceGetTemperature", gpu=1)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: bool(frame.errors))
        gpus = frame.block("gpu")
        assert (value(frame, "temp_c", 1), reason(frame, "temp_c", 1)) == (None, Reason.FAILED)
        assert reason(frame, "nvlink_tx_bytes_per_s", 1) is Reason.FAILED
        assert gpus.label("name", 1) == "NVIDIA H100 80GB HBM3"
        assert [value(frame, "temp_c", row) for row in (0, 2)] == [44, 30]
        (error,) = frame.errors
        assert "nvmlDeviceGetTemperature" in error.message
        assert error.where.endswith(f"GPU 1 {gpus.keys[1]}")
        assert error.hint
        after = [probe.frame() for _ in range(3)]
        assert all(len(later.errors) == 1 for later in after)


def test_the_gpu_before_a_hanging_one_keeps_its_last_reading(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.gpu(0, temp_c=44)
    node.state.hang("nvmlDeviceGetTemperature", gpu=1)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert value(frame, "temp_c", row=0) == 44


def test_a_driver_that_hangs_while_it_is_opened_is_named(standin: Start) -> None:
    node = standin("h100", gpus=1)
    node.state.hang("nvmlDeviceGetCount_v2")
    node.state.write()
    with Probe(once=True) as probe:
        frame = probe.frame()
        probe.until_end()
    assert frame.block("gpu").keys == ()
    assert frame.block("node").keys
    (error,) = frame.errors
    assert "nvmlDeviceGetCount" in error.message


def test_no_driver_is_one_clear_error_with_a_way_out(
    standin: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = standin("h100", gpus=1)
    node.state.path.unlink()
    with Probe() as probe:
        (error,) = probe.frame().errors
    assert "NVML" in error.where
    assert "nvmlInit" in error.message
    assert "modprobe nvidia" in error.hint
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    with Probe() as probe:
        (error,) = probe.frame().errors
    if "libnvidia-ml.so.1" not in error.hint:
        pytest.skip("this machine has a driver of its own")
    assert "nvmlInit" in error.message


def test_an_old_driver_answers_by_the_older_calls(standin: Start) -> None:
    node = standin("r470", gpus=2)
    node.state.gpu(1, clock_event_reasons=4, mem_used_bytes=5 * GIB, power_mw=250_500)
    node.state.write()
    options = ("--index", "0", "--mem-gib", "2", "--seconds", "600")
    with running(node, *options) as (_, program), Probe() as probe:
        frame = probe.frame()
    assert value(frame, "clock_event_reasons", row=1) == 4
    assert value(frame, "power_w", row=1) == 250.5
    # The first structure does not separate the driver's reserve, so it counts as used.
    reserved = int(node.state.values["gpu.1.mem_reserved_bytes"])
    assert value(frame, "mem_used_bytes", row=1) == 5 * GIB + reserved
    for key in ("mem_reserved_bytes", "sm_active_ratio", "pcie_tx_bytes"):
        assert reason(frame, key, row=1) is Reason.NOT_SUPPORTED
    # Only the call that takes 20 ms could give it, and no user watches this GPU.
    assert reason(frame, "pcie_tx_bytes_per_s", row=1) is Reason.NOT_SHARED
    assert value(frame, "process_count", row=0) == 1
    assert frame.block("context").keys == (f"{program['pid']}/{program['gpu_uuids'][0]}",)
    assert frame.errors == ()


def test_a_zero_that_stands_for_no_sensor_and_no_memory_is_none(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.gpu(0, temp_mem_c=0, mem_total_bytes=0)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(sampled)
    for key in ("mem_temp_c", "mem_total_bytes", "mem_used_bytes"):
        assert (value(frame, key, row=0), reason(frame, key, row=0)) == (None, Reason.NOT_SUPPORTED)
        assert value(frame, key, row=1) is not None


def test_a_driver_that_was_updated_under_its_module_is_told_with_a_way_of_its_own(
    standin: Start,
) -> None:
    node = standin("h100", gpus=1)
    node.state.error("nvmlInitWithFlags", 18)
    node.state.write()
    with Probe() as probe:
        (error,) = probe.frame().errors
    assert "updated under a running kernel module" in error.hint


def test_rubbish_is_never_a_number(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.garbage("nvmlDeviceGetUtilizationRates", UINT_MAX, gpu=0)
    node.state.garbage("nvmlDeviceGetTemperature", UINT_MAX, gpu=0)
    node.state.field(0, 186, UINT_MAX)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    for key in ("gpu_util_ratio", "mem_activity_ratio", "temp_c", "power_w"):
        assert (value(frame, key, 0), reason(frame, key, 0)) == (None, Reason.GARBAGE)
        assert value(frame, key, 1) is not None


def test_a_driver_that_refuses_says_so_by_value(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.error("nvmlDeviceGetClockInfo", 4, gpu=0)
    node.state.error("nvmlDeviceGetUtilizationRates", 999, gpu=0)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert reason(frame, "sm_clock_mhz") is Reason.NO_PERMISSION
    assert reason(frame, "gpu_util_ratio") is Reason.FAILED
    assert value(frame, "sm_clock_mhz", row=1) == 345
    (error,) = frame.errors
    assert frame.block("gpu").keys[0] in error.where
    assert "nvmlDeviceGetUtilizationRates" in error.message


def test_a_metric_that_fails_is_missing_and_the_others_are_there(standin: Start) -> None:
    node = standin("h100", gpus=1)
    node.state.gpm(0, 2, 61.5)
    node.state.gpm_error(0, 5, 999)
    node.state.gpm_error(0, 10, 3)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(sampled)
    assert value(frame, "sm_active_ratio") == 0.615
    for key, why in (
        ("tensor_active_ratio", Reason.FAILED),
        ("dram_active_ratio", Reason.NOT_SUPPORTED),
    ):
        assert (value(frame, key), reason(frame, key)) == (None, why)
    assert [error.message for error in frame.errors] == ["GPM metric 5: return code 999"]


def test_what_the_driver_does_not_know_is_asked_only_once(standin: Start) -> None:
    node = standin("rtx", gpus=1)
    node.state.gpu(0, temp_c=None)
    node.state.write()
    with Probe() as probe:
        for _ in range(4):
            assert reason(probe.frame(), "temp_c") is Reason.NOT_SUPPORTED
    calls = node.counts()
    assert calls["nvmlDeviceGetTemperature"].total == 1
    assert calls["nvmlGpmQueryDeviceSupport"].total == 1
    assert calls["nvmlDeviceGetUtilizationRates"].total >= 4
    assert "nvmlGpmSampleGet" not in calls
    # Of the calls that give caps, links and identity, none is made for every frame.
    for rare in ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetUUID", "nvmlDeviceGetName"):
        assert calls[rare].total == 1


def test_contexts_name_process_gpu_and_memory(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.process(0, 4_194_303, None)
    node.state.write()
    options = ("--index", "0,1", "--mem-gib", "2", "--sm", "40", "--seconds", "600")
    with running(node, *options) as (_, program), Probe() as probe:
        frame = probe.frame()
    pid = program["pid"]
    contexts, processes = frame.block("context"), frame.block("process")
    held = dict(zip(contexts.keys, range(len(contexts.keys)), strict=True))
    for uuid in program["gpu_uuids"]:
        assert contexts.value("context_mem_used_bytes", held[f"{pid}/{uuid}"]) == 2 * GIB
    alien = held[f"4194303/{frame.block('gpu').keys[0]}"]
    assert contexts.value("context_mem_used_bytes", alien) is None
    assert contexts.reason("context_mem_used_bytes", alien) is Reason.NOT_SHARED
    assert sorted(processes.keys) == sorted([str(pid), "4194303"])
    row = processes.keys.index(str(pid))
    assert processes.value("uid", row) == os.getuid()
    assert "python" in (processes.label("name", row) or "")
    gone = processes.keys.index("4194303")
    assert processes.reason("name", gone) is Reason.NO_PROCESS
    assert [value(frame, "process_count", row) for row in (0, 1)] == [2, 1]


def test_who_draws_is_told_beside_who_computes_and_whose_each_is(standin: Start) -> None:
    node = standin("rtx", gpus=1)
    alien = 4_194_290
    node.state.process(0, alien, 55 << 20, kind="G")
    node.state.write()
    options = ("--index", "0", "--mem-gib", "1", "--seconds", "600")
    with running(node, *options) as (_, program), Probe() as probe:
        frame = probe.frame()
    (uuid,) = program["gpu_uuids"]
    contexts, processes = frame.block("context"), frame.block("process")
    types = dict(zip(contexts.keys, contexts.labels["type"], strict=True))
    assert types == {f"{program['pid']}/{uuid}": "C", f"{alien}/{uuid}": "G"}
    row = contexts.keys.index(f"{alien}/{uuid}")
    assert contexts.value("context_mem_used_bytes", row) == 55 << 20
    counts = [value(frame, key, row=0) for key in ("process_count", "compute_process_count")]
    assert counts == [2, 1]
    mine = processes.keys.index(str(program["pid"]))
    names = {entry.pw_uid: entry.pw_name for entry in pwd.getpwall()}
    assert processes.label("user", mine) == names.get(os.getuid())
    assert processes.reason("user", processes.keys.index(str(alien))) is Reason.NO_PROCESS


@pytest.mark.parametrize("code", [3, 13])
def test_a_driver_without_a_list_of_who_draws_counts_who_computes(
    code: int, standin: Start
) -> None:
    node = standin("h100", gpus=1)
    for form in ("", "_v2", "_v3"):
        node.state.error(f"nvmlDeviceGetGraphicsRunningProcesses{form}", code)
    node.state.process(0, 4_194_290, 3 << 20, kind="G")
    node.state.process(0, 4_194_291, 3 << 20)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    counts = [value(frame, key, row=0) for key in ("process_count", "compute_process_count")]
    assert counts == [1, 1]
    assert frame.block("context").labels["type"] == ("C",)
    assert frame.errors == ()


def test_a_list_of_who_draws_that_is_closed_leaves_the_number_unknown(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.error("nvmlDeviceGetGraphicsRunningProcesses_v3", 4)
    node.state.process(1, 4_194_291, 3 << 20)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert reason(frame, "process_count", row=1) is Reason.NO_PERMISSION
    assert value(frame, "compute_process_count", row=1) == 1
    assert frame.block("context").reason("type", 0) is Reason.NO_PERMISSION
