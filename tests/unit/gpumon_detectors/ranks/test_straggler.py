"""Ranks that all others wait for in every step, and ranks that only differ."""

from __future__ import annotations

import pytest

from gpumon_detectors.ranks.straggler import Straggler
from tests.unit.gpumon_detectors.noise import TROUBLES
from tests.unit.gpumon_detectors.step_scenes import PLAIN, Stage, stepped

WORK_S = 1400.0
SLOW_S = 760.0
SLOWED = 1.45
"""What one rank computes over the others; of a step that exchanges 8 %, all lose .29."""
LOSS = 1.0 - 1.0 / (0.92 * SLOWED + 0.08)


def slowed(seconds=SLOW_S, *, rank=2, before_s=WORK_S, times=SLOWED, **how):
    """Stages of a job of which one rank becomes slow."""
    work = (*[1.0] * rank, times)
    return [Stage(before_s), Stage(seconds, work=work, **how)]


def said(stages, **how):
    scene, _ = stepped(stages, **how)
    return list(Straggler().evaluate(scene.view()))


@pytest.mark.parametrize("trouble", TROUBLES[:4])
@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_a_rank_that_computes_longer_is_named_and_costs_the_job(period_s, trouble):
    if period_s == 1.0 and trouble != "missing":
        pytest.skip("one scene of a sample a second tells enough")
    (finding,) = said(slowed(), period_s=period_s, trouble=trouble)
    assert finding.subject == "job:77/rank:2"
    assert finding.confidence == "supported"
    assert "rank 2 (m0 GPU 2) keeps 5 other GPUs waiting" in finding.summary
    assert len(finding.gpus) == 6
    assert finding.gpu_seconds == pytest.approx(LOSS * SLOW_S * 6, rel=0.12)


def test_it_is_established_after_a_quarter_of_an_hour():
    (finding,) = said(slowed(1000.0))
    assert finding.confidence == "established"
    assert finding.severity == "critical"
    assert finding.gpu_seconds == pytest.approx(LOSS * 1000.0 * 6, rel=0.05)


def test_nothing_is_said_before_five_minutes():
    assert said(slowed(240.0)) == []


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_rank_whose_host_is_late_rests_while_the_others_spin(trouble):
    stages = [Stage(WORK_S), Stage(1500.0, late=((4, 0.6),))]
    (finding,) = said(stages, trouble=trouble)
    assert finding.subject == "job:77/rank:4"
    assert "of the time while they spin" in finding.summary
    is_whole = trouble != "restart"
    assert finding.confidence == ("established" if is_whole else "hypothesis")
    if is_whole:
        loss = 1.0 - 1.0 / (0.92 * 1.6 + 0.08)
        assert finding.gpu_seconds == pytest.approx(loss * 1500.0 * 6, rel=0.12)


def test_that_a_gpu_rests_is_as_sure_without_counters():
    stages = [Stage(WORK_S), Stage(1500.0, late=((4, 0.6),))]
    (finding,) = said(stages, keys=PLAIN)
    assert finding.confidence == "established"


@pytest.mark.parametrize("period_s", [10.0, 60.0])
def test_who_is_busy_cannot_be_told_without_counters(period_s):
    stages = slowed(1500.0, times=1.6, step_s=0.9)
    assert said(stages, keys=PLAIN, period_s=period_s) == []


def test_one_that_comes_and_goes_costs_what_it_costs():
    stages = slowed(2400.0, on=0.75, stretch_s=70.0)
    (finding,) = said(stages, seed=5)
    lost = finding.gpu_seconds / 6 / (finding.window.end - finding.window.start)
    assert 0.5 * LOSS < lost < 0.95 * LOSS


def test_where_ranks_are_not_known_the_job_is_the_subject_and_the_gpu_is_named():
    (finding,) = said(slowed(), has_ranks=False)
    assert finding.subject == "job:77"
    assert "m0 GPU 2 keeps" in finding.summary
    assert "gpu:GPU-m0-2" in {line.subject for line in finding.evidence}


