"""Slurm's queue as its commands tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.sources.slurm import failures
from gpumon.sources.slurm.commands import SlurmCommands
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.jobs_text import parse_jobs
from gpumon.sources.slurm.nodes_text import parse_nodes
from gpumon.sources.slurm.rounds import QueueRounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.frame import SourceError
    from gpumon.sources.slurm.jobs_text import JobList
    from gpumon.sources.slurm.nodes_text import NodeList
    from gpumon.sources.source import Clock


class SlurmQueue(QueueRounds):
    """Reports the jobs and nodes that `scontrol show` lists, here or behind a hop."""

    def __init__(
        self,
        url: str = "slurm",
        *,
        commands: SlurmCommands | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(url, clock=clock, environ=environ)
        self._commands = commands or SlurmCommands(clock=self._clock, environ=self._environ)

    def available(self) -> bool:
        """Whether Slurm's commands are on the path here; says nothing of whether they answer."""
        return self._commands.available()

    def _break_off(self) -> None:
        self._commands.close()

    def _ask_jobs(self) -> tuple[SourceError, ...]:
        text = self._commands.show("job")
        found = parse_jobs(text)
        remarks = _remarks("job", len(found.jobs), found, text)
        self._keep_jobs(found.jobs)
        return remarks

    def _ask_nodes(self) -> tuple[SourceError, ...]:
        text = self._commands.show("node")
        found = parse_nodes(text)
        remarks = _remarks("node", len(found.nodes), found, text)
        if self._commands.is_local:
            return remarks + self._keep_nodes(found.nodes, is_local=True)
        try:
            far_gres_conf = self._commands.far_gres_conf()
        except CommandFailedError as failed:
            remarks += (failed.error,)
            far_gres_conf = ""
        return remarks + self._keep_nodes(found.nodes, is_local=False, far_gres_conf=far_gres_conf)


def _remarks(
    what: str, count: int, found: JobList | NodeList, text: str
) -> tuple[SourceError, ...]:
    """What is to be said about an answer of which `count` records were read.

    Raises:
        CommandFailedError: not one record of it could be read, and it doesn't say there are none.
    """
    command, things, total = f"scontrol show {what}", f"{what}s", count + found.unreadable
    if not count and (found.unreadable or not _says_none(text, found.announced)):
        raise CommandFailedError(failures.garbage(command, things, text))
    remarks: list[SourceError] = []
    if found.unreadable:
        remarks.append(failures.unread(command, things, found.unreadable, total))
    if found.announced is not None and found.announced != total:
        remarks.append(failures.miscounted(command, things, found.announced, total))
    return tuple(remarks)


def _says_none(text: str, announced: int | None) -> bool:
    """Whether an answer without records says that there are none."""
    return not text.strip() or announced == 0 or "in the system" in text
