"""A node of the population: its GPUs' slots, and the frames that a probe would send of it."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block, column_for
from gpumon.model.records.frame import Frame
from tests.population.boards import GIB
from tests.population.sensors import COUNTER_KEYS, GB, GPM_KEYS, LEVEL_KEYS
from tests.population.wires import Wires

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.population.boards import Board
    from tests.population.draft import Draft
    from tests.population.sensors import Grid, Read

URL: Final = "slurm"
XID_EVENT: Final = 0x8
SHOWN_S: Final = 30
"""How long the probe goes on telling of an event."""

RARE_KEYS: Final = (
    *("index", "minor_number", "ecc_corrected_volatile_count", "ecc_uncorrected_volatile_count"),
    *("ecc_corrected_aggregate_count", "ecc_uncorrected_aggregate_count", "remap_pending"),
    *("remap_failure", "remapped_rows_correctable_count", "remapped_rows_uncorrectable_count"),
    *("pcie_replay_count", "recovery_action", "mig_mode", "nvlink_crc_flit_count"),
    *("nvlink_replay_count", "nvlink_recovery_count"),
)
"""Ids and counts of errors, which hardly change."""

HOST_KEYS: Final = (
    *("cpu_busy_ratio", "cpu_iowait_ratio", "disk_read_bytes_per_s", "disk_write_bytes_per_s"),
    *("net_rx_bytes_per_s", "net_tx_bytes_per_s", "host_mem_available_bytes", "load_1m"),
)


CGROUP_KEYS: Final = {
    key: CATALOGUE[key].kind.is_integer
    for key in (
        *("job_cpu_cores_used", "job_cpu_count", "job_mem_used_bytes", "job_mem_peak_bytes"),
        *("job_mem_limit_bytes", "job_io_read_bytes_per_s", "job_io_write_bytes_per_s"),
        *("job_oom_kills", "job_process_count", "job_cpu_us"),
    )
}
"""Of every job on the node, and whether it is a whole number."""


class Guest(NamedTuple):
    """A job on a node."""

    job_id: str
    draft: Draft
    begin_at: int
    slots: tuple[int, ...]
    gpus: tuple[int, ...]
    """The draft's number of the GPU in each slot."""
    place: int
    """Which of the draft's nodes this is."""


