"""The nodes and GPUs that a map draws, numbered once and not with every tick."""

from __future__ import annotations

from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.report.fleet_map.groups import natural
from gpumon.report.fleet_map.map import unit_steps, units

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.frame import QueueRecords
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.map import Unit

STEP: Final = 200
"""Nodes that are numbered in one step: a millisecond or two."""

NO_JOB: Final = -1
"""Holder of a GPU that no job in view holds."""

_UNREPORTED: Final = -1
"""A count that Slurm does not report: less than any."""


class Roster:
    """Nodes with their GPUs in one order; it stays the same object as long as these do.

    A slot is a GPU that a node has or should have, a row one that telemetry names.
    """

    def __init__(self, drawn: tuple[Unit, ...], uuids: list[tuple[str, ...]]) -> None:
        """Number everything but what takes long, which `complete` does."""
        self.units = drawn
        self.uuids = uuids
        self.row_of = {unit.name: number for number, unit in enumerate(drawn)}
        """Number of a node by its name."""
        rows = np.fromiter(map(len, uuids), np.int64, len(uuids))
        sizes = np.fromiter((unit.size for unit in drawn), np.int64, len(drawn))
        self.row_counts: NDArray[np.int64] = rows
        self.first_row = _starts(rows)
        self.first_slot = _starts(sizes)
        numbers = np.arange(len(drawn))
        self.node_of_row: NDArray[np.int64] = np.repeat(numbers, rows)
        self.node_of_slot: NDArray[np.int64] = np.repeat(numbers, sizes)
        shift = self.first_slot[:-1] - self.first_row[:-1]
        self.slot_of_row: NDArray[np.int64] = np.arange(int(rows.sum())) + np.repeat(shift, rows)
        self.index: dict[str, int] = {}
        """Row of a GPU by its UUID."""
        self.in_order: tuple[Unit, ...] = ()
        """The nodes in the order of their names, in which gpu9 comes before gpu10."""
        self.listed: list[str] = []
        self.listed_uuids: list[tuple[str, ...]] = []
        """Every node of the tick with its GPUs, also those that have none."""
        self.queue: QueueRecords | None = None
        """Slurm's answer with which this was found, or found to be still so."""

    def complete(self) -> Generator[None, None, Roster]:
        """Find every GPU by its UUID, and the nodes' order, step by step."""
        rows = count()
        keys: list[tuple[tuple[int, int | str], ...]] = []
        for start in range(0, len(self.units), STEP):
            self.index.update(zip(chain(*self.uuids[start : start + STEP]), rows, strict=False))
            keys += [natural(unit.name) for unit in self.units[start : start + STEP]]
            if len(self.units) > STEP:
                yield
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self.in_order = tuple(self.units[at] for at in order)
        return self


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index at which each begins in the whole, and at which the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def roster_of(digest: Digest, before: Roster | None) -> Generator[None, None, Roster]:
    """The nodes of a tick; `before`, where that names the same."""
    nodes, queue = digest.tick.nodes, digest.tick.queue
    names, every = list(nodes), [node.gpu_uuids for node in nodes.values()]
    if before is not None and before.listed == names and before.listed_uuids == every:
        if before.queue is queue:
            return before
        if before.units == units(digest):
            before.queue = queue
            return before
    yield from unit_steps(digest)
    drawn = units(digest)
    yield
    uuids = [nodes[unit.name].gpu_uuids for unit in drawn]
    yield
    made = Roster(drawn, uuids)
    yield
    made.listed, made.listed_uuids, made.queue = names, every, queue
    return (yield from made.complete())


class Holders:
    """Which job holds each GPU, by the job's place in the tick; stored while these hold theirs."""

    def __init__(self, roster: Roster, held: list[tuple[str, ...]]) -> None:
        """Nothing is held before `complete`."""
        self.roster = roster
        self.held = held
        self.of_row = np.full(int(roster.first_row[-1]), NO_JOB, np.int64)
        self.counts: NDArray[np.int64] = np.zeros(len(roster.units), np.int64)
        """GPUs of each node that jobs in view hold."""

    def complete(self) -> Generator[None, None, Holders]:
        """Find the row of every GPU that is held, step by step."""
        roster, find = self.roster, self.roster.index.get
        for start in range(0, len(self.held), STEP):
            some = self.held[start : start + STEP]
            rows = np.fromiter(map(find, chain.from_iterable(some), repeat(NO_JOB)), np.int64)
            sizes = np.fromiter(map(len, some), np.int64, len(some))
            jobs = np.repeat(np.arange(start, start + len(some)), sizes)
            is_known = rows != NO_JOB
            self.of_row[rows[is_known]] = jobs[is_known]
            yield
        self.counts = np.bincount(
            roster.node_of_row[self.of_row != NO_JOB], minlength=len(roster.units)
        )
        return self


def holders_of(
    roster: Roster, jobs: Sequence[JobView], before: Holders | None
) -> Generator[None, None, Holders]:
    """Who holds what; `before`, where that is still so."""
    held = [view.gpu_uuids for view in jobs]
    if before is not None and before.roster is roster and held == before.held:
        return before
    yield
    return (yield from Holders(roster, held).complete())


def reported_use(roster: Roster, queue: QueueRecords | None) -> NDArray[np.int64]:
    """GPUs of each node that Slurm has given to jobs, -1 where it does not report that."""
    reported = {node.name: node.gpus_used for node in queue.nodes} if queue else {}
    used = (reported.get(unit.name) for unit in roster.units)
    numbers = (_UNREPORTED if n is None else n for n in used)
    return np.fromiter(numbers, np.int64, len(roster.units))
