"""Writes the books to disk: appends, never rewrites, and is read back to the same sums.

What is written is the difference between the books as they are and what was written of them
before. A finding that takes seconds back therefore becomes a further entry with negative seconds.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from gpumon import __version__
from gpumon.fleet.ledger_holding import Written
from gpumon.fleet.ledger_pages import SCHEMA, SUFFIX, Entry, Pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gpumon.fleet.ledger_holding import Holding, Run
    from gpumon.fleet.ledger_pages import Resumed

LOCK_NAME: Final = "writer.lock"

_NEAR_S: Final = 1e-6
"""GPU-seconds that are not worth an entry."""


class JournalFile:
    """Appends to one file a day in a folder, as its only writer.

    Nothing is lost when the process is killed but what was booked since the last `write`; of a line
    that was torn, the rest of its file can still be read.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder; where that fails, `note` says why and nothing is written."""
        self._folder = folder
        self._lock: int | None = None
        self.note = ""
        self.booked: Resumed | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.note = f"another gpumon writes the books in {folder}; these are not kept"
            self.close()
        except OSError as error:
            self.note = f"the books cannot be kept in {folder}: {error.strerror}"
            self.close()
        else:
            self.booked = Pages(folder).resumed()

    @property
    def kept_in(self) -> str | None:
        """Folder that is written to, None where none is."""
        return None if self._lock is None else str(self._folder)

    def write(self, at: float, runs: Iterable[Run]) -> None:
        """Append what is not on disk yet of the time until a Unix time.

        Where that fails, `note` says why, and the next call tries all of it again.
        """
        if self._lock is None:
            return
        new = [(lines, written) for run in runs for lines, written in _new(run, at)]
        if not new:
            return
        try:
            self._append(at, b"".join(line for lines, _ in new for line in lines))
        except OSError as error:
            self.note = f"the books cannot be written to {self._folder}: {error.strerror}"
            return
        self.note = ""
        for _, written in new:
            for holding, done in written:
                holding.written = done

    def close(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _append(self, at: float, data: bytes) -> None:
        """Append all of it or nothing: a part would be written twice by the next try."""
        path = self._folder / (time.strftime("%Y-%m-%d", time.gmtime(at)) + SUFFIX)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            size = os.fstat(file).st_size
            if size == 0:
                data = f'{{"schema":"{SCHEMA}","tool":"gpumon {__version__}"}}\n'.encode() + data
            elif os.pread(file, 1, size - 1) != b"\n":
                data = b"\n" + data
            try:
                while data:
                    data = data[os.write(file, data) :]
            except OSError:
                os.ftruncate(file, size)
                raise
        finally:
            os.close(file)


def _new(run: Run, at: float) -> Iterator[tuple[list[bytes], list[tuple[Holding, Written]]]]:
    """Lines for what a run has booked since they were written, and what is on disk with them.

    GPUs of one node and one name whose time began and ended together share a line.
    """
    groups: dict[tuple[str, str, float, float], list[tuple[Holding, Written]]] = {}
    for holding in run.holdings:
        timeline, written = holding.timeline, holding.written
        gpu = timeline.account.gpu
        end = at if timeline.is_open else timeline.ended_at
        if written is not None and written.gpu != gpu:
            yield [_withdrawal(run, holding, written).line()], []
            written = None
        before = written or Written(gpu, timeline.start, {}, 0.0, 0.0)
        if before.until != end or not _is_written(holding, before, at):
            group = (holding.node, gpu, before.until, end)
            groups.setdefault(group, []).append((holding, before))
    for (_, gpu, start, end), holdings in groups.items():
        seconds: dict[str, float] = {}
        energy_j = energy_s = 0.0
        done = []
        for holding, before in holdings:
            total = dict(before.seconds)
            for key, amount in holding.timeline.until(at).items():
                new = round(amount - before.seconds.get(key, 0.0), 6)
                total[key] = total.get(key, 0.0) + new
                seconds[key] = seconds.get(key, 0.0) + new
            energy_j += holding.energy_j - before.energy_j
            energy_s += holding.energy_s - before.energy_s
            done.append((holding, Written(gpu, end, total, holding.energy_j, holding.energy_s)))
        booked = [holding for holding, _ in holdings]
        entry = _entry(run, booked, (start, end), seconds, (energy_j, energy_s))
        yield [entry.line()], done


def _is_written(holding: Holding, before: Written, at: float) -> bool:
    """Whether the disk has all of it."""
    now = holding.timeline.until(at)
    is_same = all(abs(now[key] - before.seconds.get(key, 0.0)) < _NEAR_S for key in now)
    return is_same and holding.energy_s == before.energy_s


def _withdrawal(run: Run, holding: Holding, written: Written) -> Entry:
    """Takes back what was written under another name of the GPU."""
    seconds = {key: -amount for key, amount in written.seconds.items()}
    spent = (-written.energy_j, -written.energy_s)
    entry = _entry(run, [holding], (written.until, holding.timeline.start), seconds, spent)
    return entry._replace(gpu=written.gpu, gpus=("",))


def _entry(
    run: Run,
    holdings: list[Holding],
    span: tuple[float, float],
    seconds: dict[str, float],
    energy: tuple[float, float],
) -> Entry:
    job, first = run.job, holdings[0]
    return Entry(
        span[0],
        span[1],
        job.job_id,
        run.began_at if job.start_at is None else job.start_at,
        job.user,
        job.account,
        job.partition,
        first.node,
        first.timeline.account.gpu,
        tuple(holding.uuid for holding in holdings),
        {key: round(amount, 6) for key, amount in seconds.items() if abs(amount) >= _NEAR_S},
        energy[0],
        energy[1],
        first.timeline.account.observed_since,
    )
