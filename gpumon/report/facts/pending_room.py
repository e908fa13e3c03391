"""The arithmetic of a waiting job: does it fit on free GPUs, and before the next reservation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpumon.report.facts.slurm_nodes import (
    candidates,
    is_plain_constraint,
    job_partitions,
    partition_nodes,
    placement,
    reservations,
    rooms,
    why_barred,
)
from gpumon.report.text import units
from gpumon.report.text.cells import some_names

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Job
    from gpumon.report.facts.slurm_nodes import Room
    from gpumon.report.facts.tick_index import Digest


class Hint(NamedTuple):
    """One thing that holds a job back, or that would let it start sooner."""

    text: str
    """A sentence for use alone."""
    brief: str = ""
    """The same for a column beside what the job asks for; empty: the sentence itself."""


class _Demand(NamedTuple):
    """What a waiting job asks for on each of its nodes."""

    nodes: int
    gpus: int
    types: tuple[str, ...]
    cpus: int | None
    """None: not reported."""
    mem_bytes: float | None
    """None: not reported."""
    is_exclusive: bool | None
    """None: not reported."""

    def gpu_words(self, count: int) -> str:
        """`4 GPUs`, `4 a100 GPUs`."""
        number, noun = units.gpus(count).split(" ")
        return " ".join((number, *(self.types if len(self.types) == 1 else ()), noun))


def room_hints(digest: Digest, job: Job) -> list[Hint]:
    """How what it asks for compares with what is free, and what would fit instead.

    Nothing where either is not known.
    """
    asked, nodes = job.gpu_count, job.node_count
    if asked and (not nodes or job.gpus_per_node is None):
        return _spread_hints(digest, job, asked)
    if asked is None or not nodes or not (asked or job.cpu_count):
        return []
    demand = _Demand(
        nodes=nodes,
        gpus=job.gpus_per_node or 0 if asked else 0,
        types=job.gpu_types if asked else (),
        cpus=job.cpu_count and max(1, job.cpu_count // nodes),
        mem_bytes=job.mem_bytes and job.mem_bytes / nodes,
        is_exclusive=job.is_exclusive,
    )
    found, instead = digest.remembered(
        ("compared", f"{placement(job)}\n{demand}"), lambda: _compared(digest, job, demand)
    )
    if not found:
        return []
    brief = found + _not_counted(job)
    return [Hint(f"asks for {_asked_words(job, demand)}: {brief}", brief), *map(Hint, instead)]


def _asked_words(job: Job, demand: _Demand) -> str:
    """`8 a100 GPUs on 2 nodes, 4 on each`."""
    must = f", which must be {some_names(job.nodes_required)}" if job.nodes_required else ""
    on = "one node" if demand.nodes == 1 else units.counted(demand.nodes, "node")
    if not demand.gpus:
        cpus = demand.cpus or 0
        each = "" if demand.nodes == 1 else " each"
        return f"{_cpus(cpus)}{each} on {on}{must}"
    each = "" if demand.nodes == 1 else f", {demand.gpus} on each"
    return f"{demand.gpu_words(job.gpu_count or 0)} on {on}{each}{must}"


def _not_counted(job: Job) -> str:
    """What of its wishes is not judged here."""
    found = ", its constraint not counted" if job.features and not is_plain_constraint(job) else ""
    return found + (", its mix of types not counted" if len(job.gpu_types) > 1 else "")


def _spread_hints(digest: Digest, job: Job, asked: int) -> list[Hint]:
    """What is free on all nodes together, for GPUs that may lie anywhere."""
    free_gpus = [room.free_of(job.gpu_types) for room in candidates(digest, job)]
    known = [free for free in free_gpus if free is not None]
    if not known:
        return []
    free, demand = (
        sum(known),
        _Demand(
            nodes=1, gpus=0, types=job.gpu_types, cpus=None, mem_bytes=None, is_exclusive=False
        ),
    )
    verb = "is" if free == 1 else "are"
    where = " or ".join(job_partitions(job))
    brief = f"{demand.gpu_words(free)} {verb} free in {where}{_not_counted(job)}"
    return [Hint(f"asks for {demand.gpu_words(asked)}: {brief}", brief)]


def _compared(digest: Digest, job: Job, demand: _Demand) -> tuple[str, tuple[str, ...]]:
    """What it lacks, empty where that is unknown, and what would fit now if it asked otherwise."""
    where = " or ".join(job_partitions(job))
    known = _known_rooms(digest, job, demand)
    found = _missing_nodes(digest, job, demand, where) or _no_nodes(digest, job, where)
    if not found and known:
        found = _short_of(known, demand, where)
    if not found and known:
        one = demand.nodes == 1
        fitting = sum(_fits(room, demand) for room in known)
        has = f"{units.counted(fitting, 'node')} {_has(fitting)}"
        free = f"{demand.gpus} free" if demand.gpus else "room for " + ("it" if one else "each")
        alone = ", unless it wants its nodes alone" if demand.is_exclusive is None else ""
        lacks = f"it lacks something other than {_judged(known, demand)}{alone}"
        return f"{has} {free}: {lacks}", ()
    return found, _instead(digest, job, demand) if found else ()


def _judged(known: list[Room], demand: _Demand) -> str:
    """What could be compared with what nodes have: `GPUs, CPUs or memory`."""
    cpus = demand.cpus and all(room.free_cpus is not None for room in known)
    memory = demand.mem_bytes and all(room.free_mem_bytes is not None for room in known)
    compared = (("GPUs", demand.gpus), ("CPUs", cpus), ("memory", memory))
    names = [name for name, is_compared in compared if is_compared]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _known_rooms(digest: Digest, job: Job, demand: _Demand) -> list[Room]:
    """Nodes for it of which all that is compared is known."""
    return [
        room
        for room in candidates(digest, job)
        if not demand.gpus
        or (room.gpus_of(demand.types) is not None and room.free_of(demand.types) is not None)
    ]


def _no_nodes(digest: Digest, job: Job, where: str) -> str:
    """Why it can be put nowhere, empty where it can, or its nodes are unknown."""
    if candidates(digest, job):
        return ""
    there = partition_nodes(digest, job_partitions(job))
    barred = tuple(f"{room.node.name} {why_barred(digest, job, room)}" for room in there)
    return f"no node of {where} may be used: {some_names(barred, 3)}" if barred else ""


def _missing_nodes(digest: Digest, job: Job, demand: _Demand, where: str) -> str:
    """What is in the way on the nodes that it must have; empty where nothing is."""
    listed = rooms(digest)
    open_to_it = {room.node.name for room in partition_nodes(digest, job_partitions(job))}
    found = []
    for name in job.nodes_required:
        room = listed.get(name)
        if room is None:
            continue
        barred = why_barred(digest, job, room) if name in open_to_it else f"is not in {where}"
        if obstacle := barred or _lack(room, demand):
            found.append(f"{name} {obstacle}")
    return some_names(tuple(found), 3)


def _lack(room: Room, demand: _Demand) -> str:
    """What one node has too little of, to be read after its name; empty where it fits."""
    able, free = room.gpus_of(demand.types), room.free_of(demand.types)
    if able is not None and able < demand.gpus:
        return f"has {demand.gpu_words(able)} at all"
    if free is not None and free < demand.gpus:
        return f"has {free or 'none'} free"
    if demand.is_exclusive and room.node.cpus_used:
        return "is not empty, and it wants it alone"
    if not _has_cpus(room, demand):
        return f"has {room.free_cpus} of {_cpus(demand.cpus or 0)} free"
    if not _has_memory(room, demand):
        return f"has {units.size(room.free_mem_bytes)} of {units.size(demand.mem_bytes)} free"
    return ""


def _fits(room: Room, demand: _Demand) -> bool:
    """Whether a node has all that is asked on each now, as far as it is known."""
    return not _lack(room, demand)


def _has_cpus(room: Room, demand: _Demand) -> bool:
    free = room.free_cpus
    return free is None or demand.cpus is None or free >= demand.cpus


def _has_memory(room: Room, demand: _Demand) -> bool:
    free = room.free_mem_bytes
    return free is None or demand.mem_bytes is None or free >= demand.mem_bytes


def _short_of(known: list[Room], demand: _Demand, where: str) -> str:
    """What too few nodes have, now or ever; empty where enough have room."""
    nodes, each, types = demand.nodes, demand.gpus, demand.types
    able = [room for room in known if (room.gpus_of(types) or 0) >= each]
    if len(able) < nodes:
        some = f"only {units.counted(len(able), 'node')}" if able else "no node"
        verb = _has(max(1, len(able)))
        return f"{some} of {where} that may be used {verb} {demand.gpu_words(each)} at all"
    fitting = [room for room in able if (room.free_of(types) or 0) >= each]
    if len(fitting) < nodes:
        if not any(room.free_of(types) for room in known):
            return f"no {demand.gpu_words(1).partition(' ')[2]} of {where} is free"
        gaps = _free(known, demand)
        if not fitting:
            return f"no node has {each} free, {gaps}"
        return f"only {len(fitting)} {_has(len(fitting))} {each} free, {gaps}"
    return _short_beside(fitting, demand)


def _short_beside(able: list[Room], demand: _Demand) -> str:
    """What nodes with enough free GPUs have too little of; empty where enough have all."""
    has = f"{units.counted(len(able), 'node')} {_has(len(able))}"
    begin, too = (f"{has} {demand.gpus} free, but ", " too") if demand.gpus else ("", "")
    if demand.is_exclusive:
        empty = [room for room in able if not room.node.cpus_used]
        if len(empty) < demand.nodes:
            are = "is" if len(empty) < 2 else "are"
            return f"{begin}{_only(empty)} {are} empty, and it wants its nodes alone"
        able = empty
    fitting = [room for room in able if _has_cpus(room, demand)]
    if len(fitting) < demand.nodes:
        most = max(room.free_cpus or 0 for room in able if room not in fitting)
        asked = _cpus(demand.cpus or 0)
        return f"{begin}{_have(fitting)} {asked} free{too}, {_others(fitting)}{most} at most"
    able, fitting = fitting, [room for room in fitting if _has_memory(room, demand)]
    if len(fitting) < demand.nodes:
        asked = f"{units.size(demand.mem_bytes)} of memory"
        left = units.size(max(room.free_mem_bytes or 0.0 for room in able if room not in fitting))
        return f"{begin}{_have(fitting)} {asked} free{too}, {_others(fitting)}{left} at most"
    return ""


def _has(count: int) -> str:
    """The verb behind a number of nodes."""
    return "has" if count == 1 else "have"


def _only(some: list[Room]) -> str:
    return f"only {len(some)}" if some else "none"


def _have(some: list[Room]) -> str:
    return f"{_only(some)} {_has(max(1, len(some)))}"


def _others(some: list[Room]) -> str:
    return "the others " if some else ""


def _free(known: list[Room], demand: _Demand) -> str:
    """`4 have 4`: the largest gaps that are too small."""
    free = (room.free_of(demand.types) or 0 for room in known)
    small = [count for count in free if 0 < count < demand.gpus]
    if not small:
        return "the others have none"
    largest = max(small)
    count = small.count(largest)
    return f"{count} {_has(count)} {largest}"


def _instead(digest: Digest, job: Job, demand: _Demand) -> tuple[str, ...]:
    """What would fit now if the job asked for it: other types, or other nodes."""
    found = []
    candidates_now = candidates(digest, job)
    if demand.types:
        kinds = {kind for room in candidates_now for kind in room.node.gpu_types}
        for kind in sorted(kinds.difference(demand.types, {""})):
            names = _fitting(candidates_now, demand._replace(types=(kind,)))
            if len(names) >= demand.nodes:
                found.append(f"with {kind} instead it would fit now, on {some_names(names, 3)}")
    for wish, freer, words in (
        (job.nodes_required, job._replace(nodes_required=()), "its list of nodes"),
        (job.nodes_excluded, job._replace(nodes_excluded=()), "its list of excluded nodes"),
    ):
        if wish:
            names = _fitting(candidates(digest, freer), demand)
            if len(names) >= demand.nodes:
                found.append(f"without {words} it would fit now, on {some_names(names, 3)}")
    return tuple(found)


def _fitting(found: tuple[Room, ...], demand: _Demand) -> tuple[str, ...]:
    """Nodes that are known to have room."""
    return tuple(
        room.node.name
        for room in found
        if _fits(room, demand) and (not demand.gpus or room.free_of(demand.types) is not None)
    )


def _cpus(count: int) -> str:
    return units.counted(count, "CPU")


def time_hints(digest: Digest, job: Job) -> list[Hint]:
    """Reservations to come that its time limit runs into."""
    if job.time_limit_s is None:
        return []
    at = digest.tick.at
    kind = placement(job)
    nodes = digest.remembered(
        ("candidate names", kind), lambda: {room.node.name for room in candidates(digest, job)}
    )
    found = []
    for reservation in reservations(digest):
        start = reservation.start_at
        if start is None or start <= at or reservation.name == job.reservation:
            continue
        if at + job.time_limit_s <= start:
            continue
        taken = digest.remembered(
            ("taken", f"{reservation.name}\n{kind}"), partial(nodes.intersection, reservation.nodes)
        )
        if not taken:
            continue
        what = "maintenance" if reservation.is_maintenance else "reservation"
        asked = units.short_duration(job.time_limit_s)
        left = units.short_duration(start - at)
        text = f"time limit {asked} crosses the {what} {reservation.name} at "
        text += f"{units.clock_time(start)} on {len(taken)} of {len(nodes)} nodes: "
        text += f"a limit under {left} would end before it"
        found.append(Hint(text, f"{what} in {left}: too long for it"))
    return found
