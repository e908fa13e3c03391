"""Jobs that pause for copies, and those that only copy much."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene
from gpumon_detectors.work.copy_bound import CopyBound
from tests.unit.gpumon_detectors.idle_scenes import all_of
from tests.unit.gpumon_detectors.work_scenes import GIB, PIPES, TRAINS, glances, running

COPIES = {
    **TRAINS,
    "gpu_util_ratio": 0.46,
    "sm_active_ratio": 0.33,
    "tensor_active_ratio": 0.16,
    "power_w": 300.0,
    "pcie_rx_bytes_per_s": 13e9,
    "pcie_tx_bytes_per_s": 9e8,
    "pcie_gen_max": 5.0,
    "pcie_width_max": 16.0,
}


def findings(scene):
    return list(CopyBound().evaluate(scene.view()))


def claims(values, seconds=1500.0, *, gpus=2, **how):
    return findings(running(values, seconds, gpus=gpus, **how))


def test_pauses_for_copies_are_claimed_with_what_they_cost():
    (finding,) = claims(COPIES)
    assert (finding.subject, finding.confidence) == ("job:42", "supported")
    assert finding.summary.startswith("pauses for copies from the host since")
    assert finding.evidence[0].text == (
        "13.0 GB/s from the host, 21 % of what PCIe carries, on average"
    )
    assert finding.gpu_seconds == pytest.approx(2 * 1500.0 * 0.49, rel=0.1)


@pytest.mark.parametrize(("share", "confidence"), [(0.5, "established"), (0.95, None)])
def test_glances_at_utilisation_once_a_minute_tell_in_the_long_run(share, confidence):
    found = claims({**COPIES, "gpu_util_ratio": glances(share, 9)}, 3600.0, period_s=60.0)
    assert [one.confidence for one in found] == ([confidence] if confidence else [])


def test_copies_that_count_as_utilisation_are_no_work():
    """An H200 that hardly did anything else: utilisation 1.0, SMs .03."""
    copies = {"gpu_util_ratio": 1.0, "sm_active_ratio": 0.04, "pcie_rx_bytes_per_s": 39e9}
    (finding,) = claims({**COPIES, **copies})
    # Its utilisation is 1; a minute of training before counts as well.
    assert 0.07 < finding.evidence[1].value < 0.16
    assert finding.gpu_seconds == pytest.approx(2 * 1500.0 * 0.83, rel=0.1)
    assert claims({**COPIES, **copies, "pcie_rx_bytes_per_s": 11e9}) == []


def test_copies_to_the_host_are_claimed_too():
    other = {"pcie_rx_bytes_per_s": 9e8, "pcie_tx_bytes_per_s": 13e9}
    (finding,) = claims({**COPIES, **other})
    assert finding.summary.startswith("pauses for copies to the host since")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(TRAINS, id="healthy"),
        pytest.param({**COPIES, "pcie_tx_bytes_per_s": 12.6e9}, id="optimizer on the host"),
        pytest.param({**COPIES, "gpu_util_ratio": 0.97}, id="copies beside kernels"),
        pytest.param({**COPIES, "gpu_util_ratio": 0.01}, id="loads its weights"),
        pytest.param({**COPIES, "sm_active_ratio": 0.81}, id="SMs well used"),
        pytest.param({**COPIES, "pcie_rx_bytes_per_s": 2e9}, id="few copies"),
        pytest.param({**COPIES, "pcie_width": 4.0}, id="narrow slot"),
        pytest.param({**COPIES, "decoder_util_ratio": 0.5}, id="video"),
    ],
)
def test_what_looks_alike_is_not_claimed(values):
    assert claims(values, 3000.0) == []


@pytest.mark.parametrize(
    ("gen", "rate", "count"),
    [(4.0, 4.4e9, 1), (5.0, 4.4e9, 1), (6.0, 4.4e9, 1), (5.0, 2.7e9, 0), (6.0, 2.7e9, 0)],
)
def test_a_faster_link_does_not_speed_up_what_a_cpu_copies_first(gen, rate, count):
    """Memory that is not pinned: 7 GB/s while the GPU pauses, whatever the link could carry."""
    values = {"gpu_util_ratio": 0.38, "sm_active_ratio": 0.27, "pcie_rx_bytes_per_s": rate}
    link = {"pcie_gen": gen, "pcie_gen_max": gen}
    found = claims({**COPIES, **values, **link}, 1700.0, gpus=1)
    assert [one.confidence for one in found] == ["supported"] * count


@pytest.mark.parametrize(("rate", "count"), [(2.1e10, 1), (5.5e9, 0)])
def test_kernels_that_fill_the_sms_pause_as_well(rate, count):
    """Copies near the link's rate fill the pauses; slower ones may be a small part of them."""
    values = {"gpu_util_ratio": 0.63, "sm_active_ratio": 0.58, "pcie_rx_bytes_per_s": rate}
    found = claims({**COPIES, **values}, 1300.0)
    assert len(found) == count
    for one in found:
        assert one.gpu_seconds == pytest.approx(2 * 1300.0 * 0.32, rel=0.1)


