from __future__ import annotations

import pytest

from gpumon.detect.scene import HELD, START_AT, WORKING
from gpumon_detectors.requests.oversized_gpu import OversizedGpu
from tests.unit.gpumon_detectors.idle_scenes import all_of, job_scene, serve

HOUR = 3600.0
SMALL = {
    **WORKING,
    "mem_used_bytes": 6.0 * 2**30,
    "gpu_util_ratio": 0.3,
    "sm_active_ratio": 0.1,
}


def findings(scene, **parameters):
    return list(OversizedGpu(**parameters).evaluate(scene.view()))


def run(seconds, gpu_count=1, values=SMALL, *, other=None, **fields):
    scene, uuids = job_scene(gpu_count, **fields)
    scene.run(seconds, all_of(uuids, values, **(other or {})))
    return scene, uuids


@pytest.mark.parametrize(
    ("hours", "rest_s", "confidence"),
    [
        (1, 0, "hypothesis"),
        (2.5, 0, "supported"),
        (2.5, 60, "supported"),
        # It may be a server between two requests.
        (3, 480, "hypothesis"),
        (4.5, 480, "established"),
    ],
)
def test_it_is_claimed_for_sure_once_a_server_can_be_ruled_out(hours, rest_s, confidence):
    scene, uuids = job_scene(1)
    scene.run(240, all_of(uuids, {**SMALL, "gpu_util_ratio": 0.0}))
    scene.run(hours * HOUR - 2000, all_of(uuids, SMALL))
    scene.run(rest_s, all_of(uuids, {**SMALL, "gpu_util_ratio": 0.0}))
    scene.run(1800, all_of(uuids, SMALL))
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    assert 0 <= finding.window.start - START_AT <= 300


def test_a_window_of_two_hours_in_a_job_that_was_watched_longer_is_supported():
    scene, uuids = job_scene(1)
    scene.run(2.5 * HOUR, all_of(uuids, WORKING))
    scene.skip(900)
    scene.run(2.5 * HOUR, all_of(uuids, SMALL))
    (finding,) = findings(scene)
    assert finding.confidence == "supported"


def test_the_finding_says_what_it_rests_on_and_what_it_costs():
    scene, _ = run(5 * HOUR)
    (finding,) = findings(scene)
    length_s = finding.window.end - finding.window.start
    assert (finding.subject, finding.severity) == ("job:42", "warning")
    assert finding.evidence[0].text == (
        "6.0 GiB of memory in use for 95 % of the time, 8 % of the NVIDIA H100 80GB HBM3"
    )
    assert finding.evidence[1].field == "sm_active_ratio"
    assert finding.evidence[1].value == pytest.approx(0.1)
    # A slice has a seventh of the SMs.
    assert finding.gpu_seconds == pytest.approx(6 / 7 * length_s)


@pytest.mark.parametrize("engine", ["decoder_util_ratio", "encoder_util_ratio"])
@pytest.mark.parametrize(
    ("share", "is_claimed"), [(0.0, True), (0.009, True), (0.04, False), (0.7, False)]
)
def test_work_of_the_video_engines_is_work(engine, share, is_claimed):
    # Whether a slice or a smaller product has as many of them nobody says.
    scene, _ = run(5 * HOUR, values={**SMALL, "gpu_util_ratio": 0.06, engine: share})
    assert bool(findings(scene)) == is_claimed


def test_video_engines_that_worked_for_a_part_of_the_window_keep_it_from_being_claimed():
    scene, uuids = job_scene(1)
    scene.run(1 * HOUR, all_of(uuids, SMALL, decoder_util_ratio=0.5))
    scene.run(4 * HOUR, all_of(uuids, SMALL, decoder_util_ratio=0.0))
    assert findings(scene) == []


def run_on(product, seconds=5 * HOUR, *, site=(), **values):
    scene, uuids = job_scene(1)
    for number, (name, total) in enumerate(site):
        beside = scene.node(f"s{number}", 1, name)
        scene.gpu(beside[0], mem_total_bytes=total)
    scene.gpu(uuids[0], name=product)
    scene.run(seconds, all_of(uuids, SMALL, **values))
    return scene, uuids


V100 = ("Tesla V100-SXM2-32GB", 34.1e9)
T4 = ("Tesla T4", 15.8e9)
FITS_V100 = {"mem_total_bytes": V100[1], "mem_used_bytes": 3.1e9}


@pytest.mark.parametrize(
    "product", ["NVIDIA A100-SXM4-80GB", "NVIDIA H200", "NVIDIA B200", "NVIDIA GB200"]
)
def test_what_mig_can_cut_is_billed_for_what_a_slice_leaves(product):
    scene, _ = run_on(product)
    (finding,) = findings(scene)
    assert "would fit into a slice" in finding.summary
    assert "MIG" in finding.advice[0]


