"""A call that never returns costs its own GPU only; it is named, and taken back when it returns."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpumon.model.missing import Reason
from gpumon.probe.driver.driver import Calling, Driver
from gpumon.probe.driver.events import MOST_SHOWN
from gpumon.probe.driver.sweep import MOST_ABANDONED, OPENING_STUCK_AFTER_S, STUCK_AFTER_S, Sweeper
from tests.worlds.probe import PATIENCE_S, Probe, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

TIERS = {
    "hot": "nvmlDeviceGetUtilizationRates",
    "medium": "nvmlDeviceGetPerformanceState",
    "slow": "nvmlDeviceGetComputeMode",
}


class Time:
    """Seconds that pass when a test lets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def present(frame: Frame) -> list[bool]:
    gpus = frame.block("gpu")
    return [gpus.value("temp_c", row) is not None for row in range(len(gpus.keys))]


@pytest.mark.parametrize(
    ("name", "gpu", "limit_s"),
    [
        ("nvmlInit", "", OPENING_STUCK_AFTER_S["nvmlInit"]),
        ("nvmlDeviceGetTemperature", "GPU-7", STUCK_AFTER_S),
    ],
)
def test_a_call_is_stuck_after_a_while_of_which_opening_the_driver_may_take_more(
    name: str, gpu: str, limit_s: float
) -> None:
    time = Time()
    sweeper = Sweeper(driver=Driver(time.monotonic))
    assert sweeper.stuck() == []
    sweeper.driver.calling[1] = Calling(name, gpu, time.now)
    time.now += limit_s - 0.01
    assert sweeper.stuck() == []
    time.now += 0.02
    (stuck,) = sweeper.stuck()
    assert stuck["message"].startswith(name)
    assert stuck["where"] == (f"GPU {gpu}" if gpu else "NVML")
    assert f"{limit_s:.0f} s" in stuck["message"]
    found = sweeper.take()
    assert (found.gpus, found.contexts, found.errors) == ([], [], [stuck])


def test_when_more_calls_hang_than_threads_may_be_given_up_it_is_the_driver(
    said: Callable[..., None],
) -> None:
    time = Time()
    sweeper = Sweeper(driver=Driver(time.monotonic))
    for thread in range(MOST_ABANDONED + 1):
        sweeper.driver.calling[thread] = Calling("nvmlX", f"GPU-{thread}", time.now)
    time.now += STUCK_AFTER_S
    messages = [error["message"] for error in sweeper.stuck()]
    assert len(messages) == MOST_ABANDONED + 2
    assert "as a whole" in messages[-1]
    said(messages[-1])


@pytest.mark.parametrize("tier", ["hot", "medium", "slow"])
def test_the_other_gpus_go_on_beside_a_hung_call_of_each_tier(tier: str, standin: Start) -> None:
    node = standin("h100", gpus=4)
    node.state.hang(TIERS[tier], gpu=1)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: bool(frame.errors))
        after = [probe.frame() for _ in range(4)]
    for seen in (frame, *after):
        assert present(seen) == [True, False, True, True]
        (error,) = seen.errors
        assert error.message.startswith(f"{TIERS[tier]} has not returned for ")
        assert error.where.endswith(f"GPU 1 {seen.block('gpu').keys[1]}")
        links = seen.block("link")
        states = [links.value("link_state", row) for row in range(len(links.keys))]
        assert [states[gpu * 18] for gpu in range(4)] == [1, None, 1, 1]


def test_a_gpu_that_hangs_before_it_has_a_name_is_left_out_and_named_by_index(
    standin: Start,
) -> None:
    node = standin("h100", gpus=3)
    node.state.hang("nvmlDeviceGetUUID", gpu=0)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: bool(frame.errors))
        assert list(frame.block("gpu").columns["index"]) == [1, 2]
        assert present(probe.frame()) == [True, True]
        assert frame.errors[0].where.endswith("GPU 0")


def test_two_gpus_that_hang_leave_the_third(standin: Start) -> None:
    node = standin("h100", gpus=3)
    node.state.hang("nvmlDeviceGetTemperature", gpu=0)
    node.state.hang("nvmlDeviceGetComputeMode", gpu=1)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: len(frame.errors) == 2)
    assert present(frame) == [False, False, True]


