"""A driver that takes long to open, or never does, holds up nothing but its GPUs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.missing import Reason
from gpumon.probe.driver.driver import Calling, Driver, NoValueError
from gpumon.probe.driver.sweep import (
    MOST_ABANDONED,
    MOST_GPUS,
    OPENING_PATIENCE_S,
    OPENING_STUCK_AFTER_S,
    STUCK_AFTER_S,
    Sweeper,
)
from gpumon.probe.rows import Row
from gpumon.probe.surroundings import Surroundings
from tests.worlds.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

INIT = "nvmlInitWithFlags"
HANDLE = "nvmlDeviceGetHandleByIndex_v2"
SLOW_MS = 1500
"""Longer than a report waits."""


def awaited(frame: Frame) -> str | None:
    return frame.block("node").label("awaited_call", 0)


def is_read(frame: Frame) -> bool:
    return bool(frame.block("gpu").keys)


class Time:
    """Seconds that pass when a test lets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def waiting(name: str, gpu: str, seconds: float) -> Sweeper:
    """A sweeper, whose thread has been in a call for so long, after a wait for it."""
    time = Time()
    sweeper: Any = Sweeper(driver=Driver(time.monotonic))
    sweeper._lane.ident = 7
    sweeper.driver.calling[7] = Calling(name, gpu, time.now)
    time.now += seconds
    sweeper._start = lambda _: sweeper._done.set()
    waiter = threading.Thread(target=sweeper.wait, daemon=True)
    waiter.start()
    waiter.join(0.3)
    sweeper._done.set()
    waiter.join()
    return sweeper  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "gpu", "seconds", "shown"),
    [
        ("nvmlInit", "", OPENING_PATIENCE_S - 0.1, ""),
        ("nvmlInit", "", OPENING_PATIENCE_S, "nvmlInit for 1 s"),
        ("nvmlInit", "", 7.0, "nvmlInit for 7 s"),
        ("nvmlInit", "", OPENING_STUCK_AFTER_S["nvmlInit"], ""),
        ("nvmlDeviceGetHandleByIndex", "3", 2.0, "nvmlDeviceGetHandleByIndex of GPU 3 for 2 s"),
    ],
)
def test_what_opens_the_driver_is_named_from_patience_to_trouble(
    name: str, gpu: str, seconds: float, shown: str, said: Callable[..., None]
) -> None:
    sweeper = waiting(name, gpu, seconds)
    assert sweeper.awaited == shown
    assert bool(sweeper.stuck()) == (seconds >= OPENING_STUCK_AFTER_S[name])
    said(f"the node waits for {shown}" if shown else "")


def test_once_a_gpu_hangs_as_it_is_opened_the_next_is_given_up_as_soon_as_any_other_call() -> None:
    """All of them together have to fit into the time that a single report waits."""
    time = Time()
    sweeper: Any = Sweeper(driver=Driver(time.monotonic))
    sweeper._start = lambda _: None
    for number, limit_s in enumerate((5.0, STUCK_AFTER_S, STUCK_AFTER_S)):
        sweeper._lane.ident, sweeper._lane.on = number, f"index {number}"
        call = Calling("nvmlDeviceGetHandleByIndex", str(number), time.now)
        sweeper.driver.calling[number] = call
        time.now += limit_s - 0.1
        assert (sweeper.supervise(), len(sweeper._held)) == (False, number)
        time.now += 0.2
        is_whole = number == MOST_ABANDONED
        assert sweeper.supervise() is is_whole
        assert len(sweeper._held) == min(number + 1, MOST_ABANDONED)


