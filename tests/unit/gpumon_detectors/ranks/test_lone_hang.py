"""A job's only GPU that runs one kernel on and on, beside which nobody waits."""

from __future__ import annotations

import pytest

from tests.unit.gpumon_detectors.idle_scenes import played
from tests.unit.gpumon_detectors.ranks.test_hang import (
    RESTS,
    SPINS,
    TRAINS,
    all_do,
    findings,
    go_on,
    plain,
)


def test_a_single_gpu_waits_for_nobody():
    phases = [(1500.0, all_do(TRAINS), 5.0), (1500.0, all_do(SPINS), 1.1)]
    assert findings(played(10.0, "none", phases, gpu_count=1)[0]) == []


def runs_on(sm_active_ratio=0.62, **other):
    return {**SPINS, "sm_active_ratio": sm_active_ratio, "power_w": 290.0, **other}


def lone(
    since, still_s=900.0, *, work=TRAINS, work_s=1500.0, printed_s=11.0, age_s=None, period_s=10.0
):
    """What is claimed of a job of one GPU that printed so often at work, and is silent since."""
    scene, mine = played(period_s, "none", [(20.0, all_do(work), 5.0)], gpu_count=1)
    if printed_s is not None:
        scene.cgroup("42", job_output_age_s=printed_s)
    go_on(scene, mine, all_do(work), work_s)
    age_s = still_s + 20.0 if age_s is None else age_s
    scene.cgroup("42", job_output_age_s=age_s, job_cpu_cores_used=1.0)
    go_on(scene, mine, all_do(since), still_s)
    return findings(scene)


@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("sm_active_ratio", [0.008, 0.2, 0.62, 1.0])
def test_a_kernel_that_never_ends_on_a_jobs_only_gpu_is_a_guess_for_half_an_hour(
    sm_active_ratio, period_s
):
    since = runs_on(sm_active_ratio)
    steps = {500.0: [], 900.0: ["hypothesis"], 2100.0: ["supported"]}
    for still_s, confidence in steps.items():
        found = lone(since, still_s, period_s=period_s)
        assert [f.confidence for f in found] == confidence
    (finding,) = found
    assert "one kernel runs on its GPU and never ends" in finding.summary
    assert not any("others" in line.text for line in finding.evidence)
    assert 1900.0 <= finding.gpu_seconds <= 2100.0


def test_it_is_told_of_a_night_too():
    assert [f.confidence for f in lone(runs_on(), 9 * 3600.0)] == ["supported"]


@pytest.mark.parametrize(
    "told",
    [
        # It prints seldom, or nobody sees what; it has printed since; it worked for too short.
        {"printed_s": 140.0},
        {"printed_s": None},
        {"age_s": 300.0},
        {"work_s": 1000.0},
        # Its work used no tensor cores, so that what runs now may be more of it.
        {"work": {**TRAINS, "tensor_active_ratio": 0.0}},
        # What runs now moves something, rests, or changes.
        {"since": runs_on(dram_active_ratio=0.12)},
        {"since": runs_on(tensor_active_ratio=0.06)},
        {"since": runs_on(pcie_rx_bytes_per_s=6e8)},
        {"since": runs_on(gpu_util_ratio=0.7)},
        {"since": RESTS},
        {"since": runs_on(lambda s: 0.3 if s % 60 < 30 else 0.9)},
        # Without profiling counters nobody knows.
        {"since": plain(runs_on()), "work": plain(TRAINS)},
    ],
)  # fmt: skip
def test_what_else_a_jobs_only_gpu_does_is_no_hang(told):
    assert lone(**{"since": runs_on(), "still_s": 2400.0, **told}) == []


BARE = {**SPINS, "sm_active_ratio": 0.14, "dram_active_ratio": 0.0004, "power_w": 150.0}
"""A kernel that polls on a few SMs and fetches nothing."""


def bare(since=BARE, still_s=2400.0, *, work=TRAINS, work_s=800.0, printed_s=None, **fields):
    """What is claimed of a job of one GPU of whose output nobody knows, unless it printed so."""
    scene, mine = played(10.0, "none", [(20.0, all_do(work), 5.0)], gpu_count=1, **fields)
    go_on(scene, mine, all_do(work), work_s)
    scene.cgroup("42", job_cpu_cores_used=1.0)
    if printed_s is not None:
        scene.cgroup("42", job_output_age_s=printed_s)
    go_on(scene, mine, all_do(since), still_s)
    return findings(scene)


@pytest.mark.parametrize("printed_s", [None, 3000.0])
def test_a_lone_kernel_that_spins_and_fetches_nothing_is_a_guess_without_the_outputs_habit(
    printed_s,
):
    assert bare(still_s=500.0, printed_s=printed_s) == []
    for still_s in (900.0, 2400.0, 9 * 3600.0):
        silent_s = printed_s if printed_s is None else printed_s + still_s
        (finding,) = bare(still_s=still_s, printed_s=silent_s)
        assert finding.confidence == "hypothesis"
        assert "memory 0.0 %" in finding.evidence[0].text
        assert any("by design" in line.text for line in finding.evidence)


@pytest.mark.parametrize(
    "told",
    [
        # It has printed since, worked for a moment only, or is called a server.
        {"printed_s": 300.0},
        {"work_s": 300.0},
        {"name": "vllm-serve"},
        # It fetches what it may compute with, fills the GPU, or nobody counts memory.
        {"since": {**BARE, "dram_active_ratio": 0.006}},
        {"since": {**BARE, "sm_active_ratio": 0.4}},
        {"since": {**BARE, "dram_active_ratio": None}},
    ],
)
def test_what_may_get_on_without_the_outputs_habit_is_no_hang(told):
    assert bare(**told) == []


def test_a_server_that_polls_on_its_gpu_between_requests_is_no_hang():
    phases = []
    for _ in range(5):
        phases += [(300.0, all_do(TRAINS), 6.0), (900.0, all_do(BARE), 1.0)]
    scene, _ = played(10.0, "none", [*phases, (2400.0, all_do(BARE), 1.0)], gpu_count=1)
    assert findings(scene) == []


def test_steps_that_take_turns_with_checks_are_no_hang():
    scene, mine = played(10.0, "none", [(20.0, all_do(TRAINS), 5.0)], gpu_count=1)
    scene.cgroup("42", job_output_age_s=20.0)
    for _ in range(3):
        go_on(scene, mine, all_do(TRAINS), 1500.0)
        go_on(scene, mine, all_do(runs_on()), 700.0)
    go_on(scene, mine, all_do(TRAINS), 1500.0)
    scene.cgroup("42", job_output_age_s=1300.0)
    go_on(scene, mine, all_do(runs_on()), 1200.0)
    assert findings(scene) == []
