"""The dashboard and the alert rules that come along read only what the page of metrics tells.

Which metrics, labels and values there are is taken from pages that are made here. The form of the
dashboard is held to what Grafana says of its JSON model: grafana.com/docs, "Dashboard JSON model"
(the classic model, which every version from 9 to 13 imports), and the kind's own schema,
kinds/dashboard/dashboard_kind.cue of grafana/grafana at 00139e84; both looked at on 2026-11-27.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from importlib.resources import files
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_classic

from gpumon.cli import main
from gpumon.cli.commands.serve import SHIPPED
from gpumon.model.finding import Confidence, Severity
from gpumon.model.finding_classes import CLASSES
from gpumon.model.records.ledger import Account, LedgerTotals, Losing, LosingNow, Prices
from gpumon.report.headline.fleet_gpus import PARTS
from gpumon.report.openmetrics import families as module
from gpumon.report.openmetrics.families import LOST, STATES, page
from tests.worlds.node import machine
from tests.worlds.queue import cluster
from tests.worlds.tick import AT, finding, fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRAPED = {"instance", "job"}
"""Labels that whoever scrapes adds to every series (prometheus.io, "Jobs and instances")."""

VALUES = {
    "gpumon_gpus": {"state": set(PARTS)},
    "gpumon_losing_gpus": {"state": set(LOST)},
    "gpumon_ledger_user_gpu_seconds": {"state": set(STATES)},
    "gpumon_findings": {
        "class": set(CLASSES),
        "severity": {one.value for one in Severity},
        "confidence": {one.value for one in Confidence},
    },
}
"""What a label can hold, where the files ask for certain words."""

KINDS = {"query", "adhoc", "constant", "datasource", "interval", "textbox", "custom", "system"}
"""Of variables (#VariableType)."""

COLUMNS = 24
"""Of a dashboard's grid (#GridPos)."""

_METRIC = re.compile(r"\bgpumon_[a-z0-9_]+\b")
_SELECTED = re.compile(r"\b(gpumon_[a-z0-9_]+)(\{[^}]*\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_BUILT_IN = {"__all", "labels", "value"}


class Expression(NamedTuple):
    """One expression, and the labels that are shown of its answer."""

    text: str
    shown: frozenset[str]


def shipped(name: str) -> str:
    return files("gpumon.serve").joinpath(SHIPPED[name]).read_text(encoding="utf-8")


DASHBOARD: dict[str, Any] = json.loads(shipped("dashboard"))
PANELS = [one for one in DASHBOARD["panels"] if one["type"] != "row"]


@pytest.fixture(scope="module")
def published() -> dict[str, set[str]]:
    """Every metric of pages, with its labels."""
    wasteful = finding("job:4711")
    account = Account("1", "ada", "ml", "gpu", "H100", AT - 9, AT - 9, {"useful": 9, "hang": 9})
    losing = LosingNow({wasteful.identity: Losing(3.0)}, {"4711": Losing(3.0)})
    prices = Prices({"default": 2.0})
    ledger = LedgerTotals(AT, AT - 9, (account,), (account,), prices, losing=losing)
    found: defaultdict[str, set[str]] = defaultdict(set)
    with pytest.MonkeyPatch.context() as patch:
        pages = [page(tick, is_open=False) for tick in (machine(), cluster(), fleet(ledger=ledger))]
        patch.setattr(module, "MOST_ENTITIES", 1)
        pages.append(page(fleet(), is_open=False))
    for body in pages:
        for family in read_classic(body.decode()):
            for sample in family.samples:
                found[sample.name] |= sample.labels.keys()
    return found


def expressions() -> Iterator[Expression]:
    """All of both files."""
    for panel in PANELS:
        for target in panel["targets"]:
            shown = set(_SHOWN.findall(target["legendFormat"]))
            yield Expression(target["expr"], frozenset(shown))
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert asked
            yield Expression(asked[1], frozenset({asked[2]}))
    for rule in shipped("alerts").split("- alert: ")[1:]:
        expr = re.search(r"expr: (?:>-\n)?(.*?)\n +for:", rule, re.DOTALL)
        assert expr
        yield Expression(expr[1], frozenset(_SHOWN.findall(rule)) - {"value"})


def test_every_metric_and_label_is_one_that_is_told(published: dict[str, set[str]]) -> None:
    asked = 0
    for one in expressions():
        metrics = _SELECTED.findall(one.text)
        assert metrics, one.text
        every: set[str] = set(SCRAPED)
        for name, matchers in metrics:
            assert name in published, name
            wanted = {label for label, _, _ in _MATCHER.findall(matchers)}
            assert wanted <= published[name] | SCRAPED, (name, wanted)
            every |= published[name]
            asked += 1
        named = {
            word.strip() for group in _GROUPED.findall(one.text) for word in group.split(",")
        } | one.shown
        assert named <= every, (one.text, named - every)
    assert asked > 20


def test_every_word_that_a_label_is_compared_with_is_one_that_it_can_say() -> None:
    compared = 0
    for one in expressions():
        for name, matchers in _SELECTED.findall(one.text):
            for label, how, value in _MATCHER.findall(matchers):
                known = VALUES.get(name, {}).get(label)
                if known is not None:
                    compared += 1
                    words = value.split("|") if "~" in how else [value]
                    assert set(words) <= known, (name, label, value)
                else:
                    assert value.startswith("$") or (label, value) == ("subject", "job:.+")
    assert compared > 5


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_each_is_printed_whole(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--print", name]) == 0
    assert capsys.readouterr() == (shipped(name), "")


def test_the_dashboard_is_one_of_the_classic_model() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{8,40}", DASHBOARD["uid"])
    assert isinstance(DASHBOARD["schemaVersion"], int)
    assert isinstance(DASHBOARD["editable"], bool)
    assert DASHBOARD["graphTooltip"] in (0, 1, 2)
    assert DASHBOARD["time"].keys() == {"from", "to"}
    # Who imports it gets an id of their own.
    assert DASHBOARD.get("id") is None
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert all(isinstance(one, int) and one > 0 for one in ids)


def test_every_variable_is_declared_before_it_is_used_and_has_a_kind_that_there_is() -> None:
    declared: set[str] = set()
    for variable in DASHBOARD["templating"]["list"]:
        assert variable["type"] in KINDS
        assert variable["hide"] in (0, 1, 2)
        assert set(_VARIABLE.findall(json.dumps(variable))) - _BUILT_IN <= declared
        declared.add(variable["name"])
    used = set(_VARIABLE.findall(json.dumps(DASHBOARD["panels"]))) - _BUILT_IN
    assert used == declared


def test_panels_stand_in_the_grid_and_none_on_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for place in places:
        assert place.keys() == {"x", "y", "w", "h"}
        assert all(isinstance(one, int) and one >= 0 for one in place.values())
        assert place["w"] > 0
        assert place["h"] > 0
        assert place["x"] + place["w"] <= COLUMNS
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_every_panel_asks_the_chosen_source_and_tells_its_questions_apart() -> None:
    for panel in PANELS:
        assert panel["title"]
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        marks = [target["refId"] for target in panel["targets"]]
        assert marks
        assert len(marks) == len(set(marks))
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            assert "$cluster" in target["expr"]


def test_every_alert_says_whom_it_wakes_and_what_about() -> None:
    rules = shipped("alerts").split("- alert: ")[1:]
    assert 0 < len(rules) <= 6
    for rule in rules:
        assert re.search(r"severity: (page|ticket)\b", rule)
        assert "summary:" in rule
        assert "description:" in rule
        assert re.search(r" for: \d+[mh]\n", rule)
        assert _METRIC.search(rule)
