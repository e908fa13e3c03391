"""The source of a server: frames as those of pages, each as old as its samples, and what fails."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from gpumon.model.missing import Reason
from gpumon.sources.address import parse
from gpumon.sources.exporters import pauses
from gpumon.sources.prometheus import nodes, questions
from gpumon.sources.prometheus.server import PrometheusServer
from gpumon.sources.source import SystemClock, Wish
from tests.unit.sources.exporters.page_server import Answer
from tests.unit.sources.prometheus.conftest import GPUS, once
from tests.unit.sources.prometheus.engine import JSON, Engine, labels
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.sources.prometheus.conftest import Open


def test_each_node_is_as_its_own_page(engine: Engine, opened: Open) -> None:
    first, second = once(opened, engine)
    assert (first.node, second.node, first.host_names) == ("gpu01", "gpu02", ("gpu01",))
    gpus = first.block("gpu")
    assert gpus.keys == ("GPU-0", "GPU-1")
    assert second.block("gpu").keys == ("GPU-2",)
    assert gpus.value("gpu_util_ratio", 0) == 0.97
    assert gpus.value("mem_total_bytes", 0) == 80000 * 2**20
    assert gpus.value("power_w", 0) == 300.5
    assert gpus.value("energy_j", 0) == 5000
    assert gpus.value("index", 1) == 1
    assert gpus.label("name", 0) == "NVIDIA H100 80GB HBM3"
    assert gpus.reason("power_w", 1) is Reason.NOT_SUPPORTED
    assert gpus.reason("energy_j", 1) is Reason.NOT_SHARED
    assert gpus.reason("sm_active_ratio", 0) is Reason.NOT_SHARED
    assert first.errors == second.errors == ()


def test_only_metrics_that_are_there_are_asked_for_each_once(engine: Engine, opened: Open) -> None:
    engine.hold("DEV_ODD", (GPUS[0], 1.0))
    once(opened, engine)
    asked = [params["query"] for _, params in engine.asked if "query" in params]
    values = [one for one in asked if one.startswith("max by") and "timestamp" not in one]
    assert len(values) == 5
    assert len(set(values)) == 5
    assert not any("ODD" in one for one in values)
    assert all(params.get("nocache") == "1" for path, params in engine.asked if path == "query")


@pytest.mark.parametrize(("interval_s", "ago_s"), [(1.0, 1.0), (15.0, 2.0)])
def test_an_instant_is_asked_about_once_its_pages_are_written_down(
    engine: Engine, opened: Open, interval_s: float, ago_s: float
) -> None:
    engine.now_s = lambda: 1000.0
    engine.gap_s = interval_s

    def instants() -> list[float]:
        asked = [params for path, params in engine.asked if path == "query"]
        return [
            float(one["time"]) for one in asked if one["query"].endswith("(DCGM_FI_DEV_FB_USED)")
        ]

    source, _ = opened(engine.target + "?history=0")
    eventually(lambda: len(instants()) == 1, "it has looked")

    def is_polled_again() -> bool:
        source.wish(Wish(is_by_hand=True))
        return len(instants()) >= 2

    eventually(is_polled_again, "it has looked again")
    assert instants()[:2] == [998.0, 1000.0 - ago_s]


def test_no_more_than_two_questions_are_asked_at_once(engine: Engine, opened: Open) -> None:
    once(opened, engine)
    assert len(engine.requests) > 5
    # Each has a connection of its own, which stays open.
    assert engine.connections <= 2


def test_a_frame_is_as_old_as_its_newest_sample(engine: Engine, opened: Open) -> None:
    engine.gap_s = 15.0
    engine.ages_s = {"gpu01": 20.0, "gpu02": 4.0}
    first, second = once(opened, engine)
    assert 14.0 < second.taken_at - first.taken_at < 18.0
    assert first.stale_after_s == second.stale_after_s == 30.0


def test_a_clock_that_goes_wrong_there_changes_no_age(engine: Engine, opened: Open) -> None:
    engine.now_s = lambda: 1000.0
    engine.age_s = 3.0
    now = SystemClock().now()
    assert -10.0 < once(opened, engine)[0].taken_at - now < 60.0


def test_samples_that_are_too_old_are_no_picture_of_now(
    engine: Engine, opened: Open, said: Callable[..., None]
) -> None:
    engine.ages_s = {"gpu02": 290.0}
    first, gone = once(opened, engine)
    assert (first.node, bool(first.blocks), gone.node, gone.blocks) == ("gpu01", True, "gpu02", {})
    assert gone.errors[0].message == "the server has no present sample of its GPUs"
    said(gone.errors[0].message, gone.errors[0].hint)
    engine.age_s = 290.0
    engine.ages_s = {}
    frames = once(opened, engine)
    assert [frame.node for frame in frames] == ["gpu01", "gpu02", ""]
    assert frames[-1].errors[0].message == "holds no present sample of a GPU"
    # Why that is, the server may know itself.
    engine.warnings = ["store A is down"]
    assert [error.message for error in once(opened, engine)[-1].errors] == [
        "holds no present sample of a GPU",
        "warns, and some of its values may be missing: store A is down",
    ]


def test_a_node_whose_series_end_is_missed_until_it_is_forgotten(
    engine: Engine, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) >= 2, "both are read")
    monkeypatch.setattr(nodes, "FORGOTTEN_S", 3600.0)
    for name, rows in list(engine.series.items()):
        engine.series[name] = [row for row in rows if row[0]["Hostname"] == "gpu01"]
    eventually(lambda: any(f.node == "gpu02" and f.errors for f in arrived()), "it is missed")
    monkeypatch.setattr(nodes, "FORGOTTEN_S", 0.0)
    eventually(
        lambda: arrived()[-1].node == "gpu01" and arrived()[-2].node == "gpu01", "it is forgotten"
    )


def test_what_a_counter_grew_by_is_divided_by_the_time_between_samples(
    engine: Engine, opened: Open
) -> None:
    engine.hold("DEV_POWER_VIOLATION", (GPUS[0], 1e9))
    now = SystemClock().now()
    at = [now]
    engine.now_s = lambda: at[0]
    _, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) >= 2, "it is read")
    # In this order, so that no poll sees what is not there yet.
    at[0] += 4.0
    engine.hold("DEV_POWER_VIOLATION", (GPUS[0], 3e9))

    def rated() -> bool:
        gpu_block = [frame for frame in arrived() if frame.node == "gpu01"][-1].block("gpu")
        value = gpu_block.value("sw_power_cap_ratio", 0)
        return value is not None and abs(value - 0.5) < 0.01

    eventually(rated, "two seconds of four")


def test_instances_have_values_of_their_own(engine: Engine, opened: Open) -> None:
    part = labels("GPU-0", GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    engine.series.clear()
    engine.hold("PROF_SM_ACTIVE", (part, 0.25))
    engine.hold("DEV_FB_USED", (part, 100.0))
    engine.hold("DEV_POWER_USAGE", (part, 300.0))
    (frame,) = once(opened, engine)
    assert frame.block("mig").keys == ("MIG-GPU-0.7",)
    assert frame.block("mig").label("profile", 0) == "1g.10gb"
    assert frame.block("gpu").value("power_w", 0) == 300.0


def test_a_host_that_no_page_names_is_the_target_that_the_server_asks(
    engine: Engine, opened: Open
) -> None:
    engine.series.clear()
    engine.hold("DEV_GPU_UTIL", (labels(Hostname="", instance="gpu09:9400"), 5.0))
    (frame,) = once(opened, engine)
    assert frame.node == "gpu09"


def test_a_gpu_that_has_moved_is_where_it_was_told_of_last(engine: Engine, opened: Open) -> None:
    engine.series.clear()
    rows = ((labels("GPU-0", "gpu01"), 5.0), (labels("GPU-0", "gpu02"), 5.0))
    engine.hold("DEV_GPU_UTIL", *rows)
    engine.ages_s = {"gpu01": 60.0}
    (frame,) = once(opened, engine)
    assert frame.node == "gpu02"


def test_gpus_of_exporters_that_tell_other_metrics_are_all_known(
    engine: Engine, opened: Open
) -> None:
    engine.series.clear()
    engine.hold("DEV_GPU_UTIL", (GPUS[0], 5.0))
    engine.hold("DEV_GPU_UTIL_RATIO", (GPUS[2], 7.0))
    first, second = once(opened, engine)
    assert first.block("gpu").value("gpu_util_ratio", 0) == 0.05
    assert second.block("gpu").value("gpu_util_ratio", 0) == 0.07


def test_series_without_a_gpu_and_warnings_are_told_once(
    engine: Engine, opened: Open, said: Callable[..., None]
) -> None:
    engine.hold("DEV_GPU_UTIL", *((one, 97.0) for one in GPUS), ({"job": "x"}, 5.0))
    engine.warnings = ["store A is down", "store B is down"]
    first, second = once(opened, engine)
    assert second.errors == ()
    messages = [error.message for error in first.errors]
    said(messages[0], first.errors[0].hint)
    assert messages == [
        "warns, and some of its values may be missing: store A is down (and 1 more)",
        "1 series name no GPU by its UUID and are left out",
    ]


def test_replicas_of_thanos_are_one_and_a_store_that_is_down_is_a_warning(
    engine: Engine, opened: Open
) -> None:
    """As its documentation has it: one series for each replica where nobody merges them."""
    pair = [({**one, "replica": name}, 97.0) for one in GPUS for name in "AB"]
    engine.series.clear()
    engine.hold("DEV_GPU_UTIL", *pair)
    engine.warnings = ["No StoreAPIs matched for this query"]
    first, second = once(opened, engine)
    assert first.block("gpu").keys == ("GPU-0", "GPU-1")
    assert second.block("gpu").keys == ("GPU-2",)
    assert first.block("gpu").value("gpu_util_ratio", 0) == 0.97
    assert "No StoreAPIs matched" in first.errors[0].message


def test_mimir_is_asked_behind_its_prefix_for_one_tenant(opened: Open) -> None:
    mimir = Engine(prefix="/prometheus")
    mimir.hold("DEV_GPU_UTIL", *((one, 97.0) for one in GPUS))
    try:
        source, arrived = opened(f"{mimir.target}?tenant=ml", once=True)
        eventually(lambda: not source.pending(), "it has answered")
        assert [frame.node for frame in arrived()] == ["gpu01", "gpu02"]
        assert all(b"x-scope-orgid: ml\r\n" in head.lower() for head in mimir.requests)
    finally:
        mimir.stop()


def test_nodes_that_are_alike_share_all_but_names_and_values(engine: Engine, opened: Open) -> None:
    engine.series.clear()
    nodes = [
        [labels(f"GPU-{host}{n}", host, gpu=f"{n}", device=f"nvidia{n}") for n in (1, 0, 10)]
        for host in ("gpu01", "gpu02")
    ]
    other = [labels("GPU-x", "gpu03", modelName="NVIDIA A100")]
    rows = [one for some in (*nodes, other) for one in some]
    engine.hold("DEV_GPU_UTIL", *((one, 10.0 + n) for n, one in enumerate(rows)))
    engine.hold("DEV_MEMORY_TEMP", *((one, 0.0) for one in rows))
    engine.hold("DEV_XID_ERRORS", *((one, 0.0) for one in rows))
    first, second, third = (frame.block("gpu") for frame in once(opened, engine))
    assert first.missing is second.missing
    assert third.missing is not first.missing
    assert second.keys == ("GPU-gpu020", "GPU-gpu021", "GPU-gpu0210")
    assert [second.value("index", row) for row in range(3)] == [0, 1, 10]
    assert [second.value("gpu_util_ratio", row) for row in range(3)] == [0.14, 0.13, 0.15]
    assert second.label("name", 0) == "NVIDIA H100 80GB HBM3"
    assert third.label("name", 0) == "NVIDIA A100"
    assert second.reason("mem_temp_c", 2) is Reason.NOT_SUPPORTED
    assert second.reason("sw_power_cap_ratio", 0) is Reason.NOT_SHARED
    node = once(opened, engine)[1].block("node")
    assert (node.keys, node.label("host_name", 0)) == (("gpu02",), "gpu02")


def test_more_nodes_than_there_are_anywhere_are_left_out(
    engine: Engine, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "MOST_NODES", 1)
    first, other = once(opened, engine)
    assert first.node == "gpu01"
    assert "more than 1 nodes; 1 are left out" in other.errors[0].message


def test_no_more_metrics_than_a_few_tell_of_gpus(
    engine: Engine, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_IDENTIFYING", 1)
    engine.series.clear()
    engine.hold("DEV_GPU_UTIL", (GPUS[0], 5.0), (GPUS[1], 5.0))
    engine.hold("DEV_GPU_UTIL_RATIO", (GPUS[2], 7.0))
    (frame,) = once(opened, engine)
    assert frame.node == "gpu01"


@pytest.mark.parametrize(
    ("names", "words"),
    [([], "holds no metric of DCGM"), (["DEV_ODD"], "none of its 1 metrics of DCGM is one that")],
)
def test_a_server_without_gpus_says_what_it_lacks(
    engine: Engine, opened: Open, names: list[str], words: str
) -> None:
    engine.series.clear()
    for name in names:
        engine.hold(name, (GPUS[0], 1.0))
    (frame,) = once(opened, engine)
    assert words in frame.errors[0].message
    assert (frame.node, frame.blocks) == ("", {})


def test_a_server_that_has_no_metric_yet_is_asked_on_every_beat(
    engine: Engine, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "RETRY_S", (0.1, 3600.0))
    series, engine.series = engine.series, {}
    _, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) >= 4, "it is asked again and again")
    engine.series = series
    eventually(lambda: bool(arrived()[-1].blocks), "it is read")


def test_a_server_that_ends_and_comes_back_is_read_again(opened: Open) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        _, arrived = opened(f"prometheus+http://127.0.0.1:{port}")
        eventually(lambda: bool(arrived()), "it has failed")
        assert arrived()[0].errors[0].message == "cannot be reached: Connection refused"
    server = Engine(port=port)
    server.hold("DEV_GPU_UTIL", (GPUS[0], 5.0))
    try:
        eventually(lambda: bool(arrived()[-1].blocks), "it is read")
    finally:
        server.stop()


def test_what_a_server_told_is_over_once_it_has_failed_for_two_intervals(
    engine: Engine, opened: Open
) -> None:
    engine.gap_s = 0.5
    _, arrived = opened(engine.target)
    eventually(lambda: bool(arrived()) and bool(arrived()[-1].blocks), "it is read")
    engine.fault = Answer(b"starting", "503 No")
    eventually(lambda: sum(bool(frame.errors) for frame in arrived()) >= 2, "it fails twice")
    first, second = [frame for frame in arrived() if frame.errors][:2]
    assert (first.node, second.node) == ("", "")
    assert first.over_at is not None
    assert second.over_at is not None
    # A second at least, as nobody who fails is asked oftener.
    assert first.over_at - first.taken_at <= 2.25
    assert second.over_at - second.taken_at <= 2.0


def test_a_server_without_a_present_sample_has_not_failed(engine: Engine, opened: Open) -> None:
    engine.age_s = 290.0
    assert once(opened, engine)[-1].over_at is None


def test_what_fails_rests_ever_longer_until_somebody_asks(
    engine: Engine, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "RETRY_S", (3600.0, 3600.0))
    engine.fault = Answer(b'{"status":"error","error":"x"}', "422 No", JSON)
    source, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) == 1, "it has failed")
    source.wish(Wish(is_by_hand=True))
    eventually(lambda: len(arrived()) == 2, "it is tried again")


def test_one_question_of_many_that_fails_is_one_line(engine: Engine, opened: Open) -> None:
    asked = engine.result

    def failing(params: dict[str, str]) -> dict[str, object]:
        return {"resultType": "string"} if "POWER" in params["query"] else asked(params)

    engine.result = failing  # type: ignore[method-assign]
    (frame,) = once(opened, engine)
    assert "another form than a vector" in frame.errors[0].message


def test_it_is_asked_no_oftener_than_it_learns_anything(engine: Engine, opened: Open) -> None:
    engine.gap_s = 15.0
    source, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) >= 2, "it is read")
    assert source.poll_period_s == 7.5
    source.wish(Wish(period_s=20.0))
    assert source.poll_period_s == 20.0
    source._work_s = 30.0
    assert source.poll_period_s == 120.0


def test_where_there_are_not_two_samples_the_servers_own_default_counts(
    engine: Engine, opened: Open
) -> None:
    engine.gap_s = 0.0
    engine.series = {
        name: [(dict(one, UUID="GPU x"), v) for one, v in rows]
        for name, rows in engine.series.items()
    }
    source, arrived = opened(engine.target, once=True)
    eventually(lambda: not source.pending(), "it has answered")
    assert arrived()[0].stale_after_s == 120.0
    # It is asked each period until there are.
    assert source.poll_period_s < 7.5


@pytest.mark.parametrize(
    ("interval_s", "period_s", "poll_period_s", "limit_s"),
    [
        (1.0, 1.0, 1.0, 5.0),
        (15.0, 2.0, 7.5, 30.0),
        (15.0, 60.0, 60.0, 120.0),
        (15.0, 2.0, 40.0, 75.0),
    ],
)
def test_two_intervals_or_periods_are_the_limit_unless_it_is_asked_more_seldom(
    interval_s: float, period_s: float, poll_period_s: float, limit_s: float
) -> None:
    assert nodes.limit_of(interval_s, period_s, poll_period_s) == limit_s


def test_a_source_that_is_closed_before_it_runs_reads_nothing(engine: Engine) -> None:
    address = parse(engine.target).engine
    assert address is not None
    source = PrometheusServer("x", address, 1.0, SystemClock(), once=True)
    source.close()
    source.start(lambda: None)
    source._thread.close(20.0)
    assert source.poll() == []
    assert engine.requests == []


def test_labels_name_the_jobs_and_pods_on_a_gpu_also_where_several_share_it(
    engine: Engine, opened: Open
) -> None:
    rows = [
        labels("GPU-0", hpc_job="7"),
        labels("GPU-0", hpc_job="8"),
        labels("GPU-1", exported_pod="train-0", exported_namespace="ai"),
        labels("GPU-2", "gpu02"),
    ]
    for name in ("DEV_GPU_UTIL", "DEV_FB_USED", "DEV_FB_FREE"):
        engine.hold(name, *((one, 97.0) for one in rows))
    first, second = once(opened, engine)
    gpus = first.block("gpu")
    assert gpus.keys == ("GPU-0", "GPU-1")
    assert [gpus.label("label_jobs", row) for row in (0, 1)] == ["7 8", None]
    assert gpus.label("label_pods", 1) == "ai/train-0"
    assert second.block("gpu").label("label_jobs", 0) is None
    assert gpus.value("gpu_util_ratio", 0) == 0.97
    assert first.errors == ()


@pytest.mark.parametrize(("number", "job"), [(4711.0, "4711"), (0.0, None), (0.5, None)])
def test_a_job_that_a_value_names_holds_the_gpu(
    number: float, job: str | None, engine: Engine, opened: Open
) -> None:
    engine.series["nvidia_gpu_jobId"] = [({"uuid": "GPU-2", "instance": "gpu02:9445"}, number)]
    _, second = once(opened, engine)
    assert second.block("gpu").label("label_jobs", 0) == job
