"""Questions that are beyond a server's limits: what they are about is missing, and named."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.prometheus.questions import JOB_ID
from gpumon.sources.prometheus.rules import SAMPLED_AT
from gpumon.sources.source import Wish
from tests.unit.sources.prometheus.conftest import GPUS, once
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.sources.prometheus.conftest import Open
    from tests.unit.sources.prometheus.engine import Engine


@pytest.mark.parametrize("count", [1, 2])
def test_a_metric_that_is_too_much_for_the_server_is_left_out_by_its_name(
    count: int, engine: Engine, opened: Open, said: Callable[..., None]
) -> None:
    engine.hold("DEV_POWER_USAGE", *((one, 300.0) for one in GPUS))
    engine.too_much = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED")[:count]
    first, second = once(opened, engine)
    for frame in (first, second):
        block = frame.block("gpu")
        assert block.value("gpu_util_ratio", 0) == 0.97
        assert block.value("power_w", 0) is None
        assert (block.value("mem_used_bytes", 0) is None) is (count == 2)
    (error,) = first.errors
    said(error.message, error.hint)
    assert "422" in error.message
    assert "too many samples" in error.message
    named = [name for name in engine.too_much if name in error.message]
    assert len(named) == 1
    assert ("and 1 more:" in error.message) is (count == 2)


def test_a_limit_that_is_a_bad_request_is_of_one_question_too(engine: Engine, opened: Open) -> None:
    engine.too_much, engine.status_of_limits = ("DCGM_FI_DEV_FB_USED",), "400 Bad Request"
    first, _ = once(opened, engine)
    assert first.block("gpu").value("gpu_util_ratio", 0) == 0.97
    assert first.block("gpu").value("mem_used_bytes", 0) is None
    (error,) = first.errors
    assert "400" in error.message


def test_where_all_metrics_are_too_much_for_the_server_it_has_failed(
    engine: Engine, opened: Open
) -> None:
    engine.too_much = ("max by",)
    (frame,) = once(opened, engine)
    assert frame.blocks == {}
    assert "too many samples" in frame.errors[0].message


def test_a_metric_by_which_gpus_were_known_may_become_too_much(
    engine: Engine, opened: Open
) -> None:
    source, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) >= 2, "it has been read")
    name = next(
        match["name"]
        for _, params in engine.asked
        if (match := re.search(r"timestamp\((?P<name>\w+)\)", params.get("query", "")))
    )
    seen = len(arrived())
    engine.too_much = (name,)
    source.wish(Wish(is_by_hand=True))
    eventually(lambda: len(arrived()) >= seen + 2, "it is read once more")
    newest = arrived()[-1]
    assert newest.blocks
    assert any(name in one.message for frame in arrived()[seen:] for one in frame.errors)


def test_where_the_times_of_samples_are_too_much_values_are_shown_and_it_is_said(
    engine: Engine, opened: Open, said: Callable[..., None]
) -> None:
    engine.too_much = ("timestamp(",)
    first, second = once(opened, engine)
    assert (first.node, second.node) == ("gpu01", "gpu02")
    for frame in (first, second):
        assert frame.block("gpu").value("gpu_util_ratio", 0) == 0.97
        # As of the instant that was asked about: nothing newer is in it.
        assert time.time() - 60.0 < frame.taken_at < time.time() - 0.5
    (error,) = first.errors
    said(error.message, error.hint)
    assert "422" in error.message
    assert "each may be 5 min old" in error.message


def test_where_not_even_labels_are_told_it_has_failed(engine: Engine, opened: Open) -> None:
    engine.too_much = ("modelName",)
    (frame,) = once(opened, engine)
    assert frame.blocks == {}
    assert "too many samples" in frame.errors[0].message


def test_recorded_times_that_are_too_much_are_those_of_a_metric(
    engine: Engine, opened: Open
) -> None:
    engine.record()
    engine.too_much = (f"{SAMPLED_AT} + 0",)
    frames = once(opened, engine)
    assert [frame.node for frame in frames] == ["gpu01", "gpu02"]
    assert not any(frame.errors for frame in frames)


def test_recorded_gpus_that_are_too_many_to_count_are_many(engine: Engine, opened: Open) -> None:
    engine.record()
    engine.too_much = (f"count({SAMPLED_AT})",)
    frames = once(opened, engine)
    assert [frame.node for frame in frames] == ["gpu01", "gpu02"]
    # Of many only what is recorded is asked about.
    assert not any("ENERGY" in params.get("query", "") for _, params in engine.asked)


def test_where_the_interval_is_too_much_the_present_is_shown_and_it_is_said(
    engine: Engine, opened: Open, said: Callable[..., None]
) -> None:
    engine.too_much = ("[300s]",)
    first, second = once(opened, engine)
    for frame in (first, second):
        assert frame.block("gpu").value("gpu_util_ratio", 0) == 0.97
        assert frame.stale_after_s == 120.0
    (error,) = first.errors
    said(error.message, error.hint)
    assert "no past is asked for" in error.message


def test_an_interval_that_is_too_much_is_seen_from_poll_to_poll_and_the_past_asked_for(
    engine: Engine, opened: Open
) -> None:
    engine.too_much = ("[300s]",)
    source, arrived = opened(engine.target)
    eventually(lambda: source.recalled() is not None, "a past has come")
    assert any(path == "query_range" for path, _ in engine.asked)
    seen = len(arrived())
    eventually(lambda: len(arrived()) >= seen + 2, "it is read once more")
    assert arrived()[-1].errors == ()


def test_no_interval_is_seen_where_the_times_of_samples_are_too_much(
    engine: Engine, opened: Open
) -> None:
    engine.too_much = ("[300s]", "timestamp(")
    source, arrived = opened(engine.target)
    eventually(lambda: len(arrived()) >= 6, "it has been read again")
    assert not source.is_recalling
    assert any("no past is asked for" in one.message for frame in arrived() for one in frame.errors)


def test_jobs_by_a_metric_that_is_too_much_are_missing_and_it_is_named(
    engine: Engine, opened: Open
) -> None:
    engine.series[JOB_ID] = [({"uuid": "GPU-0", "instance": "gpu01:9445"}, 42.0)]
    engine.too_much = (JOB_ID,)
    first, _ = once(opened, engine)
    assert first.block("gpu").value("gpu_util_ratio", 0) == 0.97
    assert JOB_ID in first.errors[0].message


def test_a_metric_of_hosts_that_is_too_much_is_one_line_and_their_others_stay(
    engine: Engine, opened: Open, said: Callable[..., None]
) -> None:
    host = {"instance": "gpu01:9100"}
    engine.series["node_load1"] = [(host, 3.5)]
    engine.series["node_load5"] = [(host, 2.5)]
    engine.too_much = ("(node_load5)",)
    first, _ = once(opened, engine)
    assert first.block("node").value("load_1m", 0) == 3.5
    assert first.block("node").value("load_5m", 0) is None
    (error,) = first.errors
    said(error.message, error.hint)
    assert error.message.startswith("shows no node_load5: ")


def test_an_interval_that_is_too_much_of_several_nodes_is_asked_of_one(
    engine: Engine, opened: Open
) -> None:
    engine.gap_s = 15.0
    # The UUIDs of both nodes in one question.
    engine.too_much = ("|GPU-",)
    first, second = once(opened, engine)
    assert (first.stale_after_s, second.stale_after_s) == (30.0, 30.0)
    assert first.errors == ()
