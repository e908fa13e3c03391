"""Time that passes only where a caller waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading


class Hasty:
    """A clock whose waits take no time."""

    def __init__(self, start: float) -> None:
        self.start = self.time = start

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - self.start

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.time += max(0.0, seconds)
        return event.is_set()
