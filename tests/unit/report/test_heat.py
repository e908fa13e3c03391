"""The map of the fleet: what each cell says, and where it lies, from one node to ten thousand."""

from __future__ import annotations

from array import array

import pytest

from gpumon.model.cluster import Gpu, JobView, Node
from gpumon.model.finding import Severity
from gpumon.model.frame import Block, QueueRecords
from gpumon.model.ledger import Account, LedgerTotals, Prices
from gpumon.model.missing import Reason
from gpumon.report import heat_marks as marks
from gpumon.report.digest import Digest
from gpumon.report.heat import Heat, Unit, owner_marks, units
from gpumon.report.heat_density import DENSITIES, HALF, allowed, short_name
from gpumon.report.heat_groups import GROUPINGS, Cluster, clusters, following
from gpumon.report.heat_layout import HeatLayout, fitting
from gpumon.report.heat_lines import glyphs
from gpumon.report.heat_marks import FIELDS
from gpumon.report.heat_totals import total_lines
from gpumon.report.heat_words import legend, spot_words
from tests.heats import totals_of
from tests.queues import alone, slurm_node, waits
from tests.ticks import AT, BUSY, IDLE, finding, gpu, job, job_with_gpus, tick

FIELD = {field.key: field for field in FIELDS}


def plain_clusters(nodes: int, gpus: int = 8) -> tuple[Cluster, ...]:
    return (Cluster("all", tuple(Unit(f"gpu{n:05}", gpus) for n in range(nodes))),)


def text(row) -> str:
    return "".join(glyph.char for glyph in row).rstrip()


def drawn(picture, field="verdict", width=80, height=15, is_mean=False, has_colour=True):
    digest = Digest(picture)
    heat = Heat(digest, FIELD[field])
    grouped = clusters(digest, units(digest), "partition")
    layout = fitting(grouped, width, height, has_colour=has_colour)
    return [
        text(glyphs(heat, layout, line, is_mean=is_mean, has_colour=has_colour))
        for line in layout.lines
    ]


def marks_of(picture, field="verdict"):
    digest = Digest(picture)
    heat = Heat(digest, FIELD[field])
    return {unit.name: "".join(m.sign for m in heat.marks(unit)) for unit in units(digest)}


@pytest.mark.parametrize(
    ("nodes", "size", "density"),
    [
        (1, (80, 15), "numbers"),
        (8, (80, 15), "numbers"),
        (64, (80, 15), "rows"),
        (64, (120, 31), "wide"),
        (125, (80, 15), "halves"),
        (1250, (80, 15), "half nodes"),
        (1250, (120, 31), "nodes"),
        (1250, (200, 51), "halves"),
        (10_000, (200, 51), "half nodes"),
    ],
)
def test_the_closest_look_without_scrolling(nodes, size, density):
    layout = fitting(plain_clusters(nodes), *size, has_colour=True)
    assert layout.density == density
    assert layout.height == len(layout.lines) <= size[1]


def test_eighty_thousand_gpus_scroll_on_a_small_terminal():
    layout = fitting(plain_clusters(10_000), 80, 15, has_colour=True)
    assert layout.density == "half nodes"
    assert layout.height > 15


def test_without_colours_nothing_shares_a_character():
    assert not HALF & set(allowed(has_colour=False))
    layout = fitting(plain_clusters(10_000), 200, 51, has_colour=False)
    assert layout.density == "nodes"


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("gpus", [1, 3, 4, 8, 16])
@pytest.mark.parametrize("width", [80, 133, 200])
def test_every_gpu_has_one_place_inside_the_width(density, gpus, width):
    layout = HeatLayout(plain_clusters(37, gpus), width, density)
    seen = set()
    for number in range(len(layout.lines)):
        places = set()
        for spot in layout.spots(number):
            assert layout.left <= spot.x < width
            places.add((spot.x, spot.is_lower))
            seen.add((spot.unit.name, spot.slot))
        assert len(places) == len(layout.spots(number))
    assert len(seen) == (37 if layout.is_by_node else 37 * gpus)


@pytest.mark.parametrize("density", DENSITIES)
def test_the_cursor_reaches_every_cell_and_comes_back(density):
    groups = (*plain_clusters(11, 8), Cluster("b", (Unit("x1", 4), Unit("x2", 8))))
    layout = HeatLayout(groups, 60, density)
    place = ("gpu00000", 0)
    visited = [place]
    for _ in range(400):
        found = layout.beside(*place, 1)
        assert found is not None
        place = (found[1].unit.name, found[1].slot)
        if place == visited[-1]:
            break
        visited.append(place)
    assert place[0] == "x2" or layout.is_half
    down = layout.below("gpu00000", 0, 500)
    assert down is not None
    up = layout.below(down[1].unit.name, down[1].slot, -500)
    assert up is not None
    assert (up[1].unit.name, up[1].slot) == ("gpu00000", 0)


