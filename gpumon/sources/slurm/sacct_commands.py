"""The accounting as Slurm's own commands tell it, here or behind a login node."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import SourceError
from gpumon.model.hostlist import is_job_id
from gpumon.model.text import plain
from gpumon.sources.address import USER_NAME
from gpumon.sources.slurm import failures
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.sacct_text import FIELDS, OLD_FIELDS, parse_ended
from gpumon.sources.slurm.sstat_text import USE_FIELDS, parse_use

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.accounting import StepUsage
    from gpumon.sources.slurm.commands import SlurmCommands
    from gpumon.sources.slurm.sacct_usage import EndedList

STATES: Final = ("BF", "CA", "CD", "DL", "F", "NF", "OOM", "PR", "TO")
OLD_STATES: Final = tuple(state for state in STATES if state != "OOM")
"""Slurm learnt OUT_OF_MEMORY with 17.11, and refuses a state that it does not know."""

_TOO_NEW: Final = re.compile(r"invalid field requested|unrecognized job state", re.IGNORECASE)


def new_delimiter() -> str:
    """Characters that no job's name holds, because nobody can guess them."""
    return f"@{os.urandom(8).hex()}@"


class SacctCommands:
    """Asks sacct for the ended jobs of one user, or of everybody whose jobs Slurm shows."""

    def __init__(
        self,
        commands: SlurmCommands,
        *,
        user: str = "",
        everyone: bool = False,
        delimiter: Callable[[], str] = new_delimiter,
    ) -> None:
        """Ask by these commands.

        Args:
            commands: Runs sacct; of no other thread.
            user: Login name; empty: whoever the command runs as.
            everyone: Every user's jobs, whatever `user` says.
            delimiter: Makes the delimiter of one answer.
        """
        self._commands = commands
        self._user = user
        self._everyone = everyone
        self._delimiter = delimiter
        self._is_old = False

    def ended(self, window_s: float) -> EndedList:
        """Jobs that ended within the last `window_s` seconds, with their steps.

        Raises:
            CommandFailedError: there was no answer of use.
        """
        try:
            return self._ask(window_s)
        except CommandFailedError as failed:
            if self._is_old or not _TOO_NEW.search(failed.error.message):
                raise
            self._is_old = True
            return self._ask(window_s)

    def running(self, job_id: str) -> tuple[StepUsage, ...]:
        """What the running steps of one job have used so far.

        Raises:
            CommandFailedError: there was no answer of use; sstat tells only of one's own jobs.
        """
        if not is_job_id(job_id):
            raise CommandFailedError(
                SourceError("sstat", f"{plain(job_id)!r} is no job id", "see squeue")
            )
        words = (
            "sstat",
            "--allsteps",
            "--parsable",
            "--noconvert",
            f"--format={','.join(USE_FIELDS)}",
            f"--jobs={job_id}",
        )
        said, complaints = self._commands.ask(words, "sstat")
        found = parse_use(said)
        if found is None:
            raise CommandFailedError(failures.garbage("sstat", "steps", said))
        if not found and complaints.strip():
            # sstat ends with status 0 also where it was refused every step.
            raise CommandFailedError(failures.refused("sstat", 0, complaints))
        return found

    def close(self) -> None:
        """End the running command."""
        self._commands.close()

    def _ask(self, window_s: float) -> EndedList:
        delimiter = self._delimiter()
        fields, states = (OLD_FIELDS, OLD_STATES) if self._is_old else (FIELDS, STATES)
        words = (
            "sacct",
            "--parsable",
            "--noconvert",
            f"--delimiter={delimiter}",
            f"--format={','.join(fields)}",
            f"--starttime=now-{window_s:.0f}",
            "--endtime=now",
            f"--state={','.join(states)}",
            *self._whose(),
        )
        text = self._commands.ask(words, "sacct")[0]
        found = parse_ended(text, delimiter, fields)
        if found is None:
            raise CommandFailedError(failures.garbage("sacct", "ended jobs", text))
        return found

    def _whose(self) -> tuple[str, ...]:
        """The option that says whose jobs are asked for."""
        if self._everyone:
            return ("--allusers",)
        if not self._user:
            return ()
        if not USER_NAME.match(self._user):
            raise CommandFailedError(
                SourceError("sacct", f"{plain(self._user)!r} is no login name", "check --user")
            )
        return (f"--user={self._user}",)
