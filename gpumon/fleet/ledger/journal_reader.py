"""Reads the books on disk: one file a day, one balanced entry a line, the last one may be torn."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import time
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.records.ledger import SUSPICION, UNEXPLAINED, Account
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    _Run = tuple[str, float]
    """Job id, and the Unix time at which the run began."""

SCHEMA: Final = "gpumon-ledger/2"
"""Name and major version of the file's form, in the first line of each file."""

PRODUCTIVE: Final = "productive"
"""What version 1 called all that was observed and charged to nothing; nobody measured whether it
was useful. Entries of both versions may stand in one file: that of the day of the change."""

SUFFIX: Final = ".ndjson"

_IS_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.ndjson")

MAX_LINE_BYTES: Final = 2**20
"""No entry is so long: one of all GPUs of the largest node takes 8 KB. A longer line is skipped."""

MOST_RESUMED_BYTES: Final = 64 * 2**20
"""So much of the newest pages is read for where to go on; about a second."""

MOST_RUNS: Final = 10_000
"""Runs of earlier processes that are told one by one; about 10 MB."""


def page_name(at: float) -> str:
    """Name of the file for the day of a Unix time."""
    return time.strftime("%Y-%m-%d", time.gmtime(at)) + SUFFIX


class Entry(NamedTuple):
    """What became of some GPUs' time for one job; the sum is the time that was allocated.

    An entry of no length moves seconds between classes, one that ends before it starts takes time
    back: corrections of entries before it.
    """

    start: float
    """Unix time."""
    end: float
    job_id: str
    began_at: float
    """Unix time at which the run of the job began, which tells it from others of the same id."""
    user: str
    account: str
    partition: str
    node: str
    gpu: str
    """Product name; empty: telemetry had not named it."""
    gpus: tuple[str, ...]
    """UUIDs; empty ones: GPUs that telemetry had not named."""
    seconds: Mapping[str, float]
    """GPU-seconds: by state, class, or `SUSPICION` and class."""
    energy_j: float
    energy_s: float
    """GPU-seconds over which the energy was measured."""
    observed_since: float | None
    """Unix time of the first value that was seen of the run's GPUs of this name."""

    def line(self) -> bytes:
        """The entry as it stands in the file."""
        data = {
            "start": round(self.start, 6),
            "end": round(self.end, 6),
            "job": self.job_id,
            "began": round(self.began_at, 6),
            "user": self.user,
            "account": self.account,
            "partition": self.partition,
            "node": self.node,
            "gpu": self.gpu,
            "gpus": list(self.gpus),
            "gpu_seconds": {k: v for k, v in self.seconds.items() if not k.startswith(SUSPICION)},
            "suspected_gpu_seconds": {
                k.removeprefix(SUSPICION): v
                for k, v in self.seconds.items()
                if k.startswith(SUSPICION)
            },
            "energy_j": round(self.energy_j, 3),
            "energy_gpu_seconds": round(self.energy_s, 6),
            "observed_since": self.observed_since,
        }
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"

    def since(self, at: float) -> Entry | None:
        """The part of it after a Unix time, in proportion; None: all of it is before."""
        seen = self.observed_since
        return self._part(
            self._share_after(at),
            max(self.start, at),
            max(self.end, at),
            None if seen is None else max(seen, at),
        )

    def until(self, at: float) -> Entry | None:
        """The part of it before a Unix time, in proportion; None: all of it is after."""
        share = 1.0 - self._share_after(at)
        return self._part(share, min(self.start, at), min(self.end, at), self.observed_since)

    def _share_after(self, at: float) -> float:
        """How much of it lies after a Unix time: all or nothing of what has no length."""
        length_s = abs(self.end - self.start)
        if length_s == 0.0:
            return float(self.start >= at)
        return min(1.0, max(0.0, (max(self.start, self.end) - at) / length_s))

    def _part(
        self, share: float, start: float, end: float, observed_since: float | None
    ) -> Entry | None:
        if share in (0.0, 1.0):
            return self if share else None
        return self._replace(
            start=start,
            end=end,
            seconds={key: amount * share for key, amount in self.seconds.items()},
            energy_j=self.energy_j * share,
            energy_s=self.energy_s * share,
            observed_since=observed_since,
        )


