"""One answer for all gpumons of one user: the first that is due asks, the others read it.

Files lie in a folder that only this user may enter, one per cluster and kind. If one of them, or
the folder, is odd, nothing is shared: a gpumon alone is right, only less thrifty.
Sharing ends at the machine: where homes lie on a network, locks of others may not hold.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.base.own_file import OTHERS
from gpumon.base.paths import cache_folder, make_private, runtime_folder
from gpumon.model.fault import SourceError
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.commands import MAX_OUTPUT_BYTES, TIMEOUT_S
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.commands.schedule import REST_FACTOR

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.sources.source import Clock

SWITCH: Final = "GPUMON_SHARE"
"""Set to `no`, every gpumon asks for itself."""

_FORMAT: Final = 2
"""Version of a stored answer's head: one of another version is asked for again."""

_MAX_HEAD_BYTES: Final = 8192
"""Longest head: ours has 256 bytes, and what is longer is no answer of gpumon."""

_HEAD_BYTES: Final = 256
"""An answer's head is filled up to this, so that a newer one fits into its place."""

_LOCK_WAIT_S: Final = TIMEOUT_S + 5.0
"""Longer than any call may take: a process that holds a lock longer is stopped, or no gpumon."""

_LONGEST_CALL_S: Final = 600.0
"""Many times what any call may take: a longer one would have its answer stored for ever."""

_LOCK_RETRY_S: Final = 0.1
"""Between two tries to take a lock that another gpumon holds, seconds (our choice)."""

RETENTION_S: Final = 86400.0
"""Answers that were not renewed for so long are removed; the rarest is due every 15 min."""

MOST_ANSWERS: Final = 64
"""Answers that are stored at most: five clusters have a third of it."""

_FORM: Final = re.compile(r"(?P<answer>[0-9a-f]{32}-[a-z.]+?)(?:\.lock|\.\d+)?")
"""Answers, their locks, and drafts that were never put in place; nothing else is touched."""


def remove_leftovers(folder: int, newest: str) -> None:
    """Remove answers that will not be read again, left by gpumons that are gone.

    These are the old ones, or more than are stored, by the file system's own clock.

    Args:
        folder: Descriptor of the folder.
        newest: Name of the answer that was written just now.
    """
    with suppress(OSError):
        now = os.stat(newest, dir_fd=folder, follow_symlinks=False).st_mtime
        changed_at: dict[str, float] = {}
        names: dict[str, list[str]] = {}
        for name in os.listdir(folder):
            found = _FORM.fullmatch(name)
            state = os.stat(name, dir_fd=folder, follow_symlinks=False) if found else None
            if found and state and stat.S_ISREG(state.st_mode):
                answer = found["answer"]
                names.setdefault(answer, []).append(name)
                changed_at[answer] = max(changed_at.get(answer, 0.0), state.st_mtime)
        by_age = sorted(changed_at, key=changed_at.__getitem__, reverse=True)
        for place, answer in enumerate(by_age):
            is_old = now - changed_at[answer] > RETENTION_S or place >= MOST_ANSWERS
            if is_old and answer != newest:
                _remove(folder, answer, names[answer])


