"""The past that the user's own rolling recording of the same targets knows."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

from gpumon.base.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpumon.fleet.sampler.protocols import Past
    from gpumon.sources.recording.source import Recording

OPEN_S: Final = 1.0
"""A folder that cannot be read in this time, on a file system that hangs, is no past."""

FILL_S: Final = 1.5
"""Time for reading it, while the probes come up; what does not fit is left out."""


def recorded(
    make: Callable[[], Past], urls: Sequence[str], now: Callable[[], float] = time.time
) -> Callable[[], Past]:
    """Makes a memory that begins with what the rolling recording of these targets holds.

    A recording that nobody continues is none: between its end and now nothing would be known.
    """

    def remember() -> Past:
        from gpumon.fleet.replay.backfill import backfill
        from gpumon.sources.recording.folder import own_folder

        past = make()
        recording = _opened(own_folder(urls, socket.gethostname()))
        if recording is not None:
            backfill(past, recording, now(), FILL_S)
        return past

    return remember


def _opened(folder: Path) -> Recording | None:
    """The recording that is running in a folder, None where there is none."""
    from gpumon.sources.recording.decode import RecordingError

    def look() -> Recording | None:
        from gpumon.sources.recording.folder import is_running
        from gpumon.sources.recording.source import Recording

        return Recording(folder) if is_running(folder) else None

    outcome = Outcome(look, "recorded-past")
    outcome.has_ended(OPEN_S)
    try:
        return outcome.get()
    except (RecordingError, OSError):
        # Without a recording that can be read the past begins now; doctor says why. One that takes
        # too long is an OSError, too.
        return None
