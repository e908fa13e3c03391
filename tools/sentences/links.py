"""Scenes of PCIe links, NVLinks and network ports that are slow, down or full of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.detect.scene import WORKING, Scene, working
from tools.sentences.stage import alike

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.detect.scene import Values

_PERIOD_S: Final = 30.0

# pcie_degraded

_WHOLE: Final[Values] = {
    **WORKING,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
    "pcie_gen_max": 5.0,
    "pcie_width_max": 16.0,
    "pcie_replay_count": 0.0,
    "pcie_rx_bytes_per_s": 6e9,
    "pcie_tx_bytes_per_s": 2e9,
}


def _pcie(seconds: float, **one: object) -> Scene:
    """Four GPUs at work, the link of one of which is as told after five minutes."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids)
    scene.run(300, alike(uuids, _WHOLE))
    scene.run(seconds, {**alike(uuids, _WHOLE), uuids[1]: {**_WHOLE, **one}})  # type: ignore[dict-item]
    return scene


def four_lanes_for_minutes() -> Scene:
    """The PCIe link of one of four GPUs under load has four lanes, for four minutes."""
    return _pcie(240, pcie_width=4.0)


def four_lanes_for_longer() -> Scene:
    """It has for ten minutes."""
    return _pcie(600, pcie_width=4.0)


def four_lanes_for_sure() -> Scene:
    """It has for more than half an hour."""
    return _pcie(1860, pcie_width=4.0)


def four_lanes_that_cost() -> Scene:
    """The job's tensor cores are less busy since, on all of its GPUs."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids)
    scene.run(2400, alike(uuids, {**_WHOLE, "tensor_active_ratio": 0.4}))
    slow = {**_WHOLE, "tensor_active_ratio": 0.26}
    scene.run(1500, {**alike(uuids, slow), uuids[1]: {**slow, "pcie_width": 4.0}})
    return scene


def four_lanes_from_the_start() -> Scene:
    """It has had four lanes since the job began, and pauses while the others wait for it."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids)
    slow = {**_WHOLE, "pcie_width": 4.0, "gpu_util_ratio": 0.74}
    scene.run(1500, {**alike(uuids, _WHOLE), uuids[1]: slow})
    return scene


