"""Jobs summed up by user, account or partition: what they hold, use, lose and wait for."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from gpumon.model.job_states import HOLDING_STATES
from gpumon.model.records.block import MISSING_INTEGER
from gpumon.report.facts.array_tasks import asked_gpus, task_count
from gpumon.report.facts.losses import NO_STAKE
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.facts.reservations import reservation_rows
from gpumon.report.facts.slurm_nodes import job_partitions, partition_nodes, partitions, room_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.ledger import Total
    from gpumon.model.records.queue import Partition
    from gpumon.report.facts.losses import Stake
    from gpumon.report.facts.tick_index import Digest

_JOBS_A_STEP: Final = 50
"""Jobs that are summed up in one step: a few milliseconds where each has a finding."""

GroupKind = Literal["user", "account", "partition"]

ScopeKind = Literal["user", "account", "partition", "reservation"]


class GroupSum:
    """Sums over the jobs of one user, account or partition."""

    __slots__ = (
        "activities", "findings", "gpus_pending", "gpus_running", "jobs_pending", "jobs_running",
        "oldest_submit_at", "stake",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs_running = 0
        self.jobs_pending = 0
        """Arrays counted by task."""
        self.gpus_running = 0
        self.gpus_pending = 0
        """As far as Slurm says."""
        self.findings = 0
        self.stake = NO_STAKE
        self.oldest_submit_at: float | None = None
        """When the oldest job that waits was submitted; None: none waits, or not known."""
        self.activities: dict[str, float] = {}
        """SM activity by UUID, or the duty cycle where a GPU has no such counter; a GPU that
        several jobs share counts once, one of which nothing is known not at all."""

    def add(self, digest: Digest, view: JobView) -> None:
        """Count one more job in."""
        job = view.job
        self.findings += len(digest.findings_by_job.get(job.job_id, ()))
        if job.state in HOLDING_STATES:
            self.jobs_running += 1
            self.gpus_running += len(view.gpu_uuids) if job.gpu_count is None else job.gpu_count
            self._add_activities(digest, view.gpu_uuids)
            self.stake = self.stake.plus(digest.stake(view))
        elif job.state == "PENDING":
            self.jobs_pending += task_count(job)
            self.gpus_pending += asked_gpus(job) or 0
            since = job.submit_at
            if since is not None:
                oldest = self.oldest_submit_at
                self.oldest_submit_at = since if oldest is None else min(oldest, since)

    def _add_activities(self, digest: Digest, uuids: Sequence[str]) -> None:
        # Without a call for each GPU: all groups together ask for those of the whole fleet.
        known, found = digest.tick.gpus, self.activities
        block: Block | None = None
        active: Sequence[float] | None = None
        duty: Sequence[float] | None = None
        for uuid in uuids:
            gpu = known.get(uuid)
            if gpu is None or gpu.is_stale:
                continue
            if gpu.block is not block:
                block = gpu.block
                active = block.columns.get("sm_active_ratio")
                duty = block.columns.get("gpu_util_ratio")
            value = nan if active is None else active[gpu.row]
            if value != value or value == MISSING_INTEGER:
                value = nan if duty is None else duty[gpu.row]
                if value != value or value == MISSING_INTEGER:
                    continue
            found[uuid] = value


class Scope(NamedTuple):
    """One group of jobs."""

    kind: ScopeKind
    name: str


class Group(NamedTuple):
    """The jobs of one user, account or partition."""

    kind: GroupKind
    name: str
    jobs_running: int
    jobs_pending: int
    """Arrays counted by task."""
    gpus_running: int
    """GPUs that its jobs hold, as Slurm counts them."""
    gpus_pending: int
    """GPUs that its waiting jobs ask for, as far as Slurm says."""
    gpus_busy: int
    """GPUs whose activity is known and not low."""
    gpus_low: int
    """GPUs that are hardly used."""
    activity_ratio: float | None
    """Mean SM activity, or the duty cycle where a GPU has no such counter; None: not known."""
    total: Total | None
    """The ledger's total of its GPU time; None: there is no ledger, or it is not in it."""
    findings: int
    stake: Stake
    """What is lost with its jobs now, and by the ledger since it began."""
    oldest_wait_s: float | None
    """How long its oldest waiting job waits; None: none waits, or not known."""


def name_in(kind: GroupKind, view: JobView) -> tuple[str, ...]:
    """The groups of one kind that a job belongs to; a waiting job may belong to several."""
    if kind == "user":
        return (view.job.user,)
    if kind == "account":
        return (view.job.account,)
    return job_partitions(view.job)


