"""The block of a node's NVLinks: each carries its share, and one of them badly."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK, Block
from gpumon.simulate.blocks.columns import lost, same
from gpumon.simulate.cluster.hardware_faults import REPLAYS_PER_RECOVERY, replays_of

if TYPE_CHECKING:
    from gpumon.simulate.blocks.columns import Columns, Missing
    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.sim_cluster import Fleet

_COUNTED: Final = {"link_tx_bytes": "nvlink_tx_bytes", "link_rx_bytes": "nvlink_rx_bytes"}

_NEWER_KEYS: Final = (
    "link_receive_error_count",
    "link_transmit_discard_count",
    "link_recovery_success_count",
    "link_recovery_failed_count",
    "link_recovery_event_count",
    "link_effective_error_count",
    "link_effective_ber",
    "link_symbol_error_count",
    "link_symbol_ber",
)
"""What only links of the fifth generation count."""

_ERROR_KEYS: Final = ("link_replay_count", "link_recovery_count", "link_crc_count")

_FIRST_SWITCH_BUS: Final = 0x05
"""PCI bus of the first NVSwitch. Our choice: no GPU of a node is on this or the next ones."""


class LinkBlocks:
    """Makes the blocks of links; nodes of one kind share what is the same on all."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is made yet."""
        self._fleet = fleet
        self._fixed: dict[str, tuple[Columns, dict[str, tuple[str, ...]], Missing]] = {}
        self._keys: dict[int, tuple[str, ...]] = {}

    def block(self, node: SimNode, gpus: Block) -> Block:
        """The links of a node, whose bytes sum to those of its GPUs."""
        board = node.board
        if not board.links:
            return EMPTY_BLOCK
        if board.name not in self._fixed:
            self._fixed[board.name] = _fixed(node)
        if node.number not in self._keys:
            self._keys[node.number] = tuple(
                f"{gpu.uuid}/{link}" for gpu in node.gpus for link in range(board.links)
            )
        fixed, labels, missing = self._fixed[board.name]
        columns = dict(fixed)
        for key, total in _COUNTED.items():
            columns[key] = _split(gpus.columns[total], board.links)
            rates = array("d")
            for rate in gpus.columns[f"{total}_per_s"]:
                rates.extend(array("d", (rate / board.links,)) * board.links)
            columns[f"{key}_per_s"] = rates
        ill = self._fleet.ailments.link
        if ill is not None and ill.node == node.number:
            row = ill.gpu * board.links + ill.part
            replays = replays_of(node, ill, int(gpus.columns["nvlink_tx_bytes"][ill.gpu]))
            counts = (replays, replays // REPLAYS_PER_RECOVERY, replays)
            for key, count in zip(_ERROR_KEYS, counts, strict=True):
                errors = array("q", [0]) * len(self._keys[node.number])
                errors[row] = count
                columns[key] = errors
        return Block(self._keys[node.number], columns, labels, missing)


def _split(totals: array[float] | array[int], links: int) -> array[int]:
    """Counters of links that sum to those of their GPUs: the first ones carry what is left."""
    split = array("q")
    for total in totals:
        share, rest = divmod(int(total), links)
        split.extend(array("q", (share + 1,)) * rest)
        split.extend(array("q", (share,)) * (links - rest))
    return split


def _fixed(node: SimNode) -> tuple[Columns, dict[str, tuple[str, ...]], Missing]:
    board = node.board
    rows = len(node.gpus) * board.links
    columns = same(
        {
            **dict.fromkeys(_ERROR_KEYS, 0),
            "link_state": 1,
            "link_version": board.link_version,
            "link_speed_bytes_per_s": board.link_bytes_per_s,
        },
        rows,
    )
    ends = [
        f"00000000:{_FIRST_SWITCH_BUS + switch:02X}:00.0"
        for switch, links in enumerate(board.switches)
        for _ in range(links)
    ]
    labels = {"remote_type": ("switch",) * rows, "remote": tuple(ends) * len(node.gpus)}
    return columns, labels, lost(_NEWER_KEYS, rows, Reason.NOT_SUPPORTED)
