"""Time of a look of all installed detectors: the cold pass, and the ticks that follow.

python -m tests.bench.detection JOBS [GPUS_PER_JOB]
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from gpumon.detect.engine.engine import DetectionEngine
from tests.bench.fleet import BenchFleet

PAST_TICKS = 31
"""Samples before the first look: five minutes of evidence, from which claims are made. What a look
costs hardly depends on the past's length beyond."""

LOOKS = 20
CHANGED_RATIO = 0.001
"""Share of the jobs that end between two looks, each followed by another one: at ten seconds a
look, jobs of three hours."""


def measured(jobs: int, gpus_per_job: int) -> dict[str, object]:
    """Seconds from handing a picture in to its report."""
    fleet = BenchFleet(jobs, gpus_per_job, round(CHANGED_RATIO * jobs))
    for _ in range(PAST_TICKS):
        fleet.tick()
    engine = DetectionEngine()
    taken, own = [], []
    try:
        for _ in range(LOOKS):
            tick = fleet.tick()
            begin, used = time.perf_counter(), time.process_time()
            engine.submit(tick)
            report = engine.finish(120.0)
            taken.append(time.perf_counter() - begin)
            own.append(time.process_time() - used)
    finally:
        engine.close()
    return {
        "jobs": jobs,
        "gpus": jobs * gpus_per_job,
        "detectors": len(report.coverage) if report else 0,
        "muted": [c.detector for c in report.coverage if c.state == "muted"] if report else [],
        "cold_s": round(taken[0], 3),
        "tick_p50_s": round(statistics.median(taken[1:]), 3),
        "tick_p95_s": round(statistics.quantiles(taken[1:], n=20)[-1], 3),
        "monitor_cpu_p50_s": round(statistics.median(own[1:]), 3),
        "findings": len(report.findings) if report else 0,
    }


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    print(json.dumps(measured(count, each)))
