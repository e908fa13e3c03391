"""NVLinks and network ports of a node, as the driver and the kernel tell of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.records.block import Block, column_for

if TYPE_CHECKING:
    from tests.population.boards import Board

LINK_KEYS: Final = (
    *("link_recovery_failed_count", "link_receive_error_count", "link_effective_error_count"),
)
PORT_KEYS: Final = (
    *("nic_symbol_error", "nic_link_error_recovery", "nic_link_downed", "nic_port_rcv_errors"),
    *("nic_port_xmit_discards", "nic_local_link_integrity_errors"),
    *("nic_excessive_buffer_overrun_errors", "nic_np_cnp_sent"),
)
"""Counters of errors, and of congestion, which any loaded port has."""

FAST_GBPS: Final = {5: 400.0, 4: 200.0}
"""Ports beside GPUs by their PCIe generation: DGX H100 has NDR, DGX A100 HDR."""

SLOW_GBPS: Final = 100.0
DOWN_GBPS: Final = 10.0
"""What the kernel tells of a port without a link."""


class Wires:
    """What leads out of the GPUs and out of the node."""

    def __init__(self, uuids: tuple[str, ...], board: Board) -> None:
        self._uuids = uuids
        self._board = board
        self._ports = len(uuids) if board.links else 1
        self.links_down: dict[int, tuple[int, int]] = {}
        """By slot, Unix time from which so many of its links are down."""
        self.ports_down: dict[int, int] = {}
        self.counted: list[tuple[int, int, str, int]] = []
        """Unix time, slot, counter and by how much it grows."""
        self._blocks: dict[object, Block] = {}

    def blocks(self, at: int, rx: float, tx: float) -> dict[str, Block]:
        """Both kinds at a Unix time; bytes a second are those of the node."""
        found = {"nic": self._nic(at, rx, tx)}
        if self._board.links:
            down = {slot: n for slot, (when, n) in self.links_down.items() if when <= at}
            key = ("links", *sorted(down.items()))
            if key not in self._blocks:
                self._blocks[key] = self._links(down)
            found["link"] = self._blocks[key]
        return found

    def _links(self, down: dict[int, int]) -> Block:
        keys, states = [], []
        for slot, uuid in enumerate(self._uuids):
            for link in range(self._board.links):
                keys.append(f"{uuid}/{link}")
                states.append(0 if link < down.get(slot, 0) else 1)
        columns = {"link_state": column_for(True, list(states))}
        for name in LINK_KEYS:
            columns[name] = column_for(CATALOGUE[name].kind.is_integer, [0] * len(keys))
        return Block(tuple(keys), columns, {}, {})

    def _nic(self, at: int, rx: float, tx: float) -> Block:
        down = frozenset(slot for slot, when in self.ports_down.items() if when <= at)
        told = [change for change in self.counted if change[0] <= at]
        key = ("ports", down, len(told))
        if key not in self._blocks:
            self._blocks[key] = self._fixed(down, told)
        block = self._blocks[key]
        up = max(1, self._ports - len(down))
        share = [0.0 if port in down else 1.0 / up for port in range(self._ports)]
        rates = {
            "nic_rx_bytes_per_s": array("d", [rx * part for part in share]),
            "nic_tx_bytes_per_s": array("d", [tx * part for part in share]),
        }
        return block._replace(columns={**block.columns, **rates})

    def _fixed(self, down: frozenset[int], told: list[tuple[int, int, str, int]]) -> Block:
        ports = range(self._ports)
        speed = FAST_GBPS[self._board.pcie_gen] if self._board.links else SLOW_GBPS
        counts = {name: [0] * self._ports for name in PORT_KEYS}
        for _, slot, name, amount in told:
            counts[name][slot % self._ports] += amount
        columns = {
            "nic_speed_gbps": array("d", [DOWN_GBPS if p in down else speed for p in ports]),
            **{name: column_for(True, list(values)) for name, values in counts.items()},
        }
        labels = {
            "state": tuple("DOWN" if port in down else "ACTIVE" for port in ports),
            "phys_state": tuple("Polling" if port in down else "LinkUp" for port in ports),
            "link_layer": ("InfiniBand",) * self._ports,
            "nearest_gpus": tuple(self._uuids[port] for port in ports),
        }
        return Block(tuple(f"mlx5_{port}/1" for port in ports), columns, labels, {})
