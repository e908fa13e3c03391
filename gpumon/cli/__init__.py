"""The command line: one file per command, each imported only when it is asked for."""

from __future__ import annotations

import sys

from gpumon.cli.exits import INTERRUPTED, USAGE

COMMANDS = ("config", "doctor", "detectors", "record", "replay", "simulate")
"""First words that are commands; everything else is a target of the main command."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code of the command line; stdout carries data, stderr narration."""
    words = sys.argv[1:] if arguments is None else arguments
    command = words[0] if words and words[0] in COMMANDS else "watch"
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
