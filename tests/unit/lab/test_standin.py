"""The stand-in driver answers the official binding as a driver does, and fails on request."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.standin import driver
from tests.lab.standin.client import client

if TYPE_CHECKING:
    from tests.lab.standin.driver import Standin

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)"),
    pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="no nvidia-ml-py"),
]

UINT_MAX = 2**32 - 1


@pytest.fixture
def h100(tmp_path: Path) -> Standin:
    return driver.start(tmp_path, "h100")


def test_the_binding_reads_the_profile(h100: Standin) -> None:
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetCount()") == 8
        assert ask("n.nvmlDeviceGetName(gpu(0))") == "NVIDIA H100 80GB HBM3"
        assert ask("uuids()") == [h100.state.values[f"gpu.{i}.uuid"] for i in range(8)]
        assert ask("n.nvmlDeviceGetPciInfo(gpu(0)).busId") == "00000000:1B:00.0"
        assert ask("n.nvmlDeviceGetPciInfo(gpu(0)).bus") == 0x1B
        assert ask("n.nvmlDeviceGetCudaComputeCapability(gpu(0))") == [9, 0]
        assert ask("n.nvmlDeviceGetMemoryInfo(gpu(0), n.nvmlMemory_v2).total") == 85520809984
        assert ask("n.nvmlDeviceGetPowerManagementLimit(gpu(0))") == 700000
        assert ask("n.nvmlDeviceGetMaxClockInfo(gpu(0), n.NVML_CLOCK_SM)") == 1980
        assert ask("n.nvmlDeviceGetPcieSpeed(gpu(0))") == 32000
        assert ask("n.nvmlDeviceGetMigMode(gpu(0))") == [0, 0]
        assert ask("n.nvmlDeviceGetCurrentClocksEventReasons(gpu(0))") == 1
        assert ask("n.nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(7))") == 50
        assert ask("n.nvmlDeviceGetP2PStatus(gpu(0), gpu(1), n.NVML_P2P_CAPS_INDEX_NVLINK)") == 0
        assert ask("n.nvmlSystemGetCudaDriverVersion()") == 12080


def test_a_change_of_the_state_reaches_a_live_driver(h100: Standin) -> None:
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetUtilizationRates(gpu(2)).gpu") == 0
        h100.state.gpu(2, util_gpu=87, temp_c=None)
        h100.state.write()
        assert ask("n.nvmlDeviceGetUtilizationRates(gpu(2)).gpu") == 87
        assert ask("n.nvmlDeviceGetTemperature(gpu(2), 0)") == {"error": 3}
        assert ask("n.nvmlDeviceGetTemperature(gpu(3), 0)") == 30


def test_structure_versions_are_checked(h100: Standin) -> None:
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetMemoryInfo(gpu(0), 2)") == {"error": 25}
        assert ask("gpm(0, 2, version=2)") == {"error": 25}


def test_first_memory_structure_counts_reserved_memory_as_used(h100: Standin) -> None:
    h100.state.gpu(0, mem_used_bytes=1000, mem_reserved_bytes=24)
    h100.state.write()
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetMemoryInfo(gpu(0)).used") == 1024
        assert ask("n.nvmlDeviceGetMemoryInfo(gpu(0), n.nvmlMemory_v2).used") == 1000


def test_every_symbol_of_the_binding_resolves(h100: Standin) -> None:
    wanted = "re.findall(r'FunctionPointer\\(\"(\\w+)\"', open(n.__file__).read())"
    with client(h100) as ask:
        assert ask(f"len({wanted})") > 400
        assert ask(f"[s for s in {wanted} if not hasattr(lib(), s)]") == []
        assert ask("n.nvmlDeviceGetVgpuMetadata(gpu(0))") == {"error": 3}


def test_rtx_lacks_what_the_product_lacks(tmp_path: Path) -> None:
    with client(driver.start(tmp_path, "rtx")) as ask:
        assert ask("n.nvmlDeviceGetSerial(gpu(0))") == {"error": 3}
        assert ask("n.nvmlDeviceGetEccMode(gpu(0))") == {"error": 3}
        assert ask("n.nvmlDeviceGetMigMode(gpu(0))") == {"error": 3}
        assert ask("fields(0, 91, (138, 0), 142, 82)") == [0, *[{"error": 3}] * 3]
        assert ask("n.nvmlGpmQueryDeviceSupport(gpu(0)).isSupportedDevice") == 0


def test_an_old_driver_lacks_symbols(tmp_path: Path) -> None:
    with client(driver.start(tmp_path, "r470")) as ask:
        assert ask("hasattr(lib(), 'nvmlDeviceGetMemoryInfo_v2')") is False
        assert ask("n.nvmlDeviceGetComputeRunningProcesses(gpu(0))") == "mismatch"
        assert ask("n.nvmlDeviceGetComputeRunningProcesses_v2(gpu(0))") == []
        assert ask("n.nvmlDeviceGetMemoryInfo(gpu(0), n.nvmlMemory_v2)") == {"error": 13}
        assert ask("n.nvmlDeviceGetMemoryInfo(gpu(0)).total") == 85899345920
        assert ask("n.nvmlDeviceGetCurrentClocksEventReasons(gpu(0))") == {"error": 13}
        assert ask("n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu(0))") == 1
        assert ask("fields(0, 83, 186)")[1] == {"error": 3}


def test_no_state_is_no_driver(h100: Standin) -> None:
    h100.state.path.unlink()
    result = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env=h100.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NVMLError_DriverNotLoaded" in result.stderr


def test_gpus_without_a_device_node_vanish_and_the_rest_renumber(tmp_path: Path) -> None:
    node = driver.start(tmp_path / "state", gpus=4, minors=(2, 0, 3, 1), devices="on")
    devices = tmp_path / "dev"
    devices.mkdir()
    for minor in (3, 2):
        (devices / f"nvidia{minor}").touch()
    with client(node, devices) as ask:
        assert ask("uuids()") == [node.state.values[f"gpu.{i}.uuid"] for i in (0, 2)]
        assert ask("[n.nvmlDeviceGetMinorNumber(gpu(i)) for i in (0, 1)]") == [2, 3]
        assert ask("n.nvmlDeviceGetIndex(gpu(1))") == 1
        assert ask("gpu(2)") == {"error": 2}
        hidden = node.state.values["gpu.1.uuid"]
        assert ask(f"n.nvmlDeviceGetHandleByUUID({hidden!r})") == {"error": 6}


def test_a_forbidden_device_node_hides_its_gpu() -> None:
    """An ordinary user may not open nvidia0, as in a job's cgroup that does not own it."""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        node = driver.start(folder / "state", gpus=2, devices="on")
        for minor, mode in enumerate((0o000, 0o666)):
            (folder / f"nvidia{minor}").touch()
            (folder / f"nvidia{minor}").chmod(mode)
        with client(node, folder) as ask:
            if os.geteuid() == 0:
                ask("n.nvmlShutdown() or os.seteuid(65534) or n.nvmlInit()")
            assert ask("uuids()") == [node.state.values["gpu.1.uuid"]]
    finally:
        shutil.rmtree(folder)


