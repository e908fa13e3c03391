"""Scenes of GPUs whose clock is held down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.detect.scene import WORKING, Scene
from tools.sentences.stage import alike

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 30.0

_BUSY: Final[Values] = {
    **WORKING,
    "gpu_util_ratio": 0.98,
    "sm_active_ratio": 0.8,
    "clock_event_reasons": 0x4,
    "sm_clock_mhz": 1650.0,
    "power_w": 655.0,
    "power_limit_w": 700.0,
}
"""A GPU at full work, kept to its power limit as all of its kind are."""

_WAITING: Final[Values] = {**_BUSY, "sm_active_ratio": 0.55, "power_w": 520.0}
"""The same with a third of its time in a collective."""


def _held(bits: int, mhz: float = 1400.0) -> Values:
    return {**_BUSY, "clock_event_reasons": bits, "sm_clock_mhz": mhz, "power_w": 430.0}


def _job(gpu_count: int = 4) -> tuple[Scene, tuple[str, ...]]:
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", gpu_count)
    scene.job("42", uuids)
    return scene, uuids


def _one_of_four(slow: Values, seconds: float, others: Values = _BUSY) -> Scene:
    """One GPU of four that is slow after a quarter of an hour in which all were sound."""
    scene, uuids = _job()
    for uuid in uuids:
        scene.gpu(uuid, temp_slowdown_c=87, power_limit_default_w=700)
    scene.run(900, alike(uuids, _BUSY))
    scene.run(seconds, {**alike(uuids, others), uuids[1]: slow})
    return scene


def heat_for_minutes() -> Scene:
    """Heat holds the clock of one of a job's four GPUs down for eight minutes."""
    return _one_of_four(_held(0x40), 480)


def heat_for_longer() -> Scene:
    """It does for a quarter of an hour."""
    return _one_of_four(_held(0x40), 930)


def heat_for_sure() -> Scene:
    """It does for more than half an hour, and the clock is half of what it was."""
    return _one_of_four(_held(0x40, 800.0), 1860)


def heat_in_software() -> Scene:
    """The driver slows the GPU down before it is too hot, and names the power cap as well."""
    return _one_of_four(_held(0x24), 930)


def power_brake() -> Scene:
    """The node's power brake holds the clock down."""
    return _one_of_four(_held(0x80), 930)


def slowdown_of_the_board() -> Scene:
    """The board slows itself down, and nothing says why."""
    return _one_of_four(_held(0x8), 930)


def others_wait() -> Scene:
    """The job's other GPUs do less since then."""
    return _one_of_four(_held(0x40, 1000.0), 930, _WAITING)


def no_reason() -> Scene:
    """The clock is below those of its like from the start, and no reason is reported."""
    scene, uuids = _job()
    scene.run(930, {**alike(uuids, _BUSY), uuids[1]: _held(0x0, 1180.0)})
    return scene


def no_reason_mostly() -> Scene:
    """The power cap is reported in a few of its samples."""
    scene, uuids = _job()
    slow = {**_held(0, 1180.0), "clock_event_reasons": lambda s: 0x4 if s % 600 == 0 else 0x0}
    scene.run(1260, {**alike(uuids, _BUSY), uuids[1]: slow})
    return scene


def no_reason_for_sure() -> Scene:
    """It stays there for more than half an hour, a third below the others."""
    scene, uuids = _job()
    scene.run(1860, {**alike(uuids, _BUSY), uuids[1]: _held(0x0, 1100.0)})
    return scene


def all_of_a_job() -> Scene:
    """Heat holds all GPUs of a job down from its start, and another job's are sound."""
    scene, mine = _job()
    others = scene.node("n2", 4)
    scene.job("43", others)
    slow = {**_held(0x40), "power_w": 600.0}
    scene.run(930, {**alike(mine, slow), **alike(others, _BUSY)})
    return scene


def all_of_the_fleet() -> Scene:
    """Heat holds the only GPU down from the start, and what its board can do is known."""
    scene, uuids = _job(1)
    scene.run(930, alike(uuids, {**_held(0x40), "sm_clock_max_mhz": 1980.0}))
    return scene


def nothing_to_compare_with() -> Scene:
    """Nothing is known of its board either."""
    scene, uuids = _job(1)
    scene.run(930, alike(uuids, _held(0x40)))
    return scene


def board_of_a_workstation() -> Scene:
    """Heat holds a GPU down again and again on a machine that no queue lists."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("desk", 1)
    scene.unlist("desk")
    scene.process(311, uuids, uid=1007, name="python")
    hot, at_limit = _held(0x40, 1100.0), _BUSY
    for _ in range(12):
        scene.run(3 * _PERIOD_S, alike(uuids, hot))
        scene.run(_PERIOD_S, alike(uuids, at_limit))
    scene.run(_PERIOD_S, alike(uuids, hot))
    return scene


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "throttled": (
        heat_for_minutes,
        heat_for_longer,
        heat_for_sure,
        heat_in_software,
        power_brake,
        slowdown_of_the_board,
        others_wait,
        no_reason,
        no_reason_mostly,
        no_reason_for_sure,
        all_of_a_job,
        all_of_the_fleet,
        nothing_to_compare_with,
        board_of_a_workstation,
    ),
}
