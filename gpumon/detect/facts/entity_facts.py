"""What hardly changes about the entities of a block: the part of it that is told as facts.

History keeps what varies; a tick of 80,000 GPUs tells the rest only where it changed.
"""

from __future__ import annotations

from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.history.fields import HISTORY_KEYS
from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.records.block import MISSING_INTEGER

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from gpumon.model.catalogue.field import Field
    from gpumon.model.records.block import Block

_CONSTANTS: Final = frozenset(
    {
        "cpu_count",
        "cpus_allowed_count",
        "graphics_clock_max_mhz",
        "host_mem_total_bytes",
        "host_swap_total_bytes",
        "job_cpu_count",
        "job_mem_limit_bytes",
        "link_speed_bytes_per_s",
        "mem_clock_max_mhz",
        "mem_temp_max_c",
        "mig_mem_total_bytes",
        "nic_speed_gbps",
        "power_limit_default_w",
        "power_limit_max_w",
        "power_limit_min_w",
        "size_bytes",
        "start_time_s",
        "temp_max_c",
        "temp_shutdown_c",
        "temp_slowdown_c",
    }
)
"""Gauges that stay as they are while a machine, a job or a process lives."""

_COUNTING: Final = frozenset({"gpu", "link", "nic", "cgroup"})
"""Blocks whose counters without a unit count errors, which are rare."""

_BUSY: Final = frozenset({"nic_np_cnp_sent", "nic_np_ecn_marked_roce_packets"})
"""Counters of congestion, which a loaded port raises all the time."""

_FACT_LABELS: Final = {
    **LABELS,
    "process": (
        *("name", "job_id", "sluid", "step", "task", "container"),
        *("cpus_allowed", "cpu_numa_nodes", "user"),
    ),
}
"""Texts by block; the rank variables of processes are told as the ranks of their jobs. A process's
state changes at every reading: for how long it has been stopped or stuck is in history."""


def _is_fact(field: Field) -> bool:
    if field.kind is Kind.COUNTER:
        return not field.unit and field.block in _COUNTING and field.key not in _BUSY
    if field.kind is Kind.MASK:
        return field.key not in HISTORY_KEYS
    return field.kind is Kind.ID or field.key in _CONSTANTS


FACT_KEYS: Final = {
    block: tuple(f.key for f in CATALOGUE.values() if f.block == block and _is_fact(f))
    for block in {field.block for field in CATALOGUE.values()}
}
"""By block the fields that are told as facts: ids, masks, counts of errors, constants."""

Value = float | int | None


class Rows(NamedTuple):
    """The facts of one block of one node: one row per entity."""

    keys: tuple[str, ...]
    """Entity keys as in frames: `UUID/LINK`, a PID, a port's name, a mount point, a job id."""
    values: Mapping[str, tuple[Value, ...]]
    """By field key; a field that the node never reported is not among them."""
    labels: Mapping[str, tuple[str | None, ...]]

    def value(self, key: str, row: int) -> Value:
        """Value of one field of one entity, None where it is missing."""
        column = self.values.get(key)
        return None if column is None else column[row]

    def label(self, key: str, row: int) -> str | None:
        """Text of one entity, None where it is missing."""
        column = self.labels.get(key)
        return None if column is None else column[row]


NO_ROWS: Final = Rows((), {}, {})


class Print(NamedTuple):
    """What tells two states of a block's facts apart, cheaply."""

    keys: tuple[str, ...]
    columns: tuple[tuple[str, bytes], ...]
    labels: tuple[tuple[str, tuple[str | None, ...]], ...]


@lru_cache(1024)
def _facts_among(name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Which fields of a block are facts; ten thousand nodes tell the same ones."""
    return tuple(key for key in FACT_KEYS[name] if key in keys)


def print_of(block: Block, name: str) -> Print:
    """Fingerprint of a block's facts: no value is looked at one by one."""
    columns = block.columns
    facts = [(key, columns[key].tobytes()) for key in _facts_among(name, tuple(columns))]
    return Print(
        block.keys,
        tuple(facts),
        tuple((key, block.labels[key]) for key in _FACT_LABELS[name] if key in block.labels),
    )


def rows_of(block: Block, name: str) -> Rows:
    """The facts of a block."""
    return Rows(
        block.keys,
        {key: _values(block.columns[key]) for key in FACT_KEYS[name] if key in block.columns},
        {key: block.labels[key] for key in _FACT_LABELS[name] if key in block.labels},
    )


def rows_from(value: tuple[list[str], dict[str, list[Value]], dict[str, list[str | None]]]) -> Rows:
    """Rows as they come out of JSON."""
    keys, values, labels = value
    return Rows(
        tuple(keys),
        {key: tuple(column) for key, column in values.items()},
        {key: tuple(column) for key, column in labels.items()},
    )


def _values(column: array[float] | array[int]) -> tuple[Value, ...]:
    return tuple(None if value == MISSING_INTEGER or isnan(value) else value for value in column)
