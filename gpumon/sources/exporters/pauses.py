"""How long to rest between two looks at what is asked over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gpumon.sources.probes.start_order import RETRY_S


class Pauses:
    """What failed rests ever longer, unless asking costs nobody."""

    def __init__(self) -> None:
        """Nothing has failed."""
        self._retry_s = RETRY_S[0]

    def pause_s(self, beat_s: float, is_read: bool, is_cheap: bool) -> float:
        """How long to rest after a look.

        Args:
            beat_s: Between two looks where all is well.
            is_read: Whether it brought anything.
            is_cheap: Whether it failed so that asking costs nobody: nobody listens there.
        """
        if is_read or is_cheap:
            # Where nobody listens somebody may be back any time.
            self._retry_s = RETRY_S[0]
            return beat_s if is_read else max(beat_s, RETRY_S[0])
        pause_s = max(beat_s, self._retry_s)
        self._retry_s = min(self._retry_s * 2.0, RETRY_S[1])
        return pause_s


async def rest(roused: asyncio.Event, for_s: float) -> None:
    """Rest, or until somebody asks for something else."""
    roused.clear()
    with suppress(TimeoutError):
        await asyncio.wait_for(roused.wait(), max(0.0, for_s))
