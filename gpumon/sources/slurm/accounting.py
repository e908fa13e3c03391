"""Asks Slurm's accounting when somebody wants to know, in a thread beside the queue's.

A slurmdbd that hangs holds its caller for a minute, so the queue must not wait behind it.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from gpumon.model.accounting import EndedReport
from gpumon.model.frame import Frame, SourceError
from gpumon.sources.slurm import failures
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.accounting import EndedJobs
    from gpumon.sources.slurm.sacct_usage import EndedList
    from gpumon.sources.source import Clock

PERIOD_S: Final = 60.0
"""Shortest time between two questions, however often they are wished for."""

SHORTEST_WINDOW_S: Final = 60.0

MAX_WINDOW_S: Final = 31 * 86400.0
"""Longest window: a database of millions of jobs needs minutes for more, and others wait."""

WHERE: Final = "accounting"

_CLOSE_S: Final = 0.4
_IDLE_S: Final = 3600.0
_MAX_FRAMES: Final = 4

_KNOWN: Final = (
    (
        re.compile(r"accounting storage is disabled|accounting_storage/none", re.IGNORECASE),
        "this cluster keeps no accounting (AccountingStorageType is none)",
        "only what the controller still remembers of ended jobs can be shown",
    ),
    (
        re.compile(r"database|slurmdbd|persist", re.IGNORECASE),
        "Slurm's accounting (slurmdbd) cannot be reached",
        "jobs and nodes need no slurmdbd and stay live; gpumon asks again, ever more seldom",
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

    def close(self) -> None:
        """Make a running question fail soon, from another thread."""
        ...


class Accounting:
    """Answers wishes for ended jobs, never oftener than the schedule allows."""

    def __init__(self, url: str, ledger: Ledger, clock: Clock) -> None:
        """Nothing runs before the first wish."""
        self._url = url
        self._ledger = ledger
        self._clock = clock
        self._schedule = Schedule(PERIOD_S)
        self._records: EndedJobs | None = None
        self._frames: deque[Frame] = deque(maxlen=_MAX_FRAMES)
        self._lock = threading.Lock()
        self._wished_since: float | None = None
        self._owed = False
        self._stop = False
        self._stir = threading.Event()
        self._wake: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Take note of whom to wake; a wish that came before is answered now."""
        with self._lock:
            self._wake = wake
            self._run_if_wished()

    def wish(self, since: float) -> None:
        """Ask for the jobs that ended since that Unix time, as soon as the schedule allows."""
        with self._lock:
            self._wished_since = since
            self._owed = self._owed or not self._frames
            self._run_if_wished()
        self._stir.set()

    def poll(self) -> list[Frame]:
        """Answers since the last poll, oldest first."""
        frames: list[Frame] = []
        while self._frames:
            frames.append(self._frames.popleft())
        return frames

    def pending(self) -> bool:
        """Whether the first wish has not been answered yet."""
        return self._owed

    def close(self) -> None:
        """End the thread and its question."""
        self._stop = True
        self._stir.set()
        self._ledger.close()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def run(self) -> None:
        """Answer wishes until the end: the body of the thread."""
        while not self._stop:
            self._stir.clear()
            wait_s = self.due_in_s()
            if wait_s > 0:
                self._clock.wait(self._stir, wait_s)
                continue
            self.answer()

    def due_in_s(self) -> float:
        """Seconds until the next question; not above 0: now."""
        with self._lock:
            if self._wished_since is None:
                return _IDLE_S
        return self._schedule.due_at - self._clock.monotonic()

    def answer(self) -> None:
        """Ask for what was wished last, and report what came of it."""
        with self._lock:
            since, self._wished_since = self._wished_since, None
        if since is None:
            return
        asked_at = self._clock.now()
        started_at = self._clock.monotonic()
        window_s = min(max(asked_at - since, SHORTEST_WINDOW_S), MAX_WINDOW_S)
        errors: tuple[SourceError, ...] = ()
        try:
            found = self._ledger.ended(window_s)
        except CommandFailedError as failed:
            ended_at = self._clock.monotonic()
            self._schedule.failed(started_at, ended_at - started_at, ended_at)
            errors = (explained(failed.error),)
        else:
            ended_at = self._clock.monotonic()
            self._schedule.answered(started_at, ended_at - started_at, ended_at)
            self._records = found.within(asked_at - window_s, asked_at)
            errors = tuple(explained(remark) for remark in found.remarks)
            if found.unreadable:
                total = found.unreadable + len(found.jobs)
                errors += (failures.unread(WHERE, "records", found.unreadable, total),)
        if self._stop:
            return
        self._frames.append(self._frame(EndedReport(self._records, errors)))
        self._owed = False
        if self._wake is not None:
            self._wake()

    def _run_if_wished(self) -> None:
        """Start the thread at the first wish of a source that was started."""
        if self._thread is None and self._wake is not None and self._wished_since is not None:
            self._thread = threading.Thread(
                target=self.run, name=f"gpumon accounting {self._url}", daemon=True
            )
            self._thread.start()

    def _frame(self, report: EndedReport) -> Frame:
        return Frame(
            origin=self._url,
            node="",
            taken_at=self._clock.now(),
            lateness_s=0.0,
            blocks={},
            ended=report,
        )


def explained(error: SourceError) -> SourceError:
    """The error in words about the accounting, where it is about that."""
    for pattern, meaning, hint in _KNOWN:
        if pattern.search(error.message):
            return SourceError(WHERE, meaning, hint)
    return SourceError(WHERE, f"{error.where} {error.message}", error.hint)
