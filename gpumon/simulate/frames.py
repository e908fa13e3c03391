"""Readings of the simulated fleet as the frames that a probe's source would make of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.block import Block
from gpumon.model.field import Kind
from gpumon.model.fields import CATALOGUE
from gpumon.model.frame import Frame
from gpumon.model.missing import Reason
from gpumon.simulate.around import Looks
from gpumon.simulate.cgroup_block import cgroup_block
from gpumon.simulate.columns import lost
from gpumon.simulate.event_block import event_block
from gpumon.simulate.gpu_block import GpuBlocks, ratio
from gpumon.simulate.link_block import LinkBlocks
from gpumon.simulate.mig_block import cut_gpu, mark_cut, mig_block
from gpumon.simulate.mount_block import mount_block
from gpumon.simulate.node_block import NodeBlocks
from gpumon.simulate.phase import SM
from gpumon.simulate.port_block import PortBlocks
from gpumon.simulate.process_use import SECRET, with_use
from gpumon.simulate.records import processes_of
from gpumon.simulate.timeline import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from gpumon.simulate.around import Look
    from gpumon.simulate.fleet import Fleet
    from gpumon.simulate.layout import SimNode
    from gpumon.simulate.records import SimProcess
    from gpumon.simulate.timeline import Reading

_INSTANCE_KEYS: Final = tuple(
    key for key, field in CATALOGUE.items() if field.block == "context" and field.kind is Kind.ID
)
"""In which instance of a cut GPU a context is: those that jobs hold are whole."""

_HostKey = tuple[tuple[int, float], ...]


class _Hosted(NamedTuple):
    """Processes of a node for as long as none comes or goes."""

    key: _HostKey
    found: Sequence[SimProcess]
    processes: Block
    contexts: Block
    rows: tuple[int, ...]
    """Per context, its GPU's position in NVML's order."""


class FrameMaker:
    """Makes the frames of all nodes; keeps the blocks that rarely change."""

    def __init__(self, fleet: Fleet, origin: str) -> None:
        """Make frames that carry `origin`, the target's URL."""
        self._fleet = fleet
        self._origin = origin
        self._gpus = GpuBlocks(fleet)
        self._links = LinkBlocks(fleet)
        self._ports = PortBlocks(fleet)
        self._nodes = NodeBlocks(fleet)
        self._looks = Looks(fleet)
        self._looked: dict[int, tuple[Look, Block, Block]] = {}
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
        nodes = self._fleet.nodes
        return [self._frame(node, spans) for node in nodes if only is None or node.name in only]

    def _frame(self, node: SimNode, spans: Spans) -> Frame:
        readings = self._fleet.read(node, spans)
        hosted = self._processes(node, readings)
        look, mounts, cgroups = self._look(node, spans.now)
        memory = self._fleet.ailments.memory
        cut = cut_gpu(node, memory is not None and memory.node == node.number)
        gpus = mark_cut(self._gpus.block(node, readings, spans.now), cut)
        blocks = {
            "gpu": gpus,
            "link": self._links.block(node, gpus),
            "mig": mig_block(self._fleet.seed, node, cut),
            "process": with_use(hosted.processes, hosted.found, readings),
            "context": _with_use(hosted, readings),
            "event": event_block(self._fleet, node, spans.now),
            "node": self._nodes.block(node, readings, look, len(hosted.processes.keys), spans.now),
            "nic": self._ports.block(node, readings),
            "filesystem": mounts,
            "cgroup": cgroups,
        }
        return Frame(self._origin, node.name, spans.now, 0.0, blocks)

    def _look(self, node: SimNode, now: float) -> tuple[Look, Block, Block]:
        look = self._looks.look(node, now)
        known = self._looked.get(node.number)
        if known is None or known[0] is not look:
            mounts = mount_block(node, look, self._fleet.origin)
            known = self._looked[node.number] = (look, mounts, cgroup_block(node, look))
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
        processes = Block(
            tuple(str(process.pid) for process in found),
            {
                "uid": array("q", [process.uid for process in found]),
                "parent_pid": array("q", [process.parent_pid for process in found]),
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
        return _Hosted(key, found, processes, contexts, tuple(row for _, row in held))


def _with_use(hosted: _Hosted, readings: Sequence[Reading]) -> Block:
    """Contexts with what each keeps of its GPU's SMs busy: it is alone on it."""
    use = array("d", [ratio(readings[row].means[SM]) for row in hosted.rows])
    columns = {**hosted.contexts.columns, "context_sm_util_ratio": use}
    return hosted.contexts._replace(columns=columns)
