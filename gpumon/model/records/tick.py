"""The immutable state of the fleet that every view reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpumon.model.cluster_names import cluster_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.finding import Coverage, Finding
    from gpumon.model.records.accounting import EndedJobs, RunningUse
    from gpumon.model.records.cluster import Gpu, JobView, Node, Process
    from gpumon.model.records.frame import QueueRecords
    from gpumon.model.records.ledger import LedgerTotals


class Interval(NamedTuple):
    """A stretch of time in which one job held one GPU."""

    uuid: str
    start: float
    """Unix time of the allocation, or of the first tick that had it."""
    end: float | None
    """Unix time at which the job no longer held it; None: it still does."""


class Span(NamedTuple):
    """A stretch of the past in one resolution."""

    start: float
    end: float
    resolution_s: float
    """Distance of its newest rows."""


class WindowReader(Protocol):
    """Reads the past as it was known at one tick; holds its chunks alive, never changes."""

    def window(
        self, uuid: str, key: str, start: float, end: float, block: str = "gpu"
    ) -> tuple[Sequence[float], Sequence[float]]:
        """Unix times and values of one field of one entity, both ends included.

        NaN where missing. What is older is coarser: means over the time since the row before.
        """
        ...

    def spans(self, block: str = "gpu") -> tuple[Span, ...]:
        """What is covered in which resolution, the oldest and coarsest first."""
        ...

    def intervals(self, job_id: str) -> tuple[Interval, ...]:
        """When the job held which GPU, so that no window crosses from one job into the next."""
        ...


class TargetState(NamedTuple):
    """How one target fares."""

    url: str
    is_ok: bool
    error: SourceError | None
    age_s: float | None
    """Age of its newest frame; None: none yet."""


class Tick(NamedTuple):
    """Everything known at one instant. Views read it, nothing changes it."""

    number: int
    at: float
    """Unix time of the tick."""
    observed_since: float
    """Unix time of the first frame: every total has since when it was observed."""
    period_s: float
    targets: tuple[TargetState, ...]
    nodes: Mapping[str, Node]
    gpus: Mapping[str, Gpu]
    """By UUID."""
    jobs: tuple[JobView, ...]
    queue_at: float | None
    """Unix time of the newest answer of the queue; None where no target is a queue."""
    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    errors: tuple[SourceError, ...]
    lateness_s: float
    """How late the sampler was with this tick."""
    history: WindowReader | None = None
    """Reader of the fleet's history as of this instant; None for a single sample."""
    queue: QueueRecords | None = None
    """What the queues reported: partitions, reservations and nodes besides the jobs."""
    ended: EndedJobs | None = None
    """Jobs that have ended; None: they were not asked for, or there is no answer yet."""
    running_use: RunningUse | None = None
    """What the running steps of one's jobs have used; None likewise."""
    strays: tuple[Process, ...] = ()
    """Processes of no job on GPUs that no job holds; none where that is not certain."""
    cleared: tuple[Finding, ...] = ()
    """Findings that went away within the last hour; they are not among `findings`."""
    ledger: LedgerTotals | None = None
    """What became of GPU time; None: there is no ledger."""
    muted: tuple[Finding, ...] = ()
    """Findings, open or cleared, of which no report is wanted; the ledger counts them too."""
    zoom_period_s: float | None = None
    """Seconds between two ticks of the job that is watched; None: no more than of all else."""
    steady_s: float | None = None
    """Seconds of a clock that is never set; None: the time of the tick is not this machine's."""

    def cluster_of(self, name: str) -> str | None:
        """Slurm's name of the cluster that a job, node or partition is of; None: unknown."""
        return cluster_in(name) or (self.queue.cluster if self.queue else "") or None

    def job(self, job_id: str) -> JobView | None:
        """The job with this Slurm id, None where it is not listed."""
        return next((view for view in self.jobs if view.job.job_id == job_id), None)
