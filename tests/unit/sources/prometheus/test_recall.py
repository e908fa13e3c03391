"""The past of a server: asked in pieces that it can bear, as fine as history keeps it."""

from __future__ import annotations

import asyncio
import time
from array import array
from itertools import pairwise
from math import nan
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.address import parse
from gpumon.sources.prometheus import recall
from gpumon.sources.prometheus.nodes import Nodes
from gpumon.sources.prometheus.questions import Questions
from gpumon.sources.prometheus.recall import FAR_STEP_S, Recall, stretches
from gpumon.sources.prometheus.server import PrometheusServer
from gpumon.sources.source import Remembering, SystemClock, Wish
from tests.unit.sources.exporters.page_server import Answer
from tests.unit.sources.prometheus.engine import JSON, Engine, labels
from tests.worlds.gathered import Series, Server
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.model.fault import SourceError
    from gpumon.sources.prometheus.questions import Seen
    from gpumon.sources.prometheus.recall import Recalled
    from gpumon.sources.source import PastFrames

    Say = Callable[..., None]

NOW = 1_800_000_000.0
HOUR = 3600.0
GPUS = [labels("GPU-0"), labels("GPU-1"), labels("GPU-2", "gpu02")]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "REST_PER_ANSWER", 0.0)


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    found.gap_s = 15.0
    found.hold("DEV_GPU_UTIL", *((one, 97.0) for one in GPUS))
    found.hold("DEV_POWER_USAGE", *((one, 300.0) for one in GPUS))
    yield found
    found.stop()


@pytest.fixture
def opened() -> Iterator[Callable[..., PrometheusServer]]:
    made: list[PrometheusServer] = []

    def start(url: str, once: bool = False, clock: SystemClock | None = None) -> PrometheusServer:
        address = parse(url).engine
        assert address is not None
        source = PrometheusServer(url, address, 0.1, clock or SystemClock(), once)
        made.append(source)
        source.start(lambda: None)
        return source

    yield start
    for source in made:
        source.close()


def past_of(source: PrometheusServer) -> list[PastFrames]:
    found: list[PastFrames] = []

    def has_come() -> bool:
        past = source.recalled()
        if past is not None:
            found.extend(past())
        return past is not None

    eventually(has_come, "its past has come")
    return found


def heard(source: PrometheusServer) -> list[SourceError]:
    return [error for frame in source.poll() for error in frame.errors]


def test_the_last_hour_is_as_fine_as_the_samples_and_the_day_before_it_coarser() -> None:
    near, far = stretches(1000, 15.0, NOW, 24 * HOUR)
    assert (near.step_s, far.step_s) == (15.0, FAR_STEP_S)
    assert NOW - 1.1 * HOUR < near.begin <= NOW - HOUR
    assert far.begin + far.steps * far.step_s == near.begin
    assert NOW - 24.1 * HOUR < far.begin <= NOW - 23 * HOUR


def test_of_a_large_fleet_the_past_is_coarser_then_shorter_and_at_last_none() -> None:
    for series in (10, 5_000, 50_000, 200_000, 400_000):
        found = stretches(series, 15.0, NOW, 24 * HOUR)
        assert found
        assert sum(one.steps for one in found) * series <= recall.MOST_VALUES
        assert all(one.begin + (one.steps - 1) * one.step_s <= NOW for one in found)
    assert stretches(1_600_000, 15.0, NOW, 24 * HOUR) == ()


def test_a_gap_of_any_length_is_asked_about_whole() -> None:
    (near,) = stretches(10, 60.0, NOW, 70.0, fewest=1)
    assert (near.begin, near.steps) == (NOW - 120.0, 2)
    assert stretches(10, 60.0, NOW, 70.0) == ()


def test_a_short_past_is_one_stretch() -> None:
    (near,) = stretches(10, 60.0, NOW, HOUR / 2)
    assert near.step_s == 60.0
    assert near.begin <= NOW - HOUR / 2


