"""Jobs summed up by user, account or partition: what they hold, use, lose and wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from gpumon.report.array_tasks import count_tasks, sum_asked
from gpumon.report.job_columns import LOW_RATIO
from gpumon.report.reservation_columns import reservation_rows
from gpumon.report.slurm_nodes import job_partitions, partition_nodes, partitions
from gpumon.report.words import HOLDING_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.cluster import JobView
    from gpumon.model.ledger import Total
    from gpumon.model.queue import Partition
    from gpumon.report.digest import Digest

GroupKind = Literal["user", "account", "partition"]


ScopeKind = Literal["user", "account", "partition", "reservation"]


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
    booked: Total | None
    """What the books say of its GPU time; None: nobody keeps them, or it is in none."""
    findings: int
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
    """Every group of one kind that has a job or GPU time in the books; every partition."""
    return digest.remembered(("groups", kind), lambda: _groups(digest, kind))


def _groups(digest: Digest, kind: GroupKind) -> tuple[Group, ...]:
    members: dict[str, list[JobView]] = {}
    if kind == "partition":
        members = {name: [] for name in partitions(digest)}
    for view in digest.tick.jobs:
        for name in name_in(kind, view):
            members.setdefault(name, []).append(view)
    books = digest.tick.ledger
    booked = books.by(kind) if books else {}
    for name in booked:
        members.setdefault(name, [])
    return tuple(
        _group(digest, kind, name, views, booked.get(name)) for name, views in members.items()
    )


def _group(
    digest: Digest, kind: GroupKind, name: str, views: list[JobView], booked: Total | None
) -> Group:
    at = digest.tick.at
    holding = [view for view in views if view.job.state in HOLDING_STATES]
    pending = [view for view in views if view.job.state == "PENDING"]
    known = _activities(digest, holding)
    waits = [at - view.job.submit_at for view in pending if view.job.submit_at is not None]
    low = sum(1 for value in known if value < LOW_RATIO)
    return Group(
        kind,
        name,
        jobs_running=len(holding),
        jobs_pending=count_tasks(pending),
        gpus_running=sum(_held(view) for view in holding),
        gpus_pending=sum_asked(pending),
        gpus_busy=len(known) - low,
        gpus_low=low,
        activity_ratio=sum(known) / len(known) if known else None,
        booked=booked,
        findings=sum(len(digest.findings_by_job.get(view.job.job_id, ())) for view in views),
        oldest_wait_s=max(waits) if waits else None,
    )


def _held(view: JobView) -> int:
    count = view.job.gpu_count
    return len(view.gpu_uuids) if count is None else count


def _activities(digest: Digest, views: list[JobView]) -> list[float]:
    """The known activity of each GPU of these jobs, a shared one once."""
    found: dict[str, float] = {}
    for view in views:
        for gpu in digest.gpus(view):
            value = gpu.value("sm_active_ratio")
            if value is None:
                value = gpu.value("gpu_util_ratio")
            if value is not None:
                found[gpu.uuid] = value
    return list(found.values())


def lost_gpu_s(digest: Digest, view: JobView) -> float | None:
    """GPU-seconds that a job lost by its findings: of those that overlap, the largest counts."""
    whole: list[float] = []
    by_gpu: dict[str, float] = {}
    for finding in digest.findings_by_job.get(view.job.job_id, ()):
        if finding.gpu_seconds is None:
            continue
        if finding.subject.startswith("gpu:"):
            before = by_gpu.get(finding.subject, 0.0)
            by_gpu[finding.subject] = max(before, finding.gpu_seconds)
        else:
            whole.append(finding.gpu_seconds)
    if not whole and not by_gpu:
        return None
    return max([*whole, sum(by_gpu.values())])


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
    return tuple(_partition_row(digest, group) for group in groups(digest, "partition"))


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
