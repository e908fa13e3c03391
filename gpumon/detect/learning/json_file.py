"""Reads a JSON file of a user's or a site's, of bounded size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class FileError(Exception):
    """A file holds no JSON that can be used; the message says why and does not name the file."""


def json_in(path: Path, most_bytes: int, what: str) -> object:
    """What a file holds.

    Args:
        path: The file.
        most_bytes: How large it may be.
        what: What it should hold, for the message.

    Raises:
        FileNotFoundError: There is none.
        FileError: It cannot be read, is too large, or is no JSON.
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