@pytest.mark.slow
def test_a_driver_that_holds_everybody_up_is_said_to_hang_as_a_whole(standin: Start) -> None:
    node = standin("h100", gpus=4)
    with Probe() as probe:
        assert all(present(probe.frame()))
        node.state.set(hang_holds_driver=1)
        node.state.hang("nvmlDeviceGetTemperature", gpu=0)
        node.state.write()
        frame = probe.next_frame(lambda frame: len(frame.errors) == MOST_ABANDONED + 2)
        assert present(frame) == [False] * 4
        assert "as a whole" in frame.errors[-1].message
        later = probe.frame()
        assert len(later.errors) == MOST_ABANDONED + 2
        assert later.block("node").keys


@pytest.mark.slow
def test_a_driver_that_hangs_while_it_is_opened_is_named(standin: Start) -> None:
    node = standin("h100", gpus=1)
    node.state.hang("nvmlInitWithFlags")
    node.state.write()
    with Probe(once=True) as probe:
        frame = probe.frame()
        probe.until_end()
    assert frame.block("gpu").keys == ()
    (error,) = frame.errors
    assert "nvmlInit" in error.message


def test_waiting_for_events_that_hangs_costs_the_events_only(
    standin: Start, said: Callable[..., None]
) -> None:
    node = standin("h100", gpus=2)
    node.state.hang("nvmlEventSetWait_v2")
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: bool(frame.errors))
        later = probe.frame()
    assert present(frame) == present(later) == [True, True]
    assert "nvmlEventSetWait_v2" in frame.errors[0].message
    said(frame.errors[0].message, frame.errors[0].hint)


