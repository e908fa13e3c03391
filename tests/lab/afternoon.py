"""Makes the lab recording of the five tasks: `python -m tests.lab.afternoon FILE`, in 21 minutes.

Alice trains on two nodes, eight ranks in one world: after eleven minutes rank 5 waits for its data,
and all others for it. Bob holds four GPUs and uses one. Another job of Alice's ends after eleven
minutes, so that the fleet ten minutes before the end was another one. All of Slurm, ssh, probes
and cgroups is real; what the pretend driver tells of the GPUs is written here, once a period.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import zstandard

from tests.lab.cluster import Cluster
from tests.lab.layout import Layout
from tests.worlds.probe import PATIENCE_S

if TYPE_CHECKING:
    from tests.lab.standin.state import State

PERIOD_S: Final = 2.0
LENGTH_S: Final = 20.5 * 60.0
TURN_S: Final = 11 * 60.0
"""When rank 5 begins to lag and the short job ends."""
SUBMIT_S: Final = 8.0
NODES: Final = ("gpu01", "gpu02", "gpu03")
SLOW: Final = ("gpu02", 1)
"""The GPU of rank 5: the second of the second node's four."""

SYNC: Final = '{"kind":"sync",'
BOOT_ID: Final = re.compile(r'(?<="boot_id":\[")[0-9a-f-]{36}(?="\])')

GRAPHICS, SM, OCCUPANCY, TENSOR, HMMA, DRAM = 1, 2, 3, 5, 7, 10
"""Numbers of GPM metrics."""


class Load(NamedTuple):
    """What a GPU shows on average: percent, watts, and GB/s over NVLink each way."""

    duty: float
    sm: float
    tensor: float
    dram: float
    power_w: float
    nvlink_gb_per_s: float
    temp_c: float


REST: Final = Load(0, 0, 0, 0, 72, 0, 31)
EVEN: Final = Load(99, 84, 41, 37, 612, 118, 61)
WAITING: Final = Load(99, 52, 24, 22, 431, 66, 54)
"""A rank that has done its part: NCCL's kernel spins until the last one has, too."""
LAGGING: Final = Load(58, 31, 23, 19, 327, 64, 48)
ALONE: Final = Load(97, 71, 28, 44, 478, 0, 57)


def load_of(node: str, gpu: int, since_s: float) -> Load:
    """What a GPU does so many seconds after the begin; the jobs start after `SUBMIT_S`."""
    if since_s < SUBMIT_S:
        return REST
    turned = since_s >= TURN_S
    if node == "gpu03":
        return ALONE if gpu == 0 or (4 <= gpu <= 5 and not turned) else REST
    if gpu >= 4:
        return REST
    if not turned:
        return EVEN
    return LAGGING if (node, gpu) == SLOW else WAITING


def write(state: State, node: str, since_s: float, chance: random.Random) -> None:
    """Publish what the GPUs of a node show now."""
    for gpu in range(8):
        load = load_of(node, gpu, since_s)
        sway = 1.0 if load is REST else chance.uniform(0.97, 1.03)
        state.gpu(
            gpu,
            util_gpu=round(min(100.0, load.duty * sway)),
            util_mem=round(load.dram * sway),
            power_mw=round(load.power_w * sway) * 1000,
            temp_c=round(load.temp_c),
            sm_clock_mhz=345 if load is REST else 1980,
            clock_event_reasons=1 if load is REST else 0,
            nvlink_tx_bytes_per_s=round(load.nvlink_gb_per_s * sway * 10) * 10**8,
            nvlink_rx_bytes_per_s=round(load.nvlink_gb_per_s * sway * 10) * 10**8,
        )
        shares = {GRAPHICS: load.duty, SM: load.sm, OCCUPANCY: load.sm * 0.4,
                  TENSOR: load.tensor, HMMA: load.tensor, DRAM: load.dram}  # fmt: skip
        for metric, percent in shares.items():
            state.gpm(gpu, metric, round(min(100.0, percent * sway)))
    state.write()


