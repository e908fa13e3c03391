"""Slurm's queue as slurmrestd tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.sources.slurm import cluster_name, failures, rest_failures
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.jobs_json import read_jobs
from gpumon.sources.slurm.json_values import records, whole
from gpumon.sources.slurm.nodes_json import read_nodes
from gpumon.sources.slurm.rest import RestClient
from gpumon.sources.slurm.rounds import QueueRounds, Told
from gpumon.sources.slurm.site_json import read_partitions, read_reservations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.frame import SourceError
    from gpumon.sources.slurm.address import RestAddress
    from gpumon.sources.source import Clock


class RestQueue(QueueRounds):
    """Reports what slurmrestd lists."""

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
        self._told: dict[str, int | None] = {}
        self._remarked: dict[str, tuple[SourceError, ...]] = {}

    def _break_off(self) -> None:
        self._client.close()

    def _ask(self, kind: str) -> Told:
        what = f"{kind}s"
        newer_than = self._told.get(kind)
        if kind == "job" and self._jobs is None:
            newer_than = None
        answer = self._client.get(what, newer_than)
        at = self._clock.now()
        if answer is None:
            if kind == "job":
                self._keep_jobs(self._jobs or (), at)
            elif kind == "node":
                notes = self._keep_nodes(self._nodes, at, is_local=self._is_local())
                return Told(self._remarked[kind] + notes, at)
            return Told(self._remarked[kind], at)
        self._cluster = cluster_name.of_answer(answer) or self._cluster
        listed = records(answer, what) or []
        notes = self._keep(kind, listed, at, answer)
        self._told[kind] = _told_at(answer)
        return Told(self._remarked[kind] + notes, at)

    def _keep(
        self, kind: str, listed: list[Any], at: float, answer: dict[str, Any]
    ) -> tuple[SourceError, ...]:
        """Keep the records of an answer, and what is to be remarked about it; notes about it."""
        if kind == "job":
            jobs = read_jobs(listed)
            self._remarked[kind] = _remarks("jobs", answer, jobs.unreadable, len(listed))
            self._keep_jobs(jobs.jobs, at)
        elif kind == "node":
            nodes = read_nodes(listed)
            self._remarked[kind] = _remarks("nodes", answer, nodes.unreadable, len(listed))
            return self._keep_nodes(nodes.nodes, at, is_local=self._is_local())
        elif kind == "partition":
            partitions = read_partitions(listed)
            found = _remarks("partitions", answer, partitions.unreadable, len(listed))
            self._remarked[kind], self._partitions = found, partitions.partitions
        else:
            reservations = read_reservations(listed, at)
            found = _remarks("reservations", answer, reservations.unreadable, len(listed))
            self._remarked[kind], self._reservations = found, reservations.reservations
        return ()

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
    what: str, answer: Mapping[str, Any], unreadable: int, total: int
) -> tuple[SourceError, ...]:
    """What is to be said about an answer of `total` records.

    Raises:
        CommandFailedError: there were records, but not one of them could be read.
    """
    said = rest_failures.remarks(what, answer)
    if not unreadable:
        return said
    unread = failures.unread(rest_failures.where(what), what, unreadable, total)
    if unreadable == total:
        raise CommandFailedError(unread)
    return (*said, unread)
