"""A GPU's clock is held down by heat, power or the board, or lies far below that of its kind."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import (
    Confidence,
    Detector,
    Evidence,
    Severity,
    UserHold,
    Window,
    clock_event_names,
)
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.clock_rows import (
    HELD_BITS,
    IDLE_BIT,
    LEAST_LOST,
    LOADED,
    LOST_TIMES,
    SET_BITS,
    ClockRows,
    clock_rows,
    newest_known,
)
from gpumon_detectors.evidence.episodes import REST_S, episode_row, is_dense
from gpumon_detectors.evidence.gpu_use import PAST_S
from gpumon_detectors.evidence.phrases import clock_time, counted, span
from gpumon_detectors.hardware.waiting_peers import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, GpuFacts, JobLook, View

_GRAVE_LOSS: Final = 0.3
"""Share of the clock from which on the job's slowest rank costs as much as a lost GPU in three."""

_SIGHT_S: Final = 30.0
_SIGHT_ROWS: Final = 3
"""A GPU is in sight whose clock was told within so long, or in one of so many samples: single
values are missing now and then."""

_NO_LIGHTER: Final = 0.95
"""Other GPUs of the fleet are a measure where they draw about as much power at least: with less to
do a clock is higher, and that is no loss of this one (our choice)."""

_SAME_LIMIT: Final = 0.01
"""Power limits that differ by no more of themselves are one setting."""

_LEAST_BEFORE: Final = 12
"""Sound samples that must lie beyond a gap: two minutes at the usual period (our choice)."""

_MOST_CULPRITS: Final = 8
"""GPUs of one job of which it is asked who waits for them: in the largest jobs that takes its time,
and what the slowest do not cost, the next ones cost the less."""

_LEAST_TAKEN: Final = 0.05
"""Part of a GPU's own loss below which nothing worth a word is taken from another one."""

_LEAST_OTHERS: Final = 3
"""Of fewer GPUs elsewhere the median tells of their own troubles as much as of the product."""


class _Reference(NamedTuple):
    """The clock that a GPU would have."""

    mhz: float
    words: str
    is_bound: bool = False
    """Only the most that it could be: the loss is at most what comes of it."""