def test_gpus_that_are_not_used_are_no_peers():
    stages = [
        Stage(WORK_S, work=(1, 1, 1, 1, 0, 0)),
        Stage(SLOW_S, work=(1, SLOWED, 1, 1, 0, 0)),
    ]
    scene, mine = stepped(stages)
    (finding,) = Straggler().evaluate(scene.view())
    assert finding.subject == "job:77/rank:1"
    assert len(finding.gpus) in (4, 6)
    assert len(mine) == 6


# What they share is named in their place


def test_a_node_whose_ranks_are_all_slow_is_named():
    stages = [Stage(WORK_S), Stage(SLOW_S, work=(1, 1, 1, SLOWED, SLOWED, SLOWED))]
    (finding,) = said(stages, nodes=2, gpus=3)
    assert finding.subject == "node:m1"
    assert "m1 with its 3 GPUs keeps 3 other GPUs waiting" in finding.summary
    assert len(finding.gpus) == 6


def test_a_switch_whose_nodes_are_all_slow_is_named():
    stages = [Stage(WORK_S), Stage(SLOW_S, work=(*[1] * 6, *[SLOWED] * 4))]
    slurm = {f"m{n}": {"leaf_switch": "leaf-b" if n > 2 else "leaf-a"} for n in range(5)}
    (finding,) = said(stages, nodes=5, gpus=2, slurm=slurm)
    assert finding.subject == "job:77"
    assert "2 nodes of switch leaf-b keep 6 other GPUs" in finding.summary


# Why


def cause_of(values, stages=None, place=2, **how):
    told = ((WORK_S, place, values),)
    (finding,) = said(stages or slowed(), told=told, **how)
    return finding


def test_a_clock_that_is_held_down_is_the_cause_and_charges_itself():
    finding = cause_of({"sm_clock_mhz": 1160.0, "clock_event_reasons": 0x40})
    assert finding.summary.endswith("because of its clock")
    assert finding.gpu_seconds == 0.0
    assert any("reported as throttled" in line.text for line in finding.evidence)


def test_a_limit_that_somebody_set_is_the_cause_and_costs():
    finding = cause_of({"sm_clock_mhz": 1380.0, "clock_event_reasons": 0x4, "power_limit_w": 400.0})
    assert finding.summary.endswith("because of its power limit")
    assert finding.gpu_seconds > 0


@pytest.mark.parametrize(("bits", "is_said"), [(0x4, False), (0x2, True)])
def test_a_stage_with_more_to_do_runs_into_its_power_limit_and_is_no_straggler(bits, is_said):
    """Of ranks that were never alike; a clock that somebody set on one of them is another thing."""
    stages = [Stage(1800.0, work=(1, 1, 1, 1, 1, 1.7))]
    told = ((0.0, 5, {"sm_clock_mhz": 1310.0, "clock_event_reasons": float(bits)}),)
    assert bool(said(stages, told=told)) is is_said


def test_a_narrow_link_is_the_cause_also_of_one_that_was_never_in_time():
    stages = [Stage(1500.0, late=((2, 0.5),))]
    told = ((0.0, 2, {"pcie_width": 4.0}),)
    (finding,) = said(stages, told=told)
    assert finding.summary.endswith("because of its PCIe link")
    assert finding.confidence == "hypothesis"
    assert finding.gpu_seconds > 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cpu_pressure_some_ratio": 0.7}, "tasks that wait for CPUs on m0"),
        ({"io_pressure_some_ratio": 0.5}, "tasks that wait for disks and file systems on m0"),
        ({"d_state_process_count": 3.0}, "processes that wait in the kernel of m0"),
    ],
)
def test_what_waits_on_its_host_is_the_cause(values, words):
    before = dict.fromkeys(values, 0.02)
    told = ((0.0, "m0", before), (WORK_S, "m0", values))
    (finding,) = said(slowed(), told=told)
    assert finding.summary.endswith(f"because of {words}")


def test_cpus_that_are_taken_away_are_the_cause():
    told = ((0.0, "job", {"job_cpu_count": 24.0}), (WORK_S, "job", {"job_cpu_count": 3.0}))
    (finding,) = said(slowed(), told=told)
    assert finding.summary.endswith("because of CPUs taken away on m0")


