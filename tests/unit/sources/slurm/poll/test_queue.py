from __future__ import annotations

import re
import threading
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.model.fault import SourceError
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.poll.queue import SlurmQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame

DATA = Path(__file__).parents[1] / "data"
JOBS = (DATA / "jobs-22.05.txt").read_text(encoding="utf-8")
NODES = (DATA / "nodes-22.05.txt").read_text(encoding="utf-8")
PARTITIONS = (DATA / "partitions-22.05-beside-json.txt").read_text(encoding="utf-8")
RESERVATIONS = (DATA / "reservations-22.05-beside-json.txt").read_text(encoding="utf-8")
TOPOLOGY = (DATA / "topology-22.05.txt").read_text(encoding="utf-8")
EPOCH = 1_800_000_000.0
DOWN = SourceError("scontrol show job", "cannot reach Slurm's controller", "wait")


class PretendClock:
    """Jumps to the end of each wait; the event is set when its time is up."""

    def __init__(self, until_s: float) -> None:
        self.seconds = 0.0
        self.waits = 0
        self._until_s = until_s

    def now(self) -> float:
        return EPOCH + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits += 1
        assert self.waits < 1000, "the queue spins"
        self.seconds += max(0.0, seconds)
        if self.seconds >= self._until_s:
            event.set()
        return event.is_set()


class Scripted(SlurmCommands):
    """Answers from a script and takes its pretended time about it."""

    def __init__(self, clock: PretendClock, *, call_s: float = 0.1, is_local: bool = True) -> None:
        super().__init__(() if is_local else ("hop",), environ={})
        self.calls: list[tuple[float, str]] = []
        self.jobs = JOBS
        self.nodes = NODES
        self.partitions = PARTITIONS
        self.reservations = RESERVATIONS
        self.tree = TOPOLOGY
        self.down: list[tuple[float, float]] = []
        self._pretend = clock
        self._call_s = call_s

    def show(self, what: str) -> str:
        started_at = self._pretend.seconds
        self.calls.append((started_at, what))
        self._pretend.seconds += self._call_s
        if any(start <= started_at < end for start, end in self.down):
            raise CommandFailedError(DOWN)
        return self.tree if what == "topology" else str(getattr(self, f"{what}s"))

    def topology(self) -> str:
        return self.show("topology")

    def far_gres_conf(self) -> str:
        return ""

    def count(self, what: str) -> int:
        return sum(1 for _, asked in self.calls if asked == what)


def run(commands: Scripted, clock: PretendClock) -> list[Frame]:
    """Every frame until the clock has run out."""
    queue = SlurmQueue("slurm", commands=commands, clock=clock, environ={"SLURM_CONF": "/none/x"})
    frames: list[Frame] = []
    queue.run(lambda: frames.extend(queue.poll()))
    return frames


def test_an_hour_costs_120_job_lists_and_60_node_lists() -> None:
    clock = PretendClock(3600.0)
    commands = Scripted(clock)
    run(commands, clock)
    assert commands.count("job") == pytest.approx(120, abs=1)
    assert commands.count("node") == pytest.approx(60, abs=1)


