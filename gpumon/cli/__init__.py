"""The command line: one file per command, each imported only when it is asked for.

Sees every floor but `probe`. `options` reads the words, `request` is what they mean, `exits` how
it ends; the commands are in `commands`.
"""

from __future__ import annotations

# Not signal, which comes with enum: the probe of this machine is to start before either.
import _signal as signal
import atexit
import gc
import os
import sys
from importlib import import_module

from gpumon.sources.probes import early

COMMANDS = (
    *("completion", "config", "doctor", "detectors", "evaluate", "patterns", "record", "replay"),
    *("report", "serve", "simulate", "train"),
)
"""First words that are commands; everything else is a target of the main command.

Each is a function in a module of its name in `commands`, which is imported only then.
"""

GC_THRESHOLDS = (50_000, 50, 50)
"""Python looks for garbage so seldom: imports leave none, which saves a single answer a ms, and
ticks are free of cycles, so that walking thousands of GPUs would only make them late.

What outlived one search is searched again after 2.5 million objects: the first look at 80,000 GPUs
makes 1.2 million, and all of them stay.
"""


def main(arguments: list[str] | None = None) -> int:
    """Exit code of the command line; stdout carries data, stderr narration.

    Without arguments it is the program, and may end the process.
    """
    if arguments is not None:
        return _run(arguments)
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        code = _run(sys.argv[1:], is_program=True)
    finally:
        # Nothing is left to end but Python itself, which would answer Ctrl-C with a traceback.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Python ends by the signal, not by our code, if the last text it executed was interrupted.
        exec("")  # noqa: S102
        # The kernel frees all at once; to look through every object first would take some ms.
        gc.freeze()
    _end(code)
    return code


def _end(code: int) -> None:
    """End the process by this code, with all that Python does at its end but take itself apart.

    Threads that still run, for example in an import, would have the ground taken from under them,
    and some of such ends are a SIGSEGV. It returns where Python has more to say or to wait for.
    """
    # Where nobody has imported it, nobody has started a thread.
    if threading := sys.modules.get("threading"):
        others = [one for one in threading.enumerate() if one is not threading.main_thread()]
        if not all(one.daemon for one in others):
            return
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _run(words: list[str], *, is_program: bool = False) -> int:
    """Exit code of the command that the words name."""
    if is_program:
        from gpumon.base.named_tuples import build_quickly

        build_quickly()
    command = words[0] if words and words[0] in COMMANDS else "watch"
    # Where the main command may look at this machine, its probe starts before anything else.
    if command == "watch" and "local" in words:
        early.begin(forks=is_program)
    if is_program:
        _import_argparse()
    from gpumon.base.errors import GpumonError
    from gpumon.cli.exits import (
        INTERRUPTED,
        NOTHING_READ,
        UNKNOWN_STATUS,
        USAGE,
        ended_by,
        narrate_error,
    )
    from gpumon.cli.output import open_standard_streams

    open_standard_streams()

    try:
        run = getattr(import_module(f"gpumon.cli.commands.{command}"), command)
        # As a program it has left Ctrl-C to the kernel so far: an import may swallow an exception.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return int(run(words if command == "watch" else words[1:]))
    except KeyboardInterrupt:
        return INTERRUPTED
    except GpumonError as error:
        return ended_by(error, is_check="--exit-status" in words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    # The last door: nobody is to read a traceback who did not ask for one.
    except Exception as error:  # noqa: BLE001
        if _is_of_interrupt(error):
            return INTERRUPTED
        from gpumon.model.fault import fault

        narrate_error(fault(f"in {command}", error))
        return UNKNOWN_STATUS if "--exit-status" in words else NOTHING_READ
    finally:
        early.end()


def _import_argparse() -> None:
    """Import it so that it looks for no translation of its words.

    There is none, and to find that out takes 3 ms (measured). Where something else has imported
    `gettext`, nothing changes.
    """
    if "gettext" in sys.modules:
        return
    sys.modules["gettext"] = None  # type: ignore[assignment]
    try:
        import_module("argparse")
    finally:
        del sys.modules["gettext"]


def _is_of_interrupt(error: BaseException | None) -> bool:
    """Whether it arose while Ctrl-C ended the command.

    A second Ctrl-C may come while Python takes a lock back, which then is released without having
    been taken.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
