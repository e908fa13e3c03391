"""How long to rest between two polls of what is asked over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gpumon.sources.probes.start_order import RETRY_S


class Pauses:
    """What failed rests ever longer, unless asking is cheap."""

    def __init__(self) -> None:
        """Nothing has failed."""
        self._retry_s = RETRY_S[0]

    def pause_s(self, poll_period_s: float, is_read: bool, is_cheap: bool) -> float:
        """How long to rest after a poll.

        Args:
            poll_period_s: Between two polls where all is well.
            is_read: Whether it brought anything.
            is_cheap: Whether it failed so that asking is cheap: the port takes no connection.
        """
        if is_read or is_cheap:
            # What takes no connection may be back any time.
            self._retry_s = RETRY_S[0]
            return poll_period_s if is_read else max(poll_period_s, RETRY_S[0])
        pause_s = max(poll_period_s, self._retry_s)
        self._retry_s = min(self._retry_s * 2.0, RETRY_S[1])
        return pause_s


async def rest(roused: asyncio.Event, for_s: float) -> None:
    """Rest, or until something else is asked for."""
    roused.clear()
    with suppress(TimeoutError):
        await asyncio.wait_for(roused.wait(), max(0.0, for_s))
