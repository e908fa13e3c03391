"""A page of dcgm-exporter as blocks: GPUs, MIG instances, what is known of the node.

A page is read strictly once; while it keeps its shape only its values are read again. dcgm-exporter
collects with a period of its own (30 s by default) and serves the same values in between, so that
time between two readings of a counter is that between two pages that differ.
"""

from __future__ import annotations

from array import array
from collections import ChainMap, deque
from math import inf, isnan
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from gpumon.model.catalogue.field import Kind
from gpumon.model.fault import SourceError
from gpumon.model.gpu.xid import XID_EVENT
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.sources.exporters.gpu_names import ZERO_IS_NONE
from gpumon.sources.exporters.host_plan import missing_with
from gpumon.sources.exporters.series_layout import NodePlan, plans_of
from gpumon.sources.exposition.parse import parse
from gpumon.sources.exposition.shape import Shape, numbers, shape_of
from gpumon.sources.probes.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping, Sequence

    from gpumon.sources.exporters.gpu_names import Metric
    from gpumon.sources.exporters.series_layout import Table

HUNG_S: Final = 300.0
"""Energy counts on at every collection, and no site collects more seldom than every minute (our
choice: five of them)."""

OLD_S: Final = 300.0
"""A value whose own time is so much older than now is not of the present: Prometheus drops what it
has not heard for as long (its lookback)."""

SHOWN_S: Final = 3600.0
"""An Xid is shown for so long after it came, as the kernel's log does."""

MOST_EVENTS: Final = 256
"""Xids of one node that are remembered: two of each GPU of the largest one."""

BLANKS: Final = ((0x7FFFFFF0, 16), (0x7FFFFFFFFFFFFFF0, 16), (2**47, 16))
"""Where the numbers begin by which DCGM says of whole numbers of 32 and 64 bits, and of others,
that there is no value, and how many there are (dcgm_structs.h: DCGM_INT32_BLANK and so on)."""

FIRST_BLANK: Final = BLANKS[0][0]
"""Below it every number is a value."""

NO_VALUE: Final = 2.0**63
"""From here on no number is a value."""

_BLANK_REASONS: Final = {
    1: Reason.NOT_SAMPLED,
    2: Reason.NOT_SUPPORTED,
    3: Reason.NO_PERMISSION,
}
"""Why, by how far above the first (`…_NOT_FOUND`, `…_NOT_SUPPORTED`, `…_NOT_PERMISSIONED`)."""


class Reading(NamedTuple):
    """What one page reports of one node."""

    host_name: str
    """The node's name by the page's own label; empty: it has none."""
    blocks: Mapping[str, Block]
    errors: tuple[SourceError, ...]


class PageReader:
    """Reads the pages of one address; remembers what the last one looked like."""

    def __init__(self, where: str) -> None:
        """`where` names the address in errors."""
        self._where = where
        self._plans: tuple[NodePlan, ...] = ()
        self._shape: Shape | None = None
        self._errors: tuple[SourceError, ...] = ()
        self._data = b""
        self._changed_at = 0.0
        self._nodes: dict[str, NodeMemory] = {}
        self._last: list[Reading] = []

    def read(self, body: bytes, now: float, heard_s: float) -> list[Reading]:
        """What the page reports of each node on it.

        Args:
            body: The page.
            now: Unix time of its arrival.
            heard_s: The monotonic clock at its arrival.

        Raises:
            PlanError: It is no page of a known exporter, or has nothing yet.
        """
        times: Mapping[int, float] = {}
        words = self._shape.words(body) if self._shape else None
        values = None if words is None else numbers(words)
        is_same = values is not None
        if values is None:
            values, times = self._learn(body)
        data = array("d", values).tobytes()
        if data != self._data:
            self._data, self._changed_at, is_same = data, heard_s, False
        if heard_s - self._changed_at > HUNG_S and any(plan.counts_energy for plan in self._plans):
            hung = hung_error(self._where, heard_s - self._changed_at)
            return [Reading(plan.host_name, {}, (*self._errors, hung)) for plan in self._plans]
        if not is_same:
            ages_s = {place: now - at for place, at in times.items() if now - at > OLD_S}
            errors = self._errors
            if ages_s:
                errors = (*errors, _old_error(self._where, len(ages_s), max(ages_s.values())))
            old = frozenset(ages_s)
            self._last = [
                self._nodes[plan.host_name].reading(
                    plan, values, old, self._changed_at, self._where, errors
                )
                for plan in self._plans
            ]
        return [
            self._nodes[plan.host_name].with_events(one, plan, values, now)
            for one, plan in self._paired()
        ]

    def _paired(self) -> list[tuple[Reading, NodePlan]]:
        return list(zip(self._last, self._plans, strict=True))

    def _learn(self, body: bytes) -> tuple[list[float], Mapping[int, float]]:
        """Read a page whole, and what it looks like; its values and those that have a time."""
        page = parse(body)
        self._shape, self._plans = None, ()
        plans, wanted, remarks = plans_of(page)
        self._plans = plans
        names = [plan.host_name for plan in plans]
        self._nodes = {name: self._nodes.get(name) or NodeMemory() for name in names}
        odd = [*((text, "look at the page: it is not complete") for text in page.wrong)]
        odd += remarks
        self._errors = tuple(SourceError(self._where, text, way_out) for text, way_out in odd)
        self._shape = shape_of(body, page, wanted)
        samples = [page.samples[number] for number in wanted]
        times = {
            place: one.sampled_at for place, one in enumerate(samples) if one.sampled_at is not None
        }
        return [one.value for one in samples], times


