"""Files that the user asks for: never over another one unasked, and for their eyes only."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS: Final = (".csv", ".json", ".svg")

END_S: Final = 0.2
"""How long the end of a terminal waits for a file that is still being written."""

_WEB_FONTS: Final = re.compile(r"@font-face\s*\{[^}]*\}")


class FileRefusedError(Exception):
    """A file is not written; the message says why and what to do."""


def form_of(name: str) -> str:
    """`csv`, `json` or `svg`, by the end of a file's name.

    Raises:
        FileRefusedError: It is none of these.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        message = f"the name ends in none of {', '.join(FORMATS)}"
        raise FileRefusedError(message)
    return suffix[1:]


def picture(drawn: str) -> str:
    """Textual's picture of the screen without the fonts that it would fetch from the net.

    Some programs, librsvg among them, drop the blanks at the start of a text, also those that must
    not break, unless they are told to keep them: columns would move to the left.
    """
    plain = _WEB_FONTS.sub("", drawn).replace("Fira Code", "DejaVu Sans Mono")
    return plain.replace("<svg ", '<svg xml:space="preserve" ', 1)


def write_new(name: str, made: Callable[[], str], *, is_forced: bool) -> Path:
    """The file that was written, mode 0600.

    Args:
        name: Where to; `~` is the home.
        made: Makes what is written.
        is_forced: Whether a regular file of this name is replaced.

    Raises:
        FileRefusedError: It exists, or cannot be written.
    """
    path = _path_of(name)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            message = f"{path} is no regular file: choose another name"
            raise FileRefusedError(message)
        if path.exists() and not is_forced:
            message = f"{path} exists: choose another name, or write a ! behind it to replace it"
            raise FileRefusedError(message)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(made())
        if is_forced:
            part.replace(path)
        else:
            # A link, unlike a rename, never replaces a file that came up meanwhile.
            os.link(part, path)
            part.unlink()
    except OSError as error:
        # Of a name that nothing can have there is nothing to remove, and that fails as well.
        with suppress(OSError):
            part.unlink(missing_ok=True)
        message = f"{path}: {error.strerror}"
        raise FileRefusedError(message) from None
    return path


def _path_of(name: str) -> Path:
    if "\0" in name:
        message = "no file can have this name"
        raise FileRefusedError(message)
    try:
        return Path(name).expanduser()
    except RuntimeError:
        message = f"{name}: nobody of that name has a home here"
        raise FileRefusedError(message) from None


async def write_beside(name: str, made: Callable[[], str], *, is_forced: bool) -> Path:
    """As `write_new`, on a thread that nobody waits for long: a file server may be gone.

    A thread of asyncio's would be waited for at the end of the process.
    """
    told: Future[Path] = Future()

    def write() -> None:
        told.set_running_or_notify_cancel()
        try:
            told.set_result(write_new(name, made, is_forced=is_forced))
        except Exception as error:  # noqa: BLE001 - it is whose who asked
            told.set_exception(error)

    thread = threading.Thread(target=write, name="export", daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(told)
    finally:
        thread.join(END_S)
