"""What Slurm's nodes have free, and which of them can take a job."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.unowned_processes import is_mig
from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.text.cells import Tone, paragraph, some_names
from gpumon.report.text.units import short_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.model.records.cluster import Job, Node, SlurmNode
    from gpumon.model.records.queue import Partition, Reservation
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

OUT_FLAGS: Final = frozenset(
    {
        "down", "drain", "drained", "draining", "fail", "failing", "error", "future",
        "maint", "not_responding", "power_down", "powered_down", "powering_down", "unknown",
    }
)  # fmt: skip
"""Node states and flags of sinfo(1) under which a node starts no job."""


class Room(NamedTuple):
    """What one node has for jobs."""

    node: SlurmNode
    gpus: int | None
    """GPUs of the node; None: Slurm does not say."""
    free: int | None
    """GPUs that no job holds; None: not known."""
    is_open: bool
    """Whether its state lets jobs start."""


@lru_cache(256)
def is_open(state: str) -> bool:
    """Whether a node in this state takes jobs: nothing in it says that it is out of service."""
    words = state.lower().rstrip("*~#!%$@^-").split("+")
    return not OUT_FLAGS.intersection(words)


def rooms(digest: Digest) -> Mapping[str, Room]:
    """What every node of the queue has, by name."""
    return digest.remembered(("rooms", ""), lambda: _rooms(digest))


def _rooms(digest: Digest) -> dict[str, Room]:
    queue = digest.tick.queue
    if queue is None:
        return {}
    held: dict[str, int] = {}
    for view in digest.tick.jobs:
        if view.job.state in HOLDING_STATES:
            for part in view.job.allocations:
                held[part.node] = held.get(part.node, 0) + part.gpu_count
    found = {}
    for node in queue.nodes:
        used = node.gpus_used
        if used is None and not queue.is_filtered:
            used = held.get(node.name, 0)
        is_known = node.gpu_count is not None and used is not None
        free = max(0, (node.gpu_count or 0) - (used or 0)) if is_known else None
        found[node.name] = Room(node, node.gpu_count, free, is_open(node.state))
    return found


def has_unseen_holders(digest: Digest, node: Node) -> bool:
    """Whether Slurm has given away more GPUs of a node than the jobs in view hold there.

    Then nobody can say of the others which are free. Of a GPU in MIG mode Slurm counts instances.
    """
    used = used_gpus(digest, node)
    return used > sum(uuid in digest.job_by_gpu for uuid in node.gpu_uuids)


def used_gpus(digest: Digest, node: Node) -> int:
    """GPUs of a node with telemetry that anybody's jobs hold.

    Where Slurm does not count them, or counts instances of MIG, those that the jobs in view hold.
    """
    held = sum(uuid in digest.job_by_gpu for uuid in node.gpu_uuids)
    room = rooms(digest).get(node.name)
    if room is None or room.node.gpus_used is None:
        return held
    if any((gpu := digest.tick.gpus.get(uuid)) and is_mig(gpu) for uuid in node.gpu_uuids):
        return held
    return max(held, min(room.node.gpus_used, len(node.gpu_uuids)))


def slurm_facts(digest: Digest, name: str) -> list[tuple[str, str]]:
    """What Slurm says of a node as names and values, an empty value where it says nothing."""
    room = rooms(digest).get(name)
    if room is None:
        return []
    node = room.node
    held = ""
    if room.gpus is not None and room.free is not None:
        held = f"{room.gpus - room.free} of {room.gpus}"
    return [
        ("partitions", some_names(node.partitions)),
        ("GPUs held", held),
        ("features", some_names(node.features)),
        ("reservation", node.reservation),
        ("leaf switch", node.leaf_switch),
        ("block", node.block),
    ]


def reason_lines(digest: Digest, name: str, width: int) -> list[Line]:
    """Why Slurm has a node out of service, since when and by whom; nothing where it is not."""
    room = rooms(digest).get(name)
    if room is None or not room.node.reason:
        return []
    node = room.node
    since = ""
    if node.reason_at is not None:
        since = f", {short_duration(max(0.0, digest.tick.at - node.reason_at))} ago"
    by = f" ({node.reason_user}{since})" if node.reason_user else since
    return paragraph(f"Slurm's reason: {node.reason}{by}", width, Tone.WARN, "! ", "  ")


def partitions(digest: Digest) -> Mapping[str, Partition]:
    """The queue's partitions by name."""
    queue = digest.tick.queue
    found = queue.partitions if queue else ()
    return digest.remembered(("partitions", ""), lambda: {part.name: part for part in found})


def reservations(digest: Digest) -> tuple[Reservation, ...]:
    """The queue's reservations."""
    queue = digest.tick.queue
    return queue.reservations if queue else ()


def partition_nodes(digest: Digest, names: Iterable[str]) -> tuple[Room, ...]:
    """The nodes of some partitions, each once; empty where nothing says which these are."""
    wanted = tuple(names)
    kind = ("nodes of", ",".join(wanted))
    return digest.remembered(kind, lambda: _partition_nodes(digest, wanted))


def _partition_nodes(digest: Digest, names: tuple[str, ...]) -> tuple[Room, ...]:
    known, listed = rooms(digest), partitions(digest)
    wanted: dict[str, Room] = {}
    for name in names:
        part = listed.get(name)
        if part is not None and part.nodes:
            wanted.update((node, known[node]) for node in part.nodes if node in known)
        else:
            wanted.update((n, room) for n, room in known.items() if name in room.node.partitions)
    return tuple(wanted.values())


def job_partitions(job: Job) -> tuple[str, ...]:
    """The partitions that a job may run in: a waiting one can name several."""
    return tuple(name for name in job.partition.split(",") if name)


def candidates(digest: Digest, job: Job) -> tuple[Room, ...]:
    """Nodes of its partitions that a job could be put on as far as state and reservations say.

    A constraint of one word is honoured; see `is_plain_constraint` for the others.
    """
    return digest.remembered(("candidates", placement(job)), lambda: _candidates(digest, job))


def placement(job: Job) -> str:
    """What decides where a job could be put: jobs that share it share their candidates."""
    return "\n".join((job.partition, job.features, job.reservation))


def _candidates(digest: Digest, job: Job) -> tuple[Room, ...]:
    at = digest.tick.at
    barred: set[str] = set()
    own: set[str] | None = None
    for reservation in reservations(digest):
        if reservation.name == job.reservation:
            own = set(reservation.nodes)
        elif _is_now(reservation, at):
            barred.update(reservation.nodes)
    return tuple(
        room
        for room in partition_nodes(digest, job_partitions(job))
        if room.is_open
        and (own is None or room.node.name in own)
        and (own is not None or room.node.name not in barred)
        and (not job.features or not is_plain_constraint(job) or job.features in room.node.features)
    )


def is_plain_constraint(job: Job) -> bool:
    """Whether the constraint is a single feature, which is all that is judged here."""
    return job.features.replace("_", "").replace("-", "").replace(".", "").isalnum()


def _is_now(reservation: Reservation, at: float) -> bool:
    begun = reservation.start_at is None or reservation.start_at <= at
    over = reservation.end_at is not None and reservation.end_at <= at
    return begun and not over and bool(reservation.nodes)
