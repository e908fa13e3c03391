"""The fleet's past as columns over time, in bounded memory: recent fine, older coarse."""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Final

from gpumon.fleet.history.fields import HISTORY_BLOCKS, HISTORY_KEYS
from gpumon.fleet.history.retention import DEFAULT_MAX_BYTES, DEFAULT_SPAN_S
from gpumon.fleet.join.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.fleet.history.reader import HistoryReader
    from gpumon.fleet.history.track import Track
    from gpumon.model.records.tick import Tick

__all__ = ["HISTORY_KEYS", "History"]

_NUMPY_BYTES: Final = 96 << 20
"""Room that numpy's algebra (OpenBLAS) and the first columns take with one thread (measured)."""

_ONE_THREAD: Final = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Load numpy so that a lack of memory is an exception.

    OpenBLAS allocates as it is loaded, for each of its threads, and where that fails it ends the
    process with a line of its own. Nothing here does algebra, so one thread is enough.

    Raises:
        OSError: there is no room for it.
    """
    if "numpy" in sys.modules:
        return
    with closing(mmap.mmap(-1, _NUMPY_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)):
        pass
    before = os.environ.get(_ONE_THREAD)
    os.environ[_ONE_THREAD] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        # Programs that gpumon starts are to find what the user has set.
        if before is None:
            del os.environ[_ONE_THREAD]
        else:
            os.environ[_ONE_THREAD] = before


class History:
    """The last `span_s` seconds, or less where they do not fit into `max_bytes`.

    Of GPUs one row per tick, of everything else one every ten seconds or more: what the tick
    shows, NaN where it is missing or stale. Older rows are added up into coarser ones. A row is
    written once, so whoever holds a reader of an earlier tick sees that tick's past unchanged.
    """

    def __init__(
        self,
        span_s: float = DEFAULT_SPAN_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self._span_s = span_s
        self.max_bytes = max_bytes
        self._numbers = count(1) if numbers is None else numbers
        self._tracks: dict[str, Track] = {}
        self._newest_at = float("-inf")
        self._membership = Membership(span_s)
        self.begins_at: float | None = None
        """Unix time of the first picture that is remembered; None: there is none yet."""

    def append(self, tick: Tick) -> None:
        """Keep the tick's values and who held which GPU.

        A tick of the same time again is ignored. A clock that was set back starts the past anew:
        no window could be told from there.
        """
        if tick.at == self._newest_at:
            return
        if tick.at < self._newest_at:
            self._tracks.clear()
            self._membership = Membership(self._span_s)
            self.begins_at = None
        self._newest_at = tick.at
        self._membership.update(tick.at, tick.jobs)
        if not tick.gpus and not tick.nodes:
            return
        if self.begins_at is None:
            self.begins_at = tick.at
        reported = {block for node in tick.nodes.values() for block in node.blocks}
        for block in HISTORY_BLOCKS:
            if block == "gpu" or block in reported or block in self._tracks:
                self._track(block).append(tick)

    def blank(self) -> History:
        """An empty one to take its place: no chunk of both has the same number."""
        return History(self._span_s, self.max_bytes, self._numbers)

    def reader(self) -> HistoryReader:
        """Reader of the past as it is now."""
        load_numpy()
        from gpumon.fleet.history.reader import HistoryReader

        chunks = (
            (chunk, chunk.rows)
            for track in self._tracks.values()
            for tier in track.tiers
            for chunk in tier.chunks
        )
        return HistoryReader(chunks, self._membership.snapshot())

    def close(self) -> None:
        """Let go of the memory; what readers still hold lives as long as they do."""
        self._tracks.clear()

    @property
    def used_bytes(self) -> int:
        """Memory in use."""
        return sum(chunk.used_bytes for chunk, _ in self.reader().chunks)

    def _track(self, block: str) -> Track:
        if block not in self._tracks:
            # numpy is loaded with the first row, so that one sample without a past never needs it.
            load_numpy()
            from gpumon.fleet.history.track import Track

            self._tracks[block] = Track(block, self._numbers, self.max_bytes, self._span_s)
        return self._tracks[block]
