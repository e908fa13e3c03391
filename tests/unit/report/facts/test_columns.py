"""Columns share a width, and cells are exact and harmless."""

from __future__ import annotations

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.fault import SourceError
from gpumon.model.finding import Confidence, Coverage, Severity
from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Node, Rank
from gpumon.model.records.ledger import Account, LedgerTotals
from gpumon.report.facts.columns import Column, arranged, place, shown_first, usual
from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.all_processes import ALL_PROCESS_COLUMNS
from gpumon.report.pages.node_sections import node_sections
from gpumon.report.tables.field import FIELD_COLUMNS, FieldRow, bars, round_up, scale, value_cell
from gpumon.report.tables.finding import FINDING_COLUMNS
from gpumon.report.tables.gpu import (
    FLEET_COLUMNS,
    NODE_GPU_COLUMNS,
    RANK_COLUMNS,
    fleet_why,
    rank_why,
)
from gpumon.report.tables.host import FILESYSTEM_COLUMNS, JOB_USE_COLUMNS, PORT_COLUMNS
from gpumon.report.tables.job import JOB_COLUMNS, default_order
from gpumon.report.tables.link import LINK_COLUMNS, SLICE_COLUMNS
from gpumon.report.tables.process import PROCESS_COLUMNS
from gpumon.report.text.cells import Cell, Tone
from gpumon.report.wording.gpu_cells import activity_cell, pcie_cell, throttle_cell
from gpumon.report.wording.verdict_words import verdict_cell
from tests.worlds.tick import AT, BUSY, finding, fleet, gpu, job, job_with_gpus, process, tick
from tools.pages import view_columns

TABLES = {
    "jobs": JOB_COLUMNS,
    "ranks": RANK_COLUMNS,
    "fleet": FLEET_COLUMNS,
    "fields": FIELD_COLUMNS,
    "links": LINK_COLUMNS,
    "slices": SLICE_COLUMNS,
    "processes": PROCESS_COLUMNS,
    "all processes": ALL_PROCESS_COLUMNS,
    "node's GPUs": NODE_GPU_COLUMNS,
    "ports": PORT_COLUMNS,
    "file systems": FILESYSTEM_COLUMNS,
    "jobs of a node": JOB_USE_COLUMNS,
}


EVERY_TABLE = {
    **{name: columns for name, columns in {**TABLES, **view_columns()}.items() if name != "jobs"},
    "findings": FINDING_COLUMNS,
}

MOST_AT_FIRST = 8
"""Columns that are read; among more one is looked for."""


@pytest.mark.parametrize("name", EVERY_TABLE)
def test_no_table_begins_with_more_columns_than_are_read(name):
    columns = EVERY_TABLE[name]
    assert len(usual(columns)) <= MOST_AT_FIRST
    assert len({each.key for each in columns}) == len(columns)


def test_the_columns_that_come_first_are_shown_and_the_others_say_how_to_see_them():
    many = [column(key, 4, 0) for key in "abcd"]
    many[3] = many[3]._replace(is_hidden=True, doc="Its own words.")
    made = shown_first(("c", "a"), many)
    assert [each.key for each in made] == ["c", "b", "d", "a"]
    assert [each.key for each in usual(made)] == ["c", "a"]
    assert made[1].doc == "A column; shown where chosen with c."
    assert made[2].doc == "Its own words."


def column(key, width, priority, max_width=0):
    return Column(
        key, key, width, "left", priority, lambda _d, r: Cell(str(r)), None, "A column.", max_width
    )


def shown(tick_, columns, row):
    digest = Digest(tick_)
    return {c.key: c.cell(digest, row).text for c in columns}


def job_row(tick_, job_id):
    return shown(tick_, JOB_COLUMNS, tick_.job(job_id))


# Placing


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", [79, 119, 199, 400])
def test_tables_fit_their_width_and_never_overlap(name, width):
    placed = place(TABLES[name], width)
    end = -1
    for item in placed:
        assert item.x > end
        end = item.x + item.width
    assert end <= width


@pytest.mark.parametrize("name", TABLES)
def test_a_wide_table_shows_every_column(name):
    assert len(place(TABLES[name], 400)) == len(TABLES[name])


@pytest.mark.parametrize("columns", {**TABLES, **EVERY_TABLE}.values())
def test_every_column_explains_itself_and_holds_its_title(columns):
    for item in columns:
        assert item.doc.endswith(".")
        assert len(item.title) <= max(item.width, item.max_width)
    assert len({item.key for item in columns}) == len(columns)


