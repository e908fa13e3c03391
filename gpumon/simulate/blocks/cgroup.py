"""The block of the jobs' control groups on a node: cores, memory, pressure, processes."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from gpumon.model.records.block import Block
from gpumon.simulate.blocks.columns import column
from gpumon.simulate.blocks.node import HOST_BYTES_PER_PROCESS, grown_bytes
from gpumon.simulate.cluster.timeline import CPU_AT, READ_AT, WRITE_AT
from gpumon.simulate.physics.phase import CPU

if TYPE_CHECKING:
    from gpumon.simulate.blocks.environment import Held, HostSample
    from gpumon.simulate.cluster.layout import SimNode

_MEM_SHARE: Final = 0.95
"""Share of the node's memory that its GPUs' jobs get together."""

_CACHE_SHARE: Final = 0.3
"""Share of a job's memory that the page cache holds of what it read and wrote."""

_LOG_BYTES_PER_S: Final = 38e3
"""Output of a job. Our choice: a progress bar and a few lines a second."""

_LOG_AGE_S: Final = 0.4
"""A job that logs a line a step has written a moment ago."""

_IMAGE_BYTES: Final = 2_400_000_000
"""What a job reads of the local disk as it starts: its container's layers."""

_SCRIPT_BYTES: Final = 180e6
"""Host memory of a job without a process on a GPU."""

_SERVANTS: Final = 3
"""slurmstepd, the batch script and the launcher."""


def cgroup_block(node: SimNode, sample: HostSample) -> Block:
    """One row per job that holds a GPU of the node, at its last host sample."""
    rows = [_row(node, held, sample.at) for held in sample.held]
    keys = rows[0].keys() if rows else ()
    columns = {key: column(key, [row[key] for row in rows]) for key in keys}
    return Block(tuple(str(held.job.job_id) for held in sample.held), columns, {}, {})


def _row(node: SimNode, held: Held, at: float) -> dict[str, float]:
    job, request = held.job, held.job.request
    counts = {
        place: sum(
            reading.totals.counted[place] - reading.stay.entry.counted[place]
            for reading in held.readings
        )
        for place in (CPU_AT, READ_AT, WRITE_AT)
    }
    gpus = next(len(spot.gpus) for spot in job.spots if spot.node == node.number)
    limit = _MEM_SHARE * node.host_mem_bytes * gpus / len(node.gpus)
    is_one = request.workload.launcher == "process"
    opened = sum(reading.phase.mem_bytes > 0 for reading in held.readings)
    processes = min(1, opened) if is_one else opened
    grown = grown_bytes(job, at)
    cache = min(_CACHE_SHARE * limit, counts[READ_AT] + counts[WRITE_AT])
    used = min(limit, (processes * (HOST_BYTES_PER_PROCESS + grown) or _SCRIPT_BYTES) + cache)
    loaders = request.workload.loaders
    wrote_at = at if held.hung_at is None else held.hung_at
    logged = int(_LOG_BYTES_PER_S * (wrote_at - (job.start_at or at)))
    log_bytes_per_s = _LOG_BYTES_PER_S if held.hung_at is None else 0.0
    pressure = held.pressure
    return {
        "job_cpu_us": int(1e6 * counts[CPU_AT]),
        "job_cpu_cores_used": max(0.0, sum(reading.means[CPU] for reading in held.readings)),
        "job_cpu_count": node.cpus_per_gpu * gpus,
        "job_mem_used_bytes": float(ceil(used)),
        "job_mem_peak_bytes": float(ceil(used)),
        "job_mem_limit_bytes": float(int(limit)),
        "job_oom_kills": 0,
        "job_io_read_bytes": _IMAGE_BYTES,
        "job_io_read_bytes_per_s": 0.0,
        "job_io_write_bytes": logged,
        "job_io_write_bytes_per_s": log_bytes_per_s,
        "job_output_bytes": logged,
        "job_output_bytes_per_s": log_bytes_per_s,
        "job_output_age_s": _LOG_AGE_S + at - wrote_at,
        "job_cpu_pressure_some_ratio": pressure.cpu_some,
        "job_cpu_pressure_full_ratio": 0.0,
        "job_mem_pressure_some_ratio": 0.0,
        "job_mem_pressure_full_ratio": 0.0,
        "job_io_pressure_some_ratio": pressure.io_some,
        "job_io_pressure_full_ratio": pressure.io_full,
        "job_process_count": processes * (1 + loaders) + _SERVANTS,
    }
