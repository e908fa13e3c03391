"""A tick on its way to the map: nodes numbered, grouped and marked, in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.facts.charges import stake_steps
from gpumon.report.fleet_map.all_nodes import FleetMarks
from gpumon.report.fleet_map.columns import FleetColumns
from gpumon.report.fleet_map.groups import grouped
from gpumon.report.fleet_map.legend import legend
from gpumon.report.fleet_map.map import owner_marks
from gpumon.report.fleet_map.numbered_nodes import roster_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.groups import Cluster
    from gpumon.report.fleet_map.map import Unit
    from gpumon.report.fleet_map.marks import MapField
    from gpumon.report.fleet_map.numbered_nodes import Roster

_EACH: Final = 50
"""Nodes to which a filter is put in one step."""


class Asked(NamedTuple):
    """A tick that is to be drawn."""

    digest: Digest
    passes: Callable[[Digest, Unit], bool] | None
    """Whether a node passes the filter; None: all do."""
    is_large: bool
    """Whether keys are to be answered while it is made ready."""


class Arranged(NamedTuple):
    """A tick that is ready to be drawn."""

    marks: FleetMarks
    clusters: tuple[Cluster, ...]


class MapDesk:
    """Makes ticks ready, and remembers what the next one, or the next key, needs again."""

    def __init__(self) -> None:
        self._roster: Roster | None = None
        self._columns: FleetColumns | None = None
        self._passing: tuple[Asked | None, Sequence[Unit]] = (None, ())
        self._basis: tuple[object, ...] = ()
        self._clusters: tuple[Cluster, ...] = ()

    def steps(
        self, asked: Asked, field: MapField, grouping: str
    ) -> Generator[None, None, Arranged]:
        """Number, group and mark the nodes of a tick."""
        digest, columns = asked.digest, self._columns
        if columns is None or columns.digest is not digest:
            self._roster = yield from roster_of(digest, self._roster)
            yield
            columns = yield from FleetColumns(digest, self._roster).complete(columns)
            self._columns = columns
            yield
        for key in field.keys or ("sm_active_ratio",):
            columns.column(key)
            yield
        passing = yield from self._filtered(asked, columns.roster)
        yield from stake_steps(digest)
        yield
        yield from self._group(columns, passing, grouping)
        yield
        if field.name_of is not None:
            owner_marks(digest, field)
            yield
        marks = yield from FleetMarks(columns, field).complete()
        yield
        # Shown below the map with every cell that the cursor comes to.
        legend(digest, field, marks.seen())
        yield
        return Arranged(marks, self._clusters)

    def _filtered(self, asked: Asked, roster: Roster) -> Generator[None, None, Sequence[Unit]]:
        """The nodes that pass the filter, in the order of their names."""
        every, passes = roster.in_order, asked.passes
        if passes is None:
            return every
        if self._passing[0] is not asked:
            found: list[Unit] = []
            for start in range(0, len(every), _EACH):
                some = every[start : start + _EACH]
                found += [unit for unit in some if passes(asked.digest, unit)]
                yield
            self._passing = (asked, found)
        return self._passing[1]

    def _group(
        self, columns: FleetColumns, passing: Sequence[Unit], grouping: str
    ) -> Generator[None, None, None]:
        """Put the nodes into groups, again only where something about them has changed."""
        tick = columns.digest.tick
        states = columns.states if grouping == "state" else ()
        lost = {name: stake.urgency for name, stake in columns.digest.stakes_by_node.items()}
        basis = (columns.roster, tick.queue, grouping, len(tick.gpus), states, passing, lost)
        old = self._basis
        is_same = bool(old) and old[0] is basis[0] and old[1] is basis[1] and old[2:] == basis[2:]
        if not is_same:
            made = yield from grouped(columns.digest, passing, grouping)
            self._basis = basis
            # The same object means that nothing has to be placed again.
            self._clusters = self._clusters if made == self._clusters else made
