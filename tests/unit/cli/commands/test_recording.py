"""`record`, `replay` and `simulate` as commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpumon.cli import main
from gpumon.cli.commands import record as recording_command
from gpumon.sources.recording.labels import read_labels
from gpumon.sources.recording.source import Recording
from tests.worlds.probe import PATIENCE_S, bounded

SLURM_DATA = Path(__file__).parents[2] / "sources" / "slurm" / "data"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "fleet.gpumon.zst"
    words = ["simulate", str(path), "--seed", "1", "--for", "90", "--nodes", "2x4"]
    assert main(words) == 0
    return path


def test_a_simulated_fleet_is_a_recording_with_labels(recording, tmp_path):
    assert Recording(recording).span.end - Recording(recording).span.start == 90
    assert "healthy" in {label.finding_class for label in read_labels(recording)}
    again = tmp_path / "again.gpumon.zst"
    assert main(["simulate", str(again), "--seed", "1", "--for", "90", "--nodes", "2x4"]) == 0
    assert again.read_bytes() == recording.read_bytes()


@pytest.mark.parametrize("words", [["replay", "FILE", "--json"], ["FILE", "--json"]])
def test_a_recording_answers_as_its_target_did(recording, capsys, words):
    given = [str(recording) if word == "FILE" else word for word in words]
    assert main(given) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["generated_at"] == "2026-01-01T00:01:30.000Z"
    assert len(document["nodes"]) >= 2
    assert document["coverage"]
    assert [target["url"] for target in document["targets"]] == ["demo:2x4?seed=1"]


def jobs_of(capsys):
    return json.loads(capsys.readouterr().out)["jobs"]


@pytest.mark.parametrize("words", [["replay", "--json"], ["--json"]])
def test_a_job_or_a_user_of_a_recording_can_be_named(recording, capsys, words):
    given = [*words, str(recording)]
    assert main(given) == 0
    every = jobs_of(capsys)
    wanted = every[-1]
    assert wanted["speed_of_light"] is None
    assert main([*given, "--job", wanted["job_id"]]) == 0
    (alone,) = jobs_of(capsys)
    assert alone["job_id"] == wanted["job_id"]
    assert alone["speed_of_light"] is not None
    assert main([*given, "--user", wanted["user"]]) == 0
    own = [job["job_id"] for job in every if job["user"] == wanted["user"]]
    assert [job["job_id"] for job in jobs_of(capsys)] == own


@pytest.mark.parametrize("words", [["replay"], ["--once"]])
def test_a_job_of_a_recording_stands_alone_in_a_table(recording, capsys, words):
    assert main(["replay", "--json", str(recording)]) == 0
    first, *others = [job["job_id"] for job in jobs_of(capsys)]
    assert main([*words, str(recording)]) == 0
    assert others[0] in capsys.readouterr().out
    assert main([*words, str(recording), "--job", first]) == 0
    alone = capsys.readouterr().out
    assert first in alone
    assert others[0] not in alone


def test_a_job_of_a_recording_stands_alone_in_a_stream(recording, capsys):
    assert main(["--watch", "30", str(recording)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])["jobs"][-1]["job_id"]
    assert main(["--watch", "30", str(recording), "--job", last]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {job["job_id"] for line in lines for job in json.loads(line)["jobs"]} == {last}


def test_a_job_that_a_recording_lacks_is_said(recording, capsys):
    for words in (["--json"], ["--once"]):
        assert main(["replay", *words, str(recording), "--job", "77000111"]) == 1
        said = capsys.readouterr()
        assert "no job 77000111 in " in said.err
        assert said.out == "" or json.loads(said.out)["jobs"] == []


def test_one_instant_and_a_stream(recording, capsys):
    assert main(["replay", str(recording), "--json", "--at", "+30", "--no-detectors"]) == 0
    assert json.loads(capsys.readouterr().out)["generated_at"] == "2026-01-01T00:00:30.000Z"
    words = ["--watch", "30", "--from", "+20", "--no-detectors"]
    assert main(["replay", str(recording), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    seconds = [json.loads(line)["generated_at"][14:19] for line in lines]
    assert seconds == ["00:20", "00:50", "01:20"]


def test_what_is_no_recording_is_said_in_one_line(tmp_path, capsys, said):
    (tmp_path / "a.gpumon").write_text("hello\n")
    (tmp_path / "c.gpumon").symlink_to(tmp_path / "c.gpumon")
    for name, says in (
        ("a.gpumon", "not a recording"),
        ("b.gpumon", "No such file"),
        ("c.gpumon", "Too many levels of symbolic links"),
    ):
        assert main(["replay", str(tmp_path / name), "--json"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert says in err
        said(err.strip())
        assert err.count("\n") == 1


def test_a_recording_is_watched_alone_and_not_recorded(recording, capsys):
    assert main(["--json", "demo:1x1", str(recording)]) == 2
    assert "beside a recording" in capsys.readouterr().err
    assert main(["record", str(recording) + ".new", str(recording)]) == 2


def test_a_file_that_is_there_is_not_recorded_into(recording, capsys):
    before = recording.read_bytes()
    assert main(["record", str(recording), "demo:1x1"]) == 2
    assert "--append" in capsys.readouterr().err
    assert recording.read_bytes() == before


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)]
)
def test_recording_ends_well_when_it_is_told_to(caller, number, code, said):
    path = caller.home / "live.gpumon"
    words = ["record", str(path), "--period", "0.1", "demo:1x2"]
    started = caller.start(*words, stderr=subprocess.PIPE)
    with started as child, bounded(child, 300.0):
        told = [child.stderr.readline(), child.stderr.readline()]
        child.send_signal(number)
        rest = child.stderr.read()
        child.wait()
    assert told[0] == f"gpumon: recording demo:1x2 into {path}\n"
    assert "1 tick, " in told[1]
    said(rest.splitlines()[-1].replace(str(path), path.name))
    assert child.returncode == code
    assert f"in {path}" in rest
    assert Recording(path).span.end >= Recording(path).span.start


def test_only_one_job_is_recorded_where_only_that_is_asked_for(tmp_path, monkeypatch):
    jobs, nodes = SLURM_DATA / "jobs-22.05.txt", SLURM_DATA / "nodes-22.05.txt"
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        f'#!/bin/sh\ncase "$*" in *job) exec cat {jobs};; *node) exec cat {nodes};; esac\n'
        'echo "No ${7}s in the system"\n'
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = tmp_path / "one.gpumon"
    assert main(["record", "--for", "1", "--job", "13", str(path), "slurm?nodes=none"]) == 0
    lines = map(json.loads, path.read_text().splitlines())
    queues = [line["queue"] for line in lines if line["kind"] == "frame"]
    assert [(list(queue["jobs"]), queue["is_filtered"]) for queue in queues] == [(["13"], True)]


def test_a_full_disk_ends_recording_with_one_line(tmp_path, said):
    path = tmp_path / "live.gpumon"
    # Of bytecode Python 3.11 would keep what fits, and fail over it ever after.
    command = (
        f"ulimit -f 64; exec {sys.executable} -B -m gpumon record {path} --period 0.1 demo:2x8"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "recording ended: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    said(next(line for line in done.stderr.splitlines() if "ended" in line))
    assert Recording(path).span.start > 0


@pytest.mark.parametrize("words", [["/shared/a.gpumon"], ["--rolling"]])
def test_a_file_system_that_hangs_at_the_start_is_one_line(monkeypatch, capsys, words, said):
    held = threading.Event()
    monkeypatch.setattr(recording_command, "OPEN_S", 0.01)
    monkeypatch.setattr(recording_command, "_opened_sink", lambda _request: held.wait(PATIENCE_S))
    assert main(["record", *words, "demo:1x2"]) == 1
    held.set()
    (line,) = capsys.readouterr().err.splitlines()
    place = "/recordings/" if words == ["--rolling"] else "/shared/a.gpumon"
    assert place in line
    assert line.endswith("its file system does not answer; name another")
    said(line)


def test_doctor_says_whether_a_recording_can_be_read(recording, tmp_path, capsys):
    main(["doctor", str(recording)])
    assert "ok      " + str(recording) in capsys.readouterr().out
    (tmp_path / "a.gpumon").write_text("hello\n")
    assert main(["doctor", str(tmp_path / "a.gpumon")]) == 1
    assert "FAULT   " + str(tmp_path) in capsys.readouterr().out
