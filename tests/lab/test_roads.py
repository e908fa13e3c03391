"""What Debian's Prometheus and VictoriaMetrics tell of the scenes of all detectors, in one go.

Each holds the first scene of every detector, as if it had ended now: nodes and GPUs bear the number
of their scene. gpumon's source looks once and is told the past.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from gpumon.sources.address import Sampling, parse
from gpumon.sources.open import open_source
from gpumon.sources.source import PastFrames, SystemClock
from tests.bench.roads import COLLECTED_S
from tests.lab.test_prometheus import CONFIG, PROGRAMS, Engine, needed, remember
from tests.worlds.by_server import view_of_frames
from tests.worlds.gathered import Watched, gathered, interval_of, watched
from tests.worlds.probe import eventually
from tests.worlds.roads import SCENES, claims, detector_of, outcomes
from tools.sentences import block as sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpumon.detect.scene import Scene
    from gpumon.detect.view import View
    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame

LASTS_S: Final = 300.0
"""For so long exporters go on to tell what they told at the end: the servers take their time."""

FIRST: Final = [one for one in SCENES if one[1] is sentences.SCENES[one[0]][0]]


class ServedScene:
    """One scene as servers hold it."""

    def __init__(self, number: int, name: str, make: Callable[[], Scene]) -> None:
        self.mark, self.name, self.make = f"s{number}x", name, make
        self.one: Watched = watched(make)
        self.ends_at = self.one.ticks[-1].at

    def lines(self, ends_at: float) -> Iterator[str]:
        """Its samples, told every half minute, the last of them until after its end."""
        interval_s = interval_of(self.one.ticks)
        for series in gathered(self.one.ticks):
            labels = dict(series.labels)
            labels["UUID"] = self._marked(labels["UUID"])
            for label in ("Hostname", "instance"):
                labels[label] = self.mark + labels[label]
            text = ",".join(f'{name}="{value}"' for name, value in labels.items())
            times = [*series.times]
            for number, (at, value) in enumerate(zip(times, series.values, strict=True)):
                is_last = number + 1 == len(times)
                until = at + interval_s if is_last else min(times[number + 1], at + interval_s)
                if is_last and self.ends_at - at < interval_s:
                    until = self.ends_at + LASTS_S
                again = at
                while again < until - 1.0:
                    yield f"{series.name}{{{text}}} {value!r} {again - self.ends_at + ends_at:.3f}"
                    again += COLLECTED_S

    def _marked(self, uuid: str) -> str:
        return f"GPU-{self.mark}{uuid.removeprefix('GPU-')}"

    def view(self, heard: Heard, ends_at: float) -> View:
        """What a detector sees of it alone, at the times of the scene."""
        later_s = ends_at - self.ends_at

        def periods() -> Iterator[PastFrames]:
            for period in heard.periods:
                own = self.frames(period.frames, later_s)
                yield PastFrames(period.at - later_s, period.period_s, own)

        newest = {frame.node: frame for frame in self.frames(tuple(heard.frames), later_s)}
        now = max(frame.taken_at for frame in heard.frames) - later_s
        return view_of_frames(
            self.one, now, [*newest.values()], periods, interval_of(self.one.ticks)
        )

    def frames(self, frames: tuple[Frame, ...], later_s: float) -> tuple[Frame, ...]:
        """Those of its nodes, by their own names and times."""
        return tuple(
            frame._replace(
                node=frame.node.removeprefix(self.mark),
                host_names=tuple(name.removeprefix(self.mark) for name in frame.host_names),
                taken_at=frame.taken_at - later_s,
                blocks={name: self._own(block) for name, block in frame.blocks.items()},
            )
            for frame in frames
            if frame.node.startswith(self.mark)
        )

    def _own(self, block: Block) -> Block:
        keys = tuple(key.replace(self.mark, "", 1) for key in block.keys)
        return block._replace(keys=keys)


def holds(engine: Engine, lines: list[str], at: float) -> bool:
    """Whether a server tells of every series that has a sample around a time."""
    wanted = {
        series
        for series, _, sampled_at in (line.rsplit(" ", 2) for line in lines)
        if abs(float(sampled_at) - at) < 31.0
    }
    asked = {"query": '{__name__=~"DCGM_.+"}', "time": f"{at + 31.0:.3f}", "nocache": "1"}
    try:
        answer = httpx.get(f"http://127.0.0.1:{engine.port}/api/v1/query", params=asked)
    except httpx.HTTPError:
        return False
    # A server that reads its files answers, with a text that is no JSON.
    told = answer.json() if answer.is_success else {}
    return len(told.get("data", {}).get("result", ())) >= len(wanted)


class Heard(NamedTuple):
    """What gpumon's source told of a server."""

    frames: list[Frame]
    periods: list[PastFrames]


def heard(program: str, folder: Path, lines: list[str], ends_at: float) -> Heard:
    """Give a server these samples, and ask it once."""
    engine = Engine(program, folder)
    url = f"{engine.url}?history=8h"
    source = open_source(parse(url), Sampling(1.0, False, lambda _: True), SystemClock())
    found = Heard([], [])

    def is_heard() -> bool:
        # Those of errors hold no values.
        found.frames.extend(frame for frame in source.poll() if frame.blocks)
        past = source.recalled()
        found.periods.extend(past() if past is not None else ())
        return past is not None

    try:
        remember(engine, lines)
        eventually(lambda: holds(engine, lines, ends_at + 30.0), "all of it can be asked for")
        source.start(lambda: None)
        eventually(is_heard, "the present is told, and the past")
    finally:
        source.close()
        engine.stop()
    return found


def test_what_servers_tell_of_every_detectors_scene_is_what_a_probe_tells_or_named(
    tmp_path: Path,
) -> None:
    needed()
    scenes = [ServedScene(number, *scene) for number, scene in enumerate(FIRST)]
    (tmp_path / "gather.yml").write_text(CONFIG % "'127.0.0.1:9'")
    ends_at = time.time() - 30.0
    lines = [line for one in scenes for line in one.lines(ends_at)]
    of_servers = {program: heard(program, tmp_path, lines, ends_at) for program in PROGRAMS}
    wrong = []
    for one in scenes:
        detector = detector_of(one.name, one.make)
        by_probe = claims(detector, one.one.scene.view())
        for program, told in of_servers.items():
            # Surer it may be: time goes on while a server takes its past in.
            wrong += [
                (program, one.make.__name__, *other)
                for other in outcomes(by_probe, detector, one.view(told, ends_at))
                if other.how in ("absent", "alone")
            ]
    assert not wrong
