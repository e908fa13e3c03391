"""Reads a file that holds a secret, which only its owner may read: no argument names one."""

from __future__ import annotations

import shlex

from gpumon.base.errors import DeclinedError
from gpumon.base.own_file import NotOwnError, read_own
from gpumon.model.text import plain


class SecretError(DeclinedError):
    """The file cannot or must not be used; neither message nor way out holds anything of it."""


def read_secret(path: str, what: str, max_bytes: int) -> str:
    """Text of a file that no one else may read; empty where it is longer than it may be.

    Args:
        path: The file.
        what: How it is called in errors: `token file`.
        max_bytes: What was cut off might make no secret of what looks like one.

    Raises:
        SecretError: It cannot be read, or others can.
    """
    shown = f"the {what} {plain(path)}"
    try:
        text = read_own(path, max_bytes).decode("ascii", "replace")
    except OSError as error:
        message = f"{shown} cannot be read: {error.strerror}"
        raise SecretError(message, "check its path and owner") from None
    except NotOwnError as error:
        is_open = error.is_open
        way_out = f"`chmod 600 {shlex.quote(plain(path))}`" if is_open else "name another one"
        raise SecretError(f"{shown} {error}", way_out) from None
    return text if len(text) <= max_bytes else ""
