"""Readings of the simulated fleet as the frames that a probe's source would make of them."""

from __future__ import annotations

from array import array
from math import ceil
from typing import TYPE_CHECKING, Final

from gpumon.model.fields import CATALOGUE
from gpumon.model.frame import Block, Frame
from gpumon.model.missing import Reason
from gpumon.simulate.board import DRIVER_RESIDUE_BYTES
from gpumon.simulate.layout import DRIVER_VERSION
from gpumon.simulate.phase import (
    CPU,
    DRAM,
    MEM_BUSY,
    NVLINK_RX,
    NVLINK_TX,
    OCCUPANCY,
    PCIE_RX,
    PCIE_TX,
    SM,
    TENSOR,
    UTIL,
)
from gpumon.simulate.records import processes_of
from gpumon.simulate.timeline import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.fleet import Fleet
    from gpumon.simulate.layout import SimGpu, SimNode
    from gpumon.simulate.timeline import Reading

_GPM_KEYS: Final = (
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
)

_KEYS: Final = (
    "index",
    "minor_number",
    "gpu_util_ratio",
    "mem_activity_ratio",
    *_GPM_KEYS,
    "mem_used_bytes",
    "mem_total_bytes",
    "mem_reserved_bytes",
    "power_w",
    "power_limit_w",
    "energy_j",
    "temp_c",
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "clock_event_reasons",
    "pcie_gen",
    "pcie_gen_max",
    "pcie_width",
    "pcie_width_max",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes",
    "nvlink_rx_bytes",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "encoder_util_ratio",
    "decoder_util_ratio",
    "process_count",
)
_CODES: Final = tuple("q" if CATALOGUE[key].kind.is_integer else "d" for key in _KEYS)

_LOAD_WINDOW_S: Final = 60.0
_HOST_BASE_BYTES: Final = 14e9
_HOST_BYTES_PER_PROCESS: Final = 26e9

_HostKey = tuple[tuple[int, float], ...]


class FrameMaker:
    """Makes the frames of all nodes; keeps the blocks that rarely change."""

    def __init__(self, fleet: Fleet, origin: str) -> None:
        """Make frames that carry `origin`, the target's URL."""
        self._fleet = fleet
        self._origin = origin
        self._labels: dict[int, dict[str, tuple[str | None, ...]]] = {}
        self._hosted: dict[int, tuple[_HostKey, tuple[Block, Block]]] = {}

    def frames(self, now: float, window_s: float) -> list[Frame]:
        """One frame per node, with means and rates over the window that ends now."""
        self._fleet.advance(now)
        spans, load = Spans(now, window_s), Spans(now, _LOAD_WINDOW_S)
        return [self._frame(node, spans, load) for node in self._fleet.nodes]

    def _frame(self, node: SimNode, spans: Spans, load: Spans) -> Frame:
        readings = self._fleet.read(node, spans)
        processes, contexts = self._processes(node, readings)
        cores = sum(load.of(reading.stay).means[CPU] for reading in readings)
        blocks = {
            "gpu": self._gpus(node, readings),
            "process": processes,
            "context": contexts,
            "node": _node_block(node, cores, len(processes.keys)),
        }
        return Frame(self._origin, node.name, spans.now, 0.0, blocks)

    def _gpus(self, node: SimNode, readings: Sequence[Reading]) -> Block:
        rows = [_row(node, gpu, reading) for gpu, reading in zip(node.gpus, readings, strict=True)]
        columns: dict[str, array[float] | array[int]] = {
            key: array(code, values)
            for key, code, values in zip(_KEYS, _CODES, zip(*rows, strict=True), strict=True)
        }
        missing: dict[tuple[str, int], Reason] = {}
        if not node.board.has_gpm:
            for key in _GPM_KEYS:
                del columns[key]
                missing |= {(key, row): Reason.NOT_SUPPORTED for row in range(len(rows))}
        labels = self._labels.get(node.number)
        if labels is None:
            labels = self._labels[node.number] = {
                "name": (node.board.name,) * len(rows),
                "pci_bus_id": tuple(gpu.pci_bus_id for gpu in node.gpus),
            }
        return Block(tuple(gpu.uuid for gpu in node.gpus), columns, labels, missing)

    def _processes(self, node: SimNode, readings: Sequence[Reading]) -> tuple[Block, Block]:
        key = tuple((id(reading.stay.job), reading.phase.mem_bytes) for reading in readings)
        known = self._hosted.get(node.number)
        if known is None or known[0] != key:
            known = self._hosted[node.number] = (key, self._process_blocks(node, readings))
        return known[1]

    def _process_blocks(self, node: SimNode, readings: Sequence[Reading]) -> tuple[Block, Block]:
        stays = [
            reading.stay._replace(is_used=reading.stay.is_used and reading.phase.mem_bytes > 0)
            for reading in readings
        ]
        found = processes_of(self._fleet, node, stays)
        held = [(process.pid, row) for process in found for row in process.rows]
        processes = Block(
            tuple(str(process.pid) for process in found),
            {
                "uid": array("q", [process.uid for process in found]),
                "start_time_s": array("d", [process.start_time_s for process in found]),
            },
            {
                "name": tuple(process.job.request.workload.program for process in found),
                "job_id": tuple(str(process.job.job_id) for process in found),
                "step": tuple(process.step for process in found),
                "task": tuple(process.task for process in found),
                "rank_vars": tuple(process.rank_vars for process in found),
                "container": (None,) * len(found),
            },
            {
                ("rank_vars", row): Reason.NO_PERMISSION
                for row, process in enumerate(found)
                if process.rank_vars is None
            },
        )
        contexts = Block(
            tuple(f"{pid}/{node.gpus[row].uuid}" for pid, row in held),
            {
                "context_mem_used_bytes": array(
                    "d", [float(int(readings[row].phase.mem_bytes)) for _, row in held]
                )
            },
            {},
            {},
        )
        return processes, contexts