def with_labels(block: Block, labels: Mapping[str, tuple[str | None, ...]]) -> Block:
    """A block that has these labels as well, even those that were marked as missing."""
    missing = {key: why for key, why in block.missing.items() if key[0] not in labels}
    return block._replace(labels={**block.labels, **labels}, missing=missing)


def hung_error(where: str, for_s: float) -> SourceError:
    """The error where values have been the same for so long that nothing reads them any more."""
    return SourceError(
        where,
        f"its page has had the same values for {for_s / 60.0:.0f} min, energy among them",
        "its collection hangs: look at the log of dcgm-exporter and of nv-hostengine",
    )


def _old_error(where: str, values: int, age_s: float) -> SourceError:
    """The error where times beside values say that these are not of the present."""
    minutes = f"{age_s / 60.0:,.0f} min"
    return SourceError(
        where,
        f"has values that are too old by their own times: {values:,}, by up to {minutes}",
        "see whether its collection hangs, and whether the clocks of both machines are right",
    )


class NodeMemory:
    """What is remembered of one node between two readings of it."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self._rates = Rates()
        self._xids = _Xids()

    def reading(
        self,
        plan: NodePlan,
        values: Sequence[float],
        old: frozenset[int],
        at: float,
        where: str,
        errors: tuple[SourceError, ...],
        gpus: Block | None = None,
    ) -> Reading:
        """The blocks that the values make.

        Args:
            plan: Which value belongs where.
            values: By the plan's numbers.
            old: Numbers of values that are not of the present.
            at: When the values were first seen, seconds of a steady clock.
            where: What the node is called where no label names it.
            errors: What is odd about them.
            gpus: The block of GPUs, where it has been made of them.
        """
        name = plan.host_name or where
        blocks: dict[str, Block] = {}
        if gpus is not None:
            blocks["gpu"] = gpus
        elif plan.gpus.keys:
            blocks["gpu"] = _block("gpu", plan.gpus, values, old, self._rates, at)
        if plan.migs.keys:
            blocks["mig"] = _block("mig", plan.migs, values, old, None, at)
        if plan.host is not None:
            blocks.update(plan.host.blocks(name, values, old, self._rates, at))
        labels = {**plan.labels, "host_name": (plan.host_name,)} if plan.host_name else plan.labels
        if labels:
            blocks["node"] = with_labels(blocks.get("node", Block((name,), {}, {}, {})), labels)
        return Reading(plan.host_name, blocks, errors)

    @property
    def counts(self) -> bool:
        """Whether counters of GPUs are remembered, of which rates may yet follow."""
        return self._rates.counts("gpu")

    def remember(self, xids: Iterable[tuple[float, str, int]]) -> None:
        """Take in Xids that came before the page was watched: Unix time, GPU, number."""
        self._xids.remember(xids)

    def with_events(
        self, reading: Reading, plan: NodePlan, values: Sequence[float], now: float
    ) -> Reading:
        """The reading with the Xids that came of late: a page has the last one of each GPU."""
        if not plan.xids:
            return reading
        last = {uuid: _xid(values[place]) for uuid, place in plan.xids.items()}
        events = self._xids.block(last, now)
        return reading._replace(blocks={**reading.blocks, "event": events})


class _Xids:
    """Xids that came while the page was watched.

    A page has the last Xid of each GPU for ever, and not when it was: what was there before the
    first poll may be of last month, and is no event of now, unless others know when it came.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._seen: deque[tuple[float, str, int]] = deque(maxlen=MOST_EVENTS)

    def remember(self, earlier: Iterable[tuple[float, str, int]]) -> None:
        """Take in what others saw: Unix time, GPU, number; what is known already is not new."""
        new = [one for one in earlier if not any(_is_same(one, other) for other in self._seen)]
        self._seen = deque(sorted((*new, *self._seen)), maxlen=MOST_EVENTS)

    def block(self, last: Mapping[str, int | None], now: float) -> Block:
        """The events of the last hour.

        Args:
            last: The last Xid of each GPU, 0 for none; None: unknown.
            now: Unix time.
        """
        for uuid, number in () if last == self._last else last.items():
            if number is None:
                continue
            if number and self._last.get(uuid, number) != number:
                self._seen.append((now, uuid, number))
            self._last[uuid] = number
        while self._seen and not 0.0 <= now - self._seen[0][0] <= SHOWN_S:
            self._seen.popleft()
        if not self._seen:
            return _NO_EVENTS
        numbers = [number for _, _, number in self._seen]
        keys = tuple(f"{uuid}/{number}/{round(at * 1000)}" for at, uuid, number in self._seen)
        columns = {
            "xid": column_for(True, [*numbers]),
            "event_type": column_for(True, [XID_EVENT] * len(numbers)),
            "event_age_s": column_for(False, [round(now - at, 3) for at, _, _ in self._seen]),
        }
        return Block(keys, columns, {}, {})


