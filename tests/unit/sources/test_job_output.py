"""The last lines that a job printed, for the user who runs it."""

from __future__ import annotations

import os
import threading

import pytest

from gpumon.sources import job_output
from gpumon.sources.job_output import MOST_BYTES, MOST_LINES, RENEWED_S, JobOutput
from tests.worlds.tick import job

ME = 4242


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def out(tmp_path):
    return tmp_path / "slurm-7.out"


def of(out, **changes):
    return job("7", **{"user_id": ME, "state": "RUNNING", "stdout_path": str(out), **changes})


def read(reader, one):
    reader.tail(one)
    if reader._thread is not None:
        reader._thread.join(60.0)
    return reader.tail(one)


def lines_of(out, data):
    out.write_bytes(data)
    tail = read(JobOutput(ME, Clock()), of(out))
    return None if tail is None else tail.lines


def test_the_last_lines_are_read_without_blanks(out):
    tail = None
    out.write_text("".join(f"step {number} loss 0.{number}\n\n  \n" for number in range(9)))
    tail = read(JobOutput(ME, Clock()), of(out))
    assert tail is not None
    assert tail.name == "slurm-7.out"
    assert tail.lines == tuple(f"step {number} loss 0.{number}" for number in range(5, 9))
    assert len(tail.lines) == MOST_LINES


def test_of_a_bar_of_progress_what_was_drawn_last_counts(out):
    assert lines_of(out, b"epoch 1\n 10%|#   |\r 50%|##  |\r 90%|### |\r") == (
        "epoch 1",
        " 90%|### |",
    )


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[32mINFO\x1b[0m done\n", "INFO done"),
        (b"\x1b]0;owned\x07title\n", "title"),
        (b"a\x1b\x9bb\x07\n", "a\ufffd\ufffdb\ufffd"),
        (b"col\tcol\n", "col col"),
        (b"\xff\xfe broken\n", "\ufffd\ufffd broken"),
    ],
)
def test_what_it_prints_never_reaches_the_terminal_as_more_than_text(out, data, shown):
    (line,) = lines_of(out, data)
    assert line == shown
    assert "\x1b" not in line


def test_only_the_end_of_a_long_file_is_read(out):
    assert lines_of(out, b"x" * 5 * MOST_BYTES + b"\nlast\n") == ("last",)
    (line,) = lines_of(out, b"y" * 5 * MOST_BYTES)
    assert len(line) < 500


def test_the_file_that_was_written_last_is_shown(out, tmp_path):
    err = tmp_path / "slurm-7.err"
    out.write_text("step 1\n")
    err.write_text("Traceback\n")
    os.utime(out, (1000, 1000))
    tail = read(JobOutput(ME, Clock()), of(out, stderr_path=str(err)))
    assert tail.lines == ("Traceback",)
    os.utime(err, (900, 900))
    assert read(JobOutput(ME, Clock()), of(out, stderr_path=str(err))).lines == ("step 1",)


@pytest.mark.parametrize(
    "changes",
    [{"user_id": ME + 1}, {"user_id": None}, {"state": "PENDING"}, {"stdout_path": None},
     {"stdout_path": "slurm-7.out"}],
)  # fmt: skip
def test_of_anybody_elses_job_nothing_is_opened(out, changes, monkeypatch):
    out.write_text("secret\n")
    opened = []
    monkeypatch.setattr(job_output, "_end_of", lambda path: opened.append(path))
    assert read(JobOutput(ME, Clock()), of(out, **changes)) is None
    assert opened == []


def test_a_pipe_a_folder_and_a_file_that_is_not_there_are_no_output(out, tmp_path):
    os.mkfifo(out)
    assert read(JobOutput(ME, Clock()), of(out)) is None
    assert read(JobOutput(ME, Clock()), of(tmp_path)) is None
    assert read(JobOutput(ME, Clock()), of(tmp_path / "none")) is None
    assert read(JobOutput(ME, Clock()), of("/dev/zero")) is None
    assert read(JobOutput(ME, Clock()), of("/a\x00b")) is None


def test_it_is_read_again_after_a_while_and_another_job_shows_nothing_of_the_last(out, tmp_path):
    clock = Clock()
    reader = JobOutput(ME, clock)
    out.write_text("one\n")
    assert read(reader, of(out)).lines == ("one",)
    out.write_text("two\n")
    clock.now += RENEWED_S / 2
    assert read(reader, of(out)).lines == ("one",)
    clock.now += RENEWED_S
    assert read(reader, of(out)).lines == ("two",)
    assert reader.tail(of(tmp_path / "other")) is None


def test_a_file_system_that_hangs_holds_nobody_up(out, monkeypatch):
    may_go = threading.Event()
    calls = []

    def hangs(path):
        calls.append(path)
        may_go.wait(60.0)

    monkeypatch.setattr(job_output, "_end_of", hangs)
    clock = Clock()
    reader = JobOutput(ME, clock)
    for _ in range(5):
        assert reader.tail(of(out)) is None
        clock.now += 10 * RENEWED_S
    assert len(calls) == 1
    may_go.set()
    reader._thread.join(60.0)