def test_a_driver_that_never_opens_leaves_the_first_report_of_the_node(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.hang(INIT)
    node.state.write()
    with Probe() as probe:
        first, second = probe.frame(), probe.frame()
    for frame in (first, second):
        assert frame.errors == ()
        assert awaited(frame) == "nvmlInit for 1 s"
        assert not is_read(frame)
        host = frame.block("node")
        assert host.value("host_mem_total_bytes", 0)
        assert host.reason("driver_version", 0) is Reason.NOT_SAMPLED
    assert second.block("node").value("cpu_busy_ratio", 0) is not None


@pytest.mark.slow
@pytest.mark.parametrize("function", [INIT, HANDLE])
def test_a_driver_that_opens_slowly_is_no_trouble_and_its_gpus_follow(
    function: str, standin: Start
) -> None:
    node = standin("h100", gpus=2)
    node.state.latency(function, SLOW_MS)
    node.state.write()
    with Probe() as probe:
        frames = probe.frames(is_read)
    assert awaited(frames[0])
    assert [frame.errors for frame in frames] == [()] * len(frames)
    last = frames[-1]
    assert awaited(last) is None
    assert last.block("node").reason("awaited_call", 0) is Reason.NOT_SAMPLED
    gpus = last.block("gpu")
    assert [gpus.value("temp_c", row) for row in (0, 1)] == [30, 30]
    assert "nvmlDeviceGetHandle" not in (last.block("node").label("slowest_call", 0) or "")


def test_a_single_report_waits_for_a_driver_that_opens_slowly(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.latency(INIT, SLOW_MS)
    node.state.write()
    with Probe(once=True) as probe:
        frame = probe.frame()
    assert len(frame.block("gpu").keys) == 2
    assert awaited(frame) is None


def test_whoever_waits_for_a_report_of_every_node_waits_for_its_gpus(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.latency(INIT, SLOW_MS)
    node.state.write()
    with Probe() as probe:
        probe.frame(lambda frame: awaited(frame) is not None)
        assert not probe.stream.has_reported
        probe.frame(is_read)
        assert probe.stream.has_reported


def test_what_is_awaited_no_more_is_not_told_again_where_the_node_is_read_slowly(
    tmp_path: Path,
) -> None:
    around = Surroundings(str(tmp_path), Time().monotonic)
    shown = Row("", 0.0)
    shown.labels["awaited_call"] = "nvmlInit for 3 s"
    blocks, _, _ = around.take(shown)
    assert blocks["node"]["labels"]["awaited_call"] == ["nvmlInit for 3 s"]
    blocks, _, _ = around.take(Row("", 0.0))
    assert "awaited_call" not in blocks["node"]["labels"]


UUID_OF = "nvmlDeviceGetUUID"
REFUSALS: list[tuple[Callable[[Standin], None], int, Reason]] = [
    (lambda node: node.state.lose(1, before_init=True), 15, Reason.LOST),
    (lambda node: node.state.error(UUID_OF, 999, gpu=1), 999, Reason.FAILED),
    (lambda node: node.state.error(UUID_OF, 4, gpu=1), 4, Reason.NO_PERMISSION),
    (lambda node: node.state.error(UUID_OF, 16, gpu=1), 16, Reason.FAILED),
]


@pytest.mark.parametrize(("break_it", "code", "reason"), REFUSALS)
def test_a_gpu_that_the_driver_does_not_open_keeps_its_row_with_why(
    break_it: Callable[[Standin], None], code: int, reason: Reason, standin: Start
) -> None:
    node = standin("h100", gpus=3)
    break_it(node)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(is_read)
    gpus = frame.block("gpu")
    assert sorted(gpus.value("index", row) for row in range(3)) == [0, 1, 2]
    (closed,) = (row for row in range(3) if gpus.value("index", row) == 1)
    assert gpus.value("open_error", closed) == code
    assert gpus.value("temp_c", closed) is None
    assert gpus.reason("temp_c", closed) is reason
    assert all(gpus.value("open_error", row) == 0 for row in range(3) if row != closed)
    (error,) = frame.errors
    assert error.where.endswith("GPU index 1")


def test_gpus_none_of_which_opens_keep_their_rows(standin: Start) -> None:
    node = standin("h100", gpus=3)
    node.state.error(HANDLE, 999)
    node.state.write()
    with Probe() as probe:
        gpus = probe.frame(is_read).block("gpu")
    assert [gpus.value("open_error", row) for row in range(3)] == [999] * 3


def test_two_gpus_of_one_uuid_are_told_apart_and_only_one_is_read(
    standin: Start, said: Callable[..., None]
) -> None:
    node = standin("h100", gpus=3)
    node.state.gpu(2, uuid=node.state.values["gpu.0.uuid"])
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(is_read)
    gpus = frame.block("gpu")
    assert len(set(gpus.keys)) == 3
    closed = next(row for row in range(3) if gpus.value("index", row) == 2)
    assert gpus.value("open_error", closed) == 999
    assert "it has the UUID of index 0" in frame.errors[0].message
    said(frame.errors[0].message, frame.errors[0].hint)


def test_a_name_that_is_no_utf_8_costs_the_name_alone(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.gpu(1, name="NVIDIA \udcff\udcfe")
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(is_read)
    gpus = frame.block("gpu")
    row = next(row for row in range(2) if gpus.value("index", row) == 1)
    assert (gpus.label("name", row), gpus.value("temp_c", row)) == (None, 30)
    assert gpus.reason("name", row) is Reason.FAILED


def test_hidden_process_lists_are_one_line(standin: Start, said: Callable[..., None]) -> None:
    node = standin("h100", gpus=3)
    node.state.error("nvmlDeviceGetComputeRunningProcesses_v3", 4)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(is_read)
    gpus = frame.block("gpu")
    assert [gpus.value("process_count", row) for row in range(3)] == [None] * 3
    (error,) = frame.errors
    said(error.message, error.hint)
    assert "hides the processes of 3 GPUs" in error.message


class Counting(Driver):
    """A driver that counts GPUs, and opens none of them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.gpus = count

    def call(self, function: str, gpu: str, *arguments: Any) -> Any:
        if function in ("nvmlInit", "nvmlDeviceGetCount"):
            return self.gpus
        raise NoValueError(Reason.FAILED.value, "not here", 999)


@pytest.mark.parametrize(("count", "is_reported"), [(MOST_GPUS, False), (MOST_GPUS + 5, True)])
def test_no_more_gpus_are_opened_than_a_node_can_have(count: int, is_reported: bool) -> None:
    sweeper: Any = Sweeper(driver=Counting(count))
    sweeper._open()
    assert len(sweeper._unopened) == len(sweeper._todo) == MOST_GPUS
    errors = [error["message"] for error in sweeper.take().errors]
    shown = f"{count} GPUs: {MOST_GPUS} are read, 5 are not"
    assert errors == ([shown] if is_reported else [])
