"""One GPU in the hands of one run of a job, and the run, as the books know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumon.fleet.ledger.accounts import OpenAccount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.fleet.ledger.accounts import Sums
    from gpumon.fleet.ledger.timeline import Timeline
    from gpumon.model.records.cluster import Job


class Holding:
    """One GPU in the hands of one run of a job."""

    __slots__ = (
        "energy_at",
        "energy_j",
        "energy_last",
        "energy_s",
        "node",
        "run",
        "timeline",
        "uuid",
        "written",
    )

    def __init__(self, run: Run, uuid: str, timeline: Timeline) -> None:
        self.run = run
        self.uuid = uuid
        """Empty while telemetry has not named it."""
        self.node = ""
        self.timeline = timeline
        self.energy_at: float | None = None
        """Unix time of the newest reading of its energy; None: not read yet."""
        self.energy_last: float | None = None
        self.energy_j = self.energy_s = 0.0
        self.written: Written | None = None

    @property
    def is_held(self) -> bool:
        """Whether the job holds it now, and telemetry names it."""
        return self.run.held.get(self.uuid) is self

    def is_meant(self, job_id: str | None, source_uuid: str, of_source: Iterable[Holding]) -> bool:
        """Whether what a finding says of this GPU's time is about this job's.

        What a fault of one GPU costs on others, which wait for it, it costs jobs that hold both.

        Args:
            job_id: The job whose time the finding counts; None: whoever holds the GPU.
            source_uuid: The GPU whose fault it is; empty: each GPU's own.
            of_source: Who holds or held that one.
        """
        if job_id is not None:
            return job_id == self.run.job.job_id
        if source_uuid in ("", self.uuid):
            return True
        return any(other.run is self.run for other in of_source)


class Written(NamedTuple):
    """What of a holding is on disk."""

    gpu: str
    """Name of the GPU under which it is."""
    until: float
    seconds: Mapping[str, float]
    energy_j: float
    energy_s: float


class Run:
    """One run of a job, from Slurm's start to its end or its requeue."""

    __slots__ = (
        "accounts",
        "began_at",
        "ended_at",
        "held",
        "job",
        "past",
        "unknown",
        "unnamed",
        "uuids",
    )

    def __init__(self, job: Job, began_at: float) -> None:
        self.job = job
        self.began_at = began_at
        """Slurm's start, or the first picture that showed it where Slurm names none."""
        self.ended_at: float | None = None
        self.uuids: tuple[str, ...] = ()
        """GPUs as the picture listed them last."""
        self.unknown = 0
        self.held: dict[str, Holding] = {}
        self.unnamed: list[Holding] = []
        """GPUs that it holds and no telemetry names now."""
        self.past: list[Holding] = []
        """GPUs that it held before."""
        self.accounts: dict[str, OpenAccount] = {}
        """By name of the GPU."""

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """Every GPU that it holds or held."""
        return (*self.held.values(), *self.unnamed, *self.past)

    def account_of(self, gpu: str, start: float, epoch: float, sums: Sums) -> OpenAccount:
        """The account of the GPUs of one name, which counts in the sums as well."""
        account = self.accounts.get(gpu)
        if account is None:
            sum_in = sums.of(self.job, gpu, start)
            account = OpenAccount(self.job, gpu, start, epoch, sums.claims, sum_in)
            self.accounts[gpu] = account
        return account
