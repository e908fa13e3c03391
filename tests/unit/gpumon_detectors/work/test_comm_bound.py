"""Jobs whose time goes into the exchange of data, and those that only look so."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene
from gpumon_detectors.work.comm_bound import CommBound
from tests.unit.gpumon_detectors.idle_scenes import all_of
from tests.unit.gpumon_detectors.work_scenes import (
    EXCHANGES,
    PIPES,
    SMALL,
    TRAINS,
    all_do,
    running,
    wavy,
)


def findings(scene):
    return list(CommBound().evaluate(scene.view()))


def claims(values, seconds=1500.0, **how):
    return findings(running(values, seconds, **how))


def sure(found):
    return [finding for finding in found if finding.confidence != "hypothesis"]


def test_an_exchange_that_nothing_hides_is_claimed_with_what_it_costs():
    (finding,) = claims(EXCHANGES)
    assert (finding.subject, finding.confidence) == ("job:42", "supported")
    assert finding.summary.startswith("about 64 % of its time goes into the exchange of data since")
    assert "NVLinks carry 174.0 GB/s each way, 39 % of their peak" in finding.evidence[0].text
    # A tenth is usual; no more than the SMs are short of being filled.
    assert finding.gpu_seconds == pytest.approx(4 * 1500.0 * 0.544, rel=0.1)


def test_it_grows_surer_with_time():
    steps = {480.0: "hypothesis", 1200.0: "supported", 2400.0: "established"}
    for seconds, confidence in steps.items():
        assert [f.confidence for f in claims(EXCHANGES, seconds)] == [confidence]


@pytest.mark.parametrize("share", [0.46, 0.49])
def test_less_than_half_of_the_time_may_be_the_experts_design(share):
    rate = share * 0.6 * 450e9
    links = {"nvlink_rx_bytes_per_s": rate, "nvlink_tx_bytes_per_s": rate}
    (finding,) = claims({**EXCHANGES, **links}, 3000.0)
    assert finding.confidence == "hypothesis"
    assert "may be by design: experts on all ranks exchange their tokens this way" in {
        line.text for line in finding.evidence
    }


@pytest.mark.parametrize("other", [{"sm_active_ratio": 0.47}, {"tensor_active_ratio": 0.22}])
def test_an_exchange_that_leaves_room_for_more_is_partly_hidden(other):
    links = {"nvlink_rx_bytes_per_s": 2.3e11, "nvlink_tx_bytes_per_s": 2.3e11}
    (finding,) = claims({**EXCHANGES, **links, **other}, 3000.0)
    assert finding.confidence == "hypothesis"
    assert "a part is hidden" in finding.evidence[-1].text


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(TRAINS, id="healthy"),
        pytest.param({**EXCHANGES, **{k: TRAINS[k] for k in PIPES}}, id="hidden exchange"),
        pytest.param({**EXCHANGES, "tensor_active_ratio": 0.41}, id="tensor cores at work"),
        pytest.param({**EXCHANGES, "dram_active_ratio": 0.6}, id="memory-bound recommender"),
        pytest.param(
            {**EXCHANGES, "nvlink_rx_bytes_per_s": 9e10, "nvlink_tx_bytes_per_s": 9e10},
            id="mixture of experts",
        ),
        pytest.param(
            {**EXCHANGES, "nvlink_rx_bytes_per_s": 2e8, "nvlink_tx_bytes_per_s": 2e8},
            id="ranks that wait for one another",
        ),
        pytest.param({**EXCHANGES, "gpu_util_ratio": 0.6}, id="kernels pause"),
        pytest.param(SMALL, id="small kernels"),
    ],
)
def test_what_looks_alike_is_not_claimed(values):
    assert claims(values, 3000.0) == []


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            lambda place: {**EXCHANGES, "sm_active_ratio": 0.62 if place == 2 else 0.37},
            id="straggler",
        ),
        pytest.param(
            lambda place: {**EXCHANGES, "sm_active_ratio": 0.3 + 0.08 * place},
            id="stages of a pipeline",
        ),
        pytest.param(
            lambda place: (
                {**EXCHANGES, "nvlink_rx_bytes_per_s": 1e9, "nvlink_tx_bytes_per_s": 1e9}
                if place == 1
                else EXCHANGES
            ),
            id="one that does not take part",
        ),
    ],
)
def test_where_ranks_differ_it_is_not_claimed(how):
    assert claims(how, 3000.0) == []


def test_a_solver_exchanges_halos_by_design():
    (finding,) = claims({**EXCHANGES, "fp64_active_ratio": 0.2}, 3000.0)
    assert finding.confidence == "hypothesis"
    assert "fp64 pipes at 20 %: solvers exchange by design" in finding.evidence[2].text


def test_a_server_and_a_session_are_hypotheses():
    for fields, word in (({"name": "serve-70b"}, "server"), ({"is_interactive": True}, "session")):
        (finding,) = claims(EXCHANGES, 3000.0, **fields)
        assert finding.confidence == "hypothesis"
        assert any(word in line.text for line in finding.evidence)


@pytest.mark.parametrize("gpus", [1])
def test_one_gpu_exchanges_nothing(gpus):
    assert claims(EXCHANGES, gpus=gpus) == []


def test_without_profiling_counters_nothing_is_said():
    plain = {key: value for key, value in EXCHANGES.items() if key not in PIPES}
    assert claims(all_do(plain), 3000.0) == []


@pytest.mark.parametrize("period_s", [10.0, 30.0])
def test_checkpoints_and_evaluations_in_between_are_part_of_it(period_s):
    def how(_place):
        def at(key, paused):
            return lambda s: paused if 700.0 < s < 760.0 else EXCHANGES[key]

        return {**wavy(EXCHANGES), "gpu_util_ratio": at("gpu_util_ratio", 0.0)}

    (finding,) = claims(how, 2400.0, period_s=period_s)
    assert finding.window.end - finding.window.start == pytest.approx(2400.0, abs=150.0)


def test_it_is_over_when_the_exchange_is_hidden_again():
    scene = running(EXCHANGES)
    scene.run(900.0, all_of([f"GPU-n-{place}" for place in range(4)], TRAINS))
    assert findings(scene) == []


def on_nodes(share, *, per_node=4, held=4, others=False, **values):
    """Two nodes whose four GPUs exchange over four ports of 400 Gbit/s."""
    scene = Scene(10.0, span_s=24 * 3600.0)
    rows = [scene.node(name, per_node) for name in ("a", "b")]
    mine = [uuid for row in rows for uuid in row[:held]]
    scene.job("42", mine, cpu_count=64)
    if others:
        scene.job("7", [uuid for row in rows for uuid in row[held:]])
    for name in ("a", "b"):
        scene.slurm(name, gpu_count=per_node, cpu_count=96)
        for number in range(4):
            rate = share * 50e9
            scene.nic(
                name, f"mlx5_{number}/1", nic_speed_gbps=400.0, nic_rx_bytes_per_s=rate,
                nic_tx_bytes_per_s=rate,
            )  # fmt: skip
    few = {"nvlink_rx_bytes_per_s": 2e10, "nvlink_tx_bytes_per_s": 2e10, **values}
    scene.run(1500.0, all_of(mine, wavy(EXCHANGES), **few))
    return scene


def test_an_exchange_between_nodes_is_seen_at_their_ports():
    (finding,) = findings(on_nodes(0.55))
    assert finding.confidence == "supported"
    assert finding.evidence[0].text.startswith("network ports carry 27.5 GB/s each way, 55 %")
    assert findings(on_nodes(0.3)) == []


def test_where_fewer_nodes_would_do_it_is_fragmented():
    assert findings(on_nodes(0.55, per_node=8, held=4)) == []


def test_ports_that_others_use_too_make_it_a_hypothesis():
    (finding,) = findings(on_nodes(0.55, per_node=6, held=5, others=True))
    assert finding.confidence == "hypothesis"
    assert "other jobs are on its nodes, and use their ports too" in finding.evidence[-1].text


@pytest.mark.parametrize(("sm", "tensor"), [(0.3, 0.1), (0.22, 0.09), (0.34, 0.04)])
def test_who_computes_between_exchanges_may_be_experts_however_busy_the_links(sm, tensor):
    links = {"nvlink_rx_bytes_per_s": 2.1e11, "nvlink_tx_bytes_per_s": 2.1e11}
    experts = {**EXCHANGES, "sm_active_ratio": sm, "tensor_active_ratio": tensor, **links}
    (finding,) = claims(experts, 3000.0)
    assert finding.confidence == "hypothesis"
    assert any("experts on all ranks" in line.text for line in finding.evidence)
