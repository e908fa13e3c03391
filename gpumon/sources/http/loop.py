"""The loop that a source asks over HTTP in, on a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gpumon.base.loop_tls import give_back_tls

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

CLOSE_LIMIT_S: Final = 0.3
"""For the thread's end, seconds: a source has half a second for all (`Source.close`)."""


class LoopThread:
    """Runs one coroutine until it ends or is closed."""

    def __init__(
        self,
        name: str,
        main: Callable[[], Coroutine[Any, Any, None]],
        end: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            name: The thread's.
            main: Makes the coroutine.
            end: Makes the one that frees what is left when it is over, which is not cancelled.
        """
        give_back_tls()
        self._main = main
        self._end = end
        self._is_ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin without waiting for it."""
        self._thread.start()

    def call(self, what: Callable[[], None]) -> None:
        """Have the loop do something, where it still runs."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(what)

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """End every task; a server that does not let go is abandoned."""
        self._is_closing = True
        self.call(self._stop)
        if self._thread.ident is not None:
            self._thread.join(limit_s)

    def _stop(self) -> None:
        if self._is_ending:
            return
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _run(self) -> None:
        loop = Loop()
        # From here on `close` reaches the loop; before, the flag ends it.
        self._loop = loop
        try:
            with suppress(asyncio.CancelledError):
                if not self._is_closing:
                    loop.run_until_complete(self._main())
        finally:
            self._is_ending = True
            if self._end is not None:
                with suppress(Exception):
                    loop.run_until_complete(self._end())
            with suppress(Exception):
                loop.run_until_complete(_let_go(loop))
            self._loop = None
            loop.close()


async def _let_go(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left, as `asyncio.run` does: each would be reported on standard error."""
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()


class Loop(asyncio.SelectorEventLoop):
    """A loop whose questions for names do not hold up an end.

    The threads that asyncio asks in are waited for at the end of the process, and a name server
    that is gone takes half a minute to be given up.
    """

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - its name in the standard library
        proto: int = 0,
        flags: int = 0,
    ) -> Any:  # noqa: ANN401 - a list of the families that there are
        """What `socket.getaddrinfo` gives."""
        answer: asyncio.Future[Any] = self.create_future()

        def deliver(found: object, error: OSError | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

        def ask() -> None:
            found, failed = None, None
            try:
                found = socket.getaddrinfo(host, port, family, type, proto, flags)
            except OSError as error:
                failed = error
            with suppress(RuntimeError):
                self.call_soon_threadsafe(deliver, found, failed)

        threading.Thread(target=ask, name="name of a page", daemon=True).start()
        return await answer
