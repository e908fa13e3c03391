"""The accounting as Slurm's own commands report it, here or behind a login node."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import SourceError
from gpumon.model.hostlist import is_job_id
from gpumon.model.job_states import ENDED_RUN_STATES, SHORT_CODES
from gpumon.model.records.accounting import StepUsage
from gpumon.model.text import plain
from gpumon.sources.address import USER_NAME
from gpumon.sources.slurm.accounting.text import (
    FIELDS,
    OLD_FIELDS,
    cpu_time_s,
    parse_ended,
    size_bytes,
    tres_item,
    whole_number,
)
from gpumon.sources.slurm.accounting.usage import gpu_use, mem_used
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.failures import CommandFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.sources.slurm.accounting.usage import EndedList
    from gpumon.sources.slurm.commands.commands import SlurmCommands

STATES: Final = tuple(SHORT_CODES[state] for state in sorted(ENDED_RUN_STATES))
OLD_STATES: Final = tuple(state for state in STATES if state != "OOM")
"""Slurm learnt OUT_OF_MEMORY with 17.11, and refuses a state that it does not know."""

_TOO_NEW: Final = re.compile(r"invalid field requested|unrecognized job state", re.IGNORECASE)

USE_FIELDS: Final = ("JobID", "NTasks", "AveCPU", "MaxRSS", "ConsumedEnergyRaw", "TRESUsageInTot")
"""Numbers and Slurm's own words, none of which holds a `|`."""

_STEP: Final = re.compile(r"([0-9]{1,10})\.([A-Za-z0-9+_]{1,32})")


def parse_use(text: str) -> tuple[StepUsage, ...] | None:
    """Every step of the text; a line that cannot be read is left out. None: it has no titles."""
    _, found, body = text.partition("|".join((*USE_FIELDS, "\n")))
    if not found:
        return None
    steps: list[StepUsage] = []
    for line in body.split("\n"):
        values = line.split("|")[:-1]
        match = _STEP.fullmatch(values[0]) if len(values) == len(USE_FIELDS) else None
        if match is not None:
            row = dict(zip(USE_FIELDS, values, strict=True))
            steps.append(_step(match[1], match[2], row))
    return tuple(steps)


def _step(job_id: str, step: str, row: Mapping[str, str]) -> StepUsage:
    """One step; what cannot be read of it is None."""
    tasks, cpu_s = whole_number(row["NTasks"]), cpu_time_s(row["AveCPU"])
    usage = row["TRESUsageInTot"]
    util_ratio, gpu_mem = gpu_use(
        size_bytes(tres_item(usage, "gres/gpuutil")), size_bytes(tres_item(usage, "gres/gpumem"))
    )
    max_rss_bytes = size_bytes(row["MaxRSS"])
    return StepUsage(
        job_id=job_id,
        step=step,
        name="",
        state="RUNNING",
        exit_code="",
        elapsed_s=None,
        task_count=tasks,
        cpu_used_s=None if tasks is None or cpu_s is None else tasks * cpu_s,
        max_rss_bytes=max_rss_bytes,
        gpu_util_sum_ratio=util_ratio,
        gpu_mem_bytes=gpu_mem,
        energy_j=size_bytes(row["ConsumedEnergyRaw"]) or None,
        mem_used_bytes=mem_used(size_bytes(tres_item(usage, "mem")), max_rss_bytes, tasks),
    )


def new_delimiter() -> str:
    """Characters that no job's name holds, because they cannot be guessed."""
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
            user: Login name; empty: the user whom the command runs as.
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
            CommandFailedError: there was no answer of use; sstat reports only one's own jobs.
        """
        if not is_job_id(job_id):
            raise CommandFailedError(
                SourceError("sstat", f"{plain(job_id)!r} is not a job id", "see squeue")
            )
        words = (
            "sstat",
            "--allsteps",
            "--parsable",
            "--noconvert",
            f"--format={','.join(USE_FIELDS)}",
            f"--jobs={job_id}",
        )
        printed, complaints = self._commands.ask(words, "sstat")
        found = parse_use(printed)
        if found is None:
            raise CommandFailedError(failures.garbage("sstat", "steps", printed))
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
            "--duplicates",
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
        if not re.match(USER_NAME, self._user):
            raise CommandFailedError(
                SourceError("sacct", f"{plain(self._user)!r} is not a login name", "check --user")
            )
        return (f"--user={self._user}",)
