"""Files for their user alone: whole or not at all, whatever fails and whatever the umask is."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from gpumon.base.own_file import NotOwnError, read_own, write_own, write_whole

OLD = "what was there"
NEW = "new " * 50_000


@pytest.fixture
def _open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_to_all")
def test_file_and_folders_are_their_owners_alone_whatever_the_umask(tmp_path):
    path = tmp_path / "state" / "gpumon" / "notes.json"
    write_own(path, NEW)
    assert path.read_text() == NEW
    assert path.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in path.parents[:2]} == {0o700}


def test_a_link_is_replaced_and_not_followed(tmp_path):
    path, elsewhere = tmp_path / "notes.json", tmp_path / "elsewhere"
    elsewhere.write_text(OLD)
    path.symlink_to(elsewhere)
    write_own(path, NEW)
    assert (elsewhere.read_text(), path.read_text(), path.is_symlink()) == (OLD, NEW, False)


def test_what_is_there_is_left_alone_where_a_file_is_to_be_new(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(OLD)
    with pytest.raises(FileExistsError):
        write_whole(path, NEW, is_new=True)
    assert path.read_text() == OLD
    assert [file.name for file in tmp_path.iterdir()] == ["jobs.csv"]


def full(path):
    """A disk on which only a part has room, in a child, as the limit would be everybody's."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        write_own(path, NEW)
    except OSError as error:
        return error.errno
    return 0


def test_a_disk_that_is_full_half_way_leaves_what_was_there_and_nothing_beside_it(tmp_path):
    path = tmp_path / "notes.json"
    path.write_text(OLD)
    child = os.fork()
    if child == 0:
        os._exit(full(path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 27
    assert path.read_text() == OLD
    assert [file.name for file in tmp_path.iterdir()] == ["notes.json"]


def test_a_rename_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "notes.json"
    path.write_text(OLD)

    def read_only(*_words):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", read_only)
    with pytest.raises(OSError, match="Read-only"):
        write_own(path, NEW)
    assert path.read_text() == OLD
    assert [file.name for file in tmp_path.iterdir()] == ["notes.json"]


def test_a_folder_that_is_a_file_or_gone_is_an_error(tmp_path):
    (tmp_path / "file").write_text(OLD)
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        write_own(tmp_path / "file" / "notes.json", NEW)
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "gone" / "jobs.csv", NEW)


def test_what_nobody_else_may_read_is_read_up_to_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "own"
    file.write_text("secret")
    file.chmod(0o600)
    assert read_own(str(file), 100) == b"secret"
    # One byte more shows that there is more.
    assert read_own(str(file), 3) == b"secr"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_is_open_to_others_is_not_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "own"
    file.write_text("secret")
    file.chmod(mode)
    with pytest.raises(NotOwnError, match="is open to others"):
        read_own(str(file), 100)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(NotOwnError, match="is not a regular file"):
        read_own(str(pipe), 100)
