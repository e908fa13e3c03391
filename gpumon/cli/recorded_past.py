"""The past that the user's own rolling recording of the same targets knows, or its sources do."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.base.outcome import Outcome
from gpumon.base.paths import recordings_folder
from gpumon.sources.source import Remembering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.fleet.sampler.protocols import Past, Renewable
    from gpumon.sources.address import Target
    from gpumon.sources.recording.source import Recording
    from gpumon.sources.source import Source

OPEN_S: Final = 1.0
"""A folder that cannot be read in this time, on a file system that hangs, is no past."""

FILL_S: Final = 1.5
"""Time for reading it, while the probes come up; what does not fit is left out."""


def recorded(
    make: Callable[[], Renewable], urls: Sequence[str], now: Callable[[], float] = time.time
) -> Callable[[], Renewable]:
    """Makes a memory that begins with what the rolling recording of these targets holds.

    A recording that nobody continues is none: between its end and now nothing would be known.
    """

    def remember() -> Renewable:
        past = make()
        recording = _opened(urls)
        if recording is not None:
            from gpumon.fleet.replay.backfill import backfill

            backfill(past, recording, now(), FILL_S)
        return past

    return remember


def filled_by_sources(
    make: Callable[[], Renewable], sources: Sequence[Source], targets: Sequence[Target]
) -> Callable[[], Past]:
    """Makes a memory that is given what its sources remember of the time before they were asked.

    One that begins with what a recording knows is left as it is: that is finer.
    """
    remembering = [source for source in sources if isinstance(source, Remembering)]
    if not remembering:
        return make
    is_alone = not any(map(_measures_itself, targets))

    def remember() -> Past:
        from gpumon.fleet.replay.filling import FillingPast

        past = make()
        if past.begins_at is not None:
            return past
        return FillingPast(past, remembering, is_alone=is_alone)

    return remember


def _measures_itself(target: Target) -> bool:
    """Whether nobody else remembers what a target tells of GPUs."""
    is_bare_queue = target.scheme == "slurm" and target.nodes_by == "none"
    return not target.kind.is_recorded and not is_bare_queue


def _opened(urls: Sequence[str]) -> Recording | None:
    """The rolling recording of these targets that is running, None where there is none."""

    def find() -> Recording | None:
        # Who has never recorded anything does without what reads recordings: a megabyte.
        if not Path(recordings_folder()).is_dir():
            return None
        from gpumon.sources.recording.decode import RecordingError
        from gpumon.sources.recording.folder import is_running, own_folder
        from gpumon.sources.recording.source import Recording

        folder = own_folder(urls, socket.gethostname())
        try:
            return Recording(folder) if is_running(folder) else None
        except RecordingError:
            return None

    outcome = Outcome(find, "recorded-past")
    outcome.has_ended(OPEN_S)
    try:
        return outcome.get()
    except OSError:
        # Without a recording that can be read the past begins now; doctor says why. One that takes
        # too long is an OSError, too.
        return None
