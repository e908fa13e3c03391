"""The worker's own memory: who keeps it, and how much is too much."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 2 * 2**30
"""Memory of its own that the worker can have at all; history is mapped and does not count."""

KEPT_BYTES: Final = 768 * 2**20
"""Memory of its own that the worker may keep between looks: scikit-learn, numpy and the facts of
80,000 GPUs stay below half of it."""

_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = resource.getpagesize()


def limit_memory() -> None:
    """Have allocations beyond `MOST_BYTES` fail in this process alone."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def own_bytes() -> int | None:
    """Memory of this process that is not mapped from elsewhere; None where Linux says nothing."""
    try:
        # Resident pages, and of them those of files and of shared memory (proc_pid_statm(5)).
        _, resident, shared, *_ = map(int, _STATM.read_bytes().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * _PAGE_BYTES


class Memory:
    """Books the growth of the process on the detector that was at work."""

    def __init__(self) -> None:
        self._before: int | None = None
        self._kept: dict[str, int] = {}
        self.reason = ""

    def settle(self) -> None:
        """Begin a look: what grew since the last one was not a detector."""
        self._before = own_bytes()

    def culprit(self, key: str) -> str | None:
        """Who keeps most, where all is too much after the look of `key`; None: all is well."""
        now = own_bytes()
        if now is None or self._before is None:
            return None
        self._kept[key] = self._kept.get(key, 0) + now - self._before
        self._before = now
        if now <= KEPT_BYTES:
            return None
        worst = max(self._kept, key=lambda name: self._kept[name])
        self.reason = f"kept {self._kept[worst] / 2**20:.0f} MiB of memory"
        return worst
