"""What sources remember is put before what is sampled, and holds up nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.fleet.history.history import History
from gpumon.fleet.join.join import join
from gpumon.fleet.replay import filling, missing
from gpumon.fleet.replay.filling import FillingPast
from gpumon.model.records.tick import Tick
from gpumon.sources.source import PastFrames
from tests.unit.fleet.factories import frame, gpu_block, uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.model.records.frame import Frame

NOW = 1_800_000_000.0
GPU = uuid("n1", 0)


def told(at: float, power_w: float, node: str = "n1", origin: str = "prometheus+http://m") -> Frame:
    return frame(node, {"gpu": gpu_block(node, [0], power_w=[power_w])}, at, origin)


def tick(at: float, power_w: float = 500.0) -> Tick:
    picture = join([told(at, power_w)], None, {}, at, 5.0)
    empty: tuple[()] = ()
    return Tick(
        *(0, at, at, 1.0, empty, picture.nodes, picture.gpus, empty),
        *(None, empty, empty, empty, 0.0),
    )


class Source:
    """Remembers what it is given."""

    def __init__(self) -> None:
        self.is_recalling = False
        self.past: Callable[[], Iterator[PastFrames]] | None = None

    def recalled(self) -> Callable[[], Iterator[PastFrames]] | None:
        past, self.past = self.past, None
        return past

    def tells(self, since: float, until: float, step_s: float = 60.0, node: str = "n1") -> None:
        def beats() -> Iterator[PastFrames]:
            at = since
            while at < until:
                yield PastFrames(at, step_s, (told(at, 100.0, node, f"prometheus+http://{node}"),))
                at += step_s

        self.is_recalling, self.past = False, beats


class Later:
    """Runs work when it is told to."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def run(self) -> None:
        for work in self.work:
            work()
        self.work.clear()


@pytest.fixture(autouse=True)
def _breathless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "BREATH_S", 0.0)
    monkeypatch.setattr(missing, "BREATH_S", 0.0)


def window(past: FillingPast, gpu: str = GPU) -> dict[float, float]:
    times, values = past.reader().window(gpu, "power_w", 0.0, NOW * 2)
    return dict(zip(times, values, strict=True))


def test_a_past_that_comes_late_lies_before_all_that_was_sampled_meanwhile() -> None:
    source, later = Source(), Later()
    source.is_recalling = True
    past = FillingPast(History(), [source], run=later)
    past.append(tick(NOW))
    past.append(tick(NOW + 1))
    before = past.reader()
    source.tells(NOW - 600.0, NOW + 300.0)
    past.append(tick(NOW + 2))
    assert set(window(past)) == {NOW, NOW + 1, NOW + 2}
    later.run()
    past.append(tick(NOW + 3))
    found = window(past)
    assert list(found) == sorted(found)
    assert [at for at in found if at < NOW] == [NOW - 600.0 + n * 60.0 for n in range(10)]
    assert [found[NOW - 60.0], found[NOW + 3]] == [100.0, 500.0]
    assert [at - NOW for at in found if at >= NOW] == [0.0, 1.0, 2.0, 3.0]
    assert past.begins_at == NOW - 600.0
    # Who reads an earlier picture sees its past, and no chunk of both is taken for the other.
    assert before.window(GPU, "power_w", 0.0, NOW * 2)[0] == [NOW, NOW + 1]
    numbers = {chunk.shape.number for chunk, _ in before.chunks}
    assert numbers.isdisjoint(chunk.shape.number for chunk, _ in past.reader().chunks)


def test_nothing_is_held_where_no_past_will_come() -> None:
    past = FillingPast(History(), [Source()], run=Later())
    for n in range(5):
        past.append(tick(NOW + n))
    assert past._held == []


def test_of_many_pictures_that_wait_for_a_past_every_other_one_is_held() -> None:
    source, later = Source(), Later()
    source.is_recalling = True
    past = FillingPast(History(), [source], run=later)
    for n in range(1000):
        past.append(tick(NOW + n))
    assert len(past._held) <= missing.MOST_HELD
    source.tells(NOW - 600.0, NOW)
    past.append(tick(NOW + 1000))
    later.run()
    past.append(tick(NOW + 1001))
    found = window(past)
    assert (min(found), max(found)) == (NOW - 600.0, NOW + 1001)


def test_what_was_missed_is_filled_in_where_nobody_else_measures() -> None:
    source, later = Source(), Later()
    past = FillingPast(History(), [source], run=later)
    for n in range(5):
        past.append(tick(NOW + n))
    source.is_recalling = True
    past.append(tick(NOW + 600.0))
    source.tells(NOW - 60.0, NOW + 600.0)
    past.append(tick(NOW + 601.0))
    later.run()
    past.append(tick(NOW + 602.0))
    found = window(past)
    assert NOW + 300.0 in found
    assert NOW + 600.0 in found


