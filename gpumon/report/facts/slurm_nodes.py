"""What Slurm's nodes have free, and which of them can take a job."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.unowned_processes import is_mig
from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.text.cells import Tone, paragraph, some_names
from gpumon.report.text.units import short_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumon.model.records.cluster import Job, JobView, Node, SlurmNode
    from gpumon.model.records.queue import Partition, Reservation
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

OUT_FLAGS: Final = frozenset(
    {
        "down", "drain", "drained", "draining", "fail", "failing", "error", "future",
        "maint", "not_responding", "power_down", "powered_down", "powering_down", "unknown",
    }
)  # fmt: skip
"""Node states and flags of sinfo(1) under which a node starts no job."""

AWAY_FLAGS: Final = frozenset({"down", "fail", "error", "not_responding", "powered_down"})
"""Those under which a node is away, and not only closed to new jobs."""


_ENTITIES_A_STEP: Final = 500
"""Nodes or jobs that are read in one step: a few milliseconds."""


class Room(NamedTuple):
    """What one node has for jobs."""

    node: SlurmNode
    gpus: int | None
    """GPUs of the node; None: Slurm does not say."""
    free: int | None
    """GPUs that no job holds; None: not known."""
    is_open: bool
    """Whether its state lets jobs start."""
    types_used: tuple[str, ...] | None = ()
    """Slurm's type of each GPU that jobs hold, `""` for one without; None: not known."""

    def gpus_of(self, types: tuple[str, ...]) -> int | None:
        """GPUs of some types, all where none is named; None where it is not reported."""
        if not types or self.gpus is None:
            return self.gpus
        return sum(kind in types for kind in self.node.gpu_types)

    def free_of(self, types: tuple[str, ...]) -> int | None:
        """GPUs of some types that no job holds, all where none is named; None: not known."""
        able = self.gpus_of(types)
        if not types or self.free is None or not able:
            return able and self.free
        if able == self.gpus or not self.free:
            return self.free
        if self.types_used is None:
            return None
        return max(0, able - sum(kind in types for kind in self.types_used))

    @property
    def cpus(self) -> int | None:
        """CPUs that jobs can have; None: not known."""
        node = self.node
        return node.cpu_count if node.cpus_usable is None else node.cpus_usable

    @property
    def free_cpus(self) -> int | None:
        """CPUs that no job holds; None: not known."""
        if self.cpus is None or self.node.cpus_used is None:
            return None
        return max(0, self.cpus - self.node.cpus_used)

    @property
    def free_mem_bytes(self) -> float | None:
        """Host memory that no job holds; None: not known.

        Where nothing of it is taken all is free: many clusters do not give out memory, and there a
        job asks for all that a node has, with what is reserved for the system.
        """
        node = self.node
        if node.mem_bytes is None or node.mem_used_bytes is None:
            return None
        if not node.mem_used_bytes:
            return node.mem_bytes
        return max(0.0, node.mem_bytes - (node.mem_kept_bytes or 0.0) - node.mem_used_bytes)


@lru_cache(256)
def is_open(state: str) -> bool:
    """Whether a node in this state takes jobs: nothing in it says that it is out of service."""
    return OUT_FLAGS.isdisjoint(state_words(state))


def is_away(state: str) -> bool:
    """Whether a node in this state is away: down, or it does not answer Slurm."""
    return state.endswith("*") or not AWAY_FLAGS.isdisjoint(state_words(state))


def state_words(state: str) -> list[str]:
    """A node's state and its flags, without the signs that sinfo puts behind them."""
    return state.lower().rstrip("*~#!%$@^-").split("+")


def rooms(digest: Digest) -> Mapping[str, Room]:
    """What every node of the queue has, by name."""
    for _ in room_steps(digest):
        pass
    return _made(digest)


def room_steps(digest: Digest) -> Iterator[None]:
    """Look at some hundred nodes or jobs in a step; `rooms` then has nothing left to do."""
    found, tick = _made(digest), digest.tick
    # Without the digest: while some steps are left, it and they would hold each other.
    for _ in digest.remembered(("steps to rooms", ""), lambda: _steps(tick, found)):
        yield


def _made(digest: Digest) -> dict[str, Room]:
    return digest.remembered(("rooms", ""), dict)


def _steps(tick: Tick, found: dict[str, Room]) -> Iterator[None]:
    queue = tick.queue
    if queue is None:
        return
    held: Counter[str] = Counter()
    types: dict[str, tuple[str, ...]] = {}
    counts_jobs = not queue.is_filtered and any(node.gpus_used is None for node in queue.nodes)
    for start in range(0, len(tick.jobs) if counts_jobs else 0, _ENTITIES_A_STEP):
        _count_held(tick.jobs[start : start + _ENTITIES_A_STEP], held, types)
        yield
    for start in range(0, len(queue.nodes), _ENTITIES_A_STEP):
        for node in queue.nodes[start : start + _ENTITIES_A_STEP]:
            used, types_used = node.gpus_used, node.gpu_types_used
            if used is None and counts_jobs:
                used, types_used = held[node.name], types.get(node.name, ())
            found[node.name] = _room(node, used, types_used)
        yield


