"""Command lines: one's own at once, others' when asked for, of that very process alone."""

from __future__ import annotations

import os
import threading

import pytest

from gpumon.sources.here import redacting
from gpumon.sources.here.command_lines import MOST_BYTES, MOST_LINES, RENEWED_S, CommandLines
from tests.worlds.probe import PATIENCE_S

START_S = 12.5
HZ = os.sysconf("SC_CLK_TCK")


class Folder:
    """A folder of processes, and who reads it."""

    def __init__(self, path):
        self.path = path
        self.now = 0.0
        self.news = threading.Semaphore(0)
        self.lines = CommandLines(self.news.release, str(path), os.geteuid(), lambda: self.now)

    def put(self, pid, words=b"python\0train.py\0", start_s=START_S):
        folder = self.path / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cmdline").write_bytes(words)
        rest = ["S", "1", *["0"] * 17, str(round(start_s * HZ)), "0", "100"]
        (folder / "stat").write_text(f"{pid} (python) {' '.join(rest)}")

    def read(self, pid=7, start_s=START_S):
        """What is known once it was read."""
        if (known := self.lines.line(pid, start_s)) is not None:
            return known
        assert self.news.acquire(timeout=PATIENCE_S)
        return self.lines.line(pid, start_s)

    def rest(self):
        """Until nothing is being read."""
        for thread in threading.enumerate():
            if thread.name == "gpumon-command-lines":
                thread.join(PATIENCE_S)

    def until(self, wanted, pid=7):
        """Looked at until this is known."""
        while self.lines.line(pid, START_S) != wanted:
            assert self.news.acquire(timeout=PATIENCE_S)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_nothing_is_read_before_somebody_asks_and_what_was_read_stays(folder):
    folder.put(7)
    assert folder.lines.line(7, START_S) is None
    assert folder.read() == "python train.py"
    assert folder.lines.line(7, START_S) == "python train.py"


def test_the_program_s_folder_is_left_out(folder):
    folder.put(7, b"/opt/conda/envs/train/bin/python\0/data/x.py\0")
    assert folder.read() == "python /data/x.py"


def test_secrets_are_out_already(folder):
    folder.put(7, b"python\0--token\0h5nter2\0")
    assert folder.read() == "python --token ***"
    assert "h5nter2" not in repr(vars(folder.lines))


def test_a_number_that_is_another_process_s_by_now_shows_nothing(folder):
    folder.put(7, start_s=START_S + 1)
    assert folder.read() is None


@pytest.mark.parametrize("words", [b"", b"\0\0", None])
def test_a_process_without_a_command_line_or_that_is_gone_shows_nothing(folder, words):
    if words is not None:
        folder.put(7, words)
    assert folder.read() is None


def test_other_users_come_only_when_asked_for(tmp_path):
    folder = Folder(tmp_path)
    folder.lines = CommandLines(
        folder.news.release, str(tmp_path), os.geteuid() + 1, lambda: folder.now
    )
    folder.put(7)
    assert folder.read() is None
    folder.lines.show_others(True)
    assert folder.read() == "python train.py"
    folder.lines.show_others(False)
    assert folder.read() is None


def test_a_line_is_read_again_while_it_is_looked_at(folder):
    folder.put(7)
    assert folder.read() == "python train.py"
    folder.put(7, b"vllm: worker\0")
    assert folder.lines.line(7, START_S) == "python train.py"
    folder.now = RENEWED_S
    folder.until("vllm: worker")


def test_secrets_are_looked_for_only_in_what_has_changed(folder, monkeypatch):
    searched = []

    def redacted(words):
        searched.append(words)
        return " ".join(words)

    monkeypatch.setattr(redacting, "redacted", redacted)
    folder.put(7)
    assert folder.read() == "python train.py"
    for reading in (1, 2):
        folder.now = reading * RENEWED_S
        folder.lines.line(7, START_S)
        folder.rest()
    assert searched == [["python", "train.py"]]
    folder.put(7, b"vllm: worker\0")
    folder.now = 3 * RENEWED_S
    folder.until("vllm: worker")
    assert searched[1:] == [["vllm: worker"]]


def test_of_a_long_line_the_beginning_is_read(folder):
    folder.put(7, b"x" * (2 * MOST_BYTES))
    assert len(folder.read()) == MOST_BYTES


def test_no_more_lines_are_remembered_than_fit_on_some_screens(folder):
    for pid in range(1, MOST_LINES + 2):
        folder.put(pid)
        folder.lines.line(pid, START_S)
    folder.until("python train.py", MOST_LINES + 1)
    assert len(folder.lines._read) <= MOST_LINES
