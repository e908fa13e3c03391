"""How the map puts nodes together, and how their groups are headed."""

from __future__ import annotations

from array import array

import pytest

from gpumon.base.steps import result_of
from gpumon.model.finding import Confidence
from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Gpu
from gpumon.model.records.frame import QueueRecords
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map import groups
from gpumon.report.fleet_map.columns import FleetColumns
from gpumon.report.fleet_map.groups import GROUPINGS, Cluster, clusters, following
from gpumon.report.fleet_map.layout import MapLayout
from gpumon.report.fleet_map.map import Unit, units
from gpumon.report.fleet_map.numbered_nodes import roster_of
from tests.worlds.map import drawn
from tests.worlds.queue import slurm_node
from tests.worlds.tick import AT, finding, job_with_gpus, tick


def test_groups_are_named_and_nodes_of_none_come_last():
    view, gpus = job_with_gpus("1", {"gpu10": 1, "gpu9": 1, "odd1": 1})
    listed = (slurm_node("gpu10"), slurm_node("gpu9"))
    fleet_tick = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    digest = Digest(fleet_tick)
    found = clusters(digest, units(digest), "partition")
    assert [(c.name, [u.name for u in c.units]) for c in found] == [
        ("h100", ["gpu9", "gpu10"]),
        ("no partition", ["odd1"]),
    ]
    assert [c.name for c in clusters(digest, units(digest), "name")] == ["gpu", "odd"]
    assert [c.name for c in clusters(digest, units(digest), "NVLink domain")] == [
        "no domain beyond the node"
    ]
    assert "h100 · 2 nodes · 16 GPUs" in "\n".join(drawn(fleet_tick))


def test_nodes_are_put_together_by_leaf_switch_or_block():
    view, gpus = job_with_gpus("1", {"n1": 1, "n2": 1, "n3": 1, "n4": 1})
    listed = (
        slurm_node("n1", leaf_switch="s10"),
        slurm_node("n2", leaf_switch="s9"),
        slurm_node("n3", leaf_switch="s9", block="b1"),
        slurm_node("n4"),
    )
    digest = Digest(tick((view,), gpus, queue=QueueRecords((), listed, AT, AT)))
    found = clusters(digest, units(digest), "leaf switch")
    assert [(c.name, [u.name for u in c.units]) for c in found] == [
        ("s9", ["n2", "n3"]),
        ("s10", ["n1"]),
        ("no leaf switch", ["n4"]),
    ]
    assert [c.name for c in clusters(digest, units(digest), "block")] == ["b1", "no block"]


def test_the_group_that_loses_most_comes_first_and_shows_what():
    jobs = [job_with_gpus(str(number), {f"{name}1": 4}) for number, name in enumerate("abcd")]
    listed = tuple(slurm_node(f"{name}1", partitions=(name,)) for name in "abcd")
    window = finding("job:1").window
    span_s = window.end - window.start
    found = (
        finding("job:2", gpu_seconds=1.6 * span_s),
        finding("job:3", gpu_seconds=4 * span_s, confidence=Confidence.HYPOTHESIS),
        finding("job:1", gpu_seconds=3.2 * span_s),
    )
    fleet_tick = tick(
        tuple(view for view, _ in jobs),
        tuple(each for _, gpus in jobs for each in gpus),
        queue=QueueRecords((), listed, AT, AT),
        findings=found,
    )
    digest = Digest(fleet_tick)
    names = [cluster.name for cluster in clusters(digest, units(digest), "partition")]
    # 3.2 and 1.6 GPUs weighed by 0.8; 4 that are a guess by 0.4; then by name.
    assert names == ["b", "d", "c", "a"]
    headings = [line for line in drawn(fleet_tick) if " · 1 node · " in line]
    assert [line.rpartition(" · ")[2].strip() for line in headings] == [
        "lost/h 3.2", "lost/h ~4.0", "lost/h 1.6", "8 GPUs",
    ]  # fmt: skip


def after(digest, grouping):
    """The grouping that follows, by the nodes as a map has them numbered."""
    roster = result_of(roster_of(digest, None))
    columns = result_of(FleetColumns(digest, roster).complete(None))
    return following(digest, roster.units, grouping, columns.may_have_domain)


def turns(digest):
    """The groupings that come one after the other, from the first until it comes again."""
    found = [GROUPINGS[0]]
    while (other := after(digest, found[-1])) != GROUPINGS[0]:
        found.append(other)
        assert len(found) <= len(GROUPINGS)
    return found


def test_groupings_that_the_fleet_does_not_report_are_passed_over():
    view, gpus = job_with_gpus("1", {"n1": 1, "n2": 1})
    bare = tick((view,), gpus, queue=QueueRecords((), (slurm_node("n1"),), AT, AT))
    assert turns(Digest(bare)) == ["partition", "name", "state"]
    listed = (slurm_node("n1"), slurm_node("n2", leaf_switch="s1"))
    tree = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    assert turns(Digest(tree)) == ["partition", "leaf switch", "name", "state"]
    listed = (slurm_node("n1"), slurm_node("n2", block="b1"))
    blocks = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    assert turns(Digest(blocks)) == ["partition", "block", "name", "state"]


