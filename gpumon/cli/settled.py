"""The settings that count for one command: its flags, over the environment, over the files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpumon.cli.configuration import ConfigurationError, load
from gpumon.cli.exits import UNKNOWN_STATUS, USAGE, narrate
from gpumon.model.settings import Chosen, Settings
from gpumon.sources.address import TargetError, parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from gpumon.fleet.partners import Detection, Past
    from gpumon.sources.address import Target


def settled(options: argparse.Namespace, *, is_live: bool = True) -> Settings:
    """Every setting; options that are left open get the value of theirs.

    What is not live, a recording, has its own period and its own jobs.

    A configuration that is wrong ends the command: one line per problem, and exit code 2, or 3
    with `--exit-status`.
    """
    try:
        settings = load()
    except ConfigurationError as error:
        for problem in error.problems:
            narrate(problem)
        sys.exit(UNKNOWN_STATUS if getattr(options, "exit_status", False) else USAGE)
    if not is_live:
        return settings
    chosen = dict(settings.chosen)
    if options.period is not None:
        chosen["period_s"] = Chosen(options.period, "--period")
    if options.all:
        chosen["all_jobs"] = Chosen(True, "--all")
    settings = Settings(chosen)
    options.period = settings.number("period_s")
    # A user that is named on the command line beats everybody of the configuration.
    options.all = settings.flag("all_jobs") and (options.all or options.user is None)
    return settings


def chosen_targets(words: Sequence[str], settings: Settings) -> list[Target]:
    """Targets of the command line, else those of the configuration; none where neither names any.

    Raises:
        TargetError: one is of no known form; the message says where it stands.
    """
    if words:
        return [parse(text) for text in words]
    try:
        return [parse(text) for text in settings.texts("targets")]
    except TargetError as error:
        raise TargetError(f"{settings.chosen['targets'].origin}: targets: {error}") from None


def past_of(settings: Settings) -> Callable[[], Past]:
    """Makes the memory of the past."""

    def history() -> Past:
        from gpumon.fleet.history import History

        return History(max_bytes=int(settings.number("history.max_mib") * 2**20))

    return history


def judge_of(settings: Settings, *, is_noted: bool = False) -> Callable[[], Detection]:
    """Makes the detection engine; one that is noted keeps what is said of findings."""

    def engine() -> Detection:
        from gpumon.detect.engine import DetectionEngine
        from gpumon.detect.notes_file import NotesFile, own_notes
        from gpumon.detect.tuning import Tuning

        notes = NotesFile(own_notes()) if is_noted else None
        return DetectionEngine(tuning=Tuning.of(settings), notes=notes)

    return engine