def test_jobs_drop_the_next_step_and_then_the_trend_and_never_job_loss_and_sentence():
    keys = [[p.column.key for p in place(usual(JOB_COLUMNS), width)] for width in (118, 100, 79)]
    assert keys[1] == [key for key in keys[0] if key != "next"]
    assert keys[2] == [key for key in keys[1] if key != "trend"]
    assert keys[2] == ["losing_gpus", "job_id", "name", "user", "gpus", "verdict"]


def test_the_least_important_column_goes_first_and_the_important_ones_never():
    columns = (column("a", 5, 0), column("b", 5, 9), column("c", 5, 2))
    assert [p.column.key for p in place(columns, 17)] == ["a", "b", "c"]
    assert [p.column.key for p in place(columns, 16)] == ["a", "c"]
    assert [p.column.key for p in place(columns, 3)] == ["a"]


def test_spare_cells_go_round():
    columns = (column("a", 5, 0, 8), column("b", 5, 0), column("c", 5, 0, 7))
    assert [p.width for p in place(columns, 20)] == [7, 5, 6]
    assert [p.width for p in place(columns, 99)] == [8, 5, 7]


def test_where_none_may_go_words_give_way_and_numbers_are_whole():
    words, number = column("a", 20, 0), column("c", 7, 0)._replace(align="right")
    columns = (words._replace(align="left"), words._replace(key="b", width=12), number)
    assert [p.width for p in place(columns, 41)] == [20, 12, 7]
    assert [p.width for p in place(columns, 37)] == [16, 12, 7]
    assert [p.width for p in place(columns, 30)] == [10, 11, 7]
    assert [p.width for p in place(columns, 5)] == [8, 8, 7]


def test_rows_without_a_key_come_last_both_ways():
    rows = [("a", None), ("b", 2.0), ("c", 1.0)]

    def order(row):
        return None if row[1] is None else (row[1],)

    assert [r[0] for r in arranged(rows, order)] == ["c", "b", "a"]
    assert [r[0] for r in arranged(rows, order, is_descending=True)] == ["b", "c", "a"]


# Jobs


def test_means_are_over_known_values_only():
    view, gpus = job_with_gpus("1", {"n": 2})
    gpus[1] = gpu("n", 1, {**BUSY, "sm_active_ratio": None, "power_w": 100.0})
    row = job_row(tick((view,), gpus), "1")
    assert row["sm_active_ratio"] == "84"
    assert row["power_w"] == "356/700"


def test_without_sm_counters_the_duty_cycle_stands_in_and_says_so():
    view, _ = job_with_gpus("1", {"n": 1})
    old = gpu("n", 0, {**BUSY, "sm_active_ratio": None, "gpu_util_ratio": 1.0})
    assert job_row(tick((view,), [old]), "1")["sm_active_ratio"] == "≤100"
    assert activity_cell(old) == Cell("≤100", Tone.DIM)
    assert activity_cell(gpu("n", 0, {"index": 0})).text == "–"


def test_missing_is_never_zero():
    view, _ = job_with_gpus("1", {"n": 2})
    row = job_row(tick((view,), []), "1")
    for key in ("sm_active_ratio", "tensor_active_ratio", "power_w", "mem_used_bytes"):
        assert row[key] == "–"
    assert row["verdict"] == "– unknown"


def test_stale_values_are_not_shown():
    view, gpus = job_with_gpus("1", {"n": 2}, stale_s=12.0)
    row = job_row(tick((view,), gpus), "1")
    assert row["sm_active_ratio"] == "–"
    assert row["verdict"] == "stale 12s"


def test_partly_known_gpus_are_counted():
    view, gpus = job_with_gpus("1", {"n": 4})
    assert job_row(tick((view,), gpus[:3]), "1")["gpus"] == "3/4"


MUTED = Coverage("m", 0, 0, (), "muted", "raised KeyError")
WATCHED = "watching 41s (1 of 3)"


