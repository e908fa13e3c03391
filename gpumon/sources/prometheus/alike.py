"""Nodes that are alike, which is nearly all of a fleet: what is made once for all of them.

How one of them is read holds for each, and their values become columns all at once: a node at a
time each of its eight GPUs' twenty values would pass through Python.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.records.block import Block, column_for
from gpumon.sources.exporters.dcgm import BLANKS, FIRST_BLANK, NO_VALUE
from gpumon.sources.exporters.gpu_labels import HOLDER_LABELS, LABELS
from gpumon.sources.exporters.series_layout import Gathered, NodePlan
from gpumon.sources.probes.rates import may_follow
from gpumon.sources.prometheus.label_columns import by_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.sources.exporters.gpu_names import Metric
    from gpumon.sources.exporters.series_layout import Table

MANY: Final = 16
"""So many nodes that are alike are read together: of fewer, one by one costs less (measured)."""

AT_ONCE: Final = 512
"""Of so many nodes the values are laid side by side: a MiB or so, which a core's cache holds."""

_OWN_TEXTS: Final = ("serial", "pci_bus_id")
_HOLDERS: Final = ("label_jobs", "label_pods")
_OWN: Final = HOLDER_LABELS.union(
    ("instance",), *(LABELS[what] for what in ("uuid", "host", "node", *_OWN_TEXTS))
)
"""Labels in which nodes that are alike differ."""


class Place(NamedTuple):
    """One GPU by its labels: where it is, and what it shares with those of other nodes."""

    labels: Mapping[str, str]
    host: str
    """Empty: no label names it."""
    digits: int
    number: str
    """Of the GPU on the node, and how many digits it has."""
    own: tuple[str | None, ...]
    """What is its own among texts of its block: the columns of `_OWN_TEXTS` and `_HOLDERS`."""
    kind: tuple[object, ...]
    """What is not its own: equal for GPUs of nodes that are alike."""


_NOWHERE: Final = Place({}, "", 0, "", own=(), kind=())


class Form(NamedTuple):
    """What nodes that are alike have in common."""

    names: tuple[str, ...]
    cells: tuple[int, ...]
    kinds: tuple[tuple[object, ...], ...]
    """Of the GPU in each place."""


class Spot(NamedTuple):
    """Where a value of a node's plan comes from."""

    metric: int
    """The number of the metric among those that were asked for."""
    place: int
    """The number of the GPU among the node's."""


class Formed:
    """How nodes of one form are read."""

    def __init__(self, plan: NodePlan, spots: Sequence[Spot], uuids: tuple[str, ...]) -> None:
        """As the first of them is: its plan, where its values come from, the UUID of each place."""
        self._plan = plan
        self._order = [uuids.index(uuid) for uuid in plan.gpus.keys]
        """Places in the order of the plan's GPUs."""
        self._xids = [(uuids.index(uuid), cell) for uuid, cell in plan.xids.items()]
        """The place of each value that is a last Xid."""
        self.spots = spots
        self.sheet = _sheet_of(plan, spots, len(uuids))
        """How many are read together; None: only one by one."""

    def plan_of(self, places: Sequence[Place], uuids: Sequence[str]) -> NodePlan:
        """The plan of another node: all but names and labels is one for all of them."""
        plan, gpus = self._plan, self._plan.gpus
        order, xids = self._order, {uuids[place]: cell for place, cell in self._xids}
        texts = zip(*[places[place].own for place in order], strict=True)
        own = dict(zip((*_OWN_TEXTS, *_HOLDERS), texts, strict=True))
        host = places[0].host
        return NodePlan(
            host_name=host,
            gpus=gpus._replace(
                keys=tuple([uuids[place] for place in order]), labels={**gpus.labels, **own}
            ),
            migs=plan.migs,
            labels={**plan.labels, "host_name": (host,)} if host else plan.labels,
            xids=xids,
            host=plan.host,
        )


def places_of(labels: Sequence[Mapping[str, str]]) -> list[Place]:
    """Where GPUs are, and what they have in common, by the labels of each."""
    found: list[Place] = [*repeat(_NOWHERE, len(labels))]
    kinds: dict[tuple[object, ...], tuple[object, ...]] = {}
    for some in by_names(labels).groups:
        own = [some.of(name) for name in _OWN_TEXTS]
        if HOLDER_LABELS.isdisjoint(some.columns):
            # None holds them, as labels of most fleets have it: Slurm knows.
            own += [[None] * len(some.numbers)] * len(_HOLDERS)
        else:
            own += zip(*(_holders_of(labels[number]) for number in some.numbers), strict=True)
        names = tuple(sorted(name for name in some.columns if name not in _OWN))
        has = ([text is not None for text in column] for column in own)
        alike = [*zip(repeat(names), *has, *(some.columns[name] for name in names), strict=False)]
        hosts, numbers = ([text or "" for text in some.of(what)] for what in ("host", "index"))
        listed = map(labels.__getitem__, some.numbers)
        shared = map(kinds.setdefault, alike, alike)
        rows = zip(
            listed, hosts, map(len, numbers), numbers, zip(*own, strict=True), shared, strict=True
        )
        for number, place in zip(
            some.numbers, map(tuple.__new__, repeat(Place), rows), strict=True
        ):
            found[number] = place
    return found


