"""What is answered to which question about a picture."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_classic

from gpumon.report.document.document import document
from gpumon.serve import routes as module
from gpumon.serve.exchange import Answer, Asked, RefusedError
from gpumon.serve.frames import FrameFeed
from gpumon.serve.routes import Routes, Served
from tests.worlds.clocks import Hasty
from tests.worlds.tick import AT, fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.tick import Tick

PATHS = ("/", "/healthz", "/metrics", "/v1/snapshot", "/v1/frames")


class World:
    """Routes of a picture, asked one question at a time."""

    def __init__(self, tick: Tick | None = None, **served: Any) -> None:
        self.made = 0
        self.clock = Hasty(AT)
        self.feed = FrameFeed(["demo"], 1.0, self.clock.now)
        self.routes = Routes(Served(self.clock, self._document, self.feed, **served))
        if tick is not None:
            self.routes.take(tick)

    def _document(self, tick: Tick) -> dict[str, Any]:
        self.made += 1
        return document(tick)

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            return asyncio.run(
                self.routes.answer(Asked(method, path, {}, named, is_persistent=True))
            )
        except RefusedError as error:
            return error.answer

    def asked_at_once(self, *paths: str) -> list[Answer]:
        async def all_of_them() -> list[Answer]:
            questions = (Asked("GET", path, {}, {}, is_persistent=True) for path in paths)
            return list(await asyncio.gather(*map(self.routes.answer, questions)))

        return asyncio.run(all_of_them())


@pytest.fixture
def world() -> Any:
    made: list[World] = []

    def make(*args: Any, **changes: Any) -> World:
        made.append(World(*args, **changes))
        return made[-1]

    yield make
    for one in made:
        one.routes.close()
        one.feed.close()


def test_the_snapshot_is_the_document_of_the_picture(world: Callable[..., World]) -> None:
    answer = world(fleet()).ask("/v1/snapshot")
    assert (answer.status, answer.kind) == (200, "application/json")
    assert json.loads(answer.body) == json.loads(json.dumps(document(fleet())))


def test_metrics_come_in_the_form_that_is_asked_for(world: Callable[..., World]) -> None:
    served = world(fleet())
    old, new = served.ask("/metrics"), served.ask("/metrics", accept="application/openmetrics-text")
    assert old.kind.startswith("text/plain; version=0.0.4")
    assert new.kind.startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(read_classic(old.body.decode()))) > 40
    assert len(list(read_open(new.body.decode()))) > 40


def test_metrics_and_document_of_one_picture_tell_the_same(world: Callable[..., World]) -> None:
    served = world(fleet())
    document = json.loads(served.ask("/v1/snapshot").body)
    metrics = {
        (sample.name, sample.labels.get("uuid")): sample.value
        for family in read_classic(served.ask("/metrics").body.decode())
        for sample in family.samples
    }
    powers = {g["uuid"]: g["power_w"] for node in document["nodes"] for g in node["gpus"]}
    assert any(powers.values())
    for uuid, power_w in powers.items():
        assert metrics.get(("gpumon_power_watts", uuid)) == power_w


def test_a_document_is_made_once_a_picture_and_shared_by_all(world: Callable[..., World]) -> None:
    served = world(fleet())
    answers = served.asked_at_once(*["/v1/snapshot"] * 50)
    assert served.made == 1
    assert all(answer.body is answers[0].body for answer in answers)
    served.routes.take(fleet(number=2))
    served.ask("/v1/snapshot")
    assert served.made == 2


def test_a_page_is_packed_where_that_is_asked_for(world: Callable[..., World]) -> None:
    served = world(fleet())
    packed = served.ask("/metrics", accept_encoding="gzip, deflate")
    assert ("Content-Encoding", "gzip") in packed.headers
    assert gzip.decompress(packed.body) == served.ask("/metrics").body


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_nothing_but_reading_is_allowed(
    world: Callable[..., World], path: str, method: str
) -> None:
    answer = world(fleet()).ask(path, method)
    assert answer.status == 405
    assert ("Allow", "GET, HEAD") in answer.headers
    assert answer.body.count(b"\n") == 1


@pytest.mark.parametrize("path", ["/metrics/", "//metrics", "/v1", "/../etc/passwd", "", "*"])
def test_other_paths_are_not_there(world: Callable[..., World], path: str) -> None:
    answer = world(fleet()).ask(path)
    assert (answer.status, answer.body.count(b"\n")) == (404, 1)


@pytest.mark.parametrize("path", PATHS)
def test_a_kind_that_there_is_not_is_refused(world: Callable[..., World], path: str) -> None:
    answer = world(fleet()).ask(path, accept="image/png")
    assert answer.status == 406
    assert b"Accept" in answer.body


def test_before_the_first_picture_pages_say_to_come_back(world: Callable[..., World]) -> None:
    served = world()
    for path in ("/healthz", "/metrics", "/v1/snapshot"):
        answer = served.ask(path)
        assert (answer.status, answer.headers) == (503, (("Retry-After", "1"),))
    assert served.ask("/").status == 200


def test_health_is_that_the_picture_is_fresh(world: Callable[..., World]) -> None:
    served = world(fleet(at=AT))
    assert served.ask("/healthz").body == b"ok\n"
    served.clock.time = AT + 40
    assert served.ask("/healthz").status == 503
    assert b"40 s old" in served.ask("/healthz").body


@pytest.mark.parametrize("host", ["localhost:9777", "127.0.0.1", "[::1]:9777", "localhost"])
def test_names_of_this_machine_are_answered_to(world: Callable[..., World], host: str) -> None:
    assert world(fleet(), checks_host=True).ask("/metrics", host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9777", "[2001:db8::1]:1", ""])
def test_what_another_site_makes_a_browser_ask_is_not_answered(
    world: Callable[..., World], host: str
) -> None:
    assert world(fleet(), checks_host=True).ask("/metrics", host=host).status == 421


def asking(world: World, **query: str) -> Asked:
    return Asked("GET", "/v1/frames", query, {}, is_persistent=True)


def kinds_of(answer: Answer) -> list[str]:
    lines = b"".join((answer.body, *answer.more)).splitlines()
    return [json.loads(line)["kind"] for line in lines]


def test_all_who_are_told_the_same_frames_share_them(world: Callable[..., World]) -> None:
    served = world()
    served.feed.end_tick(AT, 1.0)
    one, other = served.ask("/v1/frames"), served.ask("/v1/frames")
    assert one.body is other.body
    assert len(one.body) > 100


def test_frames_are_lines_of_a_recording_and_a_mark(world: Callable[..., World]) -> None:
    served = world()
    served.feed.end_tick(AT, 1.0)
    answer = served.ask("/v1/frames")
    assert answer.kind == "application/x-ndjson"
    assert kinds_of(answer) == ["header", "sync", "beat", "mark"]


def test_who_waits_for_a_picture_is_answered_as_it_comes(world: Callable[..., World]) -> None:
    served = world()
    served.feed.end_tick(AT, 1.0)
    position = f"{served.feed.run}-1"

    async def waits() -> Answer:
        await asyncio.wrap_future(served.feed.since(None))
        answer = asyncio.ensure_future(
            served.routes.answer(asking(served, since=position, wait="inf"))
        )
        await asyncio.sleep(0)
        served.feed.end_tick(AT + 1, 1.0)
        await asyncio.wrap_future(served.feed.since(1))
        served.routes.rouse()
        return await answer

    assert kinds_of(asyncio.run(waits())) == ["beat", "mark"]


@pytest.mark.parametrize("wait", ["0", "-1", "x", "nan", "0.001"])
def test_nobody_waits_longer_than_they_ask_for(world: Callable[..., World], wait: str) -> None:
    served = world()
    served.feed.end_tick(AT, 1.0)

    async def asks() -> Answer:
        await asyncio.wrap_future(served.feed.since(None))
        since = f"{served.feed.run}-1"
        return await served.routes.answer(asking(served, since=since, wait=wait))

    assert kinds_of(asyncio.run(asks())) == ["mark"]


def test_a_wait_has_an_end(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.001)
    test_nobody_waits_longer_than_they_ask_for(world, "1e9")
