from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING
from gpumon_detectors.idle.idle_held import IdleHeld
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, played, serve, work

HOUR = 3600.0


def findings(scene):
    return list(IdleHeld().evaluate(scene.view()))


def rest(scene, uuids, seconds):
    scene.run(seconds, all_of(uuids, HELD))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(1200, "hypothesis"), (2000, "supported"), (7200, "supported"), (8100, "established")],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    rest(scene, uuids, seconds)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    # What is older than an hour and a half is known in rows of five minutes.
    assert -30 <= finding.window.start - (START_AT + 4 * HOUR) <= (120 if seconds < HOUR else 600)


def test_the_finding_says_what_it_rests_on_and_what_it_costs():
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    rest(scene, uuids, 3000)
    (finding,) = findings(scene)
    length_s = finding.window.end - finding.window.start
    assert (finding.subject, finding.severity) == ("job:42", "critical")
    assert finding.summary.startswith("2 GPUs idle with 80.0 GiB of memory held since ")
    assert finding.gpu_seconds == 2 * length_s
    assert [e.text for e in finding.evidence][1:] == [
        "80.0 GiB of 160.0 GiB of memory held",
        f"the job used 0.01 of 32 CPUs over {length_s / 60:.0f} min",
    ]


# The context


def test_a_batch_job_seen_at_work_stays_a_hypothesis_for_as_long_as_servers_rest():
    scene, uuids = job_scene()
    work(scene, uuids, 720)
    rest(scene, uuids, 3500)
    (finding,) = findings(scene)
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")
    assert finding.evidence[-1].text.startswith("watched for 70 min of the 4.0 h after which")
    rest(scene, uuids, 600)
    assert findings(scene)[0].confidence == "supported"
    rest(scene, uuids, HOUR)
    assert findings(scene)[0].confidence == "established"


def test_a_restart_of_gpumon_leaves_a_claim_unsure_for_two_hours_and_no_longer():
    scene, uuids = job_scene(start_at=START_AT - 5 * HOUR)
    rest(scene, uuids, 1.9 * HOUR)
    assert findings(scene)[0].confidence == "hypothesis"
    rest(scene, uuids, 0.3 * HOUR)
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert " for at least 2.2 h (observed since " in finding.summary


@pytest.mark.parametrize("rest_h", [0.5, 1.0, 2.0, 4.0])
def test_a_server_is_recognised_by_its_bursts_and_may_rest(rest_h):
    scene, uuids = job_scene()
    serve(scene, uuids, 4 * HOUR)
    rest(scene, uuids, rest_h * HOUR)
    assert findings(scene) == []


def test_a_server_that_rests_longer_than_any_known_one_is_a_hypothesis():
    scene, uuids = job_scene()
    serve(scene, uuids, 4 * HOUR)
    rest(scene, uuids, 5 * HOUR)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert "may be a server: " in finding.evidence[-1].text


def test_checkpoints_do_not_make_a_training_run_a_server():
    scene, uuids = job_scene()
    for _ in range(14):
        work(scene, uuids, 1000)
        rest(scene, uuids, 90)
    rest(scene, uuids, 3000)
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_a_name_that_is_a_servers_makes_the_claim_less_sure():
    for fields, program in (({"name": "llm-serve"}, "python3"), ({}, "tritonserver")):
        scene, uuids = job_scene(**fields)
        scene.process(7, uuids, job_id="42", name=program)
        work(scene, uuids, 4 * HOUR)
        rest(scene, uuids, 3 * HOUR)
        (finding,) = findings(scene)
        assert finding.confidence == "hypothesis"
        assert finding.evidence[-1].text.startswith("may be a server: named ")


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(1.9 * HOUR, "hypothesis"), (2.2 * HOUR, "supported"), (4.3 * HOUR, "established")],
)
def test_what_is_named_like_a_session_may_rest_for_two_hours(seconds, confidence):
    scene, uuids = job_scene(name="jupyter")
    work(scene, uuids, 2 * HOUR)
    rest(scene, uuids, seconds)
    assert [f.confidence for f in findings(scene)] == [confidence]