@pytest.mark.parametrize("product", [V100[0], "NVIDIA L40S", "Quadro RTX 8000"])
def test_where_nothing_smaller_can_be_had_others_may_share_it(product):
    scene, _ = run_on(product, **FITS_V100)
    (finding,) = findings(scene)
    assert finding.confidence.value == "hypothesis"
    assert "would leave room for 3 more like it" in finding.summary
    assert not any("MIG" in line or "Or " in line for line in finding.advice[:1])
    length_s = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx(0.75 * length_s)


@pytest.mark.parametrize(
    ("mem_bytes", "sm", "others"),
    # With a fifth to spare three times .21 of the memory, and four times .19 of the SMs.
    [(7.2e9, 0.05, 2), (3.1e9, 0.19, 3), (8.4e9, 0.05, 2)],
)
def test_as_many_may_share_it_as_fit_with_a_fifth_to_spare(mem_bytes, sm, others):
    values = {**FITS_V100, "mem_used_bytes": mem_bytes, "sm_active_ratio": sm}
    scene, _ = run_on(V100[0], **values)
    (finding,) = findings(scene)
    assert f"room for {others} more like it" in finding.summary
    length_s = finding.window.end - finding.window.start
    assert finding.gpu_seconds == pytest.approx((1 - 1 / (others + 1)) * length_s)


def test_where_no_second_run_has_room_nothing_is_claimed():
    scene, _ = run_on(V100[0], **{**FITS_V100, "mem_used_bytes": 15.1e9})
    assert findings(scene, mem_ratio=0.5) == []


def test_a_smaller_product_of_the_site_is_named_and_bills_its_share():
    scene, _ = run_on(V100[0], site=(T4, ("NVIDIA L40S", 47e9)), **FITS_V100)
    (finding,) = findings(scene)
    assert "would fit into a Tesla T4" in finding.summary
    assert not any("MIG" in line for line in finding.advice)
    length_s = finding.window.end - finding.window.start
    # Half of the memory and 65 of 125 TFLOPS.
    assert finding.gpu_seconds == pytest.approx((1 - 65 / 125) * length_s)


def test_a_smaller_product_must_have_the_memory():
    scene, _ = run_on("NVIDIA L40S", site=(T4,), mem_total_bytes=47e9, mem_used_bytes=11.4e9)
    assert "T4" in findings(scene)[0].summary
    scene, _ = run_on(V100[0], site=(("Tesla T4", 3.5e9),), **FITS_V100)
    assert "T4" not in findings(scene)[0].summary


def test_an_unknown_product_with_a_mig_mode_can_be_cut():
    scene, uuids = job_scene(1)
    scene.gpu(uuids[0], name="NVIDIA H20", mig_mode=0)
    scene.run(5 * HOUR, all_of(uuids, SMALL))
    assert len(findings(scene)) == 1


@pytest.mark.parametrize("period_s", [10.0, 60.0])
def test_sm_activity_of_zero_beside_much_work_is_a_counter_that_does_not_work(period_s):
    scene, uuids = job_scene(1, period_s=period_s)
    dead = {
        "gpu_util_ratio": 0.93,
        "sm_active_ratio": 0.0,
        "power_w": 590.0,
        "power_limit_w": 700.0,
    }
    scene.run(5 * HOUR, all_of(uuids, SMALL, **dead))
    assert findings(scene) == []


def test_a_dead_counter_leaves_utilisation_to_bound_the_work():
    scene, uuids = job_scene(1)
    dead = {"sm_active_ratio": 0.0, "power_w": 430.0, "power_limit_w": 700.0}
    for _ in range(60):
        scene.run(60, all_of(uuids, SMALL, **dead, gpu_util_ratio=0.55))
        scene.run(240, all_of(uuids, SMALL, **dead, gpu_util_ratio=0.04))
    (finding,) = findings(scene)
    assert finding.evidence[1].field == "gpu_util_ratio"
    assert any("not believed" in evidence.text for evidence in finding.evidence)


def test_a_lone_small_kernel_on_a_cool_gpu_is_believed():
    scene, uuids = job_scene(1)
    lone = {"gpu_util_ratio": 0.9, "sm_active_ratio": 0.0, "power_w": 120.0, "power_limit_w": 700.0}
    scene.run(5 * HOUR, all_of(uuids, SMALL, **lone))
    assert len(findings(scene)) == 1


# Look-alikes


