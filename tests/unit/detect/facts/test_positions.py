"""Positions and groups of a fleet: they tell what asking GPU by GPU would tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from gpumon.detect.facts.fleet_facts import FleetFacts
from gpumon.detect.facts.positions import Groups
from gpumon.detect.scene import Scene, working
from gpumon.detect.wire.tick_messages import FactSender

if TYPE_CHECKING:
    from gpumon.detect.facts.facts import NodeFacts

GROUPS: tuple[list[int], ...] = ([0, 1], [], [4], [], [2, 3])


def test_groups_without_members_have_nothing() -> None:
    groups = Groups.of(GROUPS)

    flags = np.array([False, True, False, False, True])

    assert groups.some(flags).tolist() == [True, False, True, False, False]
    assert Groups.of([[], []]).some(flags).tolist() == [False, False]
    assert Groups.of([]).least(np.zeros(5)).tolist() == []


def test_bounds_ignore_what_is_missing() -> None:
    groups = Groups.of(GROUPS)

    values = np.array([3.0, np.nan, 7.0, 5.0, np.nan])

    assert groups.least(values).tolist() == pytest.approx(
        [3, np.nan, np.nan, np.nan, 5], nan_ok=True
    )
    assert groups.most(values).tolist() == pytest.approx(
        [3, np.nan, np.nan, np.nan, 7], nan_ok=True
    )


def test_members_of_a_group_by_its_number() -> None:
    groups = Groups.of(GROUPS)

    found = [groups.places(np.intp(number)).tolist() for number in range(len(GROUPS))]

    assert found == [list(group) for group in GROUPS]


def test_spreading_reaches_exactly_the_members() -> None:
    groups = Groups.of(GROUPS)

    reached = groups.spread(np.array([True, True, False, False, False]), 6)

    assert reached.tolist() == [True, True, False, False, False, False]


def test_members_know_their_groups() -> None:
    groups = Groups.of(([4, 0], [], [4], [2, 4]))

    inverted = groups.inverted(6)

    found = [inverted.places(np.intp(member)).tolist() for member in range(6)]
    assert found == [[0], [], [3], [], [0, 2, 3], []]
    assert groups.sizes().tolist() == [2, 0, 1, 2]
    assert groups.is_empty().tolist() == [False, True, False, False]
    assert Groups.of([[], []]).inverted(2).is_empty().tolist() == [True, True]


def test_a_node_that_comes_makes_a_new_layout_of_nodes_alone() -> None:
    scene = Scene()
    uuids = scene.node("n1", 2)
    sender, facts = FactSender(), FleetFacts()
    facts.take(sender.changes(scene.run(10, working(uuids))))
    layout, nodes = facts.layout, facts.node_layout
    facts.take(sender.changes(scene.run(10, working(uuids))))
    before = facts.node_layout

    scene.node("login", 0)
    facts.take(sender.changes(scene.run(10, working(uuids))))

    assert before is nodes
    assert facts.layout is layout
    assert facts.node_layout.names == ("n1", "login")
    assert facts.node_layout.of_gpus.tolist() == [0, 0]


def test_columns_follow_facts_without_a_new_layout() -> None:
    scene = Scene()
    uuids = scene.node("n1", 2) + scene.node("n2", 2)
    scene.run(10, working(uuids))
    sender, facts = FactSender(), FleetFacts()
    facts.take(sender.changes(scene.run(10, working(uuids))))
    layout = facts.layout
    before = facts.columns.column("remap_failure").tolist()
    stale_before = facts.columns.is_stale.tolist()

    scene.gpu(uuids[2], remap_failure=1)
    facts.take(sender.changes(scene.run(10, working(uuids), stale=(uuids[1],))))

    assert facts.layout is layout
    assert before == pytest.approx([np.nan] * 5, nan_ok=True)
    assert facts.columns.column("remap_failure")[2] == 1
    assert stale_before == [False] * 4
    assert facts.columns.is_stale.tolist() == [False, True, False, False]


def test_a_gpu_that_goes_makes_a_new_layout() -> None:
    scene = Scene()
    uuids = scene.node("n1", 2) + scene.node("n2", 2)
    sender, facts = FactSender(), FleetFacts()
    facts.take(sender.changes(scene.run(10, working(uuids))))

    scene.lose(uuids[0])
    facts.take(sender.changes(scene.run(10, working(uuids[1:]))))

    assert set(facts.layout.uuids) == set(uuids[1:])
    assert facts.layout.uuids == tuple(facts.gpus)
    assert {facts.layout.uuids[p] for p in facts.layout.places(uuids)} == set(uuids[1:])


def test_jobs_on_a_shared_gpu_are_found_from_the_gpu() -> None:
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("1", uuids[:1])
    scene.job("2", uuids)
    scene.run(10, working(uuids))

    view = scene.view()

    assert [job.job.job_id for job in view.jobs_of(uuids[0])] == ["1", "2"]
    assert [job.job.job_id for job in view.jobs_of(uuids[1])] == ["2"]
    assert view.jobs_of("GPU-elsewhere") == ()
    assert [job.job.job_id for job in view.jobs_on("n1")] == ["1", "2"]


def test_nodes_are_asked_again_only_where_their_facts_changed() -> None:
    scene = Scene()
    uuids = scene.node("n1", 2) + scene.node("n2", 2)
    sender, facts = FactSender(), FleetFacts()
    asked = []

    def listed(node: NodeFacts) -> float:
        asked.append(node.name)
        return len(node.block("link").keys)

    facts.take(sender.changes(scene.run(10, working(uuids))))
    assert facts.node_columns.column_of(listed)[:-1].tolist() == [0, 0]
    assert dict(facts.nodes_with("link")) == {}
    scene.links(uuids[2], 3, link_speed_bytes_per_s=25e9)
    facts.take(sender.changes(scene.run(10, working(uuids))))
    assert facts.node_columns.column_of(listed)[:-1].tolist() == [0, 3]
    assert asked.count("n1") == 1
    assert list(facts.nodes_with("link")) == ["n2"]
    assert facts.nodes_with("link")["n2"] is facts.nodes["n2"]


def test_a_node_that_goes_tells_of_no_block_any_more() -> None:
    scene = Scene()
    uuids = scene.node("n1", 1) + scene.node("n2", 1)
    scene.links(uuids[0], 2, link_speed_bytes_per_s=25e9)
    sender, facts = FactSender(), FleetFacts()
    facts.take(sender.changes(scene.run(10, working(uuids))))
    assert list(facts.nodes_with("link")) == ["n1"]
    message = {"nodes": [], "nodes_gone": ["n1"]}
    facts.take(message)
    assert dict(facts.nodes_with("link")) == {}
    assert len(facts.node_columns.column_of(len)) == 2
