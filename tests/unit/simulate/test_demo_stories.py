"""The demo shows every story that a rule knows: each is found in two hours of its past."""

from __future__ import annotations

import threading

import pytest

from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.demo import DemoSource
from gpumon_detectors.hardware.fabric_degraded import FabricDegraded
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle
from gpumon_detectors.placement.nic_misplaced import NicMisplaced
from gpumon_detectors.placement.numa_misplaced import NumaMisplaced
from gpumon_detectors.ranks.hang import Hang
from gpumon_detectors.ranks.straggler import Straggler
from gpumon_detectors.requests.oversized_gpu import OversizedGpu
from gpumon_detectors.waits.checkpoint_stall import CheckpointStall
from gpumon_detectors.waits.input_bound import InputBound
from gpumon_detectors.work.no_tensor_cores import NoTensorCores
from tests.worlds.clocks import Hasty

AT = 1_760_000_000.0
PAST_S = 2 * 3600.0
PERIOD_S = 30.0
RULES = (
    CheckpointStall(),
    FabricDegraded(),
    Hang(),
    IdleHeld(),
    InputBound(),
    NicMisplaced(),
    NoTensorCores(),
    NumaMisplaced(),
    OversizedGpu(),
    PartialGpusIdle(),
    Straggler(),
)
STORIES = (
    *("hang", "idle_held", "input_bound", "no_tensor_cores"),
    *("oversized_gpu", "partial_gpus_idle", "straggler"),
)


@pytest.fixture(scope="module")
def seen():
    """What is claimed when two hours of past have been lived through, and what is true then."""
    clock = Hasty(AT)
    source = DemoSource("demo:", 10, 8, 1, clock, PERIOD_S, PAST_S)
    sampler = Sampler([source], clock, PERIOD_S, lambda: History(24 * 3600.0))
    found, is_over = [], threading.Event()

    def take(tick) -> None:
        if tick.at >= AT + PAST_S and not is_over.is_set():
            view = view_of(tick)
            found.extend(one for rule in RULES for one in rule.evaluate(view))
            is_over.set()

    sampler.start(take)
    assert is_over.wait(600.0), sampler.failure
    sampler.close()
    return found, source.labels(AT + PAST_S)


def test_each_job_s_story_is_there_and_found(seen):
    found, labels = seen
    now = AT + PAST_S
    true = {(x.finding_class, x.subject.partition("/")[0]) for x in labels if x.end >= now}
    claimed = {(one.finding_class, one.subject.partition("/")[0]) for one in found}
    for story in STORIES:
        of_it = {pair for pair in true if pair[0] == story}
        assert of_it, story
        assert of_it & claimed, story


def test_a_bad_link_is_there_and_found(seen):
    found, _ = seen
    assert any(one.finding_class == "fabric_degraded" for one in found)


def test_checkpoints_of_healthy_training_are_no_stalls(seen):
    found, _ = seen
    assert "checkpoint_stall" not in {one.finding_class for one in found}


def test_nobody_in_the_demo_is_misplaced(seen):
    found, _ = seen
    assert {one.finding_class for one in found}.isdisjoint({"nic_misplaced", "numa_misplaced"})
