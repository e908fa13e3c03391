"""What is answered to which path: metrics, the document, how the server fares."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon import __version__
from gpumon.model.staleness import stale_after_s
from gpumon.report.openmetrics.exposition import CLASSIC, OPENMETRICS
from gpumon.report.openmetrics.families import page as metrics_page
from gpumon.report.text import units
from gpumon.report.withheld import withheld
from gpumon.serve.exchange import TEXT, Answer, RefusedError, preferred
from gpumon.serve.frames import whole
from gpumon.serve.tokens import KEY_BYTES, OWNER
from gpumon.sources.rest_address import is_loopback
from gpumon.sources.served_address import NDJSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.tick import Tick
    from gpumon.report.document.forms import Document
    from gpumon.serve.exchange import Asked
    from gpumon.serve.frames import FrameFeed
    from gpumon.serve.tokens import Tokens, Viewer
    from gpumon.sources.source import Clock

JSON: Final = "application/json"

_KINDS: Final = {"text/plain": CLASSIC, "application/openmetrics-text": OPENMETRICS}

_OPEN: Final = "/healthz"
"""What is answered without a token: it shows nothing of any user."""


_METHODS: Final = ("GET", "HEAD")

_LEAST_PACKED_BYTES: Final = 1024
"""Less is not packed: it fits into one packet as it is."""

LONGEST_WAIT_S: Final = 30.0
"""Longest that a question for frames waits for a tick: proxies give one up after a minute."""

_LEVEL: Final = 3
"""Of gzip: metrics become a twentieth at any level, and higher ones take several times as long."""

INDEX: Final = f"""gpumon {__version__} serves what it sees, and changes nothing.

/metrics       OpenMetrics, or Prometheus' text format 0.0.4, as asked for by Accept
/v1/snapshot   the JSON document of `gpumon --json`
/v1/frames     what sources report, for a terminal: gpumon gpumon+http://HOST:9777
/healthz       whether the newest tick is fresh; needs no token
"""


class Served(NamedTuple):
    """What is served, and to whom."""

    clock: Clock
    document: Callable[[Tick], Document]
    """The JSON document of a tick."""
    feed: FrameFeed
    """What sources report, for terminals that attach."""
    tokens: Tokens | None = None
    """Who may ask; None: every client that can connect."""
    checks_host: bool = False
    """Whether only names of this machine are answered to, which keeps out what another site makes a
    browser ask (DNS rebinding)."""


class SharedPages:
    """Makes pages when the first one asks, on a thread that holds up no client."""

    def __init__(self) -> None:
        """No tick yet."""
        self.tick: Tick | None = None
        """The newest tick; set from any thread, read in the server's loop."""
        self._of: Tick | None = None
        self._pages: dict[tuple[str, ...], asyncio.Future[bytes]] = {}
        self._worker = ThreadPoolExecutor(1, "serve pages")

    async def page(self, name: tuple[str, ...], make: Callable[[Tick], bytes]) -> bytes:
        """A page of the newest tick, which there is.

        Args:
            name: What distinguishes it from others; the same for all who may see the same.
            make: Makes it of the tick.
        """
        tick = self.tick
        assert tick is not None
        if tick is not self._of:
            self._of, self._pages = tick, {}
        return await self._made(name, lambda: make(tick))

    async def packed(self, name: tuple[str, ...], plain: bytes) -> bytes:
        """A page as gzip."""
        known = self._pages.get(name)
        if known is None or not known.done() or known.result() is not plain:
            # A newer tick has come meanwhile: no one else asks for this page any more.
            return await self._run(lambda: _packed(plain))
        return await self._made((*name, "gzip"), lambda: _packed(plain))

    async def _made(self, name: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        page = self._pages.get(name)
        if page is None:
            page = self._pages[name] = asyncio.ensure_future(self._run(make))
        # Who leaves must not take the page from those who wait for it.
        return await asyncio.shield(page)

    async def _run(self, make: Callable[[], bytes]) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._worker, make)

    def close(self) -> None:
        """Make no more pages."""
        self._worker.shutdown(wait=False, cancel_futures=True)


