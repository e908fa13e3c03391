"""Patterns in GPU time that nobody can explain: jobs that behaved alike, and by what one sees it.

Jobs are compared by features that are known of most of them, each measured by how far it lies from
what is usual; eight directions in which they differ the most (PCA) are clustered by density
(HDBSCAN), which leaves alone what resembles nothing (reference: discovery after PCA-8).

Of each pattern, and of each job that resembles no other, it is told how far it lies from what is
usual (`novelty`): much that nobody explains is known to be well, and comes every day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA

from gpumon.detect.features.table import FEATURES
from gpumon.detect.learning.novelty import (
    CIRCUMSTANCES,
    ODD_FROM,
    Usual,
    distinctive_traits,
    median_of,
    middle_and_spread,
    table_of,
)
from gpumon.model.records.pattern import LEAST_USUAL, PatternCard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.unexplained import Behaviour, Gathered
    from gpumon.model.records.pattern import Trait

LEAST_JOBS: Final = 3
"""Jobs that make a pattern."""

MOST_ODD: Final = 20
"""So many jobs that are like nothing usual are told at most: the farthest."""

_DIRECTIONS: Final = 8
_KNOWN: Final = 0.7
"""Share of the jobs of which a feature must be known to be compared."""

_FARTHEST: Final = 4.0
"""Distances from the usual are cut here, in spreads: one odd feature is not all of a job."""

_LEAST_MEMBER: Final = 0.3
"""Strength of membership below which a job only hangs on to a pattern (our choice)."""


class Pattern(NamedTuple):
    """Jobs that behaved alike."""

    jobs: tuple[Behaviour, ...]
    """The ones with the most unexplained time first."""
    exemplar: Behaviour
    """The one in their middle."""
    traits: tuple[Trait, ...]
    """The most telling first."""
    times: float = float("nan")
    """How far they lie from what is usual, in distances that are usual; NaN: nobody knows."""

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
            jobs=ids, users=self.users, gpu_seconds=self.gpu_seconds, since=self.since,
            exemplar=self.exemplar.job_id, traits=self.traits,
            times=None if np.isnan(self.times) else round(self.times, 3),
        )  # fmt: skip


class Found(NamedTuple):
    """Patterns, and what resembles nothing."""

    patterns: tuple[Pattern, ...]
    """The ones with the most unexplained time first."""
    single: tuple[Behaviour, ...]
    odd: tuple[Pattern, ...] = ()
    """Jobs on no card that are like nothing usual, each as a pattern of its own, the farthest
    first. Of some all time counts as useful."""


def patterns_in(gathered: Gathered) -> Found:
    """The patterns in what was gathered."""
    jobs = gathered.unexplained
    known = (*gathered.others, *jobs)
    groups = _groups(jobs, gathered.others)
    patterns = [one._replace(times=_times(one.jobs, known)) for one in groups.patterns]
    shown = {job.job_id for pattern in patterns for job in pattern.jobs}
    lone = [job for job in known if job.job_id not in shown]
    return Found(tuple(patterns), groups.single, _odd(lone, known))


def _times(jobs: Sequence[Behaviour], known: Sequence[Behaviour]) -> float:
    """How far jobs that are alike lie from all others; NaN where too few of these are known."""
    own = {job.job_id for job in jobs}
    others = [job for job in known if job.job_id not in own]
    if len(others) < LEAST_USUAL:
        return float("nan")
    found = Usual(others).times(jobs)
    return float(median_of(found[:, None])[0])


def _odd(jobs: Sequence[Behaviour], known: Sequence[Behaviour]) -> tuple[Pattern, ...]:
    """The jobs that are like nothing usual, the farthest first."""
    if not jobs or len(known) < LEAST_USUAL:
        return ()
    usual = Usual(known)
    times = usual.times(jobs)
    farthest = {}
    for place in np.argsort(-times, kind="stable"):
        # One whose time is unexplained now and then is there twice.
        if times[place] >= ODD_FROM and jobs[place].job_id not in farthest:
            farthest[jobs[place].job_id] = place
    return tuple(
        Pattern((jobs[place],), jobs[place], usual.traits(jobs[place]), float(times[place]))
        for place in list(farthest.values())[:MOST_ODD]
    )


def _groups(jobs: tuple[Behaviour, ...], others: Sequence[Behaviour]) -> Found:
    """Jobs that are alike, and those that are left."""
    if len(jobs) < LEAST_JOBS:
        return Found((), jobs)
    usual = _Middle(jobs, others)
    if not len(usual.places):
        return Found((), jobs)
    distances = usual.distances(table_of(jobs))
    groups = _grouped(distances)
    patterns = [
        _pattern([jobs[place] for place in places], distances[places], usual)
        for number in range(groups.max() + 1)
        for places in [np.flatnonzero(groups == number)]
    ]
    patterns.sort(key=lambda one: -one.gpu_seconds)
    return Found(tuple(patterns), tuple(jobs[place] for place in np.flatnonzero(groups < 0)))


class _Middle:
    """What is usual: middle and spread of each feature that can be compared."""

    def __init__(self, jobs: Sequence[Behaviour], others: Sequence[Behaviour]) -> None:
        own, theirs = table_of(jobs), table_of(others)
        # Where hardly anything is explained, the unexplained is what is usual.
        table = theirs if len(others) >= len(jobs) else np.concatenate((own, theirs))
        is_comparable = np.isfinite(own).mean(axis=0) >= _KNOWN
        is_comparable &= np.isfinite(table).mean(axis=0) >= _KNOWN
        is_comparable &= [feature.key not in CIRCUMSTANCES for feature in FEATURES]
        self.places = np.flatnonzero(is_comparable)
        self.middle, self.spread = middle_and_spread(table[:, self.places])

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


def _pattern(jobs: list[Behaviour], distances: Floats, usual: _Middle) -> Pattern:
    middle = np.median(distances, axis=0)
    spread = np.median(np.abs(distances - middle), axis=0)
    exemplar = jobs[int(np.argmin(np.abs(distances - middle).sum(axis=1)))]
    # What is far from the usual, and alike in all of them.
    distinctness = np.abs(middle) - spread
    values = median_of(table_of(jobs)[:, usual.places])
    traits = distinctive_traits(distinctness, values, usual.middle, usual.places.tolist())
    ordered = sorted(jobs, key=lambda one: -one.gpu_seconds)
    return Pattern(tuple(ordered), exemplar, traits)
