"""Who holds a GPU and what is lost with it: the same for few as for all, without asking for all."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Severity
from gpumon.report.facts.charges import charge_steps, charges_at, lookup_steps
from gpumon.report.facts.losses import NO_STAKE
from gpumon.report.facts.tick_index import Digest
from tests.worlds.tick import finding, job_with_gpus, tick, uuid_of


def jobs_tick(*, findings=(), muted=(), jobs=("11", "12", "13"), gpus=4):
    """Jobs with two nodes each."""
    made = [job_with_gpus(j, {f"a{j}": gpus, f"b{j}": gpus}) for j in jobs]
    every = [one for _, mine in made for one in mine]
    return tick(tuple(view for view, _ in made), every, findings=findings, muted=muted)


FINDINGS = (
    finding("job:11"),
    finding("job:12", severity=Severity.CRITICAL, gpus=(uuid_of("a12", 1), uuid_of("b13", 0))),
    finding("node:b12", severity=Severity.INFO),
    finding(f"gpu:{uuid_of('a13', 3)}", gpus=(uuid_of("a11", 0),)),
    finding("job:99"),
)
MUTED = (finding("job:13"), finding("node:a11", cleared_at=5.0))


@pytest.mark.parametrize(
    "nodes", [("a11",), ("a12", "b12"), ("b13", "a11"), ("a13", "b13", "a12"), ("nowhere",), ()]
)
def test_what_few_lose_is_what_they_lose_among_all(nodes):
    given_tick = jobs_tick(findings=FINDINGS, muted=MUTED)
    uuids = [uuid_of(node, index) for node in nodes for index in range(4)]
    every = Digest(given_tick).stakes
    assert every
    assert charges_at(Digest(given_tick), uuids) == {u: every.get(u, NO_STAKE) for u in uuids}


def test_a_page_finds_what_its_own_gpus_lose_without_looking_at_the_fleet():
    digest, every = (
        Digest(jobs_tick(findings=FINDINGS)),
        Digest(jobs_tick(findings=FINDINGS)).stakes,
    )
    mine = uuid_of("a12", 1)
    digest.find_stakes((mine, uuid_of("a12", 2)))
    assert digest.stake_at(mine) == every[mine] != NO_STAKE
    assert digest.stake_at(uuid_of("a12", 2)) == NO_STAKE
    assert "stakes" not in vars(digest)
    other = uuid_of("a11", 2)
    assert digest.stake_at(other) == every[other]


def test_what_is_known_is_not_looked_for_again(monkeypatch):
    digest, asked = Digest(jobs_tick(findings=FINDINGS)), []
    charged = Digest.charged_gpus
    monkeypatch.setattr(Digest, "charged_gpus", lambda *one: asked.append(one) or charged(*one))
    mine = (uuid_of("a12", 1), uuid_of("b12", 0))
    digest.find_stakes(mine)
    first = len(asked)
    assert first == len(FINDINGS)
    digest.find_stakes(mine[1:])
    assert len(asked) == first
    assert digest.stakes
    more = len(asked)
    digest.find_stakes((uuid_of("a13", 2),))
    assert len(asked) == more


@pytest.mark.parametrize("index", range(4))
def test_the_holder_of_one_gpu_is_that_among_all(index):
    given_tick = jobs_tick(jobs=("21", "22"), gpus=3)
    digest, uuid = Digest(given_tick), uuid_of("b22", index)
    found = digest.holder(uuid)
    assert "job_by_gpu" not in vars(digest)
    assert found is digest.job_by_gpu.get(uuid) is digest.holder(uuid)
    assert (found is None) == (index == 3)


def test_of_jobs_that_claim_one_gpu_it_is_the_last_either_way():
    one, gpus = job_with_gpus("1", {"n1": 2})
    other, _ = job_with_gpus("2", {"n1": 2})
    given_tick = tick((one, other), gpus)
    uuid = uuid_of("n1", 0)
    assert Digest(given_tick).holder(uuid) is Digest(given_tick).job_by_gpu[uuid] is other


def test_a_job_that_names_no_node_holds_its_gpus_all_the_same():
    view, gpus = job_with_gpus("1", {"n1": 2})
    nameless = view._replace(job=view.job._replace(nodes=()))
    assert Digest(tick((nameless,), gpus)).holder(uuid_of("n1", 0)) is nameless


def test_all_of_a_large_fleet_are_looked_up_in_steps():
    jobs = tuple(str(number) for number in range(1_200))
    given_tick = jobs_tick(jobs=jobs, gpus=1, findings=[finding(f"job:{job}") for job in jobs[::5]])
    digest, at_once = Digest(given_tick), Digest(given_tick)
    steps = sum(1 for _ in lookup_steps(digest))
    assert steps >= 1_200 // 1_000 + 240 // 50
    assert vars(digest)["job_by_gpu"] == at_once.job_by_gpu
    assert vars(digest)["stakes"] == at_once.stakes
    assert list(lookup_steps(digest)) == []
    assert len(list(charge_steps(digest))) == 240 // 50