def test_down_goes_to_the_lower_half_first():
    layout = HeatLayout(plain_clusters(40), 80, "halves")
    below = layout.below("gpu00000", 0, 1)
    assert below is not None
    assert (below[1].unit.name, below[1].slot) == ("gpu00000", 4)
    two = layout.below("gpu00000", 0, 2)
    assert two is not None
    assert two[1].slot == 0
    assert two[0] == 1


def test_the_mouse_finds_what_is_drawn():
    layout = HeatLayout(plain_clusters(20), 80, "cells")
    spot = layout.at(layout.left + layout.gpus_x + 3, 0)
    assert spot is not None
    assert (spot.unit.name, spot.slot) == ("gpu00000", 3)
    assert layout.at(0, 0) is None
    assert layout.at(9, 999) is None


def test_long_names_keep_their_end():
    assert short_name("cluster-a-rack12-node0042", 14) == "clust…node0042"
    assert short_name("gpu1", 14) == "gpu1"


def test_a_verdict_tells_every_state_by_a_sign_of_its_own():
    wasting, a = job_with_gpus("1", {"n1": 8}, idle=3)
    stale, b = job_with_gpus("2", {"n2": 2}, stale_s=42.0)
    idle, c = job_with_gpus("3", {"n3": 2}, idle=1)
    free = [gpu("n4", i, IDLE) for i in range(2)]
    blind = [gpu("n5", 0, {"sm_active_ratio": None, "gpu_util_ratio": None})]
    blind_view = JobView(job("5", gpu_count=1), (blind[0].uuid,), 0, (), ())
    picture = tick(
        (wasting, stale, idle, blind_view),
        [*a, *b, *c, *free, *blind],
        findings=(
            finding("job:1", gpus=(a[7].uuid,)),
            finding(f"gpu:{a[0].uuid}", severity=Severity.CRITICAL),
            finding("job:1/rank:1", severity=Severity.INFO),
        ),
    )
    assert marks_of(picture) == {
        "n1": "‼i███□□!",
        "n2": "ss",
        "n3": "█□",
        "n4": "--",
        "n5": "·",
    }


def test_down_drained_lost_and_promised_gpus_differ():
    lost = gpu("n3", 0, {"power_w": None, "sm_active_ratio": None, "gpu_util_ratio": None})
    lost.block.missing[("power_w", 0)] = Reason.LOST
    picture = tick((), [gpu("n1", 0, IDLE), gpu("n2", 0, IDLE), lost])
    nodes = dict(picture.nodes)
    nodes["n1"] = nodes["n1"]._replace(state="idle+drain")
    nodes["n4"] = Node("n4", (), None, False, "down*", ())
    nodes["login"] = Node("login", (), None, False, "idle", ())
    listed = (slurm_node("n4", "down*", 4), slurm_node("login", "idle", 0))
    picture = picture._replace(nodes=nodes, queue=QueueRecords((), listed, AT, AT))
    assert marks_of(picture) == {"n1": "d", "n2": "-", "n3": "L", "n4": "DDDD"}


def test_a_zero_is_no_missing_value_and_a_held_idle_gpu_is_no_free_one():
    busy, a = job_with_gpus("1", {"n1": 2}, idle=1)
    free = [gpu("n2", 0, IDLE), gpu("n2", 1, {**IDLE, "sm_active_ratio": None})]
    picture = tick((busy,), [*a, *free])
    assert marks_of(picture, "sm") == {"n1": "█□", "n2": "-·"}
    assert marks_of(picture, "temp") == {"n1": "▒░", "n2": "--"}


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
    heat = Heat(digest, FIELD["sm"])
    unit = units(digest)[0]
    assert heat.node_mark(unit, is_mean=False).sign == "□"
    assert heat.node_mark(unit, is_mean=True).sign == "▓"
    verdict = Heat(digest, FIELD["verdict"])
    assert verdict.node_mark(unit, is_mean=False) is marks.IDLE
    assert verdict.node_mark(unit, is_mean=True) is marks.WORKING


def test_a_half_cell_never_hides_a_state():
    view, gpus = job_with_gpus("1", {f"n{i:03}": 8 for i in range(150)}, idle=1)
    lines = drawn(tick((view,), gpus), "sm")
    assert "▀▀▀□" in lines[-1]
    picture = tick((view,), gpus, findings=(finding(f"gpu:{gpus[4].uuid}"),))
    assert drawn(picture)[0].startswith(" n000 !▀▀▀ ▀▀▀▀")


