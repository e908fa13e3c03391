"""Slurm's queue as its commands report it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.fault import SourceError
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.answer_cache import Answer, SharedAnswers
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json import cluster_name
from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.json.values import NotAnObjectError, parse_object, records
from gpumon.sources.slurm.poll.poll_loop import COMMAND_PERIODS_S, CallResult, QueueRounds
from gpumon.sources.slurm.rest import failures as rest_failures
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from gpumon.sources.slurm.text.site import parse_partitions, parse_reservations
from gpumon.sources.slurm.text.topology import parse_topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.cluster import SlurmNode
    from gpumon.sources.slurm.text.jobs import JobList
    from gpumon.sources.slurm.text.nodes import NodeList
    from gpumon.sources.slurm.text.site import PartitionList, ReservationList
    from gpumon.sources.slurm.text.topology import Topology
    from gpumon.sources.source import Clock

COMMANDS: Final = {
    "job": (
        ("scontrol", "--all", "--details", "show", "job", "--json"),
        ("squeue", "--all", "--json"),
    ),
    "node": (("scontrol", "--all", "show", "node", "--json"), ("sinfo", "--all", "--json")),
}
"""What is asked for each kind where the commands' text can't be read, in order, until one answers.

Text is what we ask for: every version prints it, and the JSON of the same jobs is three to twelve
times as long (22.05 and 24.11). `scontrol show --json` is there since 23.02. Older ones have
`squeue --json`, and `sinfo --json`, which lists nodes as slurmrestd does, later in groups.
"""


def records_of(text: str, kind: str, command: str) -> list[Any]:
    """Records of an answer, whatever a login shell printed ahead of it.

    Raises:
        CommandFailedError: it holds none, and is no empty list either: 22.05 ends with status 0 and
            an empty list where its controller is down, and says so in `errors`.
    """
    what = f"{kind}s"
    try:
        answer = parse_object(text[max(0, text.find("{")) :].encode("utf-8", "replace"))
    except NotAnObjectError:
        raise CommandFailedError(failures.garbage(command, what, text)) from None
    found, errors = records(answer, what), records(answer, "errors") or []
    if found or (found == [] and not errors):
        return found
    if not errors:
        raise CommandFailedError(failures.garbage(command, what, text))
    description = rest_failures.described([one for one in errors if isinstance(one, dict)])
    error = failures.recognised(command, description)
    raise CommandFailedError(
        error or SourceError(command, f"answered with an error: {description}", "`scontrol ping`")
    )


class SlurmQueue(QueueRounds):
    """Reports what `scontrol show` lists, here or behind a hop."""

    def __init__(
        self,
        url: str = "slurm",
        *,
        commands: SlurmCommands | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        shared: SharedAnswers | None = None,
    ) -> None:
        super().__init__(url, clock=clock, environ=environ, periods_s=COMMAND_PERIODS_S)
        self._commands = commands or SlurmCommands(clock=self._clock, environ=self._environ)
        self._by_json: dict[str, SourceError] = {}
        """What is wrong with the text of the kinds that are asked for by JSON."""
        self._shared = shared or SharedAnswers(None)

    def available(self) -> bool:
        """Whether Slurm's commands are on the path here; not whether they answer."""
        return self._commands.available()

    def _break_off(self) -> None:
        self._commands.close()

    def _ask(self, kind: str) -> CallResult:
        """Ask by text; where that can't be read, by JSON from then on, until that fails, too."""
        trouble = self._by_json.pop(kind, None)
        if trouble is None:
            try:
                return self._ask_text(kind)
            except CommandFailedError as failed:
                if kind not in COMMANDS or not failures.is_unreadable(failed.error):
                    raise
                trouble = failed.error
        found, command, at = self._json_records(kind, trouble)
        if kind == "job":
            jobs = read_jobs(found)
            unreadable, count = jobs.unreadable, len(jobs.jobs)
            self._store_jobs(jobs.jobs, at)
            remarks = failures.unplaced(command, jobs.unplaced, count)
        else:
            nodes = read_nodes(found)
            unreadable, count = nodes.unreadable, len(nodes.nodes)
            remarks = self._store_listed(nodes.nodes, at)
        if unreadable:
            unread = failures.unread(command, f"{kind}s", unreadable, unreadable + count)
            remarks = (unread, *remarks)
        self._by_json[kind] = trouble
        return CallResult((failures.read_otherwise(trouble, command), *remarks), at)

    def _json_records(self, kind: str, trouble: SourceError) -> tuple[list[Any], str, float]:
        """Records of the first of the commands that has some, its name, and when it answered.

        Raises:
            CommandFailedError: none has; the trouble is that of the text.
        """
        for words in COMMANDS[kind]:
            command = " ".join(words)
            try:
                text = self._commands.show_json(words)
                return records_of(text, kind, command), command, self._clock.now()
            except CommandFailedError as failed:
                if failures.is_silence(failed.error):
                    raise
        raise CommandFailedError(trouble)

    def _ask_text(self, kind: str) -> CallResult:
        answer = self._answer(kind)
        if kind == "job":
            jobs = parse_jobs(answer.text)
            remarks = _remarks(kind, len(jobs.jobs), jobs, answer.text)
            remarks += failures.unplaced("scontrol show job", jobs.unplaced, len(jobs.jobs))
            self._store_jobs(jobs.jobs, answer.at)
        elif kind == "node":
            nodes = parse_nodes(answer.text)
            remarks = _remarks(kind, len(nodes.nodes), nodes, answer.text)
            remarks += self._store_listed(nodes.nodes, answer.at)
        elif kind == "partition":
            partitions = parse_partitions(answer.text)
            remarks = _remarks(kind, len(partitions.partitions), partitions, answer.text)
            self._partitions = partitions.partitions
        elif kind == "topology":
            topology = parse_topology(answer.text)
            remarks = _unread(kind, topology)
            self._store_places(topology.places)
        else:
            reservations = parse_reservations(answer.text)
            remarks = _remarks(kind, len(reservations.reservations), reservations, answer.text)
            self._reservations = reservations.reservations
        return CallResult(remarks, answer.at, answer.took_s)

    def _answer(self, kind: str) -> Answer:
        """What scontrol prints, asked now or by another gpumon of this user a moment ago."""
        show = self._commands.topology if kind == "topology" else partial(self._commands.show, kind)
        longest_s = self._longest_age_s(kind, COMMAND_PERIODS_S[kind])
        return self._shared.ask(kind, longest_s, show, self._clock, self._stop)

    def _store_listed(self, nodes: tuple[SlurmNode, ...], at: float) -> tuple[SourceError, ...]:
        """Store nodes with the files of their gres.conf; returns what is to be remarked."""
        asked = self._commands.cluster
        if self._commands.is_local:
            here = cluster_name.of_this_machine(self._environ)
            self.cluster = asked or here
            return self._store_nodes(nodes, at, is_local=not asked or asked == here)
        try:
            conf = self._shared.ask(
                "gres.conf",
                COMMAND_PERIODS_S["node"],
                self._commands.far_gres_conf,
                self._clock,
                self._stop,
            ).text
        except CommandFailedError as failed:
            return (failed.error, *self._store_nodes(nodes, at, is_local=False))
        there = cluster_name.ahead_of(conf)
        self.cluster = asked or there
        is_theirs = not asked or asked == there
        return self._store_nodes(nodes, at, is_local=False, far_gres_conf=conf if is_theirs else "")


