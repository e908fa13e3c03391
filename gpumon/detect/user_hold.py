"""GPUs that no job holds, and the users whose processes hold them: nodes without a queue."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.view import JobLook
from gpumon.fleet.history.retention import DEFAULT_SPAN_S
from gpumon.model.records.cluster import Job, JobView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.facts.facts import GpuFacts, ProcessFacts
    from gpumon.detect.series import Past
    from gpumon.detect.view import View

_MEMORY: Final = "context_mem_used_bytes"

_OF_PROCESS: Final = {
    "job_cpu_cores_used": "process_cpu_cores_used",
    "job_io_read_bytes_per_s": "process_io_read_bytes_per_s",
    "job_io_write_bytes_per_s": "process_io_write_bytes_per_s",
}
"""What a control group tells of a job, processes tell of themselves."""


class UserHold(JobLook):
    """One GPU as its users hold it, in the place of a job.

    It is held from the first sample in which one of the processes that are there now had memory on
    it. Nobody says what it is for, so it counts as a session; its CPUs are those of the processes.
    """

    def __init__(
        self,
        view: View,
        gpu: GpuFacts,
        processes: tuple[ProcessFacts, ...],
        since: float,
        *,
        is_alone: bool,
    ) -> None:
        """A hold.

        Args:
            view: What is seen.
            gpu: The GPU.
            processes: Those that have memory on it now.
            since: Unix time since when one of them has.
            is_alone: Whether nobody else holds a GPU of the node.
        """
        super().__init__(
            view,
            JobView(
                job=_record(gpu, since),
                gpu_uuids=(gpu.uuid,),
                gpus_unknown=0,
                ranks=(),
                contradictions=(),
            ),
        )
        self.gpu = gpu
        self.since = since
        self._processes = processes
        self._is_alone = is_alone

    @property
    def owners(self) -> tuple[int, ...]:
        """Uids of the users; of a process that hides its own there is none."""
        return tuple(sorted({p.uid for p in self._processes if p.uid is not None}))

    @property
    def owner_names(self) -> tuple[str, ...]:
        """The same as their node calls them, by number where it does not."""
        names = {p.uid: p.user or f"uid {p.uid}" for p in self._processes if p.uid is not None}
        return tuple(names[uid] for uid in self.owners)

    @cached_property
    def drawn_bytes(self) -> float:
        """Memory of the GPU that processes hold which only draw, a desktop's: not its users'."""
        node, uuid = self.gpu.node, self.gpu.uuid
        drawing = self._view.nodes[node].graphics_processes
        keys = [f"{node}/{one.pid}/{uuid}" for one in drawing if uuid in one.graphics_uuids]
        if not keys:
            return 0.0
        return float(np.nansum(self._view.history.newest(keys, (_MEMORY,), "context")))

    @property
    def subject(self) -> str:
        """How a finding names it: by its GPU."""
        return self.gpu.subject

    @property
    def is_alone(self) -> bool:
        """Whether nobody else holds a GPU of the node."""
        return self._is_alone

    @property
    def alone_since(self) -> float:
        """Unix time since when; the past of other users is not known, so it is said of all."""
        return float("-inf") if self._is_alone else float("inf")

    @property
    def processes(self) -> tuple[ProcessFacts, ...]:
        """Processes that have memory on the GPU now."""
        return self._processes

    def held_since(self, uuid: str) -> float:
        """Unix time since when it is held; infinity for another GPU."""
        return self.since if uuid == self.gpu.uuid else float("inf")

    @cached_property
    def all_held_since(self) -> float:
        """The same."""
        return self.since

    def cgroup_past(self, keys: Sequence[str], seconds: float, peaks: int = 0) -> Past:
        """What the processes did, one column for each, by the names that a job's fields have."""
        entities = [f"{self.gpu.node}/{process.pid}" for process in self._processes]
        own = [_OF_PROCESS[key] for key in keys]
        past = self._view.past(entities, own, seconds, self.since, peaks)
        columns, highs, lows = (
            {key: part[name] for key, name in zip(keys, own, strict=True) if name in part}
            for part in (past.columns, past.peaks, past.lows)
        )
        return past._replace(columns=columns, peaks=highs, lows=lows)


def holds_of(
    view: View, is_wanted: Callable[[str], bool] = lambda _uuid: True
) -> Iterator[UserHold]:
    """GPUs of nodes that no queue lists, with processes that have memory on them.

    Args:
        view: The look.
        is_wanted: Of which GPUs, by UUID; the past of the others is not read.
    """
    for node in view.nodes.values():
        if node.slurm is not None or node.is_stale or view.jobs_on(node.name):
            continue
        processes = node.processes
        users = {process.uid for process in processes}
        for uuid in filter(is_wanted, node.gpu_uuids):
            mine = tuple(process for process in processes if uuid in process.gpu_uuids)
            since = _held_since(view, node.name, uuid, mine) if mine else None
            if since is not None and uuid in view.gpus and not view.jobs_of(uuid):
                yield UserHold(view, view.gpus[uuid], mine, since, is_alone=len(users) == 1)


def _held_since(
    view: View, node: str, uuid: str, processes: Sequence[ProcessFacts]
) -> float | None:
    """Unix time of the first sample in which one of the processes had memory; None: none has.

    The past of processes is shorter than that of GPUs. Where they were there all the while, it goes
    on as far back as there were as many on the GPU; so it does where no driver tells whose memory
    it is, from now on.
    """
    contexts = [f"{node}/{process.pid}/{uuid}" for process in processes]
    past = view.past(contexts, (_MEMORY,), DEFAULT_SPAN_S)
    has_memory: NDArray[np.bool_] = np.logical_or.reduce(past.columns[_MEMORY] > 0, axis=1)
    first = int(np.argmax(has_memory)) if has_memory.any() else len(has_memory)
    since = float(past.begins[first]) if has_memory.any() else view.now
    # The oldest samples may lack what was there: only behind more of them it came later.
    if has_memory.any() and since - float(past.times[0]) > past.longest_s:
        return since
    whole = view.past([uuid], ("compute_process_count",), DEFAULT_SPAN_S)
    count = whole.columns["compute_process_count"][:, 0]
    is_known = np.isfinite(count)
    known = np.flatnonzero(is_known & (whole.times >= since))
    if not len(known) or not count[known[0]] > 0:
        return since if has_memory.any() else None
    row = int(known[0])
    others = np.flatnonzero(is_known[:row] & (count[:row] != count[row]))
    began = int(others[-1]) + 1 if len(others) else 0
    return min(since, float(whole.begins[began]))


def _record(gpu: GpuFacts, since: float) -> Job:
    return Job(
        job_id="",
        label="",
        name="",
        user="",
        account="",
        partition="",
        state="RUNNING",
        reason="",
        nodes=(gpu.node,),
        allocations=(),
        gpu_count=1,
        submit_at=None,
        start_at=since,
        end_at=None,
        time_limit_s=None,
        is_interactive=True,
    )