class Pages:
    """The files of one folder, oldest first; what is no entry is skipped and counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped = 0
        """Lines that are no entries: torn ones, or somebody else's."""

    def files(self) -> list[Path]:
        """Files of days, oldest first."""
        try:
            return sorted(path for path in self.folder.iterdir() if path.suffix == SUFFIX)
        except OSError:
            return []

    def links(self) -> list[Path]:
        """Those that are links, to which nothing is ever written."""
        return [path for path in self.files() if path.is_symlink()]

    def entries(self, since: float | None = None) -> Iterator[Entry]:
        """Every entry, or what of them lies after a Unix time.

        Raises:
            OSError: a file cannot be read.
        """
        first = "" if since is None else page_name(since)
        for path in self.files():
            # A day's page holds no time after that day.
            if _IS_DAY.fullmatch(path.name) and path.name < first:
                continue
            for entry in self._of(path):
                part = entry if since is None else entry.since(since)
                if part is not None:
                    yield part

    def _of(self, path: Path) -> Iterator[Entry]:
        if path.is_symlink() and not path.exists():
            # A link that leads nowhere is no reason to tell nothing of the other days.
            return
        # A pipe would keep its reader waiting for whoever writes.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        with os.fdopen(descriptor, "rb") as file:
            for line in _lines(file):
                try:
                    data = json.loads(line)
                    if isinstance(data, dict) and "schema" in data:
                        continue
                    yield _entry(data)
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    self.skipped += 1

    def resumed(self) -> Resumed:
        """Where every run's books end, and what became of its time, from the newest pages."""
        found: dict[_Run, dict[str, float]] = {}
        sums_by_run: dict[_Run, dict[str, _Sum]] = {}
        left = MOST_RESUMED_BYTES
        for path in reversed(self.files()):
            try:
                left -= path.stat().st_size
                if left < 0 and found:
                    break
                newest: dict[_Run, dict[str, float]] = {}
                for entry in self._of(path):
                    run = (entry.job_id, entry.began_at)
                    ends = newest.setdefault(run, {})
                    ends.update(dict.fromkeys(entry.gpus, entry.end))
                    if run in sums_by_run or len(sums_by_run) < MOST_RUNS:
                        sums_by_run.setdefault(run, {}).setdefault(entry.gpu, _Sum(entry)).add(
                            entry
                        )
            except OSError:
                continue
            for key, ends in newest.items():
                found[key] = ends | found.get(key, {})
        accounts = (
            one.account() for sums in reversed(sums_by_run.values()) for one in sums.values()
        )
        return Resumed(found, tuple(accounts))


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file; an empty one stands for each that is too long to be an entry."""
    is_begun = False
    while line := file.readline(MAX_LINE_BYTES):
        is_ended = line.endswith(b"\n") or len(line) < MAX_LINE_BYTES
        if is_ended:
            yield b"" if is_begun else line
        is_begun = not is_ended
    if is_begun:
        yield b""


class _Sum:
    """What the entries of one run on GPUs of one name come to."""

    def __init__(self, first: Entry) -> None:
        self._first = first
        self._seconds: dict[str, float] = {}
        self._energy_j = self._energy_s = 0.0
        self._observed_since: float | None = None

    def add(self, entry: Entry) -> None:
        for key, amount in entry.seconds.items():
            self._seconds[key] = self._seconds.get(key, 0.0) + amount
        self._energy_j += entry.energy_j
        self._energy_s += entry.energy_s
        seen = [at for at in (self._observed_since, entry.observed_since) if at is not None]
        self._observed_since = min(seen, default=None)

    def account(self) -> Account:
        of = self._first
        return Account(
            job_id=of.job_id,
            user=of.user,
            account=of.account,
            partition=of.partition,
            gpu=of.gpu,
            began_at=of.began_at,
            observed_since=self._observed_since,
            seconds={key: amount for key, amount in self._seconds.items() if amount > 0.0},
            energy_j=self._energy_j,
            energy_s=self._energy_s,
        )


class Resumed:
    """Up to when earlier processes booked each run's GPUs, and what became of that time."""

    def __init__(
        self, ends: Mapping[_Run, Mapping[str, float]], accounts: tuple[Account, ...] = ()
    ) -> None:
        self.accounts = accounts
        """Of the newest runs, those of older pages first."""
        self._ends = ends
        self._of_gpu: dict[str, float] = {}
        for gpus in ends.values():
            for uuid, end in gpus.items():
                if uuid:
                    self._of_gpu[uuid] = max(end, self._of_gpu.get(uuid, end))

    def until(self, job_id: str, began_at: float, uuid: str) -> float | None:
        """Unix time up to which a run's time on a GPU is booked; None: none of it.

        A GPU that is not among the run's counts from where the run's books end. The first time of a
        run begins where that of the GPU's job before it ends: the queue is asked less often than
        time is written.
        """
        ends = self._ends.get((job_id, round(began_at, 6)))
        if not ends:
            return self._of_gpu.get(uuid)
        return ends.get(uuid, max(ends.values()))


def _entry(data: dict[str, Any]) -> Entry:
    """The entry of a line.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    seen = data["observed_since"]
    return Entry(
        start=_number(data["start"]),
        end=_number(data["end"]),
        job_id=_text(data["job"]),
        began_at=_number(data["began"]),
        user=_text(data["user"]),
        account=_text(data["account"]),
        partition=_text(data["partition"]),
        node=_text(data["node"]),
        gpu=_text(data["gpu"]),
        gpus=tuple(_text(uuid) for uuid in data["gpus"]),
        seconds=_seconds(data["gpu_seconds"], data.get("suspected_gpu_seconds", {})),
        energy_j=_number(data["energy_j"]),
        energy_s=_number(data["energy_gpu_seconds"]),
        observed_since=None if seen is None else _number(seen),
    )


def _seconds(certain: dict[str, object], suspected: dict[str, object]) -> dict[str, float]:
    """GPU-seconds as the books of today have them."""
    found = {_text(key): _number(amount) for key, amount in certain.items()}
    if PRODUCTIVE in found:
        found[UNEXPLAINED] = found.pop(PRODUCTIVE) + found.get(UNEXPLAINED, 0.0)
    return found | {SUSPICION + _text(key): _number(amount) for key, amount in suspected.items()}


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    # A whole number has no bound in JSON: one beyond what a float holds is no entry's either.
    found = float(value) if abs(value) < 2**64 else math.nan
    if not math.isfinite(found):
        raise TypeError(value)
    return found


def _text(value: object) -> str:
    """Text made harmless: the books may be a folder that several write to."""
    if not isinstance(value, str):
        raise TypeError(value)
    return plain(value)
