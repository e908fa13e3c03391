"""One tick of a whole fleet as columns, so that eighty thousand GPUs need no call for each."""

from __future__ import annotations

from array import array
from functools import cached_property
from itertools import chain
from math import nan
from operator import attrgetter, ne
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.records.block import EMPTY_BLOCK, MISSING_INTEGER
from gpumon.model.records.cluster import Gpu
from gpumon.report.fleet_map.map import closed_mark
from gpumon.report.fleet_map.marks import DOWN
from gpumon.report.fleet_map.numbered_nodes import NO_JOB, STEP, holders_of, reported_use

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from numpy.typing import NDArray

    from gpumon.model.missing import Reason
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.marks import MapField
    from gpumon.report.fleet_map.numbered_nodes import Holders, Roster

OPEN, DRAINED_NODE, DOWN_NODE = 0, 1, 2
"""State of a node in the queue: it takes jobs, is closed to them, or is away."""

_UNKNOWN: Final = Gpu("", "", EMPTY_BLOCK, 0, taken_at=0.0, origin="", is_stale=False, processes=())
"""In place of a GPU that a node names and the tick does not know."""


class FleetColumns:
    """The values of a tick, a row for each GPU that a node names, in the order of a roster."""

    def __init__(self, digest: Digest, roster: Roster) -> None:
        """Make it ready for `complete`: a tick, and its nodes."""
        self.digest = digest
        self.roster = roster
        self._made: dict[tuple[str, bool], NDArray[np.float64]] = {}

    def complete(self, before: FleetColumns | None) -> Generator[None, None, FleetColumns]:
        """Read every node once, in steps.

        Args:
            before: The columns of the tick before; what has not changed is taken from them.
        """
        tick, roster = self.digest.tick, self.roster
        reusable = before if before is not None and before.roster is roster else None
        held_before = reusable.holders if reusable else None
        self.holders: Holders = yield from holders_of(roster, tick.jobs, held_before)
        yield
        listed = map(tick.nodes.__getitem__, [unit.name for unit in roster.units])
        self.nodes = list(listed)
        self.states = [node.state for node in self.nodes]
        is_as_before = reusable is not None and reusable.states == self.states
        self.closed: NDArray[np.int8] = (
            reusable.closed if reusable and is_as_before else self._closures()
        )
        """`OPEN`, `DRAINED_NODE` or `DOWN_NODE` of each node."""
        self.is_node_stale = _flags(map(attrgetter("is_stale"), self.nodes))
        yield
        self._reported_use: NDArray[np.int64] = (
            reusable._reported_use
            if reusable is not None and reusable.digest.tick.queue is tick.queue
            else reported_use(roster, tick.queue)
        )
        yield
        firsts: list[Gpu] = []
        known = tick.gpus.get
        for start in range(0, len(roster.uuids), STEP):
            some = roster.uuids[start : start + STEP]
            firsts += [known(uuids[0], _UNKNOWN) if uuids else _UNKNOWN for uuids in some]
            yield
        self._blocks = list(map(attrgetter("block"), firsts))
        self._by_field = list(map(attrgetter("columns"), self._blocks))
        keys = list(map(attrgetter("keys"), self._blocks))
        yield
        differ = map(ne, keys, roster.uuids) if keys != roster.uuids else ()
        self.odd = [number for number, is_other in enumerate(differ) if is_other]
        """Nodes whose GPUs do not all come from one report in their order."""
        self.is_stale = _flags(map(attrgetter("is_stale"), firsts))
        """Whether the report of a node is too old; of odd nodes that of its first GPU."""
        return self

    def _closures(self) -> NDArray[np.int8]:
        codes: dict[str | None, int] = {}
        for state in set(self.states):
            mark = closed_mark(state)
            codes[state] = OPEN if mark is None else DOWN_NODE if mark is DOWN else DRAINED_NODE
        return np.fromiter(map(codes.__getitem__, self.states), np.int8, len(self.states))

    def column(self, key: str, *, is_with_stale: bool = False) -> NDArray[np.float64]:
        """One field of every GPU, NaN where it is missing or, unless these are wanted, stale."""
        wanted = (key, is_with_stale)
        if wanted not in self._made:
            self._made[wanted] = self._column(key, is_with_stale)
        return self._made[wanted]

    def _column(self, key: str, is_with_stale: bool) -> NDArray[np.float64]:
        sizes = self.roster.row_counts
        found: list[array[float] | array[int] | None] = [c.get(key) for c in self._by_field]
        for number in () if is_with_stale else np.flatnonzero(self.is_stale).tolist():
            found[number] = None
        for number in self.odd:
            found[number] = self._odd_column(number, key)
        for number in [number for number, part in enumerate(found) if part is None]:
            found[number] = array("d", [nan]) * int(sizes[number])
        parts = [part for part in found if part is not None]
        kinds = set(map(attrgetter("typecode"), parts))
        if kinds <= {"q"}:
            whole = np.frombuffer(b"".join(parts), np.int64)
            return np.where(whole == MISSING_INTEGER, nan, whole)
        if kinds != {"d"}:
            parts = [part if part.typecode == "d" else _as_floats(part) for part in parts]
        return np.frombuffer(b"".join(parts), np.float64)

    def _odd_column(self, number: int, key: str) -> array[float]:
        gpus = map(self.digest.tick.gpus.get, self.roster.uuids[number])
        values = [None if gpu is None else gpu.value(key) for gpu in gpus]
        return array("d", [nan if value is None else value for value in values])

    def shares(self, field: MapField) -> NDArray[np.float64]:
        """A field's value of every GPU: a share of 1, or degrees."""
        values = self.column(field.keys[0])
        if len(field.keys) == 1:
            return values
        wholes = self.column(field.keys[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(wholes == 0.0, nan, values / wholes)

    def activities(self) -> NDArray[np.float64]:
        """SM activity; the duty cycle where a GPU has no such counter."""
        values = self.column("sm_active_ratio")
        if not np.isnan(values).any():
            return values
        return np.where(np.isnan(values), self.column("gpu_util_ratio"), values)

    @cached_property
    def is_held(self) -> NDArray[np.bool_]:
        """Whether a job has it, for each GPU; without a queue, whether a process does."""
        held: NDArray[np.bool_] = self.holders.of_row != NO_JOB
        if self.digest.tick.queue_at is not None:
            return held
        known = self.digest.tick.gpus
        gpus = map(known.get, chain.from_iterable(self.roster.uuids))
        held |= _flags(gpu is not None and bool(gpu.compute_processes) for gpu in gpus)
        return held

    @cached_property
    def used(self) -> NDArray[np.int64]:
        """GPUs of each node that jobs of any user hold, as `slurm_nodes.used_gpus` counts them."""
        held = self.holders.counts
        used = np.maximum(held, np.minimum(self._reported_use, self.roster.row_counts))
        if (used > held).any():
            # Of a GPU in MIG mode Slurm counts instances.
            is_mig = self.column("mig_mode", is_with_stale=True) == 1
            used = np.where(self.any_of_node(is_mig), held, used)
        return used

    def any_of_node(self, is_so: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether something is so of any GPU of each node."""
        found = np.bincount(self.roster.node_of_row[is_so], minlength=len(self.roster.units))
        return found > 0

    def may_have_domain(self) -> set[str]:
        """Nodes but those whose one report has all their GPUs, and no fabric: mostly none.

        A key asks for this, so ten thousand nodes are passed over without a call for each.
        """
        labels = map(attrgetter("labels"), self._blocks)
        named = [number for number, known in enumerate(labels) if "fabric_cluster" in known]
        return {self.roster.units[number].name for number in (*self.odd, *named)}

    def rows_with_reason(self, rows: Iterable[int], key: str, why: Reason) -> list[int]:
        """Those of these rows whose report gives this reason for a missing value."""
        roster, found = self.roster, []
        for row in rows:
            node = int(roster.node_of_row[row])
            place = row - int(roster.first_row[node])
            if self._blocks[node].missing.get((key, place)) is why:
                found.append(row)
        return found


def _flags(values: Iterable[bool]) -> NDArray[np.bool_]:
    return np.frombuffer(bytes(values), np.bool_)


def _as_floats(column: array[float] | array[int]) -> array[float]:
    return array("d", [nan if value == MISSING_INTEGER else value for value in column])
