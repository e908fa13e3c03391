"""Every command answers an ordinary user as it answers root, where it is asked the same."""

from __future__ import annotations

import json
import stat

import pytest

from gpumon.sources.recording.source import Recording
from tests.unit.cli.conftest import BOOKED, Caller


@pytest.fixture
def root(ordinary_caller):
    """Whoever runs the tests, in the same home."""
    return Caller(ordinary_caller.home)


@pytest.fixture
def recording(root):
    path = root.home / "fleet.gpumon"
    done = root.run("simulate", str(path), "--seed", "4", "--for", "50", "--nodes", "3x2")
    assert done.returncode == 0
    path.chmod(0o644)
    return path


def test_a_simulated_fleet_is_the_same(recording, ordinary_caller):
    own = ordinary_caller.home / "own.gpumon"
    words = ["simulate", str(own), "--seed", "4", "--for", "50", "--nodes", "3x2"]
    assert ordinary_caller.run(*words).returncode == 0
    assert own.read_bytes() == recording.read_bytes()
    assert own.stat().st_uid == ordinary_caller.uid


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "FILE", "--json", "--at", "+31"],
        pytest.param(["replay", "FILE", "--once"], marks=pytest.mark.slow),
        pytest.param(["replay", "FILE", "--watch", "20", "--no-detectors"], marks=pytest.mark.slow),
        ["FILE", "--json", "--filter", "gpus>=2"],
    ],
)
def test_what_was_recorded_is_told_alike(words, recording, root, ordinary_caller):
    given = [str(recording) if word == "FILE" else word for word in words]
    answers = [who.run(*given) for who in (root, ordinary_caller)]
    assert answers[0].stdout
    assert answers[1].stdout == answers[0].stdout
    assert [answer.stderr for answer in answers] == ["", ""]


@pytest.mark.parametrize(
    "words",
    [
        ["config", "path"],
        ["config", "print"],
        ["config", "validate"],
        ["detectors", "list"],
        ["report", "--json"],
        ["report", "--by", "class"],
        ["--version"],
        ["--help"],
    ],
)
def test_what_depends_on_no_right_is_told_alike(words, root, ordinary_caller):
    books = root.home / "xdg_state_home/gpumon/ledger"
    books.mkdir(parents=True)
    (books / "2026-01-01.ndjson").write_bytes(BOOKED.line())
    answers = [who.run(*words) for who in (root, ordinary_caller)]
    told = [(answer.returncode, answer.stdout, answer.stderr) for answer in answers]
    assert told[0][:1] == (0,)
    assert told[1] == told[0]


def test_doctor_looks_at_the_same_and_says_what_is_hidden(root, ordinary_caller):
    answers = [who.run("doctor", "--json", "demo:1x1") for who in (root, ordinary_caller)]
    checks = [json.loads(answer.stdout)["checks"] for answer in answers]
    assert [one["what"] for one in checks[1]] == [one["what"] for one in checks[0]]
    states = {one["what"]: one["state"] for one in checks[1]}
    assert states["ranks"] == "less"
    assert states["demo:1x1"] == "ok"
    assert answers[1].stderr == ""


@pytest.mark.parametrize("words", [["--json", "--for", "0"], ["--once", "--for", "0"]])
def test_one_look_at_the_demo_shows_everyone_the_same_jobs(words, root, ordinary_caller):
    answers = [who.run(*words, "demo:2x4") for who in (root, ordinary_caller)]
    if "--json" in words:
        told = [{job["job_id"] for job in json.loads(a.stdout)["jobs"]} for a in answers]
    else:
        told = [{line.split()[0] for line in a.stdout.splitlines() if line} for a in answers]
    assert len(told[0]) > 3
    assert told[1] == told[0]


def test_a_recording_of_ones_own_is_closed_to_others(ordinary_caller):
    path = ordinary_caller.home / "live.gpumon"
    done = ordinary_caller.run("record", "--for", "1", "--period", "0.2", str(path), "demo:1x2")
    assert done.returncode == 0
    assert Recording(path).span.end > Recording(path).span.start
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_configuration_of_ones_own_is_begun_and_read(ordinary_caller):
    done = ordinary_caller.run("config", "init")
    path = f"{ordinary_caller.home}/xdg_config_home/gpumon/config.toml"
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    assert f"{path}\n" in ordinary_caller.run("config", "path").stdout


def test_whoever_has_no_name_on_this_machine_is_answered_too(ordinary_caller):
    nameless = ordinary_caller._replace(uid=424_242)
    done = nameless.run("--json", "--for", "0", "demo:1x2")
    assert (done.returncode, done.stderr) == (0, "")
    assert nameless.run("--json", "--for", "0", "slurm?nodes=none").stderr.count("\n") == 1
