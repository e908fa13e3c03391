"""The pretend machine that everything is measured on: eight busy H100s on the stand-in driver."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.standin import driver

if TYPE_CHECKING:
    from collections.abc import Iterator

GPUS = 8
WORKLOAD = Path(__file__).parents[1] / "lab" / "standin" / "workload.py"
GPU_NAME = "H100"
"""Part of the GPUs' name: where a program shows it, it shows data."""


@contextmanager
def busy_node(folder: Path) -> Iterator[dict[str, str]]:
    """Environment of the node while eight idle-looking processes hold one GPU each.

    Raises:
        CompilerMissingError: the stand-in driver cannot be built.
    """
    standin = driver.start(folder, "h100", gpus=GPUS)
    env = standin.env()
    env.pop("NVML_STANDIN_COUNTS", None)
    workloads = [
        subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(WORKLOAD), "--index", str(index)),
                *("--mem-gib", "40", "--sm", "85", "--tensor", "40", "--seconds", "3600"),
            ],
            env=env,
            stdout=subprocess.PIPE,
        )
        for index in range(GPUS)
    ]
    try:
        for workload in workloads:
            assert workload.stdout is not None
            workload.stdout.readline()
        yield env
    finally:
        for workload in workloads:
            workload.kill()
            workload.wait()
            if workload.stdout is not None:
                workload.stdout.close()