class _Case:
    """One GPU of a job through one episode."""

    def __init__(
        self,
        gpu: GpuFacts,
        rows: ClockRows,
        place: int,
        first: int,
        is_bad: NDArray[np.bool_],
        reference: _Reference | None,
    ) -> None:
        self.gpu = gpu
        self.rows = rows
        self.place = place
        """Its column."""
        self.first = first
        """Row of the first bad sample."""
        self.is_bad = is_bad
        """Per row and GPU of the job."""
        self.reference = reference

    @property
    def window(self) -> Window:
        """The episode as observed: of an old row of many samples only the last is sure."""
        times = self.rows.times
        start = self.rows.times[self.first] if self.first else self.rows.begins[0]
        return Window(float(start), float(times[-1]), len(times) - self.first)

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds that each row of the past stands for while the GPU is loaded, 0 before."""
        times, begins = self.rows.times, self.rows.begins
        seconds = np.diff(times, prepend=begins[:1])
        seconds[: self.first + 1] = 0.0
        seconds[self.first] = times[self.first] - self.window.start
        counts = self.rows.is_loaded[:, self.place]
        # What a missing sample stands for was as the samples around it.
        known = self.rows.is_known[self.first :, self.place]
        share = len(known) / max(1, int(known.sum()))
        return np.where(counts, seconds * share, 0.0)

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        """Share of the clock lost per row of the past, 0 where nothing is known of it."""
        if self.reference is None:
            return np.zeros(len(self.rows.times))
        clock = self.rows.clock[:, self.place].astype(np.float64)
        lost = np.nan_to_num(np.clip(1 - clock / self.reference.mhz, 0, 1))
        return np.where(self.seconds > 0, lost, 0.0)

    @cached_property
    def loss(self) -> float:
        """Mean share of the clock lost while it was loaded."""
        busy_s = float(self.seconds.sum())
        return float((self.losses * self.seconds).sum()) / busy_s if busy_s else 0.0

    @cached_property
    def bits(self) -> int:
        """Reasons that the driver reported in the episode."""
        masks = self.rows.bits[self.first :, self.place][
            self.rows.is_loaded[self.first :, self.place]
        ]
        return int(np.bitwise_or.reduce(masks)) if len(masks) else 0

    @property
    def held_by(self) -> tuple[str, ...]:
        """Names of those that hold a clock down."""
        return clock_event_names(self.bits & HELD_BITS)

    @property
    def untold(self) -> str:
        """That the driver does not say why, where nothing that it told holds a clock down."""
        return f"{'mostly ' if self.bits & ~IDLE_BIT else ''}no reason is reported"


class Throttled(Detector):
    """Claims that the clock of a GPU that computes is held down.

    A sample is bad where the GPU is loaded and (1) the driver names a hardware slowdown, a thermal
    slowdown of software or hardware, or a power brake as the reason, or one of the driver's
    counters of time lost to these grew by more than 1 % of the time; or (2) no reason is reported
    and its SM clock is below `clock_ratio` of the median of at least three of the job's loaded GPUs
    of the same product and power limit, while it is used as much and draws no more power than they
    do. An episode lasts as long as bad samples are no further apart than 3 minutes, and is claimed
    while they fall into 6 of 10 minutes.

    *Supported* after 10 minutes (0.6 events a minute over 10 minutes is the alarm of operators of
    large clusters), *established* after 30.

    What looks alike: a GPU at its power limit, or with the software power cap as the reason, works
    as it should, also where its limit or its stage of the pipeline is another than its neighbours';
    application clocks, sync boost and display clocks are settings; a slower product beside a faster
    one is compared with its own kind; an idle GPU rests at a low clock; the first warm minute after
    a launch does not count. Clocks differ by a few per cent from board to board.

    The loss is 1 minus the ratio of the clock to what it would be: that before the episode or that
    of the job's sound GPUs of its kind, whichever is lower; without either, that of the fleet's
    GPUs of its kind which draw as much power. Where only the highest clock of the board is known,
    the loss is given as *at most* and the claim stays a *hypothesis*. Other GPUs of the job are
    charged with it where they wait: their activity or power fell with the onset, or they are the
    less active beside it, or of one world with it where neither is known. Elsewhere the GPU alone.
    `critical` from a loss of 30 % on.

    Where no queue lists a node, each of its GPUs is judged alone by (1), under any program.
    """

    name = "throttled"
    version = "2"
    finding_classes = ("throttled",)
    needs = ("clock_event_reasons", "sm_clock_mhz")
    supported_after_s = 600.0
    established_after_s = 1800.0
    subjects = "gpu"

    def __init__(self, clock_ratio: float = 0.9) -> None:
        self.clock_ratio = clock_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU whose clock is held down."""
        claimed: set[str] = set()
        fleet = _Fleet(view)
        is_held = _recently_held(view)
        has_held = view.job_layout.groups.some(is_held)
        numbers = np.flatnonzero(has_held | self._may_differ(view, fleet))
        jobs = (view.running[int(number)] for number in numbers)
        for job in chain(jobs, _boards(view, is_held)):
            cases = [case for case in self._cases(job, fleet) if case.gpu.uuid not in claimed]
            claimed.update(case.gpu.uuid for case in cases)
            for case, charge in zip(cases, _charges(job, cases), strict=True):
                yield self._finding(view, job, case, charge)

    def _may_differ(self, view: View, fleet: _Fleet) -> NDArray[np.bool_]:
        """Jobs with a GPU whose clock no reason explains, and below that of another of them."""
        groups, clocks = view.job_layout.groups, fleet.column("sm_clock_mhz")
        bits = np.nan_to_num(fleet.column("clock_event_reasons")).astype(np.int64)
        unexplained = np.where(bits & (SET_BITS | IDLE_BIT), np.nan, clocks)
        may: NDArray[np.bool_] = groups.least(unexplained) < self.clock_ratio * groups.most(clocks)
        return may

    def _cases(self, job: JobLook, fleet: _Fleet) -> Iterator[_Case]:
        rows = clock_rows(fleet.view, job)
        if not len(rows.times):
            return
        is_bad = rows.is_held | rows.is_slow(self.clock_ratio)
        is_seen = rows.is_known[-_SIGHT_ROWS:].any(axis=0)
        is_seen |= rows.is_known[rows.times >= rows.times[-1] - _SIGHT_S].any(axis=0)
        for place in map(int, np.flatnonzero(is_seen & is_bad.any(axis=0))):
            first = _episode(rows, is_bad[:, place])
            if first is not None and not rows.is_held[first:, place].any():
                # Slow without a reason in some samples, at a setting or a cap in others.
                first = None if rows.is_mostly_set(place, first) else first
            if first is not None:
                reference = _reference(job, fleet, rows, place, first, is_bad)
                yield _Case(job.gpus[place], rows, place, first, is_bad, reference)

    def _finding(self, view: View, job: JobLook, case: _Case, charge: _Charge) -> Finding:
        gpu, window, loss, slowed = case.gpu, case.window, case.loss, charge.slowed
        is_bound = case.reference is not None and case.reference.is_bound
        sure = Confidence.HYPOTHESIS if is_bound else Confidence.ESTABLISHED
        # Only a fault that the driver told is a reason to leave the node.
        is_sure = bool(case.held_by) and commands.is_sure_enough(view, self, window, sure)
        is_grave = loss >= _GRAVE_LOSS and not is_bound
        words = ", ".join(case.held_by) or f"clock below that of its kind, {case.untold}"
        since = f"since {clock_time(window.start)} ({span(window.end - window.start)} observed)"
        most = "at most " if is_bound else ""
        lost = f", {most}{100 * loss:.0f} % of the clock lost" if loss else ""
        behind = f"; {counted(len(slowed), 'GPU')} of the job wait for it" if slowed else ""
        return view.finding(
            self,
            subject=gpu.subject,
            severity=Severity.CRITICAL if is_grave else Severity.WARNING,
            summary=f"{gpu.place} throttled {since}: {words}{lost}{behind}",
            window=window,
            evidence=(*_evidence(view, case), *_waiting(job, slowed)),
            advice=tuple(_advice(view, gpu, is_sure=is_sure)),
            machine_advice=tuple(_machine_advice(view, case, is_sure=is_sure)),
            gpu_seconds=None if case.reference is None else charge.gpu_seconds,
            at_most=sure,
            gpus=[gpu.uuid, *slowed],
            owners=job.owners if isinstance(job, UserHold) else (),
        )


