"""Time and memory of the books, for fleets of any size, on an invented clock.

`python -m tests.bench.ledger GPUS [TICKS]`: jobs of eight GPUs, one in ten of them with a finding
that grows every ten ticks, one in a thousand replaced every tick. It prints and asserts nothing.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Final

from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.finding import Confidence, Finding, Severity, Window
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Gpu, Job, JobView
from gpumon.model.records.tick import Tick

GPUS_A_JOB: Final = 8
START: Final = 1_767_225_600.0
EVERY: Final = 10
"""Ticks between two answers of the detectors."""


def _gpus(count: int, at: float) -> dict[str, Gpu]:
    found = {}
    for node in range(count // GPUS_A_JOB):
        uuids = tuple(f"GPU-{node:08d}-0000-4000-8000-{row:012d}" for row in range(GPUS_A_JOB))
        columns = {
            "gpu_util_ratio": column_for(False, [0.9] * GPUS_A_JOB),
            "energy_j": column_for(True, [int(at - START) * 500] * GPUS_A_JOB),
        }
        block = Block(uuids, columns, {"name": ("NVIDIA H100 80GB HBM3",) * GPUS_A_JOB}, {})
        for row, uuid in enumerate(uuids):
            found[uuid] = Gpu(uuid, f"gpu{node:05d}", block, row, at, "", False, ())
    return found


def _job(number: int, generation: int, start_at: float) -> JobView:
    job_id = str(number + generation * 1_000_000)
    job = Job(
        job_id, job_id, "train", f"user{number % 200}", f"lab{number % 20}", "gpu", "RUNNING", "",
        (), (), GPUS_A_JOB, start_at, start_at, None, None,
    )  # fmt: skip
    uuids = tuple(f"GPU-{number:08d}-0000-4000-8000-{row:012d}" for row in range(GPUS_A_JOB))
    return JobView(job, uuids, 0, (), ())


def _finding(view: JobView, start: float, end: float) -> Finding:
    return Finding(
        "idle_tail", "idle_tail", f"job:{view.job.job_id}", Severity.WARNING, Confidence.SUPPORTED,
        "", (), Window(start, end, 10), end, end, (), GPUS_A_JOB * (end - start),
    )  # fmt: skip


def measure(gpu_count: int, ticks: int, folder: Path) -> None:
    """Print what a tick takes."""
    count = gpu_count // GPUS_A_JOB
    jobs = [_job(number, 0, START) for number in range(count)]
    ledger = Ledger(journal=JournalFile(folder))
    took: list[float] = []
    findings: tuple[Finding, ...] = ()
    tracemalloc.start()
    for number in range(ticks):
        at = START + number
        for slot in range(number % 1000, count, 1000):
            jobs[slot] = _job(slot, number, at)
        if number % EVERY == 0:
            findings = tuple(_finding(view, START, at) for view in jobs[::10])
        tick = Tick(
            number, at, START, 1.0, (), {}, _gpus(gpu_count, at), tuple(jobs), at, findings,
            (), (), 0.0,
        )  # fmt: skip
        if number == 1:
            tracemalloc.stop()
        began = time.perf_counter()
        ledger.take(tick)
        totals = ledger.summary()
        took.append(1000 * (time.perf_counter() - began))
        if number == 0:
            print(f"memory {tracemalloc.get_traced_memory()[0] / 2**20:.0f} MiB with the GPUs")
    began = time.perf_counter()
    totals.by("user")
    asked_ms = 1000 * (time.perf_counter() - began)
    ledger.close()
    size = sum(path.stat().st_size for path in folder.iterdir())
    usual = sorted(took[1:])
    print(
        f"{gpu_count} GPUs, {ticks} ticks: first {took[0]:.1f} ms, median "
        f"{usual[len(usual) // 2]:.1f} ms, p95 {usual[int(0.95 * len(usual))]:.1f} ms, "
        f"most {usual[-1]:.1f} ms; totals by user {asked_ms:.1f} ms; on disk {size / 2**20:.2f} MiB"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        measure(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 330, Path(made))
