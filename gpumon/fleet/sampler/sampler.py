"""The one loop: collects frames until the period's deadline, joins them, publishes a Tick."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from gpumon.fleet.join.join import Remembered, join
from gpumon.fleet.sampler.newest import Newest
from gpumon.fleet.sampler.pace import Pace, SetClock
from gpumon.fleet.sampler.protocols import CLOSE_WAIT_S
from gpumon.fleet.sampler.zoom_ticks import Closer
from gpumon.model.fault import DETECTION, SourceError, fault
from gpumon.model.records.tick import TargetState, Tick
from gpumon.model.staleness import stale_after_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.fleet.sampler.need import Need
    from gpumon.fleet.sampler.protocols import Detection, GpuTimeLedger, Past
    from gpumon.model.finding import DetectionReport
    from gpumon.sources.source import Clock, Source, Wish


GRACE_S: Final = 10.0
"""A single look waits this much longer than asked for nodes that have not answered yet."""

DETECTION_WAIT_S: Final = 60.0
"""A single look waits this long for the detection worker, whose start takes about a second, and
many where the machine is busy or Python lies on a file server."""

REHEARSED_S: Final = 30.0
"""So long before its end a look finds out which plugins hang: three of them take no longer. One of
less than half as long has no time for it."""

_UNWRITTEN_HINT: Final = "ledger.directory in the configuration names another folder"

_T = TypeVar("_T")


class Faults:
    """Collects errors of gpumon's own until they are told."""

    def __init__(self) -> None:
        self._errors: dict[SourceError, None] = {}

    def trying(self, doing: str, step: Callable[[], _T], otherwise: _T) -> _T:
        """The result of a step, or `otherwise` where it fails, which is noted down."""
        try:
            return step()
        # One broken part must not take the whole picture, nor the next one, with it.
        except Exception as error:  # noqa: BLE001
            self._errors[fault(doing, error)] = None
            return otherwise

    def drain(self) -> tuple[SourceError, ...]:
        """Everything since the last time, each once."""
        errors, self._errors = self._errors, {}
        return tuple(errors)