def _boards(view: View, is_held: NDArray[np.bool_]) -> Iterator[UserHold]:
    """GPUs of nodes without a queue that are held down: under any program, it is the board."""
    for place in np.flatnonzero(is_held):
        gpu = view.gpus[view.uuids[place]]
        node = view.nodes.get(gpu.node)
        if node is None or node.slurm is not None or node.is_stale or view.jobs_on(node.name):
            continue
        mine = tuple(one for one in node.processes if gpu.uuid in one.gpu_uuids)
        yield UserHold(view, gpu, mine, float("-inf"), is_alone=False)


def _episode(rows: ClockRows, is_bad: NDArray[np.bool_]) -> int | None:
    """Row of the first bad sample of an episode that is dense enough to be claimed."""
    first = episode_row(rows.times, is_bad, rows.begins)
    if first is None or not is_dense(rows.times[first:], is_bad[first:], rows.begins[first:]):
        return None
    return first


def _reference(
    job: JobLook,
    fleet: _Fleet,
    rows: ClockRows,
    place: int,
    first: int,
    is_bad: NDArray[np.bool_],
) -> _Reference | None:
    """The clock that a GPU would have, the lower where its own past and its like tell it."""
    like = "itself in between" if isinstance(job, UserHold) else "the job's sound GPUs of its kind"
    known = [
        _Reference(mhz, words)
        for mhz, words in (
            (_before(job, rows, place, first, is_bad), "before the episode"),
            (rows.beside(place, first, is_bad), like),
        )
        if mhz is not None
    ]
    if known:
        return min(known)
    elsewhere = fleet.clock_like(job, place)
    if elsewhere is not None:
        return _Reference(elsewhere, "the fleet's GPUs of its kind")
    highest = float(rows.highest[place])
    return _Reference(highest, "the board's highest", is_bound=True) if highest > 0 else None


def _before(
    job: JobLook, rows: ClockRows, place: int, first: int, is_bad: NDArray[np.bool_]
) -> float | None:
    """The GPU's own clock before an episode, also beyond a gap in the sampling.

    Beyond it only the driver's reasons tell a sound sample from a bad one.
    """
    before = rows.before(place, first, is_bad)
    if before is not None or first or not rows.is_held[:, place].any():
        return before
    keys = ("sm_clock_mhz", "gpu_util_ratio", "clock_event_reasons")
    series = [job.window(job.uuids[place], key, PAST_S) for key in keys]
    clock, util, masks = (one.values[one.times < rows.begins[0]] for one in series)
    bits = np.nan_to_num(masks).astype(np.int64) & HELD_BITS
    sound = clock[np.isfinite(clock) & np.isfinite(masks) & (util >= LOADED) & (bits == 0)]
    return float(np.median(sound)) if len(sound) >= _LEAST_BEFORE else None


