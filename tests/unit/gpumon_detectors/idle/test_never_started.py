from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING, Scene
from gpumon.model.records.cluster import Rank
from gpumon_detectors.idle.never_started import NeverStarted
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, unused, work


def findings(scene):
    return list(NeverStarted().evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(900, "hypothesis"), (960, "supported"), (3600, "supported"), (3660, "established")],
)
def test_the_claim_grows_with_the_window_as_observed(seconds, confidence):
    scene, _ = job_scene()
    unused(scene, seconds)
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert finding.window.start == START_AT
    assert finding.window.end - finding.window.start == seconds - 30


def test_the_finding_says_what_it_rests_on_and_what_it_costs():
    scene, _ = job_scene(4)
    unused(scene, 1230)
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == ("job:42", "critical")
    assert finding.summary == "4 GPUs held and not touched since it began (20 min observed)"
    assert finding.gpu_seconds == 4 * 1200
    assert [e.text for e in finding.evidence] == [
        (
            "4 GPUs: no process, utilisation 0 %, at most 0.0 GiB of memory in use, 41 samples, "
            "the job is 20 min old"
        ),
        "the job used 0.01 of 64 CPUs over 20 min",
    ]
    assert "What it was given: scontrol show job -d 42" in finding.advice
    assert "What runs on its GPUs: srun --jobid=42 --overlap --pty nvidia-smi" in finding.advice


def test_of_a_job_that_runs_on_other_gpus_than_slurm_gave_it_nothing_is_sure():
    """Either it leaves its own idle, or they are others than the list of the node's files says."""
    scene, uuids = job_scene(2)
    theirs = scene.node("m", 1)
    on_theirs = Rank("0", None, None, None, None, "m", 77, theirs, None)
    scene.job("42", uuids, ranks=[on_theirs], contradictions=["it is on another's GPU"])
    unused(scene, 5000)
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == ("job:42", "hypothesis")
    assert finding.evidence[-1].text == (
        f"its processes are on {theirs[0]}, which Slurm did not give it"
    )


def test_a_job_id_that_is_no_number_is_never_put_into_a_command():
    scene = Scene(period_s=30.0)
    uuids = scene.node("n", 1)
    scene.job("4;reboot", uuids)
    unused(scene, 1200)
    assert not any("reboot" in line for line in findings(scene)[0].advice)


@pytest.mark.parametrize("age_s", [0.0, 7200.0])
def test_under_five_minutes_of_evidence_nothing_is_said_however_old_the_job_is(age_s):
    scene, _ = job_scene(start_at=START_AT - age_s)
    unused(scene, 300)
    assert findings(scene) == []
    unused(scene, 60)
    (finding,) = findings(scene)
    assert (finding.confidence, finding.severity) == ("hypothesis", "warning")


def test_a_start_that_was_not_watched_is_not_established():
    scene, _ = job_scene(start_at=START_AT - 7200)
    scene.cgroup("42", job_cpu_us=81_000_000)
    unused(scene, 3 * 3600)
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert "at least" in finding.summary
    assert finding.evidence[-1].text == (
        "in the 2.0 h before it was watched it used 1 min of CPU time"
    )


@pytest.mark.parametrize(
    ("cpu_us", "said"),
    [
        (None, "is unknown"),
        # Too much for a rest, too little to say that both GPUs were at work.
        (700_000_000, "used 12 min of CPU time"),
    ],
)
def test_where_nobody_can_tell_whether_it_worked_before_it_is_a_guess(cpu_us, said):
    scene, _ = job_scene(start_at=START_AT - 7200)
    if cpu_us is not None:
        scene.cgroup("42", job_cpu_us=cpu_us)
    unused(scene, 3 * 3600)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert said in finding.evidence[-1].text


def test_what_worked_before_it_was_watched_was_used():
    scene, _ = job_scene(start_at=START_AT - 7200)
    scene.cgroup("42", job_cpu_us=9_400_000_000)
    unused(scene, 3 * 3600)
    assert findings(scene) == []


# Look-alikes


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("cgroup", {"job_io_write_bytes_per_s": 2e8}),
        ("cgroup", {"job_io_read_bytes_per_s": 2e8}),
        ("host", {"net_rx_bytes_per_s": 5e7}),
        ("host", {"disk_write_bytes_per_s": 5e7}),
    ],
)
def test_staging_or_installing_is_named_and_never_more_than_a_hypothesis(block, values):
    scene, _ = job_scene()
    scene.cgroup("42", **values) if block == "cgroup" else scene.host("n", **values)
    unused(scene, 600)
    assert findings(scene) == []
    unused(scene, 3 * 3600)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert f", but {max(values.values()) / 1e6:.1f} MB/s " in finding.summary


def test_a_job_that_computes_is_another_class():
    scene, _ = job_scene()
    scene.cgroup("42", job_cpu_cores_used=1.0)
    unused(scene, 3600)
    assert findings(scene) == []


def test_reading_from_a_parallel_file_system_or_over_rdma_is_staging():
    for told in ("mount", "nic"):
        scene, _ = job_scene()
        if told == "mount":
            scene.mount("n", "/scratch", fs_read_bytes_per_s=1e9, fs_write_bytes_per_s=0.0)
        else:
            scene.nic("n", "mlx5_0/1", nic_rx_bytes_per_s=1e9, nic_tx_bytes_per_s=0.0)
        unused(scene, 3600)
        (finding,) = findings(scene)
        assert finding.confidence == "hypothesis"
        assert ", but 1000.0 MB/s on mounted" in finding.summary or "ports" in finding.summary