def _remove(folder: int, answer: str, names: list[str]) -> None:
    """Remove one answer and what belongs to it, unless another gpumon is asking for it now."""
    lock = os.open(
        f"{answer}.lock",
        os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
        dir_fd=folder,
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in {*names, f"{answer}.lock"}:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


class Answer(NamedTuple):
    """What Slurm answered."""

    text: str
    """Empty where the asker has it already: where `since` is what it holds."""
    at: float
    """Unix time at which this was Slurm's answer."""
    took_s: float | None
    """How long the call took that another gpumon made; None: the call was our own."""
    since: float
    """Unix time at which this text was first the answer, which identifies it."""


class _Stored(NamedTuple):
    """One file: an answer, or the error in its place."""

    answer: Answer
    took_s: float
    error: SourceError | None
    size_bytes: int = 0
    """Length of the text, also where it was not read."""


class SharedAnswers:
    """Answers of one cluster, shared among the gpumons of one user on one machine."""

    def __init__(self, folder: Path | None, identity: str = "") -> None:
        """Share in a folder of this user's; None: nothing is shared.

        Args:
            folder: Made if need be; used only if no other user may enter it.
            identity: What distinguishes this cluster, as this user sees it.
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
        return self.ask_newer(kind, period_s, None, lambda _: call(), clock, stop)

    def ask_newer(
        self,
        kind: str,
        period_s: float,
        held: float | None,
        call: Callable[[float | None], str | None],
        clock: Clock,
        stop: threading.Event,
    ) -> Answer:
        """As `ask`, of a Slurm that can say that nothing has changed.

        Args:
            kind: As of `ask`, like the others.
            period_s: How old a shared answer may be.
            held: `since` of the answer that the asker has; None: it has none.
            call: Asks Slurm. It is given what may be said to be unchanged: `held`, or None where
                the others could do nothing with such a word; returns None for it.
            clock: Time.
            stop: Set where the wait for another gpumon's call is to end.

        Raises:
            CommandFailedError: as of `ask`.
        """
        name = f"{self._key}-{kind}"
        with self._opened() as folder, _locked(folder, name, clock, stop) as is_held:
            if folder is None or not is_held:
                return _own_answer(call(held), held, clock.now())
            stored = _read(folder, name, held)
            if stored is not None and _is_fresh(stored, period_s, clock.now()):
                if stored.error is not None:
                    raise CommandFailedError(stored.error)
                return stored.answer
            has_mine = stored is not None and stored.error is None and stored.answer.since == held
            return _asked(folder, name, stored if has_mine else None, call, clock)

    def leave_note(self, kind: str, text: str, clock: Clock) -> None:
        """Leave a short note for the others; where that can't be, it is not missed."""
        with self._opened() as folder:
            if folder is not None:
                at = clock.now()
                stored = _Stored(Answer(text, at, None, at), 0.0, None)
                _write(folder, f"{self._key}-{kind}", stored)

    def note(self, kind: str, longest_s: float, clock: Clock) -> str:
        """The note that was left under this kind, at most so long ago; empty: there is none."""
        with self._opened() as folder:
            stored = None if folder is None else _read(folder, f"{self._key}-{kind}")
        is_young = stored is not None and 0.0 <= clock.now() - stored.answer.at < longest_s
        return stored.answer.text if stored is not None and is_young else ""

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
    """Where this user's gpumons share: the session's folder, else the cache; None: nowhere."""
    if environ.get(SWITCH, "").lower() in ("no", "0", "off"):
        return None
    return Path(runtime_folder(environ) or cache_folder(environ))


def _own_answer(text: str | None, held: float | None, at: float) -> Answer:
    """An answer of our own call; None: what is held still is the answer."""
    if text is None and held is not None:
        return Answer("", at, None, held)
    return Answer(text or "", at, None, at)


def _asked(
    folder: int,
    name: str,
    stored: _Stored | None,
    call: Callable[[float | None], str | None],
    clock: Clock,
) -> Answer:
    """A new answer, left for the others; so is the news that the controller gives none.

    `stored` is the file's answer where it may turn out to be the newest one still.
    """
    started_at = clock.monotonic()
    held = None if stored is None else stored.answer.since
    try:
        text = call(held)
    except CommandFailedError as failed:
        if failures.is_silence(failed.error):
            took_s, at = clock.monotonic() - started_at, clock.now()
            _write(folder, name, _Stored(Answer("", at, None, at), took_s, failed.error))
        raise
    answer, took_s = _own_answer(text, held, clock.now()), clock.monotonic() - started_at
    if stored is not None and text is None:
        _renew(folder, name, _Stored(answer, took_s, None, stored.size_bytes))
    else:
        _write(folder, name, _Stored(answer, took_s, None))
    return answer


def _is_fresh(stored: _Stored, period_s: float, now: float) -> bool:
    """Whether the answer is not due again; one from the future is none."""
    rest_s = 0.0 if stored.error else REST_FACTOR * stored.took_s
    return 0.0 <= now - stored.answer.at < max(period_s, rest_s)


def _open_folder(path: Path) -> int | None:
    with suppress(OSError):
        make_private(path)
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
    return state.st_uid == os.geteuid() and not state.st_mode & OTHERS


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
            if clock.monotonic() >= deadline or clock.wait(stop, _LOCK_RETRY_S):
                return False
        except OSError:
            # A file system without locks: each gpumon asks for itself.
            return False
        else:
            return True


def _read(folder: int, name: str, held: float | None = None) -> _Stored | None:
    """What the file holds; None where it is absent, not ours, or no file of ours.

    A text that is `held` already is not read again.
    """
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
            head = stream.readline(_MAX_HEAD_BYTES)
            stored = _decode(head)
            if stored is None or stored.size_bytes != state.st_size - len(head):
                return None
            if stored.answer.since == held:
                return stored
            text = stream.read().decode("utf-8")
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    return stored._replace(answer=stored.answer._replace(text=text))


def _decode(head: bytes) -> _Stored | None:
    """What a file's first line holds, without its text."""
    try:
        fields: Any = json.loads(head)
        at, since, took_s = (float(fields[key]) for key in ("at", "since", "took_s"))
        size_bytes, error = int(fields["bytes"]), fields["error"]
        if fields["format"] != _FORMAT or not 0.0 <= took_s <= _LONGEST_CALL_S:
            return None
        if not isfinite(at + since):
            return None
        failed = None if error is None else SourceError(*map(str, error))
        return _Stored(Answer("", at, took_s, since), took_s, failed, size_bytes)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        # Half written by a version without renames, or by another program: as if it were not there.
        return None


def _encode(stored: _Stored, size_bytes: int) -> bytes:
    """A file's first line."""
    fields = {
        "format": _FORMAT,
        "at": stored.answer.at,
        "since": stored.answer.since,
        "took_s": stored.took_s,
        "error": stored.error,
        "bytes": size_bytes,
    }
    return json.dumps(fields).encode().ljust(_HEAD_BYTES - 1) + b"\n"


def _renew(folder: int, name: str, stored: _Stored) -> None:
    """Give the file's text the time of a newer answer that found it unchanged.

    Written in place: only who holds the lock reads, and the text may be long.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with suppress(OSError):
        file = os.open(name, flags, dir_fd=folder)
        try:
            os.pwrite(file, _encode(stored, stored.size_bytes), 0)
        finally:
            os.close(file)


def _write(folder: int, name: str, stored: _Stored) -> None:
    """Put the answer in place at once; where that fails, the others ask for themselves."""
    body = stored.answer.text.encode("utf-8", "replace")
    draft = f"{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        os.unlink(draft, dir_fd=folder)
    try:
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as stream:
            stream.write(_encode(stored, len(body)))
            stream.write(body)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        remove_leftovers(folder, name)
    except OSError:
        # A full disk, for example.
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
