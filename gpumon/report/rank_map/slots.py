"""Values of a job's ranks by slots of time; a slot that is over is read from history once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpumon.fleet.history.windows import held, job_slab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpumon.fleet.history.reader import HistoryReader
    from gpumon.report.facts.rank_groups import RankGroup
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.fleet_map.marks import MapField

BLANK: Final = 0
"""Code of a character before a rank began or after it ended."""
MISSING: Final = 1
"""Code of a character for which nothing is known."""
FIRST_LEVEL: Final = 2
"""The lowest of the four steps of a field's scale."""
BELOW: Final = 6
"""Code of a value far below those of its peers."""
ABOVE: Final = 7
"""Code of a value far above those of its peers."""

SLOTS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
"""Seconds that one character can show."""

_LEAST_OFF: Final = {"%": 0.10, "°C": 10.0}
"""Distance from the peers' median below which a rank is not a straggler, by unit. A tenth is what
training frameworks report as a straggler (Megatron-LM)."""

_FENCE: Final = 1.5
"""Widths of the middle half of the peers beyond which a value is far out (Tukey's fence)."""


class Column(NamedTuple):
    """One slot."""

    values: NDArray[np.float32]
    """Mean by rank, a share of the scale or degrees; NaN where missing."""
    bands: NDArray[np.float32]
    """10th, 50th and 90th percentile of the peers by group; NaN where there are no peers."""
    off: NDArray[np.float32]
    """Distance from the peers' median by rank, NaN where not known."""
    codes: NDArray[np.uint8]
    """What is drawn by rank."""


