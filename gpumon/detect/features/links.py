"""Features of a job's links: of its GPUs the worst counts, as it holds up all of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.features.feature import (
    LONG_S,
    NOT_REPORTED,
    TOO_SHORT,
    USUAL_S,
    Feature,
    enough,
    ratio,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples
    from gpumon.detect.view import JobLook

AWAKE: Final = 0.5
"""Utilisation of a step from which a PCIe link is out of its rest, in which its generation falls
(KempnerPulse's bound of busy classes)."""

_STATE: Final = "link_state"

FEATURES: Final = (
    Feature(
        "pcie_lanes", "ratio",
        "PCIe lanes as a share of the most of GPU and slot, at the widest of 15 minutes, of the "
        "GPU with the least.", ("pcie_width", "pcie_width_max"),
        absence=f"{NOT_REPORTED}; or {TOO_SHORT}",
    ),
    Feature(
        "pcie_generation", "ratio",
        f"PCIe generation as a share of the highest of GPU and slot, at the best of 15 minutes "
        f"with a utilisation of {AWAKE} or more, of the GPU with the least.",
        ("pcie_gen", "pcie_gen_max", "gpu_util_ratio"),
        absence=f"{NOT_REPORTED}; or most GPUs are never so busy",
    ),
    Feature(
        "pcie_replays_60m", "log10 1/h",
        "Packets sent again over PCIe, of the GPU with the most.", ("pcie_replay_count",),
        absence=f"{NOT_REPORTED}; or {TOO_SHORT}",
    ),
    Feature(
        "nvlinks", "ratio",
        "NVLinks that are not inactive now, as a share of the GPU's, of the GPU with the least.",
        (_STATE,), absence="the GPUs have none; or the driver does not report their state",
    ),
)  # fmt: skip


def links_of(samples: Samples) -> Floats:
    """Feature by job, in the order of `FEATURES`."""
    gpus = samples.gpus
    lanes = samples.last(ratio(gpus["pcie_width"], gpus["pcie_width_max"]), USUAL_S)
    # The generation falls at rest, the lanes do not; a reading in passing is none either way.
    widest = enough(np.fmax.reduce(lanes, axis=0), np.isfinite(lanes).sum(axis=0), len(lanes))
    speed = ratio(gpus["pcie_gen"], gpus["pcie_gen_max"])
    is_awake = gpus["gpu_util_ratio"] >= AWAKE
    fastest = np.fmax.reduce(samples.last(np.where(is_awake, speed, np.nan), USUAL_S), axis=0)
    again = _per_hour(samples.last(gpus["pcie_replay_count"], LONG_S), samples.step_s)
    return np.stack([
        _worst(samples, widest, np.fmin),
        _worst(samples, fastest, np.fmin),
        np.log10(np.maximum(_worst(samples, again, np.fmax), 1.0)),
        _active(samples.jobs),
    ])  # fmt: skip


def _worst(samples: Samples, values: Floats, end: np.ufunc) -> Floats:
    """Of each job's GPUs the lowest or highest value, NaN where most are not known."""
    return np.where(np.isfinite(samples.job_mean(values)), samples.by_job(values, end), np.nan)


def _per_hour(counter: Floats, step_s: float) -> Floats:
    """How fast a counter goes up; where it begins again nothing is counted."""
    more = np.diff(counter, axis=0)
    is_known = np.isfinite(more)
    count = is_known.sum(axis=0)
    total = np.where(is_known, np.maximum(more, 0.0), 0.0).sum(axis=0)
    rate: Floats = total / np.maximum(count, 1) * 3600.0 / step_s
    # A quarter of an hour tells a rate.
    return enough(rate, count, max(1, round(2 * USUAL_S / step_s)))


def _active(jobs: Sequence[JobLook]) -> list[float]:
    """Of each job the share of links that are not inactive, of the GPU with the least."""
    nodes = {node.name: node for job in jobs for node in job.nodes}
    # Once for each node, not for each of the jobs that share it.
    active: dict[str, list[bool]] = {}
    for node in nodes.values():
        rows = node.block("link")
        for key, state in zip(rows.keys, rows.values.get(_STATE, ()), strict=False):
            if state is not None:
                # 0 is inactive; a link asleep is up.
                active.setdefault(key.rpartition("/")[0], []).append(bool(state))
    shares = {uuid: sum(links) / len(links) for uuid, links in active.items()}
    return [
        min((shares[uuid] for uuid in job.uuids if uuid in shares), default=float("nan"))
        for job in jobs
    ]
