"""Heavy stages, data of unlike size and steps that get longer; and what only looks like them."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon_detectors.ranks.data_imbalance import DataImbalance
from gpumon_detectors.ranks.slow_drift import SlowDrift
from gpumon_detectors.ranks.stage_imbalance import StageImbalance
from tests.unit.gpumon_detectors.noise import TROUBLES
from tests.unit.gpumon_detectors.step_scenes import PLAIN, Stage, stepped

HEAVY = (1, 1, 1, 1.5, 1.5, 1.5)
"""The second of two stages of three ranks does half as much again."""
LONG_S = 3000.0
UNLIKE = [Stage(3600.0, step_s=6.0, spread=0.3)]
PERIODS = [10.0, 30.0, 60.0]


def said(rule, stages, **how):
    scene, _ = stepped(stages, **how)
    return list(rule.evaluate(scene.view()))


# Stages


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", [1.0, *PERIODS])
def test_a_stage_that_does_more_is_found(period_s, trouble):
    if period_s == 1.0 and trouble != "missing":
        pytest.skip("one scene of a sample a second tells enough")
    seconds = 2400.0 if trouble == "restart" else 1200.0
    (finding,) = said(StageImbalance(), [Stage(seconds, work=HEAVY)], period_s=period_s,
                      trouble=trouble)  # fmt: skip
    assert finding.subject == "job:77"
    assert "rank 3 (m0 GPU 3) to rank 5 (m0 GPU 5) do" in finding.summary
    # In balance each would do 1.25 of 1.5; a tenth of a step is exchanged.
    lost = finding.gpu_seconds / 6 / (finding.window.end - finding.window.start)
    assert lost == pytest.approx(0.25 / (1.5 + 0.087), rel=0.12)


@pytest.mark.parametrize("period_s", PERIODS)
@pytest.mark.parametrize("work", [HEAVY, (1, 1, 1, 1, 2.1, 2.1)])
def test_a_stage_that_counts_more_work_at_the_same_clock_is_no_guess(work, period_s):
    (finding,) = said(StageImbalance(), [Stage(LONG_S, work=work)], period_s=period_s)
    assert finding.confidence == "supported"
    assert any("more work, no slower boards" in one.text for one in finding.evidence)
    assert "may be meant to do more" in finding.evidence[-1].text


def of_heavy(values, places=(3, 4, 5)):
    return tuple((0.0, place, values) for place in places)


DOUBTS = {
    "does more for another reason": ((1, 1, 1, 1, 1, 1.5), {}),
    "it is one GPU": ((1.5, 1, 1, 1, 1, 1), {}),
    "a slow node looks the same": (HEAVY, {"nodes": 2, "gpus": 3}),
    "ranks of one job is not known": (HEAVY, {"has_ranks": False}),
    "layers cannot be halved": ((1, 1, 1, 1.18, 1.18, 1.18), {}),
    "not seen: whether its tensor cores": (
        HEAVY, {"keys": ("sm_active_ratio", "gpu_util_ratio", "power_w", "dram_active_ratio")},
    ),
    "at its power limit": (HEAVY, {"told": of_heavy({"clock_event_reasons": 4.0})}),
    "its clocks are 1635 MHz": (
        HEAVY, {"told": of_heavy({"clock_event_reasons": 4.0, "sm_clock_mhz": 1635.0})},
    ),
}  # fmt: skip


@pytest.mark.parametrize("doubt", DOUBTS)
def test_what_else_looks_like_a_heavy_stage_keeps_it_a_guess(doubt):
    work, how = DOUBTS[doubt]
    (finding,) = said(StageImbalance(), [Stage(LONG_S, work=work)], **how)
    assert finding.confidence == "hypothesis"
    assert any(doubt in one.text for one in finding.evidence)


def test_experts_whose_loads_drift_are_a_guess():
    loads = (1.45, 1.8, 1.4, 1.75, 1.5, 1.9)
    stages = [Stage(500.0, work=(1, 1, 1, load, load, load)) for load in loads]
    (finding,) = said(StageImbalance(), stages)
    assert finding.confidence == "hypothesis"
    assert any("experts drift like this" in one.text for one in finding.evidence)


@pytest.mark.parametrize("step_s", [11.0, 17.0, 26.0])
def test_steps_that_a_minute_cuts_do_not_drift(step_s):
    """A minute holds two or three of them, and what it cuts off differs from stage to stage."""
    stages = [Stage(LONG_S, work=(1, 1, 1, 1.7, 1.7, 1.7), step_s=step_s)]
    (finding,) = said(StageImbalance(), stages)
    assert finding.confidence == "supported"


@pytest.mark.parametrize("spread", [0.2, 0.3])
def test_experts_whose_loads_differ_by_chance_are_a_guess(spread):
    dice = np.random.default_rng(8)
    loads = 1.7 * np.exp(spread * dice.standard_normal(100))
    stages = [Stage(30.0, work=(1, 1, 1, load, load, load), step_s=6.0) for load in loads]
    (finding,) = said(StageImbalance(), stages)
    assert finding.confidence == "hypothesis"
    assert any("experts drift like this" in one.text for one in finding.evidence)


def test_a_stage_is_no_more_than_a_guess_for_a_quarter_of_an_hour():
    (finding,) = said(StageImbalance(), [Stage(800.0, work=HEAVY)])
    assert finding.confidence == "hypothesis"


def test_ranks_that_exchange_as_much_are_stages_of_one_job():
    (finding,) = said(
        StageImbalance(), [Stage(LONG_S, work=HEAVY)], has_ranks=False, told=moved(0.02)
    )
    assert finding.confidence == "supported"


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    "stages",
    [
        [Stage(LONG_S, work=(1, 1.04, 1.02, 1.05, 1.0, 1.03))],
        # Experts: each rank has a load of its own.
        [Stage(LONG_S, work=(1, 1.3, 0.8, 1.5, 1.1, 0.9))],
        # One rank becomes slow.
        [Stage(1400.0), Stage(1400.0, work=(1, 1, 1, 1, 1, 1.5))],
        # A middle block, which is no stage.
        [Stage(LONG_S, work=(1, 1, 1.5, 1.5, 1, 1.2))],
        [Stage(LONG_S, apart=(600.0, 200.0))],
        [Stage(LONG_S, work=HEAVY, sync=False)],
    ],
)
def test_what_is_no_heavy_stage(stages, trouble):
    assert said(StageImbalance(), stages, trouble=trouble) == []


def test_boards_of_two_products_are_no_stages():
    scene, mine = stepped([Stage(LONG_S, work=HEAVY)], nodes=2, gpus=3)
    assert len(list(StageImbalance().evaluate(scene.view()))) == 1
    scene, mine = stepped([Stage(LONG_S, work=HEAVY)], nodes=2, gpus=3,
                          products=("NVIDIA H200", "NVIDIA H100"))  # fmt: skip
    assert list(StageImbalance().evaluate(scene.view())) == []
    assert len(mine) == 6


def test_a_node_whose_clocks_are_low_is_no_stage():
    slow = {"sm_clock_mhz": 1110.0, "clock_event_reasons": 0x40}
    told = tuple((0.0, place, slow) for place in (3, 4, 5))
    assert said(StageImbalance(), [Stage(LONG_S, work=HEAVY)], told=told) == []


def test_gpus_that_compute_nothing_wait_for_no_stage():
    # Of work that is none nothing is "so much more"; a driver may call even a spinning one .00.
    for util in (0.0, 1.0):
        idle = {"sm_active_ratio": 0.0, "gpu_util_ratio": util}
        told = tuple((0.0, place, idle) for place in (0, 1, 2))
        assert said(StageImbalance(), [Stage(LONG_S, work=HEAVY)], told=told) == []


def test_generators_beside_learners_do_other_things():
    told = tuple(
        (0.0, place, {"tensor_active_ratio": 0.05, "dram_active_ratio": 0.7}) for place in (0, 1, 2)
    )
    keys = ("sm_active_ratio", "gpu_util_ratio", "power_w")
    mine = tuple(
        (0.0, place, {"tensor_active_ratio": 0.37, "dram_active_ratio": 0.4}) for place in (3, 4, 5)
    )
    assert said(StageImbalance(), [Stage(LONG_S, work=HEAVY)], told=told + mine, keys=keys) == []


# Data


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", PERIODS)
def test_data_of_unlike_size_are_found(period_s, trouble):
    (finding,) = said(DataImbalance(), UNLIKE, period_s=period_s, trouble=trouble)
    assert finding.subject == "job:77"
    assert finding.confidence == ("supported" if trouble == "restart" else "established")
    assert "another of 6 ranks is the slowest each time" in finding.summary
    lost = finding.gpu_seconds / 6 / (finding.window.end - finding.window.start)
    # Of six draws that vary by .3 the largest is 1.5 times the mean: a third is waited for, and a
    # window of four or five steps evens out half of that, one of 60 s more.
    assert (0.08 if period_s == 60.0 else 0.11) <= lost <= 0.33


@pytest.mark.parametrize(("step_s", "least"), [(2.5, 0.16), (5.0, 0.21), (9.0, 0.24)])
def test_what_short_steps_lose_is_counted_over_short_windows(step_s, least):
    """Of a third at most; half a minute of such steps would even out most of it."""
    (finding,) = said(DataImbalance(), [Stage(3600.0, step_s=step_s, spread=0.3)])
    lost = finding.gpu_seconds / 6 / (finding.window.end - finding.window.start)
    assert least <= lost <= 0.33


@pytest.mark.parametrize("seed", [0, 4])
def test_quick_steps_over_uneven_data_are_no_drift(seed):
    """Each minute evens out who waits; in ten seconds it still shows."""
    stages = [Stage(2400.0, step_s=0.6), Stage(2700.0, step_s=0.6, spread=0.15)]
    assert said(SlowDrift(), stages, seed=seed, gpus=3) == []


def test_where_ranks_are_not_known_it_is_a_guess():
    (finding,) = said(DataImbalance(), UNLIKE, has_ranks=False)
    assert finding.confidence == "hypothesis"


def moved(swing):
    """What the NVLinks of six GPUs carry, each of which swings by so much of its own."""
    dice = np.random.default_rng(5)
    rates = 3e9 * np.exp(swing * dice.standard_normal((6, 400)))
    return tuple(
        (0.0, place, {"nvlink_tx_bytes_per_s": lambda s, row=row: float(row[int(s // 10) % 400])})
        for place, row in enumerate(rates)
    )


def test_ranks_that_exchange_as_much_are_of_one_job():
    (finding,) = said(DataImbalance(), UNLIKE, has_ranks=False, told=moved(0.02))
    assert finding.confidence == "established"
    assert finding.evidence[1].text.startswith("they are ranks of one job: what their NVLinks")


@pytest.mark.parametrize(
    "told", [moved(0.25), tuple((0.0, n, {"nvlink_tx_bytes_per_s": 3e5}) for n in range(6))]
)
def test_servers_exchange_as_they_work_or_not_at_all(told):
    (finding,) = said(DataImbalance(), UNLIKE, has_ranks=False, told=told)
    assert finding.confidence == "hypothesis"


def test_two_worlds_are_two_whatever_they_exchange():
    found = said(DataImbalance(), UNLIKE, worlds=2, told=moved(0.02))
    assert all("of 3 ranks" in finding.summary for finding in found)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    "stages",
    [
        [Stage(3600.0, spread=0.02)],
        [Stage(3600.0, spread=0.3, sync=False, step_s=6.0)],
        [Stage(3600.0, work=(1, 1, 1, 1, 1, 1.5), on=0.6)],
        [Stage(3600.0, work=HEAVY, spread=0.02)],
        [Stage(3600.0, apart=(500.0, 120.0))],
    ],
)
def test_what_are_no_uneven_data(stages, trouble):
    assert said(DataImbalance(), stages, trouble=trouble) == []


# Drift


@pytest.mark.parametrize("trouble", TROUBLES[:4])
@pytest.mark.parametrize("period_s", PERIODS)
def test_steps_that_get_longer_are_found(period_s, trouble):
    stages = [Stage(2400.0), Stage(1800.0, exchange=0.3, step_s=3.1 * 0.92 / 0.7)]
    (finding,) = said(SlowDrift(), stages, period_s=period_s, trouble=trouble, gpus=4)
    assert finding.confidence == "supported"
    assert finding.gpu_seconds == pytest.approx((1 - 0.7 / 0.92) * 1800.0 * 4, rel=0.1)


def test_one_gpu_drifts_as_well():
    stages = [Stage(2400.0, exchange=0.0), Stage(1800.0, exchange=0.0, late=((0, 0.4),))]
    (finding,) = said(SlowDrift(), stages, gpus=1)
    assert finding.summary.endswith("its GPUs rest longer in each")


def test_a_slow_ramp_is_found_from_where_it_can_be_told():
    ramp = [Stage(300.0, late=tuple((r, 0.03 * n) for r in range(4))) for n in range(1, 9)]
    stages = [Stage(2400.0), *ramp, Stage(1800.0, late=tuple((r, 0.27) for r in range(4)))]
    (finding,) = said(SlowDrift(), stages, gpus=4)
    assert 2400.0 < finding.window.start - 1_700_000_000.0 < 3600.0


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    "stages",
    [
        [Stage(6000.0)],
        # Longer sequences by plan: steps are longer, and as full.
        [Stage(2400.0), Stage(1800.0, step_s=6.5)],
        # One slow rank.
        [Stage(2400.0), Stage(1800.0, work=(1, 1, 1.4))],
        # Data get uneven.
        [Stage(2400.0), Stage(2400.0, step_s=5.0, spread=0.25)],
        # An evaluation ends, and comes again.
        [Stage(4800.0, apart=(1500.0, 280.0))],
        # Back to what it was.
        [Stage(2400.0), Stage(600.0, exchange=0.4), Stage(1800.0)],
        # The load of a server.
        [Stage(700.0, work=(w,) * 4, sync=False) for w in (1, 0.7, 1, 0.6, 0.9, 0.6)],
    ],
)
def test_what_is_no_drift(stages, trouble):
    assert said(SlowDrift(), stages, trouble=trouble, gpus=4) == []


def test_a_new_trial_begins_with_a_pause():
    pause = Stage(200.0, work=(0, 0, 0, 0), exchange=0.01)
    stages = [Stage(2400.0), pause, Stage(1800.0, exchange=0.4)]
    assert said(SlowDrift(), stages, gpus=4) == []


def test_a_lower_clock_is_no_drift():
    told = tuple((2400.0, place, {"sm_clock_mhz": 1300.0}) for place in range(4))
    stages = [Stage(2400.0), Stage(1800.0, exchange=0.3, step_s=4.0)]
    assert said(SlowDrift(), stages, gpus=4, told=told) == []


def test_a_server_by_its_name_is_left_alone():
    stages = [Stage(2400.0), Stage(1800.0, exchange=0.3, step_s=4.0)]
    assert said(SlowDrift(), stages, gpus=4, name="vllm-chat") == []


@pytest.mark.parametrize(("at_s", "is_said"), [(0.0, True), (2400.0, False)])
def test_steps_that_a_narrower_link_makes_longer_are_the_links(at_s, is_said):
    """A link that was as narrow before is no reason."""
    told = ((0.0, 1, {"pcie_width": 16.0}), (at_s, 1, {"pcie_width": 4.0}))
    stages = [Stage(2400.0), Stage(1900.0, exchange=0.32, step_s=4.2)]
    assert bool(said(SlowDrift(), stages, gpus=4, told=told)) is is_said


@pytest.mark.parametrize("rule", [StageImbalance(), DataImbalance(), SlowDrift()])
def test_without_counters_nothing_is_said(rule):
    for stages in ([Stage(2400.0), Stage(1800.0, exchange=0.4)], [Stage(LONG_S, work=HEAVY)]):
        assert said(rule, stages, keys=PLAIN) == []


@pytest.mark.parametrize(
    ("key", "waits"),
    [
        ("io_pressure_some_ratio", 0.35),
        ("d_state_process_count", 3.0),
        ("cpu_pressure_some_ratio", 0.5),
    ],
)
@pytest.mark.parametrize(("at_s", "is_said"), [(0.0, True), (2400.0, False)])
def test_steps_that_get_longer_as_tasks_wait_are_the_host_s(key, waits, at_s, is_said):
    """What was as scarce before is no reason."""
    told = ((0.0, "m0", {key: 0.0}), (at_s, "m0", {key: waits}))
    stages = [Stage(2400.0), Stage(1900.0, exchange=0.32, step_s=4.2)]
    assert bool(said(SlowDrift(), stages, gpus=4, told=told)) is is_said


@pytest.mark.parametrize("what", ["cpu", "io", "mem"])
@pytest.mark.parametrize(("before", "since", "is_said"), [(0.01, 0.17, False), (0.03, 0.05, True)])
def test_whether_its_own_tasks_wait_is_asked_before_all_the_node_s(what, before, since, is_said):
    """A neighbour waited before, or waits now: that says nothing of this job."""
    own, node = f"job_{what}_pressure_some_ratio", f"{what}_pressure_some_ratio"
    theirs = (0.6, 0.4) if not is_said else (0.1, 0.6)
    told = (
        (0.0, "job", {own: before}),
        (0.0, "m0", {node: theirs[0]}),
        (2400.0, "job", {own: since}),
        (2400.0, "m0", {node: theirs[1]}),
    )
    stages = [Stage(2400.0), Stage(1900.0, exchange=0.32, step_s=4.2)]
    assert bool(said(SlowDrift(), stages, gpus=4, told=told)) is is_said