# Look-alikes


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
def test_ranks_that_differ_a_little_are_none(period_s, trouble):
    stages = [Stage(WORK_S, spread=0.02, work=(1, 0.97, 1.03)), Stage(WORK_S, spread=0.03)]
    assert said(stages, period_s=period_s, trouble=trouble) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("period_s", [10.0, 60.0])
def test_where_another_rank_is_the_slowest_in_each_step_nobody_is(period_s, seed):
    stages = [Stage(4000.0, step_s=3.0 + 2 * seed, spread=0.28)]
    assert said(stages, period_s=period_s, seed=seed, gpus=4) == []


@pytest.mark.parametrize(("seed", "gpus"), [(23, 3), (24, 3), (30, 3), (20, 4), (44, 4)])
def test_nobody_is_where_data_became_uneven_a_moment_ago(seed, gpus):
    """One rank is ahead for some minutes by chance; those that wait differ as much."""
    stages = [Stage(1400.0, step_s=9.0), Stage(380.0, step_s=9.0, spread=0.25)]
    assert said(stages, seed=seed, gpus=gpus) == []


@pytest.mark.parametrize("work", [(1, 1, 1, 1, 1, 1.6), (1.5, 1.5, 1, 1, 1, 1)])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_stages_that_have_more_to_do_from_the_start_are_none(work, trouble):
    assert said([Stage(2600.0, work=work)], trouble=trouble) == []


def test_a_slow_rank_within_a_pipeline_is_one_all_the_same():
    stages = [
        Stage(WORK_S, work=(1, 1, 1, 1.3, 1.3, 1.3)),
        Stage(SLOW_S, work=(1, 1, 1, 1.3, 1.3 * SLOWED, 1.3)),
    ]
    (finding,) = said(stages)
    assert finding.subject == "job:77/rank:4"


@pytest.mark.parametrize("solo", ["compute", "rest"])
@pytest.mark.parametrize("period_s", [10.0, 60.0])
@pytest.mark.parametrize(("every_s", "takes_s"), [(700.0, 275.0), (400.0, 60.0), (1300.0, 170.0)])
def test_while_rank_0_evaluates_or_writes_nobody_is(every_s, takes_s, period_s, solo):
    stages = [Stage(3600.0, apart=(every_s, takes_s), solo=solo)]
    assert said(stages, period_s=period_s) == []


def test_replicas_of_a_server_have_loads_of_their_own():
    stages = [
        Stage(WORK_S, sync=False, work=(0.8, 0.9, 0.7, 0.8, 0.9, 0.8), exchange=0.0),
        Stage(1500.0, sync=False, work=(0.5, 0.6, 1.0, 0.5, 0.6, 0.5), exchange=0.0),
    ]
    assert said(stages) == []


def test_learners_and_generators_are_two_roles():
    stages = [Stage(3000.0, work=(1, 1, 1, 0.35, 0.35, 0.35))]
    assert said(stages) == []


def test_longer_steps_on_all_ranks_are_none():
    assert said([Stage(WORK_S), Stage(1500.0, step_s=6.4)]) == []


def test_two_gpus_do_not_tell_who_is_slow():
    assert said(slowed(rank=1), gpus=2) == []


def test_who_stops_the_others_is_no_straggler():
    assert said(slowed(1500.0, times=6.0)) == []


def test_worlds_are_judged_one_by_one():
    stages = [Stage(WORK_S), Stage(SLOW_S, work=(1, SLOWED, 1, 1, 1, 1))]
    (finding,) = said(stages, worlds=2)
    # Two ranks of this job have the number 1.
    assert finding.subject == "job:77"
    assert finding.gpus == ("GPU-m0-0", "GPU-m0-1", "GPU-m0-2")


@pytest.mark.parametrize("worlds", [1, 2])
def test_gpus_whose_ranks_nobody_knows_are_of_the_world_that_has_room_for_them(worlds):
    stages = [Stage(WORK_S), Stage(SLOW_S, work=(1, 1, 1, 1, SLOWED, 1, 1, 1))]
    found = said(stages, nodes=2, gpus=4, worlds=worlds, hidden="m1")
    assert [one.subject for one in found] == (["job:77"] if worlds == 1 else [])
    assert all("m1 GPU 0 keeps 7 other GPUs waiting" in one.summary for one in found)
