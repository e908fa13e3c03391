"""Who wastes most, on the screen: the ledger in tables and on a job's page."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records.ledger import Prices
from gpumon.report.document.document import document
from gpumon.report.facts.columns import arranged, place
from gpumon.report.facts.groups import groups, partition_rows
from gpumon.report.facts.losses import loss_of
from gpumon.report.facts.tick_index import Digest
from gpumon.report.filter.bind import row_filter
from gpumon.report.headline.lines import headline
from gpumon.report.tables.finding import FINDING_COLUMNS
from gpumon.report.tables.group import PARTITION_COLUMNS, USER_COLUMNS, group_order, group_search
from gpumon.report.tables.job import JOB_COLUMNS, default_order, search_text
from gpumon.report.text.units import gpu_hours
from gpumon.report.wording.ledger_words import job_ledger_lines
from gpumon.report.wording.loss_words import loss_words
from gpumon.report.wording.paragraphs import finding_lines
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view

HOURS = 3600.0


EUROS = Prices({"default": 2.0}, 0.0, "EUR")


def ledger_digest(prices=EUROS):
    """Two hours of three users: ada's GPU hung for one, bob's was never seen, eve's job is over."""
    ledger = Ledger(prices)
    ada, bob = view("1", ["a"], user="ada"), view("2", [], unknown=2, user="bob")
    eve = view("3", ["e"], START - HOURS / 2, user="eve")
    end = START + 2 * HOURS
    found = (claim("hang", "job:1", START, START + HOURS, gpus=["a"], share=1),)
    for at, jobs in ((START, (ada, bob, eve)), (START + HOURS, (ada, bob)), (end, (ada, bob))):
        given_tick = tick(
            at, jobs, [gpu("a", at), gpu("e", at)], found if at == end else (), period_s=HOURS
        )
        ledger.take(given_tick)
    return Digest(given_tick._replace(ledger=ledger.summary()))


def cells(digest, columns, row):
    return {column.title: column.cell(digest, row).text for column in columns}


def text(lines):
    return [" ".join("".join(cell.text for cell in line).split()) for line in lines]


def test_a_jobs_page_says_what_became_of_its_time_and_since_when():
    digest = ledger_digest()
    first, second = text(job_ledger_lines(digest, digest.tick.job("1"), 200))
    assert first.startswith("booked 2.00 GPU-h, 4.00 EUR since ")
    assert "(2h00m ago) useful 1.00 GPU-h, 50 % unexplained 0.00 GPU-h, 0 %" in first
    assert "unobserved 0.00 GPU-h, 0 %" in first
    assert second == "wasted 1.00 GPU-h, 50 %, 2.00 EUR hang 1.00 GPU-h"


def test_a_job_that_was_never_seen_says_so():
    digest = ledger_digest(Prices())
    first, second = text(job_ledger_lines(digest, digest.tick.job("2"), 200))
    assert first.startswith("booked 4.00 GPU-h since ")
    assert first.endswith("unobserved 4.00 GPU-h, 100 % first seen never")
    assert second == "wasted 0.00 GPU-h"


def test_a_job_that_is_in_no_books_has_no_lines():
    digest = ledger_digest()
    assert (
        job_ledger_lines(Digest(digest.tick._replace(ledger=None)), digest.tick.job("1"), 80) == []
    )
    assert job_ledger_lines(digest, view("77", ["x"]), 80) == []


def test_users_are_told_by_what_they_wasted_also_those_whose_jobs_are_over():
    digest = ledger_digest()
    rows = sorted(groups(digest, "user"), key=lambda group: group_order(digest, group))
    assert [group.name for group in rows] == ["ada", "bob", "eve"]
    shown = cells(digest, USER_COLUMNS, rows[0])
    assert [shown[title] for title in ("GPU-H", "LOST", "LOST%", "COST")] == [
        "2.00", "1.00h", "50", "2.00",
    ]  # fmt: skip
    assert cells(digest, USER_COLUMNS, rows[2])["JOBS"] == "0"


def test_without_books_or_prices_nothing_is_made_up():
    digest = ledger_digest(Prices())
    ada = next(group for group in groups(digest, "user") if group.name == "ada")
    assert cells(digest, USER_COLUMNS, ada)["COST"] == "–"
    bare = Digest(digest.tick._replace(ledger=None))
    shown = cells(bare, USER_COLUMNS, groups(bare, "user")[0])
    assert [shown[title] for title in ("GPU-H", "LOST", "LOST%")] == ["–"] * 3
    assert cells(bare, JOB_COLUMNS, bare.tick.job("1"))["LOST"] == "–"


