"""Patterns in what nobody explains, found while somebody looks; nobody waits for them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import shortage
from gpumon.model.records.pattern import LEAST_USUAL, Patterns
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.learning.grouping import Grouping
    from gpumon.detect.learning.named import Named
    from gpumon.detect.learning.unexplained import Gathered, Gatherer
    from gpumon.model.records.tick import Tick

    Change = Callable[[tuple[Named, ...]], tuple[Named, ...]]

TAKEN_EVERY_S: Final = 300.0
"""A tick is taken so often: features change little in less."""

GROUPED_EVERY_S: Final = 900.0
"""Jobs are grouped so often: a quarter of an hour makes one of them a job to be grouped."""

MOST_JOBS: Final = 10_000
"""Jobs of either kind that are remembered; beyond, those that were looked at longest ago go."""

MOST_SAMPLED: Final = 256
"""Jobs with unexplained time whose features are made each time, those with the most of it: among
10,000 jobs 1.5 s of CPU beside the screen, of which 2,000 such jobs made five."""


class Discovery:
    """Gathers jobs from ticks on a thread, has them grouped, and keeps their names.

    What it needs for that is imported on its thread: the first frame on screen is not for it.
    """

    def __init__(
        self,
        owner: str,
        renew: Callable[[], None] = lambda: None,
        names: Path | None = None,
        grouping: Callable[[Gathered], Grouping] | None = None,
        now: Callable[[], float] = time.time,
        *,
        is_real: bool = True,
    ) -> None:
        """Begin nothing yet.

        Args:
            owner: Who gives names.
            renew: Called when names have changed: who looks for them has to read them again.
            names: The file of names; None: this user's own.
            grouping: Groups jobs; None: in a process of its own.
            now: Unix time at which a name is given.
            is_real: Whether these jobs are there: patterns of simulated ones get no name.
        """
        self._is_real = is_real
        self._owner = owner
        self._renew = renew
        self._names = names
        self._make = grouping
        self._now = now
        self._gatherer: Gatherer | None = None
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: Tick | None = None
        self._taken_at = self._taken_in_at = self._grouped_at = self._since = float("-inf")
        self._grouping: Grouping | None = None
        self._is_idle = True
        self._is_closed = False
        self._found: Patterns | None = None
        self._features: dict[str, Floats] = {}
        # Held by whoever changes what was found, never by the thread of the screen.
        self._naming = threading.Lock()

    @property
    def found(self) -> Patterns | None:
        """The newest patterns; None: no job has had a quarter of an hour of unexplained time."""
        return self._found

    def take(self, tick: Tick) -> None:
        """A tick; most are passed over, and no thread of the caller's is held up."""
        is_soon = 0.0 <= tick.at - self._taken_at < TAKEN_EVERY_S
        if tick.history is None or tick.ledger is None or is_soon:
            return
        # Without jobs nothing is unexplained, and of few GPUs nobody learns what is usual: what
        # looks is not even imported on a machine without a queue.
        if self._thread is None and not tick.jobs and len(tick.gpus) < LEAST_USUAL:
            return
        self._taken_at = tick.at
        with self._state:
            if self._is_closed:
                return
            self._waiting = tick
            if self._thread is None:
                self._since = tick.at
                self._thread = threading.Thread(target=self._run, name="patterns", daemon=True)
                self._thread.start()
            self._state.notify_all()

    def settle(self, wait_s: float) -> bool:
        """Wait until all ticks were looked at, at most so long; False: they were not."""
        with self._state:
            return self._state.wait_for(lambda: self._is_idle and self._waiting is None, wait_s)

    def close(self) -> None:
        """End what is under way; waits for nothing."""
        with self._state:
            self._is_closed = True
            if self._grouping is not None:
                self._grouping.end()
            self._state.notify_all()

    def name(self, number: int, name: str) -> str:
        """Call a card so from now on; returns what came of it, in words.

        Args:
            number: The card's place among those found, from 1 on.
            name: What a class may be called.
        """
        if not self._is_real:
            return "these jobs are simulated: their patterns cannot be named"
        cards = self._found.numbered if self._found is not None else ()
        if not 1 <= number <= len(cards):
            there = f"there are {len(cards)}" if cards else "none has been found so far"
            return f"there is no pattern {number}: {there}"
        card = cards[number - 1]
        from gpumon.detect.learning.named import Named, with_name

        one = Named(
            name=name, version=0, owner=self._owner, at=self._now(), traits=card.traits,
            jobs=len(card.jobs), gpu_seconds=card.gpu_seconds,
            exemplar=card.exemplar,
        )  # fmt: skip
        return self._changed(lambda versions: with_name(versions, one))

    def unname(self, name: str) -> str:
        """Take back the newest version of a name; returns what came of it, in words."""
        from gpumon.detect.learning.named import without_newest

        return self._changed(lambda versions: without_newest(versions, name))

    def _changed(self, change: Change) -> str:
        from gpumon.detect.learning.json_file import FileError, answer_in_time
        from gpumon.detect.learning.named import NamedError, names_rewritten, own_patterns

        path = own_patterns() if self._names is None else self._names
        try:
            before, after = answer_in_time(path, lambda: names_rewritten(path, change))
        except (NamedError, FileError) as error:
            return plain(str(error))
        self._renew()
        with self._naming:
            self._show_names(after)
        added = [one for one in after if one not in before]
        if added:
            name, version = added[0].name, added[0].version
            return f"named: {name}, version {version}; it is looked for from now on"
        gone = next(one for one in before if one not in after)
        is_left = any(one.name == gone.name for one in after)
        rest = (
            f"version {gone.version - 1} counts again"
            if is_left
            else ("no pattern has this name now")
        )
        return f"removed: {gone.name}, version {gone.version}; {rest}"

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._waiting is not None or self._is_closed)
                tick, self._waiting = self._waiting, None
                self._is_idle = False
                if self._is_closed or tick is None:
                    return
            try:
                self._take_in(tick)
            # Whatever else fails must not end the thread unseen: it is told where patterns are.
            except Exception as error:  # noqa: BLE001
                words, _ = shortage(error) or (f"{type(error).__name__}: {error}", "")
                self._fail(tick.at, plain(words))
            with self._state:
                self._is_idle = True
                self._state.notify_all()

    def _take_in(self, tick: Tick) -> None:
        from gpumon.detect.learning.grouping import Grouping, GroupingError
        from gpumon.detect.learning.unexplained import Gatherer

        gatherer = self._gatherer = self._gatherer or Gatherer(MOST_SAMPLED)
        if tick.at < self._taken_in_at:
            # The clock was set back: what was booked since is not known, and its jobs are others.
            gatherer.begin()
            self._grouped_at = float("-inf")
        self._taken_in_at = tick.at
        gatherer.take(tick)
        gatherer.forget(MOST_JOBS)
        gathered = gatherer.gathered()
        is_enough = gathered.unexplained or len(gathered.others) >= LEAST_USUAL
        if not is_enough or tick.at < self._grouped_at + GROUPED_EVERY_S:
            return
        self._grouped_at = tick.at
        with self._state:
            self._grouping = grouping = (self._make or Grouping)(gathered)
            if self._is_closed:
                grouping.end()
        try:
            grouped = grouping.done()
        except GroupingError as error:
            self._fail(tick.at, plain(str(error)))
            return
        with self._naming:
            known = (*gathered.others, *gathered.unexplained)
            self._features = {job.job_id: job.features for job in known}
            self._found = Patterns(
                at=tick.at, since=self._since, cards=grouped.cards, single=grouped.single,
                unexplained_s=gathered.unexplained_s,
                allocated_s=gathered.allocated_s, odd=grouped.odd,
            )  # fmt: skip
            self._show_names(self._stored_names())

    def _stored_names(self) -> tuple[Named, ...]:
        """All versions on disk; none where they cannot be read, which who looks for them tells."""
        from gpumon.detect.learning.json_file import FileError, answer_in_time
        from gpumon.detect.learning.named import NamedError, own_patterns, read_named

        if not self._is_real:
            return ()
        path = own_patterns() if self._names is None else self._names
        try:
            return answer_in_time(path, lambda: read_named(path))
        except (NamedError, FileError):
            return ()

    def _show_names(self, versions: tuple[Named, ...]) -> None:
        """Write on each card what its pattern is called."""
        from gpumon.detect.learning.named import names_of, newest

        found, named = self._found, newest(versions)
        if found is not None:
            cards, odd = (
                tuple(card._replace(names=names_of(card, self._features, named)) for card in some)
                for some in (found.cards, found.odd)
            )
            self._found = found._replace(cards=cards, odd=odd)

    def _fail(self, at: float, why: str) -> None:
        with self._naming:
            before = self._found or Patterns(
                at=at, since=self._since, cards=(), single=(), unexplained_s=0.0, allocated_s=0.0
            )
            self._found = before._replace(trouble=why)
