"""`python -m tests.bench.first_screen [RUNS]`: when a fleet of 8,000 GPUs is first seen.

From the start of the command to the first text, to the first words of progress, and to the first
picture: of a simulated fleet, of a recording of it, and of the demo behind
two hours of past.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.shown import Rows, show
from tests.bench.terminal import ESCAPES, Terminal

GPUMON: Final = str(Path(sys.executable).parent / "gpumon")
FLEET: Final = "demo:1000x8"
RECORDED_S: Final = "6"
PATIENCE_S: Final = 15.0
SIZE: Final = (120, 40)
SHOWN: Final = "SM active"
"""What the map says below of the cell under the cursor: a fleet so large is opened on it."""

_PROGRESS: Final = re.compile(rb"\d %|\.\.\.|\xe2\x80\xa6")
"""A share, or dots behind what is waited for."""


class Watched(Terminal):
    """Notes, too, when something first tells of progress."""

    progress_s: float | None = None

    def _look(self, data: bytes, now_s: float) -> None:
        if self.progress_s is None and _PROGRESS.search(ESCAPES.sub(b"", data)):
            self.progress_s = now_s
        super()._look(data, now_s)


def measured(name: str, words: list[str], marker: str, runs: int) -> dict[str, object]:
    """A row of the table: medians, and the longest."""
    seen: list[Watched] = []
    for _ in range(runs):
        with Watched([GPUMON, *words], dict(os.environ), marker, SIZE) as terminal:
            terminal.wait_for_paint(PATIENCE_S)
        seen.append(terminal)
    return {
        "what": name,
        "first text s": _middle([one.paint_s for one in seen]),
        "progress s": _middle([one.progress_s for one in seen]),
        "picture s": _middle([one.marker_s for one in seen]),
        "longest s": max((one.marker_s or PATIENCE_S for one in seen), default=None),
    }


def _middle(seconds: list[float | None]) -> float | None:
    known = [one for one in seconds if one is not None]
    return median(known) if known else None


def main() -> int:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "fleet.gpumon.zst")
        words = [GPUMON, "record", file, FLEET, "--for", RECORDED_S]
        subprocess.run(words, check=False, capture_output=True)
        rows: Rows = [
            measured(FLEET, [FLEET], SHOWN, runs),
            measured("a recording of it", [file], SHOWN, runs),
            measured("demo --past 2h", ["demo", "--past", "2h"], "hangs since", runs),
        ]
    show(f"First picture, {SIZE[0]}x{SIZE[1]}, load {os.getloadavg()[0]:.1f}", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
