"""Which ranks of a job are compared with each other, and what the title says of them."""

from __future__ import annotations

import pytest

from gpumon.fleet.join.ranks import NO_RANK, SEVERAL, WHY
from gpumon.model.missing import Reason
from gpumon.report.facts.rank_groups import rank_groups
from gpumon.report.facts.tick_index import Digest
from tests.worlds.tick import job_with_gpus, tick, uuid_of

JOB = "7"
CLOSED = WHY[Reason.NO_PERMISSION]


def closed(view, **changes):
    """The job as a user sees it who may not read its environments."""
    blank = {"world_id": None, "rank": None, "local_rank": None, "world_size": None, "why": CLOSED}
    ranks = [rank._replace(**blank) for rank in view.ranks]
    ranks[0] = ranks[0]._replace(**changes)
    return view._replace(ranks=tuple(ranks))


def test_ranks_closed_to_this_user_that_look_alike_are_compared_and_the_title_says_so():
    view, gpus = job_with_gpus(JOB, {"a": 4, "b": 4}, idle=1)
    mine = closed(view)
    alike, bare = rank_groups(Digest(tick((mine,), gpus)), mine)
    title = "ranks not known · python · 7 processes as if peers; stages may differ"
    assert (alike.title, alike.are_peers, len(alike.rows)) == (title, True, 7)
    assert (bare.title, bare.are_peers) == ("no process · 1 GPU", False)


@pytest.mark.parametrize(
    "changes",
    [
        {"program": "server"},
        {"step": "1"},
        {"program": None},
        {"why": NO_RANK},
        {"why": SEVERAL},
        {"gpu_uuids": (uuid_of("a", 0), uuid_of("a", 5))},
        {"gpu_uuids": (uuid_of("a", 1),)},
        {"gpu_uuids": ()},
        {"world_id": "a:29500", "rank": 0, "why": None},
    ],
)
def test_ranks_not_known_that_are_not_alike_are_not_compared(changes):
    view, gpus = job_with_gpus(JOB, {"a": 8})
    mine = closed(view, **changes)
    groups = rank_groups(Digest(tick((mine,), gpus)), mine)
    assert not any(group.are_peers for group in groups)
    assert not any("peers" in group.title for group in groups)


def test_few_processes_whose_ranks_are_not_known_are_not_compared():
    view, gpus = job_with_gpus(JOB, {"a": 3})
    (group,) = rank_groups(Digest(tick((closed(view),), gpus)), closed(view))
    assert (group.title, group.are_peers) == ("ranks not known · 3 processes", False)


def test_worlds_roles_and_unknown_ranks_have_groups_of_their_own():
    view, gpus = job_with_gpus(JOB, {"a": 8, "b": 4}, idle=1)
    ranks = list(view.ranks)
    ranks[0] = ranks[0]._replace(program="server")
    ranks[1] = ranks[1]._replace(world_id=None)
    ranks[2] = ranks[2]._replace(rank=None)
    digest = Digest(tick((view._replace(ranks=tuple(reversed(ranks))),), gpus))
    found = rank_groups(digest, digest.tick.jobs[0])
    assert [group.title for group in found] == [
        "world a:29500 · python · 8 ranks",
        "world a:29500 · server · 1 rank",
        "ranks not known · 2 processes",
        "no process · 1 GPU",
    ]
    assert [row.rank.rank for row in found[0].rows] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [group.are_peers for group in found] == [True, False, False, False]
