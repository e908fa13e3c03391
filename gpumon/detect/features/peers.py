"""Features of how a job's GPUs differ: by how much, and whether it is always the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.features.feature import (
    NO_PROFILING,
    NOT_REPORTED,
    TOO_SHORT,
    USUAL_S,
    Feature,
    correlation,
    mean,
    ratio,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples

PEER_S: Final = 30.0
"""Peers are compared over means of so long: shorter ones miss half (detectors' page, A: 51 % at 1
to 10 s, all at 30 s)."""

_ALONE: Final = "the job has one GPU, which has no peers"
_COMPARED: Final = {
    "util": ("Utilisation", ("gpu_util_ratio",), NOT_REPORTED),
    "sm": ("SM activity", ("sm_active_ratio",), NO_PROFILING),
    "tensor": ("Tensor activity", ("tensor_active_ratio",), NO_PROFILING),
    "power": ("Power as a share of the limit", ("power_w", "power_limit_w"), NOT_REPORTED),
    "mem": ("Memory in use as a share of all", ("mem_used_bytes", "mem_total_bytes"), NOT_REPORTED),
    "clock": (
        "SM clock as a share of the highest",
        ("sm_clock_mhz", "sm_clock_max_mhz"),
        NOT_REPORTED,
    ),
    "rx": ("Host to GPU", ("pcie_rx_bytes_per_s",), NOT_REPORTED),
}
_FOLLOWED: Final = ("util", "sm", "power")
"""Curves of which it is told who leads, and how alike they are over time."""

LEAST_LEAD: Final = 0.02
"""Who has so little more than the others does not lead: boards of one kind differ by it."""

_BLOCKS: Final = 4
"""A pipeline's stages hold neighbouring ranks: what is told is how much a job's quarters differ."""


def _declared() -> Iterator[Feature]:
    for name, (title, fields, absence) in _COMPARED.items():
        missing = f"{_ALONE}; or {absence}; or {TOO_SHORT}"
        for key, what in (
            (f"{name}_least", ", of the lowest GPU"),
            (f"{name}_most", ", of the highest GPU"),
            (f"{name}_lag", ": how far the lowest GPU is below the job's median"),
            (f"{name}_lead", ": how far the highest GPU is above the job's median"),
        ):
            yield Feature(
                key=key,
                unit="ratio",
                doc=f"{title}, mean of 15 minutes{what}.",
                fields=fields,
                absence=missing,
            )
    for name in _FOLLOWED:
        title, fields, absence = _COMPARED[name]
        missing = f"{_ALONE}; or {absence}; or {TOO_SHORT}"
        yield Feature(
            key=f"{name}_leader_share", unit="ratio",
            doc=f"{title}: share of 15 minutes in which the GPU that leads most often is "
            f"above the median by {LEAST_LEAD} or more.", fields=fields, absence=missing,
        )  # fmt: skip
        yield Feature(
            key=f"{name}_together", unit="",
            doc=f"{title}: correlation over time of a GPU with its job's mean, mean of all GPUs.",
            fields=fields, absence=missing,
        )  # fmt: skip
        yield Feature(
            key=f"{name}_stages", unit="ratio",
            doc=f"{title}: share of the differences between GPUs that lies between the job's "
            "quarters, in the order of ranks.", fields=fields,
            absence=f"fewer than {_BLOCKS} GPUs; or {absence}",
        )  # fmt: skip
        yield Feature(
            key=f"{name}_nodes", unit="ratio",
            doc=f"{title}: share of the differences between GPUs that lies between nodes.",
            fields=fields, absence=f"the job is on one node; or {absence}",
        )  # fmt: skip
    yield Feature(
        key="rest_gpus", unit="ratio",
        doc="Share of the GPUs at rest for 15 minutes while another works.",
        fields=("gpu_util_ratio",), absence=f"{_ALONE}; or {NOT_REPORTED}; or {TOO_SHORT}",
    )  # fmt: skip


FEATURES: Final = tuple(_declared())


def peers_of(samples: Samples, curves: Mapping[str, Floats]) -> Floats:
    """Feature by job, in the order of `FEATURES`."""
    sizes = samples.sizes
    rows: list[Floats] = []
    means = {name: mean(samples.last(curves[name], USUAL_S)) for name in _COMPARED}
    for name in _COMPARED:
        least, most = (_bound(samples, means[name], end) for end in (np.fmin, np.fmax))
        median = _each(samples, means[name], _median)
        rows += [least, most, median - least, most - median]
    for name in _FOLLOWED:
        curve = _slower(samples.last(curves[name], USUAL_S), samples.step_s)
        rows.append(_each(samples, curve, _leader_share))
        rows.append(_together(samples, curve))
        rows.append(_each(samples, means[name], _between_quarters))
        rows.append(_between_nodes(samples, means[name]))
    rests = mean(samples.last(curves["util"], USUAL_S)) < 0.01
    share = samples.by_job(rests.astype(np.float64)) / sizes
    is_comparable = np.isfinite(samples.job_mean(means["util"])) & (share < 1.0)
    rows.append(np.where(is_comparable, share, np.where(share == 1.0, 0.0, np.nan)))
    return np.where(sizes > 1, np.stack(rows), np.nan)


def _bound(samples: Samples, values: Floats, end: np.ufunc) -> Floats:
    return np.where(np.isfinite(samples.job_mean(values)), samples.by_job(values, end), np.nan)


def _each(samples: Samples, values: Floats, number_of: Callable[[Floats], float]) -> Floats:
    """A number per job of its GPUs, which lie on the last axis."""
    ends = np.append(samples.starts[1:], len(samples.of_gpu))
    pairs = zip(samples.starts.tolist(), ends.tolist(), strict=True)
    return np.array([number_of(values[..., first:end]) if end - first > 1 else np.nan
                     for first, end in pairs])  # fmt: skip


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if 2 * len(known) >= len(values) else float("nan")


def _slower(curve: Floats, step_s: float) -> Floats:
    """Means of `PEER_S` where steps are shorter."""
    count = max(1, round(PEER_S / step_s))
    whole = curve[len(curve) % count :]
    return mean(whole.reshape(-1, count, curve.shape[1]), axis=1)


def _leader_share(curve: Floats) -> float:
    """How often the GPU leads that does so most often."""
    known = curve[np.isfinite(curve).all(axis=1)]
    if 2 * len(known) < len(curve):
        return float("nan")
    leads = known.max(axis=1) - np.median(known, axis=1) >= LEAST_LEAD
    counts = np.bincount(known[leads].argmax(axis=1), minlength=1)
    return float(counts.max() / len(known))


def _together(samples: Samples, curve: Floats) -> Floats:
    own = samples.job_mean(curve)[:, samples.of_gpu]
    return samples.job_mean(correlation(curve, own))


def _between_quarters(values: Floats) -> float:
    """Share of the variance that is between quarters of the GPUs in their order."""
    if len(values) < 2 * _BLOCKS or not np.isfinite(values).all():
        return float("nan")
    parts = np.array_split(values, _BLOCKS)
    total = float(((values - values.mean()) ** 2).sum())
    between = sum(len(part) * float(part.mean() - values.mean()) ** 2 for part in parts)
    return between / total if total > 1e-9 else float("nan")


def _between_nodes(samples: Samples, values: Floats) -> Floats:
    """Share of the variance that is between a job's nodes, less what chance would give it."""
    pairs = samples.of_gpu * (int(samples.node_of_gpu.max(initial=0)) + 1) + samples.node_of_gpu
    _, group = np.unique(pairs, return_inverse=True)
    count = np.bincount(group)
    centre = (np.bincount(group, np.nan_to_num(values)) / count)[group]
    own = samples.job_mean(values)[samples.of_gpu]
    total = samples.by_job((values - own) ** 2)
    between = samples.by_job((centre - own) ** 2)
    nodes = np.array([len(np.unique(samples.node_of_gpu[samples.of_gpu == job]))
                      for job in range(len(samples.jobs))])  # fmt: skip
    by_chance = (nodes - 1) / np.maximum(samples.sizes - 1, 1)
    share = ratio(between, np.where(total > 1e-9, total, np.nan)) - by_chance
    return np.where((nodes > 1) & (nodes < samples.sizes), share, np.nan)