def test_what_the_nodes_of_a_tick_report_is_found_once(monkeypatch):
    view, gpus = job_with_gpus("1", {f"n{number}": 1 for number in range(50)})
    listed = tuple(slurm_node(f"n{number}") for number in range(50))
    digest = Digest(tick((view,), gpus, queue=QueueRecords((), listed, AT, AT)))
    asked, group_of = [], groups.group_of
    monkeypatch.setattr(
        groups, "group_of", lambda *given: asked.append(given[1:]) or group_of(*given)
    )
    first = turns(digest)
    # No report has a fabric: for that no node is asked by itself.
    assert asked == [("n0", "name"), ("n0", "state")]
    asked.clear()
    assert turns(digest) == first
    assert asked == []


@pytest.mark.parametrize("odd", [0, 17, 39])
def test_of_all_nodes_only_those_are_asked_whose_report_has_a_fabric(monkeypatch, odd):
    view, gpus = job_with_gpus("1", {f"n{number:02}": 1 for number in range(40)})
    block = gpus[odd].block
    block = block._replace(labels={**block.labels, "fabric_cluster": ("c0ffee11" * 4,)})
    gpus = [one._replace(block=block) if at == odd else one for at, one in enumerate(gpus)]
    digest = Digest(tick((view,), gpus))
    asked, group_of = [], groups.group_of
    monkeypatch.setattr(
        groups, "group_of", lambda *given: asked.append(given[1]) or group_of(*given)
    )
    assert after(digest, "block") == "NVLink domain"
    assert asked == [f"n{odd:02}"]


def test_a_fleet_that_reports_no_grouping_stays_with_its_own():
    digest = Digest(tick((), []))
    assert after(digest, "leaf switch") == "leaf switch"


class Read(tuple):
    """Nodes that note each time that all of them are looked at."""

    times = 0

    def __iter__(self):
        Read.times += 1
        return super().__iter__()


def test_what_slurm_reports_is_found_once_for_all_ticks_with_the_same_answer():
    view, gpus = job_with_gpus("1", {f"n{number}": 1 for number in range(9)})
    drawn_units = units(Digest(tick((view,), gpus)))
    lasting = {}

    def asked(listed):
        """The grouping that follows the first, and how often the nodes were looked through."""
        seen = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
        before = Read.times
        return following(Digest(seen, lasting), drawn_units, "partition", set), Read.times - before

    bare = Read(slurm_node(f"n{number}") for number in range(9))
    assert asked(bare) == ("name", 2), "leaf switch and block"
    assert asked(bare) == ("name", 0)
    tree = Read(slurm_node(f"n{number}", leaf_switch="s1") for number in range(9))
    assert asked(tree) == ("leaf switch", 1)
    assert asked(tree) == ("leaf switch", 0)


def test_an_nvlink_domain_is_cluster_and_clique():
    keys = ("GPU-a",)
    block = Block(
        keys,
        {"fabric_clique": array("q", [3])},
        {"fabric_cluster": ("0badc0ffee" + "0" * 22,)},
        {},
    )
    one = Gpu("GPU-a", "n1", block, 0, AT, "x", False, ())
    fleet_tick = tick((), [one])
    digest = Digest(fleet_tick)
    assert clusters(digest, units(digest), "NVLink domain")[0].name == "0badc0ff/3"
    assert {c for g in GROUPINGS for c in clusters(digest, units(digest), g)}


def leaves(groups, nodes):
    return tuple(
        Cluster(f"leaf{g:02}", tuple(Unit(f"gpu{g * nodes + n:05}", 8) for n in range(nodes)))
        for g in range(groups)
    )


def test_groups_that_fit_on_a_line_have_their_names_before_it_and_no_headings():
    grouped = leaves(60, 16)
    layout = MapLayout(grouped, 80, "nodes")
    # Each takes 6 + 1 + 17 cells, and two up to the next: three stand side by side.
    assert layout.height == len(layout.lines) == 20
    assert layout.lines[1].label == "leaf03"
    assert layout.lines[1].beside == ((27, "leaf04"), (53, "leaf05"))
    for density in ("nodes", "half nodes", "halves", "rows"):
        for width in (40, 80, 120, 200):
            layout = MapLayout(grouped, width, density)
            assert layout.height == len(layout.lines)
            seen = [block for line in layout.lines for block in line.blocks]
            assert [block.unit.name for block in seen] == [f"gpu{n:05}" for n in range(960)]
            for name in ("gpu00000", "gpu00015", "gpu00016", "gpu00959"):
                line, spot = layout.find(name, 0)
                assert spot in layout.spots(line)
                assert layout.at(spot.x, line).unit.name in {name, f"gpu{int(name[3:]) - 1:05}"}
            if layout.is_group_a_line:
                assert max(block.x + layout.block_width for block in seen) <= width
    # Two groups have headings, with their sizes; so have longer ones.
    assert MapLayout(grouped[:2], 80, "nodes").height == 4
    assert MapLayout(leaves(3, 80), 80, "nodes").height == 9
