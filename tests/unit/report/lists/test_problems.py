"""The next row with a problem."""

from __future__ import annotations

from gpumon.model.finding import Evidence, Severity
from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists import problems
from gpumon.report.lists.problems import next_problem, problems_of
from gpumon.report.tables.node import node_rows
from tests.worlds.tick import finding, job_with_gpus, tick, uuid_of


def digest_of(*findings, jobs=7):
    made = [job_with_gpus(str(n), {f"n{n}": 2}) for n in range(jobs)]
    return Digest(
        tick(tuple(v for v, _ in made), [g for _, gs in made for g in gs], findings=findings)
    )


def walk(digest, at, met=(), steps=1):
    return next_problem(digest, digest.tick.jobs, at, met, steps)


def test_down_and_up_go_round_over_rows_that_are_well():
    two, five = finding("job:2"), finding("job:5")
    digest = digest_of(two, five)
    met = {two.identity, five.identity}
    assert [walk(digest, at, met) for at in (0, 2, 3, 5, 6)] == [2, 5, 5, 2, 2]
    assert [walk(digest, at, met, -1) for at in (0, 2, 3, 5, 6)] == [5, 5, 2, 2, 5]


def test_what_was_not_gone_to_comes_first():
    one, four, six = (finding(f"job:{n}") for n in (1, 4, 6))
    digest = digest_of(one, four, six)
    assert walk(digest, 4, {four.identity}) == 1
    assert walk(digest, 4, {one.identity, four.identity}) == 6
    assert walk(digest, 1, {one.identity, six.identity}) == 4


def test_no_other_row_has_one():
    assert walk(digest_of(), 3) is None
    assert walk(digest_of(finding("job:3")), 3) is None


def test_notes_known_ones_and_those_that_are_over_are_passed_over():
    digest = digest_of(
        finding("job:1", severity=Severity.INFO),
        finding("job:2", is_acknowledged=True),
        finding("job:3", cleared_at=5.0),
        finding("job:4", severity=Severity.CRITICAL),
    )
    assert walk(digest, 0) == 4
    assert walk(digest, 4) is None


def test_gpus_nodes_ranks_and_findings_have_problems_too():
    named = finding("job:0", evidence=(Evidence("f", f"gpu:{uuid_of('n0', 1)}", "it is hot"),))
    charged = finding("job:1", finding_class="hang", gpus=(uuid_of("n1", 0),))
    node = finding("node:n2", finding_class="idle_held")
    digest = digest_of(named, charged, node, jobs=4)
    gpus = [bool(problems_of(digest, row)) for row in digest.gpu_rows]
    assert gpus == [False, True, True, False, False, False, False, False]
    nodes = [row.node.name for row in node_rows(digest) if problems_of(digest, row)]
    assert nodes == ["n2"]
    ranks = digest.rank_rows(digest.tick.jobs[0])
    assert [bool(problems_of(digest, row)) for row in ranks] == [False, True]
    assert problems_of(digest, named) == (named,)
    assert [bool(problems_of(digest, view)) for view in digest.tick.jobs] == [True] * 3 + [False]


def test_of_many_gpus_only_those_that_a_finding_names_are_looked_into(monkeypatch):
    inspected = []
    hot = finding(f"gpu:{uuid_of('n150', 1)}")
    digest = digest_of(hot, jobs=200)
    rows = digest.gpu_rows
    monkeypatch.setattr(
        problems, "problems_of", lambda d, row: inspected.append(row) or problems_of(d, row)
    )
    assert next_problem(digest, rows, 0, (), 1) == 301
    assert {row.gpu.uuid for row in inspected} == {uuid_of("n150", 1)}


def test_nothing_below_the_first_that_was_not_gone_to_is_looked_at():
    three, six = finding("job:3"), finding("job:6")
    digest = digest_of(three, six, jobs=200)
    inspected = []

    class Rows(list):
        def __iter__(self):
            for row in list.__iter__(self):
                inspected.append(row)
                yield row

    rows = Rows(digest.tick.jobs)
    assert next_problem(digest, rows, 0, (), 1) == 3
    assert len(inspected) == 4
    inspected.clear()
    assert next_problem(digest, rows, 3, {three.identity}, 1) == 6
    assert len(inspected) == 7
    inspected.clear()
    assert next_problem(digest, rows, 6, {three.identity, six.identity}, 1) == 3
    assert len(inspected) == 200
