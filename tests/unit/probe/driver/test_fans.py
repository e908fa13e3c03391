"""How fast a GPU's fans turn, and that a board without any is asked once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.missing import Reason
from gpumon.probe.driver.gpu import MOST_FANS
from tests.worlds.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

UINT_MAX = 2**32 - 1


def value(frame: Frame, key: str, row: int = 0) -> float | int | None:
    return frame.block("gpu").value(key, row)


def reason(frame: Frame, key: str, row: int = 0) -> Reason | None:
    return frame.block("gpu").reason(key, row)


def test_the_fastest_fan_counts(standin: Start) -> None:
    node = standin("rtx", gpus=3)
    node.state.gpu(0, fan_percent=61, fan_2_percent=37)
    node.state.gpu(1, fan_percent=0, fan_2_percent=0)
    node.state.gpu(2, fan_percent=90, fan_2_percent=106)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert value(frame, "fan_speed_ratio") == pytest.approx(0.61)
    # Resting fans are no missing ones.
    assert value(frame, "fan_speed_ratio", row=1) == 0
    # Faster than its noise allows (nvml.h).
    assert value(frame, "fan_speed_ratio", row=2) == 1


def test_a_board_without_fans_is_asked_once(standin: Start) -> None:
    node = standin("h100", gpus=1)
    with Probe() as probe:
        frames = [probe.frame() for _ in range(3)]
    assert {reason(frame, "fan_speed_ratio") for frame in frames} == {Reason.NOT_SUPPORTED}
    counts = node.counts()
    assert counts["nvmlDeviceGetNumFans"].total == 1
    assert "nvmlDeviceGetFanSpeed_v2" not in counts


@pytest.mark.parametrize("refused", ["nvmlDeviceGetNumFans", "nvmlDeviceGetFanSpeed_v2"])
@pytest.mark.parametrize("code", [3, 13])
def test_a_driver_that_knows_no_fans_is_asked_once(refused: str, code: int, standin: Start) -> None:
    node = standin("rtx", gpus=1)
    node.state.error(refused, code)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert reason(frame, "fan_speed_ratio") is Reason.NOT_SUPPORTED
    assert frame.errors == ()
    # A missing symbol never gets as far as the driver's count of calls.
    assert refused not in node.counts() or node.counts()[refused].total == 1


def test_a_driver_that_counts_fans_without_end_is_asked_for_some(standin: Start) -> None:
    node = standin("rtx", gpus=1)
    node.state.garbage("nvmlDeviceGetNumFans", UINT_MAX)
    node.state.garbage("nvmlDeviceGetFanSpeed_v2", 10_000)
    node.state.write()
    with Probe() as probe:
        frame = probe.frame()
    assert value(frame, "fan_speed_ratio") is None
    assert node.counts()["nvmlDeviceGetFanSpeed_v2"].total <= MOST_FANS
