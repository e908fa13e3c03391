"""Where a user's own files lie, whatever the environment says."""

from __future__ import annotations

import ast
import os
import pwd
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import gpumon
from gpumon.base.paths import (
    cache_folder,
    config_folders,
    make_private,
    runtime_folder,
    state_folder,
)
from gpumon.cli.configured_ledger import folder_of as books_folder
from gpumon.detect.engine.notes_file import own_notes
from gpumon.model.settings import DEFAULTS
from gpumon.sources.recording.folder import own_folder
from gpumon.tui.terminal import write_crash_log

STATE_FILES = {
    "notes": lambda: own_notes().parent,
    "books": lambda: books_folder(DEFAULTS).parent,
    "recordings": lambda: own_folder(["ssh://n7"], socket.gethostname()).parent.parent,
    "crash log": lambda: write_crash_log(ValueError("x")).parent,
}
"""What gpumon keeps for a user, by the folder of gpumon's own that it lies in."""


@pytest.fixture
def listed_home(monkeypatch, tmp_path):
    """The home that the system's list of users names, as the environment names none."""
    home = tmp_path / "listed"
    entry = pwd.struct_passwd(("ada", "x", os.getuid(), 100, "", str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: entry)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def work(monkeypatch, tmp_path):
    """The current folder, which is nobody's state."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("what", STATE_FILES)
@pytest.mark.parametrize("told", ["state", "./s", "../up", "~/state", "", None])
@pytest.mark.parametrize("home", ["named", "unset", "empty", "relative"])
def test_what_is_kept_lies_in_the_users_state(
    what, told, home, listed_home, work, tmp_path, monkeypatch
):
    expected = listed_home
    if told is not None:
        monkeypatch.setenv("XDG_STATE_HOME", told)
    if home == "named":
        expected = tmp_path / "named"
        monkeypatch.setenv("HOME", str(expected))
    elif home != "unset":
        monkeypatch.setenv("HOME", {"empty": "", "relative": "own"}[home])
    assert STATE_FILES[what]() == expected / ".local/state/gpumon"
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("what", STATE_FILES)
def test_an_absolute_state_folder_is_taken_as_it_is(what, listed_home, work, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "b c"))
    assert STATE_FILES[what]() == tmp_path / "b c/gpumon"


def test_a_user_whom_no_list_names_has_the_root_folder_as_home(monkeypatch):
    """As Docker sets HOME for such a user: what cannot be written there is told where it is."""

    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert state_folder({}) == "/.local/state/gpumon"
    assert cache_folder({"HOME": ""}) == "/.cache/gpumon"
    assert config_folders({})[-1] == "/.config/gpumon"


def test_a_list_that_names_no_folder_counts_as_none(monkeypatch):
    entry = pwd.struct_passwd(("ada", "x", os.getuid(), 100, "", "", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: entry)
    assert state_folder({}) == "/.local/state/gpumon"


def test_the_environment_that_is_given_counts_alone(monkeypatch, listed_home):
    monkeypatch.setenv("HOME", "/of/the/process")
    assert state_folder({}) == f"{listed_home}/.local/state/gpumon"
    assert config_folders({"HOME": "/h"}) == ("/etc/xdg/gpumon", "/h/.config/gpumon")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("/a:/b", ["/b/gpumon", "/a/gpumon", "/h/.config/gpumon"]),
        ("/a::rel:./x", ["/a/gpumon", "/h/.config/gpumon"]),
        ("rel", ["/h/.config/gpumon"]),
        ("", ["/etc/xdg/gpumon", "/h/.config/gpumon"]),
    ],
)
def test_the_sites_folders_come_before_the_users_the_first_one_last(told, expected):
    assert list(config_folders({"XDG_CONFIG_DIRS": told, "HOME": "/h"})) == expected


@pytest.mark.parametrize(
    ("told", "expected"), [("/run/user/9", "/run/user/9/gpumon"), ("run", None), ("", None)]
)
def test_there_is_a_folder_of_the_session_only_where_one_is_named(told, expected):
    assert runtime_folder({"XDG_RUNTIME_DIR": told}) == expected
    assert runtime_folder({}) is None


def test_a_rolling_recording_never_lies_below_the_current_folder(tmp_path):
    """The whole command, as a user starts it."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": "state"}
    words = ["record", "--rolling", "--for", "0.2", "demo:1x2"]
    done = subprocess.run(
        [sys.executable, "-m", "gpumon", *words],
        cwd=work, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(work.iterdir()) == []
    assert list((home / ".local/state/gpumon/recordings").iterdir())


def test_nothing_else_reads_the_specifications_variables():
    folder = Path(gpumon.__file__).parent
    found = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and re.fullmatch(r"XDG_[A-Z_]+", str(node.value))
    }
    assert found == {"base/paths.py"}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_folder_that_is_made_is_its_owner_s_alone(tmp_path: Path, mask: int) -> None:
    """Also those between, which mkdir would give to all."""
    folder = tmp_path / "state" / "gpumon" / "ledger"
    before = os.umask(mask)
    try:
        make_private(folder)
        make_private(folder)
    finally:
        os.umask(before)
    made = [folder, *list(folder.parents)[:2]]
    assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700] * 3


def test_where_a_file_stands_in_the_way_no_folder_is_made(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(OSError, match="state"):
        make_private(tmp_path / "state" / "gpumon")
