"""All features of jobs, computed once a look and shared by whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.features import hosts, levels, peers, rhythm
from gpumon.detect.features.feature import LONG_S, Feature
from gpumon.detect.features.samples import batches, samples_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples
    from gpumon.detect.view import JobLook, View

_OF_JOBS: Final = (
    Feature("gpus", "log2", "GPUs of the job.", (), "none of them is known"),
    Feature("job_nodes", "log2", "Nodes of the job.", (), "Slurm does not say where it runs"),
    Feature("observed", "s", "How much of the last hour was observed while it held its GPUs.",
            ("gpu_util_ratio",), "nothing was"),
    Feature("step", "s", "Seconds between two values that the features are made of.", (),
            "never missing"),
    Feature("alone", "", "1 where no other job with GPUs is on its nodes, else 0.", (),
            "never missing"),
)  # fmt: skip

FEATURES: Final = (*levels.FEATURES, *peers.FEATURES, *rhythm.FEATURES, *hosts.FEATURES, *_OF_JOBS)
"""In the order of the columns of a table. No name of a job, user or program is among them."""

VERSION: Final = 1
"""Goes up when a feature is defined otherwise under its old name: models are trained again then."""

COLUMN: Final = {feature.key: place for place, feature in enumerate(FEATURES)}


class FeatureTable(NamedTuple):
    """Features of some jobs."""

    jobs: tuple[JobLook, ...]
    values: Floats
    """Job by feature; NaN where it cannot be told."""

    def column(self, key: str) -> Floats:
        """One feature of every job."""
        found: Floats = self.values[:, COLUMN[key]]
        return found


def features_of(view: View, jobs: Sequence[JobLook] | None = None) -> FeatureTable:
    """Features of jobs, in their order: of all that are to be judged unless told.

    Of each job they are computed when somebody first asks on a look. Of a job without known GPUs
    all are missing.
    """
    book = view.shared.setdefault(_Book, _Book())
    assert isinstance(book, _Book)
    return book.table(view, view.jobs if jobs is None else jobs)


class _Book:
    """The features of one look."""

    def __init__(self) -> None:
        self._rows: dict[str, Floats] = {}

    def table(self, view: View, jobs: Sequence[JobLook]) -> FeatureTable:
        """Features of jobs, in their order."""
        new = [job for job in jobs if job.job.job_id not in self._rows]
        nothing = np.full(len(FEATURES), np.nan)
        self._rows.update({job.job.job_id: nothing for job in new if not job.gpus})
        for batch in batches(view, [job for job in new if job.gpus]):
            # NaN stands for what is not known, and is computed with all the time.
            with np.errstate(all="ignore"):
                values = _features(samples_of(view, batch))
            self._rows.update((job.job.job_id, row) for job, row in zip(batch, values, strict=True))
        rows = [self._rows[job.job.job_id] for job in jobs]
        return FeatureTable(tuple(jobs), np.array(rows).reshape(len(rows), len(FEATURES)))


def _features(samples: Samples) -> NDArray[np.float64]:
    """Job by feature."""
    curves, off = levels.curves_of(samples), hosts.curves_of(samples)
    parts = [
        samples.job_mean(levels.levels_of(samples, curves)),
        peers.peers_of(samples, curves),
        rhythm.rhythm_of(samples, curves, off),
        hosts.hosts_of(samples, off),
        _of_jobs(samples),
    ]
    return np.concatenate(parts).T


def _of_jobs(samples: Samples) -> Floats:
    known = samples.job_mean(samples.gpus["gpu_util_ratio"])
    observed_s = np.isfinite(known).sum(axis=0) * samples.step_s
    nodes = np.array([len(job.job.nodes) or np.nan for job in samples.jobs])
    count = len(samples.jobs)
    return np.stack([
        np.log2([max(1, job.gpu_count) for job in samples.jobs]),
        np.log2(nodes),
        np.where(observed_s > 0, np.minimum(observed_s, LONG_S), np.nan),
        np.full(count, samples.step_s),
        np.array([float(job.is_alone) for job in samples.jobs]),
    ])  # fmt: skip