def test_the_window_begins_when_the_staging_ends():
    scene, _ = job_scene()
    scene.cgroup("42", job_cpu_cores_used=3.0)
    unused(scene, 1200)
    scene.cgroup("42", job_cpu_cores_used=0.01)
    unused(scene, 1200)
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert START_AT + 1170 <= finding.window.start <= START_AT + 1320


def test_traffic_that_may_be_a_neighbours_caps_the_claim_and_is_named():
    scene = Scene(period_s=30.0)
    uuids = scene.node("n", 4)
    scene.job("42", uuids[:2], cpu_count=32)
    scene.job("43", uuids[2:], cpu_count=32)
    scene.host("n", cpu_busy_ratio=0.5, cpu_count=64, net_rx_bytes_per_s=1e9)
    scene.cgroup("42", job_cpu_cores_used=0.01, job_io_read_bytes_per_s=0.0, job_cpu_us=20_000_000)
    scene.run(5400, all_of(uuids[2:], WORKING))
    (finding,) = findings(scene)
    assert (finding.subject, finding.confidence) == ("job:42", "hypothesis")
    assert "1000.0 MB/s over the network, perhaps another job's" in finding.summary
    scene.host("n", net_rx_bytes_per_s=2e6)
    scene.run(1200, all_of(uuids[2:], WORKING))
    assert findings(scene)[0].confidence == "supported"


def test_a_job_that_worked_before_did_start():
    scene, uuids = job_scene()
    work(scene, uuids, 300)
    unused(scene, 3600)
    assert findings(scene) == []


def test_work_before_a_gap_in_the_telemetry_is_remembered():
    scene, uuids = job_scene()
    work(scene, uuids, 300)
    scene.skip(600)
    unused(scene, 3600)
    assert findings(scene) == []


@pytest.mark.parametrize(
    "other", [HELD, {**UNUSED, "process_count": 1.0}, {**UNUSED, "mem_used_bytes": 2.0 * 2**30}]
)
def test_one_gpu_that_is_held_is_enough_of_a_start(other):
    scene, uuids = job_scene()
    scene.run(3600, {uuids[0]: other})
    assert findings(scene) == []


def test_a_session_that_waits_for_its_user_is_another_class():
    for fields, parameters in (
        ({"is_interactive": True}, {}),
        ({"name": "lab"}, {"portal_names": "lab"}),
    ):
        scene, _ = job_scene(**fields)
        unused(scene, 3 * 3600)
        assert list(NeverStarted(**parameters).evaluate(scene.view())) == []


@pytest.mark.parametrize("fields", [{"name": "sys-jupyter-lab"}, {"qos": "debug"}, {"name": "api"}])
def test_no_name_hides_a_job_that_never_touched_its_gpus(fields):
    scene, _ = job_scene(**fields)
    unused(scene, 3 * 3600)
    assert len(findings(scene)) == 1


# What telemetry does not show


@pytest.mark.parametrize("key", NeverStarted.needs)
def test_without_one_of_the_fields_nothing_is_claimed(key):
    scene, uuids = job_scene()
    scene.run(3600, {uuids[0]: {**UNUSED, key: None}})
    assert findings(scene) == []


def test_a_gpu_cut_by_mig_has_no_utilisation_of_its_own():
    scene, uuids = job_scene()
    scene.gpu(uuids[0], mig_mode=1)
    unused(scene, 3600)
    assert findings(scene) == []


def test_stale_and_unnamed_gpus_are_not_idle():
    scene, uuids = job_scene()
    scene.run(3600, {}, stale=uuids[1:])
    assert findings(scene) == []
    scene, _ = job_scene(gpus_unknown=1)
    unused(scene, 3600)
    assert findings(scene) == []


def test_without_any_sight_of_the_cpus_it_stays_a_hypothesis():
    scene = Scene(period_s=30.0)
    scene.job("42", scene.node("n", 1), cpu_count=16)
    unused(scene, 5400)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert any(e.text.startswith("not seen:") for e in finding.evidence)


def test_without_a_cgroup_an_idle_node_proves_an_idle_job():
    scene = Scene(period_s=30.0)
    scene.job("42", scene.node("n", 1), cpu_count=16)
    scene.host("n", cpu_busy_ratio=0.001, cpu_count=64.0)
    unused(scene, 1200)
    assert findings(scene)[0].confidence == "supported"
    scene.host("n", cpu_busy_ratio=0.3, cpu_count=64.0)
    unused(scene, 600)
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert " CPUs busy" in finding.summary


def test_a_desktop_on_its_gpus_is_no_use_of_them():
    scene, uuids = job_scene(3)
    desktop = {**UNUSED, "process_count": 1.0, "compute_process_count": 0.0}
    scene.run(1500, all_of(uuids, desktop))
    (finding,) = findings(scene)
    assert finding.summary.startswith("3 GPUs held and not touched since it began")
    first = finding.evidence[0]
    assert (first.field, first.value) == ("compute_process_count", 0.0)
    assert first.text.startswith("3 GPUs: no compute process, utilisation 0 %")


def test_what_computes_beside_a_desktop_is_use():
    scene, uuids = job_scene(3)
    one = {**UNUSED, "process_count": 2.0, "compute_process_count": 1.0}
    scene.run(1500, {**all_of(uuids, UNUSED), uuids[1]: one})
    assert findings(scene) == []