@pytest.mark.parametrize("fields", [{"is_interactive": True}, {"name": "sys/desk"}])
def test_a_session_is_another_class(fields):
    scene, uuids = job_scene(**fields)
    work(scene, uuids, 2 * HOUR)
    rest(scene, uuids, 5 * HOUR)
    assert list(IdleHeld(portal_names="sys/desk").evaluate(scene.view())) == []


def test_a_program_stopped_in_a_debugger_on_the_debug_partition_is_interactive():
    scene, uuids = job_scene(partition="gpu-debug")
    work(scene, uuids, 4 * HOUR)
    rest(scene, uuids, HOUR)
    assert findings(scene)[0].confidence == "hypothesis"


# Other look-alikes


@pytest.mark.parametrize(
    "other",
    [
        {"gpu_util_ratio": 0.01},
        {"sm_active_ratio": 0.2},
        {"encoder_util_ratio": 0.5},
        {"decoder_util_ratio": 0.5},
        {"pcie_rx_bytes_per_s": 3e9},
        {"pcie_tx_bytes_per_s": 3e9},
    ],
)
def test_one_gpu_at_work_of_any_kind_is_work(other):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(HOUR, {uuids[0]: {**HELD, **other}, uuids[1]: HELD})
    assert findings(scene) == []


@pytest.mark.parametrize(
    "values", [{"job_cpu_cores_used": 14.0}, {"job_io_write_bytes_per_s": 5e8}]
)
def test_a_checkpoint_or_an_evaluation_on_cpus_is_named_and_not_claimed_for_sure(values):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.cgroup("42", **values)
    rest(scene, uuids, 1700)
    assert findings(scene) == []
    rest(scene, uuids, 3 * HOUR)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert ", but " in finding.summary


@pytest.mark.parametrize(
    ("bytes_per_s", "confidence"), [(21e6, "established"), (4e8, "hypothesis")]
)
def test_copies_over_pcie_are_measured_against_the_gpus_own_background(bytes_per_s, confidence):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(3 * HOUR, all_of(uuids, HELD, pcie_rx_bytes_per_s=bytes_per_s))
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert ("copied over PCIe" in finding.summary) is (confidence == "hypothesis")


def test_a_pause_of_a_checkpoint_is_not_even_a_hypothesis():
    scene, uuids = job_scene(period_s=10.0)
    work(scene, uuids, 1800)
    rest(scene, uuids, 100)
    assert findings(scene) == []


def test_gpus_without_process_and_memory_are_another_class():
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(HOUR, all_of(uuids, UNUSED))
    assert findings(scene) == []


def test_gpus_that_others_of_the_job_leave_unused_are_idle_with_them():
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(HOUR, {uuids[0]: HELD})
    (finding,) = findings(scene)
    assert finding.gpu_seconds == 2 * (finding.window.end - finding.window.start)


# What telemetry does not show


@pytest.mark.parametrize("key", IdleHeld.needs)
def test_without_one_of_the_fields_nothing_is_claimed(key):
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(HOUR, {uuids[0]: {**HELD, key: None}, uuids[1]: HELD})
    assert findings(scene) == []


@pytest.mark.parametrize("key", ["sm_active_ratio", "encoder_util_ratio", "pcie_rx_bytes_per_s"])
def test_without_the_counters_that_not_every_gpu_has_the_claim_stands(key):
    scene, uuids = job_scene()
    values = {**WORKING, "encoder_util_ratio": 0.0, "pcie_rx_bytes_per_s": 1e9, key: None}
    scene.run(4 * HOUR, all_of(uuids, values))
    still = {**HELD, "encoder_util_ratio": 0.0, "pcie_rx_bytes_per_s": 0.0, key: None}
    scene.run(HOUR, all_of(uuids, still))
    assert findings(scene)[0].confidence == "supported"