def test_a_past_is_told_as_frames_of_its_time_the_oldest_first(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    source = opened(engine.target)
    past = past_of(source)
    assert isinstance(source, Remembering)
    assert not source.is_recalling
    times = [step.at for step in past]
    assert times == sorted(times)
    full = [step for step in past if step.frames]
    now = SystemClock().now()
    assert now - 7300.0 < full[0].at < now - 6800.0
    assert now - 60.0 < full[-1].at < now
    assert (full[0].period_s, full[-1].period_s) == (FAR_STEP_S, 15.0)
    first, second = full[-1].frames
    assert (first.origin, first.node, second.node) == (engine.target, "gpu01", "gpu02")
    assert first.block("gpu").value("power_w", 0) == 300.0
    assert first.taken_at <= full[-1].at


def test_a_counter_of_the_past_is_divided_by_the_time_between_its_samples(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    engine.hold("DEV_POWER_VIOLATION", (GPUS[0], 0.0))
    engine.grows = 0.5e9
    full = [step for step in past_of(opened(engine.target)) if step.frames]
    ratio = full[-1].frames[0].block("gpu").value("sw_power_cap_ratio", 0)
    assert ratio == pytest.approx(0.5)


def test_who_holds_a_gpu_now_is_not_said_of_the_past(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    engine.hold("DEV_GPU_UTIL", (labels("GPU-0", hpc_job="77"), 5.0))
    for step in past_of(opened(engine.target)):
        for frame in step.frames:
            assert frame.block("gpu").label("label_jobs", 0) is None


def test_a_server_that_bears_no_large_question_is_asked_smaller_ones(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    engine.most_steps = 20
    source = opened(engine.target)
    assert sum(bool(step.frames) for step in past_of(source)) > 240
    asked = [params for path, params in engine.asked if path == "query_range"]
    assert any(engine.range_fault(params) for params in asked)
    assert not heard(source)


def refusing(engine: Engine, status: str) -> None:
    body = b'{"status":"error","errorType":"execution","error":"too many samples"}'
    engine.range_fault = lambda params: Answer(body, status, JSON)  # type: ignore[method-assign]


REFUSALS = pytest.mark.parametrize("status", ["413 Too Large", "422 No", "503 No"])


@REFUSALS
def test_a_server_without_a_past_says_so_in_one_line_and_its_present_stands(
    engine: Engine, opened: Callable[..., PrometheusServer], status: str, said: Say
) -> None:
    refusing(engine, status)
    source = opened(engine.target)
    lines: list[SourceError] = []

    def has_remark() -> bool:
        lines.extend(heard(source))
        return bool(lines)

    eventually(has_remark, "it reports what is missing")
    begin = f"has no past: answers with an error (HTTP {status[:3]})"
    assert lines[0].message.startswith(begin)
    said(lines[0].message, lines[0].hint)
    assert source.recalled() is None
    assert not source.is_recalling


def test_what_takes_too_long_is_left_out(
    engine: Engine, opened: Callable[..., PrometheusServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "LONGEST_S", -1.0)
    source = opened(engine.target)
    lines: list[SourceError] = []
    eventually(lambda: bool(lines.extend(heard(source)) or lines), "it says so")
    assert "took longer than" in lines[0].message


@pytest.mark.parametrize(("query", "once"), [("?history=0", False), ("", True)])
def test_nobody_who_wants_no_past_asks_for_one(
    engine: Engine, opened: Callable[..., PrometheusServer], query: str, once: bool
) -> None:
    source = opened(engine.target + query, once)
    eventually(lambda: not source.pending(), "it has answered")
    assert not source.is_recalling
    assert not any(path == "query_range" for path, _ in engine.asked)


class Shifted(SystemClock):
    """The real clock, and what a test lets pass besides."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@pytest.mark.parametrize("away_s", [90.0, 1200.0])
def test_of_an_outage_only_what_was_missed_is_asked_and_counters_go_on(
    engine: Engine, opened: Callable[..., PrometheusServer], away_s: float, said: Say
) -> None:
    engine.hold("DEV_TOTAL_ENERGY_CONSUMPTION", *((one, 5e6) for one in GPUS))
    engine.grows = 300_000.0
    clock = Shifted()
    source = opened(engine.target, clock=clock)
    whole = past_of(source)
    first = [params for path, params in engine.asked if path == "query_range"]
    engine.fault = Answer(b"starting", "503 No")
    lines: list[SourceError] = []
    eventually(lambda: bool(lines.extend(heard(source)) or lines), "it is away")
    said(lines[0].message, lines[0].hint)
    engine.asked.clear()
    engine.now_s = lambda: time.time() + away_s
    # What it holds was there all along.
    engine.past_s += away_s
    clock.ahead_s = away_s
    engine.fault = None
    source.wish(Wish(is_by_hand=True))
    gap = past_of(source)
    asked = [params for path, params in engine.asked if path == "query_range"]
    assert len({params["query"] for params in asked}) == len(asked) == 4
    steps = [points(params) for params in asked]
    # The samples of the outage and those on both sides of it, and not one of the day before.
    assert all(away_s / 15.0 <= count <= away_s / 15.0 + 4 for count in steps)
    assert sum(steps) < sum(map(points, first)) / 4
    times = [step.at for step in gap]
    assert times == sorted(times)
    assert times[0] <= whole[-1].at + 15.0
    past = [step for step in (whole[-1], *gap) if step.frames]
    energy = [step.frames[0].block("gpu").value("energy_j", 0) or nan for step in past]
    grown = [after - before for before, after in pairwise(energy)]
    assert grown[1:] == pytest.approx([300.0 * 15.0] * (len(grown) - 1))


def points(params: dict[str, str]) -> float:
    """Values of each series that a question is about."""
    return (float(params["end"]) - float(params["start"])) / float(params["step"]) + 1


def test_who_is_asked_too_often_is_not_asked_smaller_questions(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    refusing(engine, "429 Too Many Requests")
    source = opened(engine.target)
    lines: list[SourceError] = []
    eventually(lambda: bool(lines.extend(heard(source)) or lines), "it reports what is missing")
    assert lines[0].message == "has no past: gets too many requests (HTTP 429)"
    assert sum(path == "query_range" for path, _ in engine.asked) == 1


@REFUSALS
def test_what_was_missed_and_is_refused_is_one_line_and_its_present_stands(
    engine: Engine, opened: Callable[..., PrometheusServer], status: str, said: Say
) -> None:
    clock = Shifted()
    source = opened(engine.target, clock=clock)
    past_of(source)
    refusing(engine, status)
    engine.now_s = lambda: time.time() + 600.0
    clock.ahead_s = 600.0
    source.wish(Wish(is_by_hand=True))
    lines: list[SourceError] = []
    eventually(lambda: bool(lines.extend(heard(source)) or lines), "it reports what is missing")
    begin = "has nothing of the time in which it was not read: answers with an error"
    assert lines[0].message.startswith(begin)
    said(lines[0].message, lines[0].hint)
    assert source.recalled() is None
    assert not source.is_recalling


def test_a_past_that_is_no_past_ends_nothing(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    engine.long_result = lambda _: {"resultType": "vector", "result": []}  # type: ignore[method-assign,assignment]
    source = opened(engine.target)
    lines: list[SourceError] = []
    eventually(lambda: bool(lines.extend(heard(source)) or lines), "it says so")
    assert "another form than a matrix" in lines[0].message


def test_half_a_refusal_leaves_what_is_near(
    engine: Engine, opened: Callable[..., PrometheusServer]
) -> None:
    whole = engine.range_fault

    def of_old_alone(params: dict[str, str]) -> Answer | None:
        engine.most_steps = 0 if params["step"] == "300.000" else None
        return whole(params)

    engine.range_fault = of_old_alone  # type: ignore[method-assign]
    source = opened(engine.target)
    past = past_of(source)
    assert {step.period_s for step in past} == {15.0}
    lines: list[SourceError] = []
    eventually(lambda: bool(lines.extend(heard(source)) or lines), "it says so")
    assert lines[0].message.startswith("has nothing older than an hour: answers with an error")


def test_a_gpu_that_has_vanished_is_of_the_past_and_not_of_the_present() -> None:
    def series(uuid: str, times: list[float]) -> Series:
        values = array("d", [300.0] * len(times))
        return Series("DCGM_FI_DEV_POWER_USAGE", labels(uuid), array("d", times), values)

    every = [NOW - 1800.0 + 30.0 * number for number in range(60)]
    held = [series("GPU-0", every), series("GPU-1", [at for at in every if at < NOW - 600.0])]
    server = Server(held, NOW, is_victoria=False)

    async def asked() -> Recalled:
        questions = Questions(server)  # type: ignore[arg-type]
        seen = await questions.poll()
        assert {uuid for uuid, _ in seen.known} == {"GPU-0"}
        past = Recall(server, HOUR, lambda: 0.0)  # type: ignore[arg-type]
        return await past.past(seen, questions.identifying, NOW)

    frames = [frame for step in asyncio.run(asked()).steps("p") for frame in step.frames]
    assert frames[0].block("gpu").keys == ("GPU-0", "GPU-1")
    assert {frame.node for frame in frames} == {"gpu01"}
    assert frames[-1].block("gpu").keys == ("GPU-0",)


def test_an_xid_that_came_before_the_first_look_is_an_event_of_its_time() -> None:
    times = [NOW - 1800.0 + 30.0 * number for number in range(60)]
    xids = {
        "GPU-0": [0.0 if at < NOW - 900.0 else 79.0 for at in times],
        "GPU-1": [31.0 for _ in times],
    }
    name = "DCGM_FI_DEV_XID_ERRORS"
    held = [
        Series(name, labels(uuid), array("d", times), array("d", values))
        for uuid, values in xids.items()
    ]
    server = Server(held, NOW, is_victoria=False)

    async def asked() -> tuple[Seen, Recalled]:
        questions = Questions(server)  # type: ignore[arg-type]
        seen = await questions.poll()
        past = Recall(server, HOUR, lambda: 0.0)  # type: ignore[arg-type]
        return seen, await past.past(seen, questions.identifying, NOW)

    seen, recalled = asyncio.run(asked())
    nodes = Nodes()
    ((_, reading, _),), _ = nodes.read(seen, NOW, 60.0)
    assert reading.blocks["event"].keys == ()
    for _ in range(2):
        # Reported again it is the same one.
        nodes.remember(recalled.xids(seen), seen)
        ((_, reading, _),), _ = nodes.read(seen, NOW, 60.0)
        (key,) = reading.blocks["event"].keys
        assert key.startswith("GPU-0/79/")
        assert reading.blocks["event"].value("event_age_s", 0) == pytest.approx(900.0, abs=31.0)


@pytest.mark.parametrize("last_s", [3.0, 22.0], ids=["just now", "nearly an interval ago"])
def test_an_xid_of_the_first_look_is_an_event_where_the_past_had_another(last_s: float) -> None:
    """No step of the past has it: the poll itself comes after them."""
    times = [NOW - last_s - 30.0 * number for number in range(60)][::-1]
    xids = {
        "GPU-0": [*[0.0] * 59, 48.0],
        "GPU-1": [*[31.0] * 59, 45.0],
        "GPU-2": [31.0] * 60,
        "GPU-3": [*[31.0] * 59, 0.0],
    }
    name = "DCGM_FI_DEV_XID_ERRORS"
    held = [
        Series(name, labels(uuid), array("d", times), array("d", values))
        for uuid, values in xids.items()
    ]
    # One exporter's name for it beside another's: it is one Xid all the same.
    held.append(
        Series(
            "DCGM_FI_DEV_XID_ERROR", labels("GPU-0"), array("d", times), array("d", xids["GPU-0"])
        )
    )
    # One that nobody heard of before: its Xid may be of last month.
    held.append(Series(name, labels("GPU-4"), array("d", times[-1:]), array("d", [62.0])))
    server = Server(held, NOW, is_victoria=False)

    async def asked() -> tuple[Seen, Recalled]:
        questions = Questions(server)  # type: ignore[arg-type]
        seen = await questions.poll()
        past = Recall(server, HOUR, lambda: 0.0)  # type: ignore[arg-type]
        return seen, await past.past(seen, questions.identifying, NOW)

    seen, recalled = asyncio.run(asked())
    nodes = Nodes()
    nodes.read(seen, NOW, 60.0)
    nodes.remember(recalled.xids(seen), seen)
    ((_, reading, _),), _ = nodes.read(seen, NOW, 60.0)
    events = reading.blocks["event"]
    assert [key.rpartition("/")[0] for key in events.keys] == ["GPU-0/48", "GPU-1/45"]
    assert [events.value("event_age_s", row) for row in (0, 1)] == [
        pytest.approx(last_s, abs=3.1)
    ] * 2
