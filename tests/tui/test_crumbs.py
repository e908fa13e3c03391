"""The line on top: where one is, on the width that there is."""

from __future__ import annotations

import pytest

from gpumon.report.text.cells import text_width
from gpumon.tui.status import crumb_line

TRAIL = ("jobs", "48211 dinov2-giant", "SM active over time")


def shown(crumbs, width, right="16 ranks, 60s a cell "):
    text = "".join(cell.text for cell in crumb_line("gpumon demo", crumbs, right, width))
    assert text_width(text) <= width
    return text


def test_all_is_shown_where_there_is_room():
    assert " › ".join(TRAIL) in shown(TRAIL, 120)


@pytest.mark.parametrize("width", [80, 70, 65])
def test_the_last_crumb_says_what_is_on_the_screen_so_those_before_it_are_cut_first(width):
    text = shown(TRAIL, width)
    assert "› SM active over time " in text
    assert text.endswith("16 ranks, 60s a cell ")


def test_the_job_is_shown_for_as_long_as_a_view_further_back_can_be_cut():
    assert "› … › 48211 dinov2-gi… › SM active over time " in shown(TRAIL, 80)


def test_the_last_crumb_keeps_its_beginning_where_nothing_else_is_left_to_cut():
    assert shown(TRAIL, 50) == " gpumon… › … › … › SM active o… 16 ranks, 60s a …"


def test_the_name_of_what_is_watched_and_then_the_right_end_give_way_to_the_view():
    crumbs, watched = ("fleet",), "gpumon demo:1250x8?noise=1"
    right = "1,250 nodes, 10,000 GPUs, a cell per GPU, by leaf switch "
    for width, words in ((80, " gpumon demo… › fleet "), (70, " gpumon… › fleet ")):
        text = "".join(cell.text for cell in crumb_line(watched, crumbs, right, width))
        assert text_width(text) <= width
        assert text.startswith(words)
        assert "1,250 nodes, 10,000 GPUs, a cell per" in text
