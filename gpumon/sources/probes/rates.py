"""What follows from two readings of counters: rates, shares of time, means per operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.catalogue.gpu import GPU_ENGINE_FIELDS
from gpumon.model.gpu.pcie import pcie_bytes_per_s
from gpumon.model.missing import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence, Set

RATES: Final = {
    rate.removesuffix("_per_s"): rate
    for rate, field in CATALOGUE.items()
    if rate.endswith("_per_s") and rate.removesuffix("_per_s") in CATALOGUE
}
"""Which rate each counter gives: `x_per_s` of the counter `x`, of every block."""


NARROW: Final = 2**32
"""Where the driver's counters of PCIe bytes begin again, though their fields have room for 64 bits
(seen on an H200, driver 580.159: at 57 GB/s thirteen times a second)."""

_CALM: Final = NARROW // 32
"""Growth of such a counter that may be all of it. A link that carries much shows as little one time
in 32, which is why two in a row are asked for (our choice)."""


class Derived(NamedTuple):
    """How a field follows from two readings."""

    counter: str
    per: str | None = None
    """The counter by whose growth is divided; None: the node's own time, seconds."""
    factor: float = 1.0
    comes_late: bool = False
    """Whether the kernel counts a time when it is over: what grows by more than the time between
    two readings is of before, and is given to the readings that follow, so that means are right."""
    may_wrap: bool = False
    """Whether it may have wrapped unseen, any number of times: what the probe itself reports of the
    rate then comes first, and of a counter that never was beyond `NARROW` only a small growth
    counts."""


DERIVED: Final[Mapping[str, Derived]] = {
    **{
        rate: Derived(counter, may_wrap=counter in ("pcie_tx_bytes", "pcie_rx_bytes"))
        for counter, rate in RATES.items()
    },
    **{
        field.key: Derived(field.key.replace("_ratio", "_us"), None, 1e-6)
        for field in GPU_ENGINE_FIELDS
        if field.key.replace("_ratio", "_us") in CATALOGUE and field.unit == "ratio"
    },
    "cpu_busy_ratio": Derived("cpu_busy_ticks", "cpu_total_ticks"),
    "cpu_iowait_ratio": Derived("cpu_iowait_ticks", "cpu_total_ticks"),
    "fs_read_rtt_s": Derived("fs_read_rtt_us", "fs_read_ops", 1e-6),
    "fs_read_exec_s": Derived("fs_read_exec_us", "fs_read_ops", 1e-6),
    "fs_write_rtt_s": Derived("fs_write_rtt_us", "fs_write_ops", 1e-6),
    "fs_write_exec_s": Derived("fs_write_exec_us", "fs_write_ops", 1e-6),
    "probe_driver_ratio": Derived("probe_driver_us", None, 1e-6),
    "job_cpu_cores_used": Derived("job_cpu_us", None, 1e-6),
    "process_cpu_cores_used": Derived("process_cpu_us", None, 1e-6),
    "process_tree_cpu_cores_used": Derived("process_tree_cpu_us", None, 1e-6),
    "process_cpu_wait_ratio": Derived("process_cpu_wait_us", None, 1e-6, comes_late=True),
}
"""Every field that is made of counters."""

DERIVED_OF: Final = {
    block: tuple(field for field in DERIVED if CATALOGUE[field].block == block)
    for block in {CATALOGUE[field].block for field in DERIVED}
}
"""The same by block."""

_LONGEST_LATE_S: Final = 600.0
"""What a counter that comes late grows by at most: no program waits longer for a CPU at a stretch
(our choice); more is garbage."""


def _limit(field: str) -> float:
    """Largest result that is not garbage; two clocks may make a little more than all time."""
    high = CATALOGUE[field].high
    return high * 1.05 if CATALOGUE[field].unit == "ratio" else high


_LIMITS: Final = {field: (_limit(field), CATALOGUE[field].high) for field in DERIVED}


class _Reading(NamedTuple):
    at: float
    counted: int
    per: int | None
    result: float | None
    excess: float = 0.0
    """What was counted and is more than the time in between; of counters that come late."""
    is_wide: bool = False
    is_calm: bool = False
    """Of a counter that may wrap: whether it has more than 32 bits, and has hardly grown."""


def may_follow(block: str, fields: Collection[str]) -> bool:
    """Whether anything follows from these fields, so that `Rates` must hear of them.

    Args:
        block: Name of the block.
        fields: What it reports.
    """
    if any(DERIVED[field].counter in fields for field in DERIVED_OF.get(block, ())):
        return True
    link = _LINKS.get(block)
    return link is not None and all(
        not set(some).isdisjoint(fields) for some in (link.rates, link.asked)
    )


