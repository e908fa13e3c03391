"""Names of users: of the node's own file at once, of a directory that may hang never in the way."""

from __future__ import annotations

import os
import pwd
import threading
from typing import TYPE_CHECKING

import pytest

from gpumon.probe.holders import users
from gpumon.probe.holders.users import RETRY_S, Users, local_names, login_name
from gpumon.probe.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWD = """root:x:0:0:root:/root:/bin/bash
carla:x:3104:300:Carla,,,:/home/carla:/bin/zsh
twin:x:3104:300::/home/carla:/bin/zsh
+nis::::::
broken:x:-7
odd:x:\u00b2:9::/:/bin/sh
endless:x:1234567890123456789012345:9::/:/bin/sh
"""

LONG_S = 60.0


class Directory:
    """A directory service: whom it knows, what it was asked, and whether it answers at all."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.asked: list[int] = []
        self.answers = threading.Event()
        self.answers.set()
        self.now = 500.0

    def look_up(self, uid: int) -> str | None:
        self.asked.append(uid)
        self.answers.wait()
        return self.known.get(uid)

    def users(self, path: Path) -> Users:
        return Users(str(path), self.look_up, lambda: self.now)


@pytest.fixture
def directory() -> Iterator[Directory]:
    made = Directory()
    yield made
    made.answers.set()


def of(uid: int | None, missing: str = "no_process") -> Row:
    row = Row("41", 0.0)
    if uid is None:
        row.missing["uid"] = missing
    else:
        row.values["uid"] = uid
    return row


def names_of(users: Users, *uids: int | None, patience_s: float = LONG_S) -> list[str]:
    """Name of each, or why there is none."""
    rows = [of(uid) for uid in uids]
    users.ask(rows)
    users.wait(patience_s)
    users.add_to(rows)
    return [row.labels.get("user") or row.missing["user"] for row in rows]


def test_the_node_s_own_users_are_named_at_once(tmp_path: Path, directory: Directory) -> None:
    path = tmp_path / "passwd"
    path.write_text(PASSWD)
    directory.answers.clear()
    found = names_of(directory.users(path), 3104, 0, None, patience_s=0.0)
    assert found == ["carla", "root", "no_process"]
    assert directory.asked == []


def test_others_are_asked_for_once_in_the_background(tmp_path: Path, directory: Directory) -> None:
    directory.known = {52011: "dora@site.example"}
    users = directory.users(tmp_path / "none")
    assert names_of(users, 52011, 52011, 52012) == ["dora@site.example"] * 2 + ["not_supported"]
    assert names_of(users, 52011, 52012) == ["dora@site.example", "not_supported"]
    assert directory.asked == [52011, 52012]


def test_a_user_without_a_name_is_looked_for_again_later(
    tmp_path: Path, directory: Directory
) -> None:
    users = directory.users(tmp_path / "none")
    assert names_of(users, 610) == ["not_supported"]
    directory.known, directory.now = {610: "emil"}, directory.now + RETRY_S - 1
    assert names_of(users, 610) == ["not_supported"]
    directory.now += 1
    assert names_of(users, 610) == ["emil"]


def test_a_directory_that_hangs_is_waited_for_by_nobody(
    tmp_path: Path, directory: Directory
) -> None:
    path = tmp_path / "passwd"
    path.write_text(PASSWD)
    directory.answers.clear()
    users = directory.users(path)
    assert names_of(users, 9001, 3104, patience_s=0.0) == ["not_sampled", "carla"]
    for _ in range(5):
        assert names_of(users, 9001, 9002, patience_s=0.0) == ["not_sampled"] * 2
    assert directory.asked in ([], [9001])
    directory.known = {9001: "fritz", 9002: "gerda"}
    directory.answers.set()
    assert names_of(users, 9001, 9002) == ["fritz", "gerda"]
    assert directory.asked == [9001, 9002]


def test_no_more_users_are_remembered_or_awaited_than_there_may_be(
    tmp_path: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "MAX_USERS", 3)
    directory.known = {uid: f"u{uid}" for uid in range(20)}
    some = directory.users(tmp_path / "none")
    assert names_of(some, 1, 2, 3, 4) == ["u1", "u2", "u3", "not_sampled"]
    assert names_of(some, 4, 5) == ["u4", "u5"]
    assert len(some._found) <= 3
    directory.answers.clear()
    names_of(some, *range(6, 20), patience_s=0.0)
    assert len(some._awaited) == 3


def test_users_behind_the_end_of_a_long_file_are_asked_for(
    tmp_path: Path, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "passwd"
    path.write_text(PASSWD + "ida:x:4711:300::/home/ida:/bin/sh\n")
    monkeypatch.setattr(users, "MAX_PASSWD", len(PASSWD))
    directory.known = {4711: "ida, says the directory"}
    assert names_of(directory.users(path), 3104, 4711) == ["carla", "ida, says the directory"]


def test_a_name_is_cut_and_a_strange_file_is_no_trouble(
    tmp_path: Path, directory: Directory
) -> None:
    directory.known = {77: "x" * 5000}
    assert names_of(directory.users(tmp_path), 77) == ["x" * users.MAX_NAME]
    assert local_names(PASSWD) == {0: "root", 3104: "carla"}
    assert local_names("\n::\x00:\nno colon") == {}


def test_the_system_s_own_answer_is_that_of_pwd() -> None:
    assert login_name(0) == pwd.getpwuid(0).pw_name
    unknown = next(uid for uid in range(3_000_000_000, 0, -1) if uid not in _known())
    assert login_name(unknown) is None


def test_a_libc_that_cannot_name_users_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users.ctypes, "CDLL", lambda _name: object())
    assert login_name(os.getuid()) is None


def _known() -> set[int]:
    return {entry.pw_uid for entry in pwd.getpwall()}
