"""`gpumon patterns`: what it reads, and what it says."""

from __future__ import annotations

import json

import pytest

from gpumon.cli import main


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A short one; nobody needs its labels."""
    path = tmp_path_factory.mktemp("patterns") / "a.gpumon"
    words = ["--seed", "5", "--for", "40m", "--period", "30", "--nodes", "3x4"]
    assert main(["simulate", str(path), *words]) == 0
    path.with_name(path.name + ".labels.json").unlink()
    return str(path)


def test_it_tells_what_is_unexplained_and_of_how_much(recording, capsys):
    assert main(["patterns", recording]) == 0
    assert "are unexplained; " in capsys.readouterr().out
    assert main(["patterns", recording, recording, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == "gpumon-patterns/1"
    assert 0.0 <= made["unexplained_gpu_seconds"] < made["allocated_gpu_seconds"]
    # Twelve GPUs at most, for less than forty minutes, twice.
    assert made["allocated_gpu_seconds"] <= 2 * 12 * 2400.0


@pytest.mark.parametrize("name", ["missing.gpumon", "empty.gpumon", "garbage.gpumon"])
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, capsys, name):
    path = tmp_path / name
    if not name.startswith("missing"):
        path.write_bytes(b"" if name.startswith("empty") else b"\x00\x01 no recording\n" * 9)
    assert main(["patterns", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert str(path) in told.err
    assert len(told.err.splitlines()) <= 2
