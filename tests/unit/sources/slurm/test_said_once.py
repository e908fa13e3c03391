"""A dead slurmdbd is one line, whoever of queue and accounting hears of it first."""

from __future__ import annotations

import pytest

from gpumon.model.accounting import EndedReport
from gpumon.model.fault import SourceError
from gpumon.model.frame import Frame, QueueRecords
from gpumon.sources.slurm.accounting import UNREACHED, WHERE
from gpumon.sources.slurm.failures import UNREACHED_ACCOUNTING
from gpumon.sources.slurm.said_once import SaidOnce

PARTITIONS = SourceError("slurmrestd partitions", f"{UNREACHED_ACCOUNTING}: Refused (7000)", "wait")
OTHER = SourceError("slurmrestd nodes", "gave no whole answer within 30 s", "look")
DEAD = SourceError(WHERE, UNREACHED, "wait")
BOTH = DEAD._replace(message=f"{UNREACHED}; slurmrestd partitions say so, too: Refused (7000)")


def queue(*errors: SourceError, at: float = 1.0) -> Frame:
    return Frame("rest", "", at, 0.0, {}, errors, QueueRecords((), (), at, at))


def ended(*errors: SourceError, at: float = 1.0) -> Frame:
    return Frame("rest", "", at, 0.0, {}, ended=EndedReport(None, errors))


def standing(polls: list[list[Frame]]) -> list[set[SourceError]]:
    """The errors that stand after each poll, as whoever takes the frames keeps them."""
    once = SaidOnce()
    by_kind: dict[bool, tuple[SourceError, ...]] = {}
    found = []
    for frames in polls:
        for frame in once.of(frames):
            is_ended = frame.ended is not None
            by_kind[is_ended] = frame.ended.errors if frame.ended else frame.errors
        found.append({error for errors in by_kind.values() for error in errors})
    return found


@pytest.mark.parametrize(
    "polls",
    [
        [[queue(PARTITIONS, OTHER), ended(DEAD)]],
        [[ended(DEAD), queue(PARTITIONS, OTHER)]],
        [[queue(PARTITIONS, OTHER)], [ended(DEAD)]],
        [[ended(DEAD)], [queue(PARTITIONS, OTHER)]],
        [[queue(PARTITIONS, OTHER)], [], [ended(DEAD)], [], [queue(PARTITIONS, OTHER, at=31.0)]],
    ],
)
def test_who_complains_first_makes_no_difference(polls: list[list[Frame]]) -> None:
    assert standing(polls)[-1] == {BOTH, OTHER}


def test_where_one_complains_alone_its_own_words_stand() -> None:
    assert standing([[queue(PARTITIONS)], [ended()]]) == [{PARTITIONS}, {PARTITIONS}]
    assert standing([[queue(OTHER)], [ended(DEAD)]])[-1] == {OTHER, DEAD}


def test_when_one_of_them_is_well_again_the_others_line_is_back() -> None:
    down = [queue(PARTITIONS, OTHER), ended(DEAD)]
    assert standing([down, [ended(at=60.0)]])[-1] == {PARTITIONS, OTHER}
    assert standing([down, [queue(OTHER, at=60.0)]])[-1] == {OTHER, DEAD}
    assert standing([down, [queue(at=60.0)], [ended(at=61.0)]])[-1] == set()


def test_nothing_is_told_again_without_need() -> None:
    once = SaidOnce()
    assert len(once.of([queue(PARTITIONS)])) == 1
    assert len(once.of([ended(DEAD)])) == 2
    assert once.of([]) == []
    again = once.of([queue(PARTITIONS, at=31.0)])
    assert [(frame.taken_at, frame.errors) for frame in again] == [(31.0, ())]
