"""Where the ranks of a job run: CPUs, their NUMA nodes, and those of their GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Evidence
from gpumon_detectors.evidence.gpu_use import LEAST_KNOWN
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.watched import mean_of, seen_s, unbroken, window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, NodeFacts, Past, ProcessFacts, View, Window

FAR_DISTANCE: Final = 16
"""From this distance on memory is another socket's. The ACPI's table has 10 for a node's own, 12
or so for another part of one socket, 20 to 32 for the other socket (numactl --hardware of Intel's
and AMD's servers; our choice lies between)."""

_NARROW: Final = 0.5
"""A rank that may use at most this share of the CPUs of its peers has fewer (our choice: launchers
that deal out CPUs differ by one or two of many)."""

LEAST_WAIT: Final = 0.15
"""A main thread that has no CPU for this share of the time is crowded (our choice: what launches
kernels is then late in one step of seven; a sound one waits for a hundredth)."""

_TIMES_PEERS: Final = 3.0
"""And it waits so many times as long as its peers: where all wait, it is the job (our choice)."""

_TIMES_PEERS_IF_PLAIN: Final = 2.0
"""The same where its CPUs are seen to be fewer, or another rank's too (our choice)."""


_NUMA_NODES: Final = "cpu_numa_nodes"


class Seat(NamedTuple):
    """One process on one GPU."""

    process: ProcessFacts
    uuid: str
    gpu_numa_node: int | None
    distance: int | None
    """From the GPU's NUMA node to the nearest one of its CPUs; None: unknown."""

    @property
    def is_far(self) -> bool:
        """Whether all of its CPUs are at another socket than the GPU."""
        return self.distance is not None and self.distance >= FAR_DISTANCE


def may_be_far(node: NodeFacts) -> bool:
    """Whether a process of a node has no CPU at the NUMA node of a GPU that it uses.

    Reads facts by column, which spares nearly all nodes the making of seats.
    """
    processes, gpus = node.block("process"), node.block("gpu")
    allowed = dict(zip(processes.keys, processes.labels.get(_NUMA_NODES, ()), strict=False))
    at = dict(zip(gpus.keys, gpus.values.get("gpu_numa_node", ()), strict=False))
    for context in node.block("context").keys if allowed and at else ():
        pid, _, uuid = context.partition("/")
        text, numa = allowed.get(pid), at.get(uuid)
        if text and numa is not None and str(int(numa)) not in text.split(","):
            return True
    return False


def seats_on(node: NodeFacts) -> tuple[Seat, ...]:
    """Who sits where on a node: a seat for each GPU that a process has a context on."""
    gpus = node.block("gpu")
    at = {uuid: gpus.value("gpu_numa_node", row) for row, uuid in enumerate(gpus.keys)}
    distances = _distances(node.label("numa_distances"))
    found = []
    for process in node.processes:
        for uuid in process.gpu_uuids:
            numa = at.get(uuid)
            own = None if numa is None else int(numa)
            steps = [distances.get((own, other)) for other in process.cpu_numa_nodes]
            known = [step for step in steps if step is not None]
            is_known = own is not None and bool(steps) and len(known) == len(steps)
            found.append(Seat(process, uuid, own, min(known) if is_known else None))
    return tuple(found)


def seats_of(job: JobLook) -> tuple[Seat, ...]:
    """The seats of a job's own processes on the GPUs that it holds."""
    mine, job_id = set(job.uuids), job.job.job_id
    return tuple(
        seat
        for node in job.nodes
        for seat in seats_on(node)
        if seat.uuid in mine and seat.process.job_id == job_id
    )


def far_seats(job: JobLook) -> list[Seat]:
    """Seats of a job that are far; none of a GPU that somebody well placed uses as well."""
    if not any(may_be_far(node) for node in job.nodes):
        return []
    own = seats_of(job)
    near = {seat.uuid for seat in own if not seat.is_far}
    return list({seat.uuid: seat for seat in own if seat.uuid not in near}.values())


def who_sits(job: JobLook, seat: Seat) -> str:
    """A seat by its rank, where one is known, and the GPU's place."""
    gpu = next(gpu for gpu in job.gpus if gpu.uuid == seat.uuid)
    pid, node = seat.process.pid, seat.process.node
    ranks = {r.rank for r in job.ranks if r.pid == pid and r.node == node and r.rank is not None}
    return f"rank {ranks.pop()} ({gpu.place})" if len(ranks) == 1 else gpu.place


def known_mean(past: Past, key: str) -> NDArray[np.float64]:
    """Per entity the mean of a field, NaN where it is missing too often while others are told.

    A hole in the telemetry is time of which nothing is known of anybody, and takes nothing away.
    """
    known_s = past.seconds[1:] @ np.isfinite(past.columns[key][1:])
    is_known = known_s >= LEAST_KNOWN * max(seen_s(past), 1e-9)
    return np.where(is_known, mean_of(past, key), np.nan)


class Crowded(NamedTuple):
    """A rank that waits for CPUs while its peers do not."""

    seat: Seat
    wait: float
    """Share of the time in which its main thread could have run and had no CPU."""
    peers_wait: float
    """The same of its peers, the median."""
    fewer: Evidence | None
    """That it may use fewer CPUs than they may."""
    shares_with: Seat | None
    """A peer that may use the same few CPUs."""


def crowded(view: View, job: JobLook, seconds: float) -> tuple[list[Crowded], Window | None]:
    """Ranks whose main thread waits for a CPU for much longer than those of their peers, and when.

    For whoever has found a rank that is late and looks for its cause, as well. Where more than
    half of the processes wait, it is the job, and nobody is told.

    Args:
        view: This look.
        job: The job.
        seconds: How far back to look.
    """
    seats = list({seat.process.key: seat for seat in seats_of(job)}.values())
    if len(seats) < 2:
        return [], None
    key = "process_cpu_wait_ratio"
    keys = [seat.process.key for seat in seats]
    past = unbroken(view.past(keys, (key,), seconds, job.all_held_since))
    if len(past.times) < 2:
        return [], None
    waits = known_mean(past, key)
    found = []
    for place, seat in enumerate(seats):
        others = np.delete(waits, place)
        known = others[np.isfinite(others)]
        if not len(known) or 2 * len(known) < len(others):
            continue
        usual = float(np.median(known))
        fewer, twin = _fewer(job, seats, seat.uuid), _twin(seat, seats)
        times = _TIMES_PEERS_IF_PLAIN if fewer or twin else _TIMES_PEERS
        if waits[place] >= max(LEAST_WAIT, times * usual):
            found.append(
                Crowded(
                    seat=seat,
                    wait=float(waits[place]),
                    peers_wait=usual,
                    fewer=fewer,
                    shares_with=twin,
                )
            )
    return (found if 2 * len(found) <= len(seats) else []), window_of(past)


def _fewer(job: JobLook, seats: Sequence[Seat], uuid: str) -> Evidence | None:
    own = next((seat for seat in seats if seat.uuid == uuid), None)
    count = own.process.cpus_allowed_count if own is not None else None
    if own is None or count is None:
        return None
    others = [
        seat.process.cpus_allowed_count
        for seat in seats
        if seat.process.key != own.process.key and seat.process.cpus_allowed_count is not None
    ]
    usual = int(np.median(others)) if others else 0
    if count > _NARROW * usual:
        return None
    text = f"{who_sits(job, own)} may use {counted(count, 'CPU')}, its peers {usual}"
    return Evidence("cpus_allowed_count", f"gpu:{uuid}", text, float(count))


def _twin(own: Seat, seats: Sequence[Seat]) -> Seat | None:
    """A peer on the same node that may use the same CPUs, no more than one for each of the two."""
    count, text = own.process.cpus_allowed_count, own.process.cpus_allowed
    if count is None or count > 1 or text is None:
        return None
    peers = (seat for seat in seats if seat.process.key != own.process.key)
    on_node = (seat for seat in peers if seat.process.node == own.process.node)
    return next((seat for seat in on_node if seat.process.cpus_allowed == text), None)


def _distances(text: str | None) -> dict[tuple[int | None, int], int]:
    """Distances by pairs of NUMA nodes, of a text such as `0:10,21 1:21,10`."""
    rows = [part.partition(":") for part in (text or "").split()]
    numbers = [(name, row.split(",")) for name, _, row in rows]
    names = [name for name, _ in numbers]
    if not all(word.isdecimal() for name, row in numbers for word in (name, *row)):
        return {}
    return {
        (int(one), int(other)): int(step)
        for one, row in numbers
        if len(row) == len(names)
        for other, step in zip(names, row, strict=True)
    }