class _Fleet:
    """What all GPUs show now, each field read once an evaluation."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._columns: dict[str, NDArray[np.float64]] = {}

    def column(self, key: str) -> NDArray[np.float64]:
        """Newest values by position, of those that lack it the one before, and a NaN."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._lately(key)
        return column

    def clock_like(self, job: JobLook, place: int) -> float | None:
        """The clock of other jobs' GPUs that are like one of a job; None for too few of them."""
        keys = ("sm_clock_mhz", "power_w", "power_limit_w")
        clock, power, limit = (self.column(key)[:-1] for key in keys)
        own = int(self.view.places((job.uuids[place],))[0])
        with np.errstate(invalid="ignore"):
            is_like = self._is_sound & ~(np.abs(limit - limit[own]) > _SAME_LIMIT * limit[own])
            is_like &= ~(power < _NO_LIGHTER * power[own])
        is_like &= self._names == job.gpus[place].name
        is_like[self.view.places(job.uuids)] = False
        return float(np.median(clock[is_like])) if is_like.sum() >= _LEAST_OTHERS else None

    @cached_property
    def _is_sound(self) -> NDArray[np.bool_]:
        """GPUs that are loaded, and that nothing holds down."""
        clock, util = self.column("sm_clock_mhz"), self.column("gpu_util_ratio")
        bits = np.nan_to_num(self.column("clock_event_reasons")).astype(np.int64)
        with np.errstate(invalid="ignore"):
            is_sound = (util >= LOADED) & np.isfinite(clock) & ((bits & HELD_BITS) == 0)
        return np.asarray(is_sound[:-1], np.bool_)

    @cached_property
    def _names(self) -> NDArray[np.object_]:
        return np.array([gpu.name for gpu in self.view.gpus.values()], np.object_)

    def _lately(self, key: str) -> NDArray[np.float64]:
        column = self.view.fleet(key).copy()
        missing = np.flatnonzero(np.isnan(column[:-1]))
        if len(missing):
            uuids = [self.view.uuids[place] for place in missing]
            values = self.view.table(uuids, (key,), REST_S).columns[key]
            column[missing] = newest_known(values[-_SIGHT_ROWS:])
        return column


class _Charge(NamedTuple):
    """What a GPU cost, and who else of its job it was taken from."""

    gpu_seconds: float
    slowed: tuple[str, ...] = ()


def _charges(job: JobLook, cases: Sequence[_Case]) -> list[_Charge]:
    """What each of a job's GPUs that are held down cost.

    Its own loss, and at each time at which it is the slowest, what the others that wait lose beyond
    what they lose themselves: so the slowest costs the job, and no second is counted twice.
    """
    if not cases:
        return []
    losses = np.stack([case.losses for case in cases], axis=1)
    seconds = np.stack([case.seconds for case in cases], axis=1)
    is_slowest = np.argmax(losses, axis=1)[:, None] == np.arange(len(cases))
    is_slowest &= losses > 0
    lost = (losses * seconds).sum(axis=0)
    charges = [_Charge(float(own)) for own in lost]
    ahead = (losses * seconds * is_slowest).sum(axis=0)
    column = {case.gpu.uuid: number for number, case in enumerate(cases)}
    for number in np.argsort(-ahead, kind="stable")[:_MOST_CULPRITS]:
        case = cases[number]
        rows = np.flatnonzero(is_slowest[:, number])
        if not len(rows):
            continue
        work = Work(job, case.window.start)
        taken = {}
        for uuid in work.slowed_with(case.gpu.uuid, case.loss):
            theirs = losses[rows, column[uuid]] if uuid in column else 0.0
            excess = np.clip(losses[rows, number] - theirs, 0, None) * seconds[rows, number]
            taken[uuid] = float(excess.sum())
        slowed = tuple(uuid for uuid, s in taken.items() if s > _LEAST_TAKEN * lost[number])
        total = float(lost[number]) + sum(taken[uuid] for uuid in slowed)
        charges[number] = _Charge(total, slowed)
    return charges


