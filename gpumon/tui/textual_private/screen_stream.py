"""Which stream the screen is drawn on: Textual takes standard error, and asks nobody."""

from __future__ import annotations

import os
import sys


def draw_on_the_terminal() -> None:
    """Have the screen drawn on standard output where standard error leads elsewhere (`2>file`).

    What is said on standard error goes where it was sent all the same.
    """
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        return
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")
    sys.__stderr__ = stream  # type: ignore[misc]