def test_partitions_have_them_too():
    digest = ledger_digest()
    (row,) = partition_rows(digest)
    assert cells(digest, PARTITION_COLUMNS, row)["LOST"] == "1.00h"


def test_jobs_sort_by_what_they_wasted_and_keep_their_order_otherwise():
    digest = ledger_digest()
    (waste,) = [column for column in JOB_COLUMNS if column.title == "LOST"]
    rows = arranged(digest.tick.jobs, lambda row: waste.order(digest, row), waste.is_descending)
    assert [row.job.job_id for row in rows] == ["1", "2"]
    assert cells(digest, JOB_COLUMNS, rows[0])["LOST"] == "1.00h"
    bare = Digest(digest.tick._replace(ledger=None))
    for row in digest.tick.jobs:
        assert default_order(digest, row) == default_order(bare, row)


def test_what_is_lost_now_is_for_every_terminal_and_money_for_who_chose_it():
    shown = [column for column in JOB_COLUMNS if not column.is_hidden]
    for width in (79, 200):
        assert "LOST/H" in {placed.column.title for placed in place(shown, width)}
    assert "COST" in [column.title for column in USER_COLUMNS if column.is_hidden]


@pytest.mark.parametrize(("needle", "left"), [("lost>0.5", ["ada"]), ("lost%>=40", ["ada"])])
def test_filters_count_in_gpu_hours(needle, left):
    digest = ledger_digest()
    passes = row_filter(needle, USER_COLUMNS, group_search)
    assert sorted(group.name for group in groups(digest, "user") if passes(digest, group)) == left


def test_a_filter_finds_the_jobs_that_wasted_much():
    digest = ledger_digest()
    passes = row_filter("waste>=1", JOB_COLUMNS, search_text)
    assert [row.job.job_id for row in digest.tick.jobs if passes(digest, row)] == ["1"]


@pytest.mark.parametrize(
    ("gpu_seconds", "words"),
    [(0.0, "0.00"), (900.0, "0.25"), (35_999.0, "10.0"), (44_640.0, "12.4"), (4.752e6, "1,320")],
)
def test_gpu_hours(gpu_seconds, words):
    assert gpu_hours(gpu_seconds) == words


def guessed():
    """Three hours of a job of two GPUs, of which one is suspected to idle since the first hour."""
    ledger, job = Ledger(EUROS), view("1", ["a", "b"], user="ada")
    for hour in range(4):
        at = START + hour * HOURS
        guess = claim("idle_held", "job:1", START + HOURS, at, gpus=["b"], share=1, sure=False)
        found = (guess,) if hour == 3 else ()
        given_tick = tick(at, [job], [gpu("a", at), gpu("b", at)], found, period_s=HOURS)
        ledger.take(given_tick)
    return Digest(given_tick._replace(ledger=ledger.summary()))


def test_what_is_only_suspected_is_shown_with_its_mark_and_never_as_nothing():
    digest = guessed()
    assert cells(digest, JOB_COLUMNS, digest.tick.job("1"))["LOST"] == "~2.00h"
    ada = groups(digest, "user")[0]
    shown = cells(digest, USER_COLUMNS, ada)
    assert (shown["LOST"], shown["LOST%"], shown["SEEN%"]) == ("~2.00h", "0", "100")
    lines = text(job_ledger_lines(digest, digest.tick.job("1"), 200))
    assert lines[-1] == "suspected ~2.00 GPU-h, 33 %, 4.00 EUR idle, memory held ~2.00 GPU-h"


def test_one_loss_has_one_figure_in_every_view():
    digest = guessed()
    (found,) = digest.tick.findings
    data = document(digest.tick)
    (claimed,) = data["findings"]
    assert claimed["suspected_gpu_seconds"] == 2 * HOURS
    assert claimed["wasted_gpu_seconds"] == 0
    assert data["jobs"][0]["waste"]["suspected"] == {"idle_held": 2 * HOURS}
    assert data["ledger"]["total"]["suspected_gpu_seconds"] == 2 * HOURS
    assert loss_words(loss_of(digest.tick, found)) == "~2.00 GPU-h"
    page = text(finding_lines(digest.tick, found, 200))
    assert "hypothesis, ~2.00 GPU-h lost since " in page[0]
    assert cells(digest, FINDING_COLUMNS, found)["LOST"] == "~2.00h"
    assert text(headline(digest, 150, is_tall=True))[2].endswith(
        ": ~2.00 GPU-h of 6.00 seen: ~idle, memory held 2.00"
    )