@pytest.mark.parametrize(
    "other",
    [
        {"mem_used_bytes": 30.0 * 2**30},
        {"sm_active_ratio": 0.4},
        {"mem_total_bytes": 24e9, "mem_used_bytes": 2e9},
        {"gpu_util_ratio": 0.01, "sm_active_ratio": 0.005},
    ],
    ids=["memory is used", "SMs are used", "a small board", "idle"],
)
def test_what_needs_the_gpu_or_does_not_use_it_at_all(other):
    scene, _ = run(5 * HOUR, other=other)
    assert findings(scene) == []


def test_memory_that_is_needed_now_and_then_counts():
    scene, uuids = job_scene(1)
    for _ in range(10):
        scene.run(1500, all_of(uuids, SMALL))
        scene.run(300, all_of(uuids, SMALL, mem_used_bytes=60.0 * 2**30))
    scene.run(300, all_of(uuids, SMALL))
    assert findings(scene) == []


def test_several_gpus_are_used_together():
    scene, _ = run(5 * HOUR, gpu_count=2)
    assert findings(scene) == []


def test_a_session_is_another_class():
    scene, _ = run(5 * HOUR, is_interactive=True)
    assert findings(scene) == []


def test_inference_with_a_deadline_stays_a_hypothesis():
    scene, _ = run(5 * HOUR, name="rank-api")
    assert findings(scene)[0].confidence == "hypothesis"
    scene, uuids = job_scene(1)
    small = {"mem_used_bytes": 6.0 * 2**30}
    for _ in range(20):
        scene.run(300, all_of(uuids, WORKING, **small, sm_active_ratio=0.3))
        scene.run(600, all_of(uuids, HELD, **small, sm_active_ratio=0.0))
    (finding,) = findings(scene)
    assert finding.confidence == "hypothesis"
    assert "may be a server" in finding.evidence[-1].text


def test_a_large_server_is_not_oversized():
    scene, uuids = job_scene(1)
    serve(scene, uuids, 5 * HOUR)
    assert findings(scene) == []


# What telemetry does not show


@pytest.mark.parametrize("key", OversizedGpu.needs)
def test_without_one_of_the_fields_nothing_is_claimed(key):
    scene, _ = run(5 * HOUR, other={key: None})
    assert findings(scene) == []


def test_without_sm_counters_utilisation_bounds_them():
    scene, _ = run(5 * HOUR, other={"sm_active_ratio": None})
    assert findings(scene) == []
    scene, _ = run(5 * HOUR, other={"sm_active_ratio": None, "gpu_util_ratio": 0.15})
    (finding,) = findings(scene)
    assert finding.evidence[1].field == "gpu_util_ratio"
    assert finding.evidence[1].text.startswith("utilisation, which bounds SM activity, 15 %")


def test_a_slice_a_stale_and_an_unnamed_gpu_are_not_judged():
    scene, uuids = job_scene(1)
    scene.gpu(uuids[0], mig_mode=1)
    scene.run(5 * HOUR, all_of(uuids, SMALL))
    assert findings(scene) == []
    scene, uuids = job_scene(1)
    scene.run(5 * HOUR, all_of(uuids, SMALL), stale=uuids)
    assert findings(scene) == []
    scene, _ = run(3 * HOUR, gpu_count=1, gpus_unknown=1)
    assert findings(scene) == []


@pytest.mark.parametrize(
    ("util", "confidence"),
    [(0.3, "established"), (0.44, "established"), (0.56, "hypothesis"), (0.86, "hypothesis")],
)
def test_kernels_that_run_half_of_the_time_may_only_be_small(util, confidence):
    scene, _ = run(5 * HOUR, other={"gpu_util_ratio": util})
    (finding,) = findings(scene)
    assert finding.confidence == confidence
    said = [line.text for line in finding.evidence if "they may only be small" in line.text]
    assert bool(said) is (confidence == "hypothesis")


@pytest.mark.parametrize(
    ("cores", "util", "is_said"),
    [(0.99, 0.3, True), (0.4, 0.3, False), (2.6, 0.3, False), (0.99, 0.15, False)],
)
def test_kernels_that_one_cpu_launches_are_said_to_be_small(cores, util, is_said):
    """What eager PyTorch showed on an H200; the last ones fill the SMs while they run."""
    scene, uuids = job_scene(1)
    scene.cgroup("42", job_cpu_cores_used=cores)
    scene.run(5 * HOUR, all_of(uuids, SMALL, gpu_util_ratio=util))
    (finding,) = findings(scene)
    assert finding.confidence == "established"
    said = [line.text for line in finding.evidence if "launches them one by one" in line.text]
    assert bool(said) is is_said
    assert any("CUDA graphs" in line for line in finding.advice) is is_said


def test_without_sm_counters_much_utilisation_is_no_sign_of_small_kernels():
    scene, _ = run(5 * HOUR, other={"gpu_util_ratio": 0.86, "sm_active_ratio": None})
    assert findings(scene) == []
