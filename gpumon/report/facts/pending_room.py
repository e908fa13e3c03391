"""The arithmetic of a waiting job: does it fit on free GPUs, and before the next reservation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpumon.report.facts.slurm_nodes import (
    candidates,
    is_plain_constraint,
    job_partitions,
    placement,
    reservations,
)
from gpumon.report.text import units

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Job
    from gpumon.report.facts.slurm_nodes import Room
    from gpumon.report.facts.tick_index import Digest


class Hint(NamedTuple):
    """One thing that holds a job back, or that would let it start sooner."""

    text: str
    """A sentence that stands alone."""
    brief: str = ""
    """The same for a column beside what the job asks for; empty: the sentence itself."""


def room_hints(digest: Digest, job: Job) -> list[Hint]:
    """How what it asks for compares with what is free; nothing where either is not known."""
    kind = placement(job)
    asked, nodes = job.gpu_count, job.node_count
    known = digest.remembered(("known rooms", kind), lambda: _known_rooms(digest, job))
    if not asked or not known:
        return []
    where = " or ".join(job_partitions(job))
    rest = "" if is_plain_constraint(job) or not job.features else ", its constraint not counted"
    if not nodes:
        free = sum(room.free or 0 for room in known)
        brief = f"{units.gpus(free)} {'is' if free == 1 else 'are'} free in {where}{rest}"
        return [Hint(f"asks for {units.gpus(asked)}: {brief}", brief)]
    each = -(-asked // nodes)
    on = "on one node" if nodes == 1 else f"on {nodes} nodes, {each} on each"
    compared = digest.remembered(
        ("compared", f"{nodes}\n{each}\n{kind}"), lambda: _compared(known, nodes, each, where)
    )
    brief = compared + rest
    return [Hint(f"asks for {units.gpus(asked)} {on}: {brief}", brief)]


def _known_rooms(digest: Digest, job: Job) -> list[Room]:
    rooms = candidates(digest, job)
    return [room for room in rooms if room.free is not None and room.gpus is not None]


def _compared(rooms: list[Room], nodes: int, each: int, where: str) -> str:
    """How many nodes have room for what is asked on each, now or ever."""
    able = sum(1 for room in rooms if (room.gpus or 0) >= each)
    if able < nodes:
        has = "no node" if not able else "only 1 node" if able == 1 else f"only {able} nodes"
        verb = "has" if able < 2 else "have"
        return f"{has} of {where} that may be used {verb} {units.gpus(each)} at all"
    fitting = sum(1 for room in rooms if (room.free or 0) >= each)
    if fitting >= nodes:
        has = "1 node has" if fitting == 1 else f"{fitting} nodes have"
        return f"{has} {each} free: what it lacks is something else than GPUs"
    if not any(room.free for room in rooms):
        return f"no GPU of {where} is free"
    if not fitting:
        return f"no node has {each} free, {_free(rooms, each)}"
    return f"only {fitting} {'has' if fitting == 1 else 'have'} {each} free, {_free(rooms, each)}"


def _free(rooms: list[Room], each: int) -> str:
    """`4 have 4`: the largest gaps that are too small."""
    small = [room.free or 0 for room in rooms if 0 < (room.free or 0) < each]
    if not small:
        return "the others have none"
    largest = max(small)
    count = small.count(largest)
    return f"{count} {'have' if count != 1 else 'has'} {largest}"


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
