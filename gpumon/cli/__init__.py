"""The command line: one file per command, each imported only when it is asked for."""

from __future__ import annotations

import gc
import sys

from gpumon.sources import early

COMMANDS = ("config", "doctor", "detectors", "record", "replay", "report", "simulate")
"""First words that are commands; everything else is a target of the main command."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code of the command line; stdout carries data, stderr narration."""
    if arguments is not None:
        return _run(arguments)
    # Imports leave no garbage, and looking for it among them costs a single look a millisecond.
    gc.set_threshold(50_000, 20, 50)
    try:
        return _run(sys.argv[1:])
    finally:
        # The kernel frees all at once; to look through every object first would take some ms.
        gc.freeze()


def _run(words: list[str]) -> int:
    """Exit code of the command that the words name."""
    command = words[0] if words and words[0] in COMMANDS else "watch"
    # Where the main command may look at this machine, its probe starts before anything else.
    if command == "watch" and "local" in words:
        early.begin()
    from gpumon.cli.exits import INTERRUPTED, NOTHING_READ, UNKNOWN_STATUS, USAGE, narrate_error

    try:
        if command == "doctor":
            from gpumon.cli.doctor import doctor

            return doctor(words[1:])
        if command == "config":
            from gpumon.cli.config import config

            return config(words[1:])
        if command == "detectors":
            from gpumon.cli.detectors import detectors

            return detectors(words[1:])
        if command == "record":
            from gpumon.cli.record import record

            return record(words[1:])
        if command == "replay":
            from gpumon.cli.replay import replay

            return replay(words[1:])
        if command == "report":
            from gpumon.cli.report import report

            return report(words[1:])
        if command == "simulate":
            from gpumon.cli.simulate import simulate

            return simulate(words[1:])
        from gpumon.cli.watch import watch

        return watch(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone, for example `| head`; what it wanted has been written.
        sys.stdout = open("/dev/null", "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    # The last door: nobody is to read a traceback who did not ask for one.
    except Exception as error:  # noqa: BLE001
        from gpumon.model.fault import fault

        narrate_error(fault(f"in {command}", error))
        return UNKNOWN_STATUS if "--exit-status" in words else NOTHING_READ
    finally:
        early.end()