def test_numbers_stand_in_the_largest_cells():
    view, gpus = job_with_gpus("1", {"n1": 3}, idle=1)
    assert drawn(tick((view,), gpus), "sm") == [" n1   84  84 □ 0"]
    assert drawn(tick((view,), gpus), "temp") == [" n1   64  64  33"]


def test_groups_are_named_and_nodes_of_none_come_last():
    view, gpus = job_with_gpus("1", {"gpu10": 1, "gpu9": 1, "odd1": 1})
    listed = (slurm_node("gpu10"), slurm_node("gpu9"))
    picture = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    digest = Digest(picture)
    found = clusters(digest, units(digest), "partition")
    assert [(c.name, [u.name for u in c.units]) for c in found] == [
        ("h100", ["gpu9", "gpu10"]),
        ("no partition", ["odd1"]),
    ]
    assert [c.name for c in clusters(digest, units(digest), "name")] == ["gpu", "odd"]
    assert [c.name for c in clusters(digest, units(digest), "NVLink domain")] == [
        "no domain beyond the node"
    ]
    assert "h100 · 2 nodes · 16 GPUs" in "\n".join(drawn(picture))


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


def turns(digest):
    """The groupings that come one after the other, from the first until it comes again."""
    found = [GROUPINGS[0]]
    while (other := following(digest, units(digest), found[-1])) != GROUPINGS[0]:
        found.append(other)
        assert len(found) <= len(GROUPINGS)
    return found


def test_groupings_of_which_the_fleet_tells_nothing_are_passed_over():
    view, gpus = job_with_gpus("1", {"n1": 1, "n2": 1})
    bare = tick((view,), gpus, queue=QueueRecords((), (slurm_node("n1"),), AT, AT))
    assert turns(Digest(bare)) == ["partition", "name", "state"]
    listed = (slurm_node("n1"), slurm_node("n2", leaf_switch="s1"))
    tree = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    assert turns(Digest(tree)) == ["partition", "leaf switch", "name", "state"]
    listed = (slurm_node("n1"), slurm_node("n2", block="b1"))
    blocks = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    assert turns(Digest(blocks)) == ["partition", "block", "name", "state"]


def test_a_fleet_that_tells_nothing_keeps_its_grouping():
    digest = Digest(tick((), []))
    assert following(digest, (), "leaf switch") == "leaf switch"


def test_an_nvlink_domain_is_cluster_and_clique():
    keys = ("GPU-a",)
    block = Block(
        keys,
        {"fabric_clique": array("q", [3])},
        {"fabric_cluster": ("0badc0ffee" + "0" * 22,)},
        {},
    )
    one = Gpu("GPU-a", "n1", block, 0, AT, "x", False, ())
    picture = tick((), [one])
    digest = Digest(picture)
    assert clusters(digest, units(digest), "NVLink domain")[0].name == "0badc0ff/3"
    assert {c for g in GROUPINGS for c in clusters(digest, units(digest), g)}


def test_totals_count_what_is_held_busy_useful_and_lost():
    wasting, a = job_with_gpus("1", {"n1": 8}, idle=3)
    slow, b = job_with_gpus("2", {"n2": 2})
    b = [gpu("n2", i, {**BUSY, "sm_active_ratio": 0.3}) for i in range(2)]
    picture = tick(
        (wasting, slow, alone(waits("3", submit_at=AT - 8040))),
        [*a, *b, gpu("n3", 0, {**IDLE, "sm_active_ratio": None})],
        findings=(finding("job:1", gpu_seconds=7200.0),),
    )
    totals = totals_of(Digest(picture))
    assert (totals.gpus, totals.allocated, totals.busy, totals.useful) == (11, 10, 7, 5)
    assert totals.useful_known == 10
    lines = ["".join(cell.text for cell in line) for line in total_lines(totals, 150)]
    assert lines[0] == (
        "11 GPUs · 10 (91 %) allocated · 7 (64 %) busy · 5 (45 %) at useful work (10 tell)"
    )
    assert lines[1].startswith("wasted 2.0 GPU-h since ")
    assert "1 warning · 1 waiting, longest 2h14m · 3 nodes" in lines[1]
    narrow = ["".join(cell.text for cell in line) for line in total_lines(totals, 78)]
    assert len(narrow) == 2
    assert all(len(line) <= 78 for line in narrow)


