"""The source of a target that is a server with Prometheus' interface: one poll after another.

It is asked no oftener than it learns anything new, and more seldom where it is slow.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import SourceError, shortage
from gpumon.model.records.frame import Frame
from gpumon.model.text import plain
from gpumon.sources.exporters.gpu_labels import label_of
from gpumon.sources.exporters.pauses import Pauses, rest
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.http.loop import LoopThread
from gpumon.sources.http.outage import Outage
from gpumon.sources.probes.start_order import RETRY_S
from gpumon.sources.prometheus.client import TIMEOUT_S, Client
from gpumon.sources.prometheus.hosts import Hosts
from gpumon.sources.prometheus.nodes import Nodes, frames_of, limit_of
from gpumon.sources.prometheus.questions import Questions
from gpumon.sources.prometheus.recall import Recall, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.sources.prometheus.host_past import KnownHosts
    from gpumon.sources.prometheus.nodes import NodeReading
    from gpumon.sources.prometheus.questions import Seen
    from gpumon.sources.prometheus.recall import Recalled
    from gpumon.sources.prometheus_address import EngineAddress
    from gpumon.sources.source import Clock, PastFrames, Wish

POLLS_AN_INTERVAL: Final = 2.0
"""So often within the time between two samples the server is asked, so that no sample is seen later
than half of it (our choice)."""

REST_PER_WORK: Final = 4.0
"""Between two polls lies at least so many times what the last one took: the server is left three
quarters of its time."""

GAP_S: Final = 60.0
"""A server that was not read for so long is asked for what was missed."""

POLLS_A_GAP: Final = 3.0
"""So many polls must have been missed: one that was late is no gap."""

GAP_INTERVALS: Final = 2.0
"""Between two samples, so much more than was missed is asked about: the newest one that was seen is
among it, from which what counters grew by follows."""

REMARKED_S: Final = 600.0
"""For so long it is shown what of the past is missing."""


class PrometheusServer:
    """Reads one server."""

    def __init__(
        self,
        url: str,
        address: EngineAddress,
        period_s: float,
        clock: Clock,
        once: bool,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            url: Target, the origin of every frame.
            address: Whom to ask.
            period_s: Between two polls.
            clock: Time of arrival.
            once: One poll and no second try.
            timeout_s: For a whole answer.
        """
        self.url = url
        self._address = address
        self._clock = clock
        self._once = once
        self._timeout_s = timeout_s
        self._period_s = period_s
        self._interval_s = 0.0
        self._work_s = 0.0
        self._near: tuple[str, ...] = ()
        self._client: Client | None = None
        self._pauses = Pauses()
        self._outage = Outage()
        self._nodes = Nodes()
        self._frames: deque[Frame] = deque()
        self._wake: Callable[[], None] = lambda: None
        self._is_settled = False
        self._roused = asyncio.Event()
        self._is_recalling = False
        self._recalled: Recalled | None = None
        self._recalled_at = float("-inf")
        self._seen_at = 0.0
        self._remark: tuple[str, str] | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = LoopThread(f"server {url}", self._watch, self._end)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to read without waiting for it."""
        self._wake = wake
        self._thread.start()

    def poll(self) -> list[Frame]:
        """Frames that arrived since the last poll."""
        frames = []
        while self._frames:
            frames.append(self._frames.popleft())
        return frames

    def pending(self) -> bool:
        """Whether the server has neither been read nor failed yet."""
        return not self._is_settled

    def wish(self, wish: Wish) -> None:
        """Take a new period, or try again now."""
        before = self._period_s
        if wish.period_s is not None and wish.period_s > 0:
            self._period_s = wish.period_s
        near, self._near = self._near, wish.zoom_nodes if wish.is_about_zoom else self._near
        if before != self._period_s or near != self._near or wish.is_by_hand:
            self._thread.call(self._roused.set)

    def close(self) -> None:
        """End every exchange; a server that does not let go is abandoned."""
        self._thread.close()

    @property
    def is_recalling(self) -> bool:
        """Whether a past may still come."""
        return self._is_recalling

    def recalled(self) -> Callable[[], Iterator[PastFrames]] | None:
        """What goes through the past, once it has come."""
        recalled, self._recalled = self._recalled, None
        if recalled is None:
            return None
        self._is_recalling = False
        return partial(recalled.steps, self.url)

    @property
    def poll_period_s(self) -> float:
        """Time between two polls."""
        own_s = max(self._interval_s / POLLS_AN_INTERVAL, REST_PER_WORK * self._work_s)
        return max(self._period_s, own_s)

    async def _watch(self) -> None:
        """Poll each period until the source is closed."""
        self._client = Client(self._address, self._timeout_s)
        questions, hosts = Questions(self._client), Hosts(self._client)
        while True:
            began = self._clock.monotonic()
            frames, is_read, is_cheap = await self._polled(questions, hosts, began)
            # In this order, so that what is woken finds frames and does not wait.
            self._frames.extend(frames)
            self._is_settled = True
            self._wake()
            if self._once:
                return
            pause_s = self._pauses.pause_s(self.poll_period_s, is_read, is_cheap)
            await rest(self._roused, pause_s - (self._clock.monotonic() - began))

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._client is not None:
            await self._client.close()

    async def _polled(
        self, questions: Questions, hosts: Hosts, began: float
    ) -> tuple[list[Frame], bool, bool]:
        """What one poll brings, whether it brought anything, and whether its failure was cheap."""
        try:
            seen = await questions.poll(self._near)
            now = self._clock.now()
            # As long as it is unknown the next sample may be there any time.
            self._interval_s = seen.interval_s or 0.0
            limit_s = limit_of(seen.interval_s, self._period_s, self.poll_period_s) + seen.late_s
            readings, errors = self._nodes.read(seen, now, limit_s)
            readings, remarks = await _with_hosts(
                readings, hosts, questions.host_names, seen, limit_s
            )
            self._work_s = self._clock.monotonic() - began
        except FetchError as error:
            return self._failed(error.message, error.hint), False, error.is_refused
        except Exception as error:  # noqa: BLE001 - no answer may end the polling
            words, way_out = shortage(error) or (repr(error), "please report this line")
            message = f"gpumon could not handle its answer: {words}"
            return self._failed(message, way_out), False, False
        self._outage.read(began)
        self._begin_recall(questions, seen, now, hosts)
        shown = (*seen.remarks, *remarks)
        if self._remark and self._clock.monotonic() - self._recalled_at < REMARKED_S:
            shown = (*shown, self._remark)
        odd = tuple(SourceError(self.url, plain(text), hint) for text, hint in shown)
        frames = [*frames_of(readings, self.url, now, self._work_s, limit_s, odd)]
        frames += [
            Frame(origin=self.url, node=one.where, taken_at=now, errors=(one,)) for one in errors
        ]
        if not readings:
            text = "holds no present sample of a GPU"
            hint = "look at the server's targets: dcgm-exporter may be down"
            frames += self._failed(text, hint, is_read=True, odd=odd)
        return frames, True, False

    def _begin_recall(self, questions: Questions, seen: Seen, now: float, hosts: Hosts) -> None:
        """Ask for the past beside the polls, where it is wanted and not asked for yet."""
        at, before = self._clock.now(), self._seen_at
        self._seen_at = at
        if self._once or not self._address.history_s or not seen.interval_s or not seen.known:
            return
        is_first = before == 0.0 or self._recalled_at == float("-inf")
        is_missed = at - before > max(GAP_S, POLLS_A_GAP * self.poll_period_s)
        is_asked = self._task is not None and not self._task.done()
        if self._client is None or is_asked or not (is_first or is_missed):
            return
        self._is_recalling = True
        self._recalled_at = self._clock.monotonic()
        back_s = self._address.history_s
        if not is_first:
            back_s = min(back_s, at - before + GAP_INTERVALS * seen.interval_s)
        recall = Recall(self._client, back_s, self._clock.monotonic, is_gap=not is_first)
        nodes = {label_of(one.labels, "host") or "" for one in seen.known.values()}
        asked = self._recall(recall, questions.identifying, seen, now, hosts.known(nodes - {""}))
        self._task = asyncio.create_task(asked)

    async def _recall(
        self,
        recall: Recall,
        identifying: tuple[str, ...],
        seen: Seen,
        now: float,
        hosts: KnownHosts,
    ) -> None:
        try:
            recalled = await recall.past(seen, identifying, now, hosts)
        except Exception as error:  # noqa: BLE001 - no answer may end the polling
            self._remark = f"gpumon could not handle its past: {error!r}", "please report this line"
            self._is_recalling = False
            return
        self._remark, self._recalled_at = recalled.remark, self._clock.monotonic()
        self._nodes.remember(recalled.xids(seen), seen)
        if recalled.parts:
            self._recalled = recalled
        else:
            self._is_recalling = False

    def _failed(
        self, message: str, hint: str, *, is_read: bool = False, odd: tuple[SourceError, ...] = ()
    ) -> list[Frame]:
        errors = (SourceError(self.url, plain(message), hint), *odd)
        now, over_at = self._clock.now(), None
        if not is_read:
            # As of the samples themselves two of the server's intervals count, where it has any.
            period_s = max(self._interval_s, self.poll_period_s, RETRY_S[0])
            over_at = self._outage.failed(now, self._clock.monotonic(), period_s)
        frame = Frame(origin=self.url, node="", taken_at=now, errors=errors, over_at=over_at)
        return [frame]


async def _with_hosts(
    readings: list[NodeReading], hosts: Hosts, names: frozenset[str], seen: Seen, limit_s: float
) -> tuple[list[NodeReading], list[tuple[str, str]]]:
    """The reading of each node with that of its host from others; and what is odd about it."""
    try:
        found = await hosts.poll(names, {one.node for one in readings}, seen.at, limit_s)
    except FetchError as error:
        # Of its GPUs all is known.
        return readings, [(f"reports nothing about hosts: {error.message}", error.hint)]
    return merged(readings, found), hosts.remarks