def packets_sent_again() -> Scene:
    """Its link is whole, and sends twelve packets a minute again, for nine minutes."""
    return _pcie(540, pcie_replay_count=lambda s: s // 5)


def packets_sent_again_for_longer() -> Scene:
    """It does for a quarter of an hour."""
    return _pcie(900, pcie_replay_count=lambda s: s // 5)


def packets_sent_again_for_sure() -> Scene:
    """It does for more than half an hour."""
    return _pcie(1890, pcie_replay_count=lambda s: s // 5)


def older_generation_everywhere() -> Scene:
    """All GPUs of a node have a lower generation than they could, for half an hour."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids)
    scene.run(1860, alike(uuids, {**_WHOLE, "pcie_gen": 4.0}))
    return scene


# fabric_degraded

_COUNTERS: Final = (
    "nvlink_replay_count",
    "nvlink_crc_flit_count",
    "nvlink_crc_data_count",
    "nvlink_ecc_data_count",
    "nvlink_recovery_count",
)


def _fabric(**link: object) -> tuple[Scene, tuple[str, ...]]:
    """A job on eight GPUs, whose links lead to a switch and are sound for five minutes."""
    scene = Scene(_PERIOD_S)
    uuids = scene.node("n1", 8)
    scene.job("42", uuids)
    for uuid in uuids:
        scene.links(uuid, 4, link_speed_bytes_per_s=26.5e9, remote_type="switch", **link)
        scene.gpu(uuid, fabric_health=1, **dict.fromkeys(_COUNTERS, 0))
    scene.run(300, working(uuids))
    return scene, uuids


def _broken_links(seconds: float) -> Scene:
    scene, uuids = _fabric()
    scene.link(uuids[0], 3, link_state=0)
    scene.link(uuids[1], 2, link_speed_bytes_per_s=13e9)
    scene.gpu(uuids[2], fabric_health=2)
    scene.link(uuids[3], 1, link_state=0)
    scene.gpu(uuids[3], fabric_health=3)
    scene.run(seconds, working(uuids))
    return scene


def broken_links_for_a_minute() -> Scene:
    """Links of a job's GPUs are down or slow, or their fabric is not well, for a minute."""
    return _broken_links(90)


def broken_links_for_minutes() -> Scene:
    """They are for five minutes."""
    return _broken_links(300)


def broken_links_for_sure() -> Scene:
    """They are for eleven minutes."""
    return _broken_links(660)


def _errors_of_a_gpu(seconds: float) -> Scene:
    """Every counter grows on a GPU of its own, that of checksums once little and once much."""
    scene, uuids = _fabric()
    for uuid, counter in zip(uuids, _COUNTERS, strict=False):
        scene.gpu(uuid, **{counter: lambda s: s // 30 + 1})
    scene.gpu(uuids[5], nvlink_crc_flit_count=lambda s: 130.0 * s)
    scene.run(seconds, working(uuids))
    return scene


def errors_for_minutes() -> Scene:
    """Links of a job's GPUs count errors, of one kind on each, for five minutes."""
    return _errors_of_a_gpu(300)


def errors_for_sure() -> Scene:
    """They do for eleven minutes."""
    return _errors_of_a_gpu(690)


def errors_of_newer_links() -> Scene:
    """Links of a newer generation count errors, of one kind on each GPU."""
    counters = (
        "link_receive_error_count",
        "link_effective_error_count",
        "link_recovery_failed_count",
        "link_recovery_event_count",
    )
    scene, uuids = _fabric(**dict.fromkeys(counters, 0))
    for uuid, counter in zip(uuids, counters, strict=False):
        scene.link(uuid, 1, **{counter: lambda s: s // 30 + 1})
    scene.run(300, working(uuids))
    return scene


def errors_for_an_hour() -> Scene:
    """A link has counted an error a minute ever since gpumon began to watch."""
    scene = Scene(60.0)
    uuids = scene.node("n1", 2)
    scene.links(uuids[0], 1, link_speed_bytes_per_s=26.5e9)
    scene.gpu(uuids[0], nvlink_replay_count=lambda s: s // 60)
    scene.run(3900, working(uuids))
    return scene


# network_degraded

_UP: Final = {
    "state": "ACTIVE",
    "phys_state": "LinkUp",
    "nic_speed_gbps": 400.0,
    "nic_rx_bytes_per_s": 1e9,
    "nic_tx_bytes_per_s": 1e9,
    "nic_link_downed": 0,
}
_DOWN: Final = {
    "state": "DOWN",
    "phys_state": "Polling",
    "nic_rx_bytes_per_s": 0.0,
    "nic_tx_bytes_per_s": 0.0,
}
_PORT: Final = "mlx5_0/1"
_ERRORS: Final = (
    "nic_symbol_error",
    "nic_link_error_recovery",
    "nic_port_rcv_errors",
    "nic_local_link_integrity_errors",
    "nic_excessive_buffer_overrun_errors",
    "nic_link_downed",
)


def _network(nodes: int) -> tuple[Scene, list[str]]:
    """A job on nodes of one GPU and one port each, sound for five minutes."""
    scene = Scene(_PERIOD_S)
    uuids: list[str] = []
    for number in range(1, nodes + 1):
        uuids += scene.node(f"n{number}", 1)
        scene.nic(f"n{number}", _PORT, **{**_UP, **dict.fromkeys(_ERRORS, 0)})
    scene.job("42", uuids)
    scene.run(300, working(uuids))
    return scene, uuids


def _broken_ports(seconds: float) -> Scene:
    scene, uuids = _network(7)
    scene.nic("n1", _PORT, **_DOWN)
    scene.nic("n2", _PORT, **_DOWN, nic_link_downed=1)
    scene.nic("n3", _PORT, nic_speed_gbps=200.0)
    scene.run(seconds, working(uuids))
    return scene


def broken_ports_for_a_minute() -> Scene:
    """Ports of three of a job's seven nodes are down or slow for a minute."""
    return _broken_ports(90)


def broken_ports_for_minutes() -> Scene:
    """They are for five minutes."""
    return _broken_ports(300)


def broken_ports_for_sure() -> Scene:
    """They are for eleven minutes."""
    return _broken_ports(660)


def slower_than_before() -> Scene:
    """The port of a node that nothing can be compared with becomes slower."""
    scene, uuids = _network(1)
    scene.nic("n1", _PORT, nic_speed_gbps=200.0)
    scene.run(300, working(uuids))
    return scene


def _errors_of_ports(seconds: float) -> Scene:
    scene, uuids = _network(7)
    for number, counter in enumerate(_ERRORS, 1):
        scene.nic(f"n{number}", _PORT, **{counter: lambda s: s // 60 + 1})
    scene.nic("n7", _PORT, nic_symbol_error=lambda s: s // 60 + 1, nic_speed_gbps=200.0)
    scene.run(seconds, working(uuids))
    return scene


def port_errors_for_minutes() -> Scene:
    """Ports of seven nodes count errors, of one kind on each, for five minutes."""
    return _errors_of_ports(300)


def port_errors_for_sure() -> Scene:
    """They do for eleven minutes."""
    return _errors_of_ports(690)


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "pcie_degraded": (
        four_lanes_for_minutes,
        four_lanes_for_longer,
        four_lanes_for_sure,
        four_lanes_that_cost,
        four_lanes_from_the_start,
        packets_sent_again,
        packets_sent_again_for_longer,
        packets_sent_again_for_sure,
        older_generation_everywhere,
    ),
    "fabric_degraded": (
        broken_links_for_a_minute,
        broken_links_for_minutes,
        broken_links_for_sure,
        errors_for_minutes,
        errors_for_sure,
        errors_of_newer_links,
        errors_for_an_hour,
    ),
    "network_degraded": (
        broken_ports_for_a_minute,
        broken_ports_for_minutes,
        broken_ports_for_sure,
        slower_than_before,
        port_errors_for_minutes,
        port_errors_for_sure,
    ),
}
