"""Slurm's queue as slurmrestd tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.sources.slurm import cluster_name, failures, rest_failures
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.jobs_json import read_jobs
from gpumon.sources.slurm.json_values import records, whole
from gpumon.sources.slurm.nodes_json import read_nodes
from gpumon.sources.slurm.rest import RestClient
from gpumon.sources.slurm.rounds import QueueRounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.frame import SourceError
    from gpumon.sources.slurm.address import RestAddress
    from gpumon.sources.slurm.jobs_text import JobList
    from gpumon.sources.slurm.nodes_text import NodeList
    from gpumon.sources.source import Clock


class RestQueue(QueueRounds):
    """Reports the jobs and nodes that slurmrestd lists."""

    def __init__(
        self,
        url: str,
        address: RestAddress,
        *,
        client: RestClient | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(url, clock=clock, environ=environ)
        self._cluster = ""
        self._client = client or RestClient(address, clock=self._clock, environ=self._environ)
        self._jobs_told: int | None = None
        self._nodes_told: int | None = None
        self._remarked: dict[str, tuple[SourceError, ...]] = {}

    def _break_off(self) -> None:
        self._client.close()

    def _ask_jobs(self) -> tuple[SourceError, ...]:
        answer = self._client.get("jobs", None if self._jobs is None else self._jobs_told)
        if answer is None:
            self._keep_jobs(self._jobs or ())
            return self._remarked["jobs"]
        found = read_jobs(records(answer, "jobs") or [])
        self._remarked["jobs"] = _remarks("jobs", answer, found, len(found.jobs))
        self._jobs_told = _told_at(answer)
        self._cluster = cluster_name.of_answer(answer) or self._cluster
        self._keep_jobs(found.jobs)
        return self._remarked["jobs"]

    def _ask_nodes(self) -> tuple[SourceError, ...]:
        answer = self._client.get("nodes", self._nodes_told)
        if answer is None:
            return self._remarked["nodes"] + self._keep_nodes(
                self._nodes, is_local=self._is_local()
            )
        found = read_nodes(records(answer, "nodes") or [])
        self._remarked["nodes"] = _remarks("nodes", answer, found, len(found.nodes))
        self._nodes_told = _told_at(answer)
        self._cluster = cluster_name.of_answer(answer) or self._cluster
        notes = self._keep_nodes(found.nodes, is_local=self._is_local())
        return self._remarked["nodes"] + notes

    def _is_local(self) -> bool:
        """Whether this machine's gres.conf is about the cluster that answers.

        An address cannot tell: it may be a tunnel, and names such as gpu01 are in many clusters.
        """
        here = cluster_name.of_this_machine(self._environ)
        return bool(here) and here == self._cluster


def _told_at(answer: Mapping[str, Any]) -> int | None:
    """The controller's time of an answer; None before v0.0.40, which does not tell it.

    Our own clock is no substitute: where it is fast, changes would go unseen.
    """
    return whole(answer.get("last_update")) or None


def _remarks(
    what: str, answer: Mapping[str, Any], found: JobList | NodeList, count: int
) -> tuple[SourceError, ...]:
    """What is to be said about an answer of which `count` records were read.

    Raises:
        CommandFailedError: there were records, but not one of them could be read.
    """
    said = rest_failures.remarks(what, answer)
    if not found.unreadable:
        return said
    unread = failures.unread(
        rest_failures.where(what), what, found.unreadable, count + found.unreadable
    )
    if not count:
        raise CommandFailedError(unread)
    return (*said, unread)
