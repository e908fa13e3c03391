"""The books of one fleet, kept by probes, by exporters' pages, and by servers that gather them."""

from __future__ import annotations

import asyncio
from array import array
from typing import TYPE_CHECKING, Final

import pytest

from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.join.join import join
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records.frame import Frame
from gpumon.model.records.tick import Tick
from gpumon.model.staleness import stale_after_s
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.records.slurm_queue import queue_records
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.exposition.parse import parse
from gpumon.sources.prometheus.nodes import Nodes, frames_of
from gpumon.sources.prometheus.questions import SETTLED_S, Questions
from tests.bench.roads import names_told, page_of
from tests.worlds.gathered import Series, Server
from tests.worlds.roads import DETECTORS, Words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.detect.view import View
    from gpumon.model.finding import Finding
    from gpumon.model.records.frame import QueueRecords
    from gpumon.model.records.ledger import Total

START: Final = 1_800_000_000.0
EVERY_S: Final = 30.0
"""Beat of exporters, of the server, and of all who look."""

BEATS: Final = 40
LOSING_BEATS: Final = 150
"""Long enough for what is supported after half an hour."""


class Beat:
    """The fleet at one time: what probes tell, the pages, and the queue."""

    def __init__(self, at: float, frames: Sequence[Frame], queue: QueueRecords) -> None:
        self.at, self.frames, self.queue = at, frames, queue
        names = names_told(is_all=True)
        self.pages = {
            frame.node: page_of(frame.block("gpu"), frame.node, names)
            for frame in frames
            if frame.block("gpu").keys
        }


def watched(nodes: int, gpus: int, seed: int, count: int) -> list[Beat]:
    fleet = Fleet(nodes, gpus, seed, START - 3600.0)
    maker = FrameMaker(fleet, "demo")
    found = []
    for number in range(count):
        at = START + EVERY_S * number
        found.append(Beat(at, maker.frames(at, EVERY_S), queue_records(fleet, at)))
    return found


@pytest.fixture(scope="module")
def beats() -> list[Beat]:
    return watched(3, 4, 11, BEATS)


@pytest.fixture(scope="module")
def losing() -> list[Beat]:
    return watched(6, 8, 23, LOSING_BEATS)


def by_probe(beats: list[Beat]) -> Iterator[Sequence[Frame]]:
    for beat in beats:
        yield beat.frames


def by_page(beats: list[Beat]) -> Iterator[Sequence[Frame]]:
    readers: dict[str, PageReader] = {}
    for beat in beats:
        frames = []
        for node, page in beat.pages.items():
            (reading,) = readers.setdefault(node, PageReader(node)).read(page, beat.at, beat.at)
            frames.append(Frame("dcgm", node, beat.at, 0.0, reading.blocks, reading.errors))
        yield frames


def by_server(beats: list[Beat], *, is_victoria: bool) -> Iterator[Sequence[Frame]]:
    """Looks right after each gathering, at what was gathered then."""
    held: dict[str, Series] = {}
    for beat in beats:
        for node, page in beat.pages.items():
            for one in parse(page).samples:
                text = f"{one.name}{sorted(one.labels.items())}"
                labels = {**one.labels, "instance": f"{node}:9400"}
                made = Series(one.name, labels, array("d"), array("d"))
                series = held.setdefault(text, made)
                series.times.append(beat.at)
                series.values.append(one.value)
    server = Server([*held.values()], START, is_victoria=is_victoria)
    questions = Questions(server)  # type: ignore[arg-type]
    nodes = Nodes()
    with asyncio.Runner() as runner:
        for beat in beats:
            server.now = beat.at + SETTLED_S
            seen = runner.run(questions.poll())
            told, errors = nodes.read(seen, beat.at, 2.0 * EVERY_S)
            assert not errors
            yield frames_of(told, "prometheus", beat.at, 0.0, 2.0 * EVERY_S)


def told_by(road: str, beats: list[Beat]) -> Iterator[Sequence[Frame]]:
    if road == "exporter":
        return by_page(beats)
    return by_server(beats, is_victoria=road == "VictoriaMetrics")


def ticks(beats: list[Beat], told: Iterator[Sequence[Frame]]) -> Iterator[Tick]:
    for number, (beat, frames) in enumerate(zip(beats, told, strict=True)):
        picture = join(frames, beat.queue, {}, beat.at, stale_after_s(EVERY_S))
        yield Tick(
            *(number, beat.at, START, EVERY_S, (), picture.nodes, picture.gpus, picture.jobs),
            *(beat.at, (), (), (), 0.0),
            queue=beat.queue,
        )


