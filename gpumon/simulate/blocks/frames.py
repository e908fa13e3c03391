"""Readings of the simulated fleet as the frames that a probe's source would make of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.gpu.xid import XID_EVENT
from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK, Block, column_for
from gpumon.model.records.frame import Frame
from gpumon.simulate.blocks.cgroup import cgroup_block
from gpumon.simulate.blocks.columns import column, lost
from gpumon.simulate.blocks.environment import HostSampler
from gpumon.simulate.blocks.gpu import GpuBlocks, ratio
from gpumon.simulate.blocks.link import LinkBlocks
from gpumon.simulate.blocks.mig import cut_gpu, mark_cut, mig_block
from gpumon.simulate.blocks.mount import mount_block, space_block
from gpumon.simulate.blocks.node import HOST_BYTES_PER_PROCESS, NodeBlocks, grown_bytes
from gpumon.simulate.blocks.port import PortBlocks
from gpumon.simulate.cluster.timeline import CPU_AT, READ_AT, WRITE_AT, Spans
from gpumon.simulate.physics.phase import CPU, MEM_BUSY, READ, SM, WRITE
from gpumon.simulate.records.slurm_queue import processes_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from gpumon.simulate.blocks.environment import HostSample
    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.sim_cluster import Fleet
    from gpumon.simulate.cluster.timeline import Reading
    from gpumon.simulate.records.slurm_queue import SimProcess

_INSTANCE_KEYS: Final = tuple(
    key for key, field in CATALOGUE.items() if field.block == "context" and field.kind is Kind.ID
)
"""In which instance of a cut GPU a context is: those that jobs hold are whole."""

_HostKey = tuple[tuple[int, float], ...]

_SHOWN_S: Final = 30.0
"""How long an event stays in the reports."""


_RUNS_FROM_CORES: Final = 0.5
"""A process that uses so much of a CPU is mostly found running."""

_LEAST_WAIT: Final = 0.01
"""What any program waits for its CPUs: interrupts, daemons, others that wake up."""

_MAIN_THREAD_S: Final = 0.6
"""A main thread that sleeps now and then is given a CPU before tasks that always compute."""

_LOADER_WEIGHT: Final = 0.25
"""A loader of data works a quarter as much as the process that it loads for."""

SECRET: Final = (
    *("process_io_read_bytes", "process_io_read_bytes_per_s"),
    *("process_io_write_bytes", "process_io_write_bytes_per_s"),
)
"""What a node reports only of the own processes: what they read and write."""

_COUNTERS: Final = (
    *(SECRET[0], SECRET[2], "process_cpu_us", "process_cpu_wait_us"),
    "process_tree_cpu_us",
)
"""Counters, which are whole numbers on the wire."""


def with_use(
    node: SimNode,
    block: Block,
    found: Sequence[SimProcess],
    readings: Sequence[Reading],
    stuck_s: Sequence[float],
    now: float,
) -> Block:
    """The processes of a node with what each uses itself, and with its loaders.

    Args:
        node: Where they run.
        block: What does not change of them.
        found: The processes.
        readings: Of the node's GPUs.
        stuck_s: For how long each GPU's rank has waited for storage that does not answer.
        now: Unix time.
    """
    rows = [_use(node, one, [readings[row] for row in one.rows], now) for one in found]
    keys = rows[0].keys() if rows else ()
    made = {key: column_for(key in _COUNTERS, [row[key] for row in rows]) for key in keys}
    stuck = [max(stuck_s[row] for row in one.rows) for one in found]
    made["process_stopped_s"] = array("d", [0.0] * len(found))
    made["process_stuck_s"] = array("d", stuck)
    busy = made.get("process_cpu_cores_used", ())
    states = tuple(
        "D" if waits else "R" if cores > _RUNS_FROM_CORES else "S"
        for waits, cores in zip(stuck, busy, strict=True)
    )
    return block._replace(
        columns={**block.columns, **made}, labels={**block.labels, "state": states}
    )


def _waits(process: SimProcess, cpus: int) -> float:
    """Share of the time in which it has no CPU although it could run, when all CPUs are busy."""
    tasks = 1 + process.job.request.workload.loaders
    return max(_LEAST_WAIT, _MAIN_THREAD_S * (1.0 - cpus / tasks))


def allowed(node: SimNode, process: SimProcess, readings: Sequence[Reading]) -> list[int]:
    """The CPUs that a process may use: its own share where it is bound, else all of its job."""
    workload = process.job.request.workload
    is_bound = workload.is_far or workload.launcher == "srun"
    held = [row for row, one in enumerate(readings) if one.stay.job is process.job]
    rows = process.rows if is_bound else held
    return sorted(cpu for row in rows for cpu in node.cpus_beside(row, workload.is_far))


def _listed(cpus: Sequence[int]) -> str:
    """Numbers as the kernel lists them: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1][1:] = [cpu]
        else:
            runs.append([cpu])
    return ",".join("-".join(map(str, run)) for run in runs)


