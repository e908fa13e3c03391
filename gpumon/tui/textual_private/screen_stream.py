"""Which stream the screen is drawn on, and what is reported when it is gone."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_DRAWING: Final = "textual-output"
"""Textual's name of the thread that draws."""


def draw_on_the_terminal() -> None:
    """Have the screen drawn on standard output where standard error leads elsewhere (`2>file`).

    Textual takes standard error unasked. What is written there goes where it was sent all the
    same.
    """
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        return
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")
    sys.__stderr__ = stream  # type: ignore[misc]


def leave_a_dead_terminal_quietly() -> None:
    """Say nothing of what can no longer be drawn: the end of the terminal ends the process."""
    threading.excepthook = _all_but_drawing(threading.excepthook)


def _all_but_drawing(
    report: Callable[[threading.ExceptHookArgs], object],
) -> Callable[[threading.ExceptHookArgs], None]:
    def hook(crash: threading.ExceptHookArgs) -> None:
        is_drawing = crash.thread is not None and crash.thread.name == _DRAWING
        if not (is_drawing and isinstance(crash.exc_value, OSError)):
            report(crash)

    return hook
