"""A call that never returns costs its own GPU only; it is named, and taken back when it returns."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.probe.driver import Calling, Driver
from gpumon.probe.sweep import INIT_STUCK_AFTER_S, MOST_ABANDONED, STUCK_AFTER_S, Sweeper
from tests.probing import Probe, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

TIERS = {
    "hot": "nvmlDeviceGetUtilizationRates",
    "medium": "nvmlDeviceGetPerformanceState",
    "slow": "nvmlDeviceGetComputeMode",
}


class Time:
    """Seconds that pass when a test says so."""

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
        ("nvmlInit", "", INIT_STUCK_AFTER_S),
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
    assert name in stuck["message"]
    assert gpu in stuck["message"]
    assert f"{limit_s:.0f} s" in stuck["message"]
    found = sweeper.take()
    assert (found.gpus, found.contexts, found.errors) == ([], [], [stuck])


def test_when_more_calls_hang_than_threads_may_be_given_up_it_is_the_driver() -> None:
    time = Time()
    sweeper = Sweeper(driver=Driver(time.monotonic))
    for thread in range(MOST_ABANDONED + 1):
        sweeper.driver.calling[thread] = Calling("nvmlX", f"GPU-{thread}", time.now)
    time.now += STUCK_AFTER_S
    messages = [error["message"] for error in sweeper.stuck()]
    assert len(messages) == MOST_ABANDONED + 2
    assert "as a whole" in messages[-1]


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
        assert TIERS[tier] in error.message
        assert seen.block("gpu").keys[1] in error.message
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
        assert "(GPU 0)" in frame.errors[0].message


def test_two_gpus_that_hang_leave_the_third(standin: Start) -> None:
    node = standin("h100", gpus=3)
    node.state.hang("nvmlDeviceGetTemperature", gpu=0)
    node.state.hang("nvmlDeviceGetComputeMode", gpu=1)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: len(frame.errors) == 2)
    assert present(frame) == [False, False, True]


def test_a_driver_that_holds_everybody_up_is_said_to_hang_as_a_whole(standin: Start) -> None:
    node = standin("h100", gpus=4)
    with Probe() as probe:
        assert all(present(probe.frame()))
        node.state.set(hang_holds_driver=1)
        node.state.hang("nvmlDeviceGetTemperature", gpu=0)
        node.state.write()
        frame = probe.frame(lambda frame: len(frame.errors) == MOST_ABANDONED + 2)
        assert present(frame) == [False] * 4
        assert "as a whole" in frame.errors[-1].message
        later = probe.frame()
        assert len(later.errors) == MOST_ABANDONED + 2
        assert later.block("node").keys


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


def test_waiting_for_events_that_hangs_costs_the_events_only(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.hang("nvmlEventSetWait_v2")
    node.state.write()
    with Probe() as probe:
        frame = probe.frame(lambda frame: bool(frame.errors))
        later = probe.frame()
    assert present(frame) == present(later) == [True, True]
    assert "nvmlEventSetWait_v2" in frame.errors[0].message


class Late:
    """A driver of which one call waits until the test lets it return."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, time: Time) -> None:
        pynvml = pytest.importorskip("pynvml")
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
