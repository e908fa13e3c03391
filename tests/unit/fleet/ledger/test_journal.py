from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpumon.fleet.ledger import journal_reader
from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.journal_reader import Pages
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records.ledger import UNOBSERVED, USEFUL
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view
from tests.worlds.probe import bounded

ROOT = Path(__file__).resolve().parents[3]

WAIT_S = 60.0
"""Longest that a disk that answers is waited for."""


def run(ledger, first, last, jobs, uuids=("a",), step=1.0, findings=(), **values):
    at = first
    while at <= last:
        ledger.take(tick(at, jobs, [gpu(uuid, at, **values) for uuid in uuids], findings))
        at += step
    return ledger.summary()


def sums(folder, since=None):
    found = {}
    for entry in Pages(folder).entries(since):
        for key, amount in entry.seconds.items():
            found[key] = found.get(key, 0.0) + amount
    return {key: amount for key, amount in found.items() if abs(amount) > 1e-5}


def entries(folder):
    return list(Pages(folder).entries())


def in_memory(totals):
    total = totals.total()
    found = {USEFUL: total.useful_s, UNOBSERVED: total.unobserved_s, **total.wasted_s}
    return {key: amount for key, amount in found.items() if amount > 1e-5}


def test_what_is_read_back_is_what_was_booked(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    jobs = [view("1", ["a", "b"]), view("2", ["c"], START - 50)]
    run(ledger, START, START + 700, jobs, "abc", energy_j=5)
    found = claim("idle_tail", "job:1", START + 100, START + 700, gpus=["a"], share=1)
    totals = run(ledger, START + 701, START + 900, jobs, "abc", findings=(found,))
    ledger.close()
    assert sums(tmp_path) == pytest.approx(in_memory(totals))
    assert sums(tmp_path)["idle_tail"] == pytest.approx(600)


def test_every_line_balances_in_itself_and_corrections_are_further_lines(tmp_path):
    journal = JournalFile(tmp_path)
    ledger = Ledger(journal=journal)
    job = view("1", ["a", "b"])
    run(ledger, START, START + 700, [job], "ab")
    assert journal.settle(WAIT_S)
    (path,) = (p for p in tmp_path.iterdir() if p.suffix == ".ndjson")
    before = path.read_bytes()
    found = claim("hang", "job:1", START, START + 700)
    run(ledger, START + 701, START + 800, [job], "ab", findings=(found,))
    ledger.close()
    assert before
    assert path.read_bytes().startswith(before)
    lines = entries(tmp_path)
    for entry in lines:
        allocated = (entry.end - entry.start) * len(entry.gpus)
        assert sum(entry.seconds.values()) == pytest.approx(allocated, abs=1e-4)
    assert any(entry.seconds.get(USEFUL, 0) < 0 for entry in lines)


def test_a_kill_loses_what_was_booked_since_the_last_write_and_nothing_twice(tmp_path):
    job = view("1", ["a"])
    journal = JournalFile(tmp_path)
    run(Ledger(journal=journal), START, START + 650, [job])
    journal.close()
    again = Ledger(journal=JournalFile(tmp_path))
    run(again, START + 1000, START + 1100, [job])
    again.close()
    found = sums(tmp_path)
    assert sum(found.values()) == pytest.approx(1100)
    assert found[USEFUL] == pytest.approx(600 + 100)
    assert found[UNOBSERVED] == pytest.approx(400)


def test_a_torn_last_line_is_skipped_and_the_next_one_begins_anew(tmp_path):
    job = view("1", ["a"])
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 650, [job])
    ledger.close()
    (path,) = (p for p in tmp_path.iterdir() if p.suffix == ".ndjson")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    again = Ledger(journal=JournalFile(tmp_path))
    run(again, START + 700, START + 800, [job])
    again.close()
    pages = Pages(tmp_path)
    total = sum(sum(entry.seconds.values()) for entry in pages.entries())
    assert pages.skipped == 1
    assert total == pytest.approx(800)


def test_lines_that_are_no_entries_are_skipped(tmp_path):
    lines = [
        "[]", "3", "{}", "nonsense", '{"start": 1e999}', "[" * 5000,
        '{"start":true,"end":1,"job":1}',
        '{"observed_since":null,"start":1' + "0" * 400 + "}",
    ]  # fmt: skip
    (tmp_path / "2026-01-01.ndjson").write_text("\n".join(lines) + "\n")
    pages = Pages(tmp_path)
    assert list(pages.entries()) == []
    assert pages.skipped == len(lines)
    assert pages.resumed().until("1", 0.0, "a") is None


