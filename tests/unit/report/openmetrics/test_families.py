"""A tick as metrics, read by the reference parsers and by gpumon's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_classic

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.records.ledger import Account, LedgerTotals, Losing, LosingNow, Prices
from gpumon.model.records.tick import TargetState
from gpumon.report.document.document import document
from gpumon.report.facts.tick_index import Digest
from gpumon.report.headline.fleet_gpus import fleet_gpus
from gpumon.report.openmetrics import exposition
from gpumon.report.openmetrics import families as module
from gpumon.report.openmetrics.families import page
from gpumon.sources.exposition.parse import parse
from tests.worlds.node import machine
from tests.worlds.queue import cluster
from tests.worlds.tick import AT, finding, fleet, gpu, job_with_gpus, tick

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

HOSTILE = 'a"b\\c\nd} 1\n# EOF\nevil{x="1"} 2 é\u202e'

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def published(tick: Tick, *, is_open: bool = True) -> Series:
    """Every series of a page, as the reference parser reads it; none is there twice."""
    text = page(tick, is_open=is_open).decode()
    read = read_open if is_open else read_classic
    found: Series = {}
    for family in read(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def series(found: Series, name: str, **labels: str) -> float | None:
    hits = [
        value
        for (found_name, found_labels), value in found.items()
        if found_name == name and labels.items() <= dict(found_labels).items()
    ]
    assert len(hits) <= 1, (name, labels)
    return hits[0] if hits else None


def ledger_totals(users: int = 1, **seconds: float) -> LedgerTotals:
    accounts = tuple(
        Account(f"{n}", f"user{n}", "ml", "gpu", "H100", AT - 100, AT - 90, seconds)
        for n in range(users)
    )
    return LedgerTotals(AT, AT - 100, accounts, accounts, Prices())


@pytest.mark.parametrize("is_open", [True, False])
def test_every_value_of_a_gpu_is_that_of_the_document(is_open: bool) -> None:
    shown = fleet(ledger=ledger_totals(useful=60.0, idle_held=30.0, unexplained=10.0))
    found, printed = published(shown, is_open=is_open), document(shown)
    compared = 0
    for node in printed["nodes"]:
        for one in node["gpus"]:
            for key, field in CATALOGUE.items():
                if field.block != "gpu" or key in ("index", "minor_number"):
                    continue
                value = series(found, field.openmetrics, uuid=one["uuid"], node=node["name"])
                assert value == one[key], (key, one["uuid"])
                compared += value is not None
    assert compared > 100
    total = printed["ledger"]["total"]
    for state in ("useful", "wasted", "suspected", "unexplained", "unobserved"):
        seconds = series(found, "gpumon_ledger_gpu_seconds", state=state)
        assert seconds == total[f"{state}_gpu_seconds"]
    assert series(found, "gpumon_ledger_wasted_gpu_seconds", **{"class": "idle_held"}) == 30.0
    assert series(found, "gpumon_ledger_user_gpu_seconds", user="user0", state="useful") == 60.0


def test_every_value_of_a_node_is_that_of_the_document() -> None:
    shown = machine()
    found, printed = published(shown), document(shown)
    compared = 0
    for node in printed["nodes"]:
        for key in ("nics", "filesystems", "local_filesystems"):
            for one in node[key]:
                is_port = key == "nics"
                where = (
                    {"port": f"{one['device']}/{one['port']}"}
                    if is_port
                    else {"mount": one["mount"]}
                )
                for name, value in one.items():
                    if name in CATALOGUE and CATALOGUE[name].block != "node":
                        found_value = series(
                            found, CATALOGUE[name].openmetrics, node=node["name"], **where
                        )
                        assert found_value == value, name
                        compared += found_value is not None
    assert compared > 10


def test_a_missing_value_has_no_series_and_a_measured_zero_has_one() -> None:
    view, _ = job_with_gpus("1", {"n1": 1})
    bare = gpu("n1", 0, {"power_w": None, "gpu_util_ratio": 0.0})
    found = published(tick((view,), [bare]))
    assert series(found, "gpumon_power_watts") is None
    assert series(found, "gpumon_gpu_util_ratio") == 0.0


def test_values_of_a_silent_node_are_not_published_and_that_it_is_silent_is() -> None:
    found = published(fleet())
    assert series(found, "gpumon_node_up", node="gpu04") == 0.0
    assert series(found, "gpumon_node_up", node="gpu01") == 1.0
    assert not any(dict(labels).get("node") == "gpu04" for name, labels in found if "util" in name)


def test_findings_are_counted_and_named() -> None:
    found = published(fleet(findings=(finding("job:4711"), finding("job:4690"))))
    about = {"class": finding("job:4711").finding_class}
    assert series(found, "gpumon_findings", **about) == 2
    assert series(found, "gpumon_finding_info", subject="job:4711", **about) == 1


def test_gpus_are_counted_as_the_headline_counts_them() -> None:
    shown = cluster()
    found = published(shown)
    parts = dict(fleet_gpus(Digest(shown)).parts)
    assert parts["drained"]
    assert {part: series(found, "gpumon_gpus", state=part) for part in parts} == parts
    assert not any(name == "gpumon_gpus" for name, _ in published(fleet(queue_at=None)))


def test_what_is_lost_now_is_published_in_sum_and_by_finding_and_in_money() -> None:
    wasteful = finding("job:4711")
    now = LosingNow(
        {wasteful.identity: Losing(3.0, 0.0)}, {"4711": Losing(3.0, 0.0), "1": Losing(0.0, 2.5)}
    )
    priced = ledger_totals(useful=60.0)._replace(prices=Prices({"default": 2.0}), losing=now)
    found = published(fleet(findings=(wasteful,), ledger=priced))
    assert series(found, "gpumon_losing_gpus", state="wasted") == 3.0
    assert series(found, "gpumon_losing_gpus", state="suspected") == 2.5
    assert series(found, "gpumon_losing_cost_per_hour") == 6.0
    about = {"subject": "job:4711", "class": wasteful.finding_class}
    assert series(found, "gpumon_finding_losing_gpus", **about, state="wasted") == 3.0
    assert series(found, "gpumon_finding_losing_gpus", **about, state="suspected") is None


def test_where_nothing_has_a_price_no_money_is_published() -> None:
    assert (
        series(published(fleet(ledger=ledger_totals(useful=1.0))), "gpumon_losing_cost_per_hour")
        is None
    )
    priced = ledger_totals(useful=1.0)._replace(prices=Prices({"default": 2.0}))
    assert series(published(fleet(ledger=priced)), "gpumon_losing_cost_per_hour") == 0.0


@pytest.mark.parametrize("is_open", [True, False])
def test_a_hostile_name_stays_within_its_label(is_open: bool) -> None:
    view, gpus = job_with_gpus("1", {HOSTILE: 1})
    shown = tick(
        (view,),
        gpus,
        targets=(TargetState(HOSTILE, True, None, 1.0),),
        findings=(finding(f"node:{HOSTILE}"),),
    )
    found = published(shown, is_open=is_open)
    assert series(found, "gpumon_target_up", target=HOSTILE) == 1
    assert not any(name.startswith("evil") for name, _ in found)


def test_a_long_name_is_cut() -> None:
    long = "x" * (exposition.LONGEST_LABEL + 1)
    found = published(fleet(targets=(TargetState(long, True, None, 1.0),)))
    assert series(found, "gpumon_target_up", target=f"{long[:-2]}…") == 1


def test_a_name_that_no_utf_8_can_write_ends_no_page() -> None:
    view, gpus = job_with_gpus("1", {"\ud800": 1})
    assert b"?" in page(tick((view,), gpus), is_open=True)


@pytest.mark.parametrize("is_open", [True, False])
def test_our_own_parser_reads_the_same(is_open: bool) -> None:
    shown = fleet(ledger=ledger_totals(useful=1.5))
    body = page(shown, is_open=is_open)
    read = parse(body)
    ours = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in read.samples
    }
    assert ours == published(shown, is_open=is_open)


def test_only_what_grows_is_a_counter() -> None:
    kinds = {family.name: family.type for family in read_open(page(fleet(), is_open=True).decode())}
    assert kinds["gpumon_energy_joules"] == "counter"
    assert kinds["gpumon_power_watts"] == "gauge"
    counters = {f.openmetrics for f in CATALOGUE.values() if f.kind is Kind.COUNTER}
    assert {f"{name}_total" for name, kind in kinds.items() if kind == "counter"} <= counters


def limited(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> Series:
    monkeypatch.setattr(module, name, 2)
    return published(fleet(**changes))


def test_of_more_gpus_than_a_page_has_room_for_the_first_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = limited(monkeypatch, "MOST_ENTITIES")
    assert sum(name == "gpumon_power_watts" for name, _ in found) == 2
    assert series(found, "gpumon_left_out", what="gpu") == len(fleet().gpus) - 2


def test_of_more_users_than_a_page_has_room_for_the_most_wasteful_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = limited(monkeypatch, "MOST_NAMES", ledger=ledger_totals(5, useful=1.0))
    users = {dict(labels).get("user") for name, labels in found if "ledger_user" in name}
    assert len(users) == 2
    assert series(found, "gpumon_left_out", what="user") == 3


def test_of_more_findings_than_a_page_has_room_for_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = limited(
        monkeypatch, "MOST_FINDINGS", findings=tuple(finding(f"job:{n}") for n in range(5))
    )
    assert sum(name == "gpumon_finding_info" for name, _ in found) == 2
    assert series(found, "gpumon_findings") == 5
    assert series(found, "gpumon_left_out", what="finding") == 3