class Slots(NamedTuple):
    """The slots on screen, the oldest first."""

    start: float
    """Unix time at which the first begins."""
    slot_s: float
    columns: tuple[Column, ...]

    @property
    def end(self) -> float:
        """Unix time at which the last one ends."""
        return self.start + self.slot_s * len(self.columns)

    def place_of(self, at: float) -> int | None:
        """The slot that an instant is in, None outside of what is shown."""
        found = int((at - self.start) // self.slot_s)
        return found if 0 <= found < len(self.columns) else None


class RankSlots:
    """Reads slots of one job and remembers those that are over."""

    def __init__(self) -> None:
        self._about: object = None
        self._finished: dict[int, Column] = {}

    def read(
        self,
        digest: Digest,
        job_id: str,
        groups: Sequence[RankGroup],
        field: MapField,
        slot_s: float,
        count: int,
    ) -> Slots:
        """The last `count` slots up to the tick's time. Ranks are in the order of the groups."""
        uuids = tuple(row.uuid or "" for group in groups for row in group.rows)
        sizes = tuple((len(group.rows), group.are_peers) for group in groups)
        about = (job_id, uuids, sizes, field.key, slot_s, digest.tick.observed_since)
        if about != self._about:
            self._about, self._finished = about, {}
        last = int(_newest(digest) // slot_s)
        wanted = range(last - count + 1, last + 1)
        unread = [slot for slot in wanted if slot not in self._finished]
        found = dict(self._finished)
        if unread:
            made = _columns(digest, job_id, uuids, sizes, field, slot_s, range(unread[0], last + 1))
            found.update(made)
            # What a late sample may still add to is read again.
            sure = (digest.tick.at - 2 * digest.tick.period_s) // slot_s
            self._finished.update((slot, column) for slot, column in made.items() if slot < sure)
        if len(self._finished) > 2 * count:
            self._finished = {
                slot: self._finished[slot] for slot in wanted if slot in self._finished
            }
        return Slots(wanted[0] * slot_s, slot_s, tuple(found[slot] for slot in wanted))


def _newest(digest: Digest) -> float:
    """Time of the newest row, where it is of this period: a tick in between adds no row."""
    tick = digest.tick
    # A reader of another kind, such as a test's, has no such time.
    row_at: float | None = getattr(tick.history, "newest_at", None)
    is_of_period = row_at is not None and 0.0 <= tick.at - row_at <= 1.5 * tick.period_s
    return row_at if is_of_period and row_at is not None else tick.at


def distances(slots: Slots) -> NDArray[np.float64]:
    """How far each rank is from its peers' median, mean over the slots; the most where missing."""
    off = np.stack([column.off for column in slots.columns])
    is_missing = np.stack([column.codes for column in slots.columns]) == MISSING
    known = ~np.isnan(off)
    mean = np.where(known, np.abs(off), 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    total: NDArray[np.float64] = mean + is_missing.mean(axis=0) * 1e3
    return total


def _columns(
    digest: Digest,
    job_id: str,
    uuids: tuple[str, ...],
    sizes: tuple[tuple[int, bool], ...],
    field: MapField,
    slot_s: float,
    slots: range,
) -> dict[int, Column]:
    # A reader of another kind, such as a test's, has single windows only.
    reader: Any = digest.tick.history
    history: HistoryReader | None = reader if hasattr(reader, "slab") else None
    start, end = slots[0] * slot_s, (slots[-1] + 1) * slot_s
    times, periods, values = _read(history, job_id, uuids, field, start - slot_s, end)
    begins = _begins(history, job_id, uuids, start, end)
    edges = np.array([slot * slot_s for slot in (*slots, slots[-1] + 1)])
    firsts = times.searchsorted(edges[:-1], "left")
    lasts = times.searchsorted(edges[1:], "left")
    found = {}
    for number, slot in enumerate(slots):
        first, last = int(firsts[number]), int(lasts[number])
        if first == last and first < len(times):
            # A sparser row covers the time since the one before; ticks may be late by half.
            last += int(times[first] - 1.5 * periods[first] <= edges[number] + slot_s / 2)
        mean = _mean(values[first:last])
        is_blank = np.isnan(mean) & ((first == last) | (begins >= edges[number + 1]))
        found[slot] = _column(mean, is_blank, sizes, field)
    return found


def _read(
    history: HistoryReader | None,
    job_id: str,
    uuids: tuple[str, ...],
    field: MapField,
    start: float,
    end: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Times, resolutions, and the field by row and rank while the job held its GPU."""
    if history is None:
        return np.empty(0), np.empty(0), np.empty((0, len(uuids)), np.float32)
    known, slab = job_slab(history, job_id, field.keys, start, end)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = slab.values[:, 0]
        if len(field.keys) == 2:
            shares = np.where(slab.values[:, 1] > 0, shares / slab.values[:, 1], np.nan)
    places = {uuid: at for at, uuid in enumerate(known)}
    at = np.array([places.get(uuid, -1) for uuid in uuids], np.intp)
    values = np.full((len(slab.times), len(uuids)), np.nan, np.float32)
    values[:, at >= 0] = shares[:, at[at >= 0]]
    return slab.times, slab.periods, values


def _begins(
    history: HistoryReader | None, job_id: str, uuids: tuple[str, ...], start: float, end: float
) -> NDArray[np.float64]:
    """Unix time since when the job held each rank's GPU."""
    since: dict[str, float] = {}
    if history is not None:
        for stretch in held(history, job_id, start, end):
            since[stretch.uuid] = min(since.get(stretch.uuid, stretch.start), stretch.start)
    return np.array([since.get(uuid, start) for uuid in uuids])


def _mean(values: NDArray[np.float32]) -> NDArray[np.float32]:
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: NDArray[np.float32] = np.where(known, values, 0.0).sum(axis=0) / counts
    return mean.astype(np.float32)


def _column(
    mean: NDArray[np.float32],
    is_blank: NDArray[np.bool_],
    sizes: tuple[tuple[int, bool], ...],
    field: MapField,
) -> Column:
    off = np.full(len(mean), np.nan, np.float32)
    codes = np.full(len(mean), MISSING, np.uint8)
    known = ~np.isnan(mean)
    codes[known] = FIRST_LEVEL + np.searchsorted(field.edges, mean[known], "right")
    codes[is_blank] = BLANK
    bands = np.full((len(sizes), 3), np.nan, np.float32)
    first = 0
    for number, (size, are_peers) in enumerate(sizes):
        members = slice(first, first + size)
        first += size
        some = mean[members][known[members]]
        if not are_peers or not len(some):
            continue
        low, quarter, middle, three, high = np.percentile(some, (10, 25, 50, 75, 90))
        bands[number] = low, middle, high
        off[members] = mean[members] - middle
        far = max(_LEAST_OFF[field.unit], _FENCE * float(three - quarter))
        codes[members][off[members] <= -far] = BELOW
        codes[members][off[members] >= far] = ABOVE
    return Column(mean, bands, off, codes)
