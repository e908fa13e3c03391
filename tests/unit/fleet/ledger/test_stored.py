"""The books on disk, of a span beside the span before it."""

from __future__ import annotations

import random

import pytest

from gpumon.fleet.ledger import stored
from gpumon.fleet.ledger.journal_reader import Entry, Pages, page_name
from gpumon.fleet.ledger.stored import WEEK_S, StoredLedger, compared
from gpumon.model.records.ledger import NO_PRICES

NOW = 1_790_000_000.0
DAY_S = 86400.0


def entry(start, end, user="ada", **seconds):
    return Entry(
        start, end, "7", start, user, "ml", "h100", "gpu01", "NVIDIA H100 80GB HBM3", ("a",),
        seconds, 3.0 * abs(end - start), abs(end - start), min(start, end),
    )  # fmt: skip


def write(folder, *entries):
    for one in entries:
        with (folder / page_name(max(one.start, one.end))).open("ab") as page:
            page.write(one.line())


def user_of(one):
    return one.user


def test_each_entry_counts_on_its_side_of_the_boundary(tmp_path):
    boundary = NOW - WEEK_S
    write(
        tmp_path,
        entry(boundary - 3 * WEEK_S, boundary - 2 * WEEK_S, hang=1000.0),
        entry(boundary - 5 * DAY_S, boundary - 5 * DAY_S + 3600, useful=3600.0),
        entry(boundary - 3600, boundary + 7200, "bob", useful=7200.0, hang=3600.0),
        entry(NOW - 3600, NOW, useful=3600.0),
    )
    found = compared(Pages(tmp_path), boundary, WEEK_S, user_of, NO_PRICES)
    assert found.newest.whole.useful_s == pytest.approx(3600 + 7200 * 2 / 3)
    assert found.newest.whole.wasted_s["hang"] == pytest.approx(2400)
    assert found.before.whole.useful_s == pytest.approx(3600 + 7200 / 3)
    assert found.before.whole.wasted_s["hang"] == pytest.approx(1200)
    assert found.before.by_name["bob"].allocated_s == pytest.approx(3600)


@pytest.mark.parametrize("seed", range(20))
def test_what_lies_before_and_after_an_instant_is_all_of_it(seed):
    dice = random.Random(seed)
    start = NOW + dice.uniform(-DAY_S, DAY_S)
    end = start + dice.choice([0.0, 1.0, -1.0]) * dice.uniform(1.0, DAY_S)
    one = entry(start, end, useful=dice.uniform(0, 9e4), hang=-dice.uniform(0, 9e4))
    at = dice.choice([start, end, NOW, (start + end) / 2])
    parts = [part for part in (one.until(at), one.since(at)) if part is not None]
    for key, seconds in one.seconds.items():
        assert sum(part.seconds[key] for part in parts) == pytest.approx(seconds)
    assert sum(part.energy_j for part in parts) == pytest.approx(one.energy_j)
    length_s = sum(abs(part.end - part.start) for part in parts)
    assert length_s == pytest.approx(abs(end - start), abs=1e-3)


def test_pages_of_days_that_are_over_by_then_are_not_opened(tmp_path):
    write(tmp_path, entry(NOW - 9 * DAY_S, NOW - 9 * DAY_S + 60, useful=60.0))
    (old,) = Pages(tmp_path).files()
    old.unlink()
    old.mkdir()
    write(tmp_path, entry(NOW - 60, NOW, useful=60.0))
    assert [one.end for one in Pages(tmp_path).entries(NOW - 8 * DAY_S)] == [NOW]
    with pytest.raises(OSError, match="is not a regular file"):
        list(Pages(tmp_path).entries(NOW - 10 * DAY_S))


def read(books, now=NOW):
    books.ask(now)
    books._thread.join(60.0)
    return books


def test_two_weeks_are_read_when_somebody_asks(tmp_path):
    write(tmp_path, entry(NOW - 10 * DAY_S, NOW - 10 * DAY_S + 60, useful=60.0))
    write(tmp_path, entry(NOW - 60, NOW, "bob", hang=60.0))
    books = StoredLedger(tmp_path, NO_PRICES)
    assert books.weeks is None
    weeks = read(books).weeks
    assert weeks is not None
    assert list(weeks.newest.by_name) == ["bob"]
    assert list(weeks.before.by_name) == ["ada"]
    assert weeks.newest.whole.wasted_s == {"hang": pytest.approx(60.0)}
    assert books.trouble == ""


def test_what_was_read_lately_is_not_read_again(tmp_path):
    write(tmp_path, entry(NOW - 60, NOW, useful=60.0))
    books = read(StoredLedger(tmp_path, NO_PRICES))
    before = books.weeks
    assert read(books, NOW + stored.RENEWED_S - 1).weeks is before
    assert read(books, NOW + stored.RENEWED_S + 1).weeks is not before


def test_what_stands_in_the_way_is_one_line(tmp_path):
    assert "no ledger in" in read(StoredLedger(tmp_path, NO_PRICES)).trouble
    (tmp_path / page_name(NOW)).mkdir()
    assert str(tmp_path) in read(StoredLedger(tmp_path, NO_PRICES)).trouble


def test_books_that_come_later_take_the_trouble_away(tmp_path):
    books = read(StoredLedger(tmp_path, NO_PRICES))
    assert books.trouble
    write(tmp_path, entry(NOW - 60, NOW, useful=60.0))
    assert read(books, NOW + 2 * stored.RENEWED_S).trouble == ""
    assert books.weeks is not None