def _holders_of(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    """Jobs and pods that labels put on a GPU."""
    node = Gathered()
    node.hold("", labels)
    return tuple(" ".join(some.get("", ())) or None for some in (node.jobs, node.pods))


class _Field(NamedTuple):
    """A column as it is made of values side by side."""

    key: str
    metric: Metric
    places: Sequence[int]
    """By row, which of a node's values it is."""
    is_integer: bool


@dataclass(frozen=True, eq=False)
class Sheet:
    """How values of many nodes lie side by side, and the columns that they make; each is one."""

    gpus: int
    takes: tuple[tuple[int, list[int], list[int]], ...]
    """By metric: its number, which of a node's values are its, and of which GPUs they are."""
    width: int
    """Values of a node."""
    fields: tuple[_Field, ...]
    given: Mapping[str, array[float] | array[int]]
    sums: tuple[tuple[str, str, str, str], ...]
    integers: frozenset[str]


def _sheet_of(plan: NodePlan, spots: Sequence[Spot], gpus: int) -> Sheet | None:
    """How nodes of a form are read together; None: their values depend on others."""
    table = plan.gpus
    fields = [
        _Field(
            column.key,
            column.metric,
            [place for _, place in sorted(column.cells)],
            column.key in table.integers,
        )
        for column in table.columns
    ]
    rows = [*range(gpus)]
    keys = [field.key for field in fields]
    is_whole = len({*keys, *table.given}) == len(keys) + len(table.given) and all(
        sorted(row for row, _ in column.cells) == rows for column in table.columns
    )
    is_alone = plan.host is None and not plan.migs.keys and not may_follow("gpu", table.fields)
    if not is_whole or not is_alone or len(table.keys) != gpus:
        return None
    of_metric: dict[int, list[int]] = {}
    for number, spot in enumerate(spots):
        of_metric.setdefault(spot.metric, []).append(number)
    takes = tuple(
        (metric, numbers, [spots[number].place for number in numbers])
        for metric, numbers in of_metric.items()
    )
    if not takes or any(sorted(places) != rows for _, _, places in takes):
        return None
    given = {key: column_for(key in table.integers, [*some]) for key, some in table.given.items()}
    return Sheet(
        gpus=gpus,
        takes=takes,
        width=len(spots),
        fields=tuple(fields),
        given=given,
        sums=table.sums,
        integers=table.integers,
    )


def side_by_side(
    sheet: Sheet, values: Sequence[NDArray[np.float64]], rows: Mapping[int, NDArray[np.intp]]
) -> NDArray[np.float64]:
    """The values of nodes, a row for each, in the order of their plan.

    Args:
        sheet: How they lie.
        values: Of each metric that was asked for.
        rows: For each metric, by node and GPU, the row of the value.
    """
    found = np.empty((len(rows[sheet.takes[0][0]]), sheet.width))
    for metric, numbers, places in sheet.takes:
        found[:, numbers] = values[metric][rows[metric][:, places]]
    return found


class Columns(NamedTuple):
    """The columns of many nodes' blocks."""

    parts: tuple[tuple[str, str, bytes], ...]
    """Key, kind and values of all nodes, one after another."""
    given: Mapping[str, array[float] | array[int]]
    is_odd: Sequence[bool]
    """By node, whether any value needs to be read again by itself."""
    node_bytes: int

    def block(self, number: int, table: Table) -> Block:
        """The block of one of them."""
        begin = number * self.node_bytes
        end = begin + self.node_bytes
        columns = {key: array(kind, data[begin:end]) for key, kind, data in self.parts}
        return Block(table.keys, {**self.given, **columns}, table.labels, table.missing)


def columns_of(sheet: Sheet, rows: NDArray[np.float64]) -> Columns:
    """What the values of many nodes make, as a page's reader makes it of each."""
    found: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {}
    is_odd = np.zeros(len(rows), np.bool_)
    for field in sheet.fields:
        metric, values = field.metric, rows[:, field.places]
        taken = values * metric.scale
        is_well = _is_value(values) & (metric.low <= taken) & (taken <= metric.high)
        if not is_well.all():
            is_odd |= ~is_well.all(axis=1)
            taken[~is_well] = 0.0
        if field.is_integer:
            found[field.key] = taken.astype(np.int64)
        else:
            found[field.key] = np.trunc(taken) if metric.is_whole else taken
    for whole, used, free, reserved in sheet.sums:
        if used in found and free in found and whole not in found:
            total = found[used].astype(np.float64) + found[free]
            if reserved in found:
                total += found[reserved]
            found[whole] = total.astype(np.int64) if whole in sheet.integers else total
        found.pop(free, None)
    parts = tuple(
        (key, "q" if column.dtype == np.int64 else "d", column.tobytes())
        for key, column in found.items()
    )
    return Columns(parts, sheet.given, is_odd.tolist(), sheet.gpus * 8)


def _is_value(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these are not a code of DCGM's for a missing value."""
    found = values < FIRST_BLANK
    if found.all():
        return found
    found = values < NO_VALUE
    for first, count in BLANKS:
        found &= (values < first) | (values >= first + count)
    return found


def batches(count: int) -> Iterator[tuple[int, int]]:
    """Beginning and end of each lot of nodes that are read together."""
    for begin in range(0, count, AT_ONCE):
        yield begin, min(count, begin + AT_ONCE)
