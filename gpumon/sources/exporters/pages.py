"""The source of a target that is pages of exporters: each in its own time, none waits for another.

One thread runs a loop in which every page has a task of its own: it asks, reads, hands over a frame
and rests until the next period. A page that cannot be had rests ever longer, unless its port takes
no connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import SourceError, shortage
from gpumon.model.records.frame import Frame
from gpumon.model.text import plain
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.exporters.fetch import TIMEOUT_S, Fetcher, Rooms
from gpumon.sources.exporters.pauses import Pauses, rest
from gpumon.sources.exporters.strangers import PlanError
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.http.loop import LoopThread
from gpumon.sources.http.outage import Outage
from gpumon.sources.probes.clients import FILES_RESERVED
from gpumon.sources.probes.start_order import RETRY_S
from gpumon.sources.probes.zoom import Zoom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.sources.exporter_address import PageAddress
    from gpumon.sources.exporters.dcgm import Reading
    from gpumon.sources.source import Clock, Wish

MOST_AT_ONCE: Final = 256
"""Pages that are asked for at once: a thousand answer within a second at 50 ms each, more gains
nothing (measured with httpx, a client for each host)."""

PLACE_S: Final = 1.0
"""A page that has not come by then leaves its place among these to another one (our choice: twenty
times what a page takes)."""

BUSY_S: Final = 0.25
"""By so much a wait may be longer than asked for before it is gpumon that has no time, not a page
(our choice)."""

MOST_HANGING: Final = 256
"""So many that have left their places are waited for at once; of more each keeps its place, since a
connection takes an open file."""

MOST_CONNECTIONS: Final = 2000
"""Connections that stay open from page to page, where the limit of open files has room for twice as
many; of a target with more pages none is, which costs half as much time again."""


class ExporterPages:
    """Reads the pages of one target."""

    def __init__(
        self,
        url: str,
        pages: Sequence[PageAddress],
        period_s: float,
        clock: Clock,
        once: bool,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            url: Target, the origin of every frame.
            pages: What to read.
            period_s: Between two polls of a page.
            clock: Time of arrival.
            once: One poll of each and no second try.
            timeout_s: For a whole page.
        """
        self.url = url
        self._clock = clock
        self._once = once
        self._timeout_s = timeout_s
        self._period_s = period_s
        self._zoom = Zoom()
        self._watched = [_Watched(page) for page in pages]
        self._stays_open = len(pages) <= min(MOST_CONNECTIONS, _room_for_files() // 2)
        self._frames: deque[Frame] = deque()
        self._wake: Callable[[], None] = lambda: None
        self._hanging = 0
        """Pages that are waited for without a place."""
        self._thread = LoopThread(f"pages {url}", self._all)

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
        """Whether a page has neither been read nor failed yet."""
        return not all(watched.is_settled for watched in self._watched)

    def wish(self, wish: Wish) -> None:
        """Take a new period, which nodes to watch more closely, or to try again now."""
        before = (self._period_s, self._zoom)
        if wish.period_s is not None and wish.period_s > 0:
            self._period_s = wish.period_s
        if wish.is_about_zoom:
            self._zoom = Zoom(wish.zoom_nodes, wish.zoom_gpus)
        if before != (self._period_s, self._zoom) or wish.is_by_hand:
            self._thread.call(self._rouse)

    def close(self) -> None:
        """End every exchange; a server that does not let go is abandoned."""
        self._thread.close()

    def _rouse(self) -> None:
        for watched in self._watched:
            watched.roused.set()

    async def _all(self) -> None:
        places, rooms = asyncio.Semaphore(MOST_AT_ONCE), Rooms()
        watchers = (self._watch(watched, places, rooms) for watched in self._watched)
        await asyncio.gather(*watchers)

    async def _watch(self, watched: _Watched, places: asyncio.Semaphore, rooms: Rooms) -> None:
        """Read one page each period until the source is closed."""
        fetcher = Fetcher(
            watched.page.url,
            rooms,
            stays_open=self._stays_open and not self._once,
            timeout_s=self._timeout_s,
        )
        try:
            while True:
                began = self._clock.monotonic()
                await places.acquire()
                asked = self._clock.monotonic()
                frames, is_read = await self._in_place(watched, fetcher, began, places)
                self._deliver(watched, frames)
                if self._once:
                    return
                watched.has_failed = not is_read
                is_cheap = watched.is_refused
                pause_s = watched.pauses.pause_s(self._poll_period_s(watched), is_read, is_cheap)
                await rest(watched.roused, pause_s - (self._clock.monotonic() - asked))
        finally:
            with suppress(Exception):
                await fetcher.close()

    async def _in_place(
        self, watched: _Watched, fetcher: Fetcher, began: float, places: asyncio.Semaphore
    ) -> tuple[list[Frame], bool]:
        """What one poll of a page brings; its place is another one's as soon as it hangs."""
        exchange = asyncio.ensure_future(self._frames_of(watched, fetcher, began))
        has_place = True
        try:
            asked = self._clock.monotonic()
            done, _ = await asyncio.wait((exchange,), timeout=PLACE_S)
            # Where gpumon itself has no time, more pages at once would only make it less.
            is_busy = self._clock.monotonic() - asked > PLACE_S + BUSY_S
            if not done and not is_busy and self._hanging < MOST_HANGING:
                self._hanging += 1
                has_place = False
                places.release()
            return await exchange
        finally:
            exchange.cancel()
            if has_place:
                places.release()
            else:
                self._hanging -= 1

    def _poll_period_s(self, watched: _Watched) -> float:
        return self._zoom.period_s(watched.names, self._period_s)

    async def _frames_of(
        self, watched: _Watched, fetcher: Fetcher, began: float
    ) -> tuple[list[Frame], bool]:
        """What one poll of a page brings, and whether it was read."""
        watched.is_refused = False
        asked_s = self._clock.monotonic()
        try:
            body = await fetcher.page()
            now, heard_s = self._clock.now(), self._clock.monotonic()
            readings = watched.reader.read(body, now, heard_s)
        except (FetchError, PlanError) as error:
            watched.is_refused = isinstance(error, FetchError) and error.is_refused
            return self._failed(watched, error.message, error.hint), False
        except Exception as error:  # noqa: BLE001 - one page must not silence all others
            words, way_out = shortage(error) or (repr(error), "please report this line")
            return self._failed(
                watched, f"gpumon could not handle its page: {words}", way_out
            ), False
        watched.outage.read(asked_s)
        return self._reported(watched, readings, now, heard_s - began), True

    def _failed(self, watched: _Watched, message: str, hint: str) -> list[Frame]:
        error = SourceError(plain(watched.page.where), plain(message), hint)
        now = self._clock.now()
        nodes = watched.nodes or (watched.page.node,)
        now_s, period_s = self._clock.monotonic(), max(self._period_s, RETRY_S[0])
        over_at = watched.outage.failed(now, now_s, period_s)
        return [
            Frame(origin=self.url, node=node, taken_at=now, errors=(error,), over_at=over_at)
            for node in nodes
        ]

    def _reported(
        self, watched: _Watched, readings: Sequence[Reading], now: float, late_s: float
    ) -> list[Frame]:
        frames = []
        before = watched.nodes or (watched.page.node,)
        nodes = []
        for reading in readings:
            node = watched.named(reading, len(readings))
            nodes.append(node)
            names = tuple(name for name in (reading.host_name,) if name)
            frames.append(
                Frame(
                    origin=self.url,
                    node=node,
                    taken_at=now,
                    lateness_s=late_s,
                    blocks=reading.blocks,
                    errors=reading.errors,
                    queue=None,
                    host_names=names,
                )
            )
        # What failed under another name is over: the page has given its own.
        over = [node for node in before if node not in nodes and watched.has_failed]
        frames += [Frame(origin=self.url, node=node, taken_at=now) for node in over]
        watched.nodes = tuple(nodes)
        watched.names = frozenset((*nodes, *(one.host_name for one in readings))) - {""}
        return frames

    def _deliver(self, watched: _Watched, frames: Sequence[Frame]) -> None:
        """Hand over frames; in this order, so that what is woken finds frames and does not wait."""
        self._frames.extend(frames)
        watched.is_settled = True
        self._wake()


def _room_for_files() -> int:
    """Files that this process may open beside those of its other work."""
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(
        0, (MOST_CONNECTIONS * 2 if files == resource.RLIM_INFINITY else files) - FILES_RESERVED
    )


class _Watched:
    """One page, and what is known of it."""

    def __init__(self, page: PageAddress) -> None:
        self.page = page
        self.outage = Outage()
        self.reader = PageReader(page.node)
        self.nodes: tuple[str, ...] = ()
        """Nodes that it has had, as frames name them."""
        self.names: frozenset[str] = frozenset()
        """Everything these are called."""
        self.is_settled = False
        self.has_failed = False
        self.is_refused = False
        """Whether its port took no connection when it was last asked in vain."""
        self.roused = asyncio.Event()
        self.pauses = Pauses()

    def named(self, reading: Reading, count: int) -> str:
        """The name of a node: the page's own where it has several, or the host is a number."""
        is_alone = count == 1
        if is_alone and (self.page.has_name or not reading.host_name):
            return self.page.node
        return reading.host_name or self.page.node
