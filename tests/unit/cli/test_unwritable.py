"""Commands whose files cannot be written: one line with the file and the way out, nothing half."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpumon.cli import main

SIMULATE = ["simulate", "FILE", "--for", "30", "--seed", "3"]
COMMANDS = {
    "simulate": (SIMULATE, "name a place with room"),
    "simulate --shift": (["simulate", "FILE", "--shift", "--for", "300"], "name a place with room"),
    "record": (["record", "FILE", "demo:1x2", "--for", "1"], "name a place with room"),
    "record --keep": (["record", "FILE", "demo:1x2", "--keep", "1h"], "name a place with room"),
    "record --rolling": (["record", "--rolling", "demo:1x2"], "name a place with room"),
    "config init": (["config", "init"], "GPUMON_CONFIG names another place"),
}


@pytest.fixture
def blocked(tmp_path, monkeypatch):
    """A file where every one of these commands needs a folder; it holds for root, too."""
    path = tmp_path / "file"
    path.write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    monkeypatch.setenv("GPUMON_CONFIG", "/dev/null")
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_cannot_be_written_is_one_line_with_the_way_out(
    blocked, capsys, monkeypatch, name, said
):
    words, way_out = COMMANDS[name]
    if name == "config init":
        monkeypatch.setenv("GPUMON_CONFIG", str(blocked / "config.toml"))
    assert main([str(blocked / "a.gpumon") if word == "FILE" else word for word in words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert str(blocked) in err
    assert "Not a directory" in err or "File exists" in err
    assert way_out in err
    said(err)
    assert blocked.read_text() == "in the way"


FULL = """
import resource, signal, sys
# Python 3.11 keeps what it could write of a module's bytecode, and fails over it ever after.
sys.dont_write_bytecode = True
from gpumon.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""
"""A disk that is full after so many bytes of a file, for this process alone."""


@pytest.mark.parametrize("room", [100, 20_000])
@pytest.mark.parametrize("name", ["simulate", "simulate --shift"])
def test_a_disk_that_fills_leaves_no_recording_that_ends_early(tmp_path, name, room, said):
    path = tmp_path / "a.gpumon"
    words = [str(path) if word == "FILE" else word for word in COMMANDS[name][0]]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(room), *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"{path} was not written: File too large" in done.stderr
    said(done.stderr)
    assert list(tmp_path.iterdir()) == []
