"""InfiniBand and RoCE ports: state, speed, traffic, errors, and the GPUs nearest to each."""

import os
from math import isfinite
from typing import Dict, List

from gpumon.probe.kernel import files
from gpumon.probe.kernel.pci import Place, nearest
from gpumon.probe.rows import FAILED, NOT_SUPPORTED, Row, too_many

MEDIUM_PERIOD_S = 5.0
"""State and error counters are read this often; each may be a question to the adapter."""

MAX_PORTS = 64
"""Most ports that are read; a node of today has up to 20."""

MAX_LISTED = 1024
"""Most adapters, and ports of one, that are counted."""

WORD_BYTES = 4
"""The counters of data count words of four octets (sysfs-class-infiniband of the kernel)."""

DATA = {"port_xmit_data": "nic_tx_bytes", "port_rcv_data": "nic_rx_bytes"}

ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Files of the folder `counters`."""

ROCE = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
)
"""Files of the folder `hw_counters`."""


class Ports:
    """Reads every port; traffic each time, the rest more rarely."""

    def __init__(self, root: str = "/") -> None:
        """Read /sys below `root`."""
        self._root = root.rstrip("/")
        self._folder = self._root + "/sys/class/infiniband"
        self._medium: List[Row] = []
        self._medium_at = float("-inf")
        self.refused: List[Dict[str, str]] = []
        """What the last rows leave out, as errors."""

    def rows(self, now: float, gpus: Dict[str, str]) -> List[Row]:
        """One row per port, keyed `device/port`.

        Args:
            now: Monotonic time of the node.
            gpus: PCI bus id of every GPU by its UUID.
        """
        if now - self._medium_at >= MEDIUM_PERIOD_S:
            self._medium_at = now
            self._medium = self._ports(now, gpus)
        rows = []
        for known in self._medium:
            row = Row(known.key, now)
            row.values.update(known.values)
            row.labels.update(known.labels)
            row.missing.update(known.missing)
            device, _, port = row.key.rpartition("/")
            folder = "%s/%s/ports/%s/counters/" % (self._folder, device, port)
            for file, field in DATA.items():
                _count(row, field, folder + file, WORD_BYTES)
            rows.append(row)
        return rows

    def _ports(self, now: float, gpus: Dict[str, str]) -> List[Row]:
        keys = [
            (device, port)
            for device in files.names(self._folder, MAX_LISTED)
            for port in files.names("%s/%s/ports" % (self._folder, device), MAX_LISTED)
            if port.isdigit()
        ]
        self.refused = []
        if len(keys) > MAX_PORTS:
            hint = "ibstat on the node shows the others"
            self.refused = [too_many("network ports", "ports", len(keys), MAX_PORTS, hint)]
        places = {uuid: Place.of(self._root, gpus[uuid]) for uuid in gpus} if keys else {}
        return [self._port(now, device, port, places) for device, port in keys[:MAX_PORTS]]

    def _port(self, now: float, device: str, port: str, gpus: Dict[str, Place]) -> Row:
        row = Row("%s/%s" % (device, port), now)
        adapter = "%s/%s/device" % (self._folder, device)
        folder = "%s/%s/ports/%s" % (self._folder, device, port)
        for label in ("state", "phys_state", "link_layer"):
            _label(row, label, folder + "/" + label)
        _speed(row, folder + "/rate")
        for file in ERRORS:
            _count(row, "nic_" + file, folder + "/counters/" + file, 1)
        for file in ROCE:
            _count(row, "nic_" + file, folder + "/hw_counters/" + file, 1)
        # -1, which is no count: a node without NUMA, or an adapter that belongs to none of its own.
        _count(row, "nic_numa_node", adapter + "/numa_node", 1)
        networks = files.names(adapter + "/net", 8)
        if networks:
            row.labels["net_device"] = networks[0]
        _near(row, Place.at(self._root, os.path.realpath(adapter)), gpus)
        row.lose(["net_device", "pci_bus_id", "nearest_by", "nearest_gpus"], NOT_SUPPORTED)
        return row


def _near(row: Row, place: Place, gpus: Dict[str, Place]) -> None:
    """Label the row with where its adapter sits and which GPUs are nearest."""
    if place.bus_id:
        row.labels["pci_bus_id"] = place.bus_id
    how, uuids = nearest(place, gpus)
    if uuids:
        row.labels["nearest_by"] = how
        row.labels["nearest_gpus"] = ",".join(uuids)


def speed_gbps(text: str) -> float:
    """Gb/s of a rate such as `400 Gb/sec (4X NDR)`; raises ValueError."""
    words = text.split()
    speed = float(words[0]) if words[1:2] == ["Gb/sec"] else float("nan")
    if not isfinite(speed):
        raise ValueError("no rate: %r" % text[:32])
    return speed


def _speed(row: Row, path: str) -> None:
    try:
        row.values["nic_speed_gbps"] = speed_gbps(files.read(path, 256))
    except OSError as error:
        row.missing["nic_speed_gbps"] = files.why(error)
    except ValueError:
        row.missing["nic_speed_gbps"] = FAILED


def _label(row: Row, label: str, path: str) -> None:
    """Give the row a word of the kernel: `4: ACTIVE` is `ACTIVE`."""
    try:
        word = files.read(path, 256).rpartition(":")[2].strip()
    except OSError as error:
        row.missing[label] = files.why(error)
        return
    if word:
        row.labels[label] = word
    else:
        row.missing[label] = FAILED


def _count(row: Row, field: str, path: str, factor: int) -> None:
    """Give the row a counter; `N/A (no PMA)` and the like are no number but no failure."""
    try:
        row.values[field] = files.whole(files.read(path, 256)) * factor
    except OSError as error:
        row.missing[field] = files.why(error)
    except ValueError:
        row.missing[field] = NOT_SUPPORTED
