"""Whom a hang names, and when it names nobody."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene
from gpumon.model.records.cluster import Rank
from gpumon_detectors.ranks.hang import Hang
from tests.unit.gpumon_detectors.idle_scenes import QUIET_GROUP, QUIET_HOST, all_of
from tests.unit.gpumon_detectors.ranks.test_hang import RESTS, SPINS, TRAINS


def ranks_on(uuids):
    """One rank a GPU, of one world."""
    return [
        Rank("0", "a:29500", place, place, len(uuids), "a", 5100 + place, (uuid,), None)
        for place, uuid in enumerate(uuids)
    ]


def two_nodes(per_node=4, *, neighbour=False, has_ranks=False):
    """A job on two nodes that trained for half an hour."""
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    uuids = [u for name in ("a", "b") for u in scene.node(name, per_node + neighbour)]
    mine = [u for u in uuids if not neighbour or not u.endswith(f"-{per_node}")]
    scene.job("7", mine, cpu_count=8 * len(mine), ranks=ranks_on(mine) if has_ranks else ())
    if neighbour:
        scene.job("8", [u for u in uuids if u not in mine], cpu_count=16)
    for name in ("a", "b"):
        scene.host(name, **QUIET_HOST, d_state_process_count=0.0)
    scene.cgroup("7", **{**QUIET_GROUP, "job_cpu_cores_used": 4.0})
    scene.run(1800.0, all_of(uuids, TRAINS))
    return scene, mine


def hang(scene):
    (finding,) = Hang().evaluate(scene.view())
    return finding


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ranks_that_rest_beside_others_that_spin_are_named_one_by_one(count):
    scene, mine = two_nodes()
    scene.run(500.0, {**all_of(mine, SPINS), **all_of(mine[2 : 2 + count], RESTS)})
    named = hang(scene).summary.partition("perhaps for ")[2]
    assert named.count("GPU") == count
    assert named.startswith("a GPU 2")


def test_the_one_rank_that_does_not_wait_is_named_with_its_process():
    scene, mine = two_nodes(has_ranks=True)
    scene.run(500.0, {**all_of(mine, SPINS), mine[5]: RESTS})
    finding = hang(scene)
    assert finding.summary.endswith("perhaps for rank 5 (b GPU 1)")
    assert finding.advice[0].endswith("-w b py-spy dump --pid 5105")
    scene, mine = two_nodes(has_ranks=True)
    scene.run(500.0, {**all_of(mine, SPINS), mine[5]: RESTS, mine[6]: RESTS})
    assert hang(scene).advice[0].endswith("--pid PID")


def test_all_of_a_node_are_named_together():
    scene, mine = two_nodes()
    scene.run(500.0, {**all_of(mine, SPINS), **all_of(mine[4:], RESTS)})
    assert hang(scene).summary.endswith("4 of 8 GPUs only wait, perhaps for those on b")


def test_where_most_rest_nobody_is_named_by_that():
    scene, mine = two_nodes(6)
    scene.run(500.0, {**all_of(mine, RESTS), **all_of(mine[:5], SPINS)})
    assert list(Hang().evaluate(scene.view())) == []


@pytest.mark.parametrize("neighbour", [False, True])
def test_a_node_with_processes_in_the_kernel_is_named_if_it_is_the_only_one(neighbour):
    scene, mine = two_nodes(neighbour=neighbour)
    scene.host("b", d_state_process_count=3.0)
    scene.run(700.0, all_of(mine, SPINS))
    finding = hang(scene)
    assert finding.summary.endswith("perhaps for a process on b")
    assert any(
        "What Slurm says about it: scontrol show node b" in s for s in finding.machine_advice
    )
    doubted = any("perhaps another job's" in line.text for line in finding.evidence)
    assert doubted is neighbour
    scene.host("a", d_state_process_count=1.0)
    scene.run(5000.0, all_of(mine, SPINS))
    assert "perhaps for" not in hang(scene).summary


def test_processes_that_waited_in_the_kernel_before_too_explain_nothing():
    scene, mine = two_nodes()
    scene.host("a", d_state_process_count=2.0)
    scene.run(4000.0, all_of(mine, TRAINS))
    scene.run(700.0, all_of(mine, SPINS))
    finding = hang(scene)
    assert "perhaps for" not in finding.summary
    assert any(line.text.endswith("counters do not show it") for line in finding.evidence)


@pytest.mark.parametrize(("before_s", "is_named"), [(60.0, True), (3000.0, False)])
def test_a_broken_gpu_is_the_cause_of_what_stops_right_after(before_s, is_named):
    scene, mine = two_nodes()
    broken = {**TRAINS, "remap_failure": 1.0}
    scene.run(before_s, {**all_of(mine, TRAINS), mine[5]: broken})
    scene.run(700.0, {**all_of(mine, SPINS), mine[5]: {**SPINS, "remap_failure": 1.0}})
    assert hang(scene).summary.endswith("which is broken") is is_named


def test_a_node_that_fell_silent_is_what_the_others_wait_for():
    scene, mine = two_nodes(2)
    scene.silence("b")
    scene.run(900.0, all_of(mine, SPINS))
    assert hang(scene).summary.endswith("perhaps for b GPU 0 and b GPU 1")


@pytest.mark.parametrize("cores", [0.1, 4.0])
@pytest.mark.parametrize("others", [RESTS, SPINS])
def test_ranks_whose_gpu_fell_off_the_bus_hang_whether_the_others_spin_or_sleep(others, cores):
    scene, mine = two_nodes()
    scene.fall(mine[6])
    scene.cgroup("7", job_cpu_cores_used=cores)
    scene.run(900.0, all_of(mine, others))
    assert hang(scene).summary.endswith("perhaps for b GPU 2, which is broken")


@pytest.mark.parametrize("others", [RESTS, SPINS])
def test_ranks_hang_beside_a_gpu_whose_memory_broke_whether_they_spin_or_sleep(others):
    scene, mine = two_nodes(1)
    scene.cgroup("7", job_cpu_cores_used=0.1)
    broken = {**RESTS, "ecc_uncorrected_volatile_count": 3.0, "remap_failure": 1.0}
    scene.run(900.0, {mine[0]: others, mine[1]: broken})
    assert hang(scene).summary.endswith("perhaps for b GPU 0, which is broken")


def test_sleepers_beside_a_gpu_that_was_lost_long_before_are_no_hang():
    scene, mine = two_nodes()
    scene.fall(mine[6])
    scene.run(4000.0, all_of(mine, TRAINS))
    scene.cgroup("7", job_cpu_cores_used=0.1)
    scene.run(900.0, all_of(mine, RESTS))
    assert list(Hang().evaluate(scene.view())) == []


def processes(scene, mine, **of_third):
    """One process a rank; that of the third GPU fares otherwise."""
    for place, uuid in enumerate(mine):
        told = {"process_stopped_s": 0.0, "process_stuck_s": 0.0}
        scene.process(
            5100 + place, [uuid], job_id="7", **{**told, **(of_third if place == 2 else {})}
        )


@pytest.mark.parametrize(
    ("key", "how", "line"),
    [
        (
            "process_stopped_s",
            "is stopped",
            "has been stopped by a signal or a debugger, for 8 min",
        ),
        (
            "process_stuck_s",
            "waits in the kernel",
            "has been in uninterruptible sleep: it waits for",
        ),
    ],
)
def test_a_rank_whose_process_does_not_go_on_is_named_though_all_gpus_look_alike(key, how, line):
    scene, mine = two_nodes(has_ranks=True)
    processes(scene, mine, **{key: lambda s: s})
    scene.run(500.0, all_of(mine, SPINS))
    finding = hang(scene)
    assert finding.summary.endswith(f"perhaps for rank 2 (a GPU 2), whose process {how}")
    (told,) = [one for one in finding.evidence if one.field == key]
    assert line in told.text
    assert told.subject == f"gpu:{mine[2]}"
    assert finding.advice[0].endswith("-w a py-spy dump --pid 5102")
    assert bool(finding.machine_advice) is (key == "process_stuck_s")


@pytest.mark.parametrize("for_s", [20.0, 59.0, 200.0])
def test_one_that_has_halted_for_a_moment_only_is_not_named(for_s):
    scene, mine = two_nodes(has_ranks=True)
    processes(scene, mine, process_stuck_s=for_s)
    scene.run(500.0, all_of(mine, SPINS))
    assert hang(scene).summary.endswith("8 of 8 GPUs only wait")


def test_where_most_ranks_have_halted_none_of_them_is_named():
    """As on a file server that is gone: each waits for it."""
    scene, mine = two_nodes(has_ranks=True)
    for place, uuid in enumerate(mine):
        stuck = (lambda s: s) if place < 5 else 0.0
        scene.process(5100 + place, [uuid], job_id="7", process_stuck_s=stuck)
    scene.run(500.0, all_of(mine, SPINS))
    finding = hang(scene)
    assert finding.summary.endswith("8 of 8 GPUs only wait")
    assert len([one for one in finding.evidence if one.field == "process_stuck_s"]) == 5


def test_a_broken_gpu_comes_before_a_process_that_does_not_go_on():
    scene, mine = two_nodes(has_ranks=True)
    processes(scene, mine, process_stuck_s=lambda s: s)
    scene.xid(mine[1], 79)
    scene.run(500.0, all_of(mine, SPINS))
    assert "rank 1 (a GPU 1), which is broken" in hang(scene).summary


def endless(sm, **other):
    """A kernel that never ends."""
    return {**SPINS, "sm_active_ratio": sm, "power_w": 330.0, **other}


@pytest.mark.parametrize("others", [SPINS, RESTS])
@pytest.mark.parametrize("sm", [0.42, 0.97])
def test_a_rank_whose_kernel_never_ends_is_named(sm, others):
    scene, mine = two_nodes(has_ranks=True)
    scene.cgroup("7", job_cpu_cores_used=4.1)
    scene.run(900.0, {**all_of(mine, others), mine[3]: endless(sm)})
    finding = hang(scene)
    assert finding.summary.endswith("perhaps for rank 3 (a GPU 3)")
    assert finding.confidence == "hypothesis"
    scene.run(1100.0, {**all_of(mine, others), mine[3]: endless(sm)})
    assert hang(scene).confidence == "supported"


def test_a_small_kernel_without_an_end_shows_beside_sleepers_only():
    scene, mine = two_nodes()
    scene.cgroup("7", job_cpu_cores_used=4.1)
    scene.run(900.0, {**all_of(mine, RESTS), mine[3]: endless(0.11)})
    assert hang(scene).summary.endswith("perhaps for a GPU 3")
    scene, mine = two_nodes()
    scene.run(900.0, {**all_of(mine, SPINS), mine[3]: endless(0.11)})
    assert hang(scene).summary.endswith("8 of 8 GPUs only wait")


def test_a_silent_output_makes_a_kernel_without_an_end_as_sure_after_ten_minutes():
    scene, mine = two_nodes()
    values = {**all_of(mine, SPINS), mine[6]: endless(0.6)}
    scene.run(300.0, values)
    scene.cgroup("7", job_output_age_s=900.0)
    scene.run(400.0, values)
    finding = hang(scene)
    assert (finding.confidence, finding.summary[-7:]) == ("supported", "b GPU 2")


@pytest.mark.parametrize(
    "evaluates",
    [
        endless(0.6, tensor_active_ratio=0.2),
        endless(0.6, pcie_rx_bytes_per_s=3e9),
        endless(0.6, gpu_util_ratio=0.7),
    ],
)
def test_a_rank_that_evaluates_while_the_others_wait_makes_no_hang(evaluates):
    scene, mine = two_nodes()
    scene.run(2400.0, {**all_of(mine, SPINS), mine[0]: evaluates})
    assert list(Hang().evaluate(scene.view())) == []


def test_a_rank_whose_work_comes_and_goes_while_the_others_wait_makes_no_hang():
    scene, mine = two_nodes()
    for turn in range(60):
        scene.run(20.0, {**all_of(mine, SPINS), mine[0]: endless(0.9 if turn % 2 else 0.4)})
    assert list(Hang().evaluate(scene.view())) == []


def test_a_rank_of_which_no_process_is_left_is_named_beside_sleepers():
    scene, mine = two_nodes()
    scene.cgroup("7", job_cpu_cores_used=3.6)
    gone = {**RESTS, "process_count": 0.0, "mem_used_bytes": 5e8}
    scene.run(900.0, {**all_of(mine, RESTS), mine[5]: gone})
    finding = hang(scene)
    assert finding.summary.endswith("perhaps for b GPU 1")
    assert "no process is left on it" in finding.evidence[-1].text


# How soon it is sure, where it is known why the others wait


def asleep(cores=4.05, **of_third):
    """Eight ranks that worked for half an hour, and the third of which fares otherwise now.

    `cores`: CPUs busy on each node.
    """
    scene, mine = two_nodes(has_ranks=True)
    processes(scene, mine, **of_third)
    scene.cgroup("7", job_cpu_cores_used=cores)
    return scene, mine


def claims(scene):
    return [finding.confidence for finding in Hang().evaluate(scene.view())]


def test_sleepers_beside_a_gpu_that_broke_just_before_need_five_minutes_only():
    scene, mine = asleep()
    broken = {**RESTS, "remap_failure": 1.0}
    scene.run(300.0, {**all_of(mine, RESTS), mine[4]: broken})
    assert claims(scene) == ["supported"]


def test_sleepers_of_whom_one_is_stopped_need_five_minutes_only():
    scene, mine = asleep(process_stopped_s=lambda s: s, cores=3.55)
    scene.run(300.0, all_of(mine, RESTS))
    assert claims(scene) == ["supported"]


def test_sleepers_of_whom_one_has_no_process_any_more_need_five_minutes_only():
    scene, mine = asleep(cores=3.55)
    gone = {**RESTS, "process_count": 0.0, "mem_used_bytes": 5e8}
    scene.run(300.0, {**all_of(mine, RESTS), mine[6]: gone})
    assert claims(scene) == ["supported"]


def test_sleepers_of_whom_one_waits_in_the_kernel_may_write_a_checkpoint():
    scene, mine = asleep(process_stuck_s=lambda s: s, cores=3.55)
    scene.run(300.0, all_of(mine, RESTS))
    assert claims(scene) == ["hypothesis"]


def test_sleepers_that_are_all_alike_may_pause_for_ten_minutes():
    scene, mine = asleep()
    scene.run(300.0, all_of(mine, RESTS))
    assert claims(scene) == ["hypothesis"]
    scene.run(320.0, all_of(mine, RESTS))
    assert claims(scene) == ["supported"]


def test_a_broken_gpu_does_not_make_what_goes_on_beside_the_gpus_a_hang():
    scene, mine = asleep(cores=15.5)
    scene.run(300.0, {**all_of(mine, RESTS), mine[4]: {**RESTS, "remap_failure": 1.0}})
    assert claims(scene) == ["hypothesis"]


@pytest.mark.parametrize("is_broken", [True, False])
def test_without_counters_a_gpu_that_broke_makes_ranks_that_spin_as_sure(is_broken):
    def plain(values):
        return {key: value for key, value in values.items() if not key.endswith("_active_ratio")}

    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    mine = list(scene.node("a", 3))
    scene.job("7", mine, cpu_count=24)
    scene.host("a", **QUIET_HOST)
    scene.cgroup("7", **{**QUIET_GROUP, "job_cpu_cores_used": 3.0})
    scene.run(1800.0, all_of(mine, plain(TRAINS)))
    odd = {"remap_failure": 1.0} if is_broken else {}
    scene.run(310.0, {**all_of(mine, plain(SPINS)), mine[1]: {**plain(SPINS), **odd}})
    assert claims(scene) == ["supported" if is_broken else "hypothesis"]


def test_three_sleepers_of_whom_one_is_gone_poll_on_two_cpus():
    scene = Scene(period_s=10.0, span_s=24 * 3600.0)
    mine = list(scene.node("a", 3))
    scene.job("7", mine, cpu_count=24)
    scene.host("a", **QUIET_HOST)
    scene.cgroup("7", **{**QUIET_GROUP, "job_cpu_cores_used": 3.0})
    scene.run(1800.0, all_of(mine, TRAINS))
    scene.cgroup("7", job_cpu_cores_used=2.04)
    scene.run(310.0, {**all_of(mine, RESTS), mine[2]: {**RESTS, "process_count": 0.0}})
    assert claims(scene) == ["supported"]


@pytest.mark.parametrize("others", [RESTS, SPINS])
def test_a_gpu_that_tells_nothing_any_more_makes_nobody_wait_for_longer_evidence(others):
    """Of two GPUs one fell off the bus: half of the telemetry is no half of the evidence."""
    scene, mine = two_nodes(1)
    scene.cgroup("7", job_cpu_cores_used=1.0)
    scene.fall(mine[1])
    scene.run(310.0, {mine[0]: others})
    finding = hang(scene)
    assert finding.confidence == "supported"
    assert finding.gpu_seconds == pytest.approx(2 * 305.0, abs=12.0)
