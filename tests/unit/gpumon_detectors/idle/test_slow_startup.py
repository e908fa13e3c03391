from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, UNUSED, Scene, held, working
from gpumon_detectors.idle.slow_startup import SlowStartup


def scene_with_job(cores=12.0, **given):
    scene = Scene(given.pop("period_s", 10.0), span_s=4 * 3600.0)
    uuids = scene.node("n1", 4)
    scene.job("42", uuids, **{"cpu_count": 32, **given})
    if cores is not None:
        scene.cgroup(
            "42",
            job_cpu_cores_used=cores,
            job_io_read_bytes_per_s=0.0,
            job_io_write_bytes_per_s=0.0,
        )
    return scene, uuids


def findings(scene, **parameters):
    return list(SlowStartup(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "limit_s", "confidence"),
    [
        (700, None, "hypothesis"),
        (1500, 43_200.0, "hypothesis"),
        (1500, 14_400.0, "established"),
        (1900, None, "established"),
        (1900, 86_400.0, "established"),
    ],
)
def test_a_start_is_sure_only_where_it_is_long_however_long_the_run_will_be(
    seconds, limit_s, confidence
):
    """Ten minutes of compiling before a run of a day are no waste, and nobody knows that yet."""
    scene, uuids = scene_with_job(time_limit_s=limit_s)
    scene.run(seconds, held(uuids))
    scene.run(120, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == confidence


def test_a_start_that_took_a_quarter_of_an_hour():
    scene, uuids = scene_with_job(time_limit_s=7200.0)
    scene.run(900, held(uuids))
    scene.run(300, working(uuids))
    (finding,) = findings(scene)
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.confidence == "established"
    assert (finding.onset, finding.window.end) == (START_AT, START_AT + 890)
    assert finding.gpu_seconds == 4 * 890
    assert finding.summary == (
        "slow start: the first GPU started work after 15 min, 75 % of the run; 4 GPUs waited"
    )
    assert finding.evidence[1].text == "meanwhile 12.0 of 32 CPUs busy, 0.0 MB/s read or written"


def test_a_start_that_still_goes_on_is_not_established():
    scene, uuids = scene_with_job(time_limit_s=7200.0)
    scene.run(1800, held(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert finding.summary.startswith("slow start: no GPU has worked in the 30 min since")


def test_a_gpu_that_trickles_may_have_begun():
    """Training on what one process prepares: .0035 of an H200's SMs, below any sign of work."""
    for sm, confidence in ((0.0034, "hypothesis"), (0.0008, "supported")):
        scene, uuids = scene_with_job()
        trickle = {"gpu_util_ratio": 0.0, "sm_active_ratio": sm}
        scene.run(2400, {uuid: {**HELD, **trickle} for uuid in uuids})
        (finding,) = findings(scene)
        assert finding.confidence == confidence
        assert ("wait for its input" in finding.evidence[-1].text) == (confidence == "hypothesis")


@pytest.mark.parametrize(
    ("util", "sm", "confidence"),
    [
        (0.02, 0.0011, "hypothesis"),  # a loop between simulator and small network
        (0.0, 0.0011, "supported"),  # a compiler that tries its kernels
        (0.03, 0.0, "supported"),  # copies count as utilisation, and run on no SM
    ],
)
def test_kernels_that_every_sample_meets_may_be_the_work(util: float, sm: float, confidence: str):
    scene, uuids = scene_with_job()
    scene.run(
        2700, {uuid: {**HELD, "gpu_util_ratio": util, "sm_active_ratio": sm} for uuid in uuids}
    )
    (finding,) = findings(scene)
    assert finding.confidence == confidence


def test_a_tenth_of_the_time_limit_is_much_of_a_short_run():
    scene, uuids = scene_with_job(time_limit_s=1800.0)
    scene.run(240, held(uuids))
    assert findings(scene) == []
    scene.run(120, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_reading_without_cpu_is_work_too():
    scene, uuids = scene_with_job(cores=0.01)
    scene.cgroup("42", job_io_read_bytes_per_s=200e6)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.evidence[1].text.endswith("200.0 MB/s read or written")


def test_loading_over_the_network_is_seen_where_the_job_is_alone():
    scene, uuids = scene_with_job(cores=0.01)
    scene.host("n1", net_rx_bytes_per_s=500e6)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    assert len(findings(scene)) == 1
    scene.job("43", scene.node("n2", 1), nodes=("n1", "n2"))
    scene.run(60, working(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize(("cores", "confidence"), [(0.05, "hypothesis"), (0.2, "supported")])
def test_what_the_job_had_no_cpu_time_for_may_be_anothers(cores, confidence):
    """Whoever receives 480 MB/s keeps an eighth of a CPU busy at least."""
    scene, uuids = scene_with_job(cores=cores)
    scene.host("n1", net_rx_bytes_per_s=480e6)
    scene.run(2400, held(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    doubts = [one.text for one in finding.evidence if "another's" in one.text]
    assert len(doubts) == (confidence == "hypothesis")


def test_a_flicker_of_use_does_not_end_the_start():
    scene, uuids = scene_with_job()
    scene.run(300, held(uuids))
    scene.run(20, working(uuids))
    scene.run(600, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.window.end == START_AT + 910


def built(seconds=1260.0, cores=9.0, limit_s=86_400.0, moved=None, **unopened):
    """A start of which nothing opens a GPU, then half a minute of loading, then work."""
    scene, uuids = scene_with_job(cores, time_limit_s=limit_s)
    scene.host("n1", **(moved or {"net_rx_bytes_per_s": 2e7, "disk_write_bytes_per_s": 4e7}))
    scene.run(seconds, {uuid: {**UNUSED, **unopened} for uuid in uuids})
    scene.run(30, held(uuids))
    scene.run(120, working(uuids))
    return scene


def test_a_build_before_anything_opens_a_gpu_needs_none():
    """Compilers and package managers: much CPU time, few bytes, and no GPU is looked at."""
    (finding,) = findings(built())
    assert finding.confidence == "supported"
    assert finding.evidence[2].text == (
        "nothing had opened a GPU for the first 21 min: CPUs computed for 21 min of them, and did "
        "not merely copy"
    )


NO_BUILDS = {
    "a graph is compiled on the GPU": {"process_count": 1.0},
    "weights are loaded": {"mem_used_bytes": 30.0 * 2**30},
    "nobody knows who opens the GPUs": {"process_count": None},
    "data are copied": {"moved": {"net_rx_bytes_per_s": 6e8}},
    "small files are copied": {"moved": {"net_rx_bytes_per_s": 1e6, "disk_write_bytes_per_s": 5e8}},
    "the network is not seen": {"moved": {"disk_write_bytes_per_s": 4e7}},
    "each of four ranks polls": {"cores": 4.4},
    "it is too short": {"seconds": 590.0},
    "the run is of days": {"limit_s": 3 * 86_400.0},
    "the run may last for ever": {"limit_s": None},
}


@pytest.mark.parametrize("what", NO_BUILDS)
def test_what_a_gpu_may_be_needed_for_stays_a_hypothesis(what):
    (finding,) = findings(built(**NO_BUILDS[what]))
    assert finding.confidence == "hypothesis"


def test_a_build_that_waits_for_most_of_the_time_is_no_work():
    scene, uuids = scene_with_job(time_limit_s=43_200.0)
    scene.host("n1", net_rx_bytes_per_s=2e6)
    scene.run(480, dict.fromkeys(uuids, UNUSED))
    scene.cgroup("42", job_cpu_cores_used=0.1)
    scene.run(840, dict.fromkeys(uuids, UNUSED))
    scene.run(120, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"


# Look-alikes


def test_a_start_within_ten_minutes():
    scene, uuids = scene_with_job()
    scene.run(500, held(uuids))
    scene.run(100, working(uuids))
    assert findings(scene) == []


def test_a_start_that_is_over_is_told_for_ten_minutes():
    scene, uuids = scene_with_job()
    scene.run(1300, held(uuids))
    scene.run(570, working(uuids))
    (finding,) = findings(scene)
    assert finding.window.end == START_AT + 1290
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_a_job_that_rests_from_its_start_is_another_class():
    scene, uuids = scene_with_job(cores=0.0)
    scene.run(1800, held(uuids))
    assert findings(scene) == []


def test_an_idle_phase_later_is_another_class():
    scene, uuids = scene_with_job()
    scene.run(60, working(uuids))
    scene.run(1800, held(uuids))
    assert findings(scene) == []


def test_one_gpu_at_work_is_a_start_that_is_over():
    scene, uuids = scene_with_job()
    scene.run(1800, {**held(uuids), **working(uuids[:1])})
    assert findings(scene) == []


def test_somebody_types_first():
    scene, uuids = scene_with_job(is_interactive=True)
    scene.run(1800, held(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize("name", ["jupyter", "vllm", "prep_server"])
def test_a_name_makes_the_claim_less_sure(name):
    scene, uuids = scene_with_job(name=name)
    scene.run(1300, held(uuids))
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert "named" in finding.evidence[-1].text


@pytest.mark.parametrize("load_s", [60, 240])
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_server_that_waits_for_its_first_request(load_s, is_asked):
    scene, uuids = scene_with_job()
    scene.run(load_s, held(uuids, mem_used_bytes=lambda s: s * 64e9 / load_s))
    scene.cgroup("42", job_cpu_cores_used=4.0)
    scene.run(1100, held(uuids, mem_used_bytes=64e9))
    if is_asked:
        scene.run(120, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.evidence[-1].text.startswith("may be a server that waits for its first request")


def test_a_wait_behind_a_slow_start_is_not_part_of_it():
    scene, uuids = scene_with_job(time_limit_s=7200.0)
    scene.run(900, held(uuids, mem_used_bytes=lambda s: s * 7e7))
    scene.cgroup("42", job_cpu_cores_used=2.5)
    scene.run(500, held(uuids, mem_used_bytes=63e9))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    assert finding.window.end == pytest.approx(START_AT + 900, abs=130)
    assert "slow start: loading took 1" in finding.summary


@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
@pytest.mark.parametrize(
    "sign",
    [
        {"sm_active_ratio": lambda s: 0.1 + 0.3 * (s % 7) / 7, "power_w": 260.0},
        {"power_w": lambda s: 110.0 if s % 4 < 2 else 371.0},
        {"sm_active_ratio": None, "power_w": None, "pcie_rx_bytes_per_s": 4e9},
        {"sm_active_ratio": None, "power_w": None, "nvlink_tx_bytes_per_s": 4e9},
    ],
)
def test_an_input_bound_job_works(period_s, sign):
    scene, uuids = scene_with_job(period_s=period_s)
    idle = {"gpu_util_ratio": lambda s: 0.3 if int(s // period_s) % 4 == 3 else 0.0}
    scene.run(240, held(uuids))
    scene.run(2400, held(uuids, **idle, **sign))
    assert findings(scene) == []


@pytest.mark.parametrize(
    "sign",
    [
        {"sm_active_ratio": 0.12},
        {"sm_active_ratio": 0.0, "power_w": lambda s: 110.0 if s % 40 < 20 else 371.0},
        {"sm_active_ratio": 0.0, "pcie_rx_bytes_per_s": 4e9},
        {"sm_active_ratio": 0.0, "nvlink_tx_bytes_per_s": 4e9},
    ],
)
def test_each_sign_of_work_is_believed_alone(sign):
    scene, uuids = scene_with_job()
    scene.run(240, held(uuids))
    scene.run(2400, held(uuids, gpu_util_ratio=0.02, **sign))
    assert findings(scene) == []


def test_a_counter_that_does_not_work_hides_no_work():
    scene, uuids = scene_with_job()
    scene.run(120, held(uuids))
    scene.run(1800, working(uuids, sm_active_ratio=0.0))
    assert findings(scene) == []


def test_a_start_that_nobody_saw():
    scene, uuids = scene_with_job(start_at=START_AT - 3600.0)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_a_start_with_a_gap_is_a_hypothesis_and_charged_as_far_as_it_was_seen():
    scene, uuids = scene_with_job()
    scene.run(300, held(uuids))
    scene.skip(400)
    scene.run(600, held(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert finding.gpu_seconds == 4 * (290 + 590)
    scene.skip(1800)
    scene.run(60, held(uuids))
    assert findings(scene) == []


# Missing fields


def test_without_utilisation_nothing_is_claimed():
    scene, uuids = scene_with_job()
    scene.run(900, held(uuids, gpu_util_ratio=None))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_without_the_control_group_nothing_is_claimed():
    scene, uuids = scene_with_job(cores=None)
    scene.run(900, held(uuids))
    scene.run(60, working(uuids))
    assert findings(scene) == []


def test_a_job_of_which_gpus_are_not_named():
    scene, uuids = scene_with_job(gpus_unknown=2)
    scene.run(1800, held(uuids))
    assert findings(scene) == []


@pytest.mark.parametrize("hours", [2.1, 3.4])
@pytest.mark.parametrize("early_s", [0.0, 140.0])
def test_a_start_of_hours_is_told_once_it_is_over(hours, early_s):
    """Its first rows are five minutes long by then."""
    scene = Scene(30.0, span_s=24 * 3600.0)
    uuids = scene.node("n1", 4)
    scene.run(early_s, {})
    begin = scene.next_at
    scene.job("42", uuids, cpu_count=64)
    scene.cgroup("42", job_cpu_cores_used=1.6, job_io_read_bytes_per_s=7.1e7)
    scene.run(hours * 3600, {})
    scene.run(400, working(uuids))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    assert finding.onset == pytest.approx(begin, abs=330)
    assert finding.gpu_seconds == pytest.approx(4 * hours * 3600, rel=0.06)


@pytest.mark.parametrize("engine", ["encoder_util_ratio", "decoder_util_ratio"])
def test_video_engines_at_work_are_work(engine):
    scene, uuids = scene_with_job(3.0)
    scene.run(120, held(uuids))
    scene.run(2400, held(uuids, **{engine: 0.4, "gpu_util_ratio": 0.03}))
    assert findings(scene) == []


@pytest.mark.parametrize(
    ("cores", "read", "values", "confidence"),
    [
        (17.0, 50e6, UNUSED, "hypothesis"),
        (30.0, 0.0, UNUSED, "hypothesis"),
        (3.0, 50e6, UNUSED, "hypothesis"),
        (3.0, 50e6, {**UNUSED, "process_count": 1.0}, "supported"),
        (30.0, 0.0, HELD, "supported"),
    ],
)
def test_who_opens_no_gpu_may_need_none(cores, read, values, confidence):
    """However few CPUs compute, whatever is read: jobs that never start do that too."""
    scene, uuids = scene_with_job(cores=cores)
    scene.cgroup("42", job_io_read_bytes_per_s=read)
    scene.run(2400, {uuid: dict(values) for uuid in uuids})
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    said = [one.text for one in finding.evidence]
    assert any("needs none starts the same way" in text for text in said) is (
        confidence == "hypothesis"
    )


def test_a_start_like_a_cpu_jobs_was_one_once_a_gpu_works():
    scene, uuids = scene_with_job(cores=30.0)
    scene.run(2400, {uuid: dict(UNUSED) for uuid in uuids})
    scene.run(60, working(uuids))
    (finding,) = findings(scene)
    assert (finding.confidence, finding.gpu_seconds) == ("established", 4 * 2390)
