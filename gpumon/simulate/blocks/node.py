"""The block of the node itself: CPUs, memory, pressure, disks and the plain network."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block
from gpumon.simulate.blocks.columns import code_of, lost, same
from gpumon.simulate.blocks.environment import waiting
from gpumon.simulate.blocks.gpu import ratio
from gpumon.simulate.cluster.layout import DRIVER_VERSION
from gpumon.simulate.cluster.timeline import CPU_AT, READ_AT, WRITE_AT
from gpumon.simulate.physics.phase import CPU, READ, WRITE
from gpumon.simulate.physics.training import STORAGE_BYTES_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.blocks.columns import Columns
    from gpumon.simulate.blocks.environment import HostSample
    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.schedule import SimJob
    from gpumon.simulate.cluster.sim_cluster import Fleet
    from gpumon.simulate.cluster.timeline import Reading
    from gpumon.simulate.records.slurm_queue import SimProcess

HOST_BASE_BYTES: Final = 14e9
"""Host memory of the system itself."""

HOST_BYTES_PER_PROCESS: Final = 26e9
"""Host memory of one rank with its loaders."""

_TICKS_PER_S: Final = 100
"""Unit of /proc/stat: `sysconf(_SC_CLK_TCK)`, 100 on Linux for x86 and Arm (proc(5))."""

_SYSTEM_CORES: Final = 0.4
"""Cores that daemons, and the monitor of the site, use."""

# Our choice: what logs, metrics, the queue's daemon and home directories cause, jobs or not.
_NET_RX_BYTES_PER_S: Final = 230e3
_NET_TX_BYTES_PER_S: Final = 160e3
_DISK_READ_BYTES_PER_S: Final = 45e3
_DISK_WRITE_BYTES_PER_S: Final = 310e3

_CALLS_PER_GPU_S: Final = 9.5
"""Calls that the probe makes into the driver per GPU at a period of 1 s, all tiers together."""

_CALL_US: Final = 38.0
"""Mean time of such a call on a data centre GPU's driver."""

_SLOWEST_CALL_S: Final = 0.0021
"""Slowest call of a healthy driver. Our choice: below the 20 ms of the dearest one (nvml.h)."""

_WAITING_RATE: Final = 0.5
"""A rank that waits at least so much of its phase is found in uninterruptible sleep."""

_MISSING: Final = lost(("kernel_log",), 1, Reason.NO_PERMISSION)
_CODES: Final = {key: code_of(key) for key, field in CATALOGUE.items() if field.block == "node"}


