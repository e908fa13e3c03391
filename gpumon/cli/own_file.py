"""Files that a command writes for its user alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpumon.base.paths import make_private

if TYPE_CHECKING:
    from pathlib import Path


def write_own(path: Path, text: str) -> None:
    """Write a file for its owner alone, as a whole or not at all; folders are made as needed.

    Raises:
        OSError: It could not be written; what was there is there still.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    make_private(path.parent)
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
