"""A folder of this process alone, in memory where that can be, for parsers that read files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

_MEMORY = Path("/dev/shm")


@cache
def shared() -> Path:
    """The folder above those of this process and of the processes that it forks from now on.

    It goes with this process: the end of a forked one clears up nothing.
    """
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="gpumon-fuzz-", dir=place))
    atexit.register(clear)
    return made


def clear() -> None:
    """Remove all of it; the next caller gets a new one."""
    if shared.cache_info().currsize:
        shutil.rmtree(shared(), ignore_errors=True)
    shared.cache_clear()
    _folder.cache_clear()


@cache
def _folder(pid: int) -> Path:
    made = shared() / str(pid)
    made.mkdir()
    return made


def folder() -> Path:
    """This process's own."""
    return _folder(os.getpid())


def file(name: str, raw: bytes) -> Path:
    """A file in it with these bytes."""
    path = folder() / name
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
    path.write_bytes(raw)
    return path
