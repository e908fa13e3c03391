"""What the processes of the simulated fleet use of their host: cores, memory, storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.block import column_for
from gpumon.simulate.cgroup_block import loaders_of
from gpumon.simulate.node_block import HOST_BYTES_PER_PROCESS
from gpumon.simulate.phase import CPU, READ, WRITE
from gpumon.simulate.timeline import CPU_AT, READ_AT, WRITE_AT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.block import Block
    from gpumon.simulate.records import SimProcess
    from gpumon.simulate.timeline import Reading

_LOADER_WEIGHT: Final = 0.25
"""A loader of data works a quarter as much as the process that it loads for."""

SECRET: Final = (
    *("process_io_read_bytes", "process_io_read_bytes_per_s"),
    *("process_io_write_bytes", "process_io_write_bytes_per_s"),
)
"""What a node tells only of the own processes: what they read and write."""

_COUNTERS: Final = (SECRET[0], SECRET[2], "process_cpu_us")


def with_use(block: Block, found: Sequence[SimProcess], readings: Sequence[Reading]) -> Block:
    """The processes of a node with what each uses itself; its loaders' part is not its own."""
    rows = [_use(one, [readings[row] for row in one.rows]) for one in found]
    keys = rows[0].keys() if rows else ()
    made = {key: column_for(key in _COUNTERS, [row[key] for row in rows]) for key in keys}
    return block._replace(columns={**block.columns, **made})


def _use(process: SimProcess, readings: Sequence[Reading]) -> dict[str, float | int | None]:
    share = 1 / (1 + _LOADER_WEIGHT * loaders_of(process.job.request.workload.kind))

    def mean(channel: int) -> float:
        return share * sum(max(0.0, reading.means[channel]) for reading in readings)

    def total(place: int) -> float:
        return share * sum(
            reading.totals.counted[place] - reading.stay.entry.counted[place]
            for reading in readings
        )

    is_mine = process.rank_vars is not None
    return {
        "process_cpu_us": 1e6 * total(CPU_AT),
        "process_cpu_cores_used": mean(CPU),
        "process_rss_bytes": HOST_BYTES_PER_PROCESS * share,
        "process_io_read_bytes": total(READ_AT) if is_mine else None,
        "process_io_read_bytes_per_s": mean(READ) if is_mine else None,
        "process_io_write_bytes": total(WRITE_AT) if is_mine else None,
        "process_io_write_bytes_per_s": mean(WRITE) if is_mine else None,
    }
