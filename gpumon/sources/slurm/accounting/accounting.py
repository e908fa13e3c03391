"""Asks Slurm's accounting when the user wants to know, in a thread beside the queue's.

A slurmdbd that hangs holds its caller for a minute, so the queue must not wait behind it.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from gpumon.model.fault import SourceError, fault
from gpumon.model.records.accounting import EndedReport, RunningUse
from gpumon.model.records.frame import Frame
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.commands.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.accounting import EndedJobs, StepUsage
    from gpumon.sources.slurm.accounting.usage import EndedList
    from gpumon.sources.source import Clock

PERIOD_S: Final = 60.0
"""Shortest time between two questions after ended jobs, however often they are wished for."""

USE_PERIOD_S: Final = 30.0
"""Likewise after running steps: each question goes to every node of the job."""

LONGEST_USE_RETRY_S: Final = 960.0
"""Longest rest after a question about steps that brought nothing: it disturbs a job's nodes, and no
slurmdbd that comes back would answer it."""

ENDED: Final = "ended jobs"
USE: Final = "running steps"

RETRY_S: Final = 5.0
"""Shortest rest after a failure where a person asks again; at least as long as the failure took."""

SHORTEST_WINDOW_S: Final = 60.0
"""Shortest window, seconds. A choice: clocks of the database and of this machine may differ."""

MAX_WINDOW_S: Final = 31 * 86400.0
"""Longest window: a database of millions of jobs needs minutes for more, and others wait."""

WHERE: Final = "accounting"

_CLOSE_S: Final = 0.4
"""For the thread's end, seconds: a source has half a second for all (`Source.close`)."""

_IDLE_S: Final = 3600.0
"""Longest wait, seconds: a question wakes the thread at once."""

_MAX_FRAMES: Final = 4
"""Answers that wait to be taken: each question replaces the one before, so more are stale."""

OWNERS_ONLY: Final = "Slurm shows what a running job uses only to its owner (sstat)"

UNREACHED: Final = "Slurm's accounting (slurmdbd) cannot be reached"

_KNOWN: Final = (
    (
        failures.WITHOUT_ACCOUNTING,
        "this cluster keeps no accounting (AccountingStorageType is none)",
        "only what the controller still remembers of ended jobs can be shown",
    ),
    (
        re.compile(r"step.*invalid user id", re.IGNORECASE),
        OWNERS_ONLY,
        "ask as the owner of the job",
    ),
    (
        re.compile(r"couldn't get steps", re.IGNORECASE),
        "the job has no running step that sstat could ask",
        "`squeue --steps` lists those that run; gpumon asks again, less and less often",
    ),
    (
        re.compile(r"database|slurmdbd|persist", re.IGNORECASE),
        UNREACHED,
        "jobs and nodes need no slurmdbd and stay live; gpumon asks again, less and less often",
    ),
)
"""Words of Slurm's messages about its accounting, what they mean, and the way out."""


class Ledger(Protocol):
    """One way to ask the accounting."""

    def ended(self, window_s: float) -> EndedList:
        """Jobs that ended within the last `window_s` seconds.

        Raises:
            CommandFailedError: there was no answer of use.
        """
        ...

    def running(self, job_id: str) -> tuple[StepUsage, ...]:
        """What the running steps of one job have used so far; otherwise as `ended`."""
        ...

    def close(self) -> None:
        """Make a running question fail soon, from another thread."""
        ...


