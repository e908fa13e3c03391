"""Runs that have ended are told one by one, also when nothing can correct them any more."""

from __future__ import annotations

import pytest

from gpumon.fleet.ledger import journal_reader, runs
from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.ledger import Ledger
from tests.unit.fleet.ledger_world import START, claim, run, view
from tests.worlds.probe import PATIENCE_S

LATER = START + 600 + 3 * runs.CORRECTED_S


def test_a_run_is_told_by_itself_long_after_it_ended():
    """Ten minutes of two GPUs, of which one was never used; asked for three hours later."""
    ledger, job = Ledger(), view("7", ["a", "b"])
    unused = claim("partial_gpus_idle", "job:7", START, START + 600, gpus=("b",), share=1)
    run(ledger, START, START + 599, [job], ("a", "b"))
    run(ledger, START + 600, START + 600, [job], ("a", "b"), findings=(unused,))
    totals = run(ledger, START + 601, LATER, [], ("a", "b"), step=60.0)
    assert totals.job("7") is None
    told = totals.run("7", START, START + 600)
    assert told is not None
    assert told.waste_s == 600
    assert told.useful_s == 600
    assert totals.total().waste_s == told.waste_s
    assert totals.run("8", START, START + 600) is None


def test_runs_of_one_number_are_told_apart():
    """Requeued: two minutes on one GPU, then five on two."""
    ledger = Ledger()
    first, again = START + 120, START + 180
    run(ledger, START, first, [view("7", ["a"])])
    run(ledger, first + 1, again - 1, [])
    run(ledger, again, again + 300, [view("7", ["a", "b"], start_at=again)], ("a", "b"))
    totals = run(ledger, again + 301, LATER, [], ("a", "b"), step=60.0)
    early, late = totals.run("7", START, first), totals.run("7", again, again + 300)
    assert early is not None
    assert late is not None
    assert (early.allocated_s, late.allocated_s) == (120, 600)
    both = totals.run("7", None, None)
    assert both is not None
    assert both.allocated_s == 720


def test_of_too_many_ended_runs_the_first_are_told_no_more(monkeypatch):
    monkeypatch.setattr(runs, "MOST_CLOSED", 2)
    ledger = Ledger()
    for number in range(3):
        at = START + 100 * number
        run(ledger, at, at + 60, [view(str(number), ["a"], start_at=at)])
        run(ledger, at + 61, at + 99, [])
    totals = run(ledger, START + 300, LATER, [], step=60.0)
    told = [totals.run(str(number), None, None) is not None for number in range(3)]
    assert told == [False, True, True]
    assert totals.total().allocated_s == 180


def kept_by(folder, jobs, until):
    """What a process booked that has ended since."""
    ledger = Ledger(journal=JournalFile(folder))
    unused = claim("partial_gpus_idle", "job:7", START, until, gpus=("b",), share=1)
    run(ledger, START, until, jobs, ("a", "b"))
    run(ledger, until + 1, until + 1, jobs, ("a", "b"), findings=(unused,))
    ledger.close()


def test_a_run_that_an_earlier_process_booked_is_told_by_itself(tmp_path):
    kept_by(tmp_path, [view("7", ["a", "b"])], START + 499)
    ledger = Ledger(journal=JournalFile(tmp_path))
    totals = run(ledger, START + 9000, START + 9002, [])
    told = totals.run("7", START, START + 500)
    assert told is not None
    assert told.waste_s == pytest.approx(499, abs=1.5)
    assert told.useful_s == pytest.approx(501, abs=1.5)
    assert totals.total().allocated_s == 0
    assert totals.job("7") is None
    ledger.close()


def test_a_run_that_goes_on_over_a_restart_is_told_as_a_whole(tmp_path):
    job = view("7", ["a", "b"])
    kept_by(tmp_path, [job], START + 499)
    ledger = Ledger(journal=JournalFile(tmp_path))
    totals = run(ledger, START + 800, START + 900, [job], ("a", "b"))
    told = totals.run("7", START, START + 900)
    assert told is not None
    assert told.allocated_s == pytest.approx(1800, abs=1.0)
    assert told.unobserved_s == pytest.approx(600, abs=4.0)
    ledger.close()


def test_of_too_many_kept_runs_the_newest_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_reader, "MOST_RUNS", 2)
    for day, number in (("2026-01-01", 1), ("2026-01-02", 2), ("2026-01-03", 3)):
        ledger = Ledger(journal=JournalFile(tmp_path / day))
        run(ledger, START, START + 60, [view(str(number), ["a"])])
        ledger.close()
        (page,) = journal_reader.Pages(tmp_path / day).files()
        page.rename(tmp_path / f"{day}.ndjson")
    told = journal_reader.Pages(tmp_path).resumed().accounts
    assert [account.job_id for account in told] == ["2", "3"]


def test_runs_are_told_by_the_books_that_another_process_writes(tmp_path):
    """Its own time with a run that goes on is not told twice."""
    job = view("7", ["a", "b"])
    journal = JournalFile(tmp_path)
    writer = Ledger(journal=journal)
    run(writer, START, START + 700, [view("6", ["a"])])
    run(writer, START + 701, START + 5000, [job], ("a", "b"), step=50.0)
    # It is written on a thread, and read here only once.
    assert journal.settle(PATIENCE_S)
    reader = Ledger(journal=JournalFile(tmp_path))
    totals = run(reader, START + 5001, START + 5100, [job], ("a", "b"))
    whole = totals.run("7", START, START + 5100)
    assert whole is not None
    assert whole.allocated_s == pytest.approx(2 * 5100, abs=2.0)
    told = totals.run("6", START, START + 701)
    assert told is not None
    assert told.useful_s == pytest.approx(701, abs=2.0)
    assert "another gpumon writes" in totals.note
    reader.close()
    writer.close()
