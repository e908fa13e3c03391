"""What a recording costs: bytes per GPU and day, time per frame, time to seek.

`python -m tests.bench.recording [SECONDS]`: so much of the demo fleet, an hour unless told.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumon.fleet.replay.feed import playback_at
from gpumon.sources.demo import DemoSource
from gpumon.sources.recording.source import Recording
from gpumon.sources.recording.write import RecordingWriter

if TYPE_CHECKING:
    import threading

    from gpumon.model.records.frame import Frame

NODES, GPUS = 6, 8
START = 1_767_225_600.0


class _Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.time += seconds
        return event.is_set()


def measure(name: str, span_s: int, period_s: float) -> dict[str, Any]:
    """The demo fleet recorded for so long under a file name; a row for the table."""
    clock = _Clock()
    source = DemoSource("demo", NODES, GPUS, 1, clock, period_s)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        writer = RecordingWriter(path, START, period_s, ["demo"])
        spent_s, count = 0.0, 0
        for beat in range(int(span_s / period_s)):
            clock.time = START + beat * period_s
            frames: list[Frame] = source.poll()
            count += len(frames)
            begin = time.perf_counter()
            writer.frames(frames)
            writer.end_tick(clock.time, period_s)
            spent_s += time.perf_counter() - begin
        writer.close()
        begin = time.perf_counter()
        recording = Recording(path)
        span = recording.span
        opened_s = time.perf_counter() - begin
        begin = time.perf_counter()
        read = sum(len(beat.frames) for beat in playback_at(recording, span.end).by_tick())
        seek_s = time.perf_counter() - begin
        return {
            "file": f"{name}, a beat every {period_s:g} s",
            "MB per GPU-day": writer.size_bytes / span_s / NODES / GPUS * 86400 / 1e6,
            "write ms/frame": spent_s / count * 1e3,
            "open ms": opened_s * 1e3,
            "read for a seek s": seek_s,
            "frames": read,
        }


def rows(span_s: int = 3600) -> list[dict[str, Any]]:
    """Plain and compressed, at one and at ten seconds."""
    return [
        measure(name, span_s, period_s)
        for name in ("plain.gpumon", "zstd.gpumon.zst")
        for period_s in (1.0, 10.0)
    ]


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 3600):
        print(row, flush=True)