def test_one_process_writes_and_the_other_says_that_it_does_not(tmp_path, said):
    first, second = JournalFile(tmp_path), JournalFile(tmp_path)
    assert (first.kept_in, first.note) == (str(tmp_path), "")
    assert second.kept_in is None
    assert "another gpumon writes" in second.note
    said(second.note)
    ledger = Ledger(journal=second)
    totals = run(ledger, START, START + 700, [view("1", ["a"])])
    ledger.close()
    assert entries(tmp_path) == []
    assert totals.note == second.note
    first.close()
    assert JournalFile(tmp_path).kept_in == str(tmp_path)


def test_files_are_the_users_own(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path / "deep" / "ledger"))
    run(ledger, START, START + 10, [view("1", ["a"])])
    ledger.close()
    folder = tmp_path / "deep" / "ledger"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_folder_that_cannot_be_made_is_said(tmp_path, said):
    (tmp_path / "file").write_text("")
    journal = JournalFile(tmp_path / "file" / "ledger")
    assert journal.kept_in is None
    assert "cannot be stored" in journal.note
    said(journal.note)


def test_a_full_disk_is_said_and_made_up_for_without_doubling(tmp_path, monkeypatch, said):
    job = view("1", ["a"])
    journal = JournalFile(tmp_path)
    ledger = Ledger(journal=journal)
    run(ledger, START, START + 310, [job])
    assert journal.settle(WAIT_S)
    real, calls = os.write, []

    def half(file, data):
        calls.append(len(data))
        if len(calls) == 1:
            return real(file, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    run(ledger, START + 311, START + 610, [job])
    assert journal.settle(WAIT_S)
    assert "No space left on device" in ledger.summary().note
    said(ledger.summary().note)
    monkeypatch.setattr(os, "write", real)
    run(ledger, START + 611, START + 1000, [job])
    assert journal.settle(WAIT_S)
    totals = ledger.summary()
    ledger.close()
    assert totals.note == ""
    assert sums(tmp_path) == pytest.approx(in_memory(totals))


def test_gpus_that_are_named_later_move_to_their_name_on_disk_too(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 400, [view("1", [], unknown=1)], "")
    totals = run(ledger, START + 401, START + 500, [view("1", ["a"])])
    ledger.close()
    by_gpu = {}
    for entry in entries(tmp_path):
        by_gpu[entry.gpu] = by_gpu.get(entry.gpu, 0) + sum(entry.seconds.values())
    assert by_gpu[""] == pytest.approx(0)
    assert by_gpu["NVIDIA H100 80GB HBM3"] == pytest.approx(500)
    assert totals.by("gpu")["NVIDIA H100 80GB HBM3"].allocated_s == pytest.approx(500)


def test_an_end_that_slurm_names_late_takes_time_back(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 400, [view("1", ["a"])])
    over = view("1", ["a"], state="COMPLETED", end_at=START + 200)
    totals = run(ledger, START + 401, START + 700, [over])
    ledger.close()
    assert sums(tmp_path) == pytest.approx({USEFUL: 200})
    assert in_memory(totals) == pytest.approx({USEFUL: 200})


def test_only_what_is_asked_for_is_read(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 900, [view("1", ["a"])])
    ledger.close()
    assert sum(sums(tmp_path, START + 450).values()) == pytest.approx(450)
    assert sums(tmp_path, START + 5000) == {}


def test_energy_and_the_time_it_was_measured_over_are_kept(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    job = view("1", ["a"])
    for at in range(601):
        ledger.take(tick(START + at, [job], [gpu("a", START + at, energy_j=100 * at)]))
    ledger.close()
    found = entries(tmp_path)
    assert sum(entry.energy_j for entry in found) == pytest.approx(60_000)
    assert sum(entry.energy_s for entry in found) == pytest.approx(600)


def test_names_from_outside_stand_in_the_file_as_data(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 10, [view("1", ["a"], user='a"\n\x1b[31m')])
    ledger.close()
    (path,) = (p for p in Path(tmp_path).iterdir() if p.suffix == ".ndjson")
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[1])["user"] == 'a"\n\x1b[31m'
    assert "\x1b" not in lines[1]


def test_the_next_job_on_a_gpu_after_a_kill_begins_where_the_books_of_the_one_before_end(tmp_path):
    journal = JournalFile(tmp_path)
    run(Ledger(journal=journal), START, START + 310, [view("1", ["a"])])
    journal.close()
    again = Ledger(journal=JournalFile(tmp_path))
    run(again, START + 320, START + 400, [view("2", ["a"], START + 290)])
    again.close()
    assert sum(sums(tmp_path).values()) == pytest.approx(400)


def test_a_process_that_is_killed_while_it_writes_leaves_books_that_balance(tmp_path):
    script = (
        "import sys, itertools; from pathlib import Path\n"
        "import gpumon.fleet.ledger.ledger as l; l.WRITE_S = 1.0\n"
        "from gpumon.fleet.ledger.journal import JournalFile\n"
        "from tests.unit.fleet.ledger_world import START, gpu, tick, view\n"
        "journal = JournalFile(Path(sys.argv[1]))\n"
        "books = l.Ledger(journal=journal)\n"
        "begin = float(sys.argv[2])\n"
        "jobs = [view(str(n), [f'{n}-{i}' for i in range(8)]) for n in range(20)]\n"
        "uuids = [u for job in jobs for u in job.gpu_uuids]\n"
        "for second in itertools.count():\n"
        "    at = begin + second\n"
        "    books.take(tick(at, jobs, [gpu(u, at) for u in uuids]))\n"
        "    journal.settle(20)\n"
        "    print(at, flush=True)\n"
    )
    begin = START
    for lines in (3, 11, 26):
        command = [sys.executable, "-c", script, str(tmp_path), str(begin)]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        with started as child, bounded(child, 300.0):
            assert child.stdout is not None
            for _ in range(lines):
                begin = float(child.stdout.readline())
        begin += 100
    reached = {}
    for entry in Pages(tmp_path).entries():
        assert sum(entry.seconds.values()) == pytest.approx((entry.end - entry.start) * 8, abs=1e-3)
        for uuid in entry.gpus:
            assert entry.start == reached.get(uuid, START)
            reached[uuid] = entry.end
    assert len(reached) == 160
    assert min(reached.values()) >= begin - 100 - 2


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_for_an_entry_is_skipped_and_counted_once(
    tmp_path, monkeypatch, end
):
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 650, [view("7", ["a"])])
    ledger.close()
    found = entries(tmp_path)
    (page,) = Pages(tmp_path).files()
    longest = max(map(len, page.read_bytes().splitlines(keepends=True)))
    monkeypatch.setattr(journal_reader, "MAX_LINE_BYTES", longest + 1)
    page.write_bytes(page.read_bytes() + b"7" * (5 * longest) + end)
    pages = Pages(tmp_path)
    assert list(pages.entries()) == found
    assert pages.skipped == 1


