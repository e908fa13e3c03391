"""A past that comes while it is sampled."""

from __future__ import annotations

from gpumon.fleet.sampler.sampler import Sampler
from tests.unit.fleet.factories import frame, gpu_block
from tests.unit.fleet.sampler.test_sampler import Clock, Past, Script


def test_a_past_that_is_told_later_says_since_when_all_is_known():
    clock, past = Clock(), Past()
    source = Script("a", clock, [frame("n1", {"gpu": gpu_block("n1", [0])}, 100.0, "a")])
    sampler = Sampler([source], clock, 1.0, lambda: past)
    sampler._open()
    sampler._take()
    assert sampler.tick(0.0).observed_since == 100.0
    # A memory begins with its first picture, which is later than the first frame.
    past.begins_at = 101.0
    assert sampler.tick(0.0).observed_since == 100.0
    past.begins_at = 40.0
    assert sampler.tick(0.0).observed_since == 40.0
    past.begins_at = 90.0
    assert sampler.tick(0.0).observed_since == 40.0