class Sampler:
    """Collects, joins and publishes on a plain thread of its own, or once in the caller's."""

    def __init__(
        self,
        sources: Sequence[Source],
        clock: Clock,
        period_s: float,
        remember: Callable[[], Past] | None = None,
        judge: Callable[[], Detection] | None = None,
        arrived: threading.Event | None = None,
        open_ledger: Callable[[], GpuTimeLedger] | None = None,
        judge_every_s: float = 0.0,
        steady: Callable[[], float] | None = None,
        need: Need | None = None,
    ) -> None:
        """Nothing is sampled before `start` or `look`.

        Args:
            sources: One per target; started here unless `arrived` is given.
            clock: Time, real or injected.
            period_s: Seconds between ticks.
            remember: Makes the memory when the sampling begins; None: a single sample needs none.
            judge: Makes the detection engine likewise; None: no findings.
            arrived: What sources that run already were given to set when a frame is ready.
            open_ledger: Makes the ledger likewise; None: GPU time is not accounted for.
            judge_every_s: Seconds between two pictures that are judged; 0: all, where the engine
                is free.
            steady: Seconds of a clock that nobody sets, which shows when `clock` was set; None: its
                time is recorded or invented.
            need: Says which pictures need detectors; None: all.
        """
        self._sources = tuple(sources)
        self._clock = clock
        self._period_s = period_s
        self._remember = remember
        self._judge = judge
        self._open_ledger = open_ledger
        self._steady = steady
        self._ledger: GpuTimeLedger | None = None
        self._past: Past | None = None
        self._detection: Detection | None = None
        self._pace = Pace(judge_every_s)
        self._need = need
        self._newest = Newest()
        self._remembered = Remembered()
        self._number = 0
        self._report: DetectionReport | None = None
        self._is_started = arrived is not None
        self._arrived = arrived or threading.Event()
        self._closing = threading.Event()
        self._stirred = threading.Event()
        self._closer = Closer()
        self._thread: threading.Thread | None = None
        self._faults = Faults()
        self._set_clock = SetClock()
        self._shown: Tick | None = None
        self._began_at: float | None = None
        self.failure: SourceError | None = None
        """Why there will be no tick any more; None: there will."""
        self._unwritten = ""
        self.unwritten: SourceError | None = None
        """Why the last of the books is not on disk, where no tick has told it."""

    def start(
        self,
        on_tick: Callable[[Tick], None],
        on_failure: Callable[[SourceError], None] = lambda _failure: None,
        *,
        shows_early: bool = False,
    ) -> None:
        """Publish a tick every period from a thread of its own.

        What fails while a tick is made is among its errors, and the next one is tried. Whatever
        ends the thread for good all the same, an error of `on_tick` for example, is told to
        `on_failure`.

        Args:
            on_tick: Takes each tick.
            on_failure: Hears why there will be none any more.
            shows_early: Whether a tick for the eyes alone comes before the first beat.
        """
        run = partial(self._run, on_tick, on_failure, shows_early=shows_early)
        self._thread = threading.Thread(target=run, name="sampler", daemon=True)
        self._thread.start()

    def _run(
        self,
        on_tick: Callable[[Tick], None],
        on_failure: Callable[[SourceError], None],
        *,
        shows_early: bool,
    ) -> None:
        try:
            self._sample_until_closed(on_tick, shows_early=shows_early)
        # The last door of the thread: whoever waits for its ticks must hear that none will come.
        except Exception as error:  # noqa: BLE001
            self.failure = fault("sampling", error)
            on_failure(self.failure)

    def _sample_until_closed(
        self, on_tick: Callable[[Tick], None], *, shows_early: bool = False
    ) -> None:
        try:
            self._start_sources()
            if shows_early:
                self._show_early(on_tick)
            self._open()
            due_at = self._clock.monotonic() + self._period_s
            self._gather(due_at, self._is_settled)
            due_at = min(due_at, self._clock.monotonic())
            while not self._closing.is_set():
                self._take()
                late_s = max(0.0, self._clock.monotonic() - due_at)
                tick = self._with_errors(self._charged(self._judged(self.tick(late_s))))
                on_tick(tick)
                if late_s > self._period_s:
                    due_at += late_s  # the beats that were missed are not made up for
                due_at += self._period_s
                self._wait_for(due_at, tick, on_tick)
        finally:
            self._free()

    def _show_early(self, on_tick: Callable[[Tick], None]) -> None:
        """Show what has been said already: the past and detection take a while to open."""
        self._take()
        if self._newest.first_at is not None and self._is_settled():
            on_tick(self._between(self._blank()))

    def _wait_for(self, due_at: float, last: Tick, on_tick: Callable[[Tick], None]) -> None:
        """Wait for the beat; on the way publish pictures where somebody looks closer."""
        clock, closer = self._clock, self._closer
        while (left_s := due_at - clock.monotonic()) > 0:
            self._stirred.clear()
            # Looked at only now: an end between the look and the clearing would be slept over.
            if self._closing.is_set():
                return
            step_s = closer.step_s(self._period_s, left_s)
            is_stirred = clock.wait(self._stirred, left_s if step_s is None else step_s)
            if step_s is None or is_stirred or self._closing.is_set():
                continue
            begin_s = closer.cpu_s()
            self._take()
            if closer.has_news(step_s):
                on_tick(self._between(last))
                closer.cost(closer.cpu_s() - begin_s, step_s)

    def _between(self, last: Tick) -> Tick:
        """A picture between two beats: to be looked at, neither remembered, judged nor booked."""
        self._number += 1
        tick = self._faults.trying("joining", partial(self._joined, 0.0), None)
        if tick is None:
            return last._replace(number=self._number)
        seen = self._with_findings(tick)
        return self._with_errors(seen._replace(history=last.history, ledger=last.ledger))

    def sample_for(self, seconds: float) -> Tick:
        """One tick after watching for `seconds`; 0: the first report of every node.

        Nodes that have not answered by then are waited for, at most `GRACE_S` more.
        """
        self._start_sources()
        self._open()
        self._gather(self._clock.monotonic() + seconds + GRACE_S, self._is_settled)
        due_at = self._clock.monotonic()
        end, is_rehearsed = due_at + seconds, seconds < REHEARSED_S / 2
        while due_at < end and not self._closing.is_set():
            seen = self._charged(self.tick(0.0))
            if self._detection is not None and not is_rehearsed and end - due_at <= REHEARSED_S:
                rehearse = partial(self._detection.rehearse, seen)
                self._faults.trying("judging", rehearse, None)
                is_rehearsed = True
            due_at = min(due_at + self._period_s, end)
            self._clock.wait(self._closing, due_at - self._clock.monotonic())
            self._take()
        tick = self._naming_silent(self.tick(0.0), seconds + GRACE_S)
        detection = self._detection
        if detection is not None:
            finish = partial(detection.finish, DETECTION_WAIT_S)
            submit = partial(detection.submit, tick)
            is_taken = self._faults.trying("judging", submit, False)
            if not is_taken and is_rehearsed:
                # More hang than there was time for: the rehearsal ends first.
                self._faults.trying("judging", finish, None)
                is_taken = self._faults.trying("judging", submit, False)
            self._report = self._faults.trying("judging", finish, None)
            if self._report is None:
                # Without this, no finding would look like no trouble.
                message = f"no answer in {DETECTION_WAIT_S:.0f} s: no detector ran"
                hint = "try again when this machine is less busy"
                if not is_taken:
                    message = "not evaluated: there was no complete tick"
                    hint = "the other errors say why"
                unjudged = SourceError(DETECTION, message, hint)
                tick = tick._replace(errors=(*tick.errors, unjudged))
        return self._with_errors(self._charged(self._with_findings(tick)))

    def wish(self, wish: Wish) -> None:
        """Pass a wish to every source; a new period is also the sampler's."""
        if wish.period_s is not None:
            self._period_s = wish.period_s
        self._closer.wish(wish)
        for source in self._sources:
            source.wish(wish)
        self._stirred.set()

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding; False: it does not stand, or nothing is judged."""
        detection = self._detection
        is_standing = detection is not None and detection.acknowledge(identity, is_known=is_known)
        self._pace.hurry()
        return is_standing

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Have a class, a subject, or a class about a subject not told before a Unix time."""
        if self._detection is not None:
            self._detection.mute(until, finding_class, subject)
        self._pace.hurry()

    def renew(self) -> None:
        """Have detectors loaded anew: what they read when they were loaded has changed."""
        if self._detection is not None:
            self._detection.renew()
        self._pace.hurry()

    def close(self, limit_s: float = CLOSE_WAIT_S) -> None:
        """End everything; bounded, because a source or driver may hang.

        Args:
            limit_s: So long the thread is waited for. One that still imports when the interpreter
                ends brings it down, so who is watched by nobody had better wait for longer.
        """
        self._closing.set()
        self._arrived.set()
        self._stirred.set()
        if self._thread is None:
            self._free()
        else:
            # Ctrl-C may come while it starts: one that does not run yet will end at once.
            with suppress(RuntimeError):
                self._thread.join(limit_s)

    def _start_sources(self) -> None:
        if not self._is_started:
            for source in self._sources:
                source.start(self._arrived.set)

    def _open(self) -> None:
        if self._judge is not None:
            self._detection = self._faults.trying("starting detection", self._judge, None)
        if self._remember is not None:
            self._past = self._faults.trying("making room for the past", self._remember, None)
            # It may begin with what a recording knows.
            self._began_at = None if self._past is None else self._past.begins_at
        if self._open_ledger is not None:
            self._ledger = self._faults.trying("opening the ledger", self._open_ledger, None)

    def _free(self) -> None:
        for part in (*self._sources, self._detection, self._past, self._ledger):
            if part is not None:
                self._faults.trying("closing", part.close, None)
        if self._ledger is not None:
            totals = self._faults.trying("booking", self._ledger.summary, None)
            if totals is not None and totals.note not in ("", self._unwritten):
                self.unwritten = SourceError("ledger", totals.note, _UNWRITTEN_HINT)

    def _naming_silent(self, tick: Tick, waited_s: float) -> Tick:
        """The tick with an error for every target that still owes an answer."""
        errors = {}
        for source, state in zip(self._sources, tick.targets, strict=True):
            if source.pending() and state.error is None:
                who = "not every node has answered" if state.age_s is not None else "no answer"
                hint = "wait longer with --for, or run gpumon doctor"
                errors[source.url] = SourceError(source.url, f"{who} in {waited_s:.0f} s", hint)
        targets = (
            state._replace(error=errors.get(state.url, state.error)) for state in tick.targets
        )
        return tick._replace(targets=tuple(targets), errors=tick.errors + tuple(errors.values()))

    def _is_settled(self) -> bool:
        return not any(source.pending() for source in self._sources)

    def _take(self) -> None:
        for source in self._sources:
            self._faults.trying(f"reading {source.url}", partial(self._take_from, source), None)

    def _take_from(self, source: Source) -> None:
        frames = source.poll()
        self._closer.hear(frames)
        self._newest.take(frames)

    def _gather(self, deadline: float, is_enough: Callable[[], bool]) -> None:
        """Take frames as they arrive until enough are there or the deadline passes."""
        while True:
            self._arrived.clear()
            # Looked at only now, as in `_wait_for`.
            if self._closing.is_set():
                return
            self._take()
            left_s = deadline - self._clock.monotonic()
            is_over = is_enough()
            if is_over:
                # What was reported since the take counts too, and so does what it sets off.
                self._take()
                is_over = is_enough()
            if left_s <= 0 or is_over:
                return
            self._clock.wait(self._arrived, left_s)

    def tick(self, lateness_s: float) -> Tick:
        """The picture of this instant, remembered where there is a past.

        Where none can be made, the last one stands, with its own time.
        """
        self._number += 1
        tick = self._faults.trying("joining", partial(self._joined, lateness_s), None)
        if tick is None:
            last = self._shown or self._blank()
            return last._replace(number=self._number, lateness_s=lateness_s)
        past = self._past
        if past is not None:
            self._faults.trying("remembering", partial(past.append, tick), None)
            begins_at, first_at = past.begins_at, self._newest.first_at
            if begins_at is not None and begins_at < (self._began_at or first_at or begins_at):
                # Its source has told what was before it was asked first.
                self._began_at = begins_at
                tick = tick._replace(observed_since=begins_at)
            tick = tick._replace(history=self._faults.trying("remembering", past.reader, None))
        self._shown = tick
        return tick

    def _blank(self) -> Tick:
        """A picture of nothing."""
        now = self._clock.now()
        states = (TargetState(source.url, False, None, None) for source in self._sources)
        return Tick(
            number=0,
            at=now,
            observed_since=now,
            period_s=self._period_s,
            targets=tuple(states),
            nodes={},
            gpus={},
            jobs=(),
            queue_at=None,
            findings=(),
            coverage=(),
            errors=(),
            lateness_s=0.0,
        )

    def _with_errors(self, tick: Tick) -> Tick:
        """The tick with what failed inside while it was made."""
        return tick._replace(
            errors=tick.errors + self._set_clock.errors(tick) + self._faults.drain()
        )

    def _joined(self, lateness_s: float) -> Tick:
        now = self._clock.now()
        newest = self._newest
        newest.forget(now)
        limit_s = stale_after_s(self._period_s)
        queue = newest.queue
        joined = join(
            *(newest.frames, queue, newest.node_errors, now, limit_s, newest.left),
            *(newest.disputes, self._remembered),
        )
        return Tick(
            number=self._number,
            at=now,
            observed_since=self._began_at or newest.first_at or now,
            period_s=self._period_s,
            targets=tuple(newest.target(source.url, now) for source in self._sources),
            nodes=joined.nodes,
            gpus=joined.gpus,
            jobs=joined.jobs,
            queue_at=queue.jobs_at if queue else None,
            findings=(),
            coverage=(),
            errors=newest.errors,
            lateness_s=lateness_s,
            queue=queue,
            strays=joined.strays,
            ended=newest.ended,
            running_use=newest.running_use,
            zoom_period_s=self._closer.period_s,
            steady_s=None if self._steady is None else self._steady(),
        )

    def _judged(self, tick: Tick) -> Tick:
        """The tick with the newest findings; judged itself when it is time and the worker free."""
        detection, pace = self._detection, self._pace
        if detection is None:
            return tick
        if self._need is not None and not self._need.is_there(tick, self._report):
            self._faults.trying("judging", detection.rest, None)
        elif pace.is_due(tick) and self._faults.trying(
            "judging", partial(detection.submit, tick), False
        ):
            pace.judged(tick)
        self._report = self._faults.trying("judging", detection.collect, None) or self._report
        return self._with_findings(tick)

    def _with_findings(self, tick: Tick) -> Tick:
        report = self._report
        if report is None:
            return tick
        return tick._replace(
            findings=report.findings,
            cleared=report.cleared,
            muted=report.muted,
            coverage=report.coverage,
            errors=tick.errors + report.errors,
        )

    def _charged(self, tick: Tick) -> Tick:
        """The tick with the books as its findings leave them."""
        ledger = self._ledger
        if ledger is None:
            return tick
        self._faults.trying("booking", partial(ledger.take, tick), None)
        totals = self._faults.trying("booking", ledger.summary, None)
        self._unwritten = "" if totals is None else totals.note
        if self._unwritten:
            unwritten = SourceError("ledger", self._unwritten, _UNWRITTEN_HINT)
            tick = tick._replace(errors=(*tick.errors, unwritten))
        return tick._replace(ledger=totals)
