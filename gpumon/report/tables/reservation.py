"""Reservations: what, when, who, and the jobs that run into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone, some_names

if TYPE_CHECKING:
    from gpumon.model.records.queue import Reservation
    from gpumon.report.facts.reservations import ReservationRow
    from gpumon.report.facts.tick_index import Digest


def reservation_order(_digest: Digest, row: ReservationRow) -> SortKey:
    """The next one first, those of maintenance before others."""
    what = row.reservation
    return (0.0 if what.is_maintenance else 1.0, what.start_at or 0.0, what.name)


def reservation_search(_digest: Digest, row: ReservationRow) -> str:
    """What the row filter looks through, lower case."""
    what = row.reservation
    words = (what.name, *what.users, *what.accounts, *what.flags, *what.nodes, what.partition)
    return "\n".join(words).lower()


def when_words(digest: Digest, what: Reservation) -> str:
    """`in 5h30m for 4h00m`, `now, 2h00m left`."""
    at, start, end = digest.tick.at, what.start_at, what.end_at
    if start is not None and start > at:
        length = "" if end is None else f" for {units.short_duration(end - start)}"
        return f"in {units.short_duration(start - at)}{length}"
    if end is None:
        return "now, without an end"
    return f"now, {units.short_duration(end - at)} left"


def who_words(what: Reservation) -> str:
    """Users and accounts that may use it, `nobody` for maintenance."""
    names = (*what.users, *what.accounts)
    if not names:
        return "nobody" if what.is_maintenance else "–"
    return some_names(names)


def _name(row: ReservationRow) -> Cell:
    what = row.reservation
    if what.is_maintenance:
        return Cell(f"! {what.name}", Tone.WARN)
    return Cell(what.name, Tone.STRONG)


def _when(digest: Digest, row: ReservationRow) -> Cell:
    is_now = row.reservation.start_at is None or row.reservation.start_at <= digest.tick.at
    return Cell(when_words(digest, row.reservation), Tone.INFO if is_now else Tone.PLAIN)


def _count(value: int | None, tone: Tone = Tone.PLAIN) -> Cell:
    if value is None:
        return NO_VALUE
    return Cell(str(value), tone if value else Tone.DIM)


def _gpus(row: ReservationRow) -> SortKey | None:
    count = row.reservation.gpu_count
    return None if count is None else (float(count),)


_COLUMNS: Final[tuple[Column[ReservationRow], ...]] = (
    Column(
        "reservation", "RESERVATION", 14, "left", priority=0,
        cell=lambda _d, r: _name(r), order=lambda _d, r: (r.reservation.name,),
        doc="Name; ! marks maintenance, in which no jobs run.", max_width=28,
        value=lambda _d, r: r.reservation.name,
    ),
    Column(
        "when", "WHEN", 20, "left", priority=0, cell=_when,
        order=lambda _d, r: (r.reservation.start_at or 0.0,),
        doc="How long until it begins and how long it lasts, or how much of it is left.",
        max_width=24,
    ),
    Column(
        "from", "FROM", 5, "right", priority=3,
        cell=lambda _d, r: Cell(units.clock_time(r.reservation.start_at)),
        order=lambda _d, r: (r.reservation.start_at or 0.0,), doc="Local time at which it begins.",
    ),
    Column(
        "nodes", "NODES", 5, "right", priority=1,
        cell=lambda _d, r: _count(len(r.reservation.nodes)),
        order=lambda _d, r: (float(len(r.reservation.nodes)),), doc="Its nodes.", max_width=0,
        is_descending=True, unit="",
    ),
    Column(
        "gpus", "GPUS", 5, "right", priority=2,
        cell=lambda _d, r: _count(r.reservation.gpu_count), order=lambda _d, r: _gpus(r),
        doc="GPUs of it; – where Slurm does not say.", max_width=0, is_descending=True, unit="",
    ),
    Column(
        "crossing", "CROSS", 5, "right", priority=0,
        cell=lambda _d, r: _count(len(r.crossing), Tone.WARN),
        order=lambda _d, r: (float(len(r.crossing)),),
        doc="Jobs of others whose time limit reaches past its start on its nodes; Enter lists "
        "them.",
        max_width=0, is_descending=True, unit="",
    ),
    Column(
        "members", "JOBS", 5, "right", priority=2,
        cell=lambda _d, r: _count(len(r.members)), order=lambda _d, r: (float(len(r.members)),),
        doc="Jobs that ask for it.", max_width=0, is_descending=True, unit="",
    ),
    Column(
        "who", "WHO", 8, "left", priority=1,
        cell=lambda _d, r: Cell(who_words(r.reservation)),
        order=lambda _d, r: (who_words(r.reservation),),
        doc="Users and accounts that may use it.", max_width=28,
    ),
    Column(
        "flags", "FLAGS", 8, "left", priority=4,
        cell=lambda _d, r: Cell(",".join(r.reservation.flags).lower(), Tone.DIM),
        order=None, doc="Slurm's flags of it.", max_width=30,
    ),
    Column(
        "names", "ON", 8, "left", priority=3,
        cell=lambda _d, r: Cell(some_names(r.reservation.nodes), Tone.DIM), order=None,
        doc="The first of its nodes.", max_width=60,
    ),
)  # fmt: skip

RESERVATION_COLUMNS: Final = shown_first(
    ("reservation", "when", "nodes", "gpus", "crossing", "members", "who", "names"), _COLUMNS
)
