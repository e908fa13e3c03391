"""Known cases that a job is like: what somebody has judged, else what the model was taught with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.cases import Case
    from gpumon.detect.learning.model import Exemplar, Learnt

MOST_NEAR: Final = 2
"""So many are named: more would be read by nobody."""

_FARTHEST: Final = 10.0
"""No feature tells two jobs farther apart than so many times what was met in training."""

_LEAST_KNOWN: Final = 0.5
"""Share of what the class looks at that must be known of both (our choice)."""


class Near(NamedTuple):
    """One known case and how far away it is."""

    known: Case | Exemplar
    distance: float
    """Mean over the features of the squared difference, in shares of what was met in training, and
    of that the root: 0 is the same, 1 from one end to the other."""


def nearest(learnt: Learnt, row: Floats, cases: Sequence[Case]) -> tuple[Near, ...]:
    """The known cases of a class that a job is nearest to, at most `MOST_NEAR`.

    Those that somebody has judged come first, however far away they are: they are of this site.

    Args:
        learnt: The class.
        row: What it looks at, of the job.
        cases: What was judged, of any class; those with features of another version are left out.
    """
    mine = [
        Near(case, distance(learnt, row, case.row[learnt.columns]))
        for case in cases
        if case.finding_class == learnt.key and case.is_usable
    ]
    taught = [Near(one, distance(learnt, row, one.row)) for one in learnt.exemplars]
    by_distance = [
        one
        for part in (mine, taught)
        for one in sorted(part, key=lambda near: near.distance)
        if np.isfinite(one.distance)
    ]
    return tuple(by_distance[:MOST_NEAR])


def distance(learnt: Learnt, row: Floats, other: Floats) -> float:
    """How far two rows of what a class looks at are apart; NaN where too little is known."""
    width = np.maximum(learnt.bounds[1] - learnt.bounds[0], 1e-6)
    # Other versions, and other hands, may have written numbers that no job has.
    with np.errstate(over="ignore"):
        apart = np.clip((row - other) / width, -_FARTHEST, _FARTHEST)
    known = np.isfinite(apart)
    if known.mean() < _LEAST_KNOWN:
        return float("nan")
    return float(np.sqrt(np.mean(apart[known] ** 2)))