@pytest.mark.parametrize(
    ("coverage", "words"),
    [
        ((Coverage("d", 1, 0, (), "ok"),), "– no finding"),
        ((Coverage("d", 0, 3, ("sm_active_ratio",), "ok"),), "– unknown"),
        ((Coverage("d", 0, 0, (), "waiting"),), "watching 41s (0 of 1)"),
        ((Coverage("d", 0, 0, (), "muted"),), "– unknown"),
        ((Coverage("d", 1, 0, (), "ok"), MUTED), "– no finding (1 of 2)"),
        ((Coverage("d", 1, 0, (), "ok"), Coverage("e", 0, 0, (), "waiting"), MUTED), WATCHED),
        ((Coverage("d", 1, 0, (), "ok", "", 41.0),), "– no finding"),
        ((Coverage("d", 1, 0, (), "ok"), Coverage("e", 9, 0, (), "ok", "", 60.0), MUTED), WATCHED),
        ((), "watching 41s"),
    ],
)
def test_no_finding_is_only_said_where_all_detectors_have_judged(coverage, words):
    view, gpus = job_with_gpus("1", {"n": 1})
    made = tick((view,), gpus, coverage=coverage)
    started = view._replace(job=view.job._replace(start_at=made.at - 41.0))
    made = made._replace(jobs=(started,), observed_since=made.at - 7000.0)
    assert verdict_cell(Digest(made), started).text == words
    watched = made._replace(observed_since=made.at - 41.0)
    older = started._replace(job=view.job._replace(start_at=made.at - 7000.0))
    assert verdict_cell(Digest(watched), older).text == words


@pytest.mark.parametrize(("state", "lost"), [("ok", "0"), ("waiting", "–"), (None, "–")])
def test_what_no_detector_has_looked_for_is_not_called_nothing(state, lost):
    view, gpus = job_with_gpus("1", {"n": 1})
    account = Account("1", "ada", "ml", "gpu", "H100", AT - 60, AT - 60, {"useful": 60.0})
    made = tick((view,), gpus, ledger=LedgerTotals(AT, AT - 60, (account,), (account,)))
    coverage = () if state is None else (Coverage("d", 1, 0, (), state),)
    assert job_row(made._replace(coverage=coverage), "1")["losing_gpus"] == lost


@pytest.mark.parametrize(
    ("changes", "words", "tone"),
    [
        ({}, "!◐ 3 of 8 GPUs", Tone.WARN),
        ({"confidence": Confidence.HYPOTHESIS}, "!○ 3 of 8 GPUs", Tone.WARN),
        ({"severity": Severity.CRITICAL}, "‼◐ 3 of 8 GPUs", Tone.BAD),
        ({"confidence": Confidence.ESTABLISHED}, "!● 3 of 8 GPUs", Tone.WARN),
        ({"severity": Severity.INFO}, "i◐ 3 of 8 GPUs", Tone.INFO),
    ],
)
def test_a_verdict_says_its_severity_and_doubt_in_signs(changes, words, tone):
    view, gpus = job_with_gpus("1", {"n": 1})
    digest = Digest(tick((view,), gpus, findings=(finding("job:1", **changes),)))
    cell = verdict_cell(digest, view)
    assert (cell.text[: len(words)], cell.tone) == (words, tone)


def test_what_was_found_since_somebody_looked_is_called_new():
    view, gpus = job_with_gpus("1", {"n": 1})
    late = finding("job:1", summary="hangs", first_seen=AT - 30.0)
    given_tick = tick((view,), gpus, findings=(late,))
    for since, words in ((None, "!◐ hangs"), (AT - 31.0, "!◐ new: hangs"), (AT - 29.0, "!◐ hangs")):
        digest = Digest(given_tick, news_since=since)
        assert verdict_cell(digest, view).text == words
        shown = next(one for one in FINDING_COLUMNS if one.key == "class").cell(digest, late).text
        assert ("new: " in shown) is ("new: " in words)


def test_a_sentence_leaves_out_how_long_was_looked_and_the_jobs_which_are_the_rows():
    view, gpus = job_with_gpus("1", {"n": 1})
    summary = (
        "gpu002 GPU 4 (job 48, 49): NVLink resends since 14:03 (42 min observed), no speed lost"
    )
    digest = Digest(tick((view,), gpus, findings=(finding("job:1", summary=summary),)))
    shown = "!◐ gpu002 GPU 4: NVLink resends since 14:03, no speed lost"
    assert verdict_cell(digest, view).text == shown


def test_the_finding_that_explains_those_of_ranks_and_gpus_is_the_verdict():
    view, gpus = job_with_gpus("1", {"n": 2})
    digest = Digest(
        tick(
            (view,),
            gpus,
            findings=(
                finding("job:1", severity=Severity.INFO),
                finding(
                    "job:1/rank:1",
                    severity=Severity.CRITICAL,
                    finding_class="hang",
                    summary="hangs since 9",
                ),
                finding(f"gpu:{gpus[0].uuid}", finding_class="throttled"),
                finding("job:2", severity=Severity.CRITICAL),
                finding("node:n", severity=Severity.CRITICAL),
            ),
        )
    )
    assert verdict_cell(digest, view).text == "‼◐ hangs since 9"
    classes = [f.finding_class for f in digest.findings_by_job["1"]]
    assert classes == ["hang", "throttled", "partial_gpus_idle"]


