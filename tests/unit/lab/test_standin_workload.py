"""Pretend GPU programs hold contexts that change what the stand-in driver answers."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.lab.standin import driver, workload
from tests.lab.standin.client import client, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.standin.driver import Standin

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)"),
    pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="no nvidia-ml-py"),
]


@pytest.fixture
def h100(tmp_path: Path) -> Standin:
    return driver.start(tmp_path, "h100")


def test_a_workload_raises_use_memory_and_power_until_it_is_killed(h100: Standin) -> None:
    h100.state.set(gpm_min_interval_ms=0)
    h100.state.write()
    options = ("--index", "6", "--mem-gib", "40", "--sm", "80", "--tensor", "40", "--util", "100")
    with client(h100) as ask:
        with running(h100, *options) as (program, report):
            assert report["pid"] == program.pid
            assert report["gpu_uuids"] == [h100.state.values["gpu.6.uuid"]]
            assert ask("processes(6)") == [[program.pid, 40 * 2**30]]
            assert ask("n.nvmlDeviceGetUtilizationRates(gpu(6)).gpu") == 100
            assert ask("n.nvmlDeviceGetMemoryInfo(gpu(6), n.nvmlMemory_v2).used") == 40 * 2**30
            assert ask("n.nvmlDeviceGetPowerUsage(gpu(6))") == 70000 + 630000 * 0.7
            assert ask("n.nvmlDeviceGetClockInfo(gpu(6), n.NVML_CLOCK_SM)") == 1980
            assert ask("n.nvmlDeviceGetCurrentClocksEventReasons(gpu(6))") == 0
            assert ask("gpm(6, 1, 2, 5, 10)") == pytest.approx([100, 80, 40, 40])
            busy_mj = ask("fields(6, 83)")[0]
            program.send_signal(signal.SIGKILL)
            program.wait()
            assert ask("processes(6)") == []
        assert ask("n.nvmlDeviceGetPowerUsage(gpu(6))") == 70000
        assert ask("fields(6, 83)")[0] >= busy_mj


def test_contexts_share_memory_and_the_power_limit(h100: Standin) -> None:
    options = ("--index", "0,1", "--mem-gib", "50", "--sm", "100", "--tensor", "100")
    with client(h100) as ask, running(h100, *options):
        with running(h100, "--index", "1", "--mem-gib", "20", "--sm", "100"):
            assert len(ask("processes(1)")) == 2
            assert ask("n.nvmlDeviceGetPowerUsage(gpu(1))") == 700000
        refused = subprocess.run(
            [sys.executable, workload.__file__, "--index", "0", "--mem-gib", "40"],
            env=h100.env(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 1
        assert "driver error 20" in refused.stderr


def test_a_rank_takes_the_gpu_that_cuda_would_give_it(h100: Standin) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "5,2", "SLURM_LOCALID": "1", "SLURM_PROCID": "9"}
    with running(h100, **environ) as (_, report):
        assert report["gpu_uuids"] == [h100.state.values["gpu.2.uuid"]]
        assert report["env"]["SLURM_PROCID"] == "9"


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [0, 1, 2]), ("2,0", [2, 0]), ("GPU-b,1", [1]), ("1,7,0", [1]), ("", []), ("0,0", [0])],
)
def test_cuda_visible_devices(visible: str | None, expected: list[int]) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert workload.cuda_devices(["GPU-a1", "GPU-b2", "GPU-c3"], environ) == expected


def test_local_ranks_wrap_around_the_visible_gpus() -> None:
    assert workload.choose("auto", [4, 6], {"SLURM_LOCALID": "3"}) == [6]
    assert workload.choose("auto", [4, 6], {}) == [4]
    assert workload.choose("1,0", [4, 6], {}) == [6, 4]
    with pytest.raises(SystemExit):
        workload.choose("2", [4, 6], {})
