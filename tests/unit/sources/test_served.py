"""Another gpumon as a source: what it tells, what fails, and how it comes back."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.fleet.sampler.newest import Newest
from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.serve.exchange import Answer
from gpumon.serve.frames import FrameFeed
from gpumon.serve.listen import Listen, bound, released
from gpumon.serve.server import HttpServer
from gpumon.sources import served as module
from gpumon.sources.address import Sampling, parse, rank_of, target_of
from gpumon.sources.demo import DemoSource
from gpumon.sources.open import open_source
from gpumon.sources.served_address import NDJSON
from gpumon.sources.source import SystemClock, Wish
from tests.worlds.clocks import Hasty
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpumon.serve.exchange import Asked
    from gpumon.sources.source import Source

Say = Callable[..., None]


class Server:
    """A gpumon that serves, as far as frames go."""

    def __init__(self, path: Path, behind_s: float = 0.0, watches: str = "demo:2x4") -> None:
        self.clock = Hasty(SystemClock().now() - behind_s)
        self.source = DemoSource("demo:2x4", 2, 4, 1, self.clock, 1.0, 0.0)
        self.source.start(lambda: None)
        self.feed = FrameFeed([watches], 1.0, self.clock.now)
        self.where = Listen("s", path=str(path))
        self.asked: list[Asked] = []
        self.answer: Answer | None = None
        self.start()
        self.beat()

    def start(self) -> None:
        self.listening = bound(self.where)
        self.server = HttpServer(self.listening, self._answer)
        self.server.start()

    def stop(self) -> None:
        self.server.close()
        released(self.where, self.listening)

    async def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.answer is not None:
            return self.answer
        position = self.feed.position(asked.query.get("since", ""))
        first, *more = self.feed.since(position).result(30.0)
        return Answer(HTTPStatus.OK, first, NDJSON, more=tuple(more))

    def beat(self, *more: Frame) -> None:
        self.clock.time += 1.0
        self.feed.frames([*self.source.poll(), *more])
        self.feed.end_tick(self.clock.now(), 1.0)
        self.feed.since(0).result(30.0)

    def close(self) -> None:
        self.stop()
        self.feed.close()
        self.source.close()


class World:
    """A server and who follows it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s"
        self.open: list[Any] = []
        self.frames: list[Frame] = []

    def serve(self, **options: Any) -> Server:
        server = Server(self.path, **options)
        self.open.append(server)
        return server

    def follow(
        self, *, once: bool = False, keeps: Callable[[Any], bool] = lambda _: True, query: str = ""
    ) -> Source:
        sampling = Sampling(0.01, once, keeps)
        source = open_source(parse(f"gpumon+unix://{self.path}{query}"), sampling, SystemClock())
        source.start(lambda: None)
        self.open.append(source)
        return source

    def told(self, source: Source, is_enough: Callable[[list[Frame]], bool]) -> list[Frame]:
        """Frames until there are enough."""
        self.frames = []

        def look() -> bool:
            self.frames += source.poll()
            return is_enough(self.frames)

        eventually(look, "enough was told")
        return self.frames

    def error(self, source: Source, said: Say) -> tuple[str, str]:
        frames = self.told(source, lambda told: any(frame.errors for frame in told))
        found = next(frame.errors[0] for frame in frames if frame.errors)
        assert found.where == source.url
        said(found.message, found.hint)
        return found.message, found.hint


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for one in reversed(made.open):
        one.close()


def valued(node: str) -> Callable[[list[Frame]], bool]:
    return lambda told: any(frame.node == node and frame.blocks for frame in told)


def test_frames_come_as_the_server_was_told_them(world: World) -> None:
    server = world.serve()
    source = world.follow(once=True)
    frames = world.told(source, valued("gpu002"))
    assert {frame.origin for frame in frames} == {source.url}
    assert any(frame.queue and frame.queue.jobs for frame in frames)
    assert not source.pending()
    # A single look asks once, and for all that holds.
    assert [asked.query for asked in server.asked] == [{"wait": "0"}]


def test_what_is_new_is_asked_for_by_number(world: World) -> None:
    server = world.serve()
    source = world.follow()
    world.told(source, valued("gpu001"))
    server.beat()
    world.told(source, valued("gpu001"))
    assert server.asked[-1].query["since"].startswith(f"{server.feed.run}-")
    assert "since" not in server.asked[0].query


