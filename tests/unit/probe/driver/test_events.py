"""Xids reach the reports, in bounded number, and no GPU that does not report them is blamed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gpumon.model.missing import Reason
from gpumon.probe.driver.events import MOST_PER_PERIOD, MOST_SHOWN, SHOWN_S, Events
from gpumon.probe.rows import Row
from tests.worlds.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]


def keys(frame: Frame) -> tuple[str, ...]:
    return frame.block("event").keys


def test_an_xid_names_gpu_number_and_age(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.event(0, 13)
    node.state.write()
    with Probe() as probe:
        # What lies before the start of the probe is not reported by the driver.
        assert keys(probe.frame()) == ()
        node.state.event(1, 79)
        node.state.event(1, 48, event_type=0x2)
        node.state.write()
        frame = probe.frame(lambda frame: len(keys(frame)) == 2)
        again = probe.frame()
    uuid = frame.block("gpu").keys[1]
    events = frame.block("event")
    assert events.keys == (f"{uuid}/79/1", f"{uuid}/48/2")
    assert [events.value("xid", row) for row in (0, 1)] == [79, None]
    assert events.reason("xid", 1) is Reason.NOT_SUPPORTED
    assert [events.value("event_type", row) for row in (0, 1)] == [8, 2]
    assert again.block("event").keys == events.keys
    age, later = events.value("event_age_s", 0), again.block("event").value("event_age_s", 0)
    assert age is not None
    assert later is not None
    # Both are counted from one time, which ways of another length do not move.
    assert later >= age >= 0
    assert frame.errors == ()


def test_a_storm_is_bounded_and_said(standin: Start) -> None:
    node = standin("h100", gpus=1)
    with Probe() as probe:
        probe.frame()
        for number in range(100):
            node.state.event(0, number)
        node.state.write()
        frame = probe.frame(lambda frame: bool(keys(frame)))
    assert len(keys(frame)) == MOST_SHOWN
    assert keys(frame)[-1].endswith("/99/100")
    (error,) = frame.errors
    assert f"{100 - MOST_SHOWN} events" in error.message


def test_a_gpu_without_events_says_so_once_and_is_otherwise_well(standin: Start) -> None:
    node = standin("h100", gpus=2)
    node.state.gpu(0, event_types=0)
    node.state.error("nvmlDeviceRegisterEvents", 4, gpu=1)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
        probe.frame()
    gpus = frame.block("gpu")
    assert gpus.reason("watched_events", 0) is Reason.NOT_SUPPORTED
    assert gpus.reason("watched_events", 1) is Reason.NO_PERMISSION
    assert frame.errors == ()
    assert node.counts()["nvmlDeviceRegisterEvents"].total == 1
    assert "nvmlEventSetWait_v2" not in node.counts()


def test_only_known_types_are_asked_for(standin: Start) -> None:
    standin("rtx", gpus=1)
    with Probe() as probe:
        assert probe.frame().block("gpu").value("watched_events", 0) == 0x8


class Quiet:
    """A driver that never has anything to report."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_an_event_is_forgotten_after_a_while() -> None:
    driver = Quiet()
    events = Events(driver)  # type: ignore[arg-type]
    events._shown.append((driver.now, 1, "GPU-1", 8, 79))
    driver.now += SHOWN_S
    (row,) = events.rows()
    assert isinstance(row, Row)
    assert row.values == {"event_type": 8, "event_age_s": SHOWN_S, "xid": 79}
    driver.now += 0.1
    assert events.rows() == []


class Stormy:
    """A driver in which events never end."""

    def __init__(self) -> None:
        self.asked = 0

    def monotonic(self) -> float:
        return 5.0

    def call(self, function: str, gpu: str, *arguments: Any) -> Any:
        return 8

    def ask(self, function: str, gpu: str, *arguments: Any) -> Any:
        self.asked += 1
        return SimpleNamespace(device=None, eventType=8, eventData=31)


def test_a_storm_holds_up_no_beat() -> None:
    driver: Any = Stormy()
    events = Events(driver)
    events.register(None, "GPU-1", Row("GPU-1", 5.0))
    events.poll()
    assert driver.asked == MOST_PER_PERIOD
    assert len(events.rows()) == MOST_SHOWN
    assert events.dropped == MOST_PER_PERIOD - MOST_SHOWN
    events.poll()
    assert driver.asked == 2 * MOST_PER_PERIOD