class NodeBlocks:
    """Makes the blocks of nodes; what a host sample has stays until the next."""

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is made yet."""
        self._fleet = fleet
        self._labels: dict[int, dict[str, tuple[str | None, ...]]] = {}
        self._slow: dict[int, tuple[HostSample, Columns]] = {}

    def block(
        self,
        node: SimNode,
        readings: Sequence[Reading],
        sample: HostSample,
        processes: Sequence[SimProcess],
        now: float,
    ) -> Block:
        """The node at one instant.

        Args:
            node: The node.
            readings: Its GPUs now.
            sample: What surrounds them at the last host sample.
            processes: Ranks on the node.
            now: Unix time.
        """
        slow = self._slow.get(node.number)
        if slow is None or slow[0] is not sample:
            columns = same(_slow_values(node, sample), 1)
            slow = self._slow[node.number] = (sample, columns)
        columns = dict(slow[1])
        for key, value in _values(node, readings, sample, now - self._fleet.origin).items():
            columns[key] = array(_CODES[key], (value,))
        held_bytes = HOST_BASE_BYTES + len(processes) * HOST_BYTES_PER_PROCESS
        held_bytes += sum(grown_bytes(process.job, now) for process in processes)
        columns["host_mem_available_bytes"] = array("d", (node.host_mem_bytes - held_bytes,))
        if node.number not in self._labels:
            self._labels[node.number] = {
                "driver_version": (DRIVER_VERSION,),
                "nvml_version": (f"12.{DRIVER_VERSION}",),
                "boot_id": (node.boot_id,),
                "host_name": (node.name,),
                "slowest_call": ("nvmlGpmSampleGet (GPU 0)",),
                "numa_distances": ("0:10,21 1:21,10",),
            }
        return Block((node.name,), columns, self._labels[node.number], _MISSING)


def grown_bytes(job: SimJob, now: float) -> float:
    """What the host memory of one rank has grown by since its job began."""
    return job.request.workload.host_growth_bytes_per_s * max(0.0, now - (job.start_at or now))


def _values(
    node: SimNode, readings: Sequence[Reading], sample: HostSample, lived_s: float
) -> dict[str, float]:
    up_s = node.up_s + lived_s
    counted = [reading.totals.counted for reading in readings]
    # What ran before the simulation began is counted as a third of all CPUs.
    earlier_s = node.up_s * node.cpu_count / 3.0
    busy_s = earlier_s + _SYSTEM_CORES * lived_s + sum(counts[CPU_AT] for counts in counted)
    moved = sum(counts[READ_AT] + counts[WRITE_AT] for counts in counted)
    stuck = sum(held.stuck for held in sample.held)
    waited_s = moved / STORAGE_BYTES_PER_S + 0.002 * node.up_s + sample.stuck_s
    cores = _SYSTEM_CORES + sum(reading.means[CPU] for reading in readings)
    calls_per_s = _CALLS_PER_GPU_S * len(readings)
    moving = sum(reading.means[READ] + reading.means[WRITE] for reading in readings)
    return {
        "cpu_busy_ratio": ratio(cores / node.cpu_count),
        "cpu_iowait_ratio": ratio((moving / STORAGE_BYTES_PER_S + stuck) / node.cpu_count),
        "cpu_busy_ticks": int(_TICKS_PER_S * busy_s),
        "cpu_iowait_ticks": int(_TICKS_PER_S * waited_s),
        "cpu_total_ticks": int(_TICKS_PER_S * node.cpu_count * up_s),
        "net_rx_bytes": int(_NET_RX_BYTES_PER_S * up_s),
        "net_tx_bytes": int(_NET_TX_BYTES_PER_S * up_s),
        "disk_read_bytes": int(_DISK_READ_BYTES_PER_S * up_s),
        "disk_write_bytes": int(_DISK_WRITE_BYTES_PER_S * up_s),
        "uptime_s": round(up_s, 2),
        "probe_calls": int(calls_per_s * lived_s),
        "probe_driver_us": int(calls_per_s * _CALL_US * lived_s),
        "probe_calls_per_s": calls_per_s,
        "probe_driver_ratio": calls_per_s * _CALL_US * 1e-6,
        "probe_slowest_call_s": _SLOWEST_CALL_S,
    }


def _slow_values(node: SimNode, sample: HostSample) -> dict[str, float]:
    one, five, fifteen = sample.loads
    pressure = sample.pressure
    asleep = sum(
        waiting(reading.phase.rates) > _WAITING_RATE
        for held in sample.held
        for reading in held.readings
    ) + sum(held.stuck for held in sample.held)
    return {
        "load_1m": round(_SYSTEM_CORES + one, 2),
        "load_5m": round(_SYSTEM_CORES + five, 2),
        "load_15m": round(_SYSTEM_CORES + fifteen, 2),
        "host_swap_total_bytes": 0,
        "host_swap_free_bytes": 0,
        "cpu_pressure_some_ratio": pressure.cpu_some,
        "cpu_pressure_full_ratio": 0.0,
        "mem_pressure_some_ratio": 0.0,
        "mem_pressure_full_ratio": 0.0,
        "io_pressure_some_ratio": pressure.io_some,
        "io_pressure_full_ratio": pressure.io_full,
        "d_state_process_count": asleep,
        "host_mem_total_bytes": node.host_mem_bytes,
        "disk_write_bytes_per_s": _DISK_WRITE_BYTES_PER_S,
        "disk_read_bytes_per_s": _DISK_READ_BYTES_PER_S,
        "net_tx_bytes_per_s": _NET_TX_BYTES_PER_S,
        "net_rx_bytes_per_s": _NET_RX_BYTES_PER_S,
        "cpu_count": node.cpu_count,
    }
