"""Serves answers over HTTP/1.1 on a thread of its own, within bounds of number, time and size.

One loop holds all connections: a client that sends nothing, sends it slowly or reads slowly costs a
place among the connections and nothing else, and loses it when its time is over.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import OWN, SourceError, fault
from gpumon.serve.exchange import MOST_HEAD_BYTES, Answer, RefusedError, at_once, read, write

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable, Iterator

    from gpumon.serve.exchange import Asked

MOST_CONNECTIONS: Final = 256
"""Five times the terminals that are meant to attach to one server; each costs some 100 KiB."""

HEAD_TIMEOUT_S: Final = 10.0
"""For the handshake of TLS, for a question to begin, and for the rest of it: nginx gives a header
60, Apache 20."""

IDLE_TIMEOUT_S: Final = 75.0
"""Between two questions: longer than the minute that is the longest usual one between scrapes."""

BODY_TIMEOUT_S: Final = 120.0
"""For a client to take an answer: 100 MB at 1 MB/s."""

LARGEST_UNDERWAY_BYTES: Final = 512 * 2**20
"""Of answers that clients have not taken yet, what they share counted once: twice everything that
holds of 10,000 nodes (20 KB each, measured). One answer alone may be larger."""

CLOSE_LIMIT_S: Final = 0.4
"""For the end of the server's thread, seconds: Ctrl-C is answered within half a second."""

_REST_S: Final = 1.0
"""After a connection could not be accepted, as no more files can be opened."""


class _Underway:
    """What clients have not taken yet, each piece once however many of them take it."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[bytes, int]] = {}
        self._size = 0

    @contextmanager
    def sending(self, answer: Answer) -> Iterator[None]:
        """Hold an answer while it is sent.

        Raises:
            RefusedError: Clients that read slowly hold too much already.
        """
        parts = (answer.body, *answer.more)
        more = sum(len(part) for part in parts if id(part) not in self._held)
        if self._size and self._size + more > LARGEST_UNDERWAY_BYTES:
            message = "clients that read slowly hold too many answers; ask again in a second"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message, ("Retry-After", "1"))
        for part in parts:
            self._take(part)
        try:
            yield
        finally:
            for part in parts:
                self._leave(part)

    def _take(self, part: bytes) -> None:
        _, times = self._held.get(id(part), (part, 0))
        self._held[id(part)] = part, times + 1
        self._size += 0 if times else len(part)

    def _leave(self, part: bytes) -> None:
        _, times = self._held.pop(id(part))
        if times > 1:
            self._held[id(part)] = part, times - 1
        else:
            self._size -= len(part)


class HttpServer:
    """Answers clients of a socket, until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        answer: Callable[[Asked], Awaitable[Answer]],
        context: ssl.SSLContext | None = None,
        *,
        head_timeout_s: float = HEAD_TIMEOUT_S,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        body_timeout_s: float = BODY_TIMEOUT_S,
        report: Callable[[SourceError], None] = lambda _error: None,
    ) -> None:
        """Nothing is accepted before `start`.

        Args:
            listening: A socket that listens and does not block; closed by its maker.
            answer: Called in the server's loop for each question.
            context: Certificate and key; None: without TLS.
            head_timeout_s: For a handshake, for the first question to begin, and for each to end.
            idle_timeout_s: Between two questions.
            body_timeout_s: For a client to take an answer.
            report: Takes errors: an answer that failed by gpumon's own fault, too many clients.
        """
        self._listening = listening
        self._answer = answer
        self._context = context
        self._head_timeout_s = head_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._body_timeout_s = body_timeout_s
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self._underway = _Underway()
        self._is_full = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        self._thread.start()

    def call(self, what: Callable[[], None]) -> None:
        """Have something done in the loop, from any thread; after the end nothing is."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def close(self) -> None:
        """End every connection; bounded."""
        self.call(self._stop)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_LIMIT_S)
        else:
            self._loop.close()

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._accept())
        finally:
            self._end()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self._loop.run_until_complete(asyncio.wait(self._tasks, timeout=CLOSE_LIMIT_S / 2))
        self._loop.close()

    async def _accept(self) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(self._listening)
            except OSError:
                # No file is left for it: it waits in the kernel's own row.
                await asyncio.sleep(_REST_S)
                continue
            if len(self._tasks) >= MOST_CONNECTIONS:
                self._turn_away(accepted)
                continue
            self._is_full = self._is_full and len(self._tasks) > MOST_CONNECTIONS // 2
            task = self._loop.create_task(self._serve(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _turn_away(self, accepted: socket.socket) -> None:
        """End a connection that there is no place for, with the reason, without waiting for it."""
        message = f"{MOST_CONNECTIONS} clients are connected, and further ones are turned away"
        if not self._is_full:
            self._is_full = True
            self._report(
                SourceError(OWN, message, "end some, or let Prometheus ask for all of them")
            )
        if self._context is None:
            error = RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message, ("Retry-After", "10"))
            with suppress(OSError):
                accepted.send(at_once(error.answer))
        accepted.close()

    async def _serve(self, accepted: socket.socket) -> None:
        """One connection, from its beginning to its end."""
        reader = asyncio.StreamReader(limit=MOST_HEAD_BYTES, loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        try:
            async with asyncio.timeout(self._head_timeout_s):
                transport, _ = await self._loop.connect_accepted_socket(
                    lambda: protocol, accepted, ssl=self._context
                )
        except (OSError, TimeoutError):
            accepted.close()
            return
        except asyncio.CancelledError:
            accepted.close()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            limit_s = self._head_timeout_s
            while await self._exchange(reader, writer, limit_s):
                limit_s = self._idle_timeout_s
        except (OSError, TimeoutError):
            pass
        finally:
            # What the client does not take is not waited for.
            transport.abort()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit_s: float
    ) -> bool:
        """Whether another question may follow on this connection."""
        asked = None
        try:
            asked = await read(reader, limit_s, self._head_timeout_s)
            if asked is None:
                return False
            answer = await self._answered(asked)
        except RefusedError as error:
            answer = error.answer
        is_persistent = asked is not None and asked.is_persistent
        has_body = asked is None or asked.method != "HEAD"
        try:
            with self._underway.sending(answer):
                await self._send(writer, answer, has_body=has_body, is_persistent=is_persistent)
        except RefusedError as error:
            await self._send(writer, error.answer, has_body=has_body, is_persistent=is_persistent)
        return is_persistent

    async def _send(
        self, writer: asyncio.StreamWriter, answer: Answer, *, has_body: bool, is_persistent: bool
    ) -> None:
        async with asyncio.timeout(self._body_timeout_s):
            await write(writer, answer, has_body=has_body, is_persistent=is_persistent)
            if not is_persistent:
                await _ended(writer)

    async def _answered(self, asked: Asked) -> Answer:
        try:
            return await self._answer(asked)
        except RefusedError:
            raise
        # One question that gpumon stumbles over must not end the others.
        except Exception as error:  # noqa: BLE001
            error_of_ours = fault(f"answering {asked.path}", error)
            self._report(error_of_ours)
            raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "gpumon failed") from None


async def _ended(writer: asyncio.StreamWriter) -> None:
    """Mark the end, and have the rest sent."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
