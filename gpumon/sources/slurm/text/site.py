"""Partitions and reservations from the text of `scontrol show`, of every version that prints it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.queue import Partition, Reservation
from gpumon.model.text import plain
from gpumon.sources.slurm.text.gres import gpus_in_tres
from gpumon.sources.slurm.text.job_values import count, planned_nodes
from gpumon.sources.slurm.text.nodes import words
from gpumon.sources.slurm.text.records import announced, keyed_lines, pairs, split_records
from gpumon.sources.slurm.text.times import duration_s, instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_VALUE: Final = frozenset({"", "(null)", "N/A"})
_STATE: Final = re.compile(r"[A-Z]{1,16}")


class PartitionList(NamedTuple):
    """Partitions that were read, and how many records were not."""

    partitions: tuple[Partition, ...]
    unreadable: int
    announced: int | None = None
    """Records that scontrol announced, where it did."""


class ReservationList(NamedTuple):
    """Reservations that were read, and how many records were not."""

    reservations: tuple[Reservation, ...]
    unreadable: int
    announced: int | None = None
    """Records that scontrol announced, where it did."""


def parse_partitions(text: str) -> PartitionList:
    """Every partition of the text, in its order; one that can't be read is counted, not fatal."""
    found: list[Partition] = []
    unreadable = 0
    for lines in split_records(text, "PartitionName"):
        try:
            found.append(_partition(_fields(lines)))
        except ValueError:
            unreadable += 1
    return PartitionList(tuple(found), unreadable, announced(text, "PartitionName"))


def parse_reservations(text: str) -> ReservationList:
    """Every reservation of the text, in its order; otherwise as `parse_partitions`."""
    found: list[Reservation] = []
    unreadable = 0
    for lines in split_records(text, "ReservationName"):
        try:
            found.append(_reservation(_fields(lines)))
        except ValueError:
            unreadable += 1
    return ReservationList(tuple(found), unreadable, announced(text, "ReservationName"))


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """Pairs of the record; the first of each key counts."""
    fields = pairs(lines[0])
    for _, line in keyed_lines(list(lines[1:])):
        fields = {**pairs(line), **fields}
    return fields


def _partition(fields: Mapping[str, str]) -> Partition:
    """One partition.

    Raises:
        ValueError: it has no name, or its nodes' GPUs can't be read.
    """
    return Partition(
        name=_name(fields, "PartitionName"),
        state=_state(fields),
        nodes=planned_nodes(fields.get("Nodes", "")),
        gpu_count=gpus_in_tres(fields.get("TRES", "")),
        is_default=fields.get("Default") == "YES",
        time_limit_s=duration_s(fields.get("MaxTime", "")),
        priority=count(fields.get("PriorityTier", "")),
        qos=_word(fields, "QoS"),
        accounts=_everybody(fields.get("AllowAccounts", "")),
    )


def _reservation(fields: Mapping[str, str]) -> Reservation:
    """One reservation.

    Raises:
        ValueError: it has no name, or its GPUs can't be read.
    """
    return Reservation(
        name=_name(fields, "ReservationName"),
        state=_state(fields),
        start_at=instant(fields.get("StartTime", "")),
        end_at=instant(fields.get("EndTime", "")),
        nodes=planned_nodes(fields.get("Nodes", "")),
        flags=tuple(word.upper() for word in words(fields.get("Flags", ""))),
        users=words(fields.get("Users", "")),
        accounts=words(fields.get("Accounts", "")),
        partition=_word(fields, "PartitionName"),
        gpu_count=gpus_in_tres(fields.get("TRES", "")),
    )


def _name(fields: Mapping[str, str], key: str) -> str:
    name = _word(fields, key)
    if not name:
        raise ValueError("no name")
    return name


def _word(fields: Mapping[str, str], key: str) -> str:
    value = fields.get(key, "")
    return "" if value in _NO_VALUE else plain(value)


def _state(fields: Mapping[str, str]) -> str:
    state = fields.get("State", "").upper()
    return state if _STATE.fullmatch(state) else ""


def _everybody(text: str) -> tuple[str, ...]:
    return () if text == "ALL" else words(text)