def silent(at: float) -> Tick:
    """A picture of which no value is of the present."""
    gone = join([told(at - 60.0, 1.0)], None, {}, at, 5.0)
    return tick(at)._replace(nodes=gone.nodes, gpus=gone.gpus)


def test_what_is_missed_lies_between_what_is_remembered_and_what_comes_and_is_no_new_past() -> None:
    source, later = Source(), Later()
    memory = History()
    past = FillingPast(memory, [source], run=later)
    for n in range(3):
        past.append(tick(NOW + n))
    for n in range(3, 300):
        past.append(silent(NOW + n))
    source.is_recalling = True
    past.append(tick(NOW + 300))
    # It is not there yet, and nothing is behind it.
    assert set(window(past)) == {NOW, NOW + 1, NOW + 2}
    source.tells(NOW + 1.0, NOW + 300.0)
    past.append(tick(NOW + 301))
    later.run()
    # It is being put there: a reader sees what was there before.
    assert set(window(past)) == {NOW, NOW + 1, NOW + 2}
    past.append(tick(NOW + 302))
    found = window(past)
    filled = [NOW + 61.0, NOW + 121.0, NOW + 181.0, NOW + 241.0]
    told_at = [at for at, power_w in found.items() if power_w == power_w]
    assert told_at == [NOW, NOW + 1, NOW + 2, *filled, NOW + 300, NOW + 301, NOW + 302]
    assert list(found) == sorted(found)
    assert past._past is memory


def test_an_outage_of_which_nothing_is_told_is_remembered_as_one() -> None:
    source = Source()
    past = FillingPast(History(), [source], run=Later())
    past.append(tick(NOW))
    for n in (1, 2, 3):
        past.append(silent(NOW + n))
    past.append(tick(NOW + 4))
    found = window(past)
    assert [at for at, power_w in found.items() if power_w == power_w] == [NOW, NOW + 4]
    assert past._missing._held == []


@pytest.mark.parametrize(("after_s", "begins"), [(10.0, NOW - 600.0), (600.0, NOW)])
def test_a_late_past_takes_the_place_of_nothing_that_others_measured(
    after_s: float, begins: float
) -> None:
    source, later = Source(), Later()
    past = FillingPast(History(), [source], is_alone=False, run=later)
    past.append(tick(NOW))
    source.is_recalling = True
    past.append(tick(NOW + after_s))
    source.tells(NOW - 600.0, NOW + after_s)
    past.append(tick(NOW + after_s + 1.0))
    later.run()
    past.append(tick(NOW + after_s + 2.0))
    assert past.begins_at == begins


def test_several_sources_are_put_together_whenever_one_tells() -> None:
    one, other, later = Source(), Source(), Later()
    past = FillingPast(History(), [one, other], run=later)
    one.tells(NOW - 600.0, NOW)
    past.append(tick(NOW))
    later.run()
    other.is_recalling = True
    past.append(tick(NOW + 1))
    other.tells(NOW - 600.0, NOW, node="n2")
    past.append(tick(NOW + 2))
    later.run()
    past.append(tick(NOW + 3))
    assert NOW - 60.0 in window(past)
    assert window(past, uuid("n2", 0))[NOW - 60.0] == 100.0


def test_a_past_that_breaks_off_or_tells_nothing_leaves_what_is_there() -> None:
    source, later = Source(), Later()
    past = FillingPast(History(), [source], run=later)

    def broken() -> Iterator[PastFrames]:
        for at in (NOW - 60.0, NOW - 30.0):
            yield PastFrames(at, 30.0, (told(at, 100.0),))
        raise MemoryError

    source.past = broken
    past.append(tick(NOW))
    later.run()
    with pytest.raises(MemoryError):
        past.append(tick(NOW + 1))
    assert set(window(past)) == {NOW - 60.0, NOW, NOW + 1}
    source.past = lambda: iter(())
    past.append(tick(NOW + 2))
    later.run()
    past.append(tick(NOW + 3))
    assert set(window(past)) == {NOW - 60.0, NOW, NOW + 1, NOW + 2, NOW + 3}


def test_what_is_made_when_it_is_closed_is_let_go() -> None:
    source, later = Source(), Later()
    past = FillingPast(History(), [source], run=later)
    source.tells(NOW - 600.0, NOW)
    past.append(tick(NOW))
    past.close()
    later.run()
    assert past.reader().chunks == ()
