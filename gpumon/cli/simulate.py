"""`gpumon simulate`: a recording of the simulated fleet, with labels of what is true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.cli.exits import DONE, NOTHING_READ, USAGE, narrate
from gpumon.cli.options import Parser, period
from gpumon.cli.quantities import duration, fleet, instant
from gpumon.sources.address import DEMO_SIZE
from gpumon.sources.demo import DemoSource
from gpumon.sources.recording_decode import RecordingError
from gpumon.sources.recording_labels import write_labels
from gpumon.sources.recording_write import RecordingWriter

if TYPE_CHECKING:
    import argparse
    import threading

BEGIN: Final = 1_767_225_600.0
"""2026-01-01 00:00 UTC: one seed gives one recording, whenever it is made."""


_TROUBLED_S: Final = 3600.0
"""Jobs come into trouble within the first hour, however long the recording is."""


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


def simulate(words: list[str]) -> int:
    """Exit code of the command."""
    made = Parser(prog="gpumon simulate", description="Record the simulated fleet, with labels.")
    made.add_argument("file", metavar="FILE", help="recording to write (.zst: compressed)")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="which fleet (default 1)")
    made.add_argument(
        "--for", dest="for_s", type=duration, default=3600.0, metavar="TIME", help="default 1h"
    )
    made.add_argument(
        "--nodes", type=fleet, default=DEMO_SIZE, metavar="NODESxGPUS", help="default 10x8"
    )
    made.add_argument("--period", type=period, default=1.0, metavar="SECONDS", help="beat")
    made.add_argument(
        "--start", type=instant, default=BEGIN, metavar="TIME", help="default 2026-01-01"
    )
    made.add_argument("--force", action="store_true", help="replace a recording")
    options = made.parse_args(words)
    if isinstance(options.start, str) or not 0 <= options.seed < 10**18:
        made.error("--start is a time, --seed a number from 0")
    try:
        count = _write(options)
    except RecordingError as error:
        narrate(str(error))
        return USAGE
    except OSError as error:
        narrate(f"{options.file}: {error.strerror}")
        return NOTHING_READ
    narrate(f"simulated {options.for_s:.0f} s in {options.file}, {count} labels beside it")
    return DONE


def _write(options: argparse.Namespace) -> int:
    """Number of labels written beside the recording."""
    path, (nodes, gpus) = Path(options.file), options.nodes
    clock = _Clock(options.start)
    url = f"demo:{nodes}x{gpus}?seed={options.seed}"
    source = DemoSource(url, nodes, gpus, options.seed, clock, options.period, _TROUBLED_S)
    writer = RecordingWriter(path, clock.time, options.period, [url], is_forced=options.force)
    try:
        beats = int(options.for_s / options.period)
        for beat in range(beats + 1):
            clock.time = options.start + beat * options.period
            writer.frames(source.poll())
            writer.beat(clock.time, options.period)
    finally:
        writer.close()
    labels = source.labels(clock.time)
    write_labels(path, labels)
    return len(labels)
