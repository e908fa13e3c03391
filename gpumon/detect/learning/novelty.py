"""Jobs that behave like nothing that is usual here: how far each lies from all others.

Three distances count alike. The near one is to the job that is most like it, beside how far those
around that one are from each other: where jobs are of many kinds, or few, a larger distance is
usual. The broad one (Mahalanobis) is to the middle of all, in the directions in which jobs differ:
it sees what never comes together, though each part of it is common. The beside one is to the mean
of those most like it, each feature in what such jobs usually differ by: it sees the little that
they all share, and in which jobs of other kinds differ widely. Jobs of one GPU, of one node and of
several are measured by their own kind, as the first have no peers to be compared by.

A feature that is missing of one of two jobs is left out between them, and two that share too few
are no neighbours. No job's name is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.model.records.pattern import Trait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.unexplained import Behaviour

LEAST_OF_A_KIND: Final = 10
"""So many of them must be of a job's own kind: one GPU, one node, or several."""

MOST_USUAL: Final = 1000
"""Usual jobs that a job is compared with; of more, as many evenly spread."""

_LEAST_SPREAD: Final = 0.02
"""A feature that hardly differs between jobs is measured by no less than this."""

ODD_FROM: Final = 1.8
"""A job is told as odd from so many times the distance that is usual of its kind. One of the 358
healthy jobs lay beyond that it was chosen on, and two of 689 others (docs/numbers.md)."""

CIRCUMSTANCES: Final = frozenset({"gpus", "job_nodes", "alone", "observed", "step"})
"""Features that tell how large or how well seen a job is, not how it behaves."""

_FARTHEST: Final = 3.0
"""Distances from the usual are cut here, in spreads: one odd feature is not all of a job."""

_NEIGHBOURS: Final = 5
"""Usual jobs around it that tell how dense it is there."""

_BESIDE: Final = 10
"""Usual jobs whose mean a job is expected to be like."""

_LEAST_APART: Final = 0.1
"""Spreads by which a feature is expected to differ from that mean at least, lest one that they
share to the digit be all of a job."""

_COMMON: Final = 0.5
"""Share of what is known of a job that must be known of a neighbour."""

_DISTANCES: Final = 3
"""The near one, the broad one, the beside one."""

_STEADY: Final = 1.0
"""Added to the distance between neighbours, in spreads: where they are almost the same, a small
difference is none."""

_ROUND: Final = 0.02
"""Share of the spread that is the same in all directions: of some hundred jobs, those in which they
hardly differ are chance."""

_LEAST_LEFT: Final = 0.05
"""What a job's own weight among all leaves of the broad distance at least."""

_DISTINCTIVE: Final = 1.0
"""Spreads by which a job must differ from its neighbours for a feature to be named; the first two
are always."""

_LEAST_TRAITS: Final = 2
_MOST_TRAITS: Final = 5
"""Features by which a pattern is described: more of those that tell it apart well (our choice)."""

_PLACES: Final = [
    place for place, feature in enumerate(FEATURES) if feature.key not in CIRCUMSTANCES
]


class _Scaled(NamedTuple):
    """Jobs as distances from the middle of what is usual."""

    values: Floats
    """0 where it is not known."""
    is_known: Floats
    """1 where it is, else 0."""


def middle_and_spread(table: Floats) -> tuple[Floats, Floats]:
    """Of each feature of some jobs, median and spread; NaN where it is never known."""
    middle, low, high = (np.full(table.shape[1], np.nan) for _ in range(3))
    is_known = np.isfinite(table).any(axis=0)
    for found, share in ((middle, 50.0), (low, 25.0), (high, 75.0)):
        found[is_known] = np.nanpercentile(table[:, is_known], share, axis=0)
    # Of the normal distribution the quartiles lie 1.35 standard deviations apart.
    return middle, np.maximum((high - low) / 1.35, _LEAST_SPREAD)