BOTH = {
    **COPIES,
    "gpu_util_ratio": 0.98,
    "sm_active_ratio": 0.06,
    "mem_used_bytes": 9.0 * GIB,
    "pcie_rx_bytes_per_s": 24e9,
    "pcie_tx_bytes_per_s": 21e9,
}
"""A batch comes, and goes back as it came."""


def test_copies_both_ways_beside_free_memory_are_a_guess():
    (finding,) = claims(BOTH, 3000.0, gpus=1, cores=1.1)
    assert finding.confidence == "hypothesis"
    assert finding.summary.startswith("pauses for copies to and from the host since")
    assert "24.0 GB/s from the host and 21.0 GB/s to it" in finding.evidence[0].text
    assert "by design" in finding.evidence[-1].text
    assert finding.gpu_seconds == pytest.approx(3000.0 * 0.83, rel=0.1)


@pytest.mark.parametrize(
    ("values", "how"),
    [
        # State that does not fit; ranks that exchange; a CPU that takes the optimizer's steps.
        ({"mem_used_bytes": 52.0 * GIB}, {}),
        ({}, {"gpus": 2}),
        ({}, {"cores": 5.0}),
        ({"mem_total_bytes": None}, {}),
    ],
)
def test_what_comes_and_goes_alike_for_a_reason_is_not_claimed(values, how):
    assert claims({**BOTH, **values}, 3000.0, **{"gpus": 1, "cores": 1.1, **how}) == []


def test_cpus_at_their_limit_set_the_pace():
    assert claims(COPIES, cores=29.0) == []


@pytest.mark.parametrize(("at", "count"), [("1", 0), ("0", 1), ("0,1", 1)])
def test_copies_across_sockets_are_named_by_their_cause(at, count):
    scene = running(COPIES, 600.0, gpus=2)
    (job,) = scene.view().jobs
    (node,) = job.job.nodes
    scene.host(node, numa_distances="0:10,21 1:21,10")
    for place, uuid in enumerate(job.uuids):
        scene.gpu(uuid, gpu_numa_node=0)
        scene.process(70 + place, [uuid], job_id="42", cpu_numa_nodes=at, cpus_allowed="24-47")
    scene.run(900.0, dict.fromkeys(job.uuids, COPIES))
    assert len(findings(scene)) == count


def test_what_does_not_fit_may_come_from_the_host_by_design():
    (finding,) = claims({**COPIES, "mem_used_bytes": 75.0 * GIB})
    assert finding.confidence == "hypothesis"
    assert "94 % of the memory in use" in finding.evidence[-1].text


def test_a_checkpoint_that_is_copied_is_over_soon():
    def how(_place):
        return {
            **TRAINS,
            "pcie_tx_bytes_per_s": lambda s: 2e10 if s % 900 < 40 else 1e7,
            "gpu_util_ratio": lambda s: 0.0 if s % 900 < 40 else 0.97,
        }

    assert claims(how, 3000.0) == []


PLAIN = {key: value for key, value in COPIES.items() if key not in PIPES}


def plain_claims(**values):
    """Of a job on boards that never told SM activity."""
    scene = Scene(10.0, span_s=24 * 3600.0)
    uuids = scene.node("n", 2)
    scene.job("42", uuids)
    scene.run(2400.0, all_of(uuids, {**PLAIN, **values}))
    return findings(scene)


def test_without_sm_counters_it_is_a_guess_that_says_so():
    """Glances at utilisation tell on average that kernels pause, not how many SMs they fill."""
    (finding,) = plain_claims()
    assert finding.confidence == "hypothesis"
    assert "SM activity is not reported" in finding.evidence[-1].text
    assert finding.gpu_seconds == pytest.approx(2 * 2400.0 * 0.49, rel=0.15)
    (finding,) = plain_claims(gpu_util_ratio=glances(0.46, 3))
    assert finding.confidence == "hypothesis"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"pcie_tx_bytes_per_s": 12.6e9}, id="optimizer on the host"),
        pytest.param({"gpu_util_ratio": 0.97}, id="copies beside kernels"),
        pytest.param({"gpu_util_ratio": 0.01}, id="loads its weights"),
        pytest.param({"pcie_rx_bytes_per_s": 2e9}, id="copies too few for its pauses"),
        pytest.param({"pcie_rx_bytes_per_s": None, "pcie_tx_bytes_per_s": None}, id="no counters"),
    ],
)
def test_what_looks_alike_is_not_guessed_without_them(values):
    assert plain_claims(**values) == []