def _row(node: SimNode, gpu: SimGpu, reading: Reading) -> tuple[float, ...]:
    """One GPU's values in the order of `_KEYS`, as coarse as the driver gives them."""
    board, means, totals, phase = node.board, reading.means, reading.totals, reading.phase
    factor, base = gpu.power_factor, gpu.traffic_base_bytes
    has_process = reading.stay.is_used and phase.mem_bytes > 0
    pcie_tx, pcie_rx, nvlink_tx, nvlink_rx = totals.counted
    # NVML gives whole per cents, degrees and milliwatts; a started per cent counts, so that
    # utilisation stays at or above SM activity.
    util = min(1.0, ceil(100.0 * means[UTIL] - 1e-6) / 100.0)
    return (
        gpu.index,
        gpu.minor,
        util,
        min(1.0, ceil(100.0 * means[MEM_BUSY] - 1e-6) / 100.0),
        _ratio(min(means[SM], util)),
        _ratio(means[OCCUPANCY]),
        _ratio(means[TENSOR]),
        _ratio(means[DRAM]),
        float(int(phase.mem_bytes)) + DRIVER_RESIDUE_BYTES,
        board.mem_total_bytes,
        board.mem_reserved_bytes,
        round(totals.power_w * factor, 3),
        board.power_limit_w,
        int(gpu.energy_base_j + totals.energy_j * factor),
        round(gpu.inlet_c + board.heat_k_per_w * totals.heat_w * factor),
        phase.clock_mhz,
        board.clock_max_mhz,
        phase.reasons,
        board.pcie_gen,
        board.pcie_gen,
        16,
        16,
        int(base + pcie_tx),
        int(base * 3.0 + pcie_rx),
        max(0.0, means[PCIE_TX]),
        max(0.0, means[PCIE_RX]),
        int(base * 40.0 + nvlink_tx),
        int(base * 40.0 + nvlink_rx),
        max(0.0, means[NVLINK_TX]),
        max(0.0, means[NVLINK_RX]),
        0.0,
        0.0,
        1.0 if has_process else 0.0,
    )


def _ratio(value: float) -> float:
    return 0.0 if value < 0.0 else min(1.0, value)


def _node_block(node: SimNode, cores: float, processes: int) -> Block:
    free = node.host_mem_bytes - _HOST_BASE_BYTES - processes * _HOST_BYTES_PER_PROCESS
    return Block(
        (node.name,),
        {
            "cpu_count": array("d", [node.cpu_count]),
            "load_1m": array("d", [round(0.4 + cores, 2)]),
            "host_mem_total_bytes": array("d", [node.host_mem_bytes]),
            "host_mem_available_bytes": array("d", [free]),
        },
        {
            "driver_version": (DRIVER_VERSION,),
            "nvml_version": (f"12.{DRIVER_VERSION}",),
            "boot_id": (node.boot_id,),
            "host_name": (node.name,),
        },
        {},
    )