def books(beats: list[Beat], told: Iterator[Sequence[Frame]]) -> Total:
    """What is booked of all jobs, where nothing is claimed."""
    ledger = Ledger()
    for tick in ticks(beats, told):
        ledger.take(tick)
    return ledger.summary().total()


def judged(
    beats: list[Beat], told: Iterator[Sequence[Frame]]
) -> tuple[Total, dict[str, list[Finding]], View]:
    """What is booked, found by each detector, and seen, where all detectors look at the end."""
    ledger, history = Ledger(), History(2 * LOSING_BEATS * EVERY_S)
    *before, last = ticks(beats, told)
    for tick in before:
        ledger.take(tick)
        history.append(tick)
    history.append(last)
    view = view_of(last._replace(observed_since=START, history=history.reader()))
    found = {name: [*detector.evaluate(view)] for name, detector in DETECTORS.items()}
    ledger.take(last._replace(findings=tuple(one for some in found.values() for one in some)))
    return ledger.summary().total(), found, view


@pytest.mark.parametrize(
    "road",
    [
        "exporter",
        pytest.param("Prometheus", marks=pytest.mark.slow),
        pytest.param("VictoriaMetrics", marks=pytest.mark.slow),
    ],
)
def test_no_road_books_more_as_lost_and_what_it_books_less_is_named(losing, road) -> None:
    probe, found, _ = judged(losing, by_probe(losing))
    other, also_found, view = judged(losing, told_by(road, losing))
    assert len(probe.wasted_s) > 1
    assert probe.suspected_s
    # A server's values are an instant younger than the beat, on each GPU of a job.
    slack_s = 8 * 2 * SETTLED_S
    for name, seconds in other.wasted_s.items():
        assert seconds <= probe.wasted_s.get(name, 0.0) + slack_s, name
    for name, seconds in other.suspected_s.items():
        before = probe.suspected_s.get(name, 0.0) + probe.wasted_s.get(name, 0.0)
        assert seconds <= before + slack_s, name
    shares = (other.useful_s, other.unexplained_s, *other.wasted_s.values())
    assert sum((*shares, *other.suspected_s.values())) == pytest.approx(other.observed_s)
    for name, some in found.items():
        seen = {(one.finding_class, one.subject) for one in also_found[name]}
        words = Words(DETECTORS[name], view)
        unsaid = [one for one in some if (one.finding_class, one.subject) not in seen]
        assert all(words.about(one.subject) for one in unsaid), (name, unsaid)


@pytest.mark.parametrize("road", ["exporter", "Prometheus", "VictoriaMetrics"])
def test_what_was_held_used_and_burnt_is_the_same_by_every_road(beats, road) -> None:
    probe, other = books(beats, by_probe(beats)), books(beats, told_by(road, beats))
    assert probe.observed_s > 4 * BEATS * EVERY_S
    assert probe.useful_s > 0.2 * probe.observed_s
    assert other.allocated_s == pytest.approx(probe.allocated_s, rel=1e-6)
    assert other.observed_s == pytest.approx(probe.observed_s, rel=0.02)
    assert other.useful_s == pytest.approx(probe.useful_s, rel=0.02)
    assert other.unexplained_s == pytest.approx(probe.unexplained_s, rel=0.02)
    assert other.energy_j == pytest.approx(probe.energy_j, rel=0.02)
    assert other.energy_s == pytest.approx(probe.energy_s, rel=0.05)


@pytest.mark.parametrize("is_victoria", [False, True])
def test_a_server_tells_of_each_gpu_what_its_page_does(beats, is_victoria) -> None:
    pages = {frame.node: frame.block("gpu") for frame in [*by_page(beats)][-1]}
    told = {frame.node: frame for frame in [*by_server(beats, is_victoria=is_victoria)][-1]}
    assert told.keys() == pages.keys()
    for node, page in pages.items():
        block = told[node].block("gpu")
        assert sorted(block.keys) == sorted(page.keys)
        assert {*block.columns} == {*page.columns}
        for row, uuid in enumerate(page.keys):
            place = block.keys.index(uuid)
            for key in page.columns:
                assert block.value(key, place) == pytest.approx(page.value(key, row)), (uuid, key)
