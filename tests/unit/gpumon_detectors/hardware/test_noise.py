"""Broken hardware at every usual period, with what telemetry suffers: found, and nobody is accused.

Each scene is looked at again and again, and what is said lives as it does in the monitor: a finding
that flickers would show as one that was taken back.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest

from tests.unit.gpumon_detectors.hardware_scenes import FIT, LINKS, Fleet
from tests.unit.gpumon_detectors.noise import BETWEEN_HOLES_S, HOLE_S, TROUBLES, troubles_at

SOUND_S = 720.0
HOT = {"clock_event_reasons": 0x40, "sm_clock_mhz": 1279.0, "power_w": 402.0}
STUCK = {"sm_clock_mhz": 1131.0, "power_w": 377.0}
DARK = {"temp_c": None, "power_w": None, "mem_used_bytes": None, "gpu_util_ratio": None}
NO_LINK = {
    "state": "DOWN",
    "phys_state": "Polling",
    "nic_speed_gbps": 10.0,
    "nic_rx_bytes_per_s": 0.0,
    "nic_tx_bytes_per_s": 0.0,
    "nic_link_downed": 1,
}


class Fault(NamedTuple):
    """Something that breaks, and what is to be said of it."""

    rule: str
    subject: str
    told: tuple[tuple[str, tuple, dict], ...]
    """What is told from then on: of which kind of thing, of which one, values."""
    lasts_s: float
    nodes: int = 1
    gpus: int = 4
    loss: float | None = None
    """Loss of the GPU a second; None: none is told."""
    is_known_after_restart: bool = True
    """Whether it can be told from then on, by who did not see how it was before."""
    event_s: float = 0.0
    """Seconds between two of its events: behind a restart it shows with the next one."""
    counted_s: float = 0.0
    """So long its events are counted to tell how often they come."""


GPU = "GPU-m0-1"
PAIR = ("GPU-m0-0", GPU)
FAULTS = {
    "held down by heat": Fault(
        "throttled", f"gpu:{GPU}", (("gpu", (GPU,), HOT),), 800.0, loss=1 - 1279 / 1740
    ),
    "slow without a reason": Fault(
        "throttled", f"gpu:{GPU}", (("gpu", (GPU,), STUCK),), 800.0, loss=1 - 1131 / 1740
    ),
    "lost time counted": Fault(
        "throttled",
        f"gpu:{GPU}",
        (("gpu", (GPU,), {**STUCK, "power_w": 640.0, "hw_thermal_us": lambda s: 3.1e5 * s}),),
        800.0,
        loss=1 - 1131 / 1740,
    ),
    "lanes lost": Fault(
        "pcie_degraded", f"gpu:{GPU}", (("gpu", (GPU,), {"pcie_width": 2.0}),), 500.0
    ),
    "generation of the only GPU lost": Fault(
        "pcie_degraded",
        "gpu:GPU-m0-0",
        (("gpu", ("GPU-m0-0",), {"pcie_gen": 2.0}),),
        500.0,
        gpus=1,
        is_known_after_restart=False,
    ),
    "packets sent again": Fault(
        "pcie_degraded",
        f"gpu:{GPU}",
        (("gpu", (GPU,), {"pcie_replay_count": lambda s: 3 + s * 11 // 60}),),
        1000.0,
        counted_s=60.0,
    ),
    "memory errors": Fault(
        "gpu_fault",
        f"gpu:{GPU}",
        (("gpu", (GPU,), {"ecc_uncorrected_volatile_count": 5.0}),),
        400.0,
    ),
    "rows to be replaced": Fault(
        "gpu_fault", f"gpu:{GPU}", (("gpu", (GPU,), {"remap_pending": 1.0}),), 400.0
    ),
    "off the bus": Fault("gpu_fault", f"gpu:{GPU}", (("fall", (GPU,), {}),), 400.0, loss=1.0),
    "gone from the list": Fault(
        "gpu_missing", "node:m0", (("lose", (GPU,), {}),), 400.0, is_known_after_restart=False
    ),
    "a link of the switch": Fault(
        "fabric_degraded", f"gpu:{GPU}", (("link", (GPU, 2), {"link_state": 0}),), 400.0
    ),
    "a slow link": Fault(
        "fabric_degraded",
        f"gpu:{GPU}",
        (("link", (GPU, 0), {"link_speed_bytes_per_s": 12.5e9}),),
        400.0,
    ),
    "recoveries": Fault(
        "fabric_degraded",
        f"gpu:{GPU}",
        (("gpu", (GPU,), {"nvlink_recovery_count": lambda s: 2 + s // 610}),),
        2600.0,
        event_s=610.0,
    ),
    "many checksum errors": Fault(
        "fabric_degraded",
        f"gpu:{GPU}",
        (("gpu", (GPU,), {"nvlink_crc_flit_count": lambda s: 11 + 170 * s}),),
        1000.0,
    ),
    "a port without a link": Fault(
        "network_degraded", "node:m0", (("nic", ("m0", "mlx5_1/1"), NO_LINK),), 400.0
    ),
    "a port slower than others": Fault(
        "network_degraded",
        "node:m0",
        (("nic", ("m0", "mlx5_1/1"), {"nic_speed_gbps": 100.0}),),
        400.0,
        nodes=3,
        gpus=2,
    ),
    "a port that flaps": Fault(
        "network_degraded",
        "node:m0",
        (("nic", ("m0", "mlx5_1/1"), {"nic_link_downed": lambda s: 1 + s // 1130}),),
        2600.0,
        event_s=1130.0,
    ),
    "symbol errors": Fault(
        "network_degraded",
        "node:m0",
        (("nic", ("m0", "mlx5_0/1"), {"nic_symbol_error": lambda s: 1 + s // 17}),),
        1000.0,
    ),
    "a silent node": Fault(
        "telemetry_lost", "node:m0", (("silence", ("m0",), {}),), 400.0, 3, 2, None, False
    ),
    "a silent GPU": Fault(
        "telemetry_lost",
        "node:m0",
        (("gpu", (GPU,), DARK),),
        400.0,
        is_known_after_restart=False,
    ),
}


FORGOTTEN = (
    "generation of the only GPU lost",
    "gone from the list",
    "a silent GPU",
)
"""Of a node that was silent before a restart nothing was ever heard: no scene has one."""


def grid(names, without=frozenset()):
    """Each name with each period and trouble, of which every day some for each name are tried.

    Args:
        names: of scenes.
        without: names and troubles that do not go together.
    """
    every = product(enumerate(names), (1.0, 10.0, 30.0, 60.0))
    return [
        _on_grid(name, number, period_s, trouble)
        for (number, name), period_s in every
        for trouble in troubles_at(period_s)
        if (name, trouble) not in without
    ]


def _on_grid(name, number, period_s, trouble):
    turn = TROUBLES[number % len(TROUBLES)]
    is_quick = (period_s, trouble) in ((60.0, turn), (60.0, "missing"))
    is_quick |= (period_s, trouble) == (10.0, "missing") and number % 5 == 1
    marks = () if is_quick else (pytest.mark.slow,)
    return pytest.param(name, period_s, trouble, marks=marks, id=f"{name}-{period_s:.0f}-{trouble}")


PERIODS = (*(pytest.param(p, marks=pytest.mark.slow) for p in (1.0, 10.0, 30.0)), 60.0)


def broken(fault, period_s, trouble):
    """A fleet that was sound, and in which something broke; Unix time of the first sample of it.

    With holes the fault outlasts one; with a restart nothing is known of its first half.
    """
    begun_s = fault.lasts_s if trouble == "restart" else 0.0
    fleet = Fleet(period_s, trouble, fault.nodes, fault.gpus, begun_s)
    if not begun_s:
        fleet.run(SOUND_S)
        assert fleet.said == []
    began_at = fleet.scene.next_at
    for what, where, values in fault.told:
        fleet.tell(what, *where, **values)
    lasts_s = BETWEEN_HOLES_S + HOLE_S + max(900.0, fault.lasts_s)
    fleet.run(lasts_s if trouble == "holes" else fault.lasts_s)
    return fleet, began_at


@pytest.mark.parametrize(
    ("name", "period_s", "trouble"),
    grid(
        FAULTS, {(n, "restart") for n, fault in FAULTS.items() if not fault.is_known_after_restart}
    ),
)
def test_a_fault_is_found_once_and_stands(name, period_s, trouble):
    fault = FAULTS[name]
    fleet, began_at = broken(fault, period_s, trouble)
    (finding,) = fleet.standing
    assert fleet.cleared == ()
    assert (finding.detector, finding.subject) == (fault.rule, fault.subject)
    assert finding.confidence in ("supported", "established")
    assert {(f.detector, f.subject) for f in fleet.said} == {(fault.rule, fault.subject)}
    late_s = (
        max(3 * period_s, 20.0) + fault.counted_s + (fault.event_s if trouble == "restart" else 0.0)
    )
    assert began_at <= finding.began_at <= began_at + late_s
    if fault.loss is None:
        assert finding.gpu_seconds is None
        return
    length_s = finding.window.end - finding.window.start
    assert 0.9 * fault.loss * length_s <= finding.gpu_seconds <= 1.01 * fault.loss * length_s


@pytest.mark.parametrize("period_s", PERIODS)
@pytest.mark.parametrize("name", FORGOTTEN)
def test_nothing_is_sure_of_what_only_the_time_before_a_restart_would_tell(name, period_s):
    fleet, _ = broken(FAULTS[name], period_s, "restart")
    assert {finding.confidence for finding in fleet.said} <= {"hypothesis"}


REMEMBERED = {
    "a GPU that is gone": [("lose", (GPU,), {})],
    "a GPU that fell silent": [("gpu", (GPU,), DARK)],
    "a generation that was higher": [("gpu", (PAIR[0],), {"pcie_gen": 3.0})],
    "a link that was active": [("link", (uuid, 1), {"link_state": 0}) for uuid in PAIR],
    "a port that was faster": [("nic", ("m0", "mlx5_1/1"), {"nic_speed_gbps": 200.0})],
}
"""What breaks, of which only the time before tells that it did."""


@pytest.mark.parametrize("period_s", [pytest.param(1.0, marks=pytest.mark.slow), 10.0])
@pytest.mark.parametrize("name", REMEMBERED)
def test_what_was_seen_before_a_hole_is_known_behind_it(name, period_s):
    fleet = Fleet(period_s, gpu_count=1 if "generation" in name else 2)
    for uuid in fleet.uuids:
        for number in range(LINKS):
            fleet.tell("link", uuid, number, remote_type="gpu")
    fleet.run(300.0)
    began_at = fleet.scene.next_at
    for what, where, values in REMEMBERED[name]:
        fleet.tell(what, *where, **values)
    fleet.run(330.0)
    fleet.scene.skip(HOLE_S)
    fleet.run(330.0, 330.0)
    assert fleet.claimed
    assert {finding.confidence for finding in fleet.claimed} <= {"supported", "established"}
    assert {finding.began_at for finding in fleet.standing} == {began_at}


@pytest.mark.parametrize("period_s", [pytest.param(1.0, marks=pytest.mark.slow), 10.0])
@pytest.mark.parametrize(
    ("what", "where", "counter"),
    [
        pytest.param("gpu", (GPU,), "nvlink_recovery_count", marks=pytest.mark.slow),
        pytest.param("gpu", (GPU,), "nvlink_replay_count", marks=pytest.mark.slow),
        ("nic", ("m0", "mlx5_0/1"), "nic_link_downed"),
    ],
)
def test_events_far_apart_are_counted_across_holes_and_in_them(what, where, counter, period_s):
    fleet = Fleet(period_s, "holes")
    # One within the second hole, the others about as far from the holes as they can be.
    fleet.tell(what, *where, **{counter: lambda s: 7 + sum(s >= at for at in (800, 2960, 3100))})
    fleet.run(BETWEEN_HOLES_S * 2 + 420.0, 420.0)
    (finding,) = fleet.claimed
    assert finding.confidence == "established"
    assert any("3 " in evidence.text for evidence in finding.evidence)


# Look-alikes

UNCABLED = {**NO_LINK, "nic_link_downed": 0}
ALL = tuple(f"GPU-m0-{place}" for place in range(4))
TWINS = {
    "a GPU at its power cap": [
        ("gpu", (GPU,), {"clock_event_reasons": 0x4, "sm_clock_mhz": 1395.0, "power_w": 697.0})
    ],
    "a cap that comes and goes": [
        (
            "gpu",
            (GPU,),
            {
                "clock_event_reasons": lambda s: 0x4 if s % 240 < 60 else 0x0,
                "sm_clock_mhz": 1440.0,
                "power_w": 580.0,
            },
        )
    ],
    "clocks that somebody set": [
        ("gpu", (GPU,), {"clock_event_reasons": 0x2, "sm_clock_mhz": 1230.0, "power_w": 381.0})
    ],
    "a slot of eight lanes": [("gpu", (GPU,), {"pcie_width": 8.0, "pcie_width_max": 8.0})],
    "links that rest between bursts of work": [
        (
            "gpu",
            (uuid,),
            {
                "gpu_util_ratio": lambda s: 0.96 if s % 420 < 180 else 0.0,
                "clock_event_reasons": lambda s: 0x0 if s % 420 < 180 else 0x1,
                "pcie_gen": lambda s: 5.0 if 11 <= s % 420 < 180 else 1.0,
                "pcie_width": lambda s: 16.0 if 11 <= s % 420 < 180 else 8.0,
            },
        )
        for uuid in ALL
    ],
    "packets sent again now and then": [
        ("gpu", (GPU,), {"pcie_replay_count": lambda s: 3 + s * 6 // 60})
    ],
    "memory errors that were corrected": [
        ("gpu", (GPU,), {"ecc_corrected_volatile_count": lambda s: s // 7}),
        ("gpu", (GPU,), {"remapped_rows_correctable_count": 2.0}),
    ],
    "links that lead nowhere on all alike": [
        ("link", (uuid, number), {"link_state": int(number < 2), "remote_type": "gpu"})
        for uuid in ALL
        for number in range(LINKS)
    ],
    "a port that was disabled on purpose": [
        ("nic", ("m0", "mlx5_0/1"), {**NO_LINK, "phys_state": "Disabled"})
    ],
    "a port that nobody cabled": [("nic", ("m0", "mlx5_0/1"), UNCABLED)],
    "a loaded network": [
        ("nic", ("m0", "mlx5_0/1"), {"nic_out_of_sequence": lambda s: 3 * s}),
        ("nic", ("m0", "mlx5_0/1"), {"nic_np_cnp_sent": lambda s: 41 * s}),
    ],
    "a node that was short of GPUs before": [("slurm", ("m0",), {"gpu_count": 8})],
}


GUESSED_AT = "a cap that comes and goes"
"""Until the cap shows within what looks like an episode, this may as well be one."""


def twin(told, period_s, trouble):
    """A fleet that looks broken from its start on; with a restart one from the middle of that."""
    is_anew = trouble == "restart"
    fleet = Fleet(period_s, trouble, begun_s=900.0 if is_anew else 0.0)
    for what, where, values in told:
        fleet.tell(what, *where, **values)
    fleet.run(900.0 if is_anew else 1440.0 + 60.0 + 300.0 if trouble == "holes" else 1300.0)
    return fleet


@pytest.mark.parametrize(("name", "period_s", "trouble"), grid(TWINS))
def test_what_only_looks_broken_is_accused_by_nobody(name, period_s, trouble):
    fleet = twin(TWINS[name], period_s, trouble)
    if name == GUESSED_AT:
        assert {finding.confidence for finding in fleet.said} <= {"hypothesis"}
        assert fleet.standing == ()
    else:
        assert fleet.said == []


@pytest.mark.parametrize(("name", "period_s", "trouble"), grid(["nvlink_crc_flit_count"]))
def test_checksum_errors_below_the_limit_are_a_remark_at_most(name, period_s, trouble):
    fleet = twin([("gpu", (GPU,), {name: lambda s: 11 + s // 31})], period_s, trouble)
    assert {finding.severity for finding in fleet.said} == {"info"}
    assert fleet.cleared == ()


@pytest.mark.parametrize("trouble", ["none", "missing", "shared"])
@pytest.mark.parametrize("period_s", PERIODS)
def test_a_node_that_is_not_heard_for_a_minute_is_not_lost(period_s, trouble):
    fleet = Fleet(period_s, trouble, 3, 2)
    fleet.run(420.0)
    fleet.scene.silence("m1")
    fleet.run(60.0, 20.0)
    fleet.scene.revive("m1")
    fleet.run(420.0, 60.0)
    assert {finding.confidence for finding in fleet.said} <= {"hypothesis"}
    assert fleet.standing == ()


@pytest.mark.parametrize("trouble", ["none", "missing", "shared"])
@pytest.mark.parametrize("period_s", PERIODS)
def test_a_gpu_that_tells_nothing_for_a_minute_is_not_lost(period_s, trouble):
    fleet = Fleet(period_s, trouble)
    dark = {key: lambda s, v=FIT[key]: None if 300 <= s < 360 else v for key in DARK}
    fleet.tell("gpu", GPU, **dark)
    fleet.run(300.0)
    fleet.run(600.0, 60.0)
    assert {finding.confidence for finding in fleet.said} <= {"hypothesis"}
    assert fleet.standing == ()
