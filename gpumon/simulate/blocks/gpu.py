"""The block of a node's GPUs: what changes from period to period, and what belongs to the board."""

from __future__ import annotations

from array import array
from math import ceil
from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block
from gpumon.simulate.blocks.columns import code_of, lost, same
from gpumon.simulate.cluster.hardware_faults import REPLAYS_PER_RECOVERY, lost_rows, replays_of
from gpumon.simulate.cluster.job_faults import NARROW_LANES
from gpumon.simulate.cluster.timeline import HOT_AT
from gpumon.simulate.physics.board import DRIVER_RESIDUE_BYTES
from gpumon.simulate.physics.phase import (
    CAPPED,
    DRAM,
    FP32,
    FP64,
    HOT,
    MEM_BUSY,
    NVLINK_RX,
    NVLINK_TX,
    OCCUPANCY,
    PCIE_RX,
    PCIE_TX,
    SM,
    TENSOR,
    UTIL,
    WATTS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.blocks.columns import Columns, Missing
    from gpumon.simulate.cluster.layout import SimGpu, SimNode
    from gpumon.simulate.cluster.sim_cluster import Fleet
    from gpumon.simulate.cluster.timeline import Reading, Stay
    from gpumon.simulate.physics.board import Board

GPM_KEYS: Final = (
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "graphics_active_ratio",
    "int_active_ratio",
    "fp32_active_ratio",
    "fp64_active_ratio",
)
"""What only GPU performance monitoring measures and programs differ in."""

_RESTING_KEYS: Final = (
    "tensor_dfma_active_ratio",
    "tensor_dmma_active_ratio",
    "tensor_imma_active_ratio",
    "fp16_active_ratio",
)
"""Pipes that no simulated program uses."""

_KEYS: Final = (
    "gpu_util_ratio",
    "mem_activity_ratio",
    *GPM_KEYS,
    "mem_used_bytes",
    "power_w",
    "power_average_w",
    "energy_j",
    "temp_c",
    "mem_temp_c",
    "temp_margin_c",
    "sm_clock_mhz",
    "clock_event_reasons",
    "sw_power_cap_us",
    "sw_power_cap_ratio",
    "sw_thermal_us",
    "sw_thermal_ratio",
    "thermal_violation_us",
    "thermal_violation_ratio",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes",
    "nvlink_rx_bytes",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "process_count",
    "encoder_util_ratio",
    "decoder_util_ratio",
)
_CODES: Final = tuple(code_of(key) for key in _KEYS)

_ZERO_KEYS: Final = (
    *("mig_mode", "compute_mode", "perf_state"),
    *("hw_thermal_us", "hw_thermal_ratio", "power_brake_us", "power_brake_ratio"),
    *("pcie_replay_count", "pcie_recovery_count"),
    *("pcie_correctable_error_count", "pcie_nak_received_count", "pcie_receiver_error_count"),
    *("pcie_bad_tlp_count", "pcie_nak_sent_count", "pcie_bad_dllp_count"),
    *("pcie_nonfatal_error_count", "pcie_fatal_error_count", "pcie_unsupported_request_count"),
    *("pcie_lcrc_error_count", "nvlink_crc_flit_count", "nvlink_crc_data_count"),
    *("nvlink_replay_count", "nvlink_recovery_count", "nvlink_ecc_data_count"),
    *("ecc_corrected_volatile_count", "ecc_uncorrected_volatile_count"),
    *("ecc_corrected_aggregate_count", "ecc_uncorrected_aggregate_count"),
    *("remapped_rows_correctable_count", "remapped_rows_uncorrectable_count"),
    *("remap_pending", "remap_failure", "recovery_action"),
)
"""What stays at 0 on a sound GPU that no one cuts or heats."""

_NVLINK_KEYS: Final = (
    *("nvlink_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"),
    *("nvlink_crc_flit_count", "nvlink_crc_data_count", "nvlink_replay_count"),
    *("nvlink_recovery_count", "nvlink_ecc_data_count"),
)

_FABRIC_KEYS: Final = ("fabric_state", "fabric_status", "fabric_clique", "fabric_health")

_GPU_KEYS: Final = tuple(field.key for field in CATALOGUE.values() if field.block == "gpu")

_XID_AND_ECC: Final = 0xA
"""Event types that both boards report: Xids and uncorrected ECC errors."""

_LOOSE: Final = 3.7
"""Thermal resistance of a cold plate that has come off, over a sound one's."""

_LOOSENING_S: Final = 120.0
"""How long the die has warmed up when its clock begins to fall."""

_INT_PER_SM: Final = 0.11
"""Integer work of address arithmetic beside any kernel, share of SM activity."""

_MEM_WARMER_C: Final = 6.0
"""Memory over core of an unused board, kelvin; full bandwidth adds as much again and more."""


class GpuBlocks:
    """Makes the blocks of GPUs; remembers the columns that never change."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is made yet."""
        self._fleet = fleet
        self._of_board: dict[tuple[object, ...], Columns] = {}
        self._fixed: dict[int, tuple[Columns, dict[str, tuple[str | None, ...]]]] = {}
        self._missing: dict[tuple[str, int], Missing] = {}

    def block(self, node: SimNode, readings: Sequence[Reading], now: float) -> Block:
        """The GPUs of a node at one instant."""
        rows = [
            _row(node, gpu, reading, self._looseness(reading.stay, now))
            for gpu, reading in zip(node.gpus, readings, strict=True)
        ]
        fixed = self._fixed.get(node.number)
        if fixed is None:
            fixed = self._fixed[node.number] = (self._fixed_columns(node), _labels(node))
        columns = dict(fixed[0])
        for key, code, values in zip(_KEYS, _CODES, zip(*rows, strict=True), strict=True):
            columns[key] = array(code, values)
        columns["graphics_clock_mhz"] = columns["sm_clock_mhz"]
        # No process draws on these GPUs.
        columns["compute_process_count"] = columns["process_count"]
        if node.board.has_gpm:
            # Tensor work here is in bf16 throughout.
            columns["tensor_hmma_active_ratio"] = columns["tensor_active_ratio"]
        self._mark_ailments(node, columns, now)
        narrow = [row for row, one in enumerate(readings) if self._fleet.is_narrow(one.stay, now)]
        for row in narrow:
            columns["pcie_width"] = _with(columns["pcie_width"], row, NARROW_LANES)
        for key in _absent(node.board):
            columns.pop(key, None)
        return Block(
            tuple(gpu.uuid for gpu in node.gpus), columns, fixed[1], self._reasons(node, columns)
        )

    def _looseness(self, stay: Stay, now: float) -> float:
        """How far a GPU's cold plate has come off, 0 to 1: the die warms up before it slows."""
        lost = self._fleet.cooling_lost(stay)
        if lost is None:
            return 0.0
        # It is set right as gradually as it came off.
        sides = (1.0 + (now - lost[0]) / _LOOSENING_S, 1.0 - (now - lost[1]) / _LOOSENING_S)
        return max(0.0, min(1.0, *sides))

    def _fixed_columns(self, node: SimNode) -> Columns:
        board, rows = node.board, len(node.gpus)
        if board.kind not in self._of_board:
            self._of_board[board.kind] = same(_of_board(board), rows)
        return self._of_board[board.kind] | {
            "index": array("q", [gpu.index for gpu in node.gpus]),
            "minor_number": array("q", [gpu.minor for gpu in node.gpus]),
            "open_error": array("q", [0] * rows),
            "gpu_numa_node": array("q", [node.numa_node(gpu.index, rows) for gpu in node.gpus]),
        }

    def _reasons(self, node: SimNode, columns: Columns) -> Missing:
        """What no column gives the board does not have, also what a later catalogue brings."""
        key = (node.board.name, len(node.gpus))
        if key not in self._missing:
            labels = () if node.board.has_gpm else ("fabric_cluster",)
            absent = (*(given for given in _GPU_KEYS if given not in columns), *labels)
            self._missing[key] = lost(absent, len(node.gpus), Reason.NOT_SUPPORTED)
        return self._missing[key]

    def _mark_ailments(self, node: SimNode, columns: Columns, now: float) -> None:
        link, memory = self._fleet.ailments.link, self._fleet.ailments.memory
        if link is not None and link.node == node.number:
            total = int(columns["nvlink_tx_bytes"][link.gpu])
            replays = replays_of(node, link, total)
            for key, count in (
                ("nvlink_replay_count", replays),
                ("nvlink_crc_flit_count", replays),
                ("nvlink_recovery_count", replays // REPLAYS_PER_RECOVERY),
            ):
                columns[key] = _with(columns[key], link.gpu, count)
        if memory is not None and memory.node == node.number:
            rows = lost_rows(now, self._fleet.origin)
            for key, count in (
                ("ecc_uncorrected_volatile_count", rows),
                ("ecc_uncorrected_aggregate_count", rows),
                ("remapped_rows_uncorrectable_count", rows),
                ("remap_pending", 1),
                ("recovery_action", 1),
            ):
                columns[key] = _with(columns[key], memory.gpu, count)


def _absent(board: Board) -> tuple[str, ...]:
    """Fields that a kind of board does not have."""
    absent: tuple[str, ...] = ()
    if not board.has_gpm:
        absent += (*GPM_KEYS, *_RESTING_KEYS, *_FABRIC_KEYS)
        absent += ("tensor_hmma_active_ratio", "temp_margin_c")
    return absent if board.links else (*absent, *_NVLINK_KEYS)


def _with(column: array[float] | array[int], row: int, value: int) -> array[int]:
    values = [int(number) for number in column]
    values[row] = value
    return array("q", values)


def _of_board(board: Board) -> dict[str, float]:
    """What every board of a kind answers alike."""
    values: dict[str, float] = {
        **dict.fromkeys(_ZERO_KEYS, 0),
        "mem_total_bytes": board.mem_total_bytes,
        "mem_reserved_bytes": board.mem_reserved_bytes,
        "power_limit_w": board.power_limit_w,
        "power_limit_default_w": board.power_default_w,
        "power_limit_min_w": board.power_min_w,
        "power_limit_max_w": board.power_default_w,
        "sm_clock_max_mhz": board.clock_max_mhz,
        "graphics_clock_max_mhz": board.clock_max_mhz,
        "mem_clock_mhz": board.mem_clock_mhz,
        "mem_clock_max_mhz": board.mem_clock_mhz,
        "temp_slowdown_c": board.temp_slowdown_c,
        "temp_shutdown_c": board.temp_shutdown_c,
        "temp_max_c": board.temp_max_c,
        "mem_temp_max_c": board.mem_temp_max_c,
        "pcie_gen": board.pcie_gen,
        "pcie_gen_max": board.pcie_gen,
        "pcie_width": board.pcie_width,
        "pcie_width_max": board.pcie_width,
        "persistence_mode": 1,
        "ecc_mode": 1,
        "watched_events": _XID_AND_ECC,
    }
    if board.has_gpm:
        values |= dict.fromkeys(_RESTING_KEYS, 0.0)
        values |= dict(zip(_FABRIC_KEYS, (3, 0, 0, 1), strict=True))
    return values


def _labels(node: SimNode) -> dict[str, tuple[str | None, ...]]:
    board: Board = node.board
    shared = {
        "name": board.name,
        "architecture": board.architecture,
        "compute_capability": board.compute_capability,
        "board_part": board.part,
        "vbios": board.vbios,
        "fabric_cluster": "0" * 32 if board.has_gpm else None,
    }
    return {
        **{label: (text,) * len(node.gpus) for label, text in shared.items()},
        "pci_bus_id": tuple(gpu.pci_bus_id for gpu in node.gpus),
        "common_ancestors": tuple(_ancestors(node, place) for place in range(len(node.gpus))),
        "serial": tuple(gpu.serial for gpu in node.gpus),
    }


def _ancestors(node: SimNode, place: int) -> str | None:
    """What a GPU shares with each other one: the halves of a board hang on a socket each."""
    half = (len(node.gpus) + 1) // 2
    pairs = [
        f"{other.uuid}={'NODE' if (place < half) == (index < half) else 'SYS'}"
        for index, other in enumerate(node.gpus)
        if index != place
    ]
    return ",".join(pairs) or None


def _row(node: SimNode, gpu: SimGpu, reading: Reading, looseness: float) -> tuple[float, ...]:
    """One GPU's values in the order of `_KEYS`, as coarse as the driver gives them."""
    board, means, totals, phase = node.board, reading.means, reading.totals, reading.phase
    factor, base = gpu.power_factor, gpu.traffic_base_bytes
    has_process = reading.stay.is_used and phase.mem_bytes > 0
    pcie_tx, pcie_rx, nvlink_tx, nvlink_rx, capped_s = totals.counted[:5]
    hot_us, hot = int(1e6 * totals.counted[HOT_AT]), ratio(means[HOT])
    # NVML gives whole per cents, degrees and milliwatts; a started per cent counts, so that
    # utilisation stays at or above SM activity.
    util = min(1.0, ceil(100.0 * means[UTIL] - 1e-6) / 100.0)
    warmer_c = board.heat_k_per_w * totals.heat_w * factor
    # The driver lowers the clock as far as it must to hold the highest temperature.
    hot_c = min(board.temp_max_c, gpu.inlet_c + _LOOSE * warmer_c)
    sound_c = gpu.inlet_c + warmer_c
    temp_c = round(sound_c + looseness * (hot_c - sound_c))
    dram = ratio(means[DRAM])
    tensor = ratio(means[TENSOR])
    sm = ratio(min(means[SM], util))
    return (
        util,
        min(1.0, ceil(100.0 * means[MEM_BUSY] - 1e-6) / 100.0),
        sm,
        ratio(means[OCCUPANCY]),
        tensor,
        dram,
        ratio(means[UTIL]),
        _INT_PER_SM * sm,
        ratio(means[FP32]),
        ratio(means[FP64]),
        float(int(phase.mem_bytes)) + DRIVER_RESIDUE_BYTES,
        round(totals.power_w * factor, 3),
        round(means[WATTS] * factor, 3),
        int(gpu.energy_base_j + totals.energy_j * factor),
        temp_c,
        round(temp_c + _MEM_WARMER_C * (1.0 + 1.5 * dram)),
        board.temp_slowdown_c - temp_c,
        phase.clock_mhz,
        phase.reasons,
        int(1e6 * (gpu.capped_base_s + capped_s)),
        ratio(means[CAPPED]),
        hot_us,
        hot,
        hot_us,
        hot,
        int(base + pcie_tx),
        int(base * 3.0 + pcie_rx),
        max(0.0, means[PCIE_TX]),
        max(0.0, means[PCIE_RX]),
        int(gpu.nvlink_base_bytes + nvlink_tx),
        int(gpu.nvlink_base_bytes + nvlink_rx),
        max(0.0, means[NVLINK_TX]),
        max(0.0, means[NVLINK_RX]),
        1.0 if has_process else 0.0,
        phase.encoder,
        phase.decoder,
    )


def ratio(value: float) -> float:
    """A share within its bounds, which differences of large sums miss by their last bits."""
    return 0.0 if value < 0.0 else min(1.0, value)
