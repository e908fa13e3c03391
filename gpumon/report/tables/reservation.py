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
        "reservation", "RESERVATION", 14, "left", 0,
        lambda _d, r: _name(r), lambda _d, r: (r.reservation.name,),
        "Name; ! marks maintenance, in which nobody's jobs run.", 28,
        value=lambda _d, r: r.reservation.name,
    ),
    Column(
        "when", "WHEN", 20, "left", 0, _when,
        lambda _d, r: (r.reservation.start_at or 0.0,),
        "How long until it begins and how long it lasts, or how much of it is left.", 24,
    ),
    Column(
        "from", "FROM", 5, "right", 3,
        lambda _d, r: Cell(units.clock_time(r.reservation.start_at)),
        lambda _d, r: (r.reservation.start_at or 0.0,), "Local time at which it begins.",
    ),
    Column(
        "nodes", "NODES", 5, "right", 1,
        lambda _d, r: _count(len(r.reservation.nodes)),
        lambda _d, r: (float(len(r.reservation.nodes)),), "Nodes of it.", 0, True, "",
    ),
    Column(
        "gpus", "GPUS", 5, "right", 2,
        lambda _d, r: _count(r.reservation.gpu_count), lambda _d, r: _gpus(r),
        "GPUs of it; – where Slurm does not say.", 0, True, "",
    ),
    Column(
        "crossing", "CROSS", 5, "right", 0,
        lambda _d, r: _count(len(r.crossing), Tone.WARN), lambda _d, r: (float(len(r.crossing)),),
        "Jobs of others whose time limit reaches past its start on its nodes; Enter lists them.",
        0, True, "",
    ),
    Column(
        "members", "JOBS", 5, "right", 2,
        lambda _d, r: _count(len(r.members)), lambda _d, r: (float(len(r.members)),),
        "Jobs that ask for it.", 0, True, "",
    ),
    Column(
        "who", "WHO", 8, "left", 1,
        lambda _d, r: Cell(who_words(r.reservation)), lambda _d, r: (who_words(r.reservation),),
        "Users and accounts that may use it.", 28,
    ),
    Column(
        "flags", "FLAGS", 8, "left", 4,
        lambda _d, r: Cell(",".join(r.reservation.flags).lower(), Tone.DIM),
        None, "Slurm's flags of it.", 30,
    ),
    Column(
        "names", "ON", 8, "left", 3,
        lambda _d, r: Cell(some_names(r.reservation.nodes), Tone.DIM), None,
        "The first of its nodes.", 60,
    ),
)  # fmt: skip

RESERVATION_COLUMNS: Final = shown_first(
    ("reservation", "when", "nodes", "gpus", "crossing", "members", "who", "names"), _COLUMNS
)
