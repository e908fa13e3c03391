"""Slurm's queue as slurmrestd reports it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.answer_cache import SharedAnswers
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.commands.schedule import LONGEST_RETRY_S
from gpumon.sources.slurm.json import cluster_name
from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.json.site import as_of, read_partitions, read_reservations
from gpumon.sources.slurm.json.values import NotAnObjectError, parse_object, records, whole
from gpumon.sources.slurm.poll.poll_loop import PERIODS_S, CallResult, QueueRounds
from gpumon.sources.slurm.rest import failures as rest_failures
from gpumon.sources.slurm.rest.client import RestClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpumon.model.fault import SourceError
    from gpumon.sources.rest_address import RestAddress
    from gpumon.sources.slurm.commands.schedule import Schedule
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
        folder: Path | None = None,
    ) -> None:
        """Report what is listed at this address.

        Args:
            url: Target, the origin of every frame.
            address: Where slurmrestd listens.
            client: Asks; of no other thread.
            clock: Time, real or injected.
            environ: Where the token may be.
            folder: Where this user's gpumons share answers; None: nowhere.
        """
        super().__init__(url, clock=clock, environ=environ)
        self._client = client or RestClient(
            address, clock=self._clock, environ=self._environ, folder=folder
        )
        self._folder = folder
        self._whose = ""
        """Whose answers the records at hand are; nothing is newer than another's."""
        self._since: dict[str, float] = {}
        """Of each kind at hand, since when that text has been the answer."""
        self._updated_at: dict[str, int | None] = {}
        self._remarked: dict[str, tuple[SourceError, ...]] = {}

    def _break_off(self) -> None:
        self._client.close()

    def _call(self, kind: str, round_at: float, schedule: Schedule) -> None:
        super()._call(kind, round_at, schedule)
        if self._lacks_accounting(kind):
            # Else slurmdbd would be called gone for as long as partitions stay as they are.
            retry_at = self._clock.monotonic() + LONGEST_RETRY_S
            schedule.due_at = min(schedule.due_at, retry_at)

    def _ask(self, kind: str) -> CallResult:
        whose = self._client.identity()
        if whose != self._whose:
            self._whose = whose
            self._since.clear()
        if kind == "job" and self._jobs is None:
            # What was lost must be listed again, not only what has changed since.
            self._since.pop(kind, None)
        held = self._since.get(kind)
        own: list[dict[str, Any]] = []

        def call(unchanged_since: float | None) -> str | None:
            newer_than = None if unchanged_since is None else self._updated_at.get(kind)
            listed = self._client.fetch(f"{kind}s", newer_than)
            if listed is None:
                return None
            own.append(listed.answer)
            return listed.text

        period_s = self._longest_age_s(kind, PERIODS_S[kind])
        if self._lacks_accounting(kind):
            period_s = min(period_s, LONGEST_RETRY_S)
        shared = SharedAnswers(self._folder if whose else None, whose)
        found = shared.ask_newer(kind, period_s, held, call, self._clock, self._stop)
        if held is not None and found.since == held:
            return CallResult(self._store_unchanged(kind, found.at), found.at, found.took_s)
        answer = own[0] if own else self._read(kind, found.text)
        self.cluster = cluster_name.of_answer(answer) or self.cluster
        notes = self._store(kind, records(answer, f"{kind}s") or [], found.at, answer)
        self._updated_at[kind], self._since[kind] = _update_time(answer), found.since
        return CallResult(self._remarked[kind] + notes, found.at, found.took_s)

    def _lacks_accounting(self, kind: str) -> bool:
        """Whether the last answer complained that slurmdbd gives none."""
        return any(map(failures.is_about_accounting, self._errors.get(kind, ())))

    def _store_unchanged(self, kind: str, at: float) -> tuple[SourceError, ...]:
        """Store what is known as of a Unix time; returns what is to be remarked about it."""
        notes: tuple[SourceError, ...] = ()
        if kind == "job":
            self._store_jobs(self._jobs or (), at)
        elif kind == "node":
            notes = self._store_nodes(self._nodes, at, is_local=self._is_local())
        elif kind == "reservation":
            # One begins and ends without a change of its record.
            self._reservations = tuple(as_of(one, at) for one in self._reservations)
        return self._remarked[kind] + notes

    def _read(self, kind: str, shared: str) -> dict[str, Any]:
        """The answer that another gpumon of this user left.

        Raises:
            CommandFailedError: it is none, which must not pass for an empty list.
        """
        what, body = f"{kind}s", shared.encode()
        try:
            answer = parse_object(body)
        except NotAnObjectError:
            answer = {}
        if records(answer, what) is None:
            raise CommandFailedError(rest_failures.garbage(what, HTTPStatus.OK, body))
        return answer

    def _store(
        self, kind: str, listed: list[Any], at: float, answer: dict[str, Any]
    ) -> tuple[SourceError, ...]:
        """Store the records of an answer and the remarks about it; returns notes about it."""
        if kind == "job":
            jobs = read_jobs(listed)
            self._remarked[kind] = (
                *_remarks("jobs", answer, jobs.unreadable, len(listed)),
                *failures.unplaced(rest_failures.where("jobs"), jobs.unplaced, len(jobs.jobs)),
            )
            self._store_jobs(jobs.jobs, at)
        elif kind == "node":
            nodes = read_nodes(listed)
            self._remarked[kind] = _remarks("nodes", answer, nodes.unreadable, len(listed))
            return self._store_nodes(nodes.nodes, at, is_local=self._is_local())
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

        No address shows it: it may be a tunnel, and names such as gpu01 are in many clusters.
        """
        here = cluster_name.of_this_machine(self._environ)
        return bool(here) and here == self.cluster


def _update_time(answer: Mapping[str, Any]) -> int | None:
    """The controller's time of an answer; None before v0.0.40, which does not report it.

    Our own clock is no substitute: where it is fast, changes would go unseen.
    """
    return whole(answer.get("last_update")) or None


def _remarks(
    what: str, answer: Mapping[str, Any], unreadable: int, total: int
) -> tuple[SourceError, ...]:
    """What is to be remarked about an answer of `total` records.

    Raises:
        CommandFailedError: there were records, but not one of them could be read.
    """
    remarks = tuple(
        one
        for one in rest_failures.remarks(what, answer)
        # 24.11 warns so beside its partitions for ever; the accounting's own line reports it.
        if not failures.WITHOUT_ACCOUNTING.search(one.message)
    )
    if not unreadable:
        return remarks
    unread = failures.unread(rest_failures.where(what), what, unreadable, total)
    if unreadable == total:
        raise CommandFailedError(unread)
    return (*remarks, unread)