def _count_held(
    jobs: Iterable[JobView], held: Counter[str], types: dict[str, tuple[str, ...]]
) -> None:
    """Add what these jobs hold of each node."""
    for view in jobs:
        if view.job.state in HOLDING_STATES:
            for part in view.job.allocations:
                held[part.node] += part.gpu_count
                types[part.node] = types.get(part.node, ()) + part.gpu_types


def _room(node: SlurmNode, used: int | None, types_used: tuple[str, ...]) -> Room:
    is_known = node.gpu_count is not None and used is not None
    return Room(
        node=node,
        gpus=node.gpu_count,
        free=max(0, (node.gpu_count or 0) - (used or 0)) if is_known else None,
        is_open=is_open(node.state),
        types_used=types_used if len(types_used) == used else None,
    )


def has_unseen_holders(digest: Digest, node: Node) -> bool:
    """Whether Slurm has given away more GPUs of a node than the jobs in view hold there.

    Then it is unknown which of the others are free. Of a GPU in MIG mode Slurm counts instances.
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
    kinds = Counter(node.gpu_types)
    return [
        ("partitions", some_names(node.partitions)),
        ("GPU types", some_names(tuple(f"{n} {kind}" for kind, n in kinds.items() if kind))),
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
    """Nodes that a job could be put on as far as its wishes, states and reservations say.

    A constraint that is a list of features is honoured; see `is_plain_constraint` for others.
    """
    return digest.remembered(("candidates", placement(job)), lambda: _candidates(digest, job))


def placement(job: Job) -> str:
    """What decides where a job could be put: jobs that share it share their candidates."""
    nodes = ",".join(job.nodes_required), ",".join(job.nodes_excluded), str(job.node_count or 1)
    return "\n".join((job.partition, job.features, job.reservation, *nodes))


def _candidates(digest: Digest, job: Job) -> tuple[Room, ...]:
    bound = job.nodes_required if len(job.nodes_required) >= (job.node_count or 1) else ()
    return tuple(
        room
        for room in partition_nodes(digest, job_partitions(job))
        if (not bound or room.node.name in bound) and not why_barred(digest, job, room)
    )


def why_barred(digest: Digest, job: Job, room: Room) -> str:
    """Why a job cannot be put on a node of its partitions, however free it is; empty: it can.

    It reads after the node's name: `is drained`.
    """
    name = room.node.name
    if not room.is_open:
        return f"is {room.node.state}"
    own, others = digest.remembered(
        ("reserved", job.reservation), lambda: _reserved(digest, job.reservation)
    )
    if own is not None and name not in own:
        return f"is not in reservation {job.reservation}"
    if own is None and name in others:
        return f"is reserved ({others[name]})"
    if not _has_features(room.node, job.features):
        return f"lacks the features {job.features}"
    return "is excluded" if name in job.nodes_excluded else ""


def _reserved(digest: Digest, name: str) -> tuple[frozenset[str] | None, dict[str, str]]:
    """Nodes of the reservation of a name, None where there is none; who has reserved others now."""
    own: frozenset[str] | None = None
    others: dict[str, str] = {}
    for reservation in reservations(digest):
        if reservation.name == name:
            own = frozenset(reservation.nodes)
        elif _is_now(reservation, digest.tick.at):
            others.update(dict.fromkeys(reservation.nodes, reservation.name))
    return own, others


def is_plain_constraint(job: Job) -> bool:
    """Whether the constraint is one feature, or all or one of several, which is judged here."""
    return _features(job.features) is not None


@lru_cache(256)
def _features(constraint: str) -> tuple[bool, tuple[str, ...]] | None:
    """Whether all are needed, and which; None for counts, brackets and mixtures (sbatch(1))."""
    for sign in "&|":
        words = tuple(constraint.split(sign))
        if all(word.translate(_MARKS).isalnum() for word in words):
            return sign == "&", words
    return None


_MARKS: Final = str.maketrans("", "", "_-.")
"""Marks that the name of a feature may have."""


def _has_features(node: SlurmNode, constraint: str) -> bool:
    """Whether a node meets a constraint, as far as that is judged."""
    known = _features(constraint) if constraint else None
    if known is None:
        return True
    all_needed, words = known
    found = [word in node.features for word in words]
    return all(found) if all_needed else any(found)


def _is_now(reservation: Reservation, at: float) -> bool:
    begun = reservation.start_at is None or reservation.start_at <= at
    over = reservation.end_at is not None and reservation.end_at <= at
    return begun and not over and bool(reservation.nodes)
