"""A disk that hangs, is full or too slow: the books go on, and say what is not kept."""

from __future__ import annotations

import os
import threading
import time

import pytest

from gpumon.base.writing_thread import SLOW_S
from gpumon.fleet.ledger import writer
from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.journal_reader import Pages
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.ledger.writer import LOCK_NAME, PageWriter, page_name
from tests.unit.fleet.ledger_world import START, gpu, tick, view

WAIT_S = 60.0
"""Longest that a disk that answers is waited for."""


@pytest.fixture
def hung(monkeypatch):
    """A disk on which every write waits until the event is set; and what tells that one does."""
    real, goes_on, waits = os.write, threading.Event(), threading.Event()

    def write(file, data):
        waits.set()
        goes_on.wait(WAIT_S)
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    yield goes_on, waits
    goes_on.set()


def run(ledger, first, last, jobs, step=10.0):
    at = first
    while at <= last:
        ledger.take(tick(at, jobs, [gpu("a", at)], period_s=step))
        at += step
    return ledger.summary()


def on_disk(folder):
    return sum(sum(entry.seconds.values()) for entry in Pages(folder).entries())


def test_a_disk_that_hangs_stops_no_booking_and_gets_all_of_it_later(tmp_path, hung):
    goes_on, waits = hung
    journal = JournalFile(tmp_path)
    ledger = Ledger(journal=journal)
    totals = run(ledger, START, START + 2000, [view("1", ["a"])])
    assert totals.total().allocated_s == 2000
    assert waits.wait(WAIT_S)
    assert on_disk(tmp_path) == 0
    goes_on.set()
    assert journal.settle(WAIT_S)
    ledger.close()
    assert on_disk(tmp_path) == pytest.approx(2000)


def test_a_disk_that_does_not_answer_is_said_and_no_longer_when_it_does(tmp_path, hung, said):
    goes_on, waits = hung
    now = [0.0]
    pages = PageWriter(tmp_path, now=lambda: now[0])
    assert pages.take(START, b"{}\n")
    assert waits.wait(WAIT_S)
    assert pages.note == ""
    now[0] = SLOW_S + 1
    assert pages.note == f"the ledger waits to be written: {tmp_path} does not answer"
    said(pages.note)
    goes_on.set()
    assert pages.settle(WAIT_S)
    assert pages.note == ""
    pages.close(WAIT_S)


def test_while_too_much_waits_nothing_is_taken_and_nothing_is_lost(tmp_path, hung, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_BYTES", 1)
    goes_on, _ = hung
    journal = JournalFile(tmp_path)
    ledger = Ledger(journal=journal)
    run(ledger, START, START + 2000, [view("1", ["a"])])
    goes_on.set()
    assert journal.settle(WAIT_S)
    assert on_disk(tmp_path) == pytest.approx(300)
    assert journal.note == ""
    ledger.close()
    assert on_disk(tmp_path) == pytest.approx(2000)


def test_what_is_forgotten_before_it_could_be_written_is_counted(tmp_path, hung, monkeypatch, said):
    monkeypatch.setattr(writer, "MAX_WAITING_BYTES", 1)
    goes_on, _ = hung
    journal = JournalFile(tmp_path)
    ledger = Ledger(journal=journal)
    run(ledger, START, START + 3900, [view("1", ["a"])])
    totals = run(ledger, START + 3910, START + 9000, [])
    assert journal.lost_s == pytest.approx(3600)
    assert totals.note == f"1.0 GPU-h of ended jobs were not written to {tmp_path}"
    said(totals.note)
    goes_on.set()
    ledger.close()
    assert on_disk(tmp_path) + journal.lost_s == pytest.approx(3900)


def test_a_folder_that_does_not_answer_is_given_up_and_not_locked(tmp_path, monkeypatch, said):
    real, goes_on = Pages.resumed, threading.Event()

    def resumed(self):
        goes_on.wait(WAIT_S)
        return real(self)

    monkeypatch.setattr(Pages, "resumed", resumed)
    journal = JournalFile(tmp_path, open_wait_s=0.0)
    assert journal.kept_in is None
    assert journal.note == f"the ledger is not stored: {tmp_path} does not answer"
    said(journal.note)
    assert run(Ledger(journal=journal), START, START + 700, [view("1", ["a"])]).kept_in is None
    goes_on.set()
    journal.close()
    again = JournalFile(tmp_path)
    assert again.kept_in == str(tmp_path)
    again.close()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_NAME]


def test_a_full_disk_is_tried_again_when_more_comes_and_at_the_end(tmp_path, monkeypatch, said):
    real = os.write

    def full(_file, _data):
        raise OSError(28, "No space left on device")

    pages = PageWriter(tmp_path)
    monkeypatch.setattr(os, "write", full)
    assert pages.take(START, b'{"a":1}\n')
    assert pages.settle(WAIT_S)
    assert "No space left on device" in pages.note
    said(pages.note)
    assert pages.take(START, b'{"a":2}\n')
    assert pages.settle(WAIT_S)
    monkeypatch.setattr(os, "write", real)
    pages.close(WAIT_S)
    (path,) = (path for path in tmp_path.iterdir() if path.suffix == ".ndjson")
    assert path.read_text().splitlines()[1:] == ['{"a":1}', '{"a":2}']


def test_what_the_disk_refuses_at_the_end_is_still_said_afterwards(tmp_path, monkeypatch):
    def full(_file, _data):
        raise OSError(28, "No space left on device")

    ledger = Ledger(journal=JournalFile(tmp_path))
    assert run(ledger, START, START + 100, [view("1", ["a"])]).note == ""
    monkeypatch.setattr(os, "write", full)
    ledger.close()
    said = f"the ledger cannot be written to {tmp_path}: No space left on device"
    assert ledger.summary().note == said


def test_a_page_that_is_a_link_is_said_at_once_by_its_name_and_written_once_it_is_gone(
    tmp_path, said
):
    """Whoever planted it must not have the books written elsewhere, nor lost in silence."""
    elsewhere = tmp_path / "elsewhere"
    folder = tmp_path / "ledger"
    folder.mkdir()
    pages = [folder / page_name(at) for at in (START, time.time(), time.time() + 3600.0)]
    for page in {*pages}:
        page.symlink_to(elsewhere)
    journal = JournalFile(folder)
    # Today's, or tomorrow's where midnight has just passed.
    assert any(str(page) in journal.note for page in pages[1:])
    ledger = Ledger(journal=journal)
    run(ledger, START, START + 900, [view("1", ["a"])])
    assert journal.settle(WAIT_S)
    assert ledger.summary().note == (
        f"the ledger cannot be written to {pages[0]}: it is a link, which is not followed; move it"
    )
    said(ledger.summary().note)
    assert not elsewhere.exists()
    pages[0].unlink()
    ledger.close()
    assert ledger.summary().note == ""
    assert on_disk(folder) == pytest.approx(900)


def test_a_pipe_among_the_pages_keeps_no_reader_waiting(tmp_path):
    os.mkfifo(tmp_path / page_name(START))
    with pytest.raises(OSError, match="is not a regular file"):
        on_disk(tmp_path)
    journal = JournalFile(tmp_path)
    assert journal.kept_in == str(tmp_path)
    journal.close()
