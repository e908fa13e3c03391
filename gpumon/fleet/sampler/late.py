"""A sampler that is made when it begins: the first picture waits for nothing that it imports."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gpumon.fleet.sampler.protocols import CLOSE_WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.sampler.sampler import Sampler
    from gpumon.model.fault import SourceError
    from gpumon.model.records.tick import Tick
    from gpumon.sources.source import Wish


class LateSampler:
    """Stands for a sampler from before it is there."""

    def __init__(
        self, make: Callable[[], Sampler], give_up: Callable[[], None] = lambda: None
    ) -> None:
        """Nothing is imported or made before `start`.

        Args:
            make: Makes it, on a thread of its own.
            give_up: Frees what has begun already, where it is never made.
        """
        self._make = make
        self._give_up = give_up
        self._made: Sampler | None = None
        self._wishes: list[Wish] = []
        """What was wished for before it was there."""
        self._state = threading.Lock()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._failure: SourceError | None = None

    @property
    def failure(self) -> SourceError | None:
        """Why there will be no tick any more; None: there will."""
        return self._made.failure if self._made is not None else self._failure

    @property
    def unwritten(self) -> SourceError | None:
        """Why the last of the books is not on disk; None: it is, or there is none."""
        return self._made.unwritten if self._made is not None else None

    def start(self, on_tick: Callable[[Tick], None]) -> None:
        """Make the sampler and have it publish its ticks, without waiting for either."""
        self._thread = threading.Thread(
            target=self._begin, args=(on_tick,), name="sampler-start", daemon=True
        )
        self._thread.start()

    def _begin(self, on_tick: Callable[[Tick], None]) -> None:
        try:
            sampler = self._make()
        # The last door of the thread: whoever waits for its ticks must hear that none will come.
        except Exception as error:  # noqa: BLE001
            self._give_up()
            from gpumon.model.fault import fault

            self._failure = fault("beginning to sample", error)
            return
        with self._state:
            if not self._is_closed:
                self._made = sampler
                for wish in self._wishes:
                    sampler.wish(wish)
                sampler.start(on_tick, shows_early=True)
                return
        sampler.close()

    def wish(self, wish: Wish) -> None:
        """Pass a wish on, as soon as there is somebody to take it."""
        with self._state:
            if self._made is None:
                self._wishes.append(wish)
                return
        self._made.wish(wish)

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding; False: it does not stand."""
        made = self._made
        return made is not None and made.acknowledge(identity, is_known=is_known)

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Have a class, a subject, or a class about a subject not told before a Unix time."""
        if self._made is not None:
            self._made.mute(until, finding_class, subject)

    def renew(self) -> None:
        """Have detectors loaded anew."""
        if self._made is not None:
            self._made.renew()

    def close(self) -> None:
        """End everything; one that is still being made ends as soon as it is there."""
        with self._state:
            self._is_closed = True
        if self._made is not None:
            self._made.close()
        elif self._thread is None:
            self._give_up()
        else:
            self._thread.join(CLOSE_WAIT_S)