def test_a_device_node_without_a_driver_counts_as_allowed(tmp_path: Path) -> None:
    node = driver.start(tmp_path, gpus=1, devices="on")
    device = tmp_path / "nvidia0"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(195, 0))
    except PermissionError:
        pytest.skip("may not make device nodes here")
    with pytest.raises(OSError, match="No such device or address"):
        os.open(device, os.O_RDWR)
    with client(node, tmp_path) as ask:
        assert ask("len(uuids())") == 1


def test_injected_errors_hit_one_function_and_one_gpu(h100: Standin) -> None:
    h100.state.error("nvmlDeviceGetPowerUsage", 999, gpu=1)
    h100.state.garbage("nvmlDeviceGetUtilizationRates", UINT_MAX)
    h100.state.write()
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetPowerUsage(gpu(1))") == {"error": 999}
        assert ask("n.nvmlDeviceGetPowerUsage(gpu(0))") == 70000
        assert ask("n.nvmlDeviceGetUtilizationRates(gpu(0)).gpu") == UINT_MAX
        h100.state.heal()
        h100.state.write()
        assert ask("n.nvmlDeviceGetPowerUsage(gpu(1))") == 70000


@pytest.mark.parametrize("before_init", [False, True])
def test_a_lost_gpu_answers_nothing(h100: Standin, before_init: bool) -> None:
    h100.state.lose(1, before_init=before_init)
    h100.state.write()
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetCount()") == 8
        assert ask("gpu(1) and 'handle'") == ({"error": 15} if before_init else "handle")
        assert ask("n.nvmlDeviceGetUUID(gpu(1))") == {"error": 15}
        assert ask("fields(1, 83)") == {"error": 15}
        assert ask("n.nvmlDeviceGetVgpuMetadata(gpu(1))") == {"error": 15}
        assert ask("n.nvmlDeviceGetPowerUsage(gpu(0))") == 70000


def test_a_call_hangs_from_the_wanted_call_on_and_spares_other_threads(h100: Standin) -> None:
    h100.state.hang("nvmlDeviceGetUtilizationRates", from_call=2, gpu=3)
    h100.state.write()
    with client(h100) as ask:
        assert ask("n.nvmlDeviceGetUtilizationRates(gpu(3)).gpu") == 0
        assert ask("hangs(lambda: n.nvmlDeviceGetUtilizationRates(gpu(3)))") is True
        assert ask("hangs(lambda: n.nvmlDeviceGetUtilizationRates(gpu(2)))") is False
        assert ask("n.nvmlDeviceGetPowerUsage(gpu(3))") == 70000
        h100.state.set(hang_holds_driver=1)
        h100.state.hang("nvmlDeviceGetUtilizationRates", gpu=3)
        h100.state.write()
        assert ask("hangs(lambda: n.nvmlDeviceGetUtilizationRates(gpu(3)))") is True
        assert ask("hangs(lambda: n.nvmlDeviceGetPowerUsage(gpu(0)))") is True