class Machine:
    """One node; jobs are put on it before the day begins."""

    def __init__(self, name: str, board: Board, grid: Grid, rng: np.random.Generator) -> None:
        self.name = name
        self.board = board
        self.grid = grid
        self.rng = rng
        count = board.in_node
        self.uuids = tuple(f"GPU-{rng.bytes(16).hex()}" for _ in range(count))
        self.cpu_count = board.cores_per_gpu * count
        self.mem_bytes = board.host_gib_per_gpu * count * GIB
        self.free = list(range(count))
        self.guests: list[Guest] = []
        self.keys = LEVEL_KEYS + (GPM_KEYS if board.has_gpm else ())
        self.levels = np.zeros((grid.count, len(self.keys), count))
        self.counters = np.zeros((grid.count, len(COUNTER_KEYS), count), np.int64)
        self.hosts = np.zeros((grid.count, len(HOST_KEYS)), np.float32)
        self.rare: list[dict[str, array[float] | array[int]]] = []
        self.is_heard = np.ones(grid.count, bool)
        self._groups: dict[str, dict[str, NDArray[np.float64]]] = {}
        self._firsts: dict[str, int] = {}
        self._blocks: dict[object, Block] = {}
        self._lost_at: dict[int, int] = {}
        self.wires = Wires(self.uuids, board)
        self._changes: list[tuple[int, int, str, int]] = []
        self._xids: list[tuple[int, int, int]] = []
        self._constants: dict[str, array[float]] = {}
        self._begin = {key: [0] * count for key in RARE_KEYS}
        for slot in range(count):
            self._begin["index"][slot] = self._begin["minor_number"][slot] = slot
        self._rest()

    def _rest(self) -> None:
        """What the node tells while nobody is on it."""
        board, shape = self.board, (self.grid.count, self.board.in_node)
        quiet = {
            "mem_used_bytes": 4e6,
            "power_w": board.idle_w * self.rng.normal(1, 0.02, shape),
            "power_limit_w": board.limit_w,
            "temp_c": np.round(29 + self.rng.normal(0, 1.0, shape)),
            "sm_clock_mhz": round(0.17 * board.clock_mhz / 15) * 15,
            "pcie_gen": board.pcie_gen if board.links else 1,
            "pcie_width": 16,
        }
        for key, value in quiet.items():
            self.levels[:, self.keys.index(key)] = value
        self.counters[:, COUNTER_KEYS.index("clock_event_reasons")] = 1
        spent = self.levels[:, self.keys.index("power_w")] * self.grid.period_s
        self.counters[:, COUNTER_KEYS.index("energy_j")] = spent.astype(np.int64)
        noise = abs(self.rng.normal(0, 1, (self.grid.count, len(HOST_KEYS))))
        self.hosts[:] = noise * (0.003, 0.001, 2e4, 8e4, 5e4, 5e4, 0, 0.1)
        self.hosts[:, 6] = 0.97 * self.mem_bytes

    def put(self, guest: Guest, read: Read, hosts: dict[str, NDArray[np.float64]]) -> None:
        """Put a job's readings into this node's."""
        self.guests.append(guest)
        draft, rows = guest.draft, slice(read.first, read.first + len(read.seconds))
        slots, gpus = list(guest.slots), list(guest.gpus)
        for number, key in enumerate(self.keys):
            self.levels[rows, number, slots] = read.levels[key][:, gpus]
        for number, key in enumerate(COUNTER_KEYS):
            self.counters[rows, number, slots] = read.counters[key][:, gpus]
        mine = {key: values[:, guest.place] for key, values in hosts.items()}
        self._host(rows, mine)
        limit = self.board.host_gib_per_gpu * len(slots) * GIB
        self._groups[guest.job_id] = self._cgroup(mine, limit, draft)
        self._firsts[guest.job_id] = read.first
        slot_of = dict(zip(gpus, slots, strict=True))
        begin = guest.begin_at
        for gpu, key, amount in draft.start_counts:
            if gpu in slot_of:
                self._begin[key][slot_of[gpu]] += amount
        for second, gpu, key, amount in draft.counted:
            if gpu in slot_of:
                found = (begin + second, slot_of[gpu], key, amount)
                (self.wires.counted if key.startswith("nic_") else self._changes).append(found)
        self._xids += [(begin + s, slot_of[g], x) for s, g, x in draft.xids if g in slot_of]
        self._lost_at |= {slot_of[g]: begin + s for g, s in draft.lost.items() if g in slot_of}
        for gpu, (second, links) in draft.links_down.items():
            if gpu in slot_of:
                self.wires.links_down[slot_of[gpu]] = (begin + second, links)
        for gpu, second in draft.ports_down.items():
            if gpu in slot_of:
                self.wires.ports_down[slot_of[gpu]] = begin + second

    def _host(self, rows: slice, mine: dict[str, NDArray[np.float64]]) -> None:
        self.hosts[rows, 0] += mine["cores"] / self.cpu_count
        for place, key in ((2, "read"), (3, "write"), (4, "net_rx"), (5, "net_tx")):
            self.hosts[rows, place] += mine[key] * GB
        self.hosts[rows, 7] += mine["cores"]
        np.minimum(self.hosts[:, 0], 1.0, out=self.hosts[:, 0])

    def _cgroup(
        self, mine: dict[str, NDArray[np.float64]], limit: float, draft: Draft
    ) -> dict[str, NDArray[np.float64]]:
        used = np.minimum(0.998, mine["memory"]) * limit
        full = np.full(len(used), 1.0)
        return {
            "job_cpu_cores_used": np.minimum(mine["cores"], draft.cores),
            "job_cpu_count": full * round(draft.cores),
            "job_mem_used_bytes": used,
            "job_mem_peak_bytes": np.maximum.accumulate(used) if len(used) else used,
            "job_mem_limit_bytes": full * limit,
            "job_io_read_bytes_per_s": mine["read"] * GB,
            "job_io_write_bytes_per_s": mine["write"] * GB,
            "job_oom_kills": 0 * full,
            "job_process_count": full * 6,
            "job_cpu_us": 1e6 * mine["cpu_s"],
        }

    def settle(self, missing_share: float) -> None:
        """Add up the counters, lose a reading here and there: the day is about to begin."""
        for number, key in enumerate(COUNTER_KEYS):
            if key != "clock_event_reasons":
                self.counters[:, number] = np.cumsum(self.counters[:, number], axis=0) + 10**7
        gone = self.rng.random(self.levels.shape) < missing_share
        self.levels[gone] = np.nan
        self.is_heard &= self.rng.random(self.grid.count) > 0.003
        left, columns = sorted(self._changes), {}
        for number in range(self.grid.count):
            before = len(left)
            while left and left[0][0] <= self.grid.at(number):
                _, slot, key, amount = left.pop(0)
                self._begin[key][slot] += amount
            if not columns or len(left) < before:
                columns = {
                    key: column_for(CATALOGUE[key].kind.is_integer, list(values))
                    for key, values in self._begin.items()
                }
            self.rare.append(columns)

    def frame(self, number: int) -> Frame:
        """One report."""
        at = self.grid.at(number)
        blocks = {
            "gpu": self._gpu(number, at),
            "node": self._node(number),
            "cgroup": self._cgroups(number, at),
            **self._programs(number, at),
        }
        blocks |= self.wires.blocks(at, self.hosts[number, 4].item(), self.hosts[number, 5].item())
        told = [x for x in self._xids if 0 <= at - x[0] < SHOWN_S + self.grid.period_s]
        if told:
            blocks["event"] = _events(told, self.uuids, at)
        return Frame(URL, self.name, at - 0.2, 0.0, {k: b for k, b in blocks.items() if b.keys})

    def _gpu(self, number: int, at: int) -> Block:
        count = self.board.in_node
        columns = {**self._fixed(), **self.rare[number]}
        data = self.levels[number].tobytes()
        size = 8 * count
        for place, key in enumerate(self.keys):
            columns[key] = array("d", data[place * size : (place + 1) * size])
        data = self.counters[number].tobytes()
        for place, key in enumerate(COUNTER_KEYS):
            columns[key] = array("q", data[place * size : (place + 1) * size])
        missing = {}
        for slot in [s for s, lost_at in self._lost_at.items() if lost_at <= at]:
            for key, column in columns.items():
                if key != "index":
                    column = columns[key] = array(column.typecode, column)
                    column[slot] = float("nan") if column.typecode == "d" else MISSING_INTEGER
                    missing[key, slot] = Reason.LOST
        return Block(self.uuids, columns, {"name": (self.board.name,) * count}, missing)

    def _fixed(self) -> dict[str, array[float]]:
        if not self._constants:
            board, count = self.board, self.board.in_node
            lanes = [16.0] * count
            for guest in self.guests:
                for slot, gpu in zip(guest.slots, guest.gpus, strict=True):
                    lanes[slot] = float(guest.draft.lanes[gpu])
            values = {
                "mem_total_bytes": board.mem_gib * GIB,
                "sm_clock_max_mhz": board.clock_mhz,
                "graphics_clock_max_mhz": board.clock_mhz,
                "pcie_gen_max": board.pcie_gen,
                "power_limit_default_w": board.limit_w,
                "power_limit_min_w": 0.3 * board.limit_w,
                "power_limit_max_w": board.limit_w,
                "temp_slowdown_c": board.slowdown_c,
            }
            self._constants = {key: array("d", [float(v)] * count) for key, v in values.items()}
            self._constants["pcie_width_max"] = array("d", lanes)
        return self._constants

    def _node(self, number: int) -> Block:
        told = self.hosts[number].tolist()
        columns = {key: array("d", [value]) for key, value in zip(HOST_KEYS, told, strict=True)}
        columns["cpu_count"] = array("d", [float(self.cpu_count)])
        columns["host_mem_total_bytes"] = array("d", [self.mem_bytes])
        labels = {"boot_id": (f"boot-{self.name}",), "driver_version": ("570.124.06",)}
        return Block((self.name,), columns, labels, {})

    def _cgroups(self, number: int, at: int) -> Block:
        rows = []
        for job_id, values in self._groups.items():
            row = number - self._firsts[job_id]
            if 0 <= row < len(values["job_cpu_count"]):
                rows.append((job_id, row))
        columns = {}
        for key, is_integer in CGROUP_KEYS.items():
            found = [self._groups[job_id][key].item(row) for job_id, row in rows]
            columns[key] = array("q", map(int, found)) if is_integer else array("d", found)
        return Block(tuple(job_id for job_id, _ in rows), columns, {}, {})

    def _programs(self, number: int, at: int) -> dict[str, Block]:
        """Processes and their contexts; made anew only where one came or went."""
        found = []
        for guest in self.guests:
            second = at - guest.begin_at
            if not 0 < second <= guest.draft.seconds:
                continue
            for place, program in enumerate(guest.draft.programs):
                gpu = program.gpus[0]
                if gpu not in guest.gpus or not program.start < second <= program.end:
                    continue
                if guest.draft.mem[gpu, second - 1] > 0:
                    found.append((guest, place))
        key = tuple((guest.job_id, place) for guest, place in found)
        if key not in self._blocks:
            self._blocks[key] = self._processes(found)
            self._blocks["contexts", key] = self._contexts(found)
        return {"process": self._blocks[key], "context": self._blocks["contexts", key]}

    def _processes(self, found: list[tuple[Guest, int]]) -> Block:
        names, jobs, variables, starts = [], [], [], []
        for guest, place in found:
            program = guest.draft.programs[place]
            names.append(program.name)
            jobs.append(guest.job_id)
            rank = {"RANK": program.gpus[0], "LOCAL_RANK": guest.gpus.index(program.gpus[0])}
            world = {"WORLD_SIZE": guest.draft.gpus, "MASTER_ADDR": self.name, "MASTER_PORT": 29500}
            told = {} if guest.draft.is_apart else rank | world
            variables.append(json.dumps({k: str(v) for k, v in told.items()}))
            starts.append(float(10**6 + guest.begin_at - self.grid.start_at + program.start))
        labels = {
            "name": tuple(names),
            "job_id": tuple(jobs),
            "step": ("0",) * len(found),
            "rank_vars": tuple(variables),
        }
        columns = {"uid": column_for(True, [1000] * len(found)), "start_time_s": array("d", starts)}
        return Block(self._pids(found), columns, labels, {})

    def _contexts(self, found: list[tuple[Guest, int]]) -> Block:
        keys = []
        for pid, (guest, place) in zip(self._pids(found), found, strict=True):
            gpu = guest.draft.programs[place].gpus[0]
            keys.append(f"{pid}/{self.uuids[guest.slots[guest.gpus.index(gpu)]]}")
        columns = {"context_mem_used_bytes": array("d", [float("nan")] * len(keys))}
        return Block(tuple(keys), columns, {}, {})

    def _pids(self, found: list[tuple[Guest, int]]) -> tuple[str, ...]:
        return tuple(str(int(guest.job_id) * 40 % 4_000_000 + 100 + n) for guest, n in found)


def _events(told: list[tuple[int, int, int]], uuids: tuple[str, ...], at: int) -> Block:
    columns = {
        "xid": column_for(True, [number for _, _, number in told]),
        "event_type": column_for(True, [XID_EVENT for _ in told]),
        "event_age_s": column_for(False, [float(at - when) for when, _, _ in told]),
    }
    keys = tuple(f"{uuids[slot]}/{number}/{when}" for when, slot, number in told)
    return Block(keys, columns, {}, {})
