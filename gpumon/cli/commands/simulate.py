"""`gpumon simulate`: a recording of the simulated fleet, with labels of what is true."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.cli.exits import DONE, NOTHING_READ, USAGE, narrate
from gpumon.cli.options import Parser, period
from gpumon.cli.quantities import duration, fleet, instant
from gpumon.report.text import units
from gpumon.simulate.world.mix import WORLD
from gpumon.sources.address import DEMO_SIZE
from gpumon.sources.demo import DemoSource
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.labels import write_labels
from gpumon.sources.recording.write import RecordingWriter

if TYPE_CHECKING:
    import threading
    from argparse import Namespace
    from collections.abc import Iterator

    from gpumon.simulate.cluster.mix import Mix

BEGIN: Final = 1_767_225_600.0
"""2026-01-01 00:00 UTC: one seed gives one recording, whenever it is made."""


_TROUBLED_S: Final = 3600.0
"""Jobs come into trouble within the first hour, however long the recording is."""


_FOR_S: Final = 3600.0
_PERIOD_S: Final = 1.0
"""Length and beat of the demo's simulation unless they are told."""


class Fleet(NamedTuple):
    """What is simulated."""

    nodes: int
    gpus: int
    """Of each node."""
    seed: int
    start: float
    """Unix time."""
    for_s: float
    period_s: float


class _Clock:
    """Time that somebody sets."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.time += max(0.0, seconds)
        return event.is_set()


def parser() -> Parser:
    """What the command understands."""
    made = Parser(prog="gpumon simulate", description="Record the simulated fleet, with labels.")
    made.add_argument("file", metavar="FILE", help="recording to write (.zst: compressed)")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="which fleet (default 1)")
    made.add_argument("--for", dest="for_s", type=duration, metavar="TIME", help="default 1h")
    made.add_argument("--nodes", type=fleet, metavar="NODESxGPUS", help="default 10x8")
    made.add_argument(
        "--period", type=period, metavar="SECONDS", help="time between two samples, default 1"
    )
    made.add_argument(
        "--start", type=instant, default=BEGIN, metavar="TIME", help="default 2026-01-01"
    )
    made.add_argument(
        "--shift",
        action="store_true",
        help="use another generator, with other boards, periods, jobs and noise, to test what was "
        "tuned on the first; size, length and period are random unless given",
    )
    made.add_argument("--force", action="store_true", help="replace a recording")
    return made


def simulate(words: list[str]) -> int:
    """Exit code of the command."""
    made = parser()
    options = made.parse_args(words)
    if isinstance(options.start, str) or not 0 <= options.seed < 10**18:
        made.error("--start is a time, --seed a number from 0")
    path = Path(options.file)
    try:
        for_s, count = _shifted(options, path) if options.shift else _usual(options, path)
    except RecordingError as error:
        narrate(str(error))
        return USAGE
    except OSError as error:
        narrate(
            f"{path} was not written: {error.strerror}; name a place with room where you may write"
        )
        return NOTHING_READ
    narrate(f"simulated {units.seconds(for_s)} in {path}, {count} labels beside it")
    return DONE


def _usual(options: Namespace, path: Path) -> tuple[float, int]:
    """Length of what was written, seconds, and number of labels, by the demo's simulation."""
    nodes, gpus = options.nodes or DEMO_SIZE
    for_s, period_s = options.for_s or _FOR_S, options.period or _PERIOD_S
    made_of = Fleet(
        nodes=nodes,
        gpus=gpus,
        seed=options.seed,
        start=options.start,
        for_s=for_s,
        period_s=period_s,
    )
    return for_s, write_fleet(made_of, path, is_forced=options.force)


def _shifted(options: Namespace, path: Path) -> tuple[float, int]:
    """The same by the other generator."""
    from gpumon.simulate.shifted.fleet import planned
    from gpumon.simulate.shifted.recording import ShiftedFleet

    plan = planned(options.seed, options.start, options.for_s, options.period, options.nodes)
    made = ShiftedFleet(plan)
    writer = RecordingWriter(
        path, plan.start, plan.period_s, [made.origin], is_forced=options.force
    )
    with _whole(writer):
        for at, frames in made.samples():
            writer.frames(frames)
            writer.end_tick(at, plan.period_s)
        writer.close()
        labels = made.labels()
        write_labels(path, labels)
    return plan.for_s, len(labels)


@contextlib.contextmanager
def _whole(writer: RecordingWriter) -> Iterator[None]:
    """Leave no recording that ends early: nothing in it says that there was to be more."""
    with contextlib.ExitStack() as undo:
        undo.callback(writer.path.unlink, missing_ok=True)
        undo.callback(writer.abandon)
        yield
        undo.pop_all()


def write_fleet(made_of: Fleet, path: Path, *, is_forced: bool, mix: Mix = WORLD) -> int:
    """Number of labels written beside the recording."""
    nodes, gpus, seed, start, for_s, period_s = made_of
    clock = _Clock(start)
    url = f"demo:{nodes}x{gpus}?seed={seed}"
    source = DemoSource(url, nodes, gpus, seed, clock, period_s, _TROUBLED_S, mix)
    writer = RecordingWriter(path, clock.time, period_s, [url], is_forced=is_forced)
    with _whole(writer):
        steps = int(for_s / period_s)
        for step in range(steps + 1):
            clock.time = start + step * period_s
            writer.frames(source.poll())
            writer.end_tick(clock.time, period_s)
        writer.close()
        labels = source.labels(clock.time)
        write_labels(path, labels)
    return len(labels)
