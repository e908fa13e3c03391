"""A day of the terminal in one go: what a day's pictures leave behind in memory.

`python -m tests.bench.day [HOURS] [NODESxGPUS]`: the demo's fleet through sampler, history,
detection, books, tape and a headless terminal, one picture a second on an invented clock, while
somebody walks through the views. It prints the memory of every hour.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import psutil
from textual.events import Key

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.ledger.journal import JournalFile
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.records.ledger import NO_PRICES
from gpumon.sources.demo import DemoSource
from gpumon.tui.app import GpumonApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

    from gpumon.fleet.sampler.protocols import Detection
    from gpumon.model.finding import DetectionReport

START_AT: Final = 1_760_000_000.0
HOUR: Final = 3600
SIZE: Final = (120, 40)
KEY_EVERY: Final = 5
"""Pictures between two keys."""

JUDGED_S: Final = 600.0
"""Longer than any look takes before its worker is given up."""

MOST_BEHIND: Final = 10
"""Pictures that pass while one is judged: ten seconds of a real day."""

TOUR: Final = (
    *("1", "j", "j", "enter", "j", "s", "v", "w", "escape", "x", "j", "escape"),
    *("tab", "z", "s", "w", "c", "i", "escape", "tab", "c", "right", "tab", "escape"),
    *("2", "S", "pagedown", "enter", "G", "v", "escape", "o", "right_square_bracket"),
    *("escape", "escape", "9", "c", "b", "z", "right", "down", "enter", "escape", "0", "Z"),
    *("3", "4", "5", "enter", "escape", "6", "7", "8", "slash", "a", "escape", "1"),
    *("f", "enter", "a", "f", "escape", "escape", "e", "G", "escape", "question_mark", "escape"),
    *("comma", "comma", "left_curly_bracket", "L", "t", "p", "enter", "p", "escape", "S", "0"),
)
"""What somebody presses, from view to view, again and again."""


class SteppedClock:
    """Stands until the next picture is wanted, then is at its time."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._turn = threading.Semaphore(0)
        self._reached = threading.Semaphore(0)

    def now(self) -> float:
        """Unix time."""
        return START_AT + self._elapsed_s

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self._elapsed_s

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Whether the event was set by the time that the next picture is wanted."""
        self._reached.release()
        self._turn.acquire()
        self._elapsed_s += max(0.0, seconds)
        return event.is_set()

    def step(self) -> None:
        """Have the next picture made, and return once it is."""
        self._turn.release()
        self._reached.acquire()

    def begin(self) -> None:
        """Return once the first picture is made."""
        self._reached.acquire()

    def release(self) -> None:
        """Stand in nobody's way any more."""
        self._turn.release(1_000)


class PatientEngine(DetectionEngine):
    """Is waited for where it falls behind: a picture that is judged keeps its history mapped.

    An hour passes here in less than a minute, in which a busy machine hardly gets to the worker.
    """

    _behind = 0

    def collect(self) -> DetectionReport | None:
        """The newest report, waited for where many pictures have passed since."""
        self._behind += 1
        if self._behind > MOST_BEHIND:
            with self._state:
                self._state.wait_for(lambda: not self._is_busy, JUDGED_S)
        report = super().collect()
        if report is not None:
            self._behind = 0
        return report


class Memory(NamedTuple):
    """What is held at one instant."""

    rss_bytes: int
    uss_bytes: int
    """What nobody else holds, too."""
    block_count: int
    """Allocated blocks of the interpreter."""
    worker_bytes: int
    """Of the detection worker."""


def memory() -> Memory:
    """What is held once everything dead is gone."""
    gc.collect()
    process = psutil.Process()
    held = process.memory_full_info()
    workers = sum(child.memory_info().rss for child in process.children(recursive=True))
    return Memory(held.rss, held.uss, sys.getallocatedblocks(), workers)


class Day:
    """A terminal whose time passes picture by picture."""

    def __init__(
        self,
        nodes: int,
        gpus_per_node: int,
        folder: Path,
        judge: Callable[[], Detection] | None = PatientEngine,
        period_s: float = 1.0,
        key_every: int = KEY_EVERY,
        tour: tuple[str, ...] = TOUR,
    ) -> None:
        self.clock = SteppedClock()
        self._key_every = key_every
        self._tour = tour
        source = DemoSource("demo", nodes, gpus_per_node, 1, self.clock, period_s)
        self.history = History()
        self.sampler = Sampler(
            [source],
            self.clock,
            period_s,
            lambda: self.history,
            judge,
            open_ledger=lambda: Ledger(NO_PRICES, JournalFile(folder)),
        )
        self.app = GpumonApp(self.sampler, "demo", monotonic=self.clock.monotonic)
        self.seen: Counter[str] = Counter()
        """Pictures drawn, by view."""

    async def pictures(self, count: int) -> AsyncIterator[int]:
        """Make and draw so many; gives the number of each once it is drawn."""
        async with self.app.run_test(size=SIZE) as pilot:
            await settle(pilot)
            await asyncio.to_thread(self.clock.begin)
            for number in range(count):
                await asyncio.to_thread(self.clock.step)
                if number % self._key_every == self._key_every - 1:
                    self._press(self._tour[number // self._key_every % len(self._tour)])
                await settle(pilot)
                self.app.screen._compositor.render_strips()
                self.seen[type(self.app.screen).__name__] += 1
                yield number
            self.clock.release()
            self.sampler.close()

    def _press(self, key: str) -> None:
        driver = self.app._driver
        assert driver is not None
        event = Key(key, key if len(key) == 1 else None)
        event.set_sender(self.app)
        driver.send_message(event)


async def settle(pilot: Pilot[int]) -> None:
    """Until what has come is drawn, and what that sets off, too."""
    for _ in range(4):
        await pilot._wait_for_screen()
    pilot.app.screen._on_timer_update()


async def run(hours: float, nodes: int, gpus: int) -> None:
    """Live through the hours and print them."""
    held: dict[int, list[Memory]] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        day = Day(nodes, gpus, Path(folder))
        async for number in day.pictures(round(hours * HOUR)):
            if number % (HOUR // 6) == HOUR // 6 - 1:
                hour = number // HOUR + 1
                held.setdefault(hour, []).append(memory())
            if number % HOUR == HOUR - 1:
                _tell(number // HOUR + 1, held, day, time.monotonic() - begun)
    for view, count in day.seen.most_common():
        print(f"{view} {count}", end="  ")
    print()


def _tell(hour: int, held: dict[int, list[Memory]], day: Day, took_s: float) -> None:
    most = Memory(*map(max, zip(*held[hour], strict=True)))
    reference = Memory(*map(max, zip(*held[min(2, hour)], strict=True)))
    ratios = " ".join(f"{a / b:.3f}" for a, b in zip(most, reference, strict=True) if b)
    print(
        f"hour {hour:2}: rss {most.rss_bytes / 2**20:.1f} MiB, uss {most.uss_bytes / 2**20:.1f}, "
        f"{most.block_count:,} blocks, worker {most.worker_bytes / 2**20:.1f} MiB; "
        f"history {day.history.used_bytes / 2**20:.1f} MiB, "
        f"tape {len(day.app.travel.tape)} pictures; ratios {ratios}; {took_s:.0f} s",  # type: ignore[attr-defined]
        flush=True,
    )


def main() -> None:
    """Run and print."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0
    nodes, _, gpus = (sys.argv[2] if len(sys.argv) > 2 else "2x4").partition("x")
    asyncio.run(run(hours, int(nodes), int(gpus)))


if __name__ == "__main__":
    main()
