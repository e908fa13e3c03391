"""All detectors against the demo's straggler and hang: what they say of both is true."""

from __future__ import annotations

import threading

import pytest

from gpumon.detect.scene import view_of
from gpumon.detect.worker.registry import entries, load
from gpumon.fleet.history.history import History
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.demo import DemoSource
from tests.worlds.clocks import Hasty

pytestmark = pytest.mark.slow

AT = 1_760_000_000.0
PAST_S = 3_600.0
END = AT + 2.5 * 3600.0
PERIOD_S = 60.0
LOOK_EVERY = 10


@pytest.fixture(scope="module")
def watched():
    """Findings by the time of a look, the labels, and the subjects around both jobs."""
    clock = Hasty(AT)
    source = DemoSource("demo:10x8", 10, 8, 1, clock, PERIOD_S, PAST_S)
    sampler = Sampler([source], clock, PERIOD_S, lambda: History(24 * 3600.0))
    rules = [load(entry) for entry in entries()]
    looks, is_over = {}, threading.Event()

    def take(tick) -> None:
        if tick.number % LOOK_EVERY == 0 and not is_over.is_set():
            view = view_of(tick)
            looks[tick.at] = [finding for rule in rules for finding in rule.evaluate(view)]
        if tick.at >= END:
            is_over.set()

    sampler.start(take)
    assert is_over.wait(120.0), sampler.failure
    sampler.close()
    labels = source.labels(END)
    around = set()
    for job in source.fleet.running(AT + PAST_S):
        if job.request.trouble is None:
            continue
        around.add(f"job:{job.job_id}")
        for spot in job.spots:
            node = source.fleet.nodes[spot.node]
            around.add(f"node:{node.name}")
            around.update(f"gpu:{gpu.uuid}" for gpu in node.gpus)
    return looks, labels, around


def test_what_is_said_of_jobs_in_trouble_is_true(watched):
    looks, labels, around = watched
    assert len(looks) == 15
    said = {
        (finding.subject, finding.finding_class)
        for found in looks.values()
        for finding in found
        if finding.subject.partition("/rank:")[0] in around
    }
    assert said
    assert said <= {(label.subject, label.finding_class) for label in labels}


def test_nothing_is_said_of_them_before_it_happens(watched):
    looks, labels, around = watched
    onset = {
        label.subject.partition("/rank:")[0]: label.start
        for label in labels
        if label.finding_class != "healthy"
    }
    for at, found in looks.items():
        for finding in found:
            subject = finding.subject.partition("/rank:")[0]
            assert subject not in around or at >= onset[subject], finding.summary


def test_the_stragglers_gpu_is_found_throttled(watched):
    looks, labels, _ = watched
    (label,) = [label for label in labels if label.finding_class == "throttled"]
    (last,) = [finding for finding in looks[max(looks)] if finding.finding_class == "throttled"]
    assert last.subject == label.subject
    assert last.window.start >= label.start - PERIOD_S
