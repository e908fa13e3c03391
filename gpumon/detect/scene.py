"""Pasts made up sample by sample, in invented time: for tests of detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.detect.view import View
from gpumon.fleet.history import History
from gpumon.model.cluster import Gpu, Job, JobView
from gpumon.model.fields import CATALOGUE
from gpumon.model.frame import Block, column_for
from gpumon.model.tick import Tick

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_AT: Final = 1_700_000_000.0
"""Unix time at which scenes begin."""

Values = dict[str, float | None]
"""Values of one GPU by field key; None is a value that is missing."""

WORKING: Final[Values] = {
    "process_count": 1.0,
    "mem_used_bytes": 40.0 * 2**30,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.9,
    "sm_active_ratio": 0.6,
    "power_w": 500.0,
    "temp_c": 60.0,
}
"""A GPU that computes."""

UNUSED: Final[Values] = {
    "process_count": 0.0,
    "mem_used_bytes": 0.0,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "power_w": 70.0,
    "temp_c": 30.0,
}
"""A GPU that nobody uses."""


def job_record(job_id: str, start_at: float, nodes: Sequence[str], gpu_count: int) -> Job:
    """A running job as Slurm would list it."""
    return Job(
        job_id=job_id,
        label=job_id,
        name="train",
        user="alice",
        account="lab",
        partition="gpu",
        state="RUNNING",
        reason="",
        nodes=tuple(nodes),
        allocations=(),
        gpu_count=gpu_count,
        submit_at=start_at,
        start_at=start_at,
        end_at=None,
        time_limit_s=None,
    )


class Scene:
    """A fleet whose samples a test writes; GPUs are named `GPU-NODE-INDEX`."""

    def __init__(
        self, period_s: float = 10.0, start_at: float = START_AT, span_s: float = 3600.0
    ) -> None:
        self._period_s = period_s
        self._start_at = start_at
        self._at = start_at - period_s
        self._history = History(span_s)
        self._nodes: dict[str, int] = {}
        self._jobs: dict[str, JobView] = {}
        self._number = 0
        self._tick: Tick | None = None

    def node(self, name: str, gpu_count: int) -> tuple[str, ...]:
        """Add a node; returns the UUIDs of its GPUs."""
        self._nodes[name] = gpu_count
        return tuple(f"GPU-{name}-{index}" for index in range(gpu_count))

    def job(
        self,
        job_id: str,
        uuids: Sequence[str],
        *,
        gpus_unknown: int = 0,
        start_at: float | None = None,
    ) -> None:
        """Start or change a job, from the next sample on."""
        begin = self._at + self._period_s if start_at is None else start_at
        nodes = sorted({uuid.split("-", 1)[1].rsplit("-", 1)[0] for uuid in uuids})
        record = job_record(job_id, begin, nodes, len(uuids) + gpus_unknown)
        self._jobs[job_id] = JobView(record, tuple(uuids), gpus_unknown, (), ())

    def end(self, job_id: str) -> None:
        """End a job before the next sample."""
        del self._jobs[job_id]

    def run(
        self,
        seconds: float,
        values: Mapping[str, Values],
        *,
        stale: Sequence[str] = (),
    ) -> Tick:
        """Sample for so long with these values by UUID, at least once; returns the last tick.

        A GPU that `values` lacks is unused.
        """
        for _ in range(max(1, round(seconds / self._period_s))):
            self._at += self._period_s
            self._number += 1
            tick = self._picture(values, frozenset(stale))
            self._history.append(tick)
        self._tick = tick._replace(history=self._history.reader())
        return self._tick

    def skip(self, seconds: float) -> None:
        """Let time pass without a sample."""
        self._at += seconds

    def view(self) -> View:
        """What a detector sees now."""
        if self._tick is None:
            raise ValueError("nothing was sampled yet")
        return View.of(self._tick)

    def _picture(self, values: Mapping[str, Values], stale: frozenset[str]) -> Tick:
        gpus: dict[str, Gpu] = {}
        for node, count in self._nodes.items():
            uuids = tuple(f"GPU-{node}-{index}" for index in range(count))
            block = _block(uuids, [values.get(uuid, UNUSED) for uuid in uuids])
            for row, uuid in enumerate(uuids):
                gpus[uuid] = Gpu(uuid, node, block, row, self._at, "scene", uuid in stale, ())
        return Tick(
            number=self._number,
            at=self._at,
            observed_since=self._start_at,
            period_s=self._period_s,
            targets=(),
            nodes={},
            gpus=gpus,
            jobs=tuple(self._jobs.values()),
            queue_at=self._at,
            findings=(),
            coverage=(),
            errors=(),
            lateness_s=0.0,
        )


def _block(uuids: tuple[str, ...], rows: list[Values]) -> Block:
    keys = sorted({key for row in rows for key in row})
    columns = {
        key: column_for(CATALOGUE[key].kind.is_integer, [row.get(key) for row in rows])
        for key in keys
    }
    columns["index"] = column_for(is_integer=True, values=list(range(len(uuids))))
    return Block(uuids, columns, {"name": ("NVIDIA H100 80GB HBM3",) * len(uuids)}, {})
