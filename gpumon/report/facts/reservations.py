"""Reservations that are not over, each with the jobs that it concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumon.model.job_states import HOLDING_STATES
from gpumon.report.facts.slurm_nodes import candidates, reservations

if TYPE_CHECKING:
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.queue import Reservation
    from gpumon.report.facts.tick_index import Digest


class ReservationRow(NamedTuple):
    """One reservation with the jobs that it concerns."""

    reservation: Reservation
    crossing: tuple[JobView, ...]
    """Jobs not of it that run past its start by their limit, or would if they began now."""
    members: tuple[JobView, ...]
    """Jobs that ask for it."""


def reservation_rows(digest: Digest) -> tuple[ReservationRow, ...]:
    """Every reservation that is not over."""
    return digest.remembered(("reservations", ""), lambda: _rows(digest))


def _rows(digest: Digest) -> tuple[ReservationRow, ...]:
    at = digest.tick.at
    found = []
    for reservation in reservations(digest):
        if reservation.end_at is not None and reservation.end_at <= at:
            continue
        members = tuple(v for v in digest.tick.jobs if v.job.reservation == reservation.name)
        found.append(ReservationRow(reservation, _crossing(digest, reservation), members))
    return tuple(found)


def _crossing(digest: Digest, reservation: Reservation) -> tuple[JobView, ...]:
    """Jobs of others that cross the start of a reservation that is still to come."""
    start, at = reservation.start_at, digest.tick.at
    if start is None or start <= at:
        return ()
    nodes = set(reservation.nodes)
    found = []
    for view in digest.tick.jobs:
        job = view.job
        if job.reservation == reservation.name:
            continue
        if job.state in HOLDING_STATES:
            late = job.end_at is not None and job.end_at > start
            crosses = late and not nodes.isdisjoint(job.nodes)
        elif job.state == "PENDING" and job.time_limit_s is not None:
            late = max(at, job.start_at or at) + job.time_limit_s > start
            rooms = candidates(digest, job) if late else ()
            crosses = any(room.node.name in nodes for room in rooms)
        else:
            continue
        if crosses:
            found.append(view)
    return tuple(found)