def test_where_to_go_on_is_read_of_the_newest_pages(tmp_path, monkeypatch):
    for day, number in (("2026-01-01", 1), ("2026-01-02", 2), ("2026-01-03", 3)):
        ledger = Ledger(journal=JournalFile(tmp_path / day))
        run(ledger, START, START + 650, [view(str(number), ["a"])])
        ledger.close()
        (page,) = Pages(tmp_path / day).files()
        page.rename(tmp_path / f"{day}.ndjson")
    size = (tmp_path / "2026-01-03.ndjson").stat().st_size

    def resumed(most):
        monkeypatch.setattr(journal_reader, "MOST_RESUMED_BYTES", most)
        found = Pages(tmp_path).resumed()._ends
        return sorted(job for job, _ in found)

    assert resumed(10 * size) == ["1", "2", "3"]
    assert resumed(2 * size + 4) == ["2", "3"]
    assert resumed(4) == ["3"]


def test_what_stands_in_the_books_is_harmless(tmp_path):
    ledger = Ledger(journal=JournalFile(tmp_path))
    run(ledger, START, START + 70, [view("1", ["a"])])
    ledger.close()
    (page,) = Pages(tmp_path).files()
    lines = page.read_text().splitlines()
    told = {**json.loads(lines[-1]), "user": "a\x1b[2J", "gpu": "H\u202e100", "node": "n\x9b"}
    told["gpu_seconds"] = {"idle\x07": 3.0}
    page.write_text(json.dumps(told) + "\n")
    (entry,) = entries(tmp_path)
    assert (entry.user, entry.gpu, entry.node) == ("a\ufffd[2J", "H\ufffd100", "n\ufffd")
    assert entry.seconds == {"idle\ufffd": 3.0}
