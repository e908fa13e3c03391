"""Patterns in GPU time that nobody can explain: jobs that behaved alike, and by what one sees it.

Jobs are compared by features that are known of most of them, each measured by how far it lies from
what is usual; eight directions in which they differ the most (PCA) are clustered by density
(HDBSCAN), which leaves alone what resembles nothing (reference: discovery after PCA-8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA

from gpumon.detect.features.table import FEATURES
from gpumon.model.records.pattern import PatternCard, Trait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.unexplained import Behaviour, Gathered

LEAST_JOBS: Final = 3
"""Jobs that make a pattern."""

_DIRECTIONS: Final = 8
_KNOWN: Final = 0.7
"""Share of the jobs of which a feature must be known to be compared."""

_FARTHEST: Final = 4.0
"""Distances from the usual are cut here, in spreads: one odd feature is not all of a job."""

_LEAST_SPREAD: Final = 0.02
"""A feature that hardly differs between jobs is measured by no less than this."""

_TELLING: Final = 1.0
"""Spreads by which a pattern's jobs must differ from the usual for a feature to be named; the
first two are always."""

_LEAST_MEMBER: Final = 0.3
"""Strength of membership below which a job only hangs on to a pattern (our choice)."""

_LEAST_TRAITS: Final = 2
_MOST_TRAITS: Final = 5

_CIRCUMSTANCES: Final = frozenset({"gpus", "job_nodes", "alone", "observed", "step"})
"""Features that tell how large or how well seen a job is, not how it behaves."""


class Pattern(NamedTuple):
    """Jobs that behaved alike."""

    jobs: tuple[Behaviour, ...]
    """The ones with the most unexplained time first."""
    exemplar: Behaviour
    """The one in their middle."""
    traits: tuple[Trait, ...]
    """The most telling first."""

    @property
    def gpu_seconds(self) -> float:
        """Unexplained GPU-seconds of all of them."""
        return sum(job.gpu_seconds for job in self.jobs)

    @property
    def users(self) -> tuple[str, ...]:
        """Whose they are, each once, the one with the most time first."""
        return tuple(dict.fromkeys(job.user for job in self.jobs))

    @property
    def since(self) -> float:
        """Unix time at which the first of them was seen so."""
        return min(job.since for job in self.jobs)

    @property
    def card(self) -> PatternCard:
        """What is shown of it."""
        ids = tuple(dict.fromkeys(job.job_id for job in self.jobs))
        return PatternCard(
            ids, self.users, self.gpu_seconds, self.since, self.exemplar.job_id, self.traits
        )


class Found(NamedTuple):
    """Patterns, and what resembles nothing."""

    patterns: tuple[Pattern, ...]
    """The ones with the most unexplained time first."""
    single: tuple[Behaviour, ...]


def patterns_in(gathered: Gathered) -> Found:
    """The patterns in what was gathered."""
    jobs = gathered.unexplained
    if len(jobs) < LEAST_JOBS:
        return Found((), jobs)
    usual = _Usual(jobs, gathered.others)
    if not len(usual.places):
        return Found((), jobs)
    distances = usual.distances(_table(jobs))
    groups = _grouped(distances)
    patterns = [
        _pattern([jobs[place] for place in places], distances[places], usual)
        for number in range(groups.max() + 1)
        for places in [np.flatnonzero(groups == number)]
    ]
    patterns.sort(key=lambda one: -one.gpu_seconds)
    return Found(tuple(patterns), tuple(jobs[place] for place in np.flatnonzero(groups < 0)))


def _table(jobs: Sequence[Behaviour]) -> Floats:
    return np.array([job.features for job in jobs], np.float64).reshape(len(jobs), len(FEATURES))


class _Usual:
    """What is usual: middle and spread of each feature that can be compared."""

    def __init__(self, jobs: Sequence[Behaviour], others: Sequence[Behaviour]) -> None:
        own, theirs = _table(jobs), _table(others)
        # Where hardly anything is explained, the unexplained is what is usual.
        table = theirs if len(others) >= len(jobs) else np.concatenate((own, theirs))
        is_told = np.isfinite(own).mean(axis=0) >= _KNOWN
        is_told &= np.isfinite(table).mean(axis=0) >= _KNOWN
        is_told &= [feature.key not in _CIRCUMSTANCES for feature in FEATURES]
        self.places = np.flatnonzero(is_told)
        told = table[:, self.places]
        self.middle: Floats = np.nanmedian(told, axis=0)
        low, high = (np.nanpercentile(told, share, axis=0) for share in (25.0, 75.0))
        # Of the normal distribution the quartiles lie 1.35 standard deviations apart.
        self.spread: Floats = np.maximum((high - low) / 1.35, _LEAST_SPREAD)

    def distances(self, table: Floats) -> Floats:
        """Per job and feature how far it lies from the usual; 0 where it is not known."""
        found = (table[:, self.places] - self.middle) / self.spread
        return np.nan_to_num(np.clip(found, -_FARTHEST, _FARTHEST))


def _grouped(distances: Floats) -> NDArray[np.intp]:
    """Per job the number of its group, -1 where it resembles no other."""
    directions = min(_DIRECTIONS, *distances.shape)
    reduced = PCA(directions, random_state=0).fit_transform(distances)
    fitted = HDBSCAN(min_cluster_size=LEAST_JOBS, min_samples=2, copy=True).fit(reduced)
    found: NDArray[np.intp] = np.where(fitted.probabilities_ >= _LEAST_MEMBER, fitted.labels_, -1)
    # Of what is left of a group there may be too few.
    numbers, counts = np.unique(found, return_counts=True)
    found[np.isin(found, numbers[counts < LEAST_JOBS])] = -1
    return found


def _pattern(jobs: list[Behaviour], distances: Floats, usual: _Usual) -> Pattern:
    middle = np.median(distances, axis=0)
    spread = np.median(np.abs(distances - middle), axis=0)
    exemplar = jobs[int(np.argmin(np.abs(distances - middle).sum(axis=1)))]
    # What is far from the usual, and alike in all of them.
    telling = np.abs(middle) - spread
    values = np.nanmedian(_table(jobs)[:, usual.places], axis=0)
    traits: list[Trait] = []
    kinds: set[str] = set()
    for place in np.argsort(-telling, kind="stable"):
        key = FEATURES[usual.places[place]].key
        kind = key.partition("_")[0]
        if len(traits) >= (_MOST_TRAITS if telling[place] >= _TELLING else _LEAST_TRAITS):
            break
        if kind not in kinds:
            kinds.add(kind)
            traits.append(Trait(key, float(values[place]), float(usual.middle[place])))
    ordered = sorted(jobs, key=lambda one: -one.gpu_seconds)
    return Pattern(tuple(ordered), exemplar, tuple(traits))
