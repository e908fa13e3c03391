"""All features of jobs, computed once an evaluation and shared by whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.features import hosts, levels, links, peers, rhythm
from gpumon.detect.features.feature import LONG_S, USUAL_S, Feature
from gpumon.detect.features.samples import batches, samples_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples
    from gpumon.detect.view import JobLook, View

_KNOWN: Final = (
    Feature("gpus", "log2", "GPUs of the job.", (), absence="none of them is known"),
    Feature("job_nodes", "log2", "Nodes of the job.", (),
        absence="Slurm does not say where it runs"),
    Feature("alone", "", "1 where no other job with GPUs is on its nodes, else 0.", (),
            absence="never missing"),
)  # fmt: skip
_SEEN: Final = (
    Feature("observed", "s", "How much of the last hour was observed while it held its GPUs.",
            ("gpu_util_ratio",), absence="nothing was"),
    Feature("step", "s", "Seconds between two values that the features are made of.", (),
            absence="never missing"),
)  # fmt: skip


class _Group(NamedTuple):
    """Features that are computed together."""

    features: tuple[Feature, ...]
    window_s: float
    """How far back history must be read for them."""
    has_hosts: bool
    """Whether what is known off the GPUs must be read too."""
    values_of: Callable[[Samples], Floats]
    """Feature by job."""


_GROUPS: Final = (
    _Group(
        levels.USUAL, USUAL_S, False,
        lambda s: s.job_mean(levels.usual_of(s, levels.curves_of(s))),
    ),
    _Group(
        levels.LONG, LONG_S, False,
        lambda s: s.job_mean(levels.long_of(s, levels.curves_of(s))),
    ),
    _Group(links.FEATURES, LONG_S, False, links.links_of),
    _Group(peers.FEATURES, USUAL_S, False, lambda s: peers.peers_of(s, levels.curves_of(s))),
    _Group(
        rhythm.FEATURES, LONG_S, True,
        lambda s: rhythm.rhythm_of(s, levels.curves_of(s), hosts.curves_of(s)),
    ),
    _Group(hosts.USUAL, USUAL_S, True, lambda s: hosts.usual_of(s, hosts.curves_of(s))),
    _Group(hosts.LONG, LONG_S, True, hosts.long_of),
    _Group(_KNOWN, USUAL_S, False, lambda s: _known_of(s)),
    _Group(_SEEN, LONG_S, False, lambda s: _seen_of(s)),
)  # fmt: skip

FEATURES: Final = tuple(feature for group in _GROUPS for feature in group.features)
"""In the order of the columns of a table. No name of a job, user or program is among them."""

VERSION: Final = 1
"""Goes up when a feature is defined otherwise under its old name: models are trained again then."""

COLUMN: Final = {feature.key: place for place, feature in enumerate(FEATURES)}


_GROUP_OF: Final = {
    feature.key: number for number, group in enumerate(_GROUPS) for feature in group.features
}
_STARTS: Final = np.cumsum([0, *(len(group.features) for group in _GROUPS)])


class FeatureTable(NamedTuple):
    """Features of some jobs."""

    jobs: tuple[JobLook, ...]
    values: Floats
    """Job by feature; NaN where it cannot be told, or was not asked for."""

    def column(self, key: str) -> Floats:
        """One feature of every job."""
        found: Floats = self.values[:, COLUMN[key]]
        return found


def features_of(
    view: View, jobs: Sequence[JobLook] | None = None, keys: Collection[str] | None = None
) -> FeatureTable:
    """Features of jobs, in their order.

    Of each job they are computed when they are first asked for. Of a job without known GPUs
    all are missing.

    Args:
        view: The look.
        jobs: Whose; None: of all that are to be judged.
        keys: Features that are wanted, at least; None: all. Fewer take less time.
    """
    computed = view.shared.setdefault(_Computed, _Computed())
    assert isinstance(computed, _Computed)
    wanted = _GROUP_OF if keys is None else keys
    groups = sorted({_GROUP_OF[key] for key in wanted})
    return computed.table(view, view.jobs if jobs is None else jobs, groups)


class _Computed:
    """The features of one evaluation."""

    def __init__(self) -> None:
        self._rows: dict[str, Floats] = {}
        """By subject all of them; NaN where nobody has asked yet."""
        self._done: dict[int, set[str]] = {number: set() for number in range(len(_GROUPS))}
        """By group the subjects of which it is computed."""

    def table(self, view: View, jobs: Sequence[JobLook], groups: Sequence[int]) -> FeatureTable:
        """Features of jobs, in their order."""
        for job in jobs:
            if job.subject not in self._rows:
                self._rows[job.subject] = np.full(len(FEATURES), np.nan)
        new = [
            job
            for job in jobs
            if job.gpus and any(job.subject not in self._done[number] for number in groups)
        ]
        window_s = max((_GROUPS[number].window_s for number in groups), default=USUAL_S)
        has_hosts = any(_GROUPS[number].has_hosts for number in groups)
        for batch in batches(view, new, window_s):
            # NaN stands for what is not known, and is computed with all the time.
            with np.errstate(all="ignore"):
                self._take(samples_of(view, batch, window_s, has_hosts=has_hosts), groups)
        rows = [self._rows[job.subject] for job in jobs]
        return FeatureTable(tuple(jobs), np.array(rows).reshape(len(rows), len(FEATURES)))

    def _take(self, samples: Samples, groups: Sequence[int]) -> None:
        names = [job.subject for job in samples.jobs]
        for number in groups:
            first, end = _STARTS[number : number + 2]
            for name, values in zip(names, _GROUPS[number].values_of(samples).T, strict=True):
                self._rows[name][first:end] = values
            self._done[number].update(names)


def _known_of(samples: Samples) -> Floats:
    nodes = np.array([len(job.job.nodes) or np.nan for job in samples.jobs])
    return np.stack([
        np.log2([max(1, job.gpu_count) for job in samples.jobs]),
        np.log2(nodes),
        np.array([float(job.is_alone) for job in samples.jobs]),
    ])  # fmt: skip


def _seen_of(samples: Samples) -> Floats:
    known = samples.job_mean(samples.gpus["gpu_util_ratio"])
    observed_s = np.isfinite(known).sum(axis=0) * samples.step_s
    return np.stack([
        np.where(observed_s > 0, np.minimum(observed_s, LONG_S), np.nan),
        np.full(len(samples.jobs), samples.step_s),
    ])  # fmt: skip
