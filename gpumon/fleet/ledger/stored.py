"""The books on disk: what became of a span of time, beside the span of the same length before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from gpumon.fleet.ledger.journal_reader import Pages
from gpumon.fleet.ledger.totals import Adding
from gpumon.model.records.ledger import Compared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.fleet.ledger.journal_reader import Entry
    from gpumon.model.records.ledger import Prices

WEEK_S: Final = 7 * 86400.0
"""Jobs come and go by the week: one is compared with the one before it."""

RENEWED_S: Final = 600.0
"""What was read is read again after so long, where it is still looked at."""


def compared(
    pages: Pages, since: float, span_s: float, name_of: Callable[[Entry], str], prices: Prices
) -> Compared:
    """Totals of the entries since a Unix time, and of the span of this length before it.

    Raises:
        OSError: a file cannot be read.
    """
    newest, before = (Adding(name_of, prices) for _ in range(2))
    for entry in pages.entries(since - span_s):
        for adding, part in ((newest, entry.since(since)), (before, entry.until(since))):
            if part is not None:
                adding.add(part)
    return Compared(since, span_s, newest.added(), before.added())


class StoredLedger:
    """Reads the books of two weeks by user, on a thread of its own: a disk may hang."""

    def __init__(self, folder: Path, prices: Prices) -> None:
        """Nothing is read before somebody asks."""
        self._folder = folder
        self._prices = prices
        self._thread: threading.Thread | None = None
        self._asked_at = float("-inf")
        self.weeks: Compared | None = None
        """What was read last; None: nothing was."""
        self.trouble = ""
        """Why nothing could be read."""

    @property
    def is_reading(self) -> bool:
        """Whether what was asked for is still on its way."""
        return self._thread is not None and self._thread.is_alive()

    def ask(self, now: float) -> None:
        """Read the week that ends with a Unix time, if that was not done lately; never waits."""
        if self.is_reading or now - self._asked_at < RENEWED_S:
            return
        self._asked_at = now
        self._thread = threading.Thread(
            target=self._read, args=(now,), name="gpumon-stored-ledger", daemon=True
        )
        self._thread.start()

    def _read(self, now: float) -> None:
        pages = Pages(self._folder)
        try:
            if not pages.files():
                self.trouble = f"no ledger in {self._folder} yet: the first come after five minutes"
                return
            found = compared(pages, now - WEEK_S, WEEK_S, lambda entry: entry.user, self._prices)
        except OSError as error:
            self.trouble = f"{error.filename or self._folder}: {error.strerror}"
            return
        self.weeks, self.trouble = found, ""
