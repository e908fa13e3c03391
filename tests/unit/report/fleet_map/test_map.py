"""The map of the fleet: what each cell shows, and the lines around it."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Confidence, Severity
from gpumon.model.missing import Reason
from gpumon.model.records.cluster import JobView, Node
from gpumon.model.records.frame import QueueRecords
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map import marks
from gpumon.report.fleet_map.groups import clusters
from gpumon.report.fleet_map.layout import MapLayout
from gpumon.report.fleet_map.legend import legend, spot_words
from gpumon.report.fleet_map.map import MapMarks, owner_marks, units
from gpumon.report.fleet_map.marks import FIELDS
from tests.worlds.map import FIELD, drawn
from tests.worlds.queue import slurm_node
from tests.worlds.tick import AT, IDLE, finding, gpu, job, job_with_gpus, tick


def marks_of(fleet_tick, field="verdict"):
    digest = Digest(fleet_tick)
    map_marks = MapMarks(digest, FIELD[field])
    return {unit.name: "".join(m.sign for m in map_marks.marks(unit)) for unit in units(digest)}


def test_by_verdict_every_state_has_a_sign_of_its_own():
    wasting, a = job_with_gpus("1", {"n1": 8}, idle=3)
    stale, b = job_with_gpus("2", {"n2": 2}, stale_s=42.0)
    idle, c = job_with_gpus("3", {"n3": 2}, idle=1)
    free = [gpu("n4", i, IDLE) for i in range(2)]
    blind = [gpu("n5", 0, {"sm_active_ratio": None, "gpu_util_ratio": None})]
    blind_view = JobView(job("5", gpu_count=1), (blind[0].uuid,), 0, (), ())
    fleet_tick = tick(
        (wasting, stale, idle, blind_view),
        [*a, *b, *c, *free, *blind],
        findings=(
            finding("job:1", gpus=(a[7].uuid,)),
            finding(f"gpu:{a[0].uuid}", severity=Severity.CRITICAL),
            finding("job:1/rank:1", severity=Severity.INFO),
        ),
    )
    assert marks_of(fleet_tick) == {
        "n1": "‼i███□□!",
        "n2": "ss",
        "n3": "█□",
        "n4": "--",
        "n5": "·",
    }


def test_a_gpu_that_holds_others_up_is_marked_alone():
    """Its finding charges those that wait for it, which are sound."""
    view, gpus = job_with_gpus("1", {"n1": 3})
    waits = tuple(one.uuid for one in gpus)
    slow = finding(f"gpu:{gpus[1].uuid}", severity=Severity.CRITICAL, gpus=waits)
    assert marks_of(tick((view,), gpus, findings=(slow,))) == {"n1": "█‼█"}


def test_of_two_findings_the_one_with_the_graver_mark_is_drawn():
    """What costs GPU time now, before what is surer and costs none yet."""
    view, gpus = job_with_gpus("1", {"n1": 2})
    both = (
        finding("job:1/rank:1", severity=Severity.CRITICAL, confidence=Confidence.ESTABLISHED),
        finding(f"gpu:{gpus[1].uuid}", severity=Severity.CRITICAL, gpu_seconds=600.0),
    )
    costless = both[0]._replace(gpu_seconds=0.0)
    assert marks_of(tick((view,), gpus, findings=(costless, both[1]))) == {"n1": "█‼"}
    assert marks_of(tick((view,), gpus, findings=(costless,))) == {"n1": "█!"}


def test_down_drained_lost_and_promised_gpus_differ():
    lost = gpu("n3", 0, {"power_w": None, "sm_active_ratio": None, "gpu_util_ratio": None})
    lost.block.missing[("power_w", 0)] = Reason.LOST
    fleet_tick = tick((), [gpu("n1", 0, IDLE), gpu("n2", 0, IDLE), lost])
    nodes = dict(fleet_tick.nodes)
    nodes["n1"] = nodes["n1"]._replace(state="idle+drain")
    nodes["n4"] = Node("n4", (), None, False, "down*", ())
    nodes["login"] = Node("login", (), None, False, "idle", ())
    listed = (slurm_node("n4", "down*", 4), slurm_node("login", "idle", 0))
    fleet_tick = fleet_tick._replace(nodes=nodes, queue=QueueRecords((), listed, AT, AT))
    assert marks_of(fleet_tick) == {"n1": "d", "n2": "-", "n3": "L", "n4": "DDDD"}


def test_a_zero_is_no_missing_value_and_a_held_idle_gpu_is_no_free_one():
    busy, a = job_with_gpus("1", {"n1": 2}, idle=1)
    free = [gpu("n2", 0, IDLE), gpu("n2", 1, {**IDLE, "sm_active_ratio": None})]
    fleet_tick = tick((busy,), [*a, *free])
    assert marks_of(fleet_tick, "sm") == {"n1": "█□", "n2": "-·"}
    assert marks_of(fleet_tick, "temp") == {"n1": "▒░", "n2": "--"}


@pytest.mark.parametrize("key", [field.key for field in FIELDS if field.keys])
def test_scales_are_fixed_and_their_steps_differ_without_colours(key):
    field = FIELD[key]
    assert len({mark.sign for mark in field.levels}) == 4
    top = 100.0 if field.unit == "°C" else 1.0
    for edge, low, high in zip(field.edges, field.levels, field.levels[1:], strict=False):
        assert field.level(edge - top / 1000) == low
        assert field.level(edge) == high
    signs = {mark.sign for mark in marks.STATES if mark != marks.IDLE}
    assert signs.isdisjoint(mark.sign for mark in field.levels)


def test_no_two_states_share_a_sign():
    assert len({mark.sign for mark in marks.STATES}) == len(marks.STATES)


def test_owners_have_letters_of_their_own_that_are_no_states():
    views, gpus = [], []
    for n, user in enumerate(["dan", "dora", "ada", "sam", "Lea"]):
        view, mine = job_with_gpus(str(n), {f"n{n}": 1}, user=user)
        views.append(view)
        gpus += mine
    found = owner_marks(Digest(tick(tuple(views), gpus)), FIELD["user"])
    signs = {name: mark.sign for name, mark in found.items()}
    assert len(set(signs.values())) == 5
    assert {"d", "s", "L"}.isdisjoint(signs.values())
    assert signs["ada"] == "a"


def test_more_owners_than_letters_share_a_sign():
    views, gpus = [], []
    for n in range(70):
        view, mine = job_with_gpus(str(n), {f"n{n}": 1}, user=f"u{n}")
        views.append(view)
        gpus += mine
    found = owner_marks(Digest(tick(tuple(views), gpus)), FIELD["user"])
    assert sum(mark.sign == "+" for mark in found.values()) > 1


def test_a_node_shows_its_worst_gpu_or_its_mean():
    view, gpus = job_with_gpus("1", {"n1": 4}, idle=1)
    digest = Digest(tick((view,), gpus))
    map_marks = MapMarks(digest, FIELD["sm"])
    unit = units(digest)[0]
    assert map_marks.node_mark(unit, is_mean=False).sign == "□"
    assert map_marks.node_mark(unit, is_mean=True).sign == "▓"
    verdict = MapMarks(digest, FIELD["verdict"])
    assert verdict.node_mark(unit, is_mean=False) is marks.IDLE
    assert verdict.node_mark(unit, is_mean=True) is marks.WORKING


def test_a_half_cell_never_hides_a_state():
    view, gpus = job_with_gpus("1", {f"n{i:03}": 8 for i in range(150)}, idle=1)
    lines = drawn(tick((view,), gpus), "sm")
    assert "▀▀▀□" in lines[-1]
    fleet_tick = tick((view,), gpus, findings=(finding(f"gpu:{gpus[4].uuid}"),))
    assert drawn(fleet_tick)[0].startswith(" n000 !▀▀▀ ▀▀▀▀")


def test_numbers_are_in_the_largest_cells():
    view, gpus = job_with_gpus("1", {"n1": 3}, idle=1)
    assert drawn(tick((view,), gpus), "sm") == [" n1   84  84 □ 0"]
    assert drawn(tick((view,), gpus), "temp") == [" n1   64  64  33"]


def test_the_line_below_shows_gpu_job_value_and_verdict():
    view, gpus = job_with_gpus("1", {"n1": 2}, idle=1, user="ada", name="train")
    digest = Digest(tick((view,), gpus, findings=(finding("job:1"),)))
    map_marks = MapMarks(digest, FIELD["sm"])
    layout = MapLayout(clusters(digest, units(digest), "partition"), 80, "cells")
    spot = layout.spots(0)[1]
    assert spot_words(map_marks, layout, spot, is_mean=False) == (
        "n1:1 · job 1 ada train · SM active 0 % · ! some GPUs unused"
    )
    by_node = MapLayout(layout.clusters, 80, "nodes")
    words = spot_words(map_marks, by_node, by_node.spots(0)[0], is_mean=False)
    assert words.startswith(
        "n1 · held, <10 % · 2 of 2 GPUs held · job 1 ada train · SM active 0 to 84 %"
    )


def test_the_legend_names_what_is_on_the_map():
    view, gpus = job_with_gpus("1", {"n1": 2}, idle=1)
    digest = Digest(tick((view,), gpus))
    map_marks = MapMarks(digest, FIELD["verdict"])
    map_marks.marks(units(digest)[0])
    assert [item.words for item in legend(digest, map_marks.field, map_marks.seen())] == [
        "used, 10+ %",
        "held, hardly used",
    ]