def test_the_books_say_what_was_wasted_and_what_that_cost():
    account = Account("1", "ada", "ml", "h100", "H100", AT - 7200, AT - 7200, {"idle": 36_000.0})
    books = LedgerTotals(AT, AT - 7200, (account,), (account,), Prices({"default": 2.5}, 0.0, "€"))
    picture = tick((), [gpu("n1", 0)], ledger=books)
    lines = total_lines(totals_of(Digest(picture)), 150)
    assert "wasted 10.0 GPU-h, 25 € since " in "".join(cell.text for cell in lines[1])


def test_without_a_queue_nothing_is_called_allocated():
    totals = totals_of(Digest(tick((), [gpu("n1", 0)], queue_at=None)))
    text_now = "".join(cell.text for line in total_lines(totals, 80) for cell in line)
    assert "allocated" not in text_now
    assert "100 % busy" in text_now


def test_the_line_below_tells_gpu_job_value_and_verdict():
    view, gpus = job_with_gpus("1", {"n1": 2}, idle=1, user="ada", name="train")
    digest = Digest(tick((view,), gpus, findings=(finding("job:1"),)))
    heat = Heat(digest, FIELD["sm"])
    layout = HeatLayout(clusters(digest, units(digest), "partition"), 80, "cells")
    spot = layout.spots(0)[1]
    assert spot_words(heat, layout, spot, is_mean=False) == (
        "n1:1 · job 1 ada train · SM active 0 % · ! some GPUs unused"
    )
    by_node = HeatLayout(layout.clusters, 80, "nodes")
    words = spot_words(heat, by_node, by_node.spots(0)[0], is_mean=False)
    assert words.startswith(
        "n1 · held, <10 % · 2 of 2 GPUs held · job 1 ada train · SM active 0 to 84 %"
    )


def test_the_legend_names_what_is_on_the_map():
    view, gpus = job_with_gpus("1", {"n1": 2}, idle=1)
    digest = Digest(tick((view,), gpus))
    heat = Heat(digest, FIELD["verdict"])
    heat.marks(units(digest)[0])
    assert [item.words for item in legend(digest, heat.field, heat.seen())] == [
        "working",
        "held, hardly used",
    ]


def leaves(groups, nodes):
    return tuple(
        Cluster(f"leaf{g:02}", tuple(Unit(f"gpu{g * nodes + n:05}", 8) for n in range(nodes)))
        for g in range(groups)
    )


def test_groups_that_fit_on_a_line_have_their_names_before_it_and_no_headings():
    grouped = leaves(60, 16)
    layout = HeatLayout(grouped, 80, "nodes")
    # Each takes 6 + 1 + 17 cells, and two up to the next: three stand side by side.
    assert layout.height == len(layout.lines) == 20
    assert layout.lines[1].label == "leaf03"
    assert layout.lines[1].beside == ((27, "leaf04"), (53, "leaf05"))
    for density in ("nodes", "half nodes", "halves", "rows"):
        for width in (40, 80, 120, 200):
            layout = HeatLayout(grouped, width, density)
            assert layout.height == len(layout.lines)
            seen = [block for line in layout.lines for block in line.blocks]
            assert [block.unit.name for block in seen] == [f"gpu{n:05}" for n in range(960)]
            for name in ("gpu00000", "gpu00015", "gpu00016", "gpu00959"):
                line, spot = layout.find(name, 0)
                assert spot in layout.spots(line)
                assert layout.at(spot.x, line).unit.name in {name, f"gpu{int(name[3:]) - 1:05}"}
            if layout.is_group_a_line:
                assert max(block.x + layout.block_width for block in seen) <= width
    # Two groups keep their headings, which say how large they are; so do longer ones.
    assert HeatLayout(grouped[:2], 80, "nodes").height == 4
    assert HeatLayout(leaves(3, 80), 80, "nodes").height == 9


def test_totals_take_two_lines_of_a_narrow_terminal():
    view, gpus = job_with_gpus("1", {f"n{n}": 8 for n in range(99)}, idle=1)
    found = (finding("job:1", gpu_seconds=7200.0), finding("job:1", severity=Severity.CRITICAL))
    waiting = tuple(JobView(waits(str(n)), (), 0, (), ()) for n in range(34))
    picture = tick((view, *waiting), gpus, findings=found)
    nodes = {
        name: node._replace(state="down" if name == "n1" else "mixed")
        for name, node in picture.nodes.items()
    }
    digest = Digest(picture._replace(nodes=nodes))
    lines = total_lines(totals_of(digest), 78)
    assert len(lines) == 2
    assert "since" not in "".join(cell.text for cell in lines[1])
    assert "since" in "".join(cell.text for cell in total_lines(totals_of(digest), 160)[1])