def jobs_of(digest: Digest, scope: Scope) -> tuple[JobView, ...]:
    """The jobs of a group; of a reservation those that ask for it or cross its start."""
    if scope.kind == "reservation":
        row = next((r for r in reservation_rows(digest) if r.reservation.name == scope.name), None)
        return () if row is None else (*row.members, *row.crossing)
    kind = scope.kind
    return tuple(view for view in digest.tick.jobs if scope.name in name_in(kind, view))


def groups(digest: Digest, kind: GroupKind) -> tuple[Group, ...]:
    """Every group of one kind that has a job or GPU time in the ledger; every partition."""
    for _ in group_steps(digest, kind):
        pass
    return digest.remembered(("groups", kind), lambda: _groups(digest, kind))


def group_steps(digest: Digest, kind: GroupKind) -> Iterator[None]:
    """Sum up, some jobs in a step; `groups` then only reads off the sums."""
    rolled, jobs = _rolled(digest, kind), digest.tick.jobs
    while rolled.done < len(jobs):
        for view in jobs[rolled.done : rolled.done + _JOBS_A_STEP]:
            for name in name_in(kind, view):
                found = rolled.sums.get(name)
                if found is None:
                    found = rolled.sums[name] = GroupSum()
                found.add(digest, view)
        rolled.done += _JOBS_A_STEP
        yield


class _Rolled:
    """How far the jobs of a tick are summed up."""

    def __init__(self, names: Iterable[str]) -> None:
        self.done = 0
        """Jobs that are in the sums."""
        self.sums = {name: GroupSum() for name in names}


def _rolled(digest: Digest, kind: GroupKind) -> _Rolled:
    listed = partitions(digest) if kind == "partition" else ()
    return digest.remembered(("sums", kind), lambda: _Rolled(listed))


def _groups(digest: Digest, kind: GroupKind) -> tuple[Group, ...]:
    sums = dict(_rolled(digest, kind).sums)
    ledger = digest.tick.ledger
    totals = ledger.by(kind) if ledger else {}
    for name in totals:
        sums.setdefault(name, GroupSum())
    at = digest.tick.at
    return tuple(_group(at, kind, name, found, totals.get(name)) for name, found in sums.items())


def _group(at: float, kind: GroupKind, name: str, found: GroupSum, total: Total | None) -> Group:
    known, since = found.activities.values(), found.oldest_submit_at
    stake = found.stake
    if total is not None:
        # Also what jobs lost that have ended.
        stake = stake._replace(lost_s=total.waste_s + total.suspicion_s)
    low = sum(1 for value in known if value < LOW_RATIO)
    return Group(
        kind,
        name,
        jobs_running=found.jobs_running,
        jobs_pending=found.jobs_pending,
        gpus_running=found.gpus_running,
        gpus_pending=found.gpus_pending,
        gpus_busy=len(known) - low,
        gpus_low=low,
        activity_ratio=sum(known) / len(known) if known else None,
        total=total,
        findings=found.findings,
        stake=stake,
        oldest_wait_s=None if since is None else at - since,
    )


class PartitionRow(NamedTuple):
    """One partition with its nodes and its jobs."""

    group: Group
    partition: Partition | None
    """None where jobs name it but no queue lists it."""
    nodes: int
    nodes_out: int
    """Nodes whose state lets no job start."""
    gpus: int | None
    """GPUs of its nodes; None: Slurm does not say."""
    gpus_used: int | None
    gpus_free: int | None
    """On nodes that take jobs."""
    gpus_out: int | None
    """Free GPUs on nodes that are out of service."""


def partition_rows(digest: Digest) -> tuple[PartitionRow, ...]:
    """Every partition that is listed or named by a job."""
    return digest.remembered(
        ("partition rows", ""),
        lambda: tuple(_partition_row(digest, group) for group in groups(digest, "partition")),
    )


def partition_row_steps(digest: Digest) -> Iterator[None]:
    """Sum up jobs, then nodes; `partition_rows` then only reads off the sums."""
    yield from group_steps(digest, "partition")
    yield from room_steps(digest)
    found = groups(digest, "partition")
    yield
    for group in found:
        partition_nodes(digest, (group.name,))
        yield


def _partition_row(digest: Digest, group: Group) -> PartitionRow:
    part: Mapping[str, Partition] = partitions(digest)
    rooms = partition_nodes(digest, (group.name,))
    known = [room for room in rooms if room.gpus is not None and room.free is not None]
    total = sum(room.gpus or 0 for room in known)
    free = sum(room.free or 0 for room in known if room.is_open)
    out = sum(room.free or 0 for room in known if not room.is_open)
    return PartitionRow(
        group,
        part.get(group.name),
        nodes=len(rooms),
        nodes_out=sum(1 for room in rooms if not room.is_open),
        gpus=total if known else None,
        gpus_used=total - free - out if known else None,
        gpus_free=free if known else None,
        gpus_out=out if known else None,
    )