class Rates:
    """Remembers the last counters of one probe."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self._last: dict[str, dict[str, dict[str, _Reading]]] = {}
        """Last reading by block, field and entity."""

    def counts(self, block: str) -> bool:
        """Whether any counter of a block is remembered."""
        return any(self._last.get(block, {}).values())

    def add(
        self,
        block: str,
        keys: tuple[str, ...],
        at: Sequence[float],
        values: dict[str, list[float | int | None]],
        missing: MutableMapping[tuple[str, int], Reason],
        read_at: Mapping[str, Sequence[float | None]] | None = None,
        untold: Set[str] = frozenset(),
    ) -> None:
        """Add what follows; where no counter answers, what the probe itself reports stays.

        Args:
            block: Name of the block.
            keys: Its entities; the counters of those that are gone are forgotten.
            at: Node's monotonic time at which each was read.
            values: Columns of the block, which get those that are made here.
            missing: Reasons; what cannot be made is missing for its counter's reason.
            read_at: By counter the times at which it was read, where that was before `at`.
            untold: Fields of which `missing` gives the reason for every entity.
        """
        before = self._last.get(block, {})
        now: dict[str, dict[str, _Reading]] = {}
        self._last[block] = now
        nothing: list[float | int | None] = [None] * len(keys)
        for field in DERIVED_OF.get(block, ()):
            how, (limit, high) = DERIVED[field], _LIMITS[field]
            if field in untold or (
                not {field, how.counter} & values.keys()
                and all((field, row) in missing for row in range(len(keys)))
            ):
                # The reason is there already: most fields of a source with few counters.
                if field in before:
                    now[field] = before[field]
                continue
            counts = values.get(how.counter, nothing)
            pers = values.get(how.per, nothing) if how.per else nothing
            results = values.setdefault(field, list(nothing))
            known = before.get(field, {})
            times = (read_at or {}).get(how.counter, nothing)
            readings = now[field] = {}
            for row, key in enumerate(keys):
                count, per = counts[row], pers[row]
                last = known.get(key)
                if count is not None and (how.per is None or per is not None):
                    time = times[row]
                    since = at[row] if time is None else time
                    last = _next(last, since, int(count), None if per is None else int(per), how)
                    is_reported = how.may_wrap and results[row] is not None
                    if not is_reported and last.result is not None and last.result <= limit:
                        results[row] = min(last.result, high)
                if last is not None:
                    readings[key] = last
                if results[row] is None:
                    reason = missing.get((how.counter, row), missing.get((how.per or "", row)))
                    missing.setdefault((field, row), reason or Reason.NOT_SAMPLED)
                else:
                    missing.pop((field, row), None)
        _drop_impossible(block, len(keys), values, missing)


def _drop_impossible(
    block: str,
    count: int,
    values: dict[str, list[float | int | None]],
    missing: MutableMapping[tuple[str, int], Reason],
) -> None:
    """Take back rates that no link of the entity carries: their counter jumped."""
    if block not in _LINKS:
        return
    rates, asked, carried = _LINKS[block]
    fields = [field for field in rates if field in values]
    columns = [values.get(key) for key in asked]
    for row in range(count):
        most = carried(*(None if column is None else column[row] for column in columns))
        for field in fields:
            rate = values[field][row]
            if rate is not None and most is not None and rate > _ROOM * most:
                values[field][row] = None
                missing[field, row] = Reason.GARBAGE


def _pcie(*readings: float | int | None) -> float | None:
    """What the widest and fastest link carries that the GPU and its slot can have, else has now."""
    most_gen, most_lanes, gen, lanes = readings
    return pcie_bytes_per_s(
        gen if most_gen is None else most_gen, lanes if most_lanes is None else most_lanes
    )


def _port(*readings: float | int | None) -> float | None:
    """What a network port carries at its present speed."""
    (gbps,) = readings
    return gbps * 1e9 / 8 if gbps else None


class _Link(NamedTuple):
    """Rates over a link of which it is known what it carries in one direction."""

    rates: tuple[str, ...]
    asked: tuple[str, ...]
    """Fields that determine what it carries."""
    carried: Callable[..., float | None]


_LINKS: Final[Mapping[str, _Link]] = {
    "gpu": _Link(
        ("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"),
        ("pcie_gen_max", "pcie_width_max", "pcie_gen", "pcie_width"),
        _pcie,
    ),
    "nic": _Link(("nic_tx_bytes_per_s", "nic_rx_bytes_per_s"), ("nic_speed_gbps",), _port),
}
"""By block."""

_ROOM: Final = 1.25
"""How much more than a link carries a rate may be: two readings are not taken at the very moments
that their times say, and headers count in some counters (our choice)."""


def _next(last: _Reading | None, at: float, count: int, per: int | None, how: Derived) -> _Reading:
    """The reading with what follows from it and the last.

    A reading that comes again has the same result; the first one, and one after a reset or a wrap,
    have none.
    """
    if last is not None and (at, count, per) == last[:3]:
        return last
    if how.may_wrap:
        return _narrow(last, at, count)
    result, excess = None, 0.0
    if last is not None and at > last.at and count >= last.counted:
        grown = at - last.at if per is None or last.per is None else per - last.per
        if grown > 0:
            counted = (count - last.counted) * how.factor + last.excess
            is_spread = how.comes_late and counted <= _LONGEST_LATE_S
            within = min(counted, grown) if is_spread else counted
            result, excess = within / grown, counted - within
    return _Reading(at=at, counted=count, per=per, result=result, excess=excess)


def _narrow(last: _Reading | None, at: float, count: int) -> _Reading:
    """The same of a counter that may wrap; how often it did so is unknown."""
    is_wide = count >= NARROW or (last is not None and last.is_wide)
    if last is None or at <= last.at:
        return _Reading(at, count, None, None, is_wide=is_wide)
    grown = count - last.counted if is_wide else (count - last.counted) % NARROW
    is_calm = 0 <= grown <= _CALM
    is_known = grown >= 0 if is_wide else is_calm and last.is_calm
    result = grown / (at - last.at) if is_known else None
    return _Reading(at, count, None, result, is_wide=is_wide, is_calm=is_calm)
