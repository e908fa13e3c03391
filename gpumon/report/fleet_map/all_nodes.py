"""The marks of every GPU of a fleet at once, the same that `MapMarks` finds node by node."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.missing import Reason
from gpumon.report.facts.losses import mark_of
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.fleet_map import marks
from gpumon.report.fleet_map.columns import DOWN_NODE, OPEN, FleetColumns
from gpumon.report.fleet_map.map import FINDING_MARKS, OWNER_RANK, MapMarks
from gpumon.report.fleet_map.numbered_nodes import NO_JOB, STEP

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from gpumon.model.records.cluster import JobView
    from gpumon.report.fleet_map.map import Unit
    from gpumon.report.fleet_map.marks import MapField, Mark

_ODD_STEP: Final = 100
"""Nodes whose GPUs are marked one by one in one step."""


class FleetMarks(MapMarks):
    """The marks of one tick for one field, as numbers of marks that grow with their rank."""

    def __init__(self, columns: FleetColumns, field: MapField) -> None:
        """Begin with no marks; `complete` finds them."""
        super().__init__(columns.digest, field)
        self.columns = columns
        self.roster = columns.roster
        fixed = dict.fromkeys((*marks.STATES, marks.WORKING, *field.levels))
        by_rank = sorted(fixed, key=lambda mark: mark.rank)
        below = [mark for mark in by_rank if mark.rank < OWNER_RANK]
        self.palette: tuple[Mark, ...] = (
            *below, *self._owners.values(), *by_rank[len(below) :],
        )  # fmt: skip
        # By identity: a mark's hash goes through all that it is made of.
        self._numbers = {id(mark): number for number, mark in enumerate(self.palette)}
        self._of_job: NDArray[np.int64] = np.zeros(1, np.int64)
        """Number of the mark of each job, which owners' GPUs have."""
        self.slots: NDArray[np.int64] = np.zeros(0, np.int64)
        """Number of the mark of each slot of the roster."""

    def complete(self) -> Generator[None, None, FleetMarks]:
        """Find the mark of every GPU, step by step."""
        columns, roster, number = self.columns, self.roster, self._number
        yield
        nothing, free = self._of_nodes()
        slots = nothing[roster.node_of_slot]
        yield
        yield from self._number_jobs()
        rows = yield from self._of_rows(free[roster.node_of_row])
        yield
        stale = np.flatnonzero(columns.is_stale)
        if stale.size:
            left = {n for n in stale.tolist() if columns.nodes[n].left_at is not None}
            of_node = np.array(nothing)
            of_node[[n for n in stale.tolist() if n not in left]] = number(marks.STALE)
            is_stale = columns.is_stale[roster.node_of_row]
            rows[is_stale] = of_node[roster.node_of_row][is_stale]
        slots[roster.slot_of_row] = rows
        for start in range(0, len(columns.odd), _ODD_STEP):
            for node in columns.odd[start : start + _ODD_STEP]:
                found = self.marks_gpu_by_gpu(roster.units[node])
                first = roster.first_slot[node]
                slots[first : first + len(found)] = [number(mark) for mark in found]
            yield
        is_away = columns.is_node_stale & (columns.closed == DOWN_NODE)
        slots[is_away[roster.node_of_slot]] = number(marks.DOWN)
        self.slots = slots
        return self

    def _of_nodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The mark of a GPU without telemetry, and that of a free one, by node."""
        columns, number = self.columns, self._number
        closed = columns.closed
        free = np.array([number(marks.FREE), number(marks.DRAINED), number(marks.DOWN)])[closed]
        nothing = np.where(closed == OPEN, number(marks.MISSING), free)
        for node in np.flatnonzero(columns.is_node_stale).tolist():
            if columns.nodes[node].left_at is None:
                nothing[node] = number(marks.STALE)
        is_unseen = columns.used > columns.holders.counts
        return nothing, np.where(is_unseen, number(marks.OTHERS), free)

    def _of_rows(self, free: NDArray[np.int64]) -> Generator[None, None, NDArray[np.int64]]:
        """The mark of every GPU that telemetry names, as if no report were too old."""
        columns, field, number = self.columns, self.field, self._number
        values = columns.shares(field) if field.keys else columns.activities()
        is_missing = np.isnan(values)
        if field.keys:
            levels = np.array([number(mark) for mark in field.levels])
            steps = np.searchsorted(np.array(field.edges), values, side="right")
            made = levels[np.minimum(steps, len(levels) - 1)]
            made = np.where((steps == 0) & ~columns.is_held, free, made)
            made[is_missing] = number(marks.MISSING)
        elif field.name_of is not None:
            made = self._of_owners(free)
        else:
            made = self._without_findings(values, free)
            yield from self._mark_findings(made)
        if is_missing.any():
            self._mark_lost(made, is_missing)
        return made

    def _number_jobs(self) -> Generator[None, None, None]:
        """Find the mark of each job that holds anything, where GPUs are marked by owner."""
        name_of, jobs, holders = self.field.name_of, self.digest.tick.jobs, self._holders
        if name_of is None:
            return
        # Not `unique`, for which numpy first reads a library of its own.
        held = np.flatnonzero(np.bincount(holders[holders != NO_JOB], minlength=1)).tolist()
        self._of_job = np.zeros(len(jobs) + 1, np.int64)
        for start in range(0, len(held), STEP):
            some = held[start : start + STEP]
            self._of_job[some] = [self._number(self._owners[name_of(jobs[job])]) for job in some]
            yield

    @property
    def _holders(self) -> NDArray[np.int64]:
        return self.columns.holders.of_row

    def _of_owners(self, free: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(self._holders == NO_JOB, free, self._of_job[self._holders])

    def _without_findings(
        self, values: NDArray[np.float64], free: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """What GPUs are where nothing is found."""
        number = self._number
        is_low = ~(values >= LOW_RATIO)
        made = np.where(is_low, number(marks.IDLE), number(marks.WORKING))
        made[np.isnan(values)] = number(marks.MISSING)
        is_free = ~self.columns.is_held & ((free != number(marks.OTHERS)) | is_low)
        return np.where(is_free, free, made)

    def _mark_findings(self, made: NDArray[np.int64]) -> Generator[None, None, None]:
        """Mark the GPUs about which something is found, some thousand in a step."""
        tick, index, number = self.columns.digest.tick, self.roster.index, self._number
        for count, (uuid, finding) in enumerate(self._findings.items(), 1):
            row = index.get(uuid)
            if row is not None:
                made[row] = number(FINDING_MARKS[mark_of(tick, finding)])
            if count % STEP == 0:
                yield

    def _mark_lost(self, made: NDArray[np.int64], is_missing: NDArray[np.bool_]) -> None:
        """Mark the GPUs that fell off the bus: those that report no power for that reason."""
        columns = self.columns
        silent = np.flatnonzero(is_missing & np.isnan(columns.column("power_w")))
        lost = columns.rows_with_reason(silent.tolist(), "power_w", Reason.LOST)
        made[lost] = self._number(marks.LOST)

    def _number(self, mark: Mark) -> int:
        return self._numbers[id(mark)]

    # What the map asks for

    def marks(self, unit: Unit) -> tuple[Mark, ...]:
        """One mark per GPU of a node, in NVML's order."""
        node = self.roster.row_of[unit.name]
        first, last = self.roster.first_slot[node], self.roster.first_slot[node + 1]
        return tuple(map(self.palette.__getitem__, self.slots[first:last].tolist()))

    def node_mark(self, unit: Unit, is_mean: bool) -> Mark:
        """The mark of a whole node: of its worst GPU, or the mean of those that jobs hold."""
        return self.palette[self.of_nodes(is_mean=is_mean)[self.roster.row_of[unit.name]]]

    def of_nodes(self, *, is_mean: bool) -> Sequence[int]:
        """Numbers of the nodes' marks, in the order of the roster."""
        return self._means if is_mean else self._worst

    @cached_property
    def _worst(self) -> list[int]:
        first = self.roster.first_slot[:-1]
        found: list[int] = np.maximum.reduceat(self.slots, first).tolist() if first.size else []
        return found

    @cached_property
    def _means(self) -> list[int]:
        """Of values the step of the mean, of anything else the mark that most GPUs have."""
        if not self.field.keys:
            return self._commonest()
        roster, number = self.roster, self._number
        unheld = [number(marks.FREE), number(marks.OTHERS)]
        values = self.columns.shares(self.field)
        counts = ~np.isnan(values) & ~np.isin(self.slots[roster.slot_of_row], unheld)
        nodes, of_nodes = roster.node_of_row[counts], len(roster.units)
        sums = np.bincount(nodes, values[counts], of_nodes)
        known = np.bincount(nodes, minlength=of_nodes)
        levels = np.array([number(mark) for mark in self.field.levels])
        means = sums / np.maximum(known, 1)
        steps = np.searchsorted(np.array(self.field.edges), means, side="right")
        found: list[int] = np.where(known > 0, levels[steps], self._worst).tolist()
        return found

    def _commonest(self) -> list[int]:
        """Free GPUs count only where all are free; of two marks as common the worse one."""
        roster, many = self.roster, len(self.palette)
        pairs, counts = np.unique(roster.node_of_slot * many + self.slots, return_counts=True)
        nodes, found = np.divmod(pairs, many)
        unheld = [self._number(marks.FREE), self._number(marks.OTHERS)]
        counts[np.isin(found, unheld)] = 0
        order = np.lexsort((found, counts, nodes))
        is_last = np.append(nodes[order][1:] != nodes[order][:-1], True)
        best: list[int] = found[order][is_last].tolist()
        return best

    def seen(self) -> frozenset[Mark]:
        """Every mark that some GPU of the fleet has."""
        return self._seen_now

    @cached_property
    def _seen_now(self) -> frozenset[Mark]:
        found = np.bincount(self.slots, minlength=len(self.palette))
        return frozenset(mark for mark, times in zip(self.palette, found, strict=True) if times)

    def changed_since(
        self, before: FleetMarks, *, is_by_node: bool, is_mean: bool
    ) -> list[int] | None:
        """Nodes that are drawn another way, as cells of their own or GPU by GPU.

        Returns:
            Their numbers in the roster; None where the two cannot be compared.
        """
        if before.roster is not self.roster or before.palette != self.palette:
            return None
        if is_by_node:
            pairs = zip(
                before.of_nodes(is_mean=is_mean), self.of_nodes(is_mean=is_mean), strict=True
            )
            return [node for node, (was, now) in enumerate(pairs) if was != now]
        slots = np.bincount(self.roster.node_of_slot[self.slots != before.slots], minlength=1)
        changed: list[int] = np.flatnonzero(slots).tolist()
        return changed

    # Who holds what

    def holder(self, uuid: str) -> JobView | None:
        """The job that holds a GPU."""
        row = self.roster.index.get(uuid)
        job = NO_JOB if row is None else int(self.columns.holders.of_row[row])
        return None if job == NO_JOB else self.digest.tick.jobs[job]

    def used(self, unit: Unit) -> int:
        """GPUs of a node that jobs of any user hold."""
        return int(self.columns.used[self.roster.row_of[unit.name]])

    def has_unseen_holders(self, unit: Unit) -> bool:
        """Whether Slurm has given away more GPUs of a node than the jobs in view hold there."""
        held = self.columns.holders.counts[self.roster.row_of[unit.name]]
        return self.used(unit) > int(held)
