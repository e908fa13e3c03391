"""The monitor's end of a worker that goes late."""

from __future__ import annotations

import gc
import os
import subprocess
import threading

import pytest

from gpumon.detect.engine import worker_process

LONG_S = 60.0
"""Far beyond what any of these looks takes; a test that gets near it has failed."""


class Lingering(subprocess.Popen):
    """A child that is never gone in time, as a killed one on a busy machine."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.collected = threading.Event()

    def wait(self, timeout=None):
        if timeout is not None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        status = super().wait(LONG_S)
        self.collected.set()
        return status


def test_a_worker_that_outlives_its_kill_is_collected_all_the_same(monkeypatch):
    monkeypatch.setattr(worker_process.subprocess, "Popen", Lingering)
    one = worker_process.WorkerLink(budget_s=1.0, start_s=LONG_S)
    pid, collected = one._process.pid, one._process.collected
    one.close()
    del one
    gc.collect()
    assert collected.wait(LONG_S)
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
