"""What Debian's Prometheus and VictoriaMetrics tell of the scenes of all detectors, in one go.

Each holds the first scene of every detector, as if it had ended now: nodes and GPUs bear the number
of their scene. gpumon's source looks once and is told the past.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from gpumon.sources.address import Look, parse
from gpumon.sources.open import open_source
from gpumon.sources.source import PastBeat, SystemClock
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
    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame

LASTS_S: Final = 300.0
"""For so long exporters go on to tell what they told at the end: the servers take their time."""

FIRST: Final = [one for one in SCENES if one[1] is sentences.SCENES[one[0]][0]]


class Told:
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

    def frames(self, told: tuple[Frame, ...], later_s: float) -> tuple[Frame, ...]:
        """Those of its nodes, by their own names and times."""
        return tuple(
            frame._replace(
                node=frame.node.removeprefix(self.mark),
                host_names=tuple(name.removeprefix(self.mark) for name in frame.host_names),
                taken_at=frame.taken_at - later_s,
                blocks={name: self._own(block) for name, block in frame.blocks.items()},
            )
            for frame in told
            if frame.node.startswith(self.mark)
        )

    def _own(self, block: Block) -> Block:
        keys = tuple(key.replace(self.mark, "", 1) for key in block.keys)
        return block._replace(keys=keys)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_server_tells_of_every_detectors_scene(program: str, tmp_path: Path) -> None:
    needed()
    told = [Told(number, *scene) for number, scene in enumerate(FIRST)]
    (tmp_path / "gather.yml").write_text(CONFIG % "'127.0.0.1:9'")
    engine = Engine(program, tmp_path)
    ends_at = time.time() - 60.0
    source = open_source(
        parse(f"{engine.url}?history=8h"), Look(1.0, False, lambda _: True), SystemClock()
    )
    try:
        remember(engine, [line for one in told for line in one.lines(ends_at)])
        source.start(lambda: None)
        frames: list[Frame] = []

        def has_seen() -> bool:
            frames.extend(source.poll())
            return bool({one.node for one in frames if one.blocks}) and not source.is_recalling

        eventually(has_seen, "the present is told, and the past")
        past = source.recalled()
        assert past is not None
        beats = list(past())
        now = max(frame.taken_at for frame in frames)
    finally:
        source.close()
        engine.stop()
    wrong = []
    for one in told:
        later_s = ends_at - one.ends_at

        def of_scene(one: Told = one, later_s: float = later_s) -> Iterator[PastBeat]:
            for beat in beats:
                own = one.frames(beat.frames, later_s)
                yield PastBeat(beat.at - later_s, beat.period_s, own)

        newest = {frame.node: frame for frame in one.frames(tuple(frames), later_s)}
        view = view_of_frames(one.one, now - later_s, tuple(newest.values()), of_scene)
        detector = detector_of(one.name, one.make)
        by_probe = claims(detector, one.one.scene.view())
        wrong += [
            (one.make.__name__, *other)
            for other in outcomes(by_probe, detector, view)
            if other.how in ("absent", "stronger", "alone")
        ]
    assert not wrong
