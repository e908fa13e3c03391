"""One answer for all gpumons of one user: whoever is due first asks, the others read it.

Files lie in a folder that only this user may enter, one per cluster and kind. Whatever is odd about
one of them, or about the folder, means that nothing is shared: a gpumon alone is right, only less
thrifty. Sharing ends at the machine: where homes lie on a network, locks of others may not hold.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.frame import SourceError
from gpumon.sources.slurm import failures
from gpumon.sources.slurm.commands import MAX_OUTPUT_BYTES, TIMEOUT_S
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.schedule import REST_FACTOR

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.sources.source import Clock

SWITCH: Final = "GPUMON_SHARE"
"""Set to `no`, every gpumon asks for itself."""

_FORMAT: Final = 1
_MAX_HEAD_BYTES: Final = 8192
_LOCK_WAIT_S: Final = TIMEOUT_S + 5.0
"""Longer than any call may take: whoever holds a lock for longer is stopped, or no gpumon."""
_LOOK_S: Final = 0.1
_OTHERS: Final = 0o077


class Answer(NamedTuple):
    """What Slurm printed."""

    text: str
    at: float
    """Unix time of the answer."""
    took_s: float | None
    """How long the call took that another gpumon made; None: the call was our own."""


class _Kept(NamedTuple):
    """One file: an answer, or the error in its place."""

    answer: Answer
    took_s: float
    error: SourceError | None


class SharedAnswers:
    """Answers of one cluster, shared among the gpumons of one user on one machine."""

    def __init__(self, folder: Path | None, identity: str = "") -> None:
        """Share in a folder of this user's; None: nothing is shared.

        Args:
            folder: Made if need be; used only if nobody else may look into it.
            identity: What tells this cluster, as this user sees it, from others.
        """
        self._folder = folder
        self._key = hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:32]

    def ask(
        self,
        kind: str,
        period_s: float,
        call: Callable[[], str],
        clock: Clock,
        stop: threading.Event,
    ) -> Answer:
        """The newest answer of a kind: one that is not due again yet, else a new one.

        Args:
            kind: What is asked for, a word of letters and dots.
            period_s: How old a shared answer may be.
            call: Asks Slurm.
            clock: Time.
            stop: Set where the wait for another gpumon's call is to end.

        Raises:
            CommandFailedError: there is no answer; or another's call to a controller that gives
                none failed a moment ago.
        """
        name = f"{self._key}-{kind}"
        with self._opened() as folder, _locked(folder, name, clock, stop) as is_held:
            if folder is None or not is_held:
                return Answer(call(), clock.now(), None)
            kept = _read(folder, name)
            if kept is not None and _is_fresh(kept, period_s, clock.now()):
                if kept.error is not None:
                    raise CommandFailedError(kept.error)
                return kept.answer
            return _asked(folder, name, call, clock)

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """Descriptor of the folder; None where it is not ours alone."""
        folder = None if self._folder is None else _open_folder(self._folder)
        try:
            yield folder
        finally:
            if folder is not None:
                os.close(folder)


def folder_of(environ: Mapping[str, str]) -> Path | None:
    """Where this user's gpumons share: the run-time folder, else the cache; None: nowhere."""
    if environ.get(SWITCH, "").lower() in ("no", "0", "off"):
        return None
    runtime, cache = environ.get("XDG_RUNTIME_DIR", ""), environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    for base in (runtime, cache, f"{home}/.cache" if home else ""):
        if base.startswith("/"):
            return Path(base) / "gpumon"
    return None


def _asked(folder: int, name: str, call: Callable[[], str], clock: Clock) -> Answer:
    """A new answer, left for the others; so is the news that the controller gives none."""
    started_at = clock.monotonic()
    try:
        text = call()
    except CommandFailedError as failed:
        if failures.is_silence(failed.error):
            took_s = clock.monotonic() - started_at
            _write(folder, name, _Kept(Answer("", clock.now(), None), took_s, failed.error))
        raise
    answer = Answer(text, clock.now(), None)
    _write(folder, name, _Kept(answer, clock.monotonic() - started_at, None))
    return answer


def _is_fresh(kept: _Kept, period_s: float, now: float) -> bool:
    """Whether the answer is not due again; one from the future is none."""
    rest_s = 0.0 if kept.error else REST_FACTOR * kept.took_s
    return 0.0 <= now - kept.answer.at < max(period_s, rest_s)


def _open_folder(path: Path) -> int | None:
    with suppress(OSError):
        path.mkdir(mode=0o700, parents=True)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        # Not there, a link, or closed to us: then nothing is shared.
        return None
    if _is_ours(os.fstat(folder)):
        return folder
    os.close(folder)
    return None


def _is_ours(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and not state.st_mode & _OTHERS


@contextmanager
def _locked(folder: int | None, name: str, clock: Clock, stop: threading.Event) -> Iterator[bool]:
    """Hold the lock of one kind; False where it can't be had in time, or not at all."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    lock: int | None = None
    if folder is not None:
        with suppress(OSError):
            lock = os.open(f"{name}.lock", flags, 0o600, dir_fd=folder)
    try:
        yield lock is not None and _take(lock, clock, stop)
    finally:
        if lock is not None:
            os.close(lock)


def _take(lock: int, clock: Clock, stop: threading.Event) -> bool:
    """Whether the lock is ours within the time that another's call may take."""
    deadline = clock.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() >= deadline or clock.wait(stop, _LOOK_S):
                return False
        except OSError:
            # A file system without locks: each gpumon asks for itself.
            return False
        else:
            return True


def _read(folder: int, name: str) -> _Kept | None:
    """What the file holds; None where it is absent, not ours, or no file of ours."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        file = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    try:
        state = os.fstat(file)
        if not (stat.S_ISREG(state.st_mode) and _is_ours(state)):
            return None
        if state.st_size > MAX_OUTPUT_BYTES + _MAX_HEAD_BYTES:
            return None
        with os.fdopen(os.dup(file), "rb") as stream:
            head, body = stream.readline(_MAX_HEAD_BYTES), stream.read()
    except OSError:
        return None
    finally:
        os.close(file)
    return _decode(head, body)


def _decode(head: bytes, body: bytes) -> _Kept | None:
    try:
        told: Any = json.loads(head)
        at, took_s, error = float(told["at"]), float(told["took_s"]), told["error"]
        if told["format"] != _FORMAT or told["bytes"] != len(body) or not took_s >= 0.0:
            return None
        failed = None if error is None else SourceError(*map(str, error))
        return _Kept(Answer(body.decode("utf-8"), at, took_s), took_s, failed)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        # Half written by a version without renames, or by somebody else: as if it were not there.
        return None


def _write(folder: int, name: str, kept: _Kept) -> None:
    """Put the answer in place at once; where that fails, the others ask for themselves."""
    body = kept.answer.text.encode("utf-8", "replace")
    head = {
        "format": _FORMAT,
        "at": kept.answer.at,
        "took_s": kept.took_s,
        "error": kept.error,
        "bytes": len(body),
    }
    draft = f"{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        os.unlink(draft, dir_fd=folder)
    try:
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as stream:
            stream.write(json.dumps(head).encode() + b"\n" + body)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        # A full disk, for example.
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
