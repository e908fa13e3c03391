"""The pretend machine that everything is measured on: eight busy H100s on the stand-in driver."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.standin import driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.standin.state import State

GPUS = 8
WORKLOAD = Path(__file__).parents[1] / "lab" / "standin" / "workload.py"
GPU_NAME = "H100"
"""Part of the GPUs' name: where a peer shows it, it shows data."""
HELD_GIB = 40
LITTLE_GIB = 0.5
"""What each process beside the first one holds."""
GPM_SM, GPM_TENSOR, GPM_DRAM = 2, 5, 10


def gpu_memory(each: int) -> str:
    """Used of all memory of every GPU, as a row of gpumon has it, which does not name the GPU."""
    return f"{HELD_GIB + (each - 1) * LITTLE_GIB:.0f}/80"


@contextmanager
def busy_node(folder: Path, each: int = 1) -> Iterator[dict[str, str]]:
    """Environment of the node, while processes hold its GPUs, whose values change every second.

    Args:
        folder: Where the driver's state is kept.
        each: Processes on each GPU.

    Raises:
        CompilerMissingError: the stand-in driver cannot be built.
    """
    standin = driver.start(folder, "h100", gpus=GPUS)
    env = standin.env()
    # Counting costs a little in each call, and nobody asks for the counts here.
    del env["NVML_STANDIN_COUNTS"]
    # An installer compiles what it installs, the peers among it: a checkout is to be no slower.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    workloads = [
        _workload(index, HELD_GIB if number == 0 else LITTLE_GIB, env)
        for number in range(each)
        for index in range(GPUS)
    ]
    over = threading.Event()
    change = threading.Thread(target=_vary, args=(standin.state, over))
    change.start()
    try:
        for workload in workloads:
            assert workload.stdout is not None
            workload.stdout.readline()
        yield env
    finally:
        over.set()
        change.join()
        for workload in workloads:
            workload.kill()
            workload.communicate()


def _workload(index: int, gib: float, env: dict[str, str]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-S", str(WORKLOAD), "--index", str(index)]
    words += ["--mem-gib", str(gib), "--sm", "60", "--tensor", "30", "--seconds", "3600"]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE)


def _vary(state: State, over: threading.Event) -> None:
    """Gives every GPU other values once a second, so that screens have something to draw."""
    source = random.Random(1)
    while not over.wait(1.0):
        for index in range(GPUS):
            state.gpu(
                index,
                util_gpu=source.randint(0, 40),
                power_mw=source.randint(60_000, 250_000),
                temp_c=source.randint(55, 75),
                pcie_tx_bytes_per_s=source.randint(0, 20_000_000_000),
                nvlink_tx_bytes_per_s=source.randint(0, 400_000_000_000),
            )
            state.gpm(index, GPM_SM, source.randint(0, 30))
            state.gpm(index, GPM_TENSOR, source.randint(0, 30))
            state.gpm(index, GPM_DRAM, source.randint(0, 30))
        state.write()
