"""Reads the books on disk: one file a day, one balanced entry a line, the last one may be torn."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.records.ledger import SUSPICION, UNEXPLAINED
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA: Final = "gpumon-ledger/2"
"""Name and major version of the file's form, in the first line of each file."""

PRODUCTIVE: Final = "productive"
"""What version 1 called all that was observed and charged to nothing; nobody measured whether it
was useful. Entries of both versions may stand in one file: that of the day of the change."""

SUFFIX: Final = ".ndjson"

MAX_LINE_BYTES: Final = 2**20
"""No entry is so long: one of all GPUs of the largest node takes 8 KB. A longer line is skipped."""

MOST_RESUMED_BYTES: Final = 64 * 2**20
"""So much of the newest pages is read for where to go on; about a second."""


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
        latest = max(self.start, self.end)
        if latest <= at:
            return None if latest < at else self
        if min(self.start, self.end) >= at:
            return self
        part = (latest - at) / abs(self.end - self.start)
        return self._replace(
            start=max(self.start, at),
            end=max(self.end, at),
            seconds={key: amount * part for key, amount in self.seconds.items()},
            energy_j=self.energy_j * part,
            energy_s=self.energy_s * part,
            observed_since=None if self.observed_since is None else max(self.observed_since, at),
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
        for path in self.files():
            for entry in self._of(path):
                kept = entry if since is None else entry.since(since)
                if kept is not None:
                    yield kept

    def _of(self, path: Path) -> Iterator[Entry]:
        if path.is_symlink() and not path.exists():
            # A link that leads nowhere is no reason to tell nothing of the other days.
            return
        # A pipe would keep its reader waiting for whoever writes.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is no regular file", str(path))
            for line in _lines(file):
                try:
                    data = json.loads(line)
                    if isinstance(data, dict) and "schema" in data:
                        continue
                    yield _entry(data)
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    self.skipped += 1

    def resumed(self) -> Resumed:
        """Where every run's books end, from the newest pages."""
        found: dict[tuple[str, float], dict[str, float]] = {}
        left = MOST_RESUMED_BYTES
        for path in reversed(self.files()):
            try:
                left -= path.stat().st_size
                if left < 0 and found:
                    break
                newest: dict[tuple[str, float], dict[str, float]] = {}
                for entry in self._of(path):
                    ends = newest.setdefault((entry.job_id, entry.began_at), {})
                    ends.update(dict.fromkeys(entry.gpus, entry.end))
            except OSError:
                continue
            for key, ends in newest.items():
                found[key] = ends | found.get(key, {})
        return Resumed(found)


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


class Resumed:
    """Up to when earlier processes booked each run's GPUs."""

    def __init__(self, ends: Mapping[tuple[str, float], Mapping[str, float]]) -> None:
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
        _number(data["start"]),
        _number(data["end"]),
        _text(data["job"]),
        _number(data["began"]),
        _text(data["user"]),
        _text(data["account"]),
        _text(data["partition"]),
        _text(data["node"]),
        _text(data["gpu"]),
        tuple(_text(uuid) for uuid in data["gpus"]),
        _seconds(data["gpu_seconds"], data.get("suspected_gpu_seconds", {})),
        _number(data["energy_j"]),
        _number(data["energy_gpu_seconds"]),
        None if seen is None else _number(seen),
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
