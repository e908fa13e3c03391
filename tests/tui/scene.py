"""A real terminal session for test_terminal: `python scene.py MODE` on a pseudo-terminal."""

from __future__ import annotations

import sys
import threading

from gpumon.model.frame import SourceError
from gpumon.tui.terminal import run_terminal
from tests.ticks import fleet


class SceneFeed:
    """Hands over one tick, and misbehaves as told."""

    def __init__(self, mode):
        self.mode = mode
        self.failure = None

    def start(self, on_tick):
        if self.mode == "no start":
            raise ValueError("no [red]such\nthing")
        tick = fleet()
        if self.mode == "fail":
            self.failure = SourceError("gpumon", "gpumon itself failed sampling: X", "report")
        on_tick(tick._replace(jobs=(None,)) if self.mode == "crash" else tick)

    def wish(self, wish):
        pass

    def close(self):
        if self.mode == "hang":
            threading.Event().wait()
        if self.mode == "no close":
            raise OSError("cannot close")


if __name__ == "__main__":
    sys.exit(run_terminal(SceneFeed(sys.argv[1])))
