"""The table of nodes: what needs attention on top, nothing claimed that is not known."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import Node
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.node import NODE_COLUMNS, node_order, node_rows, node_search
from gpumon.report.text.cells import Tone
from gpumon.report.text.units import clock_time
from tests.worlds.node import host
from tests.worlds.queue import cluster, slurm_node
from tests.worlds.tick import AT, BUSY, finding, gpu, tick, uuid_of

COLUMNS = {column.key: column for column in NODE_COLUMNS}
PLAIN = {**BUSY, "clock_event_reasons": 0}


def node(name: str, gpus: int = 0, **changes) -> Node:
    uuids = tuple(uuid_of(name, index) for index in range(gpus))
    made = Node(name, uuids, AT - 1.0, False, None, ())
    return made._replace(**changes)


def shown(given_tick, name: str) -> dict[str, str]:
    digest = Digest(given_tick)
    row = next(row for row in node_rows(digest) if row.node.name == name)
    return {key: column.cell(digest, row).text for key, column in COLUMNS.items()}


def toned(given_tick, name: str, key: str) -> Tone:
    digest = Digest(given_tick)
    row = next(row for row in node_rows(digest) if row.node.name == name)
    return COLUMNS[key].cell(digest, row).tone


def test_a_node_at_work():
    gpus = [gpu("n1", 0, PLAIN), gpu("n1", 1, {**PLAIN, "sm_active_ratio": 0.42, "temp_c": 71.0})]
    given_tick = tick((), gpus, nodes={"n1": node("n1", 2, block=host("n1"), state="mixed")})
    found = shown(given_tick, "n1")
    assert (found["node"], found["state"], found["held"]) == ("n1", "mixed", "–/2")
    assert (found["sm_active_ratio"], found["power_w"], found["temp_c"]) == ("63", "1,224", "71")
    assert (found["cpu_busy_ratio"], found["host_mem_ratio"]) == ("37", "32")
    assert (found["d_state_process_count"], found["heard"]) == ("2", "1s")
    assert (found["health"], found["why"]) == ("ok", "")


def test_what_slurm_says_of_it():
    given_tick = cluster()
    nodes = {name: node(name, state=state) for name, state in (("gpu01", "allocated"),)}
    nodes["gpu04"] = node("gpu04", state="idle+drain", taken_at=None)
    given_tick = given_tick._replace(nodes={**given_tick.nodes, **nodes})
    full, out = shown(given_tick, "gpu01"), shown(given_tick, "gpu04")
    assert (full["held"], full["jobs"], full["partition"]) == ("8/8", "1", "h100")
    assert (out["held"], out["jobs"]) == ("0/8", "0")
    assert out["why"] == "Slurm: bad link"
    assert toned(given_tick, "gpu04", "state") is Tone.WARN
    assert toned(given_tick, "gpu01", "state") is Tone.PLAIN


def test_without_a_queue_nothing_is_said_of_jobs():
    found = shown(tick((), [gpu("n1", 0)], nodes={"n1": node("n1", 1)}), "n1")
    assert (found["jobs"], found["state"], found["partition"]) == ("–", "–", "")


def test_a_part_of_the_power_does_not_look_like_all_of_it():
    gpus = [gpu("n1", 0), gpu("n1", 1, {**BUSY, "power_w": None})]
    given_tick = tick((), gpus, nodes={"n1": node("n1", 2)})
    assert shown(given_tick, "n1")["power_w"] == "–"


def test_the_duty_cycle_stands_in_marked():
    gpus = [gpu("n1", 0, {**BUSY, "sm_active_ratio": None, "gpu_util_ratio": 0.5})]
    assert shown(tick((), gpus, nodes={"n1": node("n1", 1)}), "n1")["sm_active_ratio"] == "≤50"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_stale": True, "taken_at": AT - 40}, "stale 40s"),
        ({"errors": (SourceError("n1", "Permission denied", ""),)}, "Permission denied"),
        ({"taken_at": None}, "no telemetry"),
    ],
)
def test_why_nothing_comes_from_it(changes, words):
    assert shown(tick((), (), nodes={"n1": node("n1", **changes)}), "n1")["why"] == words


def test_never_heard_is_no_age():
    given_tick = tick((), (), nodes={"n1": node("n1", taken_at=None)})
    assert shown(given_tick, "n1")["heard"] == "never"
    assert shown(given_tick, "n1")["health"] == "–"


def test_sick_gpus_are_counted_and_the_worst_is_named():
    gpus = [
        gpu("n1", 0, {**PLAIN, "remap_pending": 1}),
        gpu("n1", 1, {**PLAIN, "ecc_uncorrected_volatile_count": 2}),
        gpu("n1", 2, PLAIN),
    ]
    found = shown(tick((), gpus, nodes={"n1": node("n1", 3)}), "n1")
    assert found["health"] == "‼ ECC 2 (2 GPUs)"
    assert found["why"].startswith("‼ 2 uncorrected ECC errors")


def test_a_finding_about_one_of_its_gpus_is_the_node_s():
    claims = (finding(f"gpu:{uuid_of('n1', 0)}", finding_class="throttled"), finding("job:7"))
    given_tick = tick((), [gpu("n1", 0)], nodes={"n1": node("n1", 1)}, findings=claims)
    assert shown(given_tick, "n1")["why"] == "! throttled"


def test_what_needs_a_look_is_on_top():
    gpus = [
        gpu("sick", 0, {**PLAIN, "ecc_uncorrected_volatile_count": 1}),
        *(gpu(name, 0, PLAIN) for name in ("claimed", "well", "drained")),
    ]
    nodes = {name: node(name, 1) for name in ("well", "sick", "claimed")}
    nodes["drained"] = node("drained", 1, state="idle+drain")
    nodes["silent"] = node("silent", is_stale=True)
    given_tick = tick((), gpus, nodes=nodes, findings=(finding("node:claimed"),))
    digest = Digest(given_tick)
    ordered = sorted(node_rows(digest), key=lambda row: node_order(digest, row))
    names = [row.node.name for row in ordered]
    assert names == ["claimed", "sick", "silent", "drained", "well"]


def test_searched_by_name_state_partition_switch_and_trouble():
    given_tick = cluster(nodes=(slurm_node("gpu01", "allocated", leaf_switch="leaf7"),))
    digest = Digest(given_tick)
    row = next(row for row in node_rows(digest) if row.node.name == "gpu01")
    words = node_search(digest, row)
    assert all(word in words for word in ("gpu01", "h100", "leaf7"))


def test_a_node_that_was_left_on_purpose_is_in_no_trouble():
    nodes = {
        "n1": node("n1", 1, is_stale=True, left_at=AT - 60.0),
        "n2": node("n2", 1, is_stale=True),
    }
    given_tick = tick((), [gpu("n1", 0), gpu("n2", 0)], nodes=nodes)
    words = f"not watched: no job in view since {clock_time(AT - 60.0)}"
    assert shown(given_tick, "n1")["why"] == words
    assert {toned(given_tick, "n1", key) for key in ("why", "heard")} == {Tone.DIM}
    assert {toned(given_tick, "n2", key) for key in ("why", "heard")} == {Tone.WARN}
    digest = Digest(given_tick)
    assert min(node_rows(digest), key=lambda row: node_order(digest, row)).node.name == "n2"


def test_a_node_that_does_not_answer_slurm_has_the_sign_of_sinfo():
    given_tick = cluster()
    away = node("gpu01", state="down+not_responding")
    given_tick = given_tick._replace(nodes={**given_tick.nodes, "gpu01": away})
    assert shown(given_tick, "gpu01")["state"] == "down*"
    digest = Digest(given_tick)
    row = next(row for row in node_rows(digest) if row.node.name == "gpu01")
    value = COLUMNS["state"].value
    assert value is not None
    assert value(digest, row) == "down+not_responding"
