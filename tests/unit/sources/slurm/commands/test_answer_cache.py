"""All gpumons of one user ask Slurm as often as one of them would."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.model.fault import SourceError
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.answer_cache import MOST_ANSWERS, SharedAnswers, folder_of
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.poll.queue import SlurmQueue
from tests.unit.sources.slurm.poll.test_queue import DOWN, EPOCH, PretendClock, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("job", "node", "partition", "reservation")


class Neighbours:
    """Several gpumons of one user, each at its own time, over one pretended controller."""

    def __init__(self, folder: Path | None, count: int) -> None:
        self.clock = PretendClock(1e9)
        self.commands = Scripted(self.clock)
        self.queues = [
            SlurmQueue(
                "slurm",
                commands=self.commands,
                clock=self.clock,
                environ={"SLURM_CONF": "/none/x"},
                shared=SharedAnswers(folder, "lab"),
            )
            for _ in range(count)
        ]

    def run(self, until_s: float, *, apart_s: float = 7.0) -> None:
        """Let each ask on its own beat; the first rounds lie some seconds apart."""
        next_at = {place * apart_s: queue for place, queue in enumerate(self.queues)}
        while min(next_at) < until_s:
            at = min(next_at)
            queue = next_at.pop(at)
            self.clock.seconds = max(self.clock.seconds, at)
            frame = queue._round()
            queue._frames.append(frame)
            due_at = max(queue._due_at(), self.clock.seconds + 1e-6)
            while due_at in next_at:
                due_at += 1e-6
            next_at[due_at] = queue


def counted(folder: Path | None, count: int) -> dict[str, int]:
    neighbours = Neighbours(folder, count)
    neighbours.run(3600.0)
    return {kind: neighbours.commands.count(kind) for kind in KINDS}


@pytest.mark.slow
def test_three_gpumons_cost_what_one_costs(tmp_path: Path) -> None:
    alone = counted(tmp_path / "one", 1)
    assert alone["job"] == pytest.approx(120, abs=1)
    three = counted(tmp_path / "three", 3)
    assert {kind: pytest.approx(alone[kind], abs=2) for kind in KINDS} == three
    assert counted(None, 3)["job"] > 2.5 * alone["job"]


def test_what_another_asked_keeps_its_age(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path, 2)
    neighbours.run(8.0)
    second = neighbours.queues[1].poll()[-1]
    assert second.queue is not None
    assert len(second.queue.jobs) == 16
    assert second.queue.jobs_at == pytest.approx(EPOCH + 0.1)
    assert second.taken_at >= EPOCH + 7.0
    assert neighbours.queues[1]._schedules["job"].due_at == pytest.approx(30.1)


def test_news_of_a_silent_controller_is_shared_other_trouble_is_not(tmp_path: Path) -> None:
    unreached = SourceError("scontrol show job", f"{failures.UNREACHED}: gone", "wait")
    for error, calls in ((unreached, 1), (DOWN._replace(message="is refused by Slurm"), 2)):
        shared = SharedAnswers(tmp_path, error.message)
        made: list[str] = []

        def call(error: SourceError = error, made: list[str] = made) -> str:
            made.append("call")
            raise CommandFailedError(error)

        for _ in range(2):
            with pytest.raises(CommandFailedError) as raised:
                ask(shared, call)
            assert raised.value.error == error
        assert len(made) == calls


def ask(
    shared: SharedAnswers, call: Callable[[], str], *, at: float = 0.0, kind: str = "job"
) -> tuple[str, float]:
    clock = PretendClock(1e9)
    clock.seconds = at
    answer = shared.ask(kind, 30.0, call, clock, threading.Event())
    return answer.text, answer.at - EPOCH


def asked_twice(shared: SharedAnswers) -> list[str]:
    return [ask(shared, lambda: "a")[0], ask(shared, lambda: "b")[0]]


def test_an_answer_is_read_until_it_is_due_again(tmp_path: Path) -> None:
    shared = SharedAnswers(tmp_path, "lab")
    assert ask(shared, lambda: "first") == ("first", 0.0)
    assert ask(shared, lambda: "second", at=29.5) == ("first", 0.0)
    assert ask(shared, lambda: "other kind", at=29.5, kind="node") == ("other kind", 29.5)
    assert ask(shared, lambda: "second", at=30.0) == ("second", 30.0)
    # A clock that was set back must not keep an old answer alive.
    assert ask(shared, lambda: "third", at=10.0) == ("third", 10.0)


def test_another_cluster_or_another_token_is_another_answer(tmp_path: Path) -> None:
    assert ask(SharedAnswers(tmp_path, "lab"), lambda: "lab") == ("lab", 0.0)
    assert ask(SharedAnswers(tmp_path, "else"), lambda: "else") == ("else", 0.0)
    environs = ({}, {"SLURM_CONF": "/b"}, {"SLURM_JWT": "x"})
    identities = {SlurmCommands(environ=environ).identity for environ in environs}
    identities |= {SlurmCommands(("ssh", "--", host), environ={}).identity for host in "ab"}
    assert len(identities) == 5


def jwt(**claims: object) -> str:
    """A token as Slurm's, without its signature."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({}, claims)]
    return b".".join([*(part.rstrip(b"=") for part in parts), b"c2ln"]).decode()


