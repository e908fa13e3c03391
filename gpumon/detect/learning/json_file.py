"""Reads and rewrites a JSON file of a user's or a site's, of bounded size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar

from gpumon.base.errors import DamagedError
from gpumon.base.outcome import Outcome
from gpumon.base.own_file import write_own

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

ANSWERS_WITHIN_S: Final = 5.0
"""A home that takes longer to keep a file is said not to answer."""


class FileError(DamagedError):
    """A file holds no JSON that can be used; the message says why and does not name the file."""


def json_in(path: Path, most_bytes: int, what: str) -> object:
    """What a file holds.

    Args:
        path: The file.
        most_bytes: How large it may be.
        what: What it should hold, for the message.

    Raises:
        FileNotFoundError: There is none.
        FileError: It cannot be read, is too large, or is not JSON.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(error.strerror or "cannot be read") from error
    if len(raw) > most_bytes:
        raise FileError(f"larger than any {what}")
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise FileError("no JSON") from error
    return value


def rewritten(
    path: Path, read: Callable[[Path], T], change: Callable[[T], T], text: Callable[[T], str]
) -> tuple[T, T]:
    """What a file held before and holds after a change, which is on disk then.

    Args:
        path: The file of a user's own.
        read: What is in it.
        change: Makes of that what shall be in it.
        text: Makes JSON of that, in one line.

    Raises:
        Exception: What `read` or `change` raise; nothing is written then.
        OSError: It cannot be written; what was there is there still.
    """
    before = read(path)
    after = change(before)
    write_own(path, f"{text(after)}\n")
    return before, after


def answer_in_time(path: Path, call: Callable[[], T]) -> T:
    """What a call returns that keeps something in a file, of a home that may hang.

    Args:
        path: The file, for the message.
        call: The call; it runs on a thread of its own.

    Raises:
        FileError: It cannot be written, or does not answer; the message is one line.
        Exception: What else the call raises.
    """
    outcome = Outcome(call, "own file")
    outcome.has_ended(ANSWERS_WITHIN_S)
    try:
        return outcome.get()
    except TimeoutError:
        raise FileError(f"{path} does not answer: it may not have been stored") from None
    except OSError as error:
        raise FileError(f"{path} was not written: {error.strerror}") from error