class Accounting:
    """Answers wishes for ended jobs and running steps, never oftener than a schedule allows."""

    def __init__(self, url: str, ledger: Ledger, clock: Clock) -> None:
        """Nothing runs before the first wish."""
        self._url = url
        self._ledger = ledger
        self._clock = clock
        self._schedule = Schedule(PERIOD_S)
        self._use_schedule = Schedule(USE_PERIOD_S, LONGEST_USE_RETRY_S)
        self._records: EndedJobs | None = None
        self._running: RunningUse | None = None
        self._errors: dict[str, tuple[SourceError, ...]] = {}
        self._frames: deque[Frame] = deque(maxlen=_MAX_FRAMES)
        self._lock = threading.Lock()
        self._wished_since: float | None = None
        self._is_by_hand = False
        self._retry_at: float | None = None
        """When ended jobs may be asked for again by hand; None: the last answer was good."""
        self._wished_use = ""
        self._owed: set[str] = set()
        self._stop = False
        self._stir = threading.Event()
        self._wake: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Take note of whom to wake; a wish that came before is answered now."""
        with self._lock:
            self._wake = wake
            self._run_if_wished()

    def wish(self, since: float, *, by_hand: bool = False) -> None:
        """Ask for the jobs that ended since that Unix time, as soon as the schedule allows.

        By hand, accounting that gave no answer is asked again without the long rest: whoever knows
        that it is back need not wait. One that answers is not asked any sooner.
        """
        with self._lock:
            self._wished_since = since
            self._is_by_hand |= by_hand
            if ENDED not in self._errors:
                self._owed.add(ENDED)
            self._run_if_wished()
        self._stir.set()

    def wish_use(self, job_id: str) -> None:
        """Ask what the running steps of this job have used, likewise."""
        with self._lock:
            self._wished_use = job_id
            if USE not in self._errors:
                self._owed.add(USE)
            self._run_if_wished()
        self._stir.set()

    def poll(self) -> list[Frame]:
        """Answers since the last poll, oldest first."""
        frames: list[Frame] = []
        while self._frames:
            frames.append(self._frames.popleft())
        return frames

    def pending(self) -> bool:
        """Whether a first wish has not been answered yet."""
        return bool(self._owed)

    def close(self) -> None:
        """End the thread and its question."""
        self._stop = True
        self._stir.set()
        self._ledger.close()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def run(self) -> None:
        """Answer wishes until the end: the body of the thread."""
        while True:
            self._stir.clear()
            # Checked only now: an end between the check and the clearing would be slept over.
            if self._stop:
                return
            wait_s = self.due_in_s()
            if wait_s > 0:
                self._clock.wait(self._stir, wait_s)
                continue
            self.answer()

    def due_in_s(self) -> float:
        """Seconds until the next question; not above 0: now."""
        now = self._clock.monotonic()
        with self._lock:
            due = [_IDLE_S]
            if self._wished_since is not None:
                due.append(self._ended_due_at() - now)
            if self._wished_use:
                due.append(self._use_schedule.due_at - now)
        return min(due)

    def answer(self) -> None:
        """Ask what was wished and is due, and report what came of it."""
        now = self._clock.monotonic()
        since, job_id = None, ""
        with self._lock:
            if now >= self._ended_due_at():
                since, self._wished_since = self._wished_since, None
                self._is_by_hand = False
            if now >= self._use_schedule.due_at:
                job_id, self._wished_use = self._wished_use, ""
        if since is not None:
            is_answered = self._report(ENDED, self._schedule, lambda: self._ask_ended(since))
            ended_at = self._clock.monotonic()
            self._retry_at = None if is_answered else ended_at + max(RETRY_S, ended_at - now)
            if not is_answered:
                # What was not answered stays wished for: no screen asks twice by itself.
                with self._lock:
                    self._wished_since = since if self._wished_since is None else self._wished_since
        if job_id and not self._report(USE, self._use_schedule, lambda: self._ask_running(job_id)):
            # Who is refused today is refused for as long as the job runs.
            is_refused = any(error.message == OWNERS_ONLY for error in self._errors[USE])
            with self._lock:
                self._wished_use = self._wished_use or ("" if is_refused else job_id)

    def _ended_due_at(self) -> float:
        """When ended jobs may be asked for again, which a wish by hand brings nearer."""
        due_at = self._schedule.due_at
        if self._is_by_hand and self._retry_at is not None:
            return min(due_at, self._retry_at)
        return due_at

    def _report(
        self, what: str, schedule: Schedule, ask: Callable[[], tuple[SourceError, ...]]
    ) -> bool:
        """One question: its answer or its error, and when it may be asked again.

        Returns:
            Whether there was an answer.
        """
        is_answered = False
        started_at = self._clock.monotonic()
        try:
            self._errors[what] = ask()
        except CommandFailedError as failed:
            ended_at = self._clock.monotonic()
            schedule.failed(started_at, ended_at - started_at, ended_at)
            self._errors[what] = (explained(failed.error),)
        # An error of gpumon's own must not end the thread, and with it every later answer.
        except Exception as error:  # noqa: BLE001
            ended_at = self._clock.monotonic()
            schedule.failed(started_at, ended_at - started_at, ended_at)
            self._errors[what] = (fault(f"reading {what}", error),)
        else:
            ended_at = self._clock.monotonic()
            schedule.answered(started_at, ended_at - started_at, ended_at)
            is_answered = True
        if not self._stop:
            self._frames.append(self._frame())
            self._owed.discard(what)
            if self._wake is not None:
                self._wake()
        return is_answered

    def _ask_ended(self, since: float) -> tuple[SourceError, ...]:
        """Ask for ended jobs, store them; returns what is to be remarked."""
        asked_at = self._clock.now()
        window_s = min(max(asked_at - since, SHORTEST_WINDOW_S), MAX_WINDOW_S)
        found = self._ledger.ended(window_s)
        self._records = found.within(asked_at - window_s, asked_at)
        remarks = tuple(explained(remark) for remark in found.remarks)
        if found.unreadable:
            total = found.unreadable + len(found.jobs)
            remarks += (failures.unread(WHERE, "records", found.unreadable, total),)
        return remarks

    def _ask_running(self, job_id: str) -> tuple[SourceError, ...]:
        """Ask for one job's running steps, store them."""
        steps: dict[str, tuple[StepUsage, ...]] = {}
        for step in self._ledger.running(job_id):
            steps[step.job_id] = (*steps.get(step.job_id, ()), step)
        self._running = RunningUse(steps, self._clock.now())
        return ()

    def _run_if_wished(self) -> None:
        """Start the thread at the first wish of a source that was started."""
        if self._thread is None and self._wake is not None and self._owed:
            self._thread = threading.Thread(
                target=self.run, name=f"gpumon accounting {self._url}", daemon=True
            )
            self._thread.start()

    def _frame(self) -> Frame:
        errors = tuple(error for errors in self._errors.values() for error in errors)
        return Frame(
            origin=self._url,
            node="",
            taken_at=self._clock.now(),
            ended=EndedReport(self._records, errors, self._running),
        )


def explained(error: SourceError) -> SourceError:
    """The error in words about the accounting, where it is about that."""
    for pattern, meaning, hint in _KNOWN:
        if pattern.search(error.message):
            return SourceError(WHERE, meaning, hint)
    return SourceError(WHERE, f"{error.where} {error.message}", error.hint)


def is_unreached(error: SourceError) -> bool:
    """Whether it says that slurmdbd gives no answer."""
    return error.where == WHERE and error.message.startswith(UNREACHED)