def submit(cluster: Cluster) -> dict[str, int]:
    """The three jobs; their programs hold memory and leave all else to what is written."""
    program = f"/usr/bin/python3 {cluster.layout.workload} --sm 0 --util 0 --dram 0 --seconds 7200"
    train = (
        "export MASTER_ADDR=gpu01 MASTER_PORT=29500\n"
        f"exec srun --ntasks-per-node=4 {program} --mem-gib 61\n"
    )
    return {
        "pretrain": cluster.submit(
            "alice", train, "-J", "pretrain-7b", "-o", "/dev/null", "-t", "120", "-w",
            "gpu[01-02]", "-N2", "-n8", "--ntasks-per-node=4", "--gres=gpu:4",
        ),
        "sweep": cluster.submit(
            "bob", f"exec {program} --index 0 --mem-gib 22\n", "-J", "hpo-sweep", "-o", "/dev/null",
            "-t", "120", "-w", "gpu03", "-n1", "--gres=gpu:4",
        ),
        "short": cluster.submit(
            "alice", f"exec {program} --index 0,1 --mem-gib 35\n", "-J", "evaluate", "-o",
            "/dev/null", "-t", "120", "-w", "gpu03", "-n1", "--gres=gpu:2",
        ),
    }  # fmt: skip


def record(cluster: Cluster) -> bytes:
    """Plays the afternoon under `gpumon record`; returns the recording."""
    chance = random.Random(6)
    states = {node: cluster.driver(node) for node in NODES}
    file = cluster.layout.shared / "home/alice/afternoon.gpumon.zst"
    words = [str(cluster.layout.venv / "bin/gpumon"), "record", f"/home/alice/{file.name}",
             "slurm", "--all", "--force", "--period", str(PERIOD_S)]  # fmt: skip
    words += ["--for", str(LENGTH_S)]
    recorder = cluster.popen_as("alice", words)
    jobs: dict[str, int] = {}
    began = time.monotonic()
    try:
        while recorder.poll() is None:
            since_s = time.monotonic() - began
            assert since_s < LENGTH_S + PATIENCE_S, "gpumon record does not end"
            if not jobs and since_s >= SUBMIT_S:
                jobs = submit(cluster)
            if "short" in jobs and since_s >= TURN_S:
                cluster.cancel(jobs.pop("short"))
            for node, state in states.items():
                write(state, node, since_s, chance)
            with suppress(subprocess.TimeoutExpired):
                recorder.wait(PERIOD_S / 2)
        _, output = recorder.communicate()
        print(output, file=sys.stderr)
    finally:
        if recorder.poll() is None:
            cluster.signal(recorder)
            recorder.kill()
        cluster.cancel(*jobs.values())
    if recorder.returncode:
        raise subprocess.CalledProcessError(recorder.returncode, words)
    return file.read_bytes()


def repacked(recording: bytes, length_s: float = LENGTH_S) -> bytes:
    """The same in less room, cut after a beat, without what names the machine below the lab.

    A recorder flushes twice a second, which costs half of the compression: here a frame of zstd
    holds a whole passage.
    """
    reader = zstandard.ZstdDecompressor().stream_reader(recording, read_across_frames=True)
    passages: list[list[str]] = [[]]
    ends_at = 0.0
    for line in reader.read().decode().splitlines(keepends=True):
        if line.startswith(SYNC):
            passages.append([])
        passages[-1].append(BOOT_ID.sub("0" * 8 + "-0000-4000-8000-" + "0" * 12, line))
        message = json.loads(line)
        if message["kind"] == "header":
            ends_at = message["started_at"] + length_s
        if message["kind"] == "beat" and message["at"] >= ends_at:
            break
    pack = zstandard.ZstdCompressor(level=19)
    return b"".join(pack.compress("".join(passage).encode()) for passage in passages if passage)


def main() -> None:
    """In the lab that is up; `GPUMON_LAB_SLOT` chooses it."""
    Path(sys.argv[1]).write_bytes(repacked(record(Cluster(Layout.chosen()))))


if __name__ == "__main__":
    main()