def test_a_renewed_token_asks_as_the_one_before_did() -> None:
    tokens = (jwt(sun="ada", exp=1), jwt(sun="ada", exp=2), jwt(sun="bob", exp=1), "opaque", "")
    seen = [SlurmCommands(environ={"SLURM_JWT": token}).identity for token in tokens]
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4
    assert not any(token in identity for token in tokens[:3] for identity in seen)


def test_what_nobody_renews_is_removed_some_day(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    old, held, young = (SharedAnswers(tmp_path, name) for name in ("old", "held", "young"))
    for shared in (old, held, young):
        ask(shared, lambda: "jobs")
    (tmp_path / "notes").write_text("not ours")
    (tmp_path / f"{old._key}-job.4711").write_text("a draft")
    for file in tmp_path.iterdir():
        if young._key not in file.name:
            os.utime(file, (0.0, 0.0))
    with (tmp_path / f"{held._key}-job.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ask(SharedAnswers(tmp_path, "new"), lambda: "jobs")
    left = {file.name.partition("-")[0] for file in tmp_path.iterdir()}
    assert left == {"notes", held._key, young._key, SharedAnswers(None, "new")._key}


def test_no_more_answers_are_kept_than_there_is_room_for(tmp_path: Path) -> None:
    for number in range(MOST_ANSWERS + 20):
        ask(SharedAnswers(tmp_path / "gpumon", f"token {number}"), lambda: "jobs")
    assert len(list((tmp_path / "gpumon").iterdir())) == 2 * MOST_ANSWERS


def test_files_are_for_this_user_alone_and_tell_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "runtime" / "gpumon"
    ask(SharedAnswers(folder, "token eyJhbGci"), lambda: "jobs")
    assert folder.stat().st_mode & 0o777 == 0o700
    files = sorted(folder.iterdir())
    assert len(files) == 2
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o600
        assert "eyJhbGci" not in file.name + file.read_text()


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    shared = SharedAnswers(folder, "lab")
    assert asked_twice(shared) == ["a", "b"]
    assert not list(folder.iterdir())


def test_neither_a_link_nor_a_file_in_the_folders_place_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        shared = SharedAnswers(tmp_path / name, "lab")
        assert asked_twice(shared) == ["a", "b"]
    assert not list(real.iterdir())


def file_in(folder: Path) -> Path:
    (found,) = [file for file in folder.iterdir() if file.suffix != ".lock"]
    return found


@pytest.mark.parametrize("what", ["link", "open", "pipe", "folder"])
def test_a_file_that_is_not_ours_alone_is_not_read(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "gpumon"
    shared = SharedAnswers(folder, "lab")
    ask(shared, lambda: "first")
    file = file_in(folder)
    if what == "open":
        file.chmod(0o644)
    else:
        content = file.read_bytes()
        file.unlink()
        if what == "link":
            (tmp_path / "elsewhere").write_bytes(content)
            (tmp_path / "elsewhere").chmod(0o600)
            file.symlink_to(tmp_path / "elsewhere")
        elif what == "pipe":
            os.mkfifo(file, 0o600)
        else:
            file.mkdir(mode=0o700)
    assert ask(shared, lambda: "second", at=1.0) == ("second", 1.0)
    if what == "link":
        assert b"first" in (tmp_path / "elsewhere").read_bytes()


def test_what_belongs_to_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gpumon"
    ask(SharedAnswers(folder, "lab"), lambda: "first")
    monkeypatch.setattr(
        "gpumon.sources.slurm.commands.answer_cache.os.geteuid", lambda: os.getuid() + 1
    )
    assert ask(SharedAnswers(folder, "lab"), lambda: "second") == ("second", 0.0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: b"",
        lambda body: body[:-1],
        lambda body: body.replace(b"1", b"x", 1),
        lambda body: b"[" * 5000 + body,
        lambda body: b"null\n" + body,
        lambda body: body[:-2] + b"\xff\xff",
        lambda body: json.dumps({"format": 9}).encode() + b"\n",
    ],
)
def test_a_damaged_file_is_as_if_it_were_not_there(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    folder = tmp_path / "gpumon"
    shared = SharedAnswers(folder, "lab")
    ask(shared, lambda: "first")
    file_in(folder).write_bytes(damage(file_in(folder).read_bytes()))
    assert ask(shared, lambda: "second", at=1.0) == ("second", 1.0)
    assert ask(shared, lambda: "third", at=2.0) == ("second", 1.0)


def test_a_lock_that_nobody_gives_back_is_waited_for_once_and_done_without(tmp_path: Path) -> None:
    folder = tmp_path / "gpumon"
    shared = SharedAnswers(folder, "lab")
    ask(shared, lambda: "first")
    (lock,) = [file for file in folder.iterdir() if file.suffix == ".lock"]
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        text, at = ask(shared, lambda: "second", at=40.0)
    assert text == "second"
    assert 70.0 < at < 80.0


def test_the_end_of_gpumon_ends_the_wait_for_another(tmp_path: Path) -> None:
    folder = tmp_path / "gpumon"
    shared = SharedAnswers(folder, "lab")
    ask(shared, lambda: "first")
    (lock,) = [file for file in folder.iterdir() if file.suffix == ".lock"]
    stop = threading.Event()
    stop.set()
    clock = PretendClock(1e9)
    clock.seconds = 40.0
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shared.ask("job", 30.0, lambda: "second", clock, stop)
    assert clock.waits == 1


def test_a_file_system_without_locks_shares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("gpumon.sources.slurm.commands.answer_cache.fcntl.flock", refuse)
    shared = SharedAnswers(tmp_path / "gpumon", "lab")
    assert asked_twice(shared) == ["a", "b"]


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/a"}, "/run/user/7/gpumon"),
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/a"}, "/cache/gpumon"),
        ({"XDG_RUNTIME_DIR": "relative", "HOME": "/home/a"}, "/home/a/.cache/gpumon"),
        ({"XDG_RUNTIME_DIR": "run", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/gpumon"),
        ({"XDG_RUNTIME_DIR": "/run/user/7", "GPUMON_SHARE": "no"}, None),
    ],
)
def test_the_folder_is_the_users_own(environ: dict[str, str], folder: str | None) -> None:
    assert folder_of(environ) == (None if folder is None else Path(folder))


def test_who_holds_the_text_reads_only_that_it_is_still_the_answer(tmp_path: Path) -> None:
    shared = SharedAnswers(tmp_path / "gpumon", "lab")
    clock, stop = PretendClock(1e9), threading.Event()

    def asked(held: float | None, text: str | None) -> tuple[str, float, float]:
        answer = shared.ask_newer("job", 30.0, held, lambda _: text, clock, stop)
        return answer.text, answer.at - EPOCH, answer.since - EPOCH

    assert asked(None, "a long list") == ("a long list", 0.0, 0.0)
    clock.seconds = 31.0
    assert asked(EPOCH, None) == ("", 31.0, 0.0)
    clock.seconds = 40.0
    assert asked(EPOCH, "not asked") == ("", 31.0, 0.0)
    assert asked(None, "not asked") == ("a long list", 31.0, 0.0)


@pytest.mark.parametrize("took_s", ["Infinity", "1e999", "NaN", "4e20", "8000"])
def test_an_answer_that_took_for_ever_is_not_kept_for_ever(tmp_path: Path, took_s: str) -> None:
    folder = tmp_path / "gpumon"
    shared = SharedAnswers(folder, "lab")
    ask(shared, lambda: "first")
    head, _, text = file_in(folder).read_text().partition("\n")
    head_fields = {**json.loads(head), "took_s": "HERE"}
    file_in(folder).write_text(json.dumps(head_fields).replace('"HERE"', took_s) + "\n" + text)
    assert ask(shared, lambda: "second", at=7000.0)[0] == "second"
