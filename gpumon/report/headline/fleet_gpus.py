"""How many GPUs there are and in which state each is: parts that sum to the whole.

The whole is the union of the GPUs that telemetry names and those that the queue lists.
"""

from __future__ import annotations

from collections import Counter
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.unowned_processes import is_mig
from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.facts.slurm_nodes import is_away, is_open, state_words

if TYPE_CHECKING:
    from gpumon.model.records.cluster import SlurmNode
    from gpumon.report.facts.tick_index import Digest

HELD: Final = "held"
"""Allocated to jobs."""

UNTOLD: Final = "free or another's"
"""Not held by the jobs in view, where Slurm does not say whether by others."""

UNLISTED: Final = "unknown to the queue"
"""On nodes that no queue lists, beside others that one does."""

PARTS: Final = (
    HELD, "free", UNTOLD, "reserved", "in maintenance", "drained", "powered down", "down", UNLISTED,
)  # fmt: skip
"""What a GPU can be, in the order of the headline; of a node out of service only what no job holds
is called so."""


class FleetGpus(NamedTuple):
    """The GPUs of the fleet."""

    gpus: int
    nodes: int
    """Nodes that have them."""
    parts: tuple[tuple[str, int], ...]
    """GPUs by what they are, in the order of `PARTS`, none of them 0; empty without a queue."""

    @property
    def held(self) -> int:
        """GPUs that are allocated to jobs."""
        return dict(self.parts).get(HELD, 0)


def fleet_gpus(digest: Digest) -> FleetGpus:
    """Counted once for a picture."""
    return digest.remembered(("fleet gpus", ""), lambda: _counted(digest))


def _counted(digest: Digest) -> FleetGpus:
    known, queue = digest.tick.nodes, digest.tick.queue
    if queue is None:
        sizes = [len(node.gpu_uuids) for node in known.values() if node.gpu_uuids]
        return FleetGpus(sum(sizes), len(sizes), ())
    counts: Counter[str] = Counter()
    names = [listed.name for listed in queue.nodes]
    met = list(map(known.get, names))
    named = [0 if node is None else len(node.gpu_uuids) for node in met]
    given = _given(digest) if any(listed.gpus_used is None for listed in queue.nodes) else Counter()
    held = map(given.__getitem__, names) if given else repeat(0)
    # Eighty thousand GPUs stand on ten thousand nodes, which are alike but for a few words.
    alike = Counter(zip(map(_told, queue.nodes), named, held, strict=False))
    odd: set[tuple[tuple[str, str, int | None, int | None], int]] = set()
    nodes = 0
    for (told, seen, of_jobs), times in alike.items():
        state, reservation, listed_gpus, used = told
        if seen and seen != listed_gpus:
            odd.add((told, seen))
            continue
        size = max(listed_gpus or 0, seen)
        part = _part(digest, size, used, of_jobs, (state, reservation))
        for what, count in part:
            counts[what] += times * count
        nodes += times * (size > 0)
    if odd:
        for listed, seen in zip(queue.nodes, named, strict=True):
            if (_told(listed), seen) in odd:
                counts.update(dict(_of_odd(digest, listed, given[listed.name])))
                nodes += 1
    if len(met) - met.count(None) < len(known):
        for name in known.keys() - set(names):
            counts[UNLISTED] += len(known[name].gpu_uuids)
            nodes += bool(known[name].gpu_uuids)
    parts = tuple((part, counts[part]) for part in PARTS if counts[part])
    return FleetGpus(sum(counts.values()), nodes, parts)


_told = attrgetter("state", "reservation", "gpu_count", "gpus_used")


def _part(
    digest: Digest, size: int, used: int | None, of_jobs: int, told: tuple[str, str]
) -> tuple[tuple[str, int], ...]:
    """What the GPUs of a node are: those that are held, and the others.

    Args:
        digest: The picture.
        size: GPUs of the node.
        used: Those that Slurm says are allocated; None: it does not say.
        of_jobs: Those that the jobs in view hold.
        told: The node's state and reservation.
    """
    queue, free = digest.tick.queue, "free"
    if used is None:
        used = of_jobs
        free = UNTOLD if queue is not None and queue.is_filtered else free
    held = min(size, used)
    return (HELD, held), (_rest(*told, free), size - held)


def _of_odd(digest: Digest, listed: SlurmNode, of_jobs: int) -> tuple[tuple[str, int], ...]:
    """What the GPUs of a node are of which telemetry tells another number than Slurm."""
    node = digest.tick.nodes.get(listed.name)
    seen = () if node is None else node.gpu_uuids
    size, used = max(listed.gpu_count or 0, len(seen)), listed.gpus_used
    if _has_mig(digest, seen):
        # Of a GPU in MIG mode Slurm counts instances.
        size, used = len(seen), sum(uuid in digest.job_by_gpu for uuid in seen)
    return _part(digest, size, used, of_jobs, (listed.state, listed.reservation))


def _given(digest: Digest) -> Counter[str]:
    """GPUs that the jobs in view hold, by node."""
    found: Counter[str] = Counter()
    for view in digest.tick.jobs:
        if view.job.state in HOLDING_STATES:
            for part in view.job.allocations:
                found[part.node] += part.gpu_count
    return found


def _has_mig(digest: Digest, uuids: tuple[str, ...]) -> bool:
    gpus = map(digest.tick.gpus.get, uuids)
    return any(gpu is not None and is_mig(gpu) for gpu in gpus)


def _rest(state: str, reservation: str, otherwise: str) -> str:
    """What those GPUs of a node are that no job holds."""
    if is_open(state):
        return "reserved" if reservation else otherwise
    words = state_words(state)
    if any(word.startswith("power") for word in words):
        return "powered down"
    if is_away(state):
        return "down"
    return "in maintenance" if "maint" in words else "drained"
