"""Size and age of what jobs write, from real files."""

from __future__ import annotations

import os
import threading

import pytest

from gpumon.probe.kernel import outputs
from gpumon.probe.kernel.outputs import Outputs, written
from gpumon.probe.rows import Row

NOW = 1_767_225_600.0


def give(root, pid, number, path):
    folder = root / str(pid) / "fd"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(number)).symlink_to(path)


def log(path, size, age_s):
    path.write_bytes(bytes(size))
    os.utime(path, (NOW - age_s, NOW - age_s))
    return path


@pytest.fixture
def row_of_job(tmp_path, monkeypatch):
    """The row of a job whose processes have been asked about."""
    monkeypatch.setattr(outputs, "PATIENCE_S", 60.0)

    def row_of(*pids):
        asked = Outputs(str(tmp_path), lambda: NOW)
        asked.ask({"7": list(pids)})
        row = Row("7", 1.0)
        asked.add_to(row)
        return row

    return row_of


def test_one_file_of_many_processes_counts_once_and_the_newest_write_counts(row_of_job, tmp_path):
    out, err = log(tmp_path / "out", 100, 40), log(tmp_path / "err", 5, 300)
    for pid in (10, 11):
        give(tmp_path, pid, 1, out)
        give(tmp_path, pid, 2, err)
    assert row_of_job(10, 11).values == {"job_output_bytes": 105, "job_output_age_s": 40.0}


def test_a_clock_that_is_behind_the_servers_gives_no_negative_age(row_of_job, tmp_path):
    give(tmp_path, 10, 1, log(tmp_path / "out", 1, -5))
    assert row_of_job(10).values["job_output_age_s"] == 0.0


def test_pipes_and_devices_are_no_output_that_could_be_measured(row_of_job, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    give(tmp_path, 10, 1, tmp_path / "pipe")
    give(tmp_path, 10, 2, "/dev/null")
    row = row_of_job(10)
    assert (row.values, set(row.missing.values())) == ({}, {"not_supported"})


def test_processes_of_others_give_the_reason(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "denied", path)

    monkeypatch.setattr(outputs.os, "stat", refused)
    assert written(str(tmp_path), [10]).reason == "no_permission"


def test_what_roots_slurmstepd_hides_says_nothing_of_ones_own_processes(tmp_path, monkeypatch):
    seen = outputs.os.stat

    def refused(path):
        if "/9/" in path:
            raise PermissionError(13, "denied", path)
        return seen(path)

    give(tmp_path, 10, 1, "/dev/null")
    monkeypatch.setattr(outputs.os, "stat", refused)
    assert written(str(tmp_path), [9, 10]).reason == "not_supported"


def test_a_server_that_is_gone_holds_up_nobody(tmp_path, monkeypatch):
    answer, asked = threading.Event(), threading.Event()

    def hangs(_root, _pids):
        asked.set()
        answer.wait()
        return outputs.Written(3, NOW, "")

    monkeypatch.setattr(outputs, "PATIENCE_S", 0.0)
    monkeypatch.setattr(outputs, "written", hangs)
    one = Outputs(str(tmp_path), lambda: NOW)
    for _ in range(3):
        one.ask({"7": [10]})
        row = Row("7", 1.0)
        one.add_to(row)
        assert row.missing == dict.fromkeys(outputs.EVERY, "not_sampled")
    assert asked.wait(60)
    answer.set()
    assert one._done.wait(60)
    row = Row("7", 1.0)
    one.add_to(row)
    assert row.values["job_output_bytes"] == 3


def test_of_many_processes_the_first_are_asked(row_of_job, tmp_path):
    """The batch script has the lowest number."""
    count = outputs.MAX_PROCESSES + 4
    for pid in range(10, 10 + count):
        give(tmp_path, pid, 1, log(tmp_path / f"out{pid}", 1, 40))
    assert (
        row_of_job(*reversed(range(10, 10 + count))).values["job_output_bytes"]
        == outputs.MAX_PROCESSES
    )
