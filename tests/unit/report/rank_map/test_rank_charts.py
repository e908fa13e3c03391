"""The ranks of a job over time and as a map: values by slot, outliers, gaps, places."""

from __future__ import annotations

from itertools import chain

import pytest

from gpumon.fleet.history.history import History
from gpumon.report.facts.rank_groups import rank_groups
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map.marks import FIELDS, Ink
from gpumon.report.rank_map.map import RankMap
from gpumon.report.rank_map.marks import (
    finding_signs,
    first_field,
    first_slot_s,
    onset_of,
    rank_marks,
)
from gpumon.report.rank_map.slots import ABOVE, BELOW, BLANK, FIRST_LEVEL, MISSING, RankSlots
from gpumon.report.rank_map.strips import RankStrips, time_row
from tests.unit.report.facts.test_rank_groups import closed
from tests.worlds.tick import AT, BUSY, finding, gpu, job_with_gpus, tick

SM = next(field for field in FIELDS if field.key == "sm")
JOB = "7"


def text_of(row):
    return "".join(glyph.char for glyph in row)


def nodes_of(ranks):
    return {f"n{number:03}": 8 for number in range(-(-ranks // 8))}


def digest_of(value_of, ticks=60, ranks=16, period_s=1.0, **changes):
    """The last of so many ticks, with history; `value_of(rank, number)`: SM activity, or None."""
    history = History()
    view, gpus = job_with_gpus(JOB, nodes_of(ranks))
    last = None
    for number in range(ticks):
        at = AT - (ticks - 1 - number) * period_s
        if value_of(0, number) == "gap":
            continue
        now = [
            gpu(one.node, rank % 8, {**BUSY, "sm_active_ratio": value_of(rank, number)})
            for rank, one in enumerate(gpus)
        ]
        now = [one._replace(taken_at=at) for one in now]
        last = tick((view,), now, at=at, number=number, period_s=period_s, **changes)
        history.append(last)
    assert last is not None
    return Digest(last._replace(history=history.reader()))


def slots_of(digest, slot_s=5.0, count=12, reader=None):
    view = digest.tick.job(JOB)
    reader = reader or RankSlots()
    return reader.read(digest, JOB, rank_groups(digest, view), SM, slot_s, count)


def strips(digest, size=(80, 30), **options):
    groups = rank_groups(digest, digest.tick.job(JOB))
    return RankStrips(groups, slots_of(digest), SM, size, **options)


def test_a_slot_is_the_mean_of_its_rows_and_the_last_slot_holds_the_tick():
    slots = slots_of(digest_of(lambda rank, number: number / 100))
    assert slots.start <= AT - 55 < slots.start + 5
    assert slots.end > AT >= slots.end - 5
    whole = slots.columns[-2].values[0]
    first = slots.end - 10
    inside = [n / 100 for n in range(60) if first <= AT - 59 + n < first + 5]
    assert len(inside) == 5
    assert whole == pytest.approx(sum(inside) / 5, abs=1e-6)


def test_a_straggler_is_marked_against_its_peers_and_no_other_is():
    digest = digest_of(lambda rank, number: 0.4 if rank == 5 and number >= 30 else 0.85)
    column = slots_of(digest).columns[-1]
    assert column.codes[5] == BELOW
    assert set(column.codes) - {BELOW} == {FIRST_LEVEL + 3}
    assert column.bands[0].tolist() == pytest.approx([0.85] * 3, abs=1e-6)
    assert column.off[5] == pytest.approx(-0.45, abs=1e-6)
    assert BELOW not in slots_of(digest).columns[2].codes


def test_who_works_while_its_peers_pause_is_above():
    digest = digest_of(lambda rank, number: 0.9 if rank == 3 else 0.02)
    codes = slots_of(digest).columns[-1].codes
    assert codes[3] == ABOVE
    assert set(codes) == {ABOVE, FIRST_LEVEL}


def test_spread_peers_are_no_outliers():
    digest = digest_of(lambda rank, number: 0.4 + rank * 0.03)
    assert {BELOW, ABOVE}.isdisjoint(slots_of(digest).columns[-1].codes)


def test_missing_is_a_sign_and_a_gap_is_blank():
    def value_of(rank, number):
        if 20 <= number < 40:
            return "gap"
        return None if rank == 2 else 0.8

    columns = slots_of(digest_of(value_of)).columns
    assert columns[-1].codes[2] == MISSING
    assert columns[-1].codes[1] == FIRST_LEVEL + 3
    blanks = [bool((column.codes == BLANK).all()) for column in columns]
    assert blanks.count(True) == 3
    assert not blanks[0]
    assert not blanks[-1]


def test_what_was_before_the_past_begins_is_blank_and_sparse_ticks_leave_no_gap():
    digest = digest_of(lambda rank, number: 0.8, ticks=7, period_s=5.0)
    codes = [int(column.codes[0]) for column in slots_of(digest, slot_s=5.0).columns]
    assert codes[:3] == [BLANK] * 3
    assert codes[-7:] == [FIRST_LEVEL + 3] * 7


def test_only_slots_that_are_not_over_are_read_again(monkeypatch):
    reader = RankSlots()
    digest = digest_of(lambda rank, number: 0.8)
    first = slots_of(digest, reader=reader)
    asked = []

    def slab(uuids, keys, start, end, block="gpu"):
        asked.append(end - start)
        return type(history).slab(history, uuids, keys, start, end, block)

    history = digest.tick.history
    monkeypatch.setattr(history, "slab", slab, raising=False)
    again = slots_of(digest, reader=reader)
    assert asked
    assert max(asked) <= 15
    assert all(a is b for a, b in zip(first.columns[:-2], again.columns[:-2], strict=True))
    other = RankSlots()
    for old, new in zip(again.columns, slots_of(digest, reader=other).columns, strict=True):
        assert old.codes.tolist() == new.codes.tolist()


def test_a_straggler_among_ranks_not_known_is_marked_and_shared_lines_are_counted():
    digest = digest_of(lambda rank, number: 0.4 if rank == 5 else 0.85)
    mine = closed(digest.tick.job(JOB))
    digest = Digest(digest.tick._replace(jobs=(mine,)))
    chart = strips(digest, (100, 30))
    rows = [text_of(chart.line(number, cursor=-1)) for number in range(chart.height)]
    assert rows[1].startswith("   p90 ")
    assert [row.split()[:2] for row in rows if row.count("▼") > 5] == [["?", "n000:5"]]
    small = strips(digest, (80, 8))
    assert "   4 ranks " in text_of(small.line(3, cursor=-1))


def test_a_line_for_each_rank_with_its_newest_value_and_the_band_on_top():
    digest = digest_of(lambda rank, number: 0.4 if rank == 5 else 0.85)
    chart = strips(digest)
    rows = [text_of(chart.line(n, cursor=0)) for n in range(chart.height)]
    assert chart.per_line == 1
    assert rows[0] == " world n000:29500 · python · 16 ranks"
    assert rows[1].startswith("   p90 ")
    assert rows[2].startswith("   p10 ")
    assert rows[3].startswith("›   0 ")
    assert rows[8].startswith("    5 ")
    assert rows[8].count("▼") == 12
    assert rows[8].endswith(" 40")
    assert rows[9].count("█") == 12
    assert {len(row) for row in rows[1:]} == {80}


def test_the_furthest_from_its_peers_comes_first_and_a_missing_one_before_it():
    digest = digest_of(lambda rank, number: None if rank == 9 else 0.4 if rank == 5 else 0.85)
    chart = strips(digest, is_by_distance=True)
    assert chart.ranks[:3] == (9, 5, 0)


def test_sorted_by_distance_a_rank_with_a_finding_comes_first_on_a_line_of_its_own():
    odd = finding(f"job:{JOB}/rank:11")
    digest = digest_of(lambda rank, number: 0.4 if rank == 13 else 0.85, findings=(odd,))
    groups = rank_groups(digest, digest.tick.job(JOB))
    signs = finding_signs(digest, groups)
    chart = strips(digest, (80, 8), is_by_distance=True, signs=signs)
    assert chart.lines[chart.spot(11, 0)[0]].members == (11,) == chart.ranks[:1]
    assert chart.shown(chart.ranks[1], 0) == 13
    assert strips(digest, signs=signs).ranks[0] == 0


def test_ranks_share_lines_that_show_the_worst():
    digest = digest_of(lambda rank, number: 0.4 if rank == 13 else 0.85)
    chart = strips(digest, (80, 8))
    assert chart.height <= 8
    assert chart.per_line == 4
    rows = [text_of(chart.line(n, cursor=0)) for n in range(chart.height)]
    assert rows[0].endswith("a line is the worst of 4")
    line = next(row for row in rows if row.startswith("   12–15"))
    assert line.count("▼") == 12
    assert chart.shown(12, 0) == 13
    assert strips(digest, (80, 8), is_whole=False).per_line == 1


def test_the_onset_is_a_line_through_all_ranks_and_named_above():
    odd = finding(f"job:{JOB}", onset=AT - 28)
    digest = digest_of(lambda rank, number: 0.85, findings=(odd,))
    onset = onset_of(digest, digest.tick.job(JOB))
    assert onset == (AT - 28, Ink.WARN)
    chart = strips(digest, onset=onset)
    rows = [text_of(chart.line(n, cursor=0)) for n in range(3, chart.height)]
    places = {row.index("┊") for row in rows}
    assert len(places) == 1
    times = text_of(time_row(chart, onset))
    assert "onset ┊" in times
    assert times.index("┊") == places.pop()
    assert strips(digest, onset=(AT - 9000, Ink.WARN)).line(3, 0) == strips(digest).line(3, 0)


@pytest.mark.parametrize(
    ("began_s", "slot_s"),
    [(None, 10), (600, 10), (2_400, 30), (6_000, 120), (90_000, 10)],
)
def test_at_first_so_much_of_the_past_is_shown_that_the_onset_is_in_sight(began_s, slot_s):
    found = () if began_s is None else (finding(f"job:{JOB}", onset=AT - began_s),)
    digest = digest_of(
        lambda rank, number: 0.85, ticks=2, findings=found, observed_since=AT - 86_400
    )
    view = digest.tick.job(JOB)
    assert first_slot_s(digest, view, 100) == slot_s
    young = digest_of(lambda rank, number: 0.85, ticks=2, findings=found, observed_since=AT - 90)
    assert first_slot_s(young, view, 100) == 1


@pytest.mark.parametrize("size", [(1, 1), (12, 2), (14, 5), (30, 1)])
def test_a_chart_fits_into_any_room(size):
    digest = digest_of(lambda rank, number: 0.85)
    onset = (AT - 28, Ink.WARN)
    chart = strips(digest, size, onset=onset)
    rows = [chart.line(n, 0) for n in range(chart.height)] + [time_row(chart, onset)]
    assert max(len(row) for row in rows) <= size[0]
    groups = chart.groups
    drawn = RankMap(groups, rank_marks(digest, groups, SM), size)
    rows = [drawn.line(n, 0, has_colour=True) for n in range(drawn.height)]
    assert max(len(row) for row in rows) <= size[0]


def test_moving_goes_by_ranks_and_a_click_finds_rank_and_slot():
    chart = strips(digest_of(lambda rank, number: 0.85))
    assert chart.moved(0, 3) == 3
    assert chart.moved(0, -3) == 0
    assert chart.moved(15, 99) == 15
    line, x = chart.spot(4, 2)
    assert chart.under(line, x) == (4, 2)
    assert chart.under(0, x) is None


def test_only_the_chosen_ranks_are_drawn_but_all_are_their_peers():
    digest = digest_of(lambda rank, number: 0.4 if rank == 5 else 0.85)
    chart = strips(digest, chosen=frozenset({5}))
    assert chart.ranks == (5,)
    assert "▼" in text_of(chart.line(3, 5))


def test_2048_ranks_fit_on_a_map_of_200_by_60_and_are_found_again():
    view, gpus = job_with_gpus(JOB, nodes_of(2048))
    digest = Digest(tick((view,), gpus))
    groups = rank_groups(digest, view)
    chart = RankMap(groups, rank_marks(digest, groups, SM), (200, 50))
    assert chart.height <= 50
    assert chart.ranks == tuple(range(2048))
    for rank in (0, 7, 8, 100, 2047):
        assert chart.under(*chart.spot(rank)) == rank
    drawn = chain(*(chart.line(n, 0, has_colour=False) for n in range(1, chart.height)))
    assert sum(glyph.char == "█" for glyph in drawn) == 2048


def test_the_map_moves_by_cells_and_lines():
    view, gpus = job_with_gpus(JOB, nodes_of(64))
    digest = Digest(tick((view,), gpus))
    groups = rank_groups(digest, view)
    chart = RankMap(groups, rank_marks(digest, groups, SM), (30, 20))
    each = len(chart.lines[1].ranks)
    assert each == 8
    assert chart.moved(0, 1, 0) == 1
    assert chart.moved(3, 0, 1) == 11
    assert chart.moved(60, 0, 1) == 60
    assert chart.moved(63, 1, 0) == 63


def test_a_finding_about_one_rank_marks_it_and_one_about_the_job_marks_none():
    view, gpus = job_with_gpus(JOB, {"a": 8})
    findings = (finding(f"job:{JOB}"), finding(f"job:{JOB}/rank:3"))
    digest = Digest(tick((view,), gpus, findings=findings))
    groups = rank_groups(digest, view)
    assert list(finding_signs(digest, groups)) == [3]
    signs = "".join(mark.sign for mark in rank_marks(digest, groups, FIELDS[0]))
    assert signs == "███!████"


def test_without_the_counter_of_sms_the_duty_cycle_is_drawn():
    view, gpus = job_with_gpus(JOB, {"a": 4})
    assert first_field(Digest(tick((view,), gpus)), view).key == "sm"
    bare = [gpu("a", i, {**BUSY, "sm_active_ratio": None}) for i in range(4)]
    assert first_field(Digest(tick((view,), bare)), view).key == "duty"


def test_each_world_of_a_job_is_compared_with_itself_only():
    """Two launches side by side in one job: the second is slower as a whole, one of its ranks more.

    Both number their ranks from 0, and each has its own band above it.
    """
    digest = digest_of(lambda rank, number: 0.85 if rank < 8 else 0.1 if rank == 13 else 0.4)
    view = digest.tick.job(JOB)
    ranks = [
        one if place < 8 else one._replace(world_id="n001:29600", rank=place - 8)
        for place, one in enumerate(view.ranks)
    ]
    ranks = tuple(one._replace(world_size=8) for one in ranks)
    mine = view._replace(ranks=ranks)
    digest = Digest(digest.tick._replace(jobs=(mine,)))
    groups = rank_groups(digest, mine)
    assert [group.title for group in groups] == [
        "world n000:29500 · python · 8 ranks",
        "world n001:29600 · python · 8 ranks",
    ]
    assert [[row.rank.rank for row in group.rows] for group in groups] == [list(range(8))] * 2
    chart = strips(digest, (100, 40))
    lines = [text_of(chart.line(number, cursor=-1)) for number in range(chart.height)]
    assert [number for number, line in enumerate(lines) if "world" in line] == [0, 12]
    assert sum(line.startswith("   p90") for line in lines) == 2
    marked = [line for line in lines if line.count("▼") > 5]
    assert len(marked) == 1
    assert marked[0].split()[:2] == ["5", "n001:5"]