def test_stale_unnamed_and_cut_gpus_are_not_idle():
    scene, uuids = job_scene()
    work(scene, uuids, 4 * HOUR)
    scene.run(HOUR, all_of(uuids, HELD), stale=uuids[1:])
    assert findings(scene) == []
    rest(scene, uuids, HOUR)
    scene.gpu(uuids[1], mig_mode=1)
    rest(scene, uuids, 60)
    assert findings(scene) == []


def test_without_any_sight_of_the_cpus_it_stays_a_hypothesis():
    scene, uuids = job_scene()
    scene.cgroup("42", job_cpu_cores_used=None)
    scene.host("n", cpu_busy_ratio=None)
    scene.run(4 * HOUR, all_of(uuids, WORKING))
    rest(scene, uuids, HOUR)
    assert findings(scene)[0].confidence == "hypothesis"


@pytest.mark.parametrize(
    ("early_s", "is_claimed"), [(30.0, False), (500.0, False), (-200.0, False), (1500.0, True)]
)
def test_what_a_fault_of_a_gpu_stopped_is_the_faults(early_s, is_claimed):
    """The driver asks for a reset from some time before the rest on, or soon after."""
    scene, uuids = job_scene()
    work(scene, uuids, 2 * HOUR)
    sound, broken = ({"recovery_action": code} for code in (0.0, 1.0))
    scene.cgroup("42", job_cpu_cores_used=6.0)
    scene.run(max(early_s, 30.0), all_of(uuids, WORKING, **(broken if early_s > 0 else sound)))
    scene.cgroup("42", job_cpu_cores_used=0.01)
    if early_s < 0:
        scene.run(-early_s, all_of(uuids, HELD, **sound))
    scene.run(1.4 * HOUR, all_of(uuids, HELD, **broken))
    assert bool(findings(scene)) is is_claimed


@pytest.mark.parametrize(
    ("gpus", "cores", "confidence"),
    [
        (3, 3.1, "hypothesis"),
        (4, 4.4, "hypothesis"),
        (4, 0.02, "established"),
        (1, 1.0, "supported"),
    ],
)
def test_ranks_that_worked_and_poll_on_a_cpu_each_may_hang_asleep(gpus, cores, confidence):
    phases = [(1800.0, lambda _: WORKING, 6.0), (9000.0, lambda _: HELD, cores)]
    scene, _ = played(10.0, "none", phases, gpu_count=gpus)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    said = any("may hang asleep" in line.text for line in finding.evidence)
    assert said is (confidence == "hypothesis")


@pytest.mark.parametrize(("gone", "is_sure"), [(0, True), (1, False), (2, True)])
def test_ranks_that_poll_for_one_whose_process_is_gone_may_hang_asleep(gone, is_sure):
    """Three worked; one that polls alone waits for nobody."""
    phases = [(1800.0, lambda _: WORKING, 6.0)]
    scene, mine = played(10.0, "none", phases, gpu_count=3)
    scene.cgroup("42", job_cpu_cores_used=1.95 if gone < 2 else 0.9)
    left = {**HELD, "process_count": 0.0}
    scene.run(9000.0, {uuid: left if n < gone else HELD for n, uuid in enumerate(mine)})
    found = findings(scene)
    assert [one.confidence != "hypothesis" for one in found] == [is_sure]


@pytest.mark.parametrize(("stuck", "is_sure"), [(0.0, True), (1.0, False)])
def test_ranks_that_poll_for_one_that_waits_in_the_kernel_may_hang_asleep(stuck, is_sure):
    """Of four one is stuck and three are seen to poll, at less than a CPU each."""
    phases = [(1800.0, lambda _: WORKING, 6.0)]
    scene, mine = played(10.0, "none", phases, gpu_count=4)
    scene.cgroup("42", job_cpu_cores_used=2.6)
    scene.host("n", d_state_process_count=stuck)
    scene.run(9000.0, all_of(mine, HELD))
    assert [one.confidence != "hypothesis" for one in findings(scene)] == [is_sure]
