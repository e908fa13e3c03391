"""A real terminal session for test_terminal: `python scene.py MODE` on a pseudo-terminal."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import Queue

from textual.drivers import _writer_thread

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.fault import SourceError
from gpumon.sources.demo import DemoSource
from gpumon.sources.source import SystemClock
from gpumon.tui import terminal
from gpumon.tui.screens.lists.jobs import JobsView
from tests.worlds.probe import PATIENCE_S
from tests.worlds.tick import fleet

CRASHES = ("crash", "fail", "no paint", "no start", "sampler")


class SceneFeed:
    """Hands over one tick, and misbehaves as asked."""

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
        if self.mode == "busy":
            threading.Thread(target=draw_without_end, args=(tick, on_tick), daemon=True).start()

    def wish(self, wish):
        pass

    def close(self):
        if self.mode == "hang":
            threading.Event().wait()
        if self.mode == "no close":
            raise OSError("cannot close")


def draw_without_end(tick, on_tick):
    """Ticks that differ in every line, faster than any terminal needs them."""
    for number in itertools.count():
        jobs = tuple(
            view._replace(job=view.job._replace(name=f"picture-{number}")) for view in tick.jobs
        )
        on_tick(tick._replace(jobs=jobs, at=tick.at + number, number=number))
        time.sleep(0.01)


class BrokenSource(DemoSource):
    """Ends the sampler's thread, which no source is allowed to."""

    def pending(self):
        raise RuntimeError("broken")


class HangingSource(DemoSource):
    """Answers once, and then holds the sampler's thread for ever."""

    polls = 0

    def poll(self):
        self.polls += 1
        return super().poll() if self.polls < 4 else threading.Event().wait()


def sampled(source, judge=None):
    return Sampler([source], SystemClock(), 0.2, History, judge)


def hang(part, path):
    """In the place of `os.link`: says that it was called, and never returns."""
    Path(f"{path}.begun").touch()
    threading.Event().wait()


class StoppingQueue(Queue):
    """What is to be written; with the first screen, while it is locked, comes a signal to stop."""

    has_stopped = False

    def _put(self, text):
        super()._put(text)
        if "4711" in (text or "") and not self.has_stopped:
            StoppingQueue.has_stopped = True
            os.kill(os.getpid(), signal.SIGTSTP)


def feed_of(mode):
    if mode == "sampler":
        return sampled(BrokenSource("demo", 1, 2, 1, SystemClock(), 0.2))
    if mode == "hung sampler":
        return sampled(HangingSource("demo", 1, 2, 1, SystemClock(), 0.2))
    if mode == "worker":
        return sampled(DemoSource("demo", 1, 2, 1, SystemClock(), 0.2), DetectionEngine)
    if mode == "hung export":
        os.link = hang
    if mode == "stop in a write":
        _writer_thread.Queue = StoppingQueue
    if mode == "no paint":
        JobsView.compose = lambda _view: [][0]
    return SceneFeed(mode)


if __name__ == "__main__":
    if sys.argv[1] in CRASHES:
        # On a busy machine the screen's own end takes longer than users are to wait for it.
        terminal.LEAVE_S = PATIENCE_S
    sys.exit(terminal.run_terminal(feed_of(sys.argv[1])))