class Late:
    """A driver of which one call waits until the test lets it return."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, time: Time) -> None:
        self.entered, self.returns = threading.Event(), threading.Event()
        self.reads: list[str] = []
        self.driver = Driver(time.monotonic)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", self.temperature)

    def temperature(self, handle: Any, _: int = 0) -> int:
        self.reads.append(handle)
        if handle == "slow" and not self.returns.is_set():
            self.entered.set()
            assert self.returns.wait(30)
        return 40


class FakeGpu:
    """As much of a GPU as a pass needs."""

    needs_throughput = False

    def __init__(self, driver: Driver, uuid: str) -> None:
        self.driver, self.uuid, self.handle = driver, uuid, uuid

    def read(self, *_: object) -> str:
        self.driver.call("nvmlDeviceGetTemperature", self.uuid, self.handle)
        return "read"


def test_a_gpu_whose_call_returns_after_all_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    late = Late(monkeypatch, time)
    sweeper: Any = Sweeper(driver=late.driver)
    sweeper._is_open = True
    sweeper._gpus = [FakeGpu(late.driver, uuid) for uuid in ("slow", "quick")]
    sweeper.start()
    sweeper.ask()
    assert late.entered.wait(30)
    assert sweeper.supervise() is False
    time.now += STUCK_AFTER_S
    assert sweeper.supervise() is False
    assert sweeper._done.wait(30)
    assert late.reads == ["slow", "quick"]
    sweeper.ask()
    assert sweeper._done.wait(30)
    assert late.reads == ["slow", "quick", "quick"]
    assert list(sweeper._held) == ["slow"]
    late.returns.set()
    eventually(lambda: not sweeper._held, "the thread has given its GPU back")
    assert late.driver.abandoned == set()
    assert sweeper.stuck() == []
    sweeper.ask()
    assert sweeper._done.wait(30)
    assert late.reads[3:] == ["slow", "quick"]


def test_a_gpu_of_which_reading_fails_strangely_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trouble: list[Exception] = [ValueError("year 0 is out of range")]

    def temperature(handle: Any, _: int = 0) -> int:
        if handle == "strange" and trouble:
            raise trouble.pop()
        return 40

    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", temperature)
    sweeper: Any = Sweeper()
    sweeper._is_open = True
    sweeper._gpus = [FakeGpu(sweeper.driver, uuid) for uuid in ("strange", "quick")]
    for number, gpu in enumerate(sweeper._gpus):
        gpu.index = number
    sweeper.start()
    sweeper.ask()
    assert sweeper._done.wait(PATIENCE_S)
    assert list(sweeper._fresh) == ["quick"]
    (error,) = sweeper._unresolved.values()
    assert error["message"] == "reading 0 strange failed: ValueError('year 0 is out of range')"
    sweeper.ask()
    assert sweeper._done.wait(PATIENCE_S)
    assert list(sweeper._fresh) == ["quick", "strange"]
    assert sweeper._unresolved == {}


class SlowGpu(FakeGpu):
    """A GPU of which every reading takes 0.6 s."""

    def __init__(self, driver: Driver, uuid: str, time: Time, hurried: list[str]) -> None:
        super().__init__(driver, uuid)
        self.time, self.hurried = time, hurried

    def read(self, *flags: object) -> str:
        self.time.now += 0.6
        self.hurried += [self.uuid] if flags[2] else []
        return "read"


def test_a_slow_driver_is_asked_for_everything_in_turns() -> None:
    """At 20 ms a call a whole reading of eight GPUs would take longer than a report waits."""
    time, hurried = Time(), list[str]()
    sweeper: Any = Sweeper(driver=Driver(time.monotonic))
    sweeper._is_open = True
    sweeper._gpus = [SlowGpu(sweeper.driver, uuid, time, hurried) for uuid in "abc"]
    for _ in range(3):
        sweeper.sweep()
    assert hurried == ["c", "a", "b"]


def test_gpus_learn_what_they_share_with_each_other(standin: Start) -> None:
    standin("h100", gpus=3)
    with Probe(once=True) as probe:
        gpus = probe.frame().block("gpu")
    shared = [dict(pair.split("=") for pair in (text or "").split(","))
              for text in gpus.labels["common_ancestors"]]  # fmt: skip
    for row, one in enumerate(gpus.keys):
        assert set(shared[row]) == set(gpus.keys) - {one}
        assert set(shared[row].values()) <= {"board", "PIX", "PXB", "PHB", "NODE", "SYS"}
    assert shared[0][gpus.keys[1]] == shared[1][gpus.keys[0]]


def test_a_lone_gpu_shares_with_none(standin: Start) -> None:
    standin("h100", gpus=1)
    with Probe(once=True) as probe:
        gpus = probe.frame().block("gpu")
    assert gpus.reason("common_ancestors", 0) is Reason.NOT_SUPPORTED


def test_a_storm_of_xids_is_bounded_and_the_rest_counted(
    standin: Start, said: Callable[..., None]
) -> None:
    node = standin("h100", gpus=2)
    with Probe() as probe:
        probe.frame(lambda frame: present(frame) == [True, True])
        for number in range(200):
            node.state.event(number % 2, 94)
        node.state.write()
        frame = probe.frame(lambda frame: bool(frame.errors))
    assert 0 < len(frame.block("event").keys) <= MOST_SHOWN
    assert "events were too many to show" in frame.errors[0].message
    said(frame.errors[0].message, frame.errors[0].hint)
    assert present(frame) == [True, True]


def test_processes_that_come_and_go_are_bounded_and_right(standin: Start) -> None:
    """1,000 PIDs a minute: every list is of now, and nothing of the gone is left."""
    node = standin("h100", gpus=1)
    with Probe(period_s=0.1) as probe:
        for number in range(8):
            for key in [key for key in node.state.values if ".process." in key]:
                del node.state.values[key]
            node.state.gpu(0, mem_used_bytes=(number + 1) << 30)
            for pid in range(17):
                node.state.process(0, 4_000_000 + 17 * number + pid, 1 << 20)
            node.state.write()
            frame = probe.frame()
            assert len(frame.block("process").keys) <= 17
            assert set(frame.block("process").keys) == {
                key.partition("/")[0] for key in frame.block("context").keys
            }
        last = {str(4_000_000 + 17 * 7 + pid) for pid in range(17)}
        frame = probe.frame(lambda frame: set(frame.block("process").keys) == last)
        assert frame.block("gpu").value("process_count", 0) == 17


def test_a_gpu_that_asks_for_a_reset_says_so_and_leaves_the_others(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.error("nvmlDeviceGetMemoryInfo", 16, gpu=1)
    node.state.error("nvmlDeviceGetMemoryInfo_v2", 16, gpu=1)
    node.state.write()
    with Probe(once=True) as probe:
        frame = probe.frame()
    gpus = frame.block("gpu")
    assert gpus.value("mem_used_bytes", 0) is not None
    assert gpus.reason("mem_used_bytes", 1) is Reason.FAILED
    (error,) = frame.errors
    assert gpus.keys[1] in error.where
    assert "requires restart" in error.message
    assert "reset" in error.hint