def _use(
    node: SimNode, process: SimProcess, readings: Sequence[Reading], now: float
) -> dict[str, float | int | None]:
    share = 1 / (1 + _LOADER_WEIGHT * process.job.request.workload.loaders)

    def mean(channel: int) -> float:
        return share * sum(max(0.0, reading.means[channel]) for reading in readings)

    def total(place: int) -> float:
        return share * sum(
            reading.totals.counted[place] - reading.stay.entry.counted[place]
            for reading in readings
        )

    is_mine = process.rank_vars is not None
    waits = _waits(process, node.cpus_per_gpu) / share / node.cpus_per_gpu / len(readings)
    return {
        "process_cpu_us": 1e6 * total(CPU_AT),
        "process_cpu_cores_used": mean(CPU),
        "process_cpu_wait_us": 1e6 * waits * total(CPU_AT),
        "process_cpu_wait_ratio": waits * mean(CPU),
        "process_rss_bytes": HOST_BYTES_PER_PROCESS * share + grown_bytes(process.job, now),
        "descendant_count": process.job.request.workload.loaders,
        "process_tree_cpu_us": 1e6 * total(CPU_AT) / share,
        "process_tree_cpu_cores_used": mean(CPU) / share,
        "process_tree_rss_bytes": HOST_BYTES_PER_PROCESS + grown_bytes(process.job, now),
        "process_io_read_bytes": total(READ_AT) if is_mine else None,
        "process_io_read_bytes_per_s": mean(READ) if is_mine else None,
        "process_io_write_bytes": total(WRITE_AT) if is_mine else None,
        "process_io_write_bytes_per_s": mean(WRITE) if is_mine else None,
    }


def event_block(fleet: Fleet, node: SimNode, now: float) -> Block:
    """What the driver reported of late, keyed `UUID/XID/SEQUENCE`."""
    events = fleet.events_between(node, now - _SHOWN_S, now)
    is_watched = fleet.ailments.memory is not None and fleet.ailments.memory.node == node.number
    if not events and not is_watched:
        return EMPTY_BLOCK
    return Block(
        tuple(
            f"{node.gpus[row].uuid}/{xid}/{number}"
            for number, (_, row, xid) in enumerate(events, 1)
        ),
        {
            "xid": column("xid", [xid for _, _, xid in events]),
            "event_type": column("event_type", [XID_EVENT for _ in events]),
            "event_age_s": column("event_age_s", [round(now - at, 3) for at, _, _ in events]),
        },
        {},
        {},
    )


class _Hosted(NamedTuple):
    """Processes of a node for as long as none comes or goes."""

    key: _HostKey
    found: Sequence[SimProcess]
    processes: Block
    contexts: Block
    rows: tuple[int, ...]
    """Per context, its GPU's position in NVML's order."""


