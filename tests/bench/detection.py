"""Time of a look of all installed detectors: the cold pass, and the ticks that follow.

python -m tests.bench.detection JOBS [GPUS_PER_JOB]
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from gpumon.detect.engine import DetectionEngine
from gpumon.detect.scene import Scene, Values, working

PAST_S = 100.0
"""Ten samples before the first look: what a look costs hardly depends on the past's length."""

LOOKS = 20


def fleet(jobs: int, gpus_per_job: int) -> tuple[Scene, dict[str, Values]]:
    """One job per node; every second leaves half of its GPUs unused."""
    scene = Scene(period_s=10.0)
    values: dict[str, Values] = {}
    for number in range(jobs):
        uuids = scene.node(f"n{number}", gpus_per_job)
        scene.job(str(1 + number), uuids, cpu_count=16 * gpus_per_job)
        values.update(working(uuids if number % 2 else uuids[: gpus_per_job // 2]))
    return scene, values


def measured(jobs: int, gpus_per_job: int) -> dict[str, object]:
    """Seconds from handing a picture in to its report."""
    scene, values = fleet(jobs, gpus_per_job)
    scene.run(PAST_S, values)
    engine = DetectionEngine()
    taken = []
    try:
        for _ in range(LOOKS):
            tick = scene.run(10.0, values)
            begin = time.perf_counter()
            engine.submit(tick)
            report = engine.finish(120.0)
            taken.append(time.perf_counter() - begin)
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
    }


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    print(json.dumps(measured(count, each)))
