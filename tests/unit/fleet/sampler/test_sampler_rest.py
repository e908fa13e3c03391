"""Detectors of a machine on which nothing holds a GPU."""

from __future__ import annotations

from gpumon.fleet.sampler.need import Need
from gpumon.fleet.sampler.sampler import Sampler
from tests.unit.fleet.sampler.test_sampler import Clock, Judge, Script, gpu_frame


def test_detectors_rest_while_nothing_holds_a_gpu_and_look_once_something_does():
    clock = Clock()
    counts = [0.0, 0.0, 1.0, 1.0]
    frames = [
        gpu_frame("gpu01", 100.0 + at, "local", process_count=[count])
        for at, count in enumerate(counts)
    ]
    judge, ticks = Judge(), []
    judge.rests = 0
    judge.rest = lambda: setattr(judge, "rests", judge.rests + 1)
    judge.collect = lambda: judge.report() if judge.submitted else None
    sampler = Sampler(
        [Script("local", clock, frames)], clock, 1.0, judge=lambda: judge, need=Need()
    )

    def on_tick(tick):
        ticks.append(len(judge.submitted))
        if len(ticks) == 4:
            sampler.close()

    sampler._sample_until_closed(on_tick)
    assert (ticks, judge.rests) == ([0, 0, 1, 2], 2)
