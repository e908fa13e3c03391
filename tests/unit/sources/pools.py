"""A pool of probes under test: its clock stands still, and every frame of it is kept."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gpumon.sources.probes.pool import ProbePool
from tests.worlds.probe import HELLO, REPORT, eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.frame import Frame
    from gpumon.sources.probes.stream import Endpoint

LIVE = f"{HELLO} {REPORT} 1; exec sleep 600"


def others_have_ended() -> None:
    """Wait for the threads of earlier tests' pools, which close what they have open."""
    left = threading.enumerate
    eventually(lambda: not any(one.name.startswith("probes ") for one in left()), "they end")


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return 1_760_000_000.0 + self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, seconds: float) -> bool:
        raise AssertionError("a pool never waits in the caller's thread")


class Run:
    """A running pool, its clock, and every frame that came out of it."""

    def __init__(self, endpoints: Sequence[Endpoint], once: bool) -> None:
        self.clock = Clock()
        self.pool = ProbePool("ssh://n", endpoints, 1.0, self.clock, once)
        self.seen: list[Frame] = []
        self.wakes = 0

    def start(self) -> None:
        def wake() -> None:
            self.wakes += 1

        self.pool.start(wake)

    def close(self) -> None:
        """End every probe, and wait until nothing of the pool is left for the next test."""
        self.pool.close()
        eventually(lambda: not self.pool._thread.is_alive(), "the pool's thread has ended")

    def frames(self, node: str = "n1") -> list[Frame]:
        self.seen += self.pool.poll()
        return [frame for frame in self.seen if frame.node == node]

    def errors(self, node: str = "n1") -> list[str]:
        return [error.message for frame in self.frames(node) for error in frame.errors]

    def turn(self) -> None:
        """Let the pool look at everything once: the second order is taken after a full round."""
        for _ in range(2):
            self.pool.replace([slot.endpoint for slot in list(self.pool._slots.values())])
            eventually(lambda: self.pool._wanted is None, "the pool takes orders")

    def settle(self) -> None:
        eventually(lambda: not self.pool.pending(), "every node reports or fails")