def _remarks(
    what: str,
    count: int,
    found: JobList | NodeList | PartitionList | ReservationList,
    text: str,
) -> tuple[SourceError, ...]:
    """What is to be remarked about an answer of which `count` records were read.

    Raises:
        CommandFailedError: not one record of it could be read, and it doesn't say there are none.
    """
    command, things, total = f"scontrol show {what}", f"{what}s", count + found.unreadable
    if not count and (found.unreadable or not _is_empty_list(text, found.announced)):
        raise CommandFailedError(failures.garbage(command, things, text))
    remarks: list[SourceError] = []
    if found.unreadable:
        remarks.append(failures.unread(command, things, found.unreadable, total))
    if found.announced is not None and found.announced != total:
        remarks.append(failures.miscounted(command, things, found.announced, total))
    return tuple(remarks)


def _unread(what: str, found: Topology) -> tuple[SourceError, ...]:
    """What is to be remarked about a topology; one without nodes is none, and no trouble."""
    if not found.unreadable:
        return ()
    command = f"scontrol show {what}"
    return (failures.unread(command, "switches and blocks", found.unreadable, found.total),)


def _is_empty_list(text: str, announced: int | None) -> bool:
    """Whether an answer without records says that there are none."""
    return not text.strip() or announced == 0 or "in the system" in text