def test_a_graver_consequence_does_not_hide_its_cause():
    view, gpus = job_with_gpus("1", {"n": 1})
    cause = finding("job:1", finding_class="idle_held", summary="idle")
    effect = finding("job:1", finding_class="throttled", severity=Severity.CRITICAL)
    digest = Digest(tick((view,), gpus, findings=(effect, cause)))
    assert verdict_cell(digest, view).text == "!◐ idle"


def test_jobs_that_need_a_look_come_first():
    given_tick = fleet(
        findings=(
            finding("job:4711"),
            finding("job:4690", severity=Severity.CRITICAL, confidence=Confidence.HYPOTHESIS),
        )
    )
    digest = Digest(given_tick)
    ordered = arranged(given_tick.jobs, lambda view: default_order(digest, view))
    assert [view.job.job_id for view in ordered] == ["4711", "4690", "4702", "4720_3", "4730"]


def test_a_job_that_waits_shows_how_long_and_why():
    view, _ = job_with_gpus("1", {})
    pending = job("1", state="PENDING", reason="Priority", start_at=None, submit_at=AT - 3600)
    waiting = tick((view._replace(job=pending),))
    row = job_row(waiting, "1")
    assert (row["age"], row["state"], row["verdict"]) == ("60m", "PD", "waits: Priority")


# Ranks and GPUs


def test_every_gpu_of_a_job_is_a_row_with_or_without_process():
    view, gpus = job_with_gpus("1", {"n": 4}, idle=1)
    digest = Digest(tick((view,), gpus[:3]))
    rows = digest.rank_rows(view)
    assert len(rows) == 4
    assert [rank_why(digest, row).text for row in rows] == [
        "power cap",
        "power cap",
        "power cap",
        "no telemetry",
    ]
    digest = Digest(tick((view,), gpus))
    assert rank_why(digest, digest.rank_rows(view)[3]).text == "no process"
    assert len({row.key for row in rows}) == 4


def test_a_rank_without_gpu_and_a_rank_without_number_say_so():
    view, gpus = job_with_gpus("1", {"n": 1})
    nowhere = Rank("0", None, None, None, None, "n", 77, (), "not readable", None)
    hidden = view.ranks[0]._replace(rank=None, why="its environment is not readable")
    view = view._replace(ranks=(hidden, nowhere))
    calm = gpu("n", 0, {**BUSY, "clock_event_reasons": 0}, gpus[0].processes)
    digest = Digest(tick((view,), [calm]))
    assert [rank_why(digest, row).text for row in digest.rank_rows(view)] == [
        "rank: its environment is not readable",
        "rank: not readable",
    ]
    loose = view._replace(ranks=(nowhere._replace(why=None),))
    digest = Digest(tick((loose,), [calm]))
    assert rank_why(digest, digest.rank_rows(loose)[0]).text == "on no GPU"


def test_a_finding_about_a_rank_stands_at_that_rank():
    view, gpus = job_with_gpus("1", {"n": 2})
    digest = Digest(tick((view,), gpus, findings=(finding("job:1/rank:1"),)))
    texts = [rank_why(digest, row).text for row in digest.rank_rows(view)]
    assert texts == ["power cap", "! some GPUs unused"]


def test_fewer_lanes_are_a_warning_a_lower_generation_is_not():
    assert pcie_cell(gpu("n", 0)) == Cell("5x16", Tone.PLAIN)
    assert pcie_cell(gpu("n", 0, {**BUSY, "pcie_width": 8.0})) == Cell("5x8!", Tone.WARN)
    assert pcie_cell(gpu("n", 0, {**BUSY, "pcie_gen": 1.0})) == Cell("1x16", Tone.PLAIN)
    assert pcie_cell(gpu("n", 0, {**BUSY, "pcie_width_max": None})) == Cell("5x16", Tone.PLAIN)


@pytest.mark.parametrize(
    ("mask", "cell"),
    [
        (0x0, None),
        (0x1, None),
        (0x4, Cell("power cap", Tone.DIM)),
        (0x40, Cell("hw thermal", Tone.WARN)),
        (0x44, Cell("power cap, hw thermal", Tone.WARN)),
        (0x1000, Cell("0x1000", Tone.WARN)),
    ],
)
def test_what_holds_the_clock_down(mask, cell):
    assert throttle_cell(gpu("n", 0, {**BUSY, "clock_event_reasons": mask})) == cell


