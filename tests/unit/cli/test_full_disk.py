"""A disk without room under everything that gpumon writes: one line each, and nothing half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tui.test_terminal import SCENE, Session
from tests.unit.cli.test_output import plain_environment

ROOM = """
disk=$0
mount -t tmpfs -o size=64k none "$disk" || exit 77
mkdir -m 700 "$disk/state" "$disk/state/gpumon" "$disk/cache" "$disk/run"
echo "of a crash before" >"$disk/state/gpumon/crash.log"
cat /dev/zero >"$disk/filler" 2>/dev/null
cd "$disk" && find . -type f -size +0 | sort >"$LISTS.before"
"$@"
code=$?
find . -type f -size +0 | sort >"$LISTS.after"
exit $code
"""
"""Everything of the user's own lies on a disk that has no byte left; what is there is listed."""

NAME_ANOTHER = "name a place with room"
COMMANDS = {
    "simulate": (["simulate", "a.gpumon", "--for", "30", "--seed", "3"], NAME_ANOTHER),
    "record": (
        ["record", "a.gpumon", "demo:1x2", "--for", "1"],
        NAME_ANOTHER,
    ),
    "record --rolling": (
        ["record", "--rolling", "demo:1x2", "--for", "1"],
        NAME_ANOTHER,
    ),
    "record --keep": (
        ["record", "a", "demo:1x2", "--keep", "1h", "--for", "1"],
        NAME_ANOTHER,
    ),
    "config init": (["config", "init"], "GPUMON_CONFIG names another place"),
}

SCONTROL = """#!/bin/sh
case "$*" in
    *job) exec cat {jobs};;
    *node) exec cat {nodes};;
esac
echo "No ${{7}}s in the system"
"""
SLURM_DATA = Path(__file__).parents[1] / "sources" / "slurm" / "data"


class FullDisk:
    """A disk that has no byte left, for one program."""

    def __init__(self, folder):
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.lists = folder / "files"

    def argv(self, *words):
        """The program as its own mount namespace starts it."""
        return ["/usr/bin/unshare", "-m", "/bin/sh", "-c", ROOM, str(self.disk), *words]

    def own(self):
        """Where the program finds its folders: all of them there."""
        folders = {"STATE_HOME": "state", "CACHE_HOME": "cache", "RUNTIME_DIR": "run"}
        own = {f"XDG_{name}": str(self.disk / folder) for name, folder in folders.items()}
        own.update(HOME=str(self.disk), LISTS=str(self.lists), GPUMON_CONFIG="/dev/null")
        return {**own, "PYTHONPATH": str(Path(__file__).parents[3])}

    def run(self, *words, **more):
        """The program's end."""
        return subprocess.run(
            self.argv(*words), capture_output=True, text=True, timeout=300, check=False,
            env=plain_environment(**{**self.own(), "PATH": "/usr/bin:/bin", **more}),
        )  # fmt: skip

    def session(self, state, *words):
        """The program on a terminal."""
        own = [f"{name}={value}" for name, value in self.own().items()]
        return Session("", state, words=["/usr/bin/env", *own, *self.argv(*words)])

    @property
    def changed(self):
        """Files with something in them that came or went while the program ran."""
        before, after = (
            set(self.lists.with_suffix(end).read_text().split()) for end in (".before", ".after")
        )
        return before ^ after


@pytest.fixture
def full_disk(tmp_path):
    if os.getuid() != 0:
        pytest.skip("only root mounts a small disk")
    trial = FullDisk(tmp_path)
    if trial.run("/bin/true").returncode == 77:
        pytest.skip("root may mount nothing here")
    return trial


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_it_in_one_line_and_leaves_nothing(full_disk, name, said):
    words, way_out = COMMANDS[name]
    own = {"GPUMON_CONFIG": str(full_disk.disk / "config.toml")} if name == "config init" else {}
    done = full_disk.run(sys.executable, "-m", "gpumon", *words, **own)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = (text for text in done.stderr.splitlines() if "No space left on device" in text)
    assert way_out in line
    assert "Traceback" not in done.stderr
    assert full_disk.changed == set()
    said(line)


def test_answers_that_cannot_be_shared_are_had_all_the_same(full_disk, tmp_path):
    """Each gpumon of the user then asks Slurm for itself."""
    scontrol = tmp_path / "scontrol"
    jobs, nodes = SLURM_DATA / "jobs-22.05.txt", SLURM_DATA / "nodes-22.05.txt"
    scontrol.write_text(SCONTROL.format(jobs=jobs, nodes=nodes))
    scontrol.chmod(0o755)
    words = ["--json", "--all", "--for", "0", "slurm?nodes=none"]
    own = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GPUMON_SHARE": "yes"}
    done = full_disk.run(sys.executable, "-m", "gpumon", *words, **own)
    document = json.loads(done.stdout)
    assert document["jobs"]
    assert "Traceback" not in done.stderr
    assert full_disk.changed == set()


def test_a_crash_is_told_where_its_log_has_no_room(full_disk, tmp_path, said):
    session = full_disk.session(tmp_path, sys.executable, str(SCENE), "crash")
    assert session.end() == 1
    session.assert_restored()
    told = session.last_words.strip()
    assert "the log could not be written: [Errno 28] No space left on device" in told
    assert full_disk.changed == set()
    said(told)


def test_choices_that_find_no_room_are_told_at_the_end(full_disk, tmp_path, said):
    session = full_disk.session(tmp_path, sys.executable, "-m", "gpumon", "demo:1x2", "--past", "0")
    session.read_until(b"watching")
    os.write(session.master, b"s?")
    session.read_until(b"Down one line")
    os.write(session.master, b"qq")
    assert session.end() == 0
    session.assert_restored()
    told = session.last_words.strip()
    assert "your choices were not saved: " in told
    assert (
        f"{full_disk.disk}/state/gpumon/terminal.json cannot be written: No space left on" in told
    )
    assert full_disk.changed == set()
    said(told)
