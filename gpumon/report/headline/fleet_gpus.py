"""How many GPUs there are and in which state each is: parts that sum to the whole.

The whole is the union of the GPUs that telemetry names and those that the queue lists.
"""

from __future__ import annotations

from collections import Counter
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
    # Eighty thousand GPUs stand on ten thousand nodes, which are alike but for a few words.
    alike = Counter(zip(map(_told, queue.nodes), named, strict=True))
    odd: set[tuple[tuple[str, str, int | None, int | None], int]] = set()
    nodes = 0
    for (told, seen), times in alike.items():
        state, reservation, listed_gpus, used = told
        size = max(listed_gpus or 0, seen)
        if used is None or (seen and seen != listed_gpus):
            odd.add((told, seen))
            continue
        held = min(size, used)
        counts[HELD] += times * held
        counts[_rest(state, reservation, "free")] += times * (size - held)
        nodes += times * (size > 0)
    if odd:
        given = _given(digest)
        for listed, seen in zip(queue.nodes, named, strict=True):
            if (_told(listed), seen) in odd:
                nodes += _count_odd(digest, listed, given[listed.name], counts)
    if len(met) - met.count(None) < len(known):
        for name in known.keys() - set(names):
            counts[UNLISTED] += len(known[name].gpu_uuids)
            nodes += bool(known[name].gpu_uuids)
    parts = tuple((part, counts[part]) for part in PARTS if counts[part])
    return FleetGpus(sum(counts.values()), nodes, parts)


_told = attrgetter("state", "reservation", "gpu_count", "gpus_used")


def _count_odd(digest: Digest, listed: SlurmNode, given: int, counts: Counter[str]) -> int:
    """Count a node that does not tell its use, or other GPUs than telemetry; 0: it has none."""
    node, queue = digest.tick.nodes.get(listed.name), digest.tick.queue
    seen = () if node is None else node.gpu_uuids
    size, used, free = max(listed.gpu_count or 0, len(seen)), listed.gpus_used, "free"
    if seen and len(seen) != listed.gpu_count and _has_mig(digest, seen):
        # Of a GPU in MIG mode Slurm counts instances.
        size, used = len(seen), sum(uuid in digest.job_by_gpu for uuid in seen)
    elif used is None:
        used = given
        free = UNTOLD if queue is not None and queue.is_filtered else free
    held = min(size, used)
    counts[HELD] += held
    counts[_rest(listed.state, listed.reservation, free)] += size - held
    return int(size > 0)


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