def test_a_minute_costs_no_more_than_four_calls_of_all_kinds_but_the_first() -> None:
    """The good neighbour's count: an hour of one gpumon, whatever is on its screens."""
    clock = PretendClock(3600.0)
    commands = Scripted(clock)
    run(commands, clock)
    names = ("job", "node", "partition", "reservation", "topology")
    kinds = {kind: commands.count(kind) for kind in names}
    assert kinds == {
        "job": pytest.approx(120, abs=1),
        "node": pytest.approx(60, abs=1),
        "partition": pytest.approx(12, abs=1),
        "reservation": pytest.approx(30, abs=1),
        "topology": 4,
    }
    assert {what for _, what in commands.calls} == set(kinds)
    by_minute = [int(at // 60) for at, _ in commands.calls]
    assert max(by_minute.count(minute) for minute in range(1, 60)) <= 6
    assert len(by_minute) / 60 <= 3.85


def test_a_controller_that_comes_back_is_seen_within_two_minutes() -> None:
    clock = PretendClock(7200.0)
    commands = Scripted(clock, call_s=9.5)
    commands.down = [(100.0, 4000.0)]
    frames = run(commands, clock)
    back = next(f for f in frames if f.taken_at > EPOCH + 4000 and not f.errors)
    assert back.taken_at < EPOCH + 4000 + 120 + 60


def test_a_slow_controller_is_asked_at_most_5_percent_of_the_time() -> None:
    clock = PretendClock(3600.0)
    commands = Scripted(clock, call_s=6.0)
    run(commands, clock)
    assert commands.count("job") <= 3600 / (6.0 * 21) + 1
    assert commands.count("job") >= 3600 / (6.0 * 23) - 1


def test_a_controller_that_stays_down_is_left_alone_ever_longer() -> None:
    clock = PretendClock(3600.0)
    commands = Scripted(clock)
    commands.down = [(0.0, 1e9)]
    frames = run(commands, clock)
    # 0, 60, then every 120 s.
    assert commands.count("job") == 31
    assert all(frame.queue is None for frame in frames)
    assert commands.count("node") == 0


def test_the_first_frame_has_jobs_and_nodes_and_when_they_were_asked() -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    (frame,) = run(commands, clock)
    assert (frame.origin, frame.node, frame.blocks, frame.errors) == ("slurm", "", {}, ())
    assert frame.queue is not None
    assert len(frame.queue.jobs) == 16
    assert [node.name for node in frame.queue.nodes] == ["gpu01", "gpu02", "gpu03"]
    assert frame.queue.jobs_at == pytest.approx(EPOCH + 0.1)
    assert frame.queue.nodes_at == pytest.approx(EPOCH + 0.2)


def test_nodes_keep_their_age_between_their_beats() -> None:
    clock = PretendClock(50.0)
    frames = run(Scripted(clock), clock)
    assert frames[1].queue is not None
    assert frames[1].queue.jobs_at == pytest.approx(EPOCH + 30.1)
    assert frames[1].queue.nodes_at == pytest.approx(EPOCH + 0.2)


def test_after_an_error_old_records_are_not_repeated() -> None:
    clock = PretendClock(500.0)
    commands = Scripted(clock)
    commands.down = [(25.0, 200.0)]
    frames = run(commands, clock)
    silent = [frame for frame in frames if frame.errors]
    assert silent
    assert all(frame.queue is None and frame.errors == (DOWN,) for frame in silent)
    back = next(f for f in frames if f.taken_at > EPOCH + 200 and not f.errors)
    assert back.queue is not None
    assert back.queue.jobs_at > EPOCH + 200


def test_an_error_about_nodes_leaves_the_jobs() -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    commands.nodes = "what?\n"
    (frame,) = run(commands, clock)
    assert frame.queue is not None
    assert (len(frame.queue.jobs), frame.queue.nodes) == (16, ())
    assert len(frame.queue.partitions) == 3
    assert isnan(frame.queue.nodes_at)
    assert [error.where for error in frame.errors] == ["scontrol show node"]


@pytest.mark.parametrize("kind", ["partition", "reservation"])
def test_one_failing_kind_hides_no_other(kind: str) -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    setattr(commands, f"{kind}s", "what?\n")
    (frame,) = run(commands, clock)
    assert [error.where for error in frame.errors] == [f"scontrol show {kind}"]
    assert frame.queue is not None
    left = (frame.queue.jobs, frame.queue.nodes, frame.queue.partitions, frame.queue.reservations)
    assert [len(records) for records in left] == (
        [16, 3, 0, 2] if kind == "partition" else [16, 3, 3, 0]
    )


@pytest.mark.parametrize(
    "text", ["what?\n", "JobId=x JobName=y\n", "last_update_time=1, records=9"]
)
def test_an_answer_that_is_no_job_list_is_an_error(text: str) -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    commands.jobs = text
    (frame,) = run(commands, clock)
    assert frame.queue is None
    assert frame.errors[0].message.startswith("answered with something that is not a list of jobs")


@pytest.mark.parametrize(
    "text",
    ["No jobs in the system\n", "", "last_update_time=1, records=0\nNo jobs in the system\n"],
)
def test_an_empty_queue_is_no_error(text: str) -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    commands.jobs = text
    (frame,) = run(commands, clock)
    assert frame.errors == ()
    assert frame.queue is not None
    assert frame.queue.jobs == ()


def test_records_that_cannot_be_read_are_counted(said: Callable[..., None]) -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    commands.jobs = JOBS.replace("JobId=13 ", "JobId=?? ")
    (frame,) = run(commands, clock)
    assert frame.queue is not None
    assert len(frame.queue.jobs) == 15
    assert [error.message for error in frame.errors] == [
        "1 of 16 jobs could not be read and are left out"
    ]
    said(frame.errors[0].message, frame.errors[0].hint)


def test_jobs_whose_gpus_cannot_be_read_stay_and_are_counted() -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    held = re.search(r"GRES=gpu[^\n]*\(IDX:", JOBS)
    assert held is not None
    commands.jobs = JOBS.replace(held[0], held[0] + "~", 1)
    (frame,) = run(commands, clock)
    assert frame.queue is not None
    assert len(frame.queue.jobs) == 16
    assert [error.message for error in frame.errors] == [
        "which GPUs 1 of 16 jobs hold could not be read; their number may be known"
    ]


def test_forged_records_are_reported(said: Callable[..., None]) -> None:
    clock = PretendClock(1.0)
    commands = Scripted(clock)
    commands.jobs = (DATA / "jobs-22.05-forged.txt").read_text(encoding="utf-8")
    (frame,) = run(commands, clock)
    assert "announced 2 jobs but printed 4" in [error.message for error in frame.errors]
    (error,) = (error for error in frame.errors if "announced" in error.message)
    said(error.message, error.hint)


def gres_conf(folder: Path, text: str) -> dict[str, str]:
    (folder / "gres.conf").write_text(text)
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def gpu_files(environ: dict[str, str], *, is_local: bool = True) -> dict[str, int]:
    clock = PretendClock(1.0)
    commands = Scripted(clock, is_local=is_local)
    queue = SlurmQueue("slurm", commands=commands, clock=clock, environ=environ)
    queue.run(lambda: None)
    (frame,) = queue.poll()
    assert frame.queue is not None
    return {node.name: len(node.gpu_files) for node in frame.queue.nodes}


def test_device_files_come_from_gres_conf(tmp_path: Path) -> None:
    environ = gres_conf(tmp_path, "NodeName=gpu[01-02] Name=gpu File=/dev/nvidia[0-7]\n")
    assert gpu_files(environ) == {"gpu01": 8, "gpu02": 8, "gpu03": 0}


def test_device_files_are_not_believed_when_their_number_is_wrong(tmp_path: Path) -> None:
    environ = gres_conf(tmp_path, "Name=gpu File=/dev/nvidia[0-3]\n")
    assert gpu_files(environ) == {"gpu01": 0, "gpu02": 0, "gpu03": 0}


def test_files_here_say_nothing_about_a_cluster_behind_a_hop(tmp_path: Path) -> None:
    environ = gres_conf(tmp_path, "Name=gpu File=/dev/nvidia[0-7]\n")
    assert gpu_files(environ, is_local=False) == {"gpu01": 0, "gpu02": 0, "gpu03": 0}


def test_the_thread_reports_wakes_and_ends() -> None:
    clock = PretendClock(20.0)
    commands = Scripted(clock)
    woken = threading.Event()
    hold = threading.Event()

    def wake() -> None:
        woken.set()
        hold.wait(30.0)

    queue = SlurmQueue("slurm", commands=commands, clock=clock, environ={})
    assert queue.pending()
    assert queue.poll() == []
    queue.start(wake)
    assert woken.wait(30.0)
    assert not queue.pending()
    assert len(queue.poll()) == 1
    hold.set()
    queue.close()
    calls = len(commands.calls)
    queue.close()
    assert len(commands.calls) == calls


def test_an_error_of_gpumons_own_is_told_and_the_rounds_go_on(
    monkeypatch, said: Callable[..., None]
) -> None:
    clock = PretendClock(200.0)
    commands = Scripted(clock)
    show = commands.show

    def stumble(what: str) -> str:
        if clock.seconds < 10.0:
            raise TypeError("unexpected")
        return show(what)

    monkeypatch.setattr(commands, "show", stumble)
    frames = run(commands, clock)
    assert "unexpected" in frames[0].errors[0].message
    said(frames[0].errors[0].message, frames[0].errors[0].hint)
    assert frames[-1].queue is not None
    assert not frames[-1].errors


def places(frame: Frame) -> dict[str, tuple[str, str]]:
    """Leaf switch and block of every node."""
    assert frame.queue is not None
    return {node.name: (node.leaf_switch, node.block) for node in frame.queue.nodes}


def test_nodes_tell_their_leaf_switch_from_the_first_frame_on() -> None:
    clock = PretendClock(10.0)
    (frame,) = run(Scripted(clock), clock)
    assert places(frame) == {"gpu01": ("s0", ""), "gpu02": ("s0", ""), "gpu03": ("s1", "")}


def test_nodes_that_are_told_anew_keep_their_leaf_switch() -> None:
    clock = PretendClock(200.0)
    commands = Scripted(clock)
    frames = run(commands, clock)
    assert commands.count("node") > 1
    assert commands.count("topology") == 1
    assert {places(frame)["gpu03"] for frame in frames} == {("s1", "")}


def test_a_cluster_without_topology_costs_no_error() -> None:
    clock = PretendClock(10.0)
    commands = Scripted(clock)
    commands.tree = ""
    (frame,) = run(commands, clock)
    assert not frame.errors
    assert set(places(frame).values()) == {("", "")}


def test_a_topology_that_is_no_more_is_shown_no_more() -> None:
    clock = PretendClock(1000.0)
    commands = Scripted(clock)
    queue = SlurmQueue("slurm", commands=commands, clock=clock, environ={"SLURM_CONF": "/none/x"})
    frames: list[Frame] = []

    def wake() -> None:
        frames.extend(queue.poll())
        commands.tree = ""

    queue.run(wake)
    assert places(frames[0])["gpu03"] == ("s1", "")
    assert places(frames[-1])["gpu03"] == ("", "")


def test_a_switch_whose_nodes_cannot_be_read_is_told_and_the_others_count() -> None:
    clock = PretendClock(10.0)
    commands = Scripted(clock)
    commands.tree = TOPOLOGY.replace("gpu[01-02]", "gpu[01-", 1)
    (frame,) = run(commands, clock)
    assert [(error.where, error.message) for error in frame.errors] == [
        (
            "scontrol show topology",
            "1 of 2 switches and blocks could not be read and are left out",
        )
    ]
    assert places(frame)["gpu03"] == ("s1", "")


def test_a_topology_that_fails_leaves_the_nodes_alone() -> None:
    clock = PretendClock(400.0)
    commands = Scripted(clock)
    said = SourceError("scontrol show topology", "cannot reach Slurm's controller", "wait")

    def fails() -> str:
        commands.calls.append((clock.seconds, "topology"))
        raise CommandFailedError(said)

    commands.topology = fails  # type: ignore[method-assign]
    frames = run(commands, clock)
    assert said in frames[0].errors
    assert len(places(frames[0])) == 3
    # It is asked again as soon as anything else that failed, not after its long period.
    assert commands.count("topology") == 4
