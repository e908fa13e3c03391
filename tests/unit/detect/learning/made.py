"""Examples that a test makes up: a class that two features tell, in several recordings."""

from __future__ import annotations

import numpy as np

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.examples import Example, Examples

KEY = "comm_bound"


def examples(
    seed: int,
    jobs: int = 160,
    recordings: int = 5,
    share: float = 0.25,
    *,
    shows_class: bool = True,
) -> Examples:
    """Jobs that exchange much and compute little are of the class, unless nothing tells it."""
    dice = np.random.default_rng(seed)
    rows = []
    for job in range(jobs):
        is_true = dice.random() < share
        shows = is_true if shows_class else dice.random() < share
        base = {
            "util_15m": dice.uniform(0.85, 1.0),
            "sm_15m": dice.uniform(0.2, 0.5) if shows else dice.uniform(0.4, 0.9),
            "tensor_15m": dice.uniform(0.05, 0.2) if shows else dice.uniform(0.2, 0.5),
            "dram_15m": dice.uniform(0.1, 0.4),
            "nvlink_15m": dice.uniform(0.25, 0.5) if shows else dice.uniform(0.0, 0.25),
            "ports": np.nan,
            "fp64_15m": 0.0,
            "gpus": float(dice.integers(1, 4)),
        }
        base["sm_per_util_15m"] = base["sm_15m"] / base["util_15m"]
        lost = float(np.clip(1.2 * base["nvlink_15m"], 0.0, 1.0)) if is_true else 0.0
        for _ in range(6):
            row = np.full(len(FEATURES), np.nan)
            for key, value in base.items():
                noise = 1.0 if key == "gpus" else dice.normal(1.0, 0.02)
                row[COLUMN[key]] = value * noise
            classes = frozenset({KEY}) if is_true else frozenset()
            rows.append(Example(job % recordings, job, classes, lost, row))
    return Examples.of(rows)
