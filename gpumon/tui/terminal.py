"""Runs the application on a terminal, and leaves it as it was on every way out."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.tui.app import GpumonApp
from gpumon.tui.habits import NO_HABITS

if TYPE_CHECKING:
    from gpumon.report.filter_tables import RowFilter
    from gpumon.tui.app import Feed
    from gpumon.tui.habits import Habits, Shelf

CLOSE_WAIT_S: Final = 0.25
"""Longest wait for a feed to close: with the terminal's own end, half a second from key to shell.

What has not closed by then ends with this process: probes end when their input does.
"""


def run_terminal(
    feed: Feed,
    title: str = "",
    passes: RowFilter | None = None,
    shelf: Shelf | None = None,
    habits: Habits = NO_HABITS,
    *,
    allows_actions: bool = False,
) -> int:
    """Show the feed until the user quits; the exit code, 0 for a quit, 1 for a crash.

    Args:
        feed: Where ticks come from.
        title: What is watched.
        passes: The row filter to begin with.
        shelf: Where to keep what the user chooses; None: it is forgotten at the end.
        habits: What was chosen before.
        allows_actions: Whether commands that change something may be run when asked for.
    """
    # Ticks are free of cycles: the collector would only walk ten thousand live jobs, a tenth of
    # a second during which no key is heard.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    app = GpumonApp(
        feed, title, passes=passes, shelf=shelf, habits=habits, allows_actions=allows_actions
    )
    crash: Exception | None = None
    code: int | None = None
    try:
        code = app.run()
    except KeyboardInterrupt:
        code = 130
    except Exception as error:  # noqa: BLE001 - the last door: it ends in one line and a log
        crash = error
    finally:
        _close(feed)
        if shelf is not None:
            shelf.close()
    failure = feed.failure
    if failure is not None:
        sys.stderr.write(f"gpumon: {failure.message} ({failure.hint})\n")
        return 1
    crash = app.crash or crash
    if crash is not None:
        sys.stderr.write(_crash_line(crash))
        return 1
    return code or 0


def _close(feed: Feed) -> None:
    """Close the feed, but never wait for one that hangs."""

    def close() -> None:
        try:
            feed.close()
        except Exception as error:  # noqa: BLE001 - leaving must not fail; it is told in one line
            sys.stderr.write(f"gpumon: closing failed: {type(error).__name__}: {error}\n")

    closer = threading.Thread(target=close, name="gpumon-close", daemon=True)
    closer.start()
    closer.join(CLOSE_WAIT_S)


def _crash_line(error: Exception) -> str:
    """One line for the user; the traceback goes to a file that only the user may read."""
    what = f"gpumon: the terminal failed: {type(error).__name__}: {error}".splitlines()[0]
    try:
        path = write_crash_log(error)
    except OSError as refused:
        return f"{what}; the log could not be written: {refused}\n"
    return f"{what}; details in {path}\n"


def write_crash_log(error: Exception) -> Path:
    """The file in the user's state folder, mode 0600, that the traceback was written to."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = state / "gpumon"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "crash.log"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as log:
        log.writelines(traceback.format_exception(error))
    return path
