"""Files that the user asks for: never over another one unasked, and for their eyes only."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.base.errors import DeclinedError
from gpumon.base.own_file import write_whole
from gpumon.base.writing_thread import WritingThread

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS: Final = (".csv", ".json", ".svg")

END_S: Final = 0.2
"""How long the end of a terminal waits for a file that is still being written."""

_UNDER_WAY: Final[set[Path]] = set()
"""Folders to which a file is being written: where one hangs, the next is not begun."""

_WEB_FONTS: Final = re.compile(r"@font-face\s*\{[^}]*\}")


class FileRefusedError(DeclinedError):
    """A file is not written; the message says why and what to do."""


def form_of(name: str) -> str:
    """`csv`, `json` or `svg`, by the end of a file's name.

    Raises:
        FileRefusedError: It is none of these.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        message = f"the name must end in one of {', '.join(FORMATS)}"
        raise FileRefusedError(message)
    return suffix[1:]


def without_fonts(drawn: str) -> str:
    """Textual's image of the screen without the fonts that it would fetch from the net.

    Some programs, librsvg among them, drop the blanks at the start of a text, also those that must
    not break, unless they are asked to keep them: columns would move to the left.
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
    there = f"{path} exists: choose another name, or write a ! behind it to replace it"
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            message = f"{path} is not a regular file: choose another name"
            raise FileRefusedError(message)
        if path.exists() and not is_forced:
            raise FileRefusedError(there)
        write_whole(path, made(), is_new=not is_forced)
    except FileExistsError:
        raise FileRefusedError(there) from None
    except OSError as error:
        message = f"{path} was not written: {error.strerror}; choose another name or folder"
        raise FileRefusedError(message) from None
    return path


def _path_of(name: str) -> Path:
    if "\0" in name:
        message = "no file can have this name"
        raise FileRefusedError(message)
    try:
        return Path(name).expanduser()
    except RuntimeError:
        message = f"{name}: no user of that name has a home directory here"
        raise FileRefusedError(message) from None


async def write_beside(name: str, made: Callable[[], str], *, is_forced: bool) -> Path:
    """As `write_new`, on a thread that is not waited for long: a file server may be gone.

    A thread of asyncio's would be waited for at the end of the process.

    Raises:
        FileRefusedError: It cannot be written; the message says why.
    """
    place = _path_of(name).parent
    if place in _UNDER_WAY:
        message = f"{place} does not answer: the previous file is not written yet; choose another"
        raise FileRefusedError(message)
    written_path: Future[Path] = Future()

    def write() -> None:
        written_path.set_running_or_notify_cancel()
        try:
            written_path.set_result(write_new(name, made, is_forced=is_forced))
        except Exception as error:  # noqa: BLE001 - it is whose who asked
            written_path.set_exception(error)
        finally:
            _UNDER_WAY.discard(place)

    _UNDER_WAY.add(place)
    thread = WritingThread("export")
    thread.close(0.0, write)
    try:
        return await asyncio.wrap_future(written_path)
    finally:
        thread.join(END_S)
