"""Size and age of the files that jobs write their output to; never a word of what is in them.

They often lie on a file server, and asking one that is gone may never return. So a thread of its
own asks, and the reading of the node goes on with its last answer.
"""

import os
import stat
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Tuple

from gpumon.probe.kernel import files
from gpumon.probe.rows import NOT_SAMPLED, NOT_SUPPORTED, Row

EVERY = ["job_output_bytes", "job_output_age_s"]

DESCRIPTORS = (1, 2)
"""Standard output and standard error."""

MAX_PROCESSES = 16
"""Most processes of a job that are asked: the batch script, which has the lowest PIDs, and some."""

PATIENCE_S = 0.2
"""The answer of a healthy server is waited for; of another one the next reading learns."""


class Written(NamedTuple):
    """What is known of the files of one job."""

    size: int
    """Bytes of all of them; each counts once, however many processes have it open."""
    changed_at: float
    """Unix time of the newest write; 0: there is no such file."""
    reason: str
    """Why nothing is known, else empty."""


def written(root: str, pids: List[int]) -> Written:
    """What is behind the standard descriptors of some processes, where these are plain files."""
    sizes: Dict[Tuple[int, int], int] = {}
    changed_at = 0.0
    reason = ""
    can_see = False
    for pid in sorted(pids)[:MAX_PROCESSES]:
        for number in DESCRIPTORS:
            try:
                found = os.stat("%s/%d/fd/%d" % (root, pid, number))
            except OSError as error:
                reason = reason or files.why(error)
                continue
            can_see = True
            if stat.S_ISREG(found.st_mode):
                sizes[(found.st_dev, found.st_ino)] = found.st_size
                changed_at = max(changed_at, found.st_mtime)
    if sizes:
        return Written(sum(sizes.values()), changed_at, "")
    # Root's slurmstepd is among the processes of every job: what it hides means nothing.
    return Written(0, 0.0, NOT_SUPPORTED if can_see or not reason else reason)


class Outputs:
    """Asks for the output of every job on a thread of its own."""

    def __init__(self, root: str = "/proc", clock: Callable[[], float] = time.time) -> None:
        """Read below `root`; the thread begins with the first question."""
        self._root = root
        self._clock = clock
        self._wanted: Dict[str, List[int]] = {}
        self._known: Dict[str, Written] = {}
        self._go = threading.Event()
        self._done = threading.Event()
        self._done.set()
        self._is_started = False

    def ask(self, jobs: Dict[str, List[int]]) -> None:
        """Ask about the processes of every job, unless an earlier question is still open."""
        if not self._done.is_set():
            return
        self._wanted = jobs
        self._done.clear()
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="outputs", daemon=True).start()
        self._go.set()
        self._done.wait(PATIENCE_S)

    def add_to(self, row: Row) -> None:
        """Add what is known of a job to its row."""
        known = self._known.get(row.key) if self._done.is_set() else None
        if known is None or known.reason:
            row.lose(EVERY, NOT_SAMPLED if known is None else known.reason)
            return
        row.values["job_output_bytes"] = known.size
        row.values["job_output_age_s"] = max(0.0, self._clock() - known.changed_at)

    def _run(self) -> None:
        while True:
            self._go.wait()
            self._go.clear()
            self._known = {job: written(self._root, pids) for job, pids in self._wanted.items()}
            self._done.set()
