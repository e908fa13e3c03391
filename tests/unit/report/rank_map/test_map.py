"""The map of a job's ranks: cells as large as there is room, and the words below it."""

from __future__ import annotations

import pytest

from gpumon.report.facts.rank_groups import rank_groups
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map.marks import FIELDS, WORKING, Ink
from gpumon.report.rank_map.legend import number_words, rank_legend, rank_numbers, rank_words
from gpumon.report.rank_map.map import RankMap
from gpumon.report.rank_map.marks import rank_marks
from gpumon.report.text.units import clock_time
from tests.worlds.tick import AT, BUSY, finding, gpu, job_with_gpus, tick

JOB = "7"
FIELD = {field.key: field for field in FIELDS}


def chart_of(made, field="verdict", size=(80, 20)):
    digest = Digest(made)
    groups = rank_groups(digest, digest.tick.job(JOB))
    marks = rank_marks(digest, groups, FIELD[field])
    return digest, RankMap(groups, marks, size, None, rank_numbers(groups, FIELD[field]))


def lagging():
    view, gpus = job_with_gpus(JOB, {"a": 8, "b": 8})
    gpus[5] = gpu("a", 5, {**BUSY, "sm_active_ratio": 0.3}, gpus[5].processes)
    gpus[6] = gpu("a", 6, {**BUSY, "sm_active_ratio": None}, gpus[6].processes)
    return tick((view,), gpus, findings=(finding(f"job:{JOB}/rank:5"),))


def text_of(row):
    return "".join(glyph.char for glyph in row)


def words(made, rank, field="verdict"):
    digest, chart = chart_of(made, field)
    return rank_words(digest, chart.rows[rank], FIELD[field], chart, 0)


def test_where_there_is_room_a_cell_has_two_lines_and_its_number():
    _, chart = chart_of(lagging())
    assert chart.shape.width == 5
    first, below = (chart.line(number, 0, has_colour=True) for number in (1, 2))
    assert text_of(first).split()[:6] == ["0", "84", "84", "84", "84", "84"]
    assert "! 30" in text_of(first)
    assert {glyph.ground for glyph in below} == {None, WORKING.ink, Ink.WARN}
    assert text_of(below).strip() == ""
    plain = text_of(chart.line(1, 0, has_colour=False))
    assert f"{WORKING.sign} 84" in plain
    assert {glyph.ground for glyph in chart.line(1, 0, has_colour=False)} == {None}


def test_large_cells_are_gone_through_rank_by_rank_and_found_by_each_of_their_lines():
    _, chart = chart_of(lagging())
    assert chart.ranks == tuple(range(16))
    line, x = chart.spot(9)
    assert chart.under(line, x) == chart.under(line + 1, x + 4) == 9
    assert chart.moved(1, 0, 1) == 9
    assert chart.moved(9, 0, -1) == 1
    assert chart.moved(7, 1, 0) == 8


@pytest.mark.parametrize(("ranks", "width"), [(16, 5), (128, 1)])
def test_cells_become_small_where_many_have_to_fit(ranks, width):
    view, gpus = job_with_gpus(JOB, {f"n{i}": 8 for i in range(ranks // 8)})
    _, chart = chart_of(tick((view,), gpus))
    assert chart.shape.width == width
    assert chart.height <= 20


def test_the_line_below_shows_time_value_peers_and_finding_as_over_time():
    clock = clock_time(AT - 1, with_seconds=True)
    assert words(lagging(), 5) == (
        f"rank 5 · a:5 · {clock} SM active 30 % · peers 84 (84 to 84) · ! some GPUs unused"
    )
    assert "duty cycle" in words(lagging(), 6)
    assert "temperature 6" in words(lagging(), 5, "temp")


def test_what_is_stale_is_called_so_and_has_no_value():
    view, gpus = job_with_gpus(JOB, {"a": 4}, stale_s=42.0)
    assert words(tick((view,), gpus), 0) == "rank 0 · a:0 · stale 42s"


def test_few_ranks_have_no_peers():
    view, gpus = job_with_gpus(JOB, {"a": 3})
    assert "peers" not in words(tick((view,), gpus), 0)


def test_a_missing_value_has_no_unit():
    view, gpus = job_with_gpus(JOB, {"a": 4})
    gpus = [gpu("a", i, {**BUSY, "temp_c": None}, gpus[i].processes) for i in range(4)]
    assert words(tick((view,), gpus), 0, "temp").endswith("temperature –")


def test_the_legend_names_only_states_that_are_seen():
    def row_of(seen):
        return text_of(rank_legend(FIELD["verdict"], frozenset(seen), 80, has_colour=True))

    assert "used, 10+ %" in row_of({WORKING})
    assert "used" not in row_of(())


def test_what_the_numbers_are():
    assert number_words(FIELD["verdict"]) == "SM active, %"
    assert number_words(FIELD["temp"]) == "temperature, °C"
