"""Whether the shifted generator is another one: what is learnt on the first loses on it.

`python -m tests.bench.shift [FIRST [SHIFTED]]`: so many recordings of each, 12 and 8 unless told.
A classifier learns windows of labelled jobs on two thirds of the first generator's recordings and
is asked about the rest and about the shifted ones, of the classes that all three have; another one
is to tell the healthy jobs of both generators apart, on recordings that it has not seen.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import f1_score, roc_auc_score

from gpumon.cli import main
from gpumon.model.records.frame import Frame
from gpumon.model.records.label import HEALTHY
from gpumon.sources.recording.decode import Decoder
from gpumon.sources.recording.labels import read_labels
from gpumon.sources.recording.read import RecordingFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.model.records.cluster import Job
    from gpumon.model.records.label import Label

    Floats = NDArray[np.float64]

WINDOW_S: Final = 900.0
MOST_WINDOWS: Final = 4
"""Of one label, so that long ones do not outvote the others."""

LEAST_JOBS: Final = 3
"""A class counts where each side has so many jobs of it."""

GPU: Final = (
    "gpu_util_ratio", "power_w", "mem_used_bytes", "sm_active_ratio", "tensor_active_ratio",
    "dram_active_ratio", "fp32_active_ratio", "pcie_rx_bytes_per_s", "nvlink_tx_bytes_per_s",
    "sm_clock_mhz",
)  # fmt: skip
SCALES: Final = {
    "power_w": "power_limit_w", "mem_used_bytes": "mem_total_bytes", "sm_clock_mhz":
    "sm_clock_max_mhz",
}  # fmt: skip
"""What a value is divided by, so that the product does not tell the class."""

_TENSOR: Final = GPU.index("tensor_active_ratio")
"""Where the mean of it stands in a row's features."""

JOB: Final = ("job_cpu_cores_used", "job_cpu_count")


class Row(NamedTuple):
    """One window of one job."""

    recording: int
    job_id: str
    finding_class: str
    features: Floats


class Past(NamedTuple):
    """What a recording tells of its nodes and jobs."""

    times: dict[str, list[float]]
    gpus: dict[str, list[Floats]]
    """By node one table for each frame: GPU by field."""
    cpus: dict[tuple[str, str], list[tuple[float, float, float]]]
    """By node and job: time, cores, CPUs."""
    jobs: dict[str, Job]
    owners: dict[str, list[tuple[str, int]]]
    """Node and row of a GPU by UUID."""


def past_of(path: Path) -> Past:
    """Everything that features are made of."""
    past = Past({}, {}, {}, {}, {})
    decoder = Decoder()
    for line in RecordingFile(path).lines():
        said = decoder.read(line.raw)
        if not isinstance(said, Frame):
            continue
        if said.queue is not None:
            past.jobs.update((job.job_id, job) for job in said.queue.jobs if job.state == "RUNNING")
        block = said.block("gpu")
        if not block.keys:
            continue
        past.times.setdefault(said.node, []).append(said.taken_at)
        past.gpus.setdefault(said.node, []).append(_table(said))
        for row, uuid in enumerate(block.keys):
            past.owners[uuid] = [(said.node, row)]
        cgroup = said.block("cgroup")
        for row, job_id in enumerate(cgroup.keys):
            cores, cpus = (cgroup.value(key, row) for key in JOB)
            told = (said.taken_at, cores or 0.0, cpus or float("nan"))
            past.cpus.setdefault((said.node, job_id), []).append(told)
    return past


def _table(frame: Frame) -> Floats:
    block = frame.block("gpu")
    nothing = np.full(len(block.keys), np.nan)
    found = []
    for key in GPU:
        column = block.columns.get(key)
        values = nothing if column is None else np.array(column, np.float64)
        scale = block.columns.get(SCALES.get(key, ""))
        found.append(values if scale is None else values / np.array(scale, np.float64))
    return np.stack(found, axis=1)


def rows_of(number: int, path: Path) -> Iterator[Row]:
    """Windows of every label that is about a job or what one job uses."""
    past = past_of(path)
    for label in read_labels(path):
        job_id = _job_of(label, past)
        if job_id is None or job_id not in past.jobs:
            continue
        count = int((label.end - label.start) / WINDOW_S)
        begins = label.start + WINDOW_S * np.arange(count)
        for begin in begins[:: max(1, count // MOST_WINDOWS)][:MOST_WINDOWS]:
            features = _features(past, past.jobs[job_id], float(begin))
            if features is not None:
                yield Row(number, job_id, label.finding_class, features)


def _job_of(label: Label, past: Past) -> str | None:
    kind, _, name = label.subject.partition(":")
    if kind == "job":
        return name.partition("/")[0]
    if kind != "gpu" or name not in past.owners:
        return None
    (node, row), at = past.owners[name][0], (label.start + label.end) / 2
    for job in past.jobs.values():
        if job.start_at is not None and job.start_at <= at and job.gpu_count:
            for part in job.allocations:
                if part.node == node and row in (part.gpu_indices or ()):
                    return job.job_id
    return None


def _features(past: Past, job: Job, begin: float) -> Floats | None:
    """Means, spreads over time and between GPUs, and the share of time at rest."""
    tables, cores = [], []
    for part in job.allocations:
        times = np.array(past.times.get(part.node, ()))
        rows = np.flatnonzero((times > begin) & (times <= begin + WINDOW_S))
        if len(rows) < 5:
            return None
        held = list(part.gpu_indices or ())
        tables.append(np.stack([past.gpus[part.node][row][held] for row in rows]))
        told = past.cpus.get((part.node, job.job_id), ())
        cores += [used / cpus for at, used, cpus in told if begin < at <= begin + WINDOW_S]
    least = min(len(table) for table in tables)
    table = np.concatenate([one[:least] for one in tables], axis=1)
    own = np.nanmean(table, axis=0)
    with np.errstate(all="ignore"):
        parts = [
            np.nanmean(own, axis=0),
            np.nanstd(own, axis=0),
            np.nanmean(np.nanstd(table, axis=0), axis=0),
            np.nanpercentile(table, 10, axis=(0, 1)),
            np.nanpercentile(table, 90, axis=(0, 1)),
            [float((table[..., 0] == 0).mean()), float(np.mean(cores)) if cores else np.nan],
            [float(np.std(cores)) if cores else np.nan, float(np.log2(table.shape[1]))],
        ]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])