def test_calls_are_counted_per_function_and_gpu_over_processes(h100: Standin) -> None:
    for _ in range(2):
        with client(h100) as ask:
            ask("[n.nvmlDeviceGetPowerUsage(gpu(5)) for _ in range(3)]")
            ask("n.nvmlDeviceGetPowerUsage(gpu(0))")
            counts = h100.counts()
    assert counts["nvmlInitWithFlags"].total == 2
    assert counts["nvmlDeviceGetPowerUsage"].total == 8
    assert counts["nvmlDeviceGetPowerUsage"].per_gpu[:6] == (2, 0, 0, 0, 0, 6)
    assert "nvmlDeviceGetSerial" not in counts


def test_field_values_carry_their_own_result_type_and_time(h100: Standin) -> None:
    h100.state.field(0, 230, 2)
    h100.state.field_error(0, 82, 999)
    h100.state.write()
    with client(h100) as ask:
        assert ask("fields(0, 186, 230, 82, 304)") == [70000, 2, {"error": 999}, {"error": 3}]
        got = ask(
            "[[f.valueType, f.timestamp > 0] for f in n.nvmlDeviceGetFieldValues(gpu(0), [83, 91])]"
        )
        assert got == [[3, True], [1, True]]


def test_nvlink_counters_are_per_link_and_total_in_kib(h100: Standin) -> None:
    h100.state.set(counters_live=0)
    h100.state.link(0, 3, tx_bytes=5 * 1024, rx_bytes=2048)
    h100.state.link(0, 4, tx_bytes=1024, state=0)
    h100.state.write()
    with client(h100) as ask:
        assert ask("fields(0, (138, 3), (138, 0xFFFFFFFF), (139, 3), (138, 18))") == [
            5,
            6,
            2,
            {"error": 3},
        ]
        assert ask("fields(0, 91, (165, 3), (165, 4), (164, 3), (166, 3))") == [18, 1, 0, 26562, 6]
        assert ask("n.nvmlDeviceGetNvLinkState(gpu(0), 4)") == 0


def test_counters_advance_and_go_on_when_rates_change(h100: Standin) -> None:
    h100.state.gpu(0, power_mw=10**9, pcie_tx_bytes_per_s=10**12)
    h100.state.write()
    with client(h100) as ask:
        first, second = ask("fields(0, 83, 197)"), ask("fields(0, 83, 197)")
        assert second[0] > first[0] > 0
        assert second[1] > first[1] > 0
        h100.state.gpu(0, power_mw=0, pcie_tx_bytes_per_s=0)
        h100.state.write()
        third = ask("fields(0, 83, 197)")
        assert third[0] >= second[0]
        assert third[1] >= second[1]
        assert ask("fields(0, 83, 197)") == third


def test_gpm_needs_two_samples_far_enough_apart(h100: Standin) -> None:
    h100.state.gpm(0, 2, 61.5)
    h100.state.gpm_error(0, 5, 999)
    h100.state.gpu(0, nvlink_tx_bytes_per_s=36 * 2**20)
    h100.state.set(gpm_min_interval_ms=3_600_000)
    h100.state.write()
    with client(h100) as ask:
        assert ask("n.nvmlGpmQueryDeviceSupport(gpu(0)).isSupportedDevice") == 1
        assert ask("gpm(0, 2, samples=1)") == {"error": 2}
        assert ask("gpm(0, 2)") == [{"error": 21}]
        h100.state.set(gpm_min_interval_ms=0)
        h100.state.write()
        assert ask("gpm(0, 2, 5, 61, 63, 400)") == [61.5, {"error": 999}, 36, 2, {"error": 3}]


def test_listed_processes_and_their_use(h100: Standin) -> None:
    h100.state.process(1, 4242, 2**30, sm_percent=40, mem_percent=7)
    h100.state.process(1, 4343, None)
    h100.state.write()
    with client(h100) as ask:
        assert ask("processes(1)") == [[4242, 2**30], [4343, None]]
        assert ask("processes(0)") == []
        assert ask("n.nvmlDeviceGetProcessUtilization(gpu(0), 0)") == {"error": 6}
        got = "[[s.pid, s.smUtil, s.memUtil] for s in n.nvmlDeviceGetProcessUtilization(gpu(1), 0)]"
        assert ask(got) == [[4242, 40, 7]]
        later = "n.nvmlDeviceGetProcessUtilization(gpu(1), 2**62)"
        assert ask(later) == {"error": 6}


def test_only_events_after_registration_arrive(h100: Standin) -> None:
    h100.state.event(2, 13)
    h100.state.write()
    with client(h100) as ask:
        ask("register(2)")
        assert ask("next_event(0)") == {"error": 10}
        h100.state.event(1, 31)
        h100.state.event(2, 79)
        h100.state.write()
        assert ask("next_event(30000)") == [h100.state.values["gpu.2.uuid"], 8, 79]
        assert ask("next_event(0)") == {"error": 10}


def test_a_missing_compiler_is_said_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(driver.CompilerMissingError, match="no C compiler"):
        driver.build(tmp_path)
