"""Jobs whose ranks wait for ever, and those that only pause."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import START_AT
from gpumon.model.finding import Confidence
from gpumon_detectors.ranks.hang import Hang
from tests.unit.gpumon_detectors.idle_scenes import TROUBLES, job_scene, played

TRAINS = {
    "process_count": 1.0,
    "mem_used_bytes": 60.0 * 2**30,
    "mem_total_bytes": 80.0 * 2**30,
    "gpu_util_ratio": 0.97,
    "sm_active_ratio": 0.71,
    "tensor_active_ratio": 0.34,
    "dram_active_ratio": 0.4,
    "power_w": 560.0,
}
SPINS = {
    **TRAINS,
    "gpu_util_ratio": 1.0,
    "sm_active_ratio": 0.07,
    "tensor_active_ratio": 0.0,
    "dram_active_ratio": 0.004,
    "power_w": 170.0,
}
RESTS = {**SPINS, "gpu_util_ratio": 0.0, "sm_active_ratio": 0.0, "power_w": 115.0}
PIPES = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")


def plain(values):
    return {key: value for key, value in values.items() if key not in PIPES}


def all_do(values):
    return lambda _place: values


def one_rests(place):
    return RESTS if place == 3 else SPINS


def findings(scene):
    return list(Hang().evaluate(scene.view()))


def go_on(scene, uuids, how, seconds):
    """The same for so long, and what was told of cgroups besides."""
    scene.run(seconds, {uuid: how(place) for place, uuid in enumerate(uuids)})


def hung(period_s=10.0, trouble="none", how=one_rests, *, work_s=1500.0, still_s=420.0, cores=4.1):
    """Four ranks that trained and stand still, and what is claimed of them."""
    phases = [(work_s, all_do(TRAINS), 17.0), (still_s, how, cores)]
    scene, mine = played(period_s, trouble, phases, gpu_count=4)
    return findings(scene), scene, mine


@pytest.mark.parametrize("trouble", TROUBLES[:4])
@pytest.mark.parametrize("period_s", [pytest.param(1.0, marks=pytest.mark.slow), 10.0, 30.0, 60.0])
def test_a_hang_is_found_and_charged_whole(period_s, trouble):
    (finding,), _, _ = hung(period_s, trouble, still_s=900.0)
    assert finding.finding_class == "hang"
    assert finding.confidence is not Confidence.HYPOTHESIS
    assert 4 * 600.0 <= finding.gpu_seconds <= 4 * 900.0


def test_it_is_suspected_after_three_minutes_and_grows_surer():
    steps = {
        150.0: [],
        200.0: ["hypothesis"],
        260.0: ["hypothesis"],
        300.0: ["supported"],
        640.0: ["established"],
    }
    for still_s, confidence in steps.items():
        found, _, _ = hung(still_s=still_s)
        assert [f.confidence for f in found] == confidence


def test_the_rank_that_does_not_wait_is_named():
    (finding,), _, mine = hung()
    assert finding.summary.endswith("3 of 4 GPUs only wait, perhaps for n GPU 3")
    assert f"gpu:{mine[3]}" in {line.subject for line in finding.evidence}


def test_where_all_ranks_look_alike_nobody_is_named():
    (finding,), _, _ = hung(how=all_do(SPINS))
    assert finding.summary.endswith("4 of 4 GPUs only wait")
    assert "which rank keeps the others waiting: counters do not show it" in {
        line.text for line in finding.evidence
    }


@pytest.mark.parametrize("trouble", TROUBLES[:4])
def test_ranks_that_wait_asleep_poll_on_one_cpu_each(trouble):
    (finding,), _, _ = hung(10.0, trouble, all_do(RESTS), still_s=900.0, cores=4.1)
    assert finding.confidence == "supported"
    assert "wait asleep" in finding.summary
    assert hung(10.0, trouble, all_do(RESTS), still_s=900.0, cores=0.1)[0] == []


@pytest.mark.parametrize("cores", [0.4, 1.3, 2.2, 2.8])
def test_one_or_two_programs_that_spin_are_no_ranks_that_poll(cores):
    assert hung(how=all_do(RESTS), still_s=2400.0, cores=cores)[0] == []


@pytest.mark.parametrize("work_s", [700.0, 1100.0])
def test_ranks_that_sleep_behind_a_short_run_are_a_guess_for_half_an_hour(work_s):
    for still_s, confidence in ((1200.0, "hypothesis"), (2400.0, "supported")):
        found, _, _ = hung(how=all_do(RESTS), work_s=work_s, still_s=still_s)
        assert [f.confidence for f in found] == [confidence]


@pytest.mark.parametrize("trouble", TROUBLES[:4])
def test_without_profiling_counters_power_tells_later(trouble):
    def hung_plain(still_s):
        phases = [(1500.0, all_do(plain(TRAINS)), 17.0), (still_s, all_do(plain(SPINS)), 4.1)]
        return findings(played(10.0, trouble, phases, gpu_count=4)[0])

    assert [f.confidence for f in hung_plain(450.0)] == ["hypothesis"]
    assert [f.confidence for f in hung_plain(900.0)] == ["supported"]


@pytest.mark.parametrize(("age_s", "confidence"), [(400.0, "supported"), (250.0, "hypothesis")])
def test_a_silent_output_beside_a_rank_that_rests_makes_plain_counters_as_sure(age_s, confidence):
    phases = [(1500.0, all_do(plain(TRAINS)), 17.0), (20.0, all_do(plain(SPINS)), 4.1)]
    scene, mine = played(10.0, "shared", phases, gpu_count=4)
    scene.cgroup("42", job_output_age_s=age_s)
    scene.host("n", net_rx_bytes_per_s=4e8)
    stuck = {uuid: plain(one_rests(place)) for place, uuid in enumerate(mine)}
    scene.run(330.0, stuck)
    assert [f.confidence for f in findings(scene)] == [confidence]


def test_power_above_that_of_a_gpu_at_rest_is_what_tells_of_light_work():
    light, spins = {**plain(TRAINS), "power_w": 300.0}, {**plain(SPINS), "power_w": 179.0}
    rests = {**plain(RESTS), "power_w": 115.0}
    # Work that swings by a few per cent: its mean lies below what it draws at most.
    swings = {**light, "power_w": lambda s: 300.0 if s % 70 < 20 else 282.0}
    phases = [
        (1500.0, all_do(swings), 17.0),
        (900.0, lambda place: spins if place else rests, 4.1),
    ]
    (finding,) = findings(played(10.0, "none", phases, gpu_count=4)[0])
    assert finding.confidence == "supported"


def never_seen_at_work(still_s, **group):
    phases = [(still_s, all_do(SPINS), 4.1)]
    scene, mine = played(10.0, "none", phases, gpu_count=4)
    scene.cgroup("42", **group)
    go_on(scene, mine, all_do(SPINS), 40.0)
    return findings(scene)


def test_one_that_was_never_seen_at_work_is_a_guess_if_its_output_is_silent():
    assert [f.confidence for f in never_seen_at_work(1500.0, job_output_age_s=4000.0)] == [
        "hypothesis"
    ]
    assert never_seen_at_work(1500.0, job_output_age_s=30.0) == []
    assert never_seen_at_work(1500.0) == []


def first_seen(watched_s, silent_s, *, age_s=3 * 3600.0, values=SPINS, before=None):
    """Four ranks that stand still when they are first seen, and whose output is silent."""
    scene, mine = job_scene(4, period_s=10.0, start_at=START_AT - age_s)
    scene.cgroup("42", job_cpu_cores_used=4.1)
    if before is not None:
        go_on(scene, mine, all_do(before), 60.0)
    for passed_s in range(0, int(watched_s), 10):
        if silent_s is not None:
            scene.cgroup("42", job_output_age_s=silent_s + passed_s)
        go_on(scene, mine, all_do(values), 10.0)
    return findings(scene)


def test_one_that_hung_before_anybody_watched_is_told_in_minutes_by_its_silent_output():
    (finding,) = first_seen(150.0, 5400.0)
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")
    assert finding.began_at == pytest.approx(START_AT - 5400.0, abs=20)
    assert finding.window.start >= START_AT
    assert ", perhaps 93 min (observed since" in finding.summary or "92 min" in finding.summary
    assert "nothing was written to its output for 92 min" in [e.text for e in finding.evidence]
    assert finding.gpu_seconds <= 4 * 160.0


@pytest.mark.parametrize(
    "told",
    [
        {"watched_s": 100.0, "silent_s": 5400.0},
        {"watched_s": 150.0, "silent_s": 300.0},
        {"watched_s": 150.0, "silent_s": None},
        # It began as gpumon did, or was seen to do something else: a start, a pause.
        {"watched_s": 150.0, "silent_s": 5400.0, "age_s": 0.0},
        {"watched_s": 150.0, "silent_s": 5400.0, "before": TRAINS},
        {"watched_s": 150.0, "silent_s": 5400.0, "values": RESTS},
    ],
    ids=["short", "printed", "unknown", "begun", "seen-at-work", "resting"],
)
def test_what_is_first_seen_at_a_standstill_may_pause(told):
    assert first_seen(**told) == []


def test_after_a_restart_it_is_a_guess_at_most():
    phases = [(1500.0, all_do(TRAINS), 17.0), (4800.0, one_rests, 4.1)]
    scene, _ = played(10.0, "restart", phases, gpu_count=4)
    assert findings(scene) == []


# Look-alikes


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("pause_s", [95.0, 160.0])
def test_barriers_at_a_checkpoint_are_no_hang(period_s, trouble, pause_s):
    phases = []
    for _ in range(3):
        phases += [(700.0, all_do(TRAINS), 17.0), (pause_s, one_rests, 4.1)]
    scene, _ = played(period_s, trouble, phases, gpu_count=4)
    assert findings(scene) == []


def test_a_job_that_often_pauses_for_minutes_must_stand_still_for_longer():
    phases = []
    for _ in range(3):
        phases += [(1200.0, all_do(TRAINS), 17.0), (400.0, all_do(SPINS), 4.1)]
    phases += [(1200.0, all_do(TRAINS), 17.0), (700.0, all_do(SPINS), 4.1)]
    scene, _ = played(10.0, "none", phases, gpu_count=4)
    assert findings(scene) == []
    scene, _ = played(10.0, "none", [*phases[:-1], (900.0, all_do(SPINS), 4.1)], gpu_count=4)
    assert len(findings(scene)) == 1


@pytest.mark.parametrize(
    "group",
    [
        {"job_io_write_bytes_per_s": 3e8},
        {"job_cpu_cores_used": 40.0},
        {"job_output_age_s": 12.0},
    ],
)
def test_what_goes_on_meanwhile_is_named_and_makes_it_a_guess(group):
    phases = [(1500.0, all_do(TRAINS), 17.0), (20.0, one_rests, 4.1)]
    scene, mine = played(10.0, "none", phases, gpu_count=4)
    scene.cgroup("42", **group)
    go_on(scene, mine, one_rests, 800.0)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    said = [line.text for line in finding.evidence]
    assert any(text.startswith(("meanwhile: ", "but last wrote")) for text in said), said
    go_on(scene, mine, one_rests, 1900.0)
    assert findings(scene)[0].confidence == "supported"


@pytest.mark.parametrize(
    "values",
    [
        {**TRAINS, "sm_active_ratio": 0.2, "tensor_active_ratio": 0.06},
        {**SPINS, "dram_active_ratio": 0.45},
        {**SPINS, "nvlink_tx_bytes_per_s": 2e10},
        {**SPINS, "power_w": 520.0, "sm_active_ratio": 0.2},
        {**TRAINS, "gpu_util_ratio": 0.55},
    ],
)
def test_lighter_work_is_work(values):
    assert hung(how=all_do(values), still_s=1500.0)[0] == []


def test_a_lighter_stage_without_counters_is_work():
    lighter = {**plain(TRAINS), "power_w": 390.0}
    phases = [(1500.0, all_do(plain(TRAINS)), 17.0), (1500.0, all_do(lighter), 17.0)]
    assert findings(played(10.0, "none", phases, gpu_count=4)[0]) == []


def test_a_session_is_never_more_than_a_guess():
    phases = [(1500.0, all_do(TRAINS), 17.0), (1500.0, one_rests, 4.1)]
    scene, _ = played(10.0, "none", phases, gpu_count=4, is_interactive=True)
    assert [f.confidence for f in findings(scene)] == ["hypothesis"]


@pytest.mark.parametrize("trouble", TROUBLES[:4])
def test_a_server_that_polls_between_requests_is_not_claimed(trouble):
    phases = []
    for _ in range(6):
        phases += [(200.0, all_do(TRAINS), 6.0), (900.0, all_do(RESTS), 4.1)]
    scene, _ = played(10.0, trouble, [*phases, (2000.0, all_do(RESTS), 4.1)], gpu_count=4)
    assert findings(scene) == []


@pytest.mark.parametrize(
    ("ranks", "stuck", "is_found"),
    [(3, 0, False), (3, 1, True), (5, 2, True), (7, 1, False), (6, 2, True), (4, 3, False)],
)
def test_processes_that_wait_in_the_kernel_are_not_expected_to_poll(ranks, stuck, is_found):
    """The others do, on a CPU each; fewer than half may keep them waiting."""
    gone = {6: 2, 4: 3}.get(ranks, (ranks - 1) // 2)
    scene, mine = played(10.0, "none", [(100.0, all_do(TRAINS), 17.0)], gpu_count=ranks)
    scene.host("n", d_state_process_count=0.0)
    go_on(scene, mine, all_do(TRAINS), 1400.0)
    scene.cgroup("42", job_cpu_cores_used=1.01 * (ranks - gone))
    scene.host("n", d_state_process_count=float(stuck))
    go_on(scene, mine, all_do(RESTS), 900.0)
    assert [f.confidence for f in findings(scene)] == ["supported"] * is_found


@pytest.mark.parametrize("ranks", [3, 4, 7])
def test_one_gpu_that_spins_beside_ranks_asleep_is_the_one_they_wait_for(ranks):
    def how(place):
        return SPINS if place == 1 else RESTS

    phases = [(1500.0, all_do(TRAINS), 17.0), (900.0, how, 1.02 * ranks)]
    (finding,) = findings(played(10.0, "none", phases, gpu_count=ranks)[0])
    assert finding.summary.endswith("perhaps for n GPU 1")


def test_two_gpus_that_spin_beside_one_at_rest_are_no_sleepers():
    def how(place):
        return RESTS if place == 1 else SPINS

    phases = [(1500.0, all_do(TRAINS), 17.0), (900.0, how, 3.05)]
    (finding,) = findings(played(10.0, "none", phases, gpu_count=3)[0])
    assert "2 of 3 GPUs only wait" in finding.summary


@pytest.mark.parametrize(
    ("before", "since", "confidence"),
    [(2e8, 2.1e8, "supported"), (2e8, 3e8, "hypothesis"), (0.0, 9e7, "hypothesis")],
)
def test_traffic_of_a_shared_node_speaks_for_a_pause_only_if_it_rose(before, since, confidence):
    """Else a neighbour reads its data, as it did while the job worked."""
    phases = [(100.0, all_do(TRAINS), 17.0)]
    scene, mine = played(10.0, "shared", phases, gpu_count=4)
    scene.host("n", net_rx_bytes_per_s=before)
    go_on(scene, mine, all_do(TRAINS), 2400.0)
    scene.host("n", net_rx_bytes_per_s=since)
    scene.cgroup("42", job_cpu_cores_used=4.1)
    go_on(scene, mine, one_rests, 400.0)
    assert [f.confidence for f in findings(scene)] == [confidence]
    go_on(scene, mine, one_rests, 300.0)
    assert findings(scene)[0].confidence != "hypothesis"


def one_never_ends(place):
    return {**SPINS, "sm_active_ratio": 0.46, "power_w": 330.0} if place == 2 else SPINS


@pytest.mark.parametrize("stands", [all_do(RESTS), one_never_ends])
@pytest.mark.parametrize(
    ("work_s", "before_s", "since_s", "confidence"),
    [
        (1500.0, 7.0, 330.0, "supported"),
        (1500.0, 41.0, 330.0, "supported"),
        # It prints seldom, has printed since, is not seen, or did not work for long enough.
        (1500.0, 140.0, 470.0, "hypothesis"),
        (1500.0, 7.0, 200.0, "hypothesis"),
        (1500.0, None, 330.0, "hypothesis"),
        (1100.0, 7.0, 330.0, "hypothesis"),
    ],
)
def test_an_output_that_fell_silent_against_its_habit_makes_a_hang_sure_at_five_minutes(
    stands, work_s, before_s, since_s, confidence
):
    scene, mine = played(10.0, "none", [(20.0, all_do(TRAINS), 17.0)], gpu_count=4)
    if before_s is not None:
        scene.cgroup("42", job_output_age_s=before_s)
    go_on(scene, mine, all_do(TRAINS), work_s)
    scene.cgroup("42", job_output_age_s=since_s, job_cpu_cores_used=4.1)
    go_on(scene, mine, stands, 320.0)
    assert [f.confidence for f in findings(scene)] == [confidence]
