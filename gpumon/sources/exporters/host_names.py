"""Names of exporters of hosts, and what each is in the catalogue.

node_exporter's are those of its release 1.5 (seen) and its collectors' sources; lustre_exporter's
and gpfs_exporter's are those of their releases and tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.host import SHARED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Labels = Mapping[str, str]

SELF: Final = "-"
"""The one entity of the block `node`."""

HOST_NAME: Final = "node_uname_info"
"""Its label `nodename` is what the host calls itself."""

_TICKS_A_SECOND: Final = 100.0
"""By this node_exporter has divided the kernel's ticks (its `userHZ`)."""

_WAITING: Final = ("idle", "iowait")

_INTERFACE: Final = re.compile(r"(?:en|eth|em)[0-9a-z]*|p[0-9]+p[0-9]+")
"""Names of physical network interfaces (systemd.net-naming-scheme(7), biosdevname): a page does not
mark them, and bridges, bonds, VLANs and containers' ends would count bytes twice."""

_DISK: Final = re.compile(r"(?:sd|vd|xvd|hd)[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+")
"""Names of whole disks (devices.txt of the kernel): neither partitions nor what lies on them."""

_LOCAL: Final = frozenset(("tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"))
_BESIDE: Final = re.compile(
    r"/(?:run|proc|sys|dev|etc|snap|boot|var/lib/(?:docker|containers|containerd|kubelet|lxc|lxd))"
    r"(?:/|\Z)"
)

_LUSTRE_HASH: Final = re.compile(r"-[0-9a-f]{8,16}\Z")

STATES: Final = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
"""Of a port by number, in the kernel's words (its `state`)."""

PHYSICAL_STATES: Final = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "Phy Test",
}
"""The same of `phys_state`."""

TEXTS: Final = {"state": STATES, "phys_state": PHYSICAL_STATES}
"""Labels that a page has as numbers."""


class Part(NamedTuple):
    """What one metric gives to one field; series of one entity are added up."""

    block: str
    key: str
    """Of the catalogue, or a label of `TEXTS`."""
    entity: Callable[[Labels], str]
    """Whose a series is; empty: of none."""
    factor: float = 1.0


def _always(_labels: Labels) -> str:
    return SELF


def _node(key: str, factor: float = 1.0, where: Callable[[Labels], str] = _always) -> Part:
    return Part("node", key, where, factor)


def _mode(holds: Callable[[str], bool]) -> Callable[[Labels], str]:
    return lambda labels: SELF if holds(labels.get("mode", "")) else ""


def _device(pattern: re.Pattern[str]) -> Callable[[Labels], str]:
    return lambda labels: SELF if pattern.fullmatch(labels.get("device", "")) else ""


def _port(labels: Labels) -> str:
    device, port = labels.get("device", ""), labels.get("port", "")
    return f"{device}/{port}" if device and port else ""


def _mount(labels: Labels) -> str:
    place, kind = labels.get("mountpoint", ""), labels.get("fstype", "")
    is_local = kind in _LOCAL or (place == "/" and kind == "overlay")
    is_beside = place != SHARED_MEMORY and _BESIDE.match(place) is not None
    return place if is_local and not is_beside else ""


def _export(labels: Labels) -> str:
    return labels.get("export", "")


def _operation(*names: str) -> Callable[[Labels], str]:
    return lambda labels: labels.get("export", "") if labels.get("operation") in names else ""


def _lustre(labels: Labels) -> str:
    # Servers report their targets by the same names.
    is_client = labels.get("component") == "client"
    return _LUSTRE_HASH.sub("", labels.get("target", "")) if is_client else ""


def _gpfs(*names: str) -> Callable[[Labels], str]:
    return lambda labels: (
        labels.get("fs", "") if not names or labels.get("operation") in names else ""
    )


def _is_working(mode: str) -> bool:
    return bool(mode) and mode not in _WAITING


_MEMORY: Final = {
    "MemTotal": "host_mem_total_bytes",
    "MemAvailable": "host_mem_available_bytes",
    "SwapTotal": "host_swap_total_bytes",
    "SwapFree": "host_swap_free_bytes",
}

_PORT_COUNTERS: Final = {
    "port_data_transmitted_bytes": "nic_tx_bytes",
    "port_data_received_bytes": "nic_rx_bytes",
    "symbol_error": "nic_symbol_error",
    "link_error_recovery": "nic_link_error_recovery",
    "link_downed": "nic_link_downed",
    "port_errors_received": "nic_port_rcv_errors",
    "port_discards_transmitted": "nic_port_xmit_discards",
    "local_link_integrity_errors": "nic_local_link_integrity_errors",
    "excessive_buffer_overrun_errors": "nic_excessive_buffer_overrun_errors",
}

