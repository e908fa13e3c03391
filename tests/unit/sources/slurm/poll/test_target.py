"""A whole Slurm target behind a login node, with pretended commands, and what it says once."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.accounting import EndedReport
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.sources.address import Sampling, parse
from gpumon.sources.slurm.accounting.accounting import UNREACHED, WHERE
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.slurm.commands.failures import UNREACHED_ACCOUNTING
from gpumon.sources.slurm.poll.queue import SlurmQueue
from gpumon.sources.slurm.poll.target import MAX_STARTING_BEHIND_HOP, AccountingErrors, SlurmSource
from gpumon.sources.source import SystemClock
from tests.worlds.probe import eventually

DATA = Path(__file__).parents[1] / "data"
SAMPLING = Sampling(1.0, is_single=True, is_wanted=lambda _: True)

SSH = """\
case "$*" in *ProxyCommand=*)
    echo "$*" >>"$GPUMON_TEST_LOG"
    echo "ada@x: Permission denied (publickey)." >&2
    exit 255
esac
while [ "$1" != -- ]; do shift; done
shift 2
exec "$GPUMON_TEST_SHELL" -c "$*"
"""
"""Runs on this machine what it is to run on the login node, and refuses every node behind it."""

PARTITIONS = SourceError("slurmrestd partitions", f"{UNREACHED_ACCOUNTING}: Refused (7000)", "wait")
OTHER = SourceError("slurmrestd nodes", "gave no complete answer within 30 s", "look")
DEAD = SourceError(WHERE, UNREACHED, "wait")
BOTH = DEAD._replace(message=f"{UNREACHED}; slurmrestd partitions say so, too: Refused (7000)")


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A login node whose gres.conf lies where SLURM_CONF says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder / "ssh", SSH)
    jobs, nodes = DATA / "jobs-22.05.txt", DATA / "nodes-22.05.txt"
    program(
        folder / "scontrol",
        f'case "$*" in *job) exec cat {jobs};; *node) exec cat {nodes};; esac; '
        'echo "No ${7}s in the system"',
    )
    files = "NodeName=gpu[01-04] Name=gpu Type=h100 File=/dev/nvidia[{}]\n"
    (tmp_path / "gres.conf").write_text(files.format("4-7") + files.format("0-3"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("GPUMON_TEST_SHELL", "sh")
    monkeypatch.setenv("GPUMON_TEST_LOG", str(tmp_path / "log"))
    return tmp_path


def frames_of(url: str, sampling: Sampling = SAMPLING) -> list[Frame]:
    source = SlurmSource(parse(url), sampling, SystemClock())
    frames: list[Frame] = []
    source.start(lambda: None)

    def settled() -> bool:
        frames.extend(source.poll())
        if source.pending():
            return False
        frames.extend(source.poll())
        return not source.pending()

    try:
        eventually(settled, "the target has answered")
    finally:
        source.close()
    return frames


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "fish"])
def test_the_queue_and_gres_conf_are_read_on_the_login_node(site, monkeypatch, shell):
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    monkeypatch.setenv("GPUMON_TEST_SHELL", path)
    frames = frames_of("slurm+ssh://ada@login?nodes=none")
    queue = next(frame.queue for frame in frames if frame.queue)
    files = {node.name: node.gpu_files for node in queue.nodes}
    assert files["gpu01"] == tuple(f"/dev/nvidia{n}" for n in (4, 5, 6, 7, 0, 1, 2, 3))
    assert queue.jobs
    assert not (site / "log").exists()


def test_a_queue_that_was_narrowed_says_so(site):
    url = "slurm+ssh://ada@login?nodes=none"
    for is_wanted, is_filtered in ((True, False), (False, True)):
        frames = frames_of(
            url, SAMPLING._replace(is_wanted=lambda _, is_wanted=is_wanted: is_wanted)
        )
        queue = next(frame.queue for frame in frames if frame.queue)
        assert (queue.is_filtered, bool(queue.jobs)) == (is_filtered, is_wanted)


def test_the_nodes_are_reached_through_the_login_node(site):
    frames = frames_of("slurm+ssh://ada@login?nodes=ssh")
    tried = (site / "log").read_text()
    assert "-l ada" in tried
    assert "-W '[%h]:%p' -- login" in tried
    errors = {frame.node: frame.errors for frame in frames if frame.node}
    assert errors
    assert all("the key is refused" in error.message for (error,) in errors.values())


def test_few_connections_are_on_their_way_up_at_once():
    source = SlurmSource(parse("slurm+ssh://login"), SAMPLING, SystemClock())
    assert source._pool._turns.pace.most == MAX_STARTING_BEHIND_HOP < 10
    source.close()


def test_a_login_node_without_gres_conf_leaves_the_devices_unknown(site):
    (site / "gres.conf").unlink()
    commands = SlurmCommands(("ssh", "--", "login"))
    if commands.far_gres_conf():
        pytest.skip("this machine has a gres.conf of its own")
    queue = SlurmQueue(commands=commands)
    frame = queue._round()
    assert frame.queue is not None
    assert {node.gpu_files for node in frame.queue.nodes} == {()}
    assert frame.errors == ()


def queue(*errors: SourceError, at: float = 1.0) -> Frame:
    return Frame("rest", "", at, 0.0, {}, errors, QueueRecords((), (), at, at))


def ended(*errors: SourceError, at: float = 1.0) -> Frame:
    return Frame("rest", "", at, 0.0, {}, ended=EndedReport(None, errors))


def errors_of(polls: list[list[Frame]]) -> list[set[SourceError]]:
    """The errors that stand after each poll, as whoever takes the frames keeps them."""
    once = AccountingErrors()
    by_kind: dict[bool, tuple[SourceError, ...]] = {}
    found = []
    for frames in polls:
        for frame in once.of(frames):
            is_ended = frame.ended is not None
            by_kind[is_ended] = frame.ended.errors if frame.ended else frame.errors
        found.append({error for errors in by_kind.values() for error in errors})
    return found


@pytest.mark.parametrize(
    "polls",
    [
        [[queue(PARTITIONS, OTHER), ended(DEAD)]],
        [[ended(DEAD), queue(PARTITIONS, OTHER)]],
        [[queue(PARTITIONS, OTHER)], [ended(DEAD)]],
        [[ended(DEAD)], [queue(PARTITIONS, OTHER)]],
        [[queue(PARTITIONS, OTHER)], [], [ended(DEAD)], [], [queue(PARTITIONS, OTHER, at=31.0)]],
    ],
)
def test_who_complains_first_makes_no_difference(polls: list[list[Frame]]) -> None:
    assert errors_of(polls)[-1] == {BOTH, OTHER}


def test_where_one_complains_alone_its_own_words_stand() -> None:
    assert errors_of([[queue(PARTITIONS)], [ended()]]) == [{PARTITIONS}, {PARTITIONS}]
    assert errors_of([[queue(OTHER)], [ended(DEAD)]])[-1] == {OTHER, DEAD}


def test_when_one_of_them_is_well_again_the_others_line_is_back() -> None:
    down = [queue(PARTITIONS, OTHER), ended(DEAD)]
    assert errors_of([down, [ended(at=60.0)]])[-1] == {PARTITIONS, OTHER}
    assert errors_of([down, [queue(OTHER, at=60.0)]])[-1] == {OTHER, DEAD}
    assert errors_of([down, [queue(at=60.0)], [ended(at=61.0)]])[-1] == set()


def test_nothing_is_told_again_without_need() -> None:
    once = AccountingErrors()
    assert len(once.of([queue(PARTITIONS)])) == 1
    assert len(once.of([ended(DEAD)])) == 2
    assert once.of([]) == []
    again = once.of([queue(PARTITIONS, at=31.0)])
    assert [(frame.taken_at, frame.errors) for frame in again] == [(31.0, ())]
