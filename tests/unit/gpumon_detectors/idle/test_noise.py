"""Idleness at every usual period, with what telemetry suffers: found, and nobody is accused."""

from __future__ import annotations

from itertools import product

import pytest

from gpumon.model.finding import Confidence
from gpumon_detectors.idle.cpu_only import CpuOnly
from gpumon_detectors.idle.idle_held import IdleHeld
from gpumon_detectors.idle.idle_tail import IdleTail
from gpumon_detectors.idle.interactive_idle import InteractiveIdle
from gpumon_detectors.idle.never_started import NeverStarted
from gpumon_detectors.idle.partial_gpus_idle import PartialGpusIdle
from gpumon_detectors.idle.slow_startup import SlowStartup
from tests.unit.gpumon_detectors.idle_scenes import HELD, TROUBLES, UNUSED, WORKING, played

HOUR = 3600.0
RULES = (
    CpuOnly(),
    IdleHeld(),
    IdleTail(),
    InteractiveIdle(),
    NeverStarted(),
    PartialGpusIdle(),
    SlowStartup(),
)
PERIODS = (
    pytest.param(1.0, marks=pytest.mark.slow),
    pytest.param(10.0),
    pytest.param(30.0, marks=pytest.mark.slow),
    pytest.param(60.0),
)
LONG_PERIODS = (
    pytest.param(10.0, marks=pytest.mark.slow),
    pytest.param(30.0, marks=pytest.mark.slow),
    60.0,
)
"""For scenes of hours, which take seconds to make up."""


def findings(scene):
    view = scene.view()
    return [finding for rule in RULES for finding in rule.evaluate(view)]


def sure(scene):
    return [f for f in findings(scene) if f.confidence is not Confidence.HYPOTHESIS]


def all_like(values):
    return lambda _place: values


def half_used(place):
    return UNUSED if place % 2 else WORKING


def flickering(every_s, util, period_s):
    """Held, with a single sample of work every so often."""
    shown = {**HELD, "gpu_util_ratio": lambda s: util if s % every_s < period_s else 0.0}
    return all_like(shown)


# Phases, class, and the GPU-seconds lost in the last phase of 2 GPUs a second
WASTES = {
    "never_started": ([(2400.0, all_like(UNUSED), 0.1)], 2.0),
    "idle_tail": ([(700.0, all_like(WORKING), 6.0), (1900.0, all_like(UNUSED), 0.1)], 2.0),
    "idle_held": ([(780.0, all_like(WORKING), 6.0), (1.4 * HOUR, all_like(HELD), 0.1)], 2.0),
    "cpu_only": ([(1.3 * HOUR, all_like(UNUSED), 9.0)], 2.0),
    "partial_gpus_idle": ([(2900.0, half_used, 6.0)], 1.0),
}


def lasts_too_long(name, period, trouble):
    """Behind a restart a claim needs two hours: too long to make up at short periods."""
    is_short = period in PERIODS[:2]
    return trouble == "restart" and is_short and WASTES[name][0][-1][0] > HOUR


@pytest.mark.parametrize(
    ("name", "period_s", "trouble"),
    [
        pytest.param(name, *period.values, trouble, marks=period.marks)
        for name, period, trouble in product(WASTES, PERIODS, TROUBLES)
        if not lasts_too_long(name, period, trouble)
    ],
)
def test_waste_is_found_and_only_what_was_seen_is_charged(name, period_s, trouble):
    phases, gpus = WASTES[name]
    if trouble == "restart" and phases[-1][0] > HOUR:
        # What was before is not known, so that the claim needs two hours behind it.
        phases = [*phases[:-1], (4.5 * HOUR, *phases[-1][1:])]
    scene, _ = played(period_s, trouble, phases)
    found = sure(scene)
    # Also behind a restart: what CPU time the job had used by then tells whether it had worked.
    assert [finding.finding_class for finding in found] == [name]
    lost = gpus * phases[-1][0] * (0.5 if trouble == "restart" else 1.0)
    assert found[0].gpu_seconds <= lost
    assert found[0].gpu_seconds >= 0.85 * lost - 2 * 180.0


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", LONG_PERIODS)
def test_a_shell_left_open_after_an_hour_of_work_is_found(period_s, trouble):
    phases = [(HOUR, all_like(WORKING), 4.0), (6.2 * HOUR, all_like(HELD), 0.1)]
    scene, _ = played(period_s, trouble, phases, is_interactive=True)
    assert "interactive_idle" in {f.finding_class for f in sure(scene)}


