"""Runs the application on a terminal, and leaves it as it was on every way out."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import termios
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.base.numpy_docs import leave_out_descriptions
from gpumon.base.own_file import write_own
from gpumon.base.paths import state_folder
from gpumon.model.text import plain
from gpumon.tui.app import GpumonApp
from gpumon.tui.look.saved_choices import NO_HABITS
from gpumon.tui.textual_private.idle_gc import FALLBACK, QuietCollector
from gpumon.tui.textual_private.screen_stream import (
    draw_on_the_terminal,
    leave_a_dead_terminal_quietly,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.tui.beside import Beside
    from gpumon.tui.feed import Feed
    from gpumon.tui.look.saved_choices import Habits, Shelf

CLOSE_WAIT_S: Final = 0.25
"""Longest wait for a feed to close: with the terminal's own end, half a second from key to shell.

What has not closed by then ends with this process: probes end when their input does.
"""


LEAVE_S: Final = 1.0
"""A terminal that takes nothing more, or is gone, holds the screen's own end up no longer."""

GIVE_WAY_S: Final = 0.001
"""A thread that computes lets another one run after so long, where Python has 5 ms: keys are read
and frames written by threads of their own, and a frame waits several times on its way."""

_GIVE_BACK: Final = (
    b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u"
    b"\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""What the screen's own end writes: paste, wrap, mouse, keyboard, other screen, cursor, focus."""


def run_terminal(
    feed: Feed,
    title: str = "",
    passes: RowFilter | None = None,
    shelf: Shelf | None = None,
    habits: Habits = NO_HABITS,
    *,
    allows_actions: bool = False,
    rings_bell: bool = False,
    beside: Callable[[], Beside] | None = None,
) -> int:
    """Show the feed until the user quits; the exit code, 0 for a quit, 1 for a crash.

    Args:
        feed: Where ticks come from.
        title: What is watched.
        passes: The row filter to begin with.
        shelf: Where to keep what the user chooses; None: it is forgotten at the end.
        habits: What was chosen before.
        allows_actions: Whether commands that change something may be run when asked for.
        rings_bell: Whether the terminal's bell is rung for what is new and grave.
        beside: Makes what is read beside the ticks, once the first is shown; None: nothing is.
    """
    if not sys.stdin.isatty():
        _close(feed)
        _print_error(
            "gpumon: standard input is not a terminal, so keys cannot be read; --once prints "
            "a table\n"
        )
        return 2
    draw_on_the_terminal()
    leave_a_dead_terminal_quietly()
    leave_out_descriptions()
    # What is there by now stays; what comes is looked through at quiet moments.
    gc.freeze()
    gc.set_threshold(*FALLBACK)
    sys.setswitchinterval(GIVE_WAY_S)
    app = GpumonApp(
        feed,
        title,
        passes=passes,
        shelf=shelf,
        habits=habits,
        allows_actions=allows_actions,
        rings_bell=rings_bell,
        beside=beside,
    )
    app.collector = QuietCollector(app.set_timer)
    try:
        return _shown(app, feed, shelf)
    finally:
        if app.discovery is not None:
            app.discovery.close()
        _drop_unwritten()


def _shown(app: GpumonApp, feed: Feed, shelf: Shelf | None) -> int:
    """Run the application to its end; the exit code."""
    crash: Exception | None = None
    code: int | None = None
    has_ended = threading.Event()
    _guard(app, has_ended, lambda: _close_all(feed, shelf))
    try:
        code = app.run()
    except KeyboardInterrupt:
        code = 130
    except Exception as error:  # noqa: BLE001 - the last door: it ends in one line and a log
        crash = error
    finally:
        has_ended.set()
        _close_all(feed, shelf)
    if shelf is not None and (trouble := shelf.trouble):
        _print_error(f"gpumon: your choices were not saved: {plain(trouble)}\n")
    failure = feed.failure
    if failure is not None:
        _print_error(f"gpumon: {failure.message} ({failure.hint})\n")
        return 1
    crash = app.crash or crash
    if crash is not None:
        _print_error(_crash_line(crash))
        return 1
    return code or 0


def _print_error(line: str) -> None:
    """Say it, where there is still a terminal."""
    with suppress(OSError):
        sys.stderr.write(line)
        sys.stderr.flush()


def _drop_unwritten() -> None:
    """Forget what a terminal that is gone no longer takes.

    The interpreter would try it once more as it ends, and put a 120 in the exit code's place.
    """
    # A stream that was closed before the start is none.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _guard(app: GpumonApp, has_ended: threading.Event, close: Callable[[], None]) -> None:
    """End the process where the screen cannot end itself: it waits for its terminal.

    Args:
        app: It leaves when the terminal hangs up.
        has_ended: Set once the screen has ended.
        close: Closes all that has to be closed.
    """
    terminal = sys.stdin.fileno()
    modes = termios.tcgetattr(terminal)

    def watch() -> None:
        poller = select.poll()
        # Asked for nothing, it reports a hang-up only.
        poller.register(terminal, 0)
        poller.poll()
        app.leave(128 + signal.SIGHUP)

    def end() -> None:
        code = app.exit_codes.get()
        if has_ended.wait(LEAVE_S):
            return
        close()
        with suppress(OSError, termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, modes)
            if select.select([], [terminal], [], 0)[1]:
                os.write(terminal, _GIVE_BACK)
        os._exit(code)

    for task in (watch, end):
        threading.Thread(target=task, name=f"gpumon-{task.__name__}", daemon=True).start()


def _close_all(feed: Feed, shelf: Shelf | None) -> None:
    _close(feed)
    if shelf is not None:
        shelf.close()


def _close(feed: Feed) -> None:
    """Close the feed, but never wait for one that hangs."""

    def close() -> None:
        try:
            feed.close()
        except Exception as error:  # noqa: BLE001 - leaving must not fail; one line reports it
            _print_error(f"gpumon: closing failed: {type(error).__name__}: {error}\n")

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
    path = Path(state_folder(), "crash.log")
    write_own(path, "".join(traceback.format_exception(error)))
    return path
