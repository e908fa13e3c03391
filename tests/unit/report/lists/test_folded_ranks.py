"""Ranks that matter have their own line, alike peers share one."""

from __future__ import annotations

import pytest

from gpumon.fleet.join.ranks import WHY
from gpumon.model.finding import Severity
from gpumon.model.missing import Reason
from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.folded_ranks import LEAST_FOLDED, folded_ranks
from gpumon.report.tables.gpu import RANK_COLUMNS, rank_order
from tests.worlds.tick import BUSY, finding, gpu, job_with_gpus, tick

CELL = {column.key: column.cell for column in RANK_COLUMNS}


def job(nodes, *, findings=(), change=None, **more):
    """Rows of a job; `change` says which values a GPU has, by its place in the job."""
    view, gpus = job_with_gpus("31", nodes, **more)
    if change is not None:
        gpus = [
            gpu(one.node, one.nvml_index, {**BUSY, **change(place)}, processes=one.processes)
            for place, one in enumerate(gpus)
        ]
    digest = Digest(tick((view,), gpus, findings=findings))
    return digest, folded_ranks(digest, view)


def rank_texts(digest, rows):
    ordered = sorted(rows, key=lambda row: rank_order(digest, row))
    return [CELL["rank"](digest, row).text for row in ordered]


def test_alike_peers_are_one_line_and_who_is_named_has_its_own():
    named = (finding("job:31/rank:6", severity=Severity.CRITICAL),)
    digest, rows = job({"n1": 8, "n2": 8, "n3": 8}, findings=named)
    assert rank_texts(digest, rows) == ["6", "0…23"]
    (folded,) = [row for row in rows if row.folded]
    assert len(folded.folded) == 22
    assert CELL["why"](digest, folded).text == "22 more like it: z shows each"
    assert CELL["node"](digest, folded).text == ""


def test_who_does_something_else_has_a_line_and_the_middle_tells_for_the_others():
    def change(place):
        return {"sm_active_ratio": 0.2 if place in (3, 9) else 0.70 + 0.005 * place}

    digest, rows = job({"n1": 8, "n2": 8}, change=change)
    assert rank_texts(digest, rows) == ["3", "9", "0…15"]
    (folded,) = [row for row in rows if row.folded]
    assert CELL["sm_active_ratio"](digest, folded).text == "74"


@pytest.mark.parametrize("peers", [LEAST_FOLDED - 1, LEAST_FOLDED])
def test_few_peers_have_a_line_each(peers):
    _, rows = job({"n1": peers})
    assert len(rows) == (peers if peers < LEAST_FOLDED else 1)


def test_gpus_without_a_process_are_never_folded():
    digest, rows = job({"n1": 8, "n2": 8}, idle=4)
    assert [row.rank is None for row in rows].count(True) == 4
    assert rank_texts(digest, rows) == [*"––––", "0…11"]


def test_what_the_folded_ones_lose_is_summed():
    claim = finding("job:31", gpu_seconds=600.0 * 12.0)
    window_s = claim.window.end - claim.window.start
    digest, rows = job({"n1": 8, "n2": 4}, findings=(claim._replace(gpu_seconds=window_s * 6.0),))
    column = next(one for one in RANK_COLUMNS if one.key == "losing_gpus")
    assert sum(column.value(digest, row) for row in rows) == pytest.approx(6.0)


def closed_to_others(view, program):
    """The view as another user has it: processes of one program whose ranks may not be read."""
    closed = WHY[Reason.NO_PERMISSION]
    return view._replace(
        ranks=tuple(
            one._replace(world_id=None, rank=None, local_rank=None, why=closed, program=program)
            for one in view.ranks
        )
    )


def test_processes_whose_numbers_are_closed_are_folded_and_have_none():
    view, gpus = job_with_gpus("31", {"n1": 8, "n2": 5})
    view = closed_to_others(view, "pretrain")
    digest = Digest(tick((view,), gpus))
    (folded,) = folded_ranks(digest, view)
    assert len(folded.folded) == 12
    assert CELL["rank"](digest, folded).text == "–"


def test_two_roles_of_one_world_are_two_lines():
    view, gpus = job_with_gpus("31", {"n1": 8, "n2": 10})
    roles = ("actor", "learner")
    ranks = (one._replace(program=roles[place >= 8]) for place, one in enumerate(view.ranks))
    view = view._replace(ranks=tuple(ranks))
    rows = folded_ranks(Digest(tick((view,), gpus)), view)
    assert [len(row.folded) for row in rows] == [7, 9]
    assert len({row.key for row in rows}) == 2