class Usual:
    """What is usual, and how far from it a job lies."""

    def __init__(self, jobs: Sequence[Behaviour]) -> None:
        """Learn it.

        Args:
            jobs: The ones of which no detector claims anything.
        """
        self._jobs = jobs[:: max(1, -(-len(jobs) // MOST_USUAL))]
        self._ids = np.array([job.job_id for job in self._jobs])
        self._table = table_of(self._jobs)
        self._middle, self._spread = middle_and_spread(self._table[:, _PLACES])
        self._scaled = self._measured(self._table)
        self._centre, self._precision = self._directions()
        itself = self._itself(self._jobs)
        apart = self._apart(self._scaled, itself)
        alone = apart.min(axis=1)
        # One that is like nothing itself makes nothing around it any denser.
        self._alone = np.where(np.isfinite(alone), alone, _FARTHEST)
        self._expected = self._differences(self._scaled, *_nearest(apart))[1]
        own, kinds = self._distances(self._scaled, itself, apart), _kinds(self._table)
        self._typical = {
            kind: np.nanmedian(own[kinds == kind], axis=0)
            for kind in set(kinds.tolist())
            if np.isfinite(own[kinds == kind]).all(axis=1).sum() >= LEAST_OF_A_KIND
        }

    def times(self, jobs: Sequence[Behaviour]) -> Floats:
        """Per job how far it lies from all others, in distances that are usual of its kind.

        NaN where too few jobs of its kind are known, or too little of it.
        """
        table = table_of(jobs)
        unknown = np.full(_DISTANCES, np.nan)
        typical = [self._typical.get(kind, unknown) for kind in _kinds(table).tolist()]
        scaled, itself = self._measured(table), self._itself(jobs)
        every = self._distances(scaled, itself, self._apart(scaled, itself))
        every /= np.array(typical, np.float64).reshape(-1, _DISTANCES)
        found: Floats = np.cbrt(every.prod(axis=1))
        return found

    def traits(self, job: Behaviour) -> tuple[Trait, ...]:
        """By what a job differs from the usual ones nearest to it, the most telling first."""
        apart = self._apart(self._measured(table_of([job])), self._itself([job]))[0]
        around = [place for place in np.argsort(apart, kind="stable")[:_NEIGHBOURS]
                  if np.isfinite(apart[place])]  # fmt: skip
        own, usual = job.features[_PLACES], median_of(self._table[around][:, _PLACES])
        with np.errstate(invalid="ignore"):
            differs = np.nan_to_num(np.abs(own - usual) / self._spread, nan=-1.0)
        return distinctive_traits(differs, own, usual, _PLACES)

    def _itself(self, jobs: Sequence[Behaviour]) -> NDArray[np.bool_]:
        """Job by usual job whether they are the same."""
        found: NDArray[np.bool_] = np.array([job.job_id for job in jobs])[:, None] == self._ids
        return found

    def _measured(self, table: Floats) -> _Scaled:
        with np.errstate(invalid="ignore"):
            found = (table[:, _PLACES] - self._middle) / self._spread
        cut = np.nan_to_num(np.clip(found, -_FARTHEST, _FARTHEST))
        return _Scaled(cut, np.isfinite(found).astype(np.float64))

    def _apart(self, jobs: _Scaled, itself: NDArray[np.bool_]) -> Floats:
        """Job by usual job: root of the mean squared difference of what is known of both.

        Endless where too little is known of both, and of a job and itself.
        """
        theirs = self._scaled
        common = jobs.is_known @ theirs.is_known.T
        total = (jobs.values**2) @ theirs.is_known.T + jobs.is_known @ (theirs.values**2).T
        total -= 2.0 * jobs.values @ theirs.values.T
        found = np.sqrt(np.maximum(total, 0.0) / np.maximum(common, 1.0))
        known = jobs.is_known.sum(axis=1)
        is_comparable = common >= np.maximum(1.0, _COMMON * known)[:, None]
        return np.where(is_comparable & ~itself, found, np.inf)

    def _directions(self) -> tuple[Floats, Floats]:
        """Middle of all, and what weighs directions by how much jobs differ in them."""
        values = self._scaled.values
        centre = values.mean(axis=0)
        spread = np.cov(values, rowvar=False, bias=True)
        even = np.eye(len(spread)) * np.trace(spread) / len(spread)
        return centre, np.linalg.pinv((1.0 - _ROUND) * spread + _ROUND * even)

    def _differences(
        self, jobs: _Scaled, beside: NDArray[np.intp], how_far: Floats
    ) -> tuple[Floats, Floats]:
        """Job by feature how far it is from the mean of those most like it; 0 where none is known.

        And of each feature the root mean square.
        """
        is_near = np.isfinite(how_far)
        count, total = np.zeros_like(jobs.values), np.zeros_like(jobs.values)
        # One by one: all at once are ten tables.
        for others, are_near in zip(beside.T, is_near.T, strict=True):
            count += self._scaled.is_known[others] * are_near[:, None]
            total += self._scaled.values[others] * are_near[:, None]
        expected = total / np.maximum(count, 1.0)
        is_known = (count > 0.0) & (jobs.is_known > 0.0)
        found = np.where(is_known, jobs.values - expected, 0.0)
        return found, np.sqrt((found**2).sum(axis=0) / np.maximum(is_known.sum(axis=0), 1))

    def _distances(self, jobs: _Scaled, itself: NDArray[np.bool_], apart: Floats) -> Floats:
        """Job by distance, in the order above; NaN where nobody is near."""
        around, how_far = _nearest(apart)
        nearest, dense = how_far[:, 0], self._alone[around[:, :_NEIGHBOURS]].mean(axis=1)
        near = np.where(np.isfinite(nearest), nearest / (_STEADY + dense), np.nan)
        off = jobs.values - self._centre
        squared = ((off @ self._precision) * off).sum(axis=1)
        # As if the job had not been among them itself (Sherman and Morrison).
        weight = itself.sum(axis=1) * (1.0 - _ROUND) / len(self._ids)
        squared = squared / np.maximum(1.0 - weight * squared, _LEAST_LEFT)
        broad = np.sqrt(squared / np.maximum(jobs.is_known.sum(axis=1), 1.0))
        differs = self._differences(jobs, around, how_far)[0]
        differs /= np.hypot(self._expected, _LEAST_APART)
        beside = np.sqrt((differs**2).sum(axis=1) / np.maximum(jobs.is_known.sum(axis=1), 1.0))
        return np.stack([near, broad, beside], axis=1)


def _nearest(apart: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Job by place which others are most like it, the nearest first, and how far they are."""
    many = min(_BESIDE, apart.shape[1])
    some = np.argpartition(apart, many - 1, axis=1)[:, :many]
    how_far = np.take_along_axis(apart, some, axis=1)
    order = np.argsort(how_far, axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1), np.take_along_axis(how_far, order, axis=1)


def distinctive_traits(
    distinctness: Floats, values: Floats, usual: Floats, places: Sequence[int]
) -> tuple[Trait, ...]:
    """The few features that tell most, of each kind of measurement one.

    Args:
        distinctness: By feature how much it tells, in spreads; below 0 it is never named.
        values: Its value.
        usual: What is usual.
        places: Which features these are.
    """
    traits: list[Trait] = []
    kinds: set[str] = set()
    for place in np.argsort(-distinctness, kind="stable"):
        key = FEATURES[places[place]].key
        kind = key.partition("_")[0]
        if len(traits) >= (_MOST_TRAITS if distinctness[place] >= _DISTINCTIVE else _LEAST_TRAITS):
            break
        if kind not in kinds and distinctness[place] >= 0.0:
            kinds.add(kind)
            traits.append(Trait(key, float(values[place]), float(usual[place])))
    return tuple(traits)


def table_of(jobs: Sequence[Behaviour]) -> Floats:
    """Job by feature."""
    return np.array([job.features for job in jobs], np.float64).reshape(len(jobs), len(FEATURES))


def _kinds(table: Floats) -> NDArray[np.int_]:
    """Of each job 0 where it has one GPU, 1 where its GPUs are on one node, else 2."""
    with np.errstate(invalid="ignore"):
        several, spread = table[:, COLUMN["gpus"]] > 0.5, table[:, COLUMN["job_nodes"]] > 0.5
    return several.astype(np.int_) + (several & spread)


def median_of(table: Floats) -> Floats:
    """Of each column what is known; NaN where nothing is."""
    return middle_and_spread(table)[0]
