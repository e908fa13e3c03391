"""Partitions and reservations from Slurm's JSON, by shape, from v0.0.36 and v0.0.37 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.model.records.queue import Partition, Reservation
from gpumon.sources.slurm.json.values import (
    flags,
    harmless,
    instant,
    minutes_s,
    text,
    texts,
    whole,
)
from gpumon.sources.slurm.text.gres import gpus_in_tres
from gpumon.sources.slurm.text.job_values import planned_nodes
from gpumon.sources.slurm.text.nodes import words
from gpumon.sources.slurm.text.site import PartitionList, ReservationList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def read_partitions(found: Sequence[object]) -> PartitionList:
    """Every partition of the list, in its order; one that can't be read is counted, not fatal."""
    partitions: list[Partition] = []
    unreadable = 0
    for record in found:
        try:
            partitions.append(_partition(record))
        except ValueError:
            unreadable += 1
    return PartitionList(tuple(partitions), unreadable)


def read_reservations(found: Sequence[object], now: float) -> ReservationList:
    """Every reservation of the list; the JSON does not say which are active, their times do.

    Args:
        found: The records.
        now: Unix time of the answer.
    """
    reservations: list[Reservation] = []
    unreadable = 0
    for record in found:
        try:
            reservations.append(_reservation(record, now))
        except ValueError:
            unreadable += 1
    return ReservationList(tuple(reservations), unreadable)


def as_of(reservation: Reservation, now: float) -> Reservation:
    """The reservation in the state that its times give it at a Unix time, as `scontrol` reckons."""
    start_at, end_at = reservation.start_at, reservation.end_at
    is_active = start_at is not None and start_at <= now and (end_at is None or now <= end_at)
    return reservation._replace(state="ACTIVE" if is_active else "INACTIVE")


def _partition(record: object) -> Partition:
    """One partition, of members that v0.0.39 sorted into objects of their own.

    Raises:
        ValueError: it has no name, or its GPUs can't be read.
    """
    if not isinstance(record, dict):
        raise ValueError("no object")
    state = flags(record.get("state") or _inner(record, "partition").get("state"))
    limit = record.get("max_time_limit", _inner(record, "maximums").get("time"))
    tier = record.get("priority_tier", _inner(record, "priority").get("tier"))
    accounts = record.get("allowed_accounts", _inner(record, "accounts").get("allowed"))
    listed = words(",".join(texts(accounts)))
    return Partition(
        name=_name(record),
        state=state[0] if state else "",
        nodes=planned_nodes(text(record.get("nodes", "")) or _configured(record, "nodes")),
        gpu_count=gpus_in_tres(text(record.get("tres")) or _configured(record, "tres")),
        is_default="DEFAULT" in flags(record.get("flags")),
        time_limit_s=minutes_s(limit),
        priority=whole(tier),
        qos=harmless(record, "qos") or harmless(_inner(record, "qos"), "assigned"),
        accounts=() if listed == ("ALL",) else listed,
    )


def _reservation(record: object, now: float) -> Reservation:
    """One reservation.

    Raises:
        ValueError: it has no name, or its GPUs can't be read.
    """
    if not isinstance(record, dict):
        raise ValueError("no object")
    found = Reservation(
        name=_name(record),
        state="",
        start_at=instant(record.get("start_time")),
        end_at=instant(record.get("end_time")),
        nodes=planned_nodes(text(record.get("node_list"))),
        flags=flags(record.get("flags")),
        users=words(text(record.get("users"))),
        accounts=words(text(record.get("accounts"))),
        partition=harmless(record, "partition"),
        gpu_count=gpus_in_tres(text(record.get("tres"))),
    )
    return as_of(found, now)


def _name(record: Mapping[str, Any]) -> str:
    name = harmless(record, "name")
    if not name:
        raise ValueError("no name")
    return name


def _inner(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A member that is an object; an empty one where it is something else."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def _configured(record: Mapping[str, Any], key: str) -> str:
    return text(_inner(record, key).get("configured"))
