"""Time of a look of all installed detectors: the cold pass, and the ticks that follow.

python -m tests.bench.detection JOBS [GPUS_PER_JOB [MORE_RULES]]

Times of the clock hold where nobody else uses the cores; CPU times of monitor and worker hold
better. Garbage is collected as rarely as gpumon does it.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time

import psutil

from gpumon.cli import GC_THRESHOLDS
from gpumon.detect.engine.engine import DetectionEngine
from tests.bench.fleet import BenchFleet
from tests.bench.more_rules import paths

PAST_TICKS = 61
"""Samples before the first look: ten minutes of evidence, from which claims are made. What a look
costs hardly depends on the past's length beyond."""

LOOKS = 20
CHANGED_RATIO = 0.001
"""Share of the jobs that end between two looks, each followed by another one: at ten seconds a
look, jobs of three hours."""


def measured(jobs: int, gpus_per_job: int, more_rules: int = 0) -> dict[str, object]:
    """Seconds from handing a picture in to its report."""
    gc.set_threshold(*GC_THRESHOLDS)
    fleet = BenchFleet(jobs, gpus_per_job, round(CHANGED_RATIO * jobs))
    for _ in range(PAST_TICKS):
        fleet.tick()
    engine = DetectionEngine(paths(more_rules))
    taken, own, theirs = [], [], []
    try:
        for _ in range(LOOKS):
            tick = fleet.tick()
            begin, used, used_there = time.perf_counter(), time.process_time(), _workers_cpu_s()
            engine.submit(tick)
            report = engine.finish(120.0)
            taken.append(time.perf_counter() - begin)
            own.append(time.process_time() - used)
            theirs.append(_workers_cpu_s() - used_there)
        kept_bytes = sum(
            child.memory_info().rss for child in psutil.Process().children(recursive=True)
        )
    finally:
        engine.close()
    both = [sum(used) for used in zip(own, theirs, strict=True)]
    return {
        "jobs": jobs,
        "gpus": jobs * gpus_per_job,
        "detectors": len(report.coverage) if report else 0,
        "muted": [c.detector for c in report.coverage if c.state == "muted"] if report else [],
        "cold_s": round(taken[0], 3),
        "tick_p50_s": round(statistics.median(taken[1:]), 3),
        "tick_p95_s": round(statistics.quantiles(taken[1:], n=20)[-1], 3),
        "monitor_cpu_p50_s": round(statistics.median(own[1:]), 3),
        "worker_cpu_p50_s": round(statistics.median(theirs[1:]), 3),
        "cpu_p95_s": round(statistics.quantiles(both[1:], n=20)[-1], 3),
        "worker_mib": round(kept_bytes / 2**20),
        "findings": len(report.findings) if report else 0,
    }


def _workers_cpu_s() -> float:
    """CPU time of the detection worker, 0 before it runs."""
    used = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(times.user + times.system for times in used)


if __name__ == "__main__":
    count, each, more = map(int, (*sys.argv[1:4], *("1000", "8", "0")[len(sys.argv) - 1 :]))
    print(json.dumps(measured(count, each, more)))