_NO_EVENTS: Final = Block(
    (), {"xid": array("q"), "event_type": array("q"), "event_age_s": array("d")}, {}, {}
)
"""One block for all nodes without an Xid."""


def _is_same(one: tuple[float, str, int], other: tuple[float, str, int]) -> bool:
    """Whether two that were seen at different times are one Xid."""
    return one[1:] == other[1:] and abs(one[0] - other[0]) <= OLD_S


def _xid(value: float) -> int | None:
    """The number of the last Xid, 0 for none; None: unknown."""
    return int(value) if 0 <= value < 2**32 and _blank(value) is None else None


def _block(
    name: str,
    table: Table,
    values: Sequence[float],
    old: frozenset[int],
    rates: Rates | None,
    at: float,
) -> Block:
    """One block of a node.

    Args:
        name: Its name.
        table: Which value belongs where.
        values: Of the page.
        old: Places of values that are not of the present.
        rates: What makes rates of counters; None: nothing of the block is a counter.
        at: When the values were first seen, seconds of a steady clock.
    """
    count = len(table.keys)
    columns: dict[str, list[float | int | None]] = {
        key: list(table.given.get(key, (None,) * count)) for key in table.fields
    }
    own: dict[tuple[str, int], Reason] = {}
    # Only the first of them is ever written to.
    missing = ChainMap(own, cast("dict[tuple[str, int], Reason]", table.missing))
    for key, metric, cells in table.columns:
        _fill(columns[key], key, metric, cells, values, old, missing)
    for whole, used, free, reserved in table.sums:
        _add_whole(columns, whole, (used, free, reserved), missing)
        columns.pop(free, None)
    if rates is not None:
        rates.add(name, table.keys, [at] * count, columns, missing, untold=table.untold)
    integers = table.integers
    packed = {key: column_for(key in integers, column) for key, column in columns.items()}
    reasons = missing_with(table.missing, own, table.variants)
    return Block(table.keys, packed, table.labels, reasons)


def _fill(
    column: list[float | int | None],
    key: str,
    metric: Metric,
    cells: Sequence[tuple[int, int]],
    values: Sequence[float],
    old: frozenset[int],
    missing: MutableMapping[tuple[str, int], Reason],
) -> None:
    """Put values into their column, or the reasons why there are none."""
    scale, low, high, is_whole = metric.scale, metric.low, metric.high, metric.is_whole
    for row, place in cells:
        value = values[place]
        taken = value * scale
        # What is beyond any doubt goes a short way: most of thousands of values.
        if low <= taken <= high and value < FIRST_BLANK and not old:
            column[row] = int(taken) if is_whole else taken
            continue
        found = Reason.STALE if place in old else _taken(metric, value)
        if isinstance(found, Reason):
            missing[key, row] = found
        else:
            column[row] = found


def _add_whole(
    columns: dict[str, list[float | int | None]],
    whole: str,
    parts: tuple[str, str, str],
    missing: MutableMapping[tuple[str, int], Reason],
) -> None:
    """Memory as a whole where only its parts are reported."""
    used, free, reserved = (columns.get(part) for part in parts)
    if used is None or free is None:
        return
    wholes = columns.setdefault(whole, [None] * len(used))
    for row, known in enumerate(wholes):
        taken, rest = used[row], free[row]
        if known is None and taken is not None and rest is not None:
            set_aside = reserved[row] if reserved else None
            wholes[row] = taken + rest + (set_aside or 0.0)
        elif known is None:
            missing.setdefault((whole, row), Reason.NOT_SHARED)
    for row in range(len(free)):
        missing.pop((parts[1], row), None)


def _blank(value: float) -> Reason | None:
    """Why DCGM has no value, where the number says that; None: it is a value."""
    for first, count in BLANKS:
        if first <= value < first + count:
            return _BLANK_REASONS.get(int(value - first), Reason.NOT_SAMPLED)
    return Reason.NOT_SUPPORTED if value >= NO_VALUE else None


def _taken(metric: Metric, value: float) -> float | int | Reason:
    """The value in the catalogue's unit, or why there is none."""
    field = metric.field
    if isnan(value):
        return Reason.NOT_SAMPLED
    if abs(value) == inf:
        return Reason.GARBAGE
    blank = _blank(value)
    if blank is not None:
        return blank
    taken = value * metric.scale
    if field.kind is Kind.ID and field.high == 1:
        # DCGM counts what waits where NVML only reports that something does.
        taken = min(taken, 1.0)
    if value == 0 and field.key in ZERO_IS_NONE:
        return Reason.NOT_SUPPORTED
    if not metric.low <= taken <= metric.high:
        return Reason.GARBAGE
    return int(taken) if metric.is_whole else taken
