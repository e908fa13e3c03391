"""Frames for terminals that attach: whoever comes late knows what knows who was there all along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.serve import frames as module
from gpumon.serve.frames import FrameFeed
from gpumon.sources.demo import DemoSource
from gpumon.sources.recording.decode import Decoder, Header, TickFrames
from tests.worlds.clocks import Hasty
from tests.worlds.tick import AT

if TYPE_CHECKING:
    from collections.abc import Iterator


class World:
    """A feed of a demo, tick by tick."""

    def __init__(self) -> None:
        self.clock = Hasty(AT)
        self.source = DemoSource("demo:2x4", 2, 4, 1, self.clock, 1.0, 0.0)
        self.source.start(lambda: None)
        self.feed = FrameFeed(["demo:2x4"], 1.0, self.clock.now)

    def tick(self, *more: Frame) -> None:
        self.clock.time += 1.0
        self.feed.frames([*self.source.poll(), *more])
        self.feed.end_tick(self.clock.time, 1.0)

    def close(self) -> None:
        self.source.close()
        self.feed.close()


class Follower:
    """Reads what a feed tells, as a terminal does."""

    def __init__(self, world: World) -> None:
        self._feed = world.feed
        self._decoder = Decoder()
        self.position: int | None = None
        self.begun = 0
        self.ticks = 0

    def ask(self) -> list[Frame]:
        found = []
        lines = b"".join(self._feed.since(self.position).result(30.0))
        for raw in lines.splitlines(keepends=True):
            record = self._decoder.read(raw)
            if isinstance(record, Frame):
                found.append(record)
            self.begun += isinstance(record, Header)
            self.ticks += isinstance(record, TickFrames)
        self.position = self._feed.sequence
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.tick()
    yield made
    made.close()


def newest(frames: list[Frame]) -> dict[str, Frame]:
    return {frame.node: frame for frame in frames}


def content(frame: Frame) -> object:
    """What a frame tells, in an order of its own: NaN is like itself."""
    blocks = {
        name: (
            block.keys,
            sorted((key, repr(column)) for key, column in block.columns.items()),
            sorted(block.labels.items()),
            sorted(block.missing.items()),
        )
        for name, block in frame.blocks.items()
    }
    return frame.node, frame.taken_at, blocks, frame.errors, frame.queue


def test_all_that_holds_is_told_to_who_comes(world: World) -> None:
    frames = newest(Follower(world).ask())
    assert {"", "gpu001", "gpu002"} <= frames.keys()
    assert frames[""].queue is not None
    assert len(frames["gpu001"].block("gpu").keys) == 4


def test_who_follows_is_told_each_picture_once(world: World) -> None:
    follower = Follower(world)
    follower.ask()
    assert follower.ask() == []
    world.tick()
    world.tick()
    assert newest(follower.ask())["gpu001"].taken_at == pytest.approx(AT + 3, abs=1.0)
    assert (follower.begun, follower.ticks) == (1, 3)


def test_who_comes_late_goes_on_as_who_was_there_all_along(world: World) -> None:
    early = Follower(world)
    early.ask()
    silent = Frame("demo:2x4", "gpu002", AT + 2, 0.0, {}, (SourceError("gpu002", "is gone"),))
    world.tick(silent)
    early.ask()
    late = Follower(world)
    late.ask()
    for _ in range(3):
        world.tick()
        assert list(map(content, early.ask())) == list(map(content, late.ask()))


def test_the_last_values_of_a_node_that_fails_are_told_to_who_comes(world: World) -> None:
    gone = Frame("ssh://n1", "n1", AT, 0.0, {}, (SourceError("n1", "is gone"),))
    valued = newest(Follower(world).ask())["gpu001"]
    world.tick(valued._replace(origin="ssh://n1", node="n1"), gone)
    frames = [frame for frame in Follower(world).ask() if frame.node == "n1"]
    assert [bool(frame.blocks) for frame in frames] == [True, False]
    assert frames[1].errors == gone.errors


def test_a_failure_that_is_over_is_not_the_last_word_to_who_comes(world: World) -> None:
    failed = Frame("prometheus+http://m", "", AT, 0.0, {}, (SourceError("m", "gone"),), over_at=AT)
    world.tick()
    seen = next(frame for frame in Follower(world).ask() if frame.node and frame.blocks)
    there = seen._replace(origin=failed.origin)
    world.tick(there)
    world.tick(failed)
    assert Follower(world).ask()[-1].over_at == AT
    world.tick(there)
    own = [frame for frame in Follower(world).ask() if frame.origin == failed.origin]
    assert [bool(frame.blocks) for frame in own] == [False, True]


def test_a_position_of_another_server_or_none_at_all_begins_anew(world: World) -> None:
    feed = world.feed
    assert feed.position(f"{feed.run}-1") == 1
    for text in ("", "1", "other-1", f"{feed.run}-", f"{feed.run}-x", f"{feed.run}-{'9' * 5000}"):
        assert feed.position(text) is None
    follower = Follower(world)
    follower.ask()
    follower.position = 99
    follower.ask()
    assert follower.begun == 2


def test_who_was_away_for_more_pictures_than_are_kept_begins_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TICKS", 2)
    follower, away = Follower(world), Follower(world)
    follower.ask()
    away.ask()
    for _ in range(3):
        world.tick()
        follower.ask()
    away.ask()
    assert (follower.begun, away.begun) == (1, 2)


def test_pictures_beyond_the_room_for_them_are_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_STORED_BYTES", 10)
    follower = Follower(world)
    follower.ask()
    world.tick()
    assert newest(follower.ask()).keys() >= {"gpu001"}
    assert follower.begun == 2


def test_nothing_is_encoded_once_nobody_asks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNASKED_TICKS", 2)
    follower = Follower(world)
    follower.ask()
    for _ in range(4):
        world.tick()
    assert newest(follower.ask()).keys() >= {"gpu001"}
    assert follower.begun == 2


def test_all_who_come_at_one_picture_share_what_is_told(world: World) -> None:
    first, second = (world.feed.since(None).result(30.0) for _ in range(2))
    assert first[0] is second[0]


def test_a_picture_after_the_end_is_nobody_s(world: World) -> None:
    world.feed.close()
    world.tick()
    world.feed.settled(lambda: None)
