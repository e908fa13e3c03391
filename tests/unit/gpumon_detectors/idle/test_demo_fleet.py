"""The rules of idleness against the simulated fleet, whose jobs carry what is true of them."""

from __future__ import annotations

import threading

import pytest

from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.finding import Confidence
from gpumon.sources.demo import DemoSource
from gpumon_detectors.idle.cpu_only import CpuOnly
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.idle_tail import IdleTail
from gpumon_detectors.idle.interactive_idle import InteractiveIdle
from gpumon_detectors.idle.never_started import NeverStarted
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle
from gpumon_detectors.requests.fragmented import Fragmented
from gpumon_detectors.requests.overasked import Overasked
from gpumon_detectors.requests.oversized_gpu import OversizedGpu
from tests.worlds.clocks import Hasty

AT = 1_760_000_000.0
HOURS = 4.5
PERIOD_S = 60.0
LOOK_EVERY = 15
RULES = (
    CpuOnly(),
    Fragmented(),
    IdleHeld(),
    IdleTail(),
    InteractiveIdle(),
    NeverStarted(),
    Overasked(),
    OversizedGpu(),
    PartialGpusIdle(),
)


@pytest.fixture(scope="module")
def watched():
    """Findings of looks a quarter of an hour apart, and labels by subject."""
    clock, end = Hasty(AT), AT + HOURS * 3600
    source = DemoSource("demo:6x8", 6, 8, 1, clock, PERIOD_S)
    sampler = Sampler([source], clock, PERIOD_S, lambda: History(24 * 3600.0))
    looks, is_over = [], threading.Event()

    def take(tick) -> None:
        if tick.number % LOOK_EVERY == 0 and not is_over.is_set():
            view = view_of(tick)
            looks.append([finding for rule in RULES for finding in rule.evaluate(view)])
        if tick.at >= end:
            is_over.set()

    sampler.start(take)
    assert is_over.wait(60.0), sampler.failure
    sampler.close()
    return looks, {label.subject: label for label in source.labels(end)}


@pytest.mark.slow
def test_nothing_is_claimed_about_a_healthy_job(watched):
    looks, labels = watched
    assert len(looks) == 18
    claimed = {finding.subject for look in looks for finding in look}
    assert {labels[subject].finding_class for subject in claimed}.isdisjoint({"healthy"})
    healthy = {s for s, label in labels.items() if label.finding_class == "healthy"}
    assert len(healthy) >= 5


def test_what_is_claimed_for_sure_is_what_is_true(watched):
    looks, labels = watched
    for look in looks:
        for finding in look:
            if finding.confidence is not Confidence.HYPOTHESIS:
                assert finding.finding_class == labels[finding.subject].finding_class


@pytest.mark.parametrize(
    ("finding_class", "after_s"),
    # A batch job that rests is told from a server after four hours; looks are 15 minutes apart.
    [("idle_held", 4.2 * 3600), ("interactive_idle", 2.5 * 3600), ("partial_gpus_idle", 900)],
)
def test_every_fault_of_these_classes_that_was_watched_long_enough_is_found(
    watched, finding_class, after_s
):
    looks, labels = watched
    end = AT + HOURS * 3600
    known = {
        subject
        for subject, label in labels.items()
        if label.finding_class == finding_class
        and min(label.end, end) - max(label.start, AT) > after_s
    }
    assert known
    sure = {
        finding.subject
        for look in looks
        for finding in look
        if finding.finding_class == finding_class
        and finding.confidence is not Confidence.HYPOTHESIS
    }
    assert known <= sure