_NFS: Final = "node_mountstats_nfs_"


def _nfs_operation(key: str, name: str) -> dict[str, list[Part]]:
    """What there is of the reads or the writes of a mount."""
    where = _operation(name)

    def part(field: str, factor: float = 1.0) -> Part:
        return Part("filesystem", f"fs_{key}_{field}", where, factor)

    return {
        "operations_requests_total": [part("ops")],
        "operations_response_time_seconds_total": [part("rtt_us", 1e6)],
        "operations_request_time_seconds_total": [part("exec_us", 1e6)],
    }


def _files(key: str, where: Callable[[Labels], str], factor: float = 1.0) -> Part:
    return Part("filesystem", key, where, factor)


def _parts() -> dict[str, tuple[Part, ...]]:
    found: dict[str, list[Part]] = {
        "node_cpu_seconds_total": [
            _node("cpu_busy_ticks", _TICKS_A_SECOND, _mode(_is_working)),
            _node("cpu_iowait_ticks", _TICKS_A_SECOND, _mode(lambda mode: mode == "iowait")),
            _node("cpu_total_ticks", _TICKS_A_SECOND, _mode(bool)),
        ],
        "node_load1": [_node("load_1m")],
        "node_load5": [_node("load_5m")],
        "node_load15": [_node("load_15m")],
        "node_processes_state": [
            _node("d_state_process_count", 1.0, lambda labels: SELF * (labels.get("state") == "D"))
        ],
        "node_network_receive_bytes_total": [_node("net_rx_bytes", 1.0, _device(_INTERFACE))],
        "node_network_transmit_bytes_total": [_node("net_tx_bytes", 1.0, _device(_INTERFACE))],
        "node_disk_read_bytes_total": [_node("disk_read_bytes", 1.0, _device(_DISK))],
        "node_disk_written_bytes_total": [_node("disk_write_bytes", 1.0, _device(_DISK))],
        "node_time_seconds": [_node("uptime_s")],
        "node_boot_time_seconds": [_node("uptime_s", -1.0)],
        "node_filesystem_size_bytes": [
            Part("local_filesystem", "size_bytes", _mount),
            Part("local_filesystem", "used_bytes", _mount),
        ],
        "node_filesystem_free_bytes": [Part("local_filesystem", "used_bytes", _mount, -1.0)],
        "node_filesystem_avail_bytes": [Part("local_filesystem", "free_bytes", _mount)],
        "node_infiniband_rate_bytes_per_second": [Part("nic", "nic_speed_gbps", _port, 8e-9)],
        "node_infiniband_state_id": [Part("nic", "state", _port)],
        "node_infiniband_physical_state_id": [Part("nic", "phys_state", _port)],
        f"{_NFS}total_read_bytes_total": [_files("fs_read_bytes", _export)],
        f"{_NFS}total_write_bytes_total": [_files("fs_write_bytes", _export)],
        f"{_NFS}operations_transmissions_total": [_files("fs_retransmits", _export)],
        f"{_NFS}operations_major_timeouts_total": [_files("fs_timeouts", _export)],
        f"{_NFS}operations_requests_total": [_files("fs_retransmits", _export, -1.0)],
    }
    for name, key in _MEMORY.items():
        found[f"node_memory_{name}_bytes"] = [_node(key)]
    for name, key in _PORT_COUNTERS.items():
        found[f"node_infiniband_{name}_total"] = [Part("nic", key, _port)]
    for key, operation in (("read", "READ"), ("write", "WRITE")):
        for name, parts in _nfs_operation(key, operation).items():
            found.setdefault(f"{_NFS}{name}", []).extend(parts)
        found[f"lustre_{key}_bytes_total"] = [_files(f"fs_{key}_bytes", _lustre)]
        found[f"lustre_{key}_samples_total"] = [_files(f"fs_{key}_ops", _lustre)]
        # Without `_total` before gpfs_exporter 1.0.
        for end in ("_total", ""):
            found[f"gpfs_perf_{key}_bytes{end}"] = [_files(f"fs_{key}_bytes", _gpfs())]
            parts = found.setdefault(f"gpfs_perf_operations{end}", [])
            parts.append(_files(f"fs_{key}_ops", _gpfs(f"{key}s")))
    return {name: tuple(parts) for name, parts in found.items()}


PARTS: Final = _parts()
"""By metric what it gives."""

WHOLE: Final = frozenset(
    {
        *("uptime_s", "used_bytes", "fs_retransmits"),
    }
)
"""Fields that are a difference: of one half of it nothing follows."""

KINDS: Final = {"node_mountstats_nfs_": "nfs", "lustre_": "lustre", "gpfs_": "gpfs"}
"""Kind of file system by what names begin with."""
