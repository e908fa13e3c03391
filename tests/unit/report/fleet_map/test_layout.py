"""Where each cell of the map lies, from one node to ten thousand."""

from __future__ import annotations

import pytest

from gpumon.report.fleet_map.density import DENSITIES, HALF, allowed, short_name
from gpumon.report.fleet_map.groups import Cluster
from gpumon.report.fleet_map.layout import MapLayout, fitting
from gpumon.report.fleet_map.map import Unit
from gpumon.report.fleet_map.marks import FIELDS

FIELD = {field.key: field for field in FIELDS}


def plain_clusters(nodes: int, gpus: int = 8) -> tuple[Cluster, ...]:
    return (Cluster("all", tuple(Unit(f"gpu{n:05}", gpus) for n in range(nodes))),)


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
def test_the_largest_cells_without_scrolling(nodes, size, density):
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
    layout = MapLayout(plain_clusters(37, gpus), width, density)
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
    layout = MapLayout(groups, 60, density)
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
    layout = MapLayout(plain_clusters(40), 80, "halves")
    below = layout.below("gpu00000", 0, 1)
    assert below is not None
    assert (below[1].unit.name, below[1].slot) == ("gpu00000", 4)
    two = layout.below("gpu00000", 0, 2)
    assert two is not None
    assert two[1].slot == 0
    assert two[0] == 1


def test_the_mouse_finds_what_is_drawn():
    layout = MapLayout(plain_clusters(20), 80, "cells")
    spot = layout.at(layout.left + layout.gpus_x + 3, 0)
    assert spot is not None
    assert (spot.unit.name, spot.slot) == ("gpu00000", 3)
    assert layout.at(0, 0) is None
    assert layout.at(9, 999) is None


def test_long_names_are_cut_before_their_end():
    assert short_name("cluster-a-rack12-node0042", 14) == "clust…node0042"
    assert short_name("gpu1", 14) == "gpu1"
