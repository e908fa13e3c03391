"""The line below a map has each thing once."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.cluster import Node
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map.groups import clusters
from gpumon.report.fleet_map.layout import MapLayout
from gpumon.report.fleet_map.legend import (
    MOST_OWNERS,
    Legend,
    legend,
    legend_glyphs,
    spot_words,
    untold,
)
from gpumon.report.fleet_map.map import MapMarks, units
from gpumon.report.fleet_map.marks import CRITICAL, DOWN, DRAINED, FIELDS
from gpumon.report.fleet_map.marks import IDLE as HARDLY_USED
from tests.worlds.tick import AT, IDLE, finding, gpu, job_with_gpus, tick

VERDICT = next(field for field in FIELDS if field.key == "verdict")
USER = next(field for field in FIELDS if field.key == "user")


def below(fleet_tick, density):
    """Its words with the cursor on the first cell."""
    digest = Digest(fleet_tick)
    map_marks = MapMarks(digest, VERDICT)
    layout = MapLayout(clusters(digest, units(digest), "partition"), 80, density)
    return spot_words(map_marks, layout, layout.spots(0)[0], is_mean=False)


def silent(**changes):
    view, gpus = job_with_gpus("1", {"n1": 2}, stale_s=42.0, user="ada", name="train")
    fleet_tick = tick((view,), gpus)
    return fleet_tick._replace(nodes={"n1": fleet_tick.nodes["n1"]._replace(**changes)})


def test_a_silent_node_is_called_stale_once():
    assert below(silent(), "cells") == "n1:0 · job 1 ada train · stale 42s"
    assert below(silent(), "nodes") == "n1 · node stale 42s · 2 of 2 GPUs held · job 1 ada train"


def test_one_gpu_of_a_node_is_no_plural():
    view, gpus = job_with_gpus("1", {"n1": 1}, user="ada", name="train")
    assert "1 of 1 GPU held · job 1" in below(tick((view,), gpus), "nodes")


def test_a_node_without_a_gpu_shows_what_failed():
    error = SourceError("NVML", "nvmlInit: NVML Shared Library Not Found", "")
    fleet_tick = tick()._replace(nodes={"vm": Node("vm", (), AT, False, None, (error,))})
    assert below(fleet_tick, "cells") == "vm: nvmlInit: NVML Shared Library Not Found"


def test_a_node_that_is_not_watched_is_not_called_stale():
    words = below(silent(left_at=tick().at - 42.0), "nodes")
    assert "stale" not in words


@pytest.mark.parametrize("density", ["cells", "nodes"])
@pytest.mark.parametrize("state", ["idle+drain", "down*"])
def test_slurms_state_of_a_node_is_there_once(state, density):
    fleet_tick = tick((), [gpu("n1", 0, IDLE)])
    node = fleet_tick.nodes["n1"]._replace(state=state)
    words = below(fleet_tick._replace(nodes={"n1": node}), density)
    assert f" · node {state}" in words
    assert words.count("node ") == 1


def test_a_node_shows_its_gravest_finding_first():
    view, gpus = job_with_gpus("1", {"n1": 2}, user="ada", name="train")
    fleet_tick = tick((view,), gpus, findings=(finding("job:1"),))
    assert below(fleet_tick, "nodes").startswith(
        "n1 · ! some GPUs unused · 2 of 2 GPUs held · job 1"
    )


def shown(row):
    return "".join(glyph.char for glyph in row).rstrip()


def test_a_legend_that_is_too_long_takes_fewer_words_and_counts_what_is_left_out():
    signs = tuple(Legend(mark, mark.words) for mark in (CRITICAL, HARDLY_USED, DRAINED, DOWN))
    whole = shown(legend_glyphs(signs, 80, has_colour=True))
    assert whole == " ‼ critical finding  □ held, hardly used  d node drained  D node down"
    brief = " ‼ critical  □ hardly used  d drained  D down"
    assert shown(legend_glyphs(signs, 60, has_colour=True)) == brief
    assert shown(legend_glyphs(signs, 46, has_colour=True)) == brief
    assert shown(legend_glyphs(signs, 40, has_colour=True)).endswith("+2 more")
    for width in range(1, 90):
        assert len(shown(legend_glyphs(signs, width, has_colour=True))) <= max(width, 8)


def test_of_many_owners_only_those_with_most_gpus_are_put_into_words():
    views, gpus = [], []
    for number in range(MOST_OWNERS + 5):
        job = job_with_gpus(str(number), {f"n{number}": 1}, user=f"user{number:03d}")
        views.append(job[0])
        gpus += job[1]
    digest = Digest(tick(tuple(views), gpus))
    signs = legend(digest, USER, frozenset())
    more = untold(digest, USER)
    assert (len(signs), more) == (MOST_OWNERS, 5)
    row = shown(legend_glyphs(signs, 60, has_colour=True, untold=more))
    named = row.count("user")
    assert row.endswith(f"+{MOST_OWNERS + 5 - named} more")


def test_states_come_before_owners_who_would_take_the_whole_line():
    view, gpus = job_with_gpus("1", {"n1": 2}, user="ada")
    digest = Digest(tick((view,), [*gpus, gpu("n1", 2, IDLE)]))
    map_marks = MapMarks(digest, USER)
    for unit in units(digest):
        map_marks.marks(unit)
    assert [item.words for item in legend(digest, USER, map_marks.seen())] == ["free", "ada 2"]