def _evidence(view: View, case: _Case) -> Iterator[Evidence]:
    uuid, subject, rows, place = case.gpu.uuid, case.gpu.subject, case.rows, case.place
    bad, held = (flags[case.first :, place] for flags in (case.is_bad, rows.is_held))
    names = ", ".join(clock_event_names(case.bits & ~IDLE_BIT))
    text = f"{int(held.sum())} of {len(held)} samples with {', '.join(case.held_by)}"
    if case.held_by and case.bits & ~(HELD_BITS | IDLE_BIT):
        text += (
            f"; also reported: {', '.join(clock_event_names(case.bits & ~(HELD_BITS | IDLE_BIT)))}"
        )
    if not case.held_by:
        reasons = f"{case.untold}, in some samples {names}" if names else case.untold
        text = f"{reasons}; {int(bad.sum())} of {len(bad)} samples below GPUs of its kind"
    yield Evidence("clock_event_reasons", subject, text, float(held.sum()))
    counts = rows.is_loaded[case.first :, place]
    clocks = rows.clock[case.first :, place][counts].astype(np.float64)
    mean = float(clocks.mean())
    beside = ", nothing to compare with"
    if case.reference is not None:
        beside = f", {case.reference.words} {case.reference.mhz:.0f} MHz"
    yield Evidence("sm_clock_mhz", subject, f"SM clock {mean:.0f} MHz under load{beside}", mean)
    temp, power, limit = view.latest((uuid,), ("temp_c", "power_w", "power_limit_w"))[:, 0]
    if np.isfinite(temp):
        slowdown = case.gpu.value("temp_slowdown_c")
        at = f", slows down at {slowdown:.0f} °C" if slowdown else ""
        yield Evidence("temp_c", subject, f"{temp:.0f} °C now{at}", float(temp))
    if np.isfinite(power) and np.isfinite(limit):
        usual = case.gpu.value("power_limit_default_w")
        by = f", {usual:.0f} W by default" if usual else ""
        text = f"{power:.0f} W now of a limit of {limit:.0f} W{by}"
        yield Evidence("power_w", subject, text, float(power))


def _waiting(job: JobLook, slowed: Sequence[str]) -> Iterator[Evidence]:
    if slowed:
        text = f"{counted(len(slowed), 'other GPU')} of the job are less busy since then: they wait"
        yield Evidence("job", job.subject, text, float(len(slowed)))


def _recently_held(view: View) -> NDArray[np.bool_]:
    """Per GPU whether a reason that holds the clock down was told within the last minutes."""
    is_held = np.zeros(len(view.uuids), np.bool_)
    if not view.uuids:
        return is_held
    masks = view.table(view.uuids, ("clock_event_reasons",), REST_S).columns["clock_event_reasons"]
    if not len(masks):
        return is_held
    # Below the lowest of these bits there is nothing to look for, and most GPUs stay below it.
    places = np.flatnonzero((masks >= (HELD_BITS & -HELD_BITS)).any(axis=0))
    bits = np.nan_to_num(masks[:, places]).astype(np.int64) & HELD_BITS
    is_held[places] = bits.any(axis=0)
    for key in LOST_TIMES:
        lost = view.table(view.uuids, (key,), REST_S)
        with np.errstate(invalid="ignore"):
            grown = np.fmax.reduce(lost.columns[key]) - np.fmin.reduce(lost.columns[key])
            is_held |= 1e-6 * grown > LEAST_LOST * lost.length_s
    return is_held


def _advice(view: View, gpu: GpuFacts, *, is_sure: bool) -> Iterator[str]:
    if is_sure:
        yield from commands.leave_out(view, gpu.node)
    yield from commands.ask_gpu(view, gpu, "-q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER")
    yield from commands.report_to_admins(view, gpu.node)


def _machine_advice(view: View, case: _Case, *, is_sure: bool) -> Iterator[str]:
    words = " ".join(case.held_by)
    if "power" in words:
        yield "Check the node's power supplies and the board's power cables."
    elif "thermal" in words:
        yield "Check fans, air flow or coolant of the node, and the temperature of its inlet."
    elif words:
        yield "Check the board's power cables, the node's power supplies and its cooling."
    else:
        yield "Compare clock settings with those of the other GPUs of the node: they may be locked."
    if is_sure:
        yield from commands.drain(
            view, case.gpu.node, "GPU throttled, see nvidia-smi -q -d PERFORMANCE"
        )