def test_a_server_that_ends_is_told_at_once_and_its_return_as_well(
    world: World, monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    monkeypatch.setattr(module, "_LEAST_RETRY_S", 0.01)
    server = world.serve()
    source = world.follow()
    world.told(source, valued("gpu001"))
    server.stop()
    message, hint = world.error(source, said)
    assert message.startswith("cannot be read: ")
    assert "gpumon serve" in hint
    over_at = next(frame.over_at for frame in world.frames if frame.errors)
    assert over_at is not None
    assert over_at - SystemClock().now() <= 2.25
    again = world.serve()
    assert again.feed.run != server.feed.run
    world.told(source, valued("gpu001"))
    # It asks the new one for all that holds: what it knew is of the other.
    assert "since" not in again.asked[0].query


def test_jobs_that_nobody_looks_for_are_left_out_where_they_are_real(world: World) -> None:
    world.serve(watches="slurm")
    source = world.follow(keeps=lambda job: job.user == "nobody")
    frames = world.told(source, lambda told: any(frame.queue for frame in told))
    queue = next(frame.queue for frame in frames if frame.queue)
    assert queue.jobs == ()
    assert queue.is_filtered


def test_jobs_of_a_demo_are_all_there(world: World) -> None:
    world.serve()
    source = world.follow(keeps=lambda _job: False)
    frames = world.told(source, lambda told: any(frame.queue for frame in told))
    assert next(frame.queue for frame in frames if frame.queue).jobs


def test_times_are_told_by_this_machine_s_clock(world: World) -> None:
    world.serve(behind_s=500.0)
    frames = world.told(world.follow(), valued("gpu001"))
    at = next(frame.taken_at for frame in frames if frame.blocks)
    assert at == pytest.approx(SystemClock().now(), abs=60.0)


def test_of_two_probes_of_a_node_the_first_is_shown(world: World) -> None:
    server = world.serve()
    source = world.follow()
    seen = next(f for f in world.told(source, valued("gpu001")) if f.node == "gpu001" and f.blocks)
    server.beat(seen._replace(origin="ssh://gpu001", taken_at=1.0))
    frames = world.told(source, valued("gpu001"))
    assert all(frame.taken_at != 1.0 for frame in frames)


@pytest.mark.parametrize(("other", "rank"), [("dcgm+https", 1), ("prometheus+http", 0)])
def test_what_is_no_probe_goes_on_as_an_origin_of_its_own(
    world: World, other: str, rank: int
) -> None:
    """So that it completes what the probe tells here as it does on the server."""
    server = world.serve()
    source = world.follow()
    seen = next(f for f in world.told(source, valued("gpu001")) if f.node == "gpu001" and f.blocks)
    page = seen._replace(origin=f"{other}://gpu001:9400/x", taken_at=1.0)
    server.beat(page)
    frames = world.told(source, lambda told: any(frame.taken_at == 1.0 for frame in told))
    origin = next(frame.origin for frame in frames if frame.taken_at == 1.0)
    assert origin.startswith(f"{source.url}#{other}:")
    assert (target_of(origin), rank_of(origin), rank_of(source.url)) == (source.url, rank, 2)


def test_of_targets_there_only_what_failed_is_over(world: World) -> None:
    server = world.serve()
    source = world.follow()
    seen = next(f for f in world.told(source, valued("gpu001")) if f.node == "gpu001" and f.blocks)
    origins = ("prometheus+http://mon", "prometheus+http://other")
    server.beat(*(seen._replace(origin=origin) for origin in origins))
    world.told(source, lambda told: sum("#prometheus" in frame.origin for frame in told) == 2)
    newest = Newest()
    newest.take(world.frames)
    error = SourceError("prometheus+http://mon", "cannot be reached")
    failed = Frame("prometheus+http://mon", "", server.clock.now(), 0.0, {}, (error,))
    server.beat(failed._replace(over_at=server.clock.now() - 1.0))
    frames = world.told(source, lambda told: any(frame.errors for frame in told))
    newest.take(frame for frame in frames if not frame.blocks)
    assert sum(frame.over_at is not None for frame in newest.frames) == 1


MARK = b'{"kind":"mark","run":"a1","sequence":1,"at":1.0}\n'


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401, b""), "wants a token (HTTP 401)"),
        (Answer(403, b""), "does not show its frames to this token (HTTP 403)"),
        (Answer(404, b""), "has no frames (HTTP 404)"),
        (Answer(500, b""), "answers with an error (HTTP 500)"),
        (
            Answer(302, b"", headers=(("Location", "http://x/\x1b[31m"),)),
            "redirects to http://x/\ufffd[31m, which is not followed",
        ),
        (Answer(200, b"<html>", "text/html"), "answers with text/html, which is not gpumon serve"),
        (Answer(200, b"", NDJSON), "its answer is cut off"),
        (Answer(200, b'{"kind":"sync"', NDJSON), "its answer is cut off, or larger than 256 MiB"),
        (
            Answer(200, b"rubbish\n", NDJSON),
            "sent something that gpumon does not send (it is not JSON)",
        ),
        (
            Answer(200, MARK.replace(b"1.0", b'"x"'), NDJSON),
            "sent something that gpumon does not send",
        ),
        (
            Answer(200, b'{"kind":"header","format":"x"}\n', NDJSON),
            "its data is not a recording of gpumon",
        ),
    ],
)
def test_whatever_is_wrong_is_one_line(world: World, answer: Answer, words: str, said: Say) -> None:
    world.serve().answer = answer
    message, hint = world.error(world.follow(), said)
    assert message.startswith(words)
    assert hint
    assert (message + hint).isprintable()


def test_an_answer_that_is_too_large_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWER_BYTES", 1000)
    world.serve()
    assert "larger than" in world.error(world.follow(), said)[0]


def test_a_token_is_sent_from_its_file_and_told_nowhere(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ada T0kenT0kenT0ken\n")
    file.chmod(0o600)
    server = world.serve()
    source = world.follow(query=f"?token_file={file}")
    frames = world.told(source, valued("gpu001"))
    assert server.asked[0].headers["authorization"] == "Bearer T0kenT0kenT0ken"
    assert "T0ken" not in repr(frames) + source.url


def test_a_token_that_others_can_read_is_not_sent(world: World, tmp_path: Path, said: Say) -> None:
    file = tmp_path / "token"
    file.write_text("T0kenT0kenT0ken\n")
    file.chmod(0o644)
    server = world.serve()
    assert "is open to others" in world.error(world.follow(query=f"?token_file={file}"), said)[0]
    assert server.asked == []


def test_a_server_that_says_nothing_is_given_up_and_holds_up_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(world.path))
        silent.listen()
        source = world.follow()
        assert world.error(source, said)[0].startswith("gave no complete answer within")
        source.wish(Wish(is_by_hand=True))
        source.close()