class FrameMaker:
    """Makes the frames of all nodes; remembers the blocks that rarely change."""

    def __init__(self, fleet: Fleet, origin: str) -> None:
        """Make frames that carry `origin`, the target's URL."""
        self._fleet = fleet
        self._origin = origin
        self._gpus = GpuBlocks(fleet)
        self._links = LinkBlocks(fleet)
        self._ports = PortBlocks(fleet)
        self._nodes = NodeBlocks(fleet)
        self._sampler = HostSampler(fleet)
        self._sampled: dict[int, tuple[HostSample, Block, Block]] = {}
        self._hosted: dict[int, _Hosted] = {}

    def frames(self, now: float, window_s: float, only: Set[str] | None = None) -> list[Frame]:
        """One frame per node, with means and rates over the window that ends now.

        Args:
            now: Unix time.
            window_s: Seconds.
            only: Names of the nodes that are wanted; None: all.
        """
        self._fleet.advance(now)
        spans = Spans(now, window_s)
        nodes = [node for node in self._fleet.nodes if not self._fleet.is_silent(node, now)]
        return [self._frame(node, spans) for node in nodes if only is None or node.name in only]

    def _frame(self, node: SimNode, spans: Spans) -> Frame:
        readings = self._fleet.read(node, spans)
        hosted = self._processes(node, readings)
        sample, mounts, cgroups = self._sample_host(node, spans, readings)
        memory = self._fleet.ailments.memory
        cut = cut_gpu(node, memory is not None and memory.node == node.number)
        gpus = mark_cut(self._gpus.block(node, readings, spans.now), cut)
        blocks = {
            "gpu": gpus,
            "link": self._links.block(node, gpus),
            "mig": mig_block(self._fleet.seed, node, cut),
            "process": with_use(
                node,
                hosted.processes,
                hosted.found,
                readings,
                self._stuck_s(readings, spans.now),
                spans.now,
            ),
            "context": _with_use(hosted, readings),
            "event": event_block(self._fleet, node, spans.now),
            "node": self._nodes.block(node, readings, sample, hosted.found, spans.now),
            "nic": self._ports.block(node, readings),
            "filesystem": mounts,
            "local_filesystem": space_block(node, is_full=self._fleet.is_full(node, spans.now)),
            "cgroup": cgroups,
        }
        return Frame(
            origin=self._origin, node=node.name, taken_at=spans.now, lateness_s=0.0, blocks=blocks
        )

    def _stuck_s(self, readings: Sequence[Reading], now: float) -> list[float]:
        """Per GPU for how long its rank has waited for storage that does not answer."""
        found = []
        for reading in readings:
            job = reading.stay.job
            hung_at = None if job is None else self._fleet.hung_at(job)
            is_stuck = hung_at is not None and self._fleet.is_stuck(reading.stay, now)
            found.append(now - hung_at if hung_at is not None and is_stuck else 0.0)
        return found

    def _sample_host(
        self, node: SimNode, spans: Spans, readings: list[Reading]
    ) -> tuple[HostSample, Block, Block]:
        sample = self._sampler.sample(node, spans, readings)
        known = self._sampled.get(node.number)
        if known is None or known[0] is not sample:
            mounts = mount_block(node, sample, self._fleet.origin)
            known = self._sampled[node.number] = (sample, mounts, cgroup_block(node, sample))
        return known

    def _processes(self, node: SimNode, readings: Sequence[Reading]) -> _Hosted:
        key = tuple((id(reading.stay.job), reading.phase.mem_bytes) for reading in readings)
        known = self._hosted.get(node.number)
        if known is None or known.key != key:
            known = self._hosted[node.number] = self._process_blocks(node, readings, key)
        return known

    def _process_blocks(self, node: SimNode, readings: Sequence[Reading], key: _HostKey) -> _Hosted:
        stays = [
            reading.stay._replace(is_used=reading.stay.is_used and reading.phase.mem_bytes > 0)
            for reading in readings
        ]
        found = processes_of(self._fleet, node, stays)
        held = [(process.pid, row) for process in found for row in process.rows]
        masks = [allowed(node, process, readings) for process in found]
        numa = [sorted({node.numa_node(c, node.cpu_count) for c in cpus}) for cpus in masks]
        processes = Block(
            tuple(str(process.pid) for process in found),
            {
                "uid": array("q", [process.uid for process in found]),
                "parent_pid": array("q", [process.parent_pid for process in found]),
                "start_time_s": array("d", [process.start_time_s for process in found]),
                "cpus_allowed_count": array("d", [len(cpus) for cpus in masks]),
            },
            {
                "name": tuple(process.job.request.workload.program for process in found),
                "job_id": tuple(str(process.job.job_id) for process in found),
                "step": tuple(process.step for process in found),
                "task": tuple(process.task for process in found),
                "rank_vars": tuple(process.rank_vars for process in found),
                "container": (None,) * len(found),
                "cpus_allowed": tuple(_listed(cpus) for cpus in masks),
                "cpu_numa_nodes": tuple(",".join(map(str, nodes)) for nodes in numa),
            },
            {
                (key, row): Reason.NO_PERMISSION
                for row, process in enumerate(found)
                if process.rank_vars is None
                for key in ("rank_vars", *SECRET)
            }
            # Only processes in a container have another number there.
            | {("inner_pid", row): Reason.NOT_SUPPORTED for row in range(len(found))},
        )
        contexts = Block(
            tuple(f"{pid}/{node.gpus[row].uuid}" for pid, row in held),
            {
                "context_mem_used_bytes": array(
                    "d", [float(int(readings[row].phase.mem_bytes)) for _, row in held]
                )
            },
            {},
            lost(_INSTANCE_KEYS, len(held), Reason.NOT_SUPPORTED),
        )
        return _Hosted(
            key=key,
            found=found,
            processes=processes,
            contexts=contexts,
            rows=tuple(row for _, row in held),
        )


def _with_use(hosted: _Hosted, readings: Sequence[Reading]) -> Block:
    """Contexts with how busy each makes its GPU's units: it is alone on it."""
    use = {
        key: array("d", [ratio(readings[row].means[unit]) for row in hosted.rows])
        for key, unit in (("context_sm_util_ratio", SM), ("context_mem_util_ratio", MEM_BUSY))
    }
    phases = [readings[row].phase for row in hosted.rows]
    use["context_encoder_util_ratio"] = array("d", [phase.encoder for phase in phases])
    use["context_decoder_util_ratio"] = array("d", [phase.decoder for phase in phases])
    return hosted.contexts._replace(columns={**hosted.contexts.columns, **use})
