"""What GPUs show that work, but not well, and what is well and looks so: for tests of both."""

from __future__ import annotations

import random
from math import sin

from tests.unit.gpumon_detectors.idle_scenes import TROUBLES, played

GIB = 2.0**30

TRAINS = {
    "process_count": 1.0,
    "mem_used_bytes": 57.0 * GIB,
    "mem_total_bytes": 80.0 * GIB,
    "gpu_util_ratio": 0.97,
    "sm_active_ratio": 0.83,
    "sm_occupancy_ratio": 0.31,
    "tensor_active_ratio": 0.44,
    "dram_active_ratio": 0.34,
    "fp32_active_ratio": 0.06,
    "fp64_active_ratio": 0.0,
    "power_w": 590.0,
    "power_limit_w": 700.0,
    "pcie_rx_bytes_per_s": 3e7,
    "pcie_tx_bytes_per_s": 1e7,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
    "nvlink_rx_bytes_per_s": 2.1e10,
    "nvlink_tx_bytes_per_s": 2.1e10,
    "encoder_util_ratio": 0.0,
    "decoder_util_ratio": 0.0,
}
"""Dense training that is well."""

EXCHANGES = {
    **TRAINS,
    "gpu_util_ratio": 0.98,
    "sm_active_ratio": 0.23,
    "sm_occupancy_ratio": 0.1,
    "tensor_active_ratio": 0.05,
    "dram_active_ratio": 0.14,
    "power_w": 350.0,
    "nvlink_rx_bytes_per_s": 1.74e11,
    "nvlink_tx_bytes_per_s": 1.74e11,
}
"""Two thirds of the time in an exchange that nothing hides: NVLinks at 39 % of 450 GB/s."""

SMALL = {
    **TRAINS,
    "mem_used_bytes": 21.0 * GIB,
    "gpu_util_ratio": 0.78,
    "sm_active_ratio": 0.2,
    "sm_occupancy_ratio": 0.07,
    "tensor_active_ratio": 0.03,
    "dram_active_ratio": 0.07,
    "fp32_active_ratio": 0.05,
    "power_w": 205.0,
    "nvlink_rx_bytes_per_s": 4e8,
    "nvlink_tx_bytes_per_s": 4e8,
}
"""One small kernel after the other."""

FP32 = {
    **TRAINS,
    "sm_active_ratio": 0.8,
    "tensor_active_ratio": 0.0,
    "fp32_active_ratio": 0.55,
    "power_w": 520.0,
}
"""Dense training in fp32."""

PIPES = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")


def wavy(values, by=0.06, every_s=71.0):
    """The same, with shares that go up and down a little all the time."""

    def around(value, phase):
        return lambda s: value * (1.0 + by * sin(s / every_s + phase))

    moving = {
        key: around(value, number)
        for number, (key, value) in enumerate(values.items())
        if key.endswith("active_ratio") and value
    }
    return {**values, **moving}


def all_do(values, **other):
    """The same on every GPU."""
    return lambda _place: {**values, **other}


def running(values, seconds=1500.0, *, period_s=10.0, trouble="none", gpus=4, cores=8.0, **fields):
    """A job that trains for ten minutes and then does something else for so long."""
    how = values if callable(values) else all_do(wavy(values))
    phases = [(600.0, all_do(TRAINS), 12.0), (seconds, how, cores)]
    return played(period_s, trouble, phases, gpus, **fields)[0]


def glances(share, seed):
    """Utilisation as a look of a moment once a minute finds it: a kernel, or none."""
    dice = random.Random(seed)
    found = [float(dice.random() < share) for _ in range(1000)]
    return lambda s: found[int(s // 60)]


__all__ = [
    "EXCHANGES",
    "FP32",
    "GIB",
    "PIPES",
    "SMALL",
    "TRAINS",
    "TROUBLES",
    "all_do",
    "glances",
    "played",
    "running",
    "wavy",
]
