"""What gpumons that are gone left in the shared folder: answers that nobody will read again."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import suppress
from typing import Final

KEEP_S: Final = 86400.0
"""Answers that nobody has renewed for so long are removed; the rarest is due every 15 min."""

MOST_ANSWERS: Final = 64
"""Answers that are kept at most: five clusters have a third of it."""

_FORM: Final = re.compile(r"(?P<answer>[0-9a-f]{32}-[a-z.]+?)(?:\.lock|\.\d+)?")
"""Answers, their locks, and drafts that were never put in place; nothing else is touched."""


def remove_leftovers(folder: int, newest: str) -> None:
    """Remove what is old, or more than is kept, by the file system's own clock.

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
            is_old = now - changed_at[answer] > KEEP_S or place >= MOST_ANSWERS
            if is_old and answer != newest:
                _remove(folder, answer, names[answer])


def _remove(folder: int, answer: str, names: list[str]) -> None:
    """Remove one answer and what belongs to it, unless somebody is asking for it now."""
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
