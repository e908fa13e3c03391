"""The end of the sampler, which may come at any instant of its thread."""

from __future__ import annotations

import threading

import pytest

from gpumon.fleet.sampler.sampler import Sampler
from tests.unit.fleet.sampler.test_sampler import Clock, Script, gpu_frame


class Ending(threading.Event):
    """An event before whose clearing the end comes."""

    def clear(self):
        self.sampler.close()
        super().clear()


def test_an_end_just_before_the_wait_for_the_first_reports_is_not_slept_over():
    clock, arrived = Clock(), Ending()
    never = Script("ssh", clock, [gpu_frame("gpu01", 1e9)])
    arrived.sampler = Sampler([never], clock, 1.0, arrived=arrived)
    arrived.sampler.sample_for(5.0)
    assert clock.time == 100.0


def test_an_end_while_the_thread_is_being_started_is_no_error(monkeypatch):
    """Ctrl-C may come at any instruction of the start, as it does to who serves or records."""

    def interrupted(_thread):
        raise KeyboardInterrupt

    sampler = Sampler([], Clock(), 1.0, None, None)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sampler.start(lambda _tick: None)
    sampler.close()
