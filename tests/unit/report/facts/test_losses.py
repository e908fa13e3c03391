"""One order for everything, and one sum however the fleet is divided."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.finding import Confidence, Severity
from gpumon.model.records.ledger import Losing
from gpumon.report.facts.columns import arranged
from gpumon.report.facts.groups import groups, partition_rows
from gpumon.report.facts.losses import Stake, mark_of, stake_together
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.finding import finding_order, state_of
from gpumon.report.tables.gpu import fleet_basis, fleet_order, rank_order
from gpumon.report.tables.group import group_order
from gpumon.report.tables.node import node_rows
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view
from tests.worlds import tick as ticks

ALL = tuple("abcdefgh")
AT = START + 900


def lossy(**changes):
    """Eight GPUs on a node: three jobs of two users lose by five causes, one of them unsure."""
    jobs = [
        view("1", ALL[:4], user="ada", partition="h100", account="ml"),
        view("2", ALL[4:6], user="bob", partition="a100", account="ml"),
        view("3", ALL[6:], user="ada", partition="a100", account="bio"),
    ]
    found = (
        claim("hang", "job:1", START, AT, share=1, gpus=ALL[:3]),
        claim("throttled", "gpu:e", START, AT, share=0.35, gpus=("e", "f")),
        claim("input_bound", "job:2", START, AT, share=0.2, gpus=("e", "f")),
        claim("small_batch", "job:3", START, AT, share=0.45, gpus=("g", "h"), sure=False),
        claim("comm_bound", "job:3", START, AT, share=0.05, gpus=("h",)),
    )
    ledger = Ledger()
    ledger.take(tick(START, jobs, [gpu(uuid, START) for uuid in ALL]))
    given_tick = tick(AT, jobs, [gpu(uuid, AT) for uuid in ALL], found, period_s=900.0)
    ledger.take(given_tick)
    return Digest(given_tick._replace(ledger=ledger.summary(), **changes))


def lost(stakes) -> Losing:
    return stake_together(stakes).losing


def test_every_way_to_divide_the_fleet_adds_up_to_it():
    digest = lossy()
    whole = digest.tick.ledger.losing.total()
    assert sum(whole) > 4
    for kind in ("user", "account", "partition"):
        assert lost(group.stake for group in groups(digest, kind)) == pytest.approx(whole)
    assert lost(row.group.stake for row in partition_rows(digest)) == pytest.approx(whole)
    assert lost(digest.stakes.values()) == pytest.approx(whole)
    assert lost(row.stake for row in node_rows(digest)) == pytest.approx(whole)
    assert sum(group.gpus_running for group in groups(digest, "user")) == len(ALL)
    total = digest.tick.ledger.total()
    lost_s = sum(group.stake.lost_s for group in groups(digest, "account"))
    assert lost_s == pytest.approx(total.waste_s + total.suspicion_s)


def test_what_nobody_wants_to_be_told_is_in_the_sums_and_raises_nothing():
    lossy_tick = lossy().tick
    hang, *others = lossy_tick.findings
    digest = Digest(lossy_tick._replace(findings=tuple(others), muted=(hang,)))
    assert lost(digest.stakes.values()) == pytest.approx(lossy_tick.ledger.losing.total())
    assert digest.stakes["a"].urgency == 0
    assert digest.stakes["a"].severity_rank == -1


def test_what_loses_most_by_how_sure_it_is_stands_on_top():
    """0.4 of a whole guess is less than 0.8 of three fifths; what is as urgent goes by the past."""
    digest = lossy()
    order = arranged(digest.tick.findings, lambda one: finding_order(digest, one))
    assert [one.finding_class for one in order] == [
        "hang", "throttled", "small_batch", "input_bound", "comm_bound",
    ]  # fmt: skip
    users = arranged(groups(digest, "user"), lambda group: group_order(digest, group))
    assert [group.name for group in users] == ["ada", "bob"]
    parts = arranged(groups(digest, "partition"), lambda group: group_order(digest, group))
    assert [group.name for group in parts] == ["h100", "a100"]


def test_gpus_are_in_that_order_and_of_alike_ones_in_that_of_their_place():
    digest = lossy()
    rows = arranged(digest.gpu_rows, lambda row: fleet_order(digest, row))
    # e is at fault and bears what f loses by it; d loses nothing.
    assert [row.gpu.uuid for row in rows] == ["a", "b", "c", "e", "h", "g", "f", "d"]


def test_the_order_of_gpus_rests_on_rates_and_not_on_what_grows_all_the_time():
    digest = lossy()
    ledger = digest.tick.ledger
    more = {key: one._replace(wasted_s=one.wasted_s + 31) for key, one in ledger.charged.items()}
    later = Digest(digest.tick._replace(ledger=ledger._replace(charged=more)))
    assert fleet_basis(later) == fleet_basis(digest)
    rates = {key: Losing(0.0, 0.0) for key in ledger.losing.by_finding}
    calm = ledger._replace(losing=ledger.losing._replace(by_finding=rates))
    assert fleet_basis(Digest(digest.tick._replace(ledger=calm))) != fleet_basis(digest)


def test_a_tenth_of_a_gpu_more_or_less_changes_no_order():
    first, second = Stake(2.04, lost_s=700.0), Stake(1.98, lost_s=800.0)
    assert second.first < first.first
    assert Stake(2.2).first < second.first
    assert Stake(0.0, lost_s=5.0, severity_rank=0).first < Stake(0.0, severity_rank=2).first
    assert Stake(severity_rank=2).first < Stake(severity_rank=1, confidence_rank=2).first


def test_what_is_open_stands_before_what_is_over_whatever_that_lost():
    small = ticks.finding("job:1", gpu_seconds=None, detector="a")
    known = ticks.finding("job:1", is_acknowledged=True, detector="b")
    over = ticks.finding("job:1", cleared_at=ticks.AT - 60, gpu_seconds=9e5, detector="c")
    digest = Digest(ticks.fleet()._replace(findings=(over, known, small)))
    order = arranged((over, known, small), lambda one: finding_order(digest, one))
    assert [state_of(one) for one in order] == ["open", "acknowledged", "cleared"]


def test_of_ranks_that_lose_alike_the_one_at_fault_comes_first():
    job, gpus = ticks.job_with_gpus("5", {"n1": 4})
    found = (
        ticks.finding("job:5", gpu_seconds=4000.0, severity=Severity.CRITICAL),
        ticks.finding("job:5/rank:2", gpu_seconds=None, confidence=Confidence.ESTABLISHED),
    )
    digest = Digest(ticks.tick((job,), gpus, findings=found))
    rows = arranged(digest.rank_rows(job), lambda row: rank_order(digest, row))
    assert [row.rank.rank for row in rows] == [2, 0, 1, 3]


@pytest.mark.parametrize(
    ("finding_class", "gpu_seconds", "mark"),
    [
        ("fabric_degraded", None, Severity.WARNING),
        ("fabric_degraded", 0.0, Severity.WARNING),
        ("fabric_degraded", 60.0, Severity.CRITICAL),
        ("idle_held", 60.0, Severity.CRITICAL),
        ("gpu_fault", None, Severity.CRITICAL),
        ("telemetry_lost", None, Severity.CRITICAL),
        ("hang", None, Severity.CRITICAL),
    ],
)
def test_the_gravest_mark_is_for_what_stops_or_corrupts_work_or_costs_time_now(
    finding_class, gpu_seconds, mark
):
    one = ticks.finding(
        "gpu:a", finding_class=finding_class, severity=Severity.CRITICAL, gpu_seconds=gpu_seconds
    )
    assert mark_of(ticks.tick((), findings=(one,)), one) is mark


def test_what_is_no_more_costs_nothing_now_and_a_warning_stays_one():
    cleared = ticks.finding("gpu:a", severity=Severity.CRITICAL, cleared_at=ticks.AT)
    warning = ticks.finding("gpu:a", finding_class="hang")
    given_tick = ticks.tick((), findings=(cleared, warning))
    assert mark_of(given_tick, cleared) is Severity.WARNING
    assert mark_of(given_tick, warning) is Severity.WARNING


def test_the_books_say_what_is_lost_now():
    digest = lossy()
    straggler = digest.tick.findings[0]._replace(
        finding_class="straggler", detector="other", severity=Severity.CRITICAL
    )
    throttled = digest.tick.findings[1]._replace(severity=Severity.CRITICAL)
    assert mark_of(digest.tick, straggler) is Severity.WARNING
    assert mark_of(digest.tick, throttled) is Severity.CRITICAL


def test_of_two_that_cost_nothing_the_one_that_is_marked_graver_is_first():
    """Both are critical and as sure: a broken GPU may corrupt work, a slow link waits for none."""
    links, broken = (
        ticks.finding(
            f"gpu:{uuid}",
            finding_class=finding_class,
            severity=Severity.CRITICAL,
            confidence=Confidence.ESTABLISHED,
            gpu_seconds=None,
        )
        for uuid, finding_class in (("a", "fabric_degraded"), ("b", "gpu_fault"))
    )
    given_tick = ticks.tick((), findings=(links, broken))
    assert mark_of(given_tick, links) is Severity.WARNING
    assert Digest(given_tick).by_loss((links, broken)) == (broken, links)
