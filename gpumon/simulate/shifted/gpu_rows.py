"""The `gpu` block of a node, sample by sample, and the columns that all blocks are made of."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block
from gpumon.simulate.shifted.hosts import grown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.simulate.shifted.fleet import Machine
    from gpumon.simulate.shifted.ranges import Draw
    from gpumon.simulate.shifted.sensors import Floats
    from gpumon.simulate.shifted.sockets import Sockets

    Column = array[float] | array[int]

UNTOLD: Final = (
    "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio",
    "fp32_active_ratio", "fp64_active_ratio", "graphics_active_ratio",
)  # fmt: skip
"""What plain NVML does not report."""

ERRORS: Final = (
    "pcie_replay_count", "ecc_uncorrected_volatile_count", "remap_pending", "recovery_action",
)  # fmt: skip
"""Counters and codes of which a sound GPU has 0."""


class GpuBlocks:
    """The `gpu` block of one node, sample by sample."""

    def __init__(
        self, machine: Machine, uuids: tuple[str, ...], fields: dict[str, Floats],
        is_lost: NDArray[np.bool_], times: Floats, draw: Draw, sockets: Sockets,
    ) -> None:  # fmt: skip
        board, count = machine.kind.board, len(uuids)
        self._keys, self._is_lost, self._machine, self._times = uuids, is_lost, machine, times
        for job in machine.jobs:
            for growth in job.story.growths:
                where, gpu = job.place_of(growth.gpu)
                if where is machine and growth.link is None and growth.port is None:
                    column = fields.setdefault(growth.field, np.zeros(is_lost.shape))
                    column[:, gpu] += grown(growth, job, times, draw)
        self._growths = [
            (growth, job, job.place_of(growth.gpu)[1], grown(growth, job, times, draw))
            for job in machine.jobs
            for growth in job.story.growths
            if growth.link is not None and job.place_of(growth.gpu)[0] is machine
        ]
        for key in ERRORS:
            fields.setdefault(key, np.zeros(is_lost.shape))
        self._sliced = [(job, gpu) for job in machine.jobs if job.story.is_sliced
                        for gpu in job.gpus_on(machine)]  # fmt: skip
        self._whole = {key: is_whole(key) for key in fields}
        self._fields = {
            key: np.where(np.isfinite(column), column, MISSING_INTEGER).astype(np.int64)
            if self._whole[key] else np.ascontiguousarray(column, np.float64)
            for key, column in fields.items()
        }  # fmt: skip
        self._holes: dict[int, list[tuple[str, int]]] = {}
        for key, values in self._fields.items():
            if not self._whole[key]:
                for sample, row in np.argwhere(np.isnan(values)).tolist():
                    self._holes.setdefault(sample, []).append((key, row))
        self._static = _static(machine, count) | {"gpu_numa_node": known(sockets.numa_nodes(count))}
        self._labels = _board_labels(machine, count, draw)
        self._untold = {} if board.has_gpm else {
            (key, row): Reason.NOT_SUPPORTED for key in UNTOLD for row in range(count)
        }  # fmt: skip
        if not sockets.count:
            unknown = {("gpu_numa_node", row): Reason.NOT_SUPPORTED for row in range(count)}
            self._untold = self._untold | unknown

    def block(self, sample: int) -> Block:
        """What is read at a sample."""
        columns: dict[str, Column] = dict(self._static)
        for key, values in self._fields.items():
            columns[key] = array("q" if self._whole[key] else "d", values[sample].tobytes())
        missing = self._untold
        holes = self._holes.get(sample)
        if holes:
            why = Reason.NOT_SAMPLED if sample == 0 else Reason.FAILED
            missing = {**missing, **dict.fromkeys(holes, why)}
        cut = self.cut(sample)
        if cut:
            missing = {**missing, **_cut(columns, cut)}
        lost = np.flatnonzero(self._is_lost[sample])
        if len(lost):
            missing = {**missing, **self._lose(columns, lost.tolist())}
        return Block(self._keys, columns, self._labels, missing)

    def cut(self, sample: int) -> list[int]:
        """GPUs that are in MIG mode at a sample."""
        now = self._times[sample]
        return [gpu for job, gpu in self._sliced if job.start_s < now <= job.end_s]

    def instances(self, sample: int) -> Block:
        """The `mig` block: of each GPU that is cut the one instance that is in use."""
        cut, board = self.cut(sample), self._machine.kind.board
        profile = f"1g.{round(board.mem_bytes / 8e9)}gb"
        own = [self._fields["mem_used_bytes"][sample, gpu] / 8 for gpu in cut]
        columns: dict[str, Column] = {
            "mig_gpu_instance": whole([7] * len(cut)),
            "mig_compute_instance": whole([0] * len(cut)),
            "mig_mem_used_bytes": real(own),
            "mig_mem_total_bytes": real([board.mem_bytes // 8] * len(cut)),
        }
        for name in ("sm", "tensor", "dram"):
            key = f"{name}_active_ratio"
            if key in self._fields:
                columns[f"mig_{key}"] = real([self._fields[key][sample, gpu] for gpu in cut])
        parents = tuple(self._keys[gpu] for gpu in cut)
        labels = {"parent": parents, "profile": (profile,) * len(cut)}
        return Block(tuple(f"MIG-{uuid[4:]}" for uuid in parents), columns, labels, {})

    def _lose(self, columns: dict[str, Column], rows: list[int]) -> dict[tuple[str, int], Reason]:
        """Of a GPU that left the bus only what was read at the start stays."""
        missing = {}
        for key in self._fields:
            for row in rows:
                blank(columns[key], row)
                missing[key, row] = Reason.LOST
        return missing

    def links(
        self, now: float, sample: int
    ) -> tuple[frozenset[tuple[int, int]], tuple[tuple[tuple[int, int, str], int], ...]]:
        """NVLinks that are down, and what error counters have counted, by GPU and link."""
        down = frozenset(
            (job.place_of(gpu)[1], link)
            for job in self._machine.jobs
            for gpu, link, since, until in job.story.down_links
            if job.place_of(gpu)[0] is self._machine
            and job.start_s + since < now <= job.start_s + until
        )
        counts = tuple(
            ((gpu, growth.link or 0, growth.field), int(counted[sample]))
            for growth, _, gpu, counted in self._growths
        )
        return down, counts


def _static(machine: Machine, count: int) -> dict[str, Column]:
    board, slot = machine.kind.board, machine.kind.slot_width
    return {
        "index": whole(list(range(count))),
        "minor_number": whole(list(range(count))),
        "mem_total_bytes": real([board.mem_bytes] * count),
        "power_limit_default_w": real([board.limit_w] * count),
        "sm_clock_max_mhz": real([board.clock_mhz] * count),
        "pcie_gen_max": real([board.pcie_gen] * count),
        "pcie_width_max": real([min(board.pcie_width, slot)] * count),
        "temp_slowdown_c": real([board.slowdown_c] * count),
        "mig_mode": whole([0] * count),
        "ecc_mode": whole([int(board.has_ecc)] * count),
        "persistence_mode": whole([1] * count),
        "watched_events": whole([8] * count),
    }


def _board_labels(machine: Machine, count: int, draw: Draw) -> dict[str, tuple[str | None, ...]]:
    board, first = machine.kind.board, draw.whole(1, 9)
    return {
        "name": (board.name,) * count,
        "architecture": (board.architecture,) * count,
        "compute_capability": (board.capability,) * count,
        "pci_bus_id": tuple(f"00000000:{first + 11 * gpu:02X}:00.0" for gpu in range(count)),
    }


def _cut(columns: dict[str, Column], rows: list[int]) -> dict[tuple[str, int], Reason]:
    """GPUs in MIG mode: utilisation is not supported."""
    modes = array("q", columns["mig_mode"])
    missing = {}
    for row in rows:
        modes[row] = 1
        for key in ("gpu_util_ratio", "mem_activity_ratio", *UNTOLD):
            if key in columns:
                blank(columns[key], row)
            missing[key, row] = Reason.NOT_SUPPORTED
    columns["mig_mode"] = modes
    return missing


def is_whole(key: str) -> bool:
    """Whether a field's column holds whole numbers."""
    return CATALOGUE[key].kind.is_integer


def columns_at(fields: Mapping[str, Floats], sample: int) -> dict[str, Column]:
    """One row of each field: a number, or one by entity."""
    columns: dict[str, Column] = {}
    for key, values in fields.items():
        row = np.atleast_1d(np.asarray(values[sample], np.float64))
        columns[key] = whole(row.tolist()) if is_whole(key) else array("d", row.tobytes())
    return columns


def whole(values: Sequence[float]) -> array[int]:
    """A column of whole numbers."""
    return array("q", [int(value) for value in values])


def known(values: Sequence[int | None]) -> array[int]:
    """A column of whole numbers of which some are missing."""
    return array("q", [MISSING_INTEGER if value is None else value for value in values])


def real(values: Sequence[float]) -> array[float]:
    """A column of any other numbers."""
    return array("d", [float(value) for value in values])


def blank(column: Any, row: int) -> None:  # noqa: ANN401 - either kind of column
    """Take a value out of a column."""
    column[row] = MISSING_INTEGER if column.typecode == "q" else float("nan")
