"""Files that are written for their user alone, each as a whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from gpumon.base.paths import make_private

if TYPE_CHECKING:
    from pathlib import Path


def write_own(path: Path, text: str, *, is_new: bool = False) -> None:
    """As `write_whole`; folders that are missing are made, for their owner alone.

    Raises:
        OSError: It could not be written; what was there is there still.
    """
    make_private(path.parent)
    write_whole(path, text, is_new=is_new)


def write_whole(path: Path, text: str, *, is_new: bool = False) -> None:
    """Write a file, mode 0600, beside its place, and put it there once all of it is written.

    Args:
        path: Where to; a link there is replaced, not followed.
        text: What it holds.
        is_new: Whether what is there by then is left alone.

    Raises:
        FileExistsError: It is to be new, and is there.
        OSError: It could not be written; what was there is there still.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        if is_new:
            # A link, unlike a rename, never replaces a file that came up meanwhile.
            os.link(beside, path)
            beside.unlink()
        else:
            beside.replace(path)
    except OSError:
        # Of a name that nothing can have there is nothing to remove, and that fails as well.
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
