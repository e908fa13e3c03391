"""The block of a node's network ports: collectives between nodes, and storage."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block
from gpumon.simulate.blocks.columns import column, lost
from gpumon.simulate.cluster.hardware_faults import DOWNS
from gpumon.simulate.cluster.timeline import FABRIC_AT, READ_AT, WRITE_AT
from gpumon.simulate.physics.phase import FABRIC, READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.blocks.columns import Columns, Missing
    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.sim_cluster import Fleet
    from gpumon.simulate.cluster.timeline import Reading

GPUS_PER_STORAGE_PORT: Final = 8
"""GPUs of a node that share one port to the storage. A choice: one on a node of eight."""

_ERROR_KEYS: Final = (
    "nic_symbol_error",
    "nic_link_error_recovery",
    "nic_link_downed",
    "nic_port_rcv_errors",
    "nic_port_xmit_discards",
    "nic_local_link_integrity_errors",
    "nic_excessive_buffer_overrun_errors",
    "nic_out_of_sequence",
    "nic_packet_seq_err",
    "nic_local_ack_timeout_err",
)
_ROCE_KEYS: Final = ("nic_np_cnp_sent", "nic_np_ecn_marked_roce_packets")

_DOWN_GBPS: Final = 10.0
"""What the kernel reports of a port without a link: the slowest rate of four lanes."""

_WORD_BYTES: Final = 4
"""The hardware counts data in words of four bytes (sysfs-class-infiniband: `port_xmit_data`)."""


class PortBlocks:
    """Makes the blocks of ports; remembers what does not change."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is made yet."""
        self._fleet = fleet
        self._fixed: dict[int, Block] = {}

    def block(self, node: SimNode, readings: Sequence[Reading]) -> Block:
        """The ports of a node: one beside each GPU, and one for storage per eight of them."""
        fixed = self._fixed.get(node.number)
        if fixed is None:
            fixed = self._fixed[node.number] = self._sound_block(node)
        dead = self._dead(node)
        ports = len(fixed.keys) - len(node.gpus)
        ways = _ways(readings)
        held = [
            one.totals.counted[FABRIC_AT] - one.stay.entry.counted[FABRIC_AT] for one in readings
        ]
        others = [one.stay.entry.counted[FABRIC_AT] for one in readings]
        own = _taken(ways, held)
        sent = _around(dead, [mine + theirs for mine, theirs in zip(own, others, strict=True)])
        rate = _around(dead, _taken(ways, [max(0.0, one.means[FABRIC]) for one in readings]))
        base = [8.0 * gpu.traffic_base_bytes for gpu in node.gpus]
        moved = [before + now for before, now in zip(base, sent, strict=True)]
        columns = dict(fixed.columns)
        for key, counted, mean, at, channel in (
            ("nic_tx_bytes", moved, rate, WRITE_AT, WRITE),
            ("nic_rx_bytes", moved, rate, READ_AT, READ),
        ):
            stored = sum(reading.totals.counted[at] for reading in readings) / ports
            storing = sum(max(0.0, reading.means[channel]) for reading in readings) / ports
            words = [int(value) // _WORD_BYTES for value in (*counted, *[stored] * ports)]
            columns[key] = array("q", [_WORD_BYTES * word for word in words])
            columns[f"{key}_per_s"] = array("d", [*mean, *[storing] * ports])
        return fixed._replace(columns=columns)

    def _dead(self, node: SimNode) -> int | None:
        spot = self._fleet.ailments.port
        return spot.gpu if spot is not None and spot.node == node.number else None

    def _sound_block(self, node: SimNode) -> Block:
        gpus = len(node.gpus)
        storage = 1 + (gpus - 1) // GPUS_PER_STORAGE_PORT
        rows, dead = gpus + storage, self._dead(node)
        speed = [node.board.port_gbps] * rows
        downs = [0] * rows
        if dead is not None:
            speed[dead], downs[dead] = _DOWN_GBPS, DOWNS
        columns: Columns = {
            "nic_speed_gbps": column("nic_speed_gbps", speed),
            "nic_numa_node": column("nic_numa_node", _numa_nodes(node, storage)),
            **{key: column(key, [0] * rows) for key in _ERROR_KEYS},
            **{key: column(key, [MISSING_INTEGER] * gpus + [0] * storage) for key in _ROCE_KEYS},
            "nic_link_downed": column("nic_link_downed", downs),
        }
        missing: Missing = lost(_ROCE_KEYS, gpus, Reason.NOT_SUPPORTED)
        keys = tuple(f"mlx5_{number}/1" for number in range(rows))
        return Block(keys, columns, _labels(node, storage, dead), missing)


def _ways(readings: Sequence[Reading]) -> list[int]:
    """Per GPU the port that its traffic takes: its own, or that of the first of its job's.

    What a job has sent the wrong way is counted so while it runs; the counters begin again with it,
    as they do where an adapter is reset.
    """
    firsts: dict[int, int] = {}
    ways = []
    for row, reading in enumerate(readings):
        job = reading.stay.job
        is_one = job is not None and job.request.workload.has_one_port
        ways.append(firsts.setdefault(job.job_id, row) if job is not None and is_one else row)
    return ways


def _taken(ways: Sequence[int], traffic: Sequence[float]) -> list[float]:
    """Traffic by port, from that of each GPU and the port that it takes."""
    found = [0.0] * len(ways)
    for way, moved in zip(ways, traffic, strict=True):
        found[way] += moved
    return found


def _around(dead: int | None, traffic: list[float]) -> list[float]:
    """Traffic of ports where a dead one's is carried by all others alike."""
    if dead is None:
        return traffic
    share = traffic[dead] / (len(traffic) - 1)
    return [0.0 if port == dead else bytes_ + share for port, bytes_ in enumerate(traffic)]


def _numa_nodes(node: SimNode, storage: int) -> list[int]:
    gpus = len(node.gpus)
    return [node.numa_node(port, gpus) for port in range(gpus)] + [0] * storage


def _labels(node: SimNode, storage: int, dead: int | None) -> dict[str, tuple[str | None, ...]]:
    gpus = len(node.gpus)
    rows = gpus + storage
    # A port sits below the switch of its GPU, one bus further.
    buses = [int(gpu.pci_bus_id[9:11], 16) + 1 for gpu in node.gpus]
    buses += [0xF0 + port for port in range(storage)]
    first_half = ",".join(gpu.uuid for gpu in node.gpus if 2 * gpu.index < gpus)
    return {
        "state": tuple("DOWN" if port == dead else "ACTIVE" for port in range(rows)),
        "phys_state": tuple("Polling" if port == dead else "LinkUp" for port in range(rows)),
        "link_layer": ("InfiniBand",) * gpus + ("Ethernet",) * storage,
        "net_device": tuple(
            f"ibp{bus}s0" if port < gpus else f"ens{bus}np0" for port, bus in enumerate(buses)
        ),
        "pci_bus_id": tuple(f"0000:{bus & 0xFF:02x}:00.0" for bus in buses),
        "nearest_by": ("switch",) * gpus + ("numa",) * storage,
        "nearest_gpus": (*(gpu.uuid for gpu in node.gpus), *(first_half,) * storage),
    }
