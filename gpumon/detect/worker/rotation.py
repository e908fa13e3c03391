"""Whose turn it is: which detectors an evaluation asks, and about which part of the jobs.

A look must not cost more, however many detectors there are and however many jobs run. So it has
room for so many judgements of one job by one detector, and these are shared out: who wishes for
less than a fair share gets all of it, the others share the rest alike. Each detector goes round the
ring of jobs at its own pace, and each look takes it on from where the one before left it. All of
this follows from counts, from the times of the looks and from what detectors declare, never from
how fast a machine is: a replay has the same turns everywhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.detect.facts.facts import MARK_STEP, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from gpumon.detect.contract import Declaration
    from gpumon.detect.facts.facts import Part

JOBS_PER_EVALUATION: Final = 1000
"""Jobs that one detector judges in one look where there are more: ten looks see the largest fleets
once. So many or fewer are judged without sharing out."""

JUDGED_PER_EVALUATION: Final = 8 * JOBS_PER_EVALUATION
"""Judgements of one job by one detector that a look has room for. Our choice: what 22 detectors
wished for, fourteen of them of jobs, and a sixth more."""

LEAST_JOBS: Final = 100
"""Fewer jobs are not worth asking a detector: what it asks of the whole fleet, before it looks at a
job, then costs as much. Where the fair share is less, detectors take turns from look to look."""

RESTING_PER_EVALUATION: Final = 2
"""Detectors that judge a whole large fleet, GPU by GPU or node by node, and ask to rest between two
looks: so many have their turn in one look, so that they never all fall due in the same one."""

USUAL_S: Final = 10.0
"""Rest between two evaluations of a detector that is not costly, seconds."""
RAREST_S: Final = 60.0
"""Longest rest, seconds. A costly detector sees its share of the jobs in each evaluation, not all
in one of several. Up to here, ten minutes see the largest fleets once."""

EARLY_S: Final = 0.5
"""A look that comes so little too early counts as the turn: the beats of a clock are never exact,
and the next look may be seconds away."""


class _Turn(NamedTuple):
    """What is remembered of a detector's last turn."""

    at: float
    """Unix time."""
    evaluation: int
    """Number of the evaluation."""
    end: float
    """Where on the ring it went on to."""
    share: float
    """Share of its subjects that were judged."""


class Turns:
    """Shares out each evaluation's room, and remembers how far each detector came."""

    def __init__(self) -> None:
        self._evaluations = 0
        self._last: dict[str, _Turn] = {}

    def take(
        self, now: float, ring: NDArray[np.float64], declared: Mapping[str, Declaration]
    ) -> dict[str, tuple[Part, ...]]:
        """By detector the parts that it judges now, in the order given; who rests is left out.

        The first look of a detector sees all jobs, part by part: a single report has no second one.

        Args:
            now: Unix time of the evaluation.
            ring: Marks of all running jobs, ascending.
            declared: What each detector that may be asked declares, by its key.
        """
        self._evaluations += 1
        due = {key: one for key, one in declared.items() if self._is_due(key, one, now)}
        shares = self._shares(due, len(ring))
        turns: dict[str, tuple[Part, ...]] = {}
        for key, one in due.items():
            last = self._last.get(key)
            if last is None:
                count, end = _wish(one, len(ring)), 0.0
                turns[key] = tuple(_parts(ring, count))
            elif key in shares:
                count = shares[key]
                part = part_after(ring, last.end, count)
                # Once round it begins again.
                end = part[1] % 1.0
                turns[key] = (part,)
            else:
                continue
            self._last[key] = _Turn(
                now, self._evaluations, end, count / len(ring) if len(ring) else 1.0
            )
        return turns

    def _is_due(self, key: str, declared: Declaration, now: float) -> bool:
        """Whether its last turn is long enough ago: a part's pause is its share of `every_s`."""
        last = self._last.get(key)
        # A clock that was set back tells nothing of how long ago that was.
        if last is None or now < last.at:
            return True
        return now - last.at + EARLY_S >= declared.every_s * last.share

    def _shares(self, due: Mapping[str, Declaration], jobs: int) -> dict[str, int]:
        """How many jobs those judge that were asked before, those not now left out.

        Who judges no jobs has all of them before it, and takes no room.
        """
        line = sorted((key for key in due if key in self._last), key=self._evaluated)
        wishes = {key: _wish(due[key], jobs) for key in line}
        if jobs <= JOBS_PER_EVALUATION:
            return wishes
        of_jobs = {key: wish for key, wish in wishes.items() if due[key].subjects == "job"}
        others = [key for key in line if key not in of_jobs]
        resting = [key for key in others if due[key].every_s > 0][RESTING_PER_EVALUATION:]
        asked = {key: jobs for key in others if key not in resting}
        return {**asked, **shared_out(of_jobs, JUDGED_PER_EVALUATION)}

    def _evaluated(self, key: str) -> int:
        return self._last[key].evaluation


def _wish(declared: Declaration, jobs: int) -> int:
    """Jobs that a detector judges in one evaluation where there is room."""
    if declared.subjects != "job":
        return jobs
    share = USUAL_S / min(max(declared.every_s, USUAL_S), RAREST_S)
    return min(jobs, math.ceil(JOBS_PER_EVALUATION * share))


def shared_out(wishes: Mapping[str, int], room: int) -> dict[str, int]:
    """A fair share for each: what it wishes for, or as much as anybody else has at most.

    Where that were less than `LEAST_JOBS`, the last in line get nothing this time.

    Args:
        wishes: In line: who waited longest comes first.
        room: How much there is in all.
    """
    asked = list(wishes)[: room // LEAST_JOBS]
    shares = {}
    for place, key in enumerate(sorted(asked, key=lambda key: wishes[key])):
        shares[key] = min(wishes[key], room // (len(asked) - place))
        room -= shares[key]
    return shares


def part_after(ring: NDArray[np.float64], begin: float, count: int) -> Part:
    """The part of the ring from a place on that holds the next so many jobs."""
    if count >= len(ring):
        return WHOLE
    first = int(ring.searchsorted(begin, "left"))
    end = float(ring[(first + count - 1) % len(ring)]) + MARK_STEP
    # Jobs of one mark stay together: where these are all, so is the part.
    return WHOLE if end == begin else (begin, end)


def _parts(ring: NDArray[np.float64], count: int) -> Iterator[Part]:
    """All of the ring in parts of so many jobs."""
    if count >= len(ring):
        yield WHOLE
        return
    ends = [*(ring[count - 1 : -1 : count] + MARK_STEP).tolist(), 1.0]
    begin = 0.0
    for end in ends:
        if end > begin:
            yield begin, end
        begin = end
