"""A pretend GPU program: holds contexts on the stand-in driver for a while, standard library only.

Once its contexts exist it prints one JSON line: pid, host, rank variables, and the UUID, index and
minor number of each GPU it holds. It ends when its time is over or at SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RANK_VARIABLES = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_NODEID",
    "SLURMD_NODENAME",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "CUDA_VISIBLE_DEVICES",
)


TURN_S = 0.1
"""Length of a turn of a program that computes or writes."""


class Driver:
    """The few calls of libnvidia-ml.so.1 that a workload makes."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._library.standinContextCreateEx.argtypes = [
            ctypes.c_uint,
            ctypes.c_ulonglong,
            *[ctypes.c_double] * 4,
        ]
        self._check(self._library.nvmlInitWithFlags(0))

    def count(self) -> int:
        """Number of GPUs that this process may open."""
        found = ctypes.c_uint()
        self._check(self._library.nvmlDeviceGetCount_v2(ctypes.byref(found)))
        return found.value

    def uuid(self, index: int) -> str:
        """UUID of the index-th visible GPU in PCI order."""
        text = ctypes.create_string_buffer(96)
        self._check(self._library.nvmlDeviceGetUUID(self._handle(index), text, 96))
        return text.value.decode()

    def minor(self, index: int) -> int:
        """N of /dev/nvidiaN."""
        found = ctypes.c_uint()
        self._check(
            self._library.nvmlDeviceGetMinorNumber(self._handle(index), ctypes.byref(found))
        )
        return found.value

    def create(
        self, index: int, mem_bytes: int, activity: tuple[float, float, float, float]
    ) -> int:
        """Opens a context with (util, sm, tensor, dram) percent; returns its id."""
        made: int = self._library.standinContextCreateEx(index, mem_bytes, *activity)
        self._check(-made if made < 0 else 0)
        return made

    def destroy(self, context: int) -> None:
        """Closes a context."""
        self._check(self._library.standinContextDestroy(context))

    def _handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._check(self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
        return handle

    def _check(self, code: int) -> None:
        if code != 0:
            self._library.nvmlErrorString.restype = ctypes.c_char_p
            text = self._library.nvmlErrorString(code)
            raise SystemExit(f"workload: driver error {code}: {text.decode()}")


def cuda_devices(uuids: list[str], environ: Mapping[str, str]) -> list[int]:
    """Visible GPUs in CUDA's order, as indexes into `uuids`: the first bad entry ends the list."""
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in wanted.split(","):
        name = entry.strip()
        if name.isdigit():
            matches = [int(name)] if int(name) < len(uuids) else []
        else:
            matches = [i for i, uuid in enumerate(uuids) if name and uuid.startswith(name)]
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen.append(matches[0])
    return chosen


def choose(index: str, devices: list[int], environ: Mapping[str, str]) -> list[int]:
    """Indexes of the visible GPUs to hold: "auto" takes the local rank's, else CUDA ordinals."""
    if not devices:
        raise SystemExit("workload: no GPU is visible")
    if index == "auto":
        local_rank = int(environ.get("SLURM_LOCALID") or environ.get("LOCAL_RANK") or "0")
        return [devices[local_rank % len(devices)]]
    ordinals = [int(part) for part in index.split(",")]
    if max(ordinals) >= len(devices):
        raise SystemExit(f"workload: invalid device ordinal, {len(devices)} visible")
    return [devices[ordinal] for ordinal in ordinals]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="auto", help='"auto" or CUDA ordinals: 0 or 0,1,2')
    parser.add_argument("--mem-gib", type=float, default=10.0, help="memory per GPU")
    parser.add_argument("--sm", type=float, default=90.0, help="SM activity, percent")
    parser.add_argument("--tensor", type=float, default=0.0, help="tensor activity, percent")
    parser.add_argument("--util", type=float, help="GPU utilisation, percent; default: as --sm")
    parser.add_argument("--dram", type=float, help="DRAM activity, percent; default: half of --sm")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to hold it")
    parser.add_argument("--busy", type=float, default=0.0, help="share of a CPU to keep busy")
    parser.add_argument("--append", help="a file to write a line to in every turn of 0.1 s")
    return parser.parse_args(arguments)


def work(seconds: float, busy: float, append: str | None, ends: set[signal.Signals]) -> None:
    """Takes turns of 0.1 s, computing and writing, until the time is over or a signal comes."""
    last = time.monotonic() + seconds
    while (now := time.monotonic()) < last:
        if append is not None:
            with Path(append).open("a", encoding="ascii") as file:
                file.write("one more\n")
        used = time.process_time() + busy * TURN_S
        while time.process_time() < used:
            pass
        rest_s = min(last, now + TURN_S) - time.monotonic()
        if signal.sigtimedwait(ends, max(0.0, rest_s)) is not None:
            return


def main() -> None:
    """Opens the contexts, says so, waits."""
    options = parse(sys.argv[1:])
    driver = Driver()
    uuids = [driver.uuid(index) for index in range(driver.count())]
    held = choose(options.index, cuda_devices(uuids, os.environ), os.environ)
    util = options.sm if options.util is None else options.util
    dram = options.sm / 2 if options.dram is None else options.dram
    # Blocked, so that one which comes before the wait ends it as well.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    mem_bytes = int(options.mem_gib * 2**30)
    contexts = [
        driver.create(index, mem_bytes, (util, options.sm, options.tensor, dram)) for index in held
    ]
    report = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "gpu_uuids": [uuids[index] for index in held],
        "indexes": held,
        "minors": [driver.minor(index) for index in held],
        "env": {name: os.environ[name] for name in RANK_VARIABLES if name in os.environ},
    }
    print(json.dumps(report), flush=True)
    if options.busy or options.append:
        work(options.seconds, options.busy, options.append, ends)
    else:
        signal.sigtimedwait(ends, options.seconds)
    for context in contexts:
        driver.destroy(context)


if __name__ == "__main__":
    main()