@pytest.mark.parametrize(
    ("kind", "job_id", "words"),
    [
        ("C", "1", ""),
        ("C", None, ""),
        ("C+G", None, ""),
        ("G", "1", ""),
        ("G", None, "no compute process"),
        ("G", "2", "no compute process"),
    ],
)
def test_what_a_job_draws_itself_is_its_work_and_what_others_draw_is_not(kind, job_id, words):
    view, gpus = job_with_gpus("1", {"n": 1}, idle=1)
    (board,) = gpus
    drawing = process("n", 0, 77, job_id, None)._replace(types={board.uuid: kind})
    digest = Digest(tick((view,), [board._replace(processes=(drawing,))]))
    assert fleet_why(digest, digest.gpu_rows[0]).text == words


def test_an_idle_gpu_that_a_job_holds_stands_out_in_the_fleet():
    view, gpus = job_with_gpus("1", {"n": 1}, idle=1)
    digest = Digest(tick((view,), gpus))
    assert fleet_why(digest, digest.gpu_rows[0]).text == "no process"
    digest = Digest(tick((), gpus))
    assert fleet_why(digest, digest.gpu_rows[0]).text == ""


@pytest.mark.parametrize(
    ("state", "errors", "cell"),
    [
        (None, (), Cell("no telemetry yet", Tone.DIM)),
        ("idle", (), Cell("no telemetry yet", Tone.DIM)),
        ("down+not_responding", (), Cell("down+not_responding in Slurm", Tone.BAD)),
        ("idle+drain", (), Cell("idle+drain in Slurm", Tone.BAD)),
        ("idle", (SourceError("n", "refused"),), Cell("refused", Tone.BAD)),
    ],
)
def test_a_node_without_gpus_says_why(state, errors, cell):
    node = Node("n", (), None, False, state, errors)
    digest = Digest(tick((), [], nodes={"n": node}))
    assert fleet_why(digest, digest.gpu_rows[0]) == cell


@pytest.mark.parametrize(
    ("awaited", "text"),
    [("nvmlInit for 3 s", "waits for nvmlInit for 3 s"), (None, "shows no GPU")],
)
def test_a_node_whose_driver_is_being_opened_says_so_in_place_of_its_gpus(awaited, text):
    block = Block(("n",), {}, {"awaited_call": (awaited,)}, {})
    node = Node("n", (), AT, False, None, (), block=block, blocks={"node": block})
    digest = Digest(tick((), [], nodes={"n": node}))
    assert fleet_why(digest, digest.gpu_rows[0]) == Cell(text, Tone.DIM)
    (section,) = [part for part in node_sections(digest, node, 80) if part.title == "GPUs"]
    assert section.note == f"the node {text.replace('shows no GPU', 'shows none')}"
    assert section.note_tone is Tone.DIM


# Fields


def test_bars_have_fixed_bounds_and_blanks_for_the_unknown():
    nan = float("nan")
    times, values = [0.0, 1.0, 2.0, 3.0], [0.0, 0.5, nan, 1.0]
    assert bars(times, values, (0.0, 4.0), (0.0, 1.0), 4) == "▁▅ █"
    assert bars(times, values, (-4.0, 4.0), (0.0, 1.0), 4) == "  ▃█"
    assert bars([], [], (0.0, 4.0), (0.0, 1.0), 3) == "   "
    assert bars([1.0], [9.0], (0.0, 2.0), (0.0, 1.0), 2) == " █"


def test_scales_do_not_jump():
    board = gpu("n", 0)

    def bounds(key, largest):
        return scale(board, CATALOGUE[key], largest)

    assert bounds("sm_active_ratio", 0.2) == (0.0, 1.0)
    assert bounds("power_w", 3.0) == (0.0, 700.0)
    assert bounds("nvlink_tx_bytes_per_s", 151e9) == (0.0, 200e9)
    assert bounds("nvlink_tx_bytes_per_s", 199e9) == (0.0, 200e9)
    assert bounds("clock_event_reasons", 1.0) is None
    assert [round_up(v) for v in (0.0, 0.3, 1.0, 3.0, 7.0, 51.0)] == [1, 1, 1, 5, 10, 100]


def test_codes_and_bits_are_words():
    board = gpu("n", 0, {**BUSY, "recovery_action": 1, "mig_mode": 0, "perf_state": 2.0})

    def now(key):
        return value_cell(Digest(tick()), FieldRow(board, CATALOGUE[key], key)).text

    assert now("recovery_action") == "reset the GPU"
    assert now("mig_mode") == "off"
    assert now("perf_state") == "P2"
    assert now("clock_event_reasons") == "software power cap"
    assert now("encoder_util_ratio") == "–"
