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
def _folder(_pid: int) -> Path:
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="gpumon-fuzz-", dir=place))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def folder() -> Path:
    """The folder; it goes with the process."""
    return _folder(os.getpid())


def file(name: str, raw: bytes) -> Path:
    """A file in it with these bytes."""
    path = folder() / name
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
    path.write_bytes(raw)
    return path
