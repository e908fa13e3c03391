"""What detectors see of a scene through a server that has gathered it, read as ever.

gpumon comes last: it polls once, gets the past, and judges both, as after its first minute.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

from gpumon.detect.scene import view_of
from gpumon.fleet.history.history import History
from gpumon.fleet.join.join import join
from gpumon.fleet.replay import filling
from gpumon.model.records.frame import Frame
from gpumon.model.records.tick import Tick
from gpumon.model.staleness import stale_after_s
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.prometheus.nodes import Nodes, frames_of, limit_of
from gpumon.sources.prometheus.questions import SETTLED_S, Questions
from gpumon.sources.prometheus.recall import Recall
from gpumon.sources.source import PastFrames
from tests.worlds.gathered import Server, gathered, interval_of, pages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumon.detect.view import View
    from gpumon.model.records.cluster import JobView
    from gpumon.sources.prometheus.questions import Seen
    from gpumon.sources.prometheus.recall import Recalled
    from tests.worlds.gathered import Watched

URL: Final = "prometheus+http://server:9090"

LATER_S: Final = SETTLED_S + 0.5
"""The first question comes so long after the last sample."""


class Past(NamedTuple):
    """Gives a past at once."""

    periods: Callable[[], Iterator[PastFrames]] | None
    was_asked: list[bool]
    is_recalling: bool = False

    def recalled(self) -> Callable[[], Iterator[PastFrames]] | None:
        """The past, once."""
        was_asked, self.was_asked[:] = [*self.was_asked], [True]
        return None if was_asked else self.periods


def view_by_server(one: Watched, *, is_victoria: bool) -> View:
    """What a detector sees by a server of this kind."""
    now = one.ticks[-1].at + LATER_S
    server = Server(gathered(one.ticks), now, is_victoria=is_victoria)
    back_s = now - one.ticks[0].at + 600.0
    seen, recalled = asyncio.run(_asked(server, back_s))
    return view_of_answers(one, now, seen, recalled)


def view_by_page(one: Watched) -> View:
    """What a detector sees who has read the nodes' own pages all the time.

    They are read with every tick of the scene, and have something new when it was collected.
    """
    readers: dict[str, PageReader] = {}
    pages: dict[str, bytes] = {}
    newest: dict[str, Frame] = {}
    periods: list[PastFrames] = []
    waiting = deque(pages_of(one.ticks))
    period_s = one.ticks[-1].period_s
    for tick in one.ticks:
        while waiting and waiting[0].at <= tick.at:
            _, node, pages[node] = waiting.popleft()
        frames = []
        for node, page in pages.items():
            if tick.nodes[node].taken_at != tick.at:
                continue
            reader = readers.setdefault(node, PageReader(node))
            (reading,) = reader.read(page, tick.at, tick.at)
            url = f"dcgm+http://{node}"
            frames.append(Frame(url, node, tick.at, 0.0, reading.blocks, reading.errors))
        newest.update((frame.node, frame) for frame in frames)
        periods.append(PastFrames(tick.at, period_s, tuple(frames)))
    now = one.ticks[-1].at
    return view_of_frames(one, now, [*newest.values()], lambda: iter(periods[:-1]), period_s)


async def _asked(server: Server, back_s: float) -> tuple[Seen, Recalled | None]:
    questions = Questions(server)  # type: ignore[arg-type]
    seen = await questions.poll()
    recalled = None
    if seen.interval_s and seen.known:
        recall = Recall(server, back_s, lambda: 0.0)  # type: ignore[arg-type]
        recalled = await recall.past(seen, questions.identifying, server.now)
        assert recalled.failure is None
    return seen, recalled


def view_of_answers(one: Watched, now: float, seen: Seen, recalled: Recalled | None) -> View:
    """What a detector sees where a server has reported this."""
    period_s = interval_of(one.ticks)
    limit_s = limit_of(seen.interval_s, period_s, period_s / 2.0)
    nodes = Nodes()
    readings, _ = nodes.read(seen, now, limit_s)
    if recalled is not None:
        # As after the next poll.
        nodes.remember(recalled.xids(seen), seen)
        readings, _ = nodes.read(seen, now, limit_s)
    frames = frames_of(readings, URL, now, 0.0, limit_s)
    return view_of_frames(one, now, frames, recalled and partial(recalled.steps, URL), period_s)


def view_of_frames(
    one: Watched,
    now: float,
    frames: Sequence[Frame],
    periods: Callable[[], Iterator[PastFrames]] | None,
    period_s: float,
) -> View:
    """What a detector sees where these frames are the present, and periods have what was before."""
    last = one.ticks[-1]
    joined = join(frames, last.queue, {}, now, stale_after_s(period_s))
    jobs = tuple(map(_as_queued, last.jobs))
    with patch.object(filling, "BREATH_S", 0.0):
        past = filling.FillingPast(
            History(now - one.ticks[0].at + 3600.0), [Past(periods, [])], run=lambda work: work()
        )
        tick = Tick(
            *(1, now, now, period_s, (), joined.nodes, joined.gpus, jobs),
            *(last.queue_at, (), (), (), 0.0),
            queue=last.queue,
        )
        past.append(tick)
        # With the next tick what was made of both takes its place.
        past.append(tick)
    begins_at = past.begins_at or now
    return view_of(tick._replace(observed_since=begins_at, history=past.reader()))


def _as_queued(view: JobView) -> JobView:
    """A job as its queue alone reports it: whose ranks are where, processes show."""
    return view._replace(ranks=(), contradictions=())


ROADS: Final[dict[str, Callable[[Watched], View]]] = {
    "exporter": view_by_page,
    "Prometheus": partial(view_by_server, is_victoria=False),
    "VictoriaMetrics": partial(view_by_server, is_victoria=True),
}
"""How a scene is seen, by road."""