@pytest.mark.parametrize("trouble", TROUBLES[:4])
@pytest.mark.parametrize("period_s", PERIODS[:3])
def test_a_slow_start_is_found_as_far_as_the_gpus_wait(period_s, trouble):
    phases = [(1100.0, all_like({**UNUSED, "process_count": 1.0}), 13.0)]
    phases.append((200.0, all_like(WORKING), 6.0))
    scene, _ = played(period_s, trouble, phases, time_limit_s=2 * HOUR)
    (finding,) = sure(scene)
    assert finding.finding_class == "slow_startup"
    assert 1000.0 <= finding.gpu_seconds / 2 <= 1100.0


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", LONG_PERIODS)
@pytest.mark.parametrize(("every_s", "util"), [(480.0, 0.01), (7260.0, 0.7)])
def test_single_samples_of_work_do_not_hide_a_long_rest(every_s, util, period_s, trouble):
    rest = flickering(every_s, util, period_s)
    scene, _ = played(period_s, trouble, [(900.0, all_like(WORKING), 6.0), (5 * HOUR, rest, 0.1)])
    assert [f.finding_class for f in sure(scene)] == ["idle_held"]


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(("values", "cores"), [(HELD, 1.3), (UNUSED, 0.74)])
def test_one_cpu_that_spins_beside_idle_gpus_is_named_and_hides_nothing(values, cores, trouble):
    phases = [(HOUR, all_like(WORKING), 6.0), (9.0 * HOUR, all_like(values), cores)]
    scene, _ = played(60.0, trouble, phases)
    (finding,) = sure(scene)
    assert finding.confidence == "supported"
    if finding.finding_class != "cpu_only":
        assert f", but {cores:.1f} of 32 CPUs busy" in finding.summary


@pytest.mark.parametrize(("hours", "confidence"), [(3.0, "hypothesis"), (5.0, "supported")])
def test_after_four_hours_gpus_at_rest_are_waste_whatever_the_cpus_do(hours, confidence):
    phases = [(HOUR, all_like(WORKING), 6.0), (hours * HOUR, all_like(HELD), 9.0)]
    scene, _ = played(60.0, "none", phases)
    found = [f for f in findings(scene) if f.finding_class == "idle_held"]
    assert [f.confidence for f in found] == [confidence]
    assert ", but 9.0 of 32 CPUs busy" in found[0].summary


# Look-alikes


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", PERIODS)
def test_training_with_checkpoints_is_work(period_s, trouble):
    phases = []
    for _ in range(4):
        phases += [(520.0, all_like(WORKING), 6.0), (95.0, all_like(HELD), 3.0)]
    scene, _ = played(period_s, trouble, [*phases, (240.0, all_like(WORKING), 6.0)])
    assert findings(scene) == []


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", LONG_PERIODS)
def test_an_input_bound_run_is_work(period_s, trouble):
    bound = {**WORKING, "gpu_util_ratio": lambda s: 0.4 if s % (5 * period_s) < period_s else 0.0}
    scene, _ = played(period_s, trouble, [(2.5 * HOUR, all_like(bound), 14.0)])
    assert findings(scene) == []


@pytest.mark.parametrize("trouble", TROUBLES[:4])
@pytest.mark.parametrize("period_s", LONG_PERIODS)
def test_a_server_between_requests_is_not_claimed(period_s, trouble):
    phases = []
    for _ in range(8):
        phases += [(200.0, all_like(WORKING), 2.0), (1300.0, all_like(HELD), 0.3)]
    scene, _ = played(period_s, trouble, [*phases, (HOUR, all_like(HELD), 0.3)])
    assert findings(scene) == []


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", LONG_PERIODS)
@pytest.mark.parametrize("work_s", [180.0, 230.0])
def test_an_active_notebook_is_not_accused(work_s, period_s, trouble):
    cells = {**HELD, "gpu_util_ratio": lambda s: 0.8 if s % 1500.0 < work_s else 0.0}
    scene, _ = played(period_s, trouble, [(4 * HOUR, all_like(cells), 0.2)], is_interactive=True)
    assert findings(scene) == []


@pytest.mark.parametrize("trouble", TROUBLES[:4])
@pytest.mark.parametrize("period_s", LONG_PERIODS)
def test_training_after_idle_hours_is_not_charged(period_s, trouble):
    idle = [(5.0 * HOUR, all_like(HELD), 0.1)]
    scene, _ = played(
        period_s, trouble, [*idle, (420.0, all_like(WORKING), 4.0)], is_interactive=True
    )
    for finding in findings(scene):
        assert finding.gpu_seconds <= 2 * 5.0 * HOUR
    scene, _ = played(
        period_s, trouble, [*idle, (800.0, all_like(WORKING), 4.0)], is_interactive=True
    )
    assert findings(scene) == []


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", PERIODS)
def test_a_healthy_start_is_no_waste(period_s, trouble):
    scene, _ = played(period_s, trouble, [(280.0, all_like(UNUSED), 5.0)])
    assert findings(scene) == []