def written(folder: Path, words: list[str], count: int, first: int) -> list[list[Row]]:
    """Rows of so many recordings."""
    found = []
    for seed in range(first, first + count):
        path = folder / f"{'-'.join(words[:1])}{seed}.gpumon.zst"
        if main(["simulate", str(path), "--seed", str(seed), *words]):
            message = f"seed {seed} was not written"
            raise RuntimeError(message)
        found.append(list(rows_of(seed, path)))
        path.unlink()
    return found


def _learnt(rows: list[Row], truth: list[str]) -> HistGradientBoostingClassifier:
    model = HistGradientBoostingClassifier(max_iter=80, random_state=0, class_weight="balanced")
    return model.fit(np.stack([row.features for row in rows]), truth)


def classes_lost(first: list[list[Row]], shifted: list[list[Row]]) -> dict[str, object]:
    """Macro-F1 on held-out recordings of the first generator and on the shifted ones."""
    cut = 2 * len(first) // 3
    sides = [[row for rows in part for row in rows] for part in (first[:cut], first[cut:], shifted)]
    jobs = [Counter(c for _, _, c in {(r.recording, r.job_id, r.finding_class) for r in side})
            for side in sides]  # fmt: skip
    common = sorted(c for c in jobs[0] if all(count[c] >= LEAST_JOBS for count in jobs))
    learn, held_out, other = ([r for r in side if r.finding_class in common] for side in sides)
    model = _learnt(learn, [row.finding_class for row in learn])
    scores = []
    by_class = []
    for side in (held_out, other):
        truth = [row.finding_class for row in side]
        said = model.predict(np.stack([row.features for row in side]))
        scores.append(float(f1_score(truth, said, labels=common, average="macro")))
        each = f1_score(truth, said, labels=common, average=None)
        by_class.append(dict(zip(common, np.round(each, 3).tolist(), strict=True)))
    return {
        "classes": common,
        "windows": [len(learn), len(held_out), len(other)],
        "macro_f1_first": round(scores[0], 3),
        "macro_f1_shifted": round(scores[1], 3),
        "lost": round(scores[0] - scores[1], 3),
        "by_class_first": by_class[0],
        "by_class_shifted": by_class[1],
    }


def healthy_apart(
    first: list[list[Row]], shifted: list[list[Row]], *, is_profiled: bool = False
) -> float:
    """Area under the curve of telling healthy windows of both apart, on unseen recordings.

    Args:
        first: Rows by recording.
        shifted: Likewise.
        is_profiled: Only of GPUs with profiling counters, so that what is missing tells nothing.
    """
    learn: list[tuple[Row, int]] = []
    ask: list[tuple[Row, int]] = []
    for is_shifted, side in ((0, first), (1, shifted)):
        cut = 2 * len(side) // 3
        for part, into in ((side[:cut], learn), (side[cut:], ask)):
            into += [
                (row, is_shifted)
                for rows in part
                for row in rows
                if row.finding_class == HEALTHY
                and not (is_profiled and np.isnan(row.features[_TENSOR]))
            ]
    model = _learnt([row for row, _ in learn], [str(truth) for _, truth in learn])
    likely = model.predict_proba(np.stack([row.features for row, _ in ask]))[:, 1]
    return float(roc_auc_score([truth for _, truth in ask], likely))


def measured(first_count: int, shifted_count: int) -> dict[str, object]:
    """The whole proof."""
    usual = ["--for", "2h", "--period", "15", "--nodes", "24x8"]
    with tempfile.TemporaryDirectory() as folder:
        first = written(Path(folder), usual, first_count, 101)
        shifted = written(Path(folder), ["--shift"], shifted_count, 201)
    return {
        "recordings": [first_count, shifted_count],
        **classes_lost(first, shifted),
        "healthy_auc": round(healthy_apart(first, shifted), 3),
        "healthy_auc_profiled": round(healthy_apart(first, shifted, is_profiled=True), 3),
    }


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:3]]
    print(json.dumps(measured(*(counts + [12, 8][len(counts) :])), indent=1))