class Routes:
    """Answers questions about the newest tick."""

    def __init__(self, served: Served) -> None:
        """No tick yet."""
        self._served = served
        self._pages = SharedPages()
        self._waiting: list[asyncio.Future[None]] = []
        self._key = secrets.token_bytes(KEY_BYTES)
        self._routes = {
            "/": self._index,
            "/healthz": self._health,
            "/metrics": self._metrics,
            "/v1/snapshot": self._snapshot,
            "/v1/frames": self._frames,
        }

    def take(self, tick: Tick) -> None:
        """Serve a tick from now on; from any thread."""
        self._pages.tick = tick

    def close(self) -> None:
        """Make no more pages."""
        self._pages.close()

    async def answer(self, asked: Asked) -> Answer:
        """What is answered.

        Raises:
            RefusedError: Nothing is.
        """
        self._check_host(asked)
        viewer = OWNER
        if self._served.tokens is not None and asked.path != _OPEN:
            viewer = self._served.tokens.viewer(asked)
        route = self._routes.get(asked.path)
        if route is None:
            raise RefusedError(
                HTTPStatus.NOT_FOUND, "nothing is served here; / lists what is served"
            )
        if asked.method not in _METHODS:
            allowed = ("Allow", ", ".join(_METHODS))
            raise RefusedError(
                HTTPStatus.METHOD_NOT_ALLOWED, "gpumon only answers GET and HEAD", allowed
            )
        return await route(asked, viewer)

    def _check_host(self, asked: Asked) -> None:
        if not self._served.checks_host:
            return
        name = asked.headers.get("host", "localhost")
        host = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if not is_loopback(host):
            message = "this server answers to localhost alone; a token file opens it to other names"
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, message)

    async def _index(self, asked: Asked, _viewer: Viewer) -> Answer:
        _accepted(asked, (TEXT,))
        return Answer(HTTPStatus.OK, INDEX.encode())

    async def _health(self, asked: Asked, _viewer: Viewer) -> Answer:
        _accepted(asked, (TEXT,))
        tick = self._newest()
        age_s = max(0.0, self._served.clock.now() - tick.at)
        if age_s > stale_after_s(tick.period_s):
            message = f"the newest tick is {units.seconds(age_s)} old"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message)
        return Answer(HTTPStatus.OK, b"ok\n")

    async def _metrics(self, asked: Asked, viewer: Viewer) -> Answer:
        kind = _KINDS[_accepted(asked, tuple(_KINDS))]
        make = partial(metrics_page, is_open=kind == OPENMETRICS)
        return await self._paged(asked, viewer, make, kind)

    async def _snapshot(self, asked: Asked, viewer: Viewer) -> Answer:
        _accepted(asked, (JSON,))
        return await self._paged(asked, viewer, self._document, JSON)

    async def _frames(self, asked: Asked, viewer: Viewer) -> Answer:
        _accepted(asked, (NDJSON,))
        feed = self._served.feed
        position = feed.position(asked.query.get("since", ""))
        wait_s = _wait_s(asked.query.get("wait", "0"))
        newest = feed.sequence if viewer.users is None else self._newest().number
        if position == newest and wait_s > 0:
            await self._news(wait_s)
        if viewer.users is not None:
            number = self._newest().number
            body = await self._seen_by(viewer.users, NDJSON, whole)
            return Answer(HTTPStatus.OK, body, NDJSON, more=(feed.mark(number),))
        first, *more = await asyncio.wrap_future(feed.since(position))
        return Answer(HTTPStatus.OK, first, NDJSON, more=tuple(more))

    async def _news(self, wait_s: float) -> None:
        """Wait for the next tick, but no longer than that."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(news)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await news
        if news in self._waiting:
            self._waiting.remove(news)

    def rouse(self) -> None:
        """Answer those who wait for a tick; in the server's loop."""
        waiting, self._waiting = self._waiting, []
        for news in waiting:
            if not news.done():
                news.set_result(None)

    def _document(self, tick: Tick) -> bytes:
        text = json.dumps(self._served.document(tick), separators=(",", ":"), allow_nan=False)
        return text.encode() + b"\n"

    def _seen(self, tick: Tick, users: frozenset[str] | None) -> Tick:
        return tick if users is None else withheld(tick, users, self._key)

    def _newest(self) -> Tick:
        tick = self._pages.tick
        if tick is None:
            message = "there is no tick yet; ask again in a second"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message, ("Retry-After", "1"))
        return tick

    async def _seen_by(
        self, users: frozenset[str] | None, kind: str, make: Callable[[Tick], bytes]
    ) -> bytes:
        """A page of what some may see of the newest tick."""
        name = _name(users, kind)
        return await self._pages.page(name, lambda tick: make(self._seen(tick, users)))

    async def _paged(
        self, asked: Asked, viewer: Viewer, make: Callable[[Tick], bytes], kind: str
    ) -> Answer:
        """A page that all who may see the same share."""
        self._newest()
        name = _name(viewer.users, kind)
        body = await self._seen_by(viewer.users, kind, make)
        varies = ("Vary", "Accept, Accept-Encoding, Authorization")
        codings = asked.headers.get("accept-encoding", "identity")
        if len(body) < _LEAST_PACKED_BYTES or preferred(codings, ("gzip", "identity")) != "gzip":
            return Answer(HTTPStatus.OK, body, kind, (varies,))
        packed = await self._pages.packed(name, body)
        return Answer(HTTPStatus.OK, packed, kind, (varies, ("Content-Encoding", "gzip")))


def _name(users: frozenset[str] | None, kind: str) -> tuple[str, ...]:
    """What distinguishes a page from others of its tick."""
    return (kind,) if users is None else (kind, "of", *sorted(users))


def _wait_s(text: str) -> float:
    """How long a client waits for a tick; what is no number is no wait."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return min(seconds, LONGEST_WAIT_S) if seconds > 0 else 0.0


def _accepted(asked: Asked, kinds: tuple[str, ...]) -> str:
    """Which of the kinds that there are the client likes best."""
    plain = tuple(kind.partition(";")[0] for kind in kinds)
    found = preferred(asked.headers.get("accept", ""), plain)
    if found is None:
        message = f"this page is {' and '.join(plain)}, which Accept does not name"
        raise RefusedError(HTTPStatus.NOT_ACCEPTABLE, message)
    return found


def _packed(plain: bytes) -> bytes:
    return gzip.compress(plain, _LEVEL, mtime=0)
