"""Target `local`: this machine, through a probe in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.sources.pool import ProbePool
from gpumon.sources.program import LOCAL_START, local_program
from gpumon.sources.stream import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.frame import Frame
    from gpumon.sources.source import Clock, Wish


def _explain(code: int | None, words: str) -> tuple[str, str]:
    last = words.splitlines()[-1] if words else "no word of why"
    return f"the probe ended ({code}): {last}", "run gpumon doctor"


class LocalSource:
    """Reads this machine's GPUs and processes."""

    def __init__(self, period_s: float, clock: Clock, once: bool = False) -> None:
        """Nothing runs before `start`; `once` takes a single report."""
        self.url = "local"
        endpoint = Endpoint("", LOCAL_START, local_program, _explain)
        self._pool = ProbePool(self.url, [endpoint], period_s, clock, once)

    def start(self, wake: Callable[[], None]) -> None:
        """Start the probe."""
        self._pool.start(wake)

    def poll(self) -> list[Frame]:
        """Frames that arrived since the last poll."""
        return self._pool.poll()

    def pending(self) -> bool:
        """Whether the first report is still to come."""
        return self._pool.pending()

    def wish(self, wish: Wish) -> None:
        """Take a new period."""
        self._pool.wish(wish)

    def close(self) -> None:
        """End the probe."""
        self._pool.close()
