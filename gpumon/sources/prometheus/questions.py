"""What a server is asked about GPUs, and one poll as the answers to it.

Which metrics there are is asked, not assumed. Each one is asked for once, added up by the server to
one series for each GPU or instance, all at the same instant: a moment ago, so that every page that
was read by then has been written down whole.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.sources.exporters.gpu_labels import LABELS, label_of
from gpumon.sources.exporters.gpu_names import INFO, KNOWN, NVML_PREFIX, SMI, SMI_PREFIX
from gpumon.sources.exporters.host_names import PARTS as HOST_PARTS
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.hosts import MATCHED
from gpumon.sources.prometheus.known import Column, Labels, host_in, with_job
from gpumon.sources.prometheus.rules import ALL, LATE_S, PARTS, PREFIX, RECORDED, SAMPLED_AT
from gpumon.sources.prometheus.sample_interval import SampleInterval
from gpumon.sources.prometheus.unanswered import RAISE, Unanswered, of_question

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence, Set

    from gpumon.sources.prometheus.client import Client
    from gpumon.sources.prometheus.known import Key, Known
    from gpumon.sources.prometheus.response import Answer

SETTLED_S: Final = 2.0
"""A page is written down within so much of the time that its samples bear: dcgm-exporter serves
what it has gathered before (our choice). Where there is a sample oftener than that, within the time
between two of them: a server ends a scrape that lasts longer (`scrape_timeout`)."""

NAMED_EVERY_S: Final = 300.0
"""Which metrics there are is asked so often: what exporters report changes seldom (our choice)."""

NAMED_BACK_S: Final = 600.0
"""Metrics count that were there in this time."""

MOST_IDENTIFYING: Final = 4
"""Metrics by whose labels and times GPUs are known; one is enough where all exporters are alike."""

MANY_GPUS: Final = 8192
"""Of more GPUs, where rules are recorded, all metrics are asked for only of nodes that are
watched closer: what all others show is recorded (our choice)."""

MOST_NEAR: Final = 256
"""Nodes of which a job is open, so that all metrics are asked for: their names are one question,
and an address has a length."""

JOB_ID: Final = f"{NVML_PREFIX}jobId"
"""Princeton's nvidia_gpu_prometheus_exporter reports a GPU's job as this value."""

_RAISE_OR_RECORD: Final = f"{RAISE}, or have it record rules: gpumon config rules"

_OURS: Final = f"DCGM_FI_.+|{PREFIX}.+|{SMI_PREFIX}.+|{NVML_PREFIX}.+|{MATCHED}"
_ADDRESS: Final = "instance"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")


class Seen(NamedTuple):
    """One poll of everything that a server holds of GPUs."""

    asked_at: float
    """Unix time of the poll, on the server's clock."""
    known: Mapping[Key, Known]
    values: Mapping[str, Column]
    """By name of the metric."""
    interval_s: float | None
    """Between two samples; None: there are not two yet."""
    remarks: tuple[tuple[str, str], ...]
    """What is odd, each with a way out."""
    at: float = 0.0
    """The instant that all was asked about, Unix time."""
    late_s: float = 0.0
    """By so much longer than elsewhere a sample may be of the present: it comes from rules."""


class Questions:
    """Polls a server again and again; remembers which metrics there are."""

    def __init__(self, client: Client) -> None:
        """Nothing has been asked."""
        self._client = client
        self._names: tuple[str, ...] = ()
        self._host_names: frozenset[str] = frozenset()
        self._has_jobs = False
        self._has_boards = False
        """Whether nvidia_gpu_exporter reports names of boards, and which of its GPUs is which."""
        self._named_at = float("-inf")
        self._recorded: set[str] = set()
        """Metrics that rules of ours record."""
        self._is_large = False
        """Whether they do so of more GPUs than all is asked about."""
        self._known: Mapping[Key, Known] = {}
        """GPUs and instances of the last poll."""
        self._identifying: list[str] = []
        self._interval = SampleInterval(client, self._noted)
        self._settled_s = SETTLED_S
        """How long ago the instant is that is asked about."""
        self._labels = Labels()
        self._warnings: dict[str, None] = {}
        self._left_out = 0
        self._unanswered = Unanswered()
        """Metrics of the last poll that the server gives no answer about."""
        self._timeless: FetchError | None = None
        """Why the last poll has no times of samples; None: it has."""

    @property
    def identifying(self) -> tuple[str, ...]:
        """Metrics whose samples' times count."""
        return tuple(self._identifying) or self._names[:1]

    @property
    def host_names(self) -> frozenset[str]:
        """Metrics of hosts."""
        return self._host_names

    async def poll(self, near: Sequence[str] = ()) -> Seen:
        """Poll once.

        Args:
            near: Nodes that are watched closer.

        Raises:
            FetchError: There is nothing to see; its message has the reason.
        """
        self._warnings, self._left_out, self._unanswered = {}, 0, Unanswered()
        self._timeless = None
        self._labels.begin()
        self._client.renew()
        now = response.instant(await self._client.ask("query", {"query": "time()", "nocache": "1"}))
        if not 0.0 <= now - self._named_at < NAMED_EVERY_S or not self._names:
            await self._ask_names(now)
        at = now - self._settled_s
        values = await self._values(at, self._hosts(near))
        known, nameless = await self._heard(at, values)
        self._known = known
        metric = SAMPLED_AT if self._recorded else self.identifying[0]
        await self._interval.learn(metric, known, at, has_times=self._timeless is None)
        self._settled_s = min(SETTLED_S, self._interval.s or SETTLED_S)
        return Seen(
            asked_at=now,
            known=known,
            values=values,
            interval_s=self._interval.s,
            remarks=self._remarks(nameless),
            at=at,
            late_s=LATE_S if self._recorded else 0.0,
        )

    async def _ask_names(self, now: float) -> None:
        params = {
            "match[]": f'{{__name__=~"{_OURS}"}}',
            "start": f"{now - NAMED_BACK_S:.3f}",
            "end": f"{now:.3f}",
        }
        answer = self._noted(await self._client.ask("label/__name__/values", params))
        found = set(response.names(answer))
        self._host_names = frozenset(found & HOST_PARTS.keys())
        self._has_jobs, self._has_boards = JOB_ID in found, INFO in found
        recorded = {name for name, record in RECORDED.items() if record in found}
        self._recorded = recorded if SAMPLED_AT in found else set()
        self._is_large = False
        if self._recorded:
            self._is_large = await self._is_beyond(MANY_GPUS, now)
        self._names = tuple(name for name in KNOWN if name in found or name in self._recorded)
        if not self._names:
            seen = sum(name.startswith("DCGM_FI_") for name in found)
            message = (
                f"none of its {seen:,} metrics of DCGM is one that gpumon knows"
                if seen
                else "holds no metric of DCGM"
            )
            hint = "have it read the pages of dcgm-exporter: DCGM_FI_…"
            # Two short questions cost little, and a server that has just begun will have some soon.
            raise FetchError(message, hint, is_refused=True)
        self._named_at = now
        self._identifying = [name for name in self._identifying if name in found]
        self._interval.forget()

    async def _is_beyond(self, most: int, now: float) -> bool:
        """Whether more GPUs are recorded; where they are too many to be counted, too."""
        try:
            question = response.at_instant(f"count({SAMPLED_AT})", now)
            answer = self._noted(await self._client.ask("query", question))
        except FetchError as error:
            of_question(error)
            return True
        return any(row.value > most for row in response.vector(answer).rows)

    def _hosts(self, near: Sequence[str]) -> str:
        """What selects the nodes that are watched closer, by any name of the label."""
        named = set(near)
        hosts: dict[str, dict[str, None]] = {}
        for one in self._known.values() if named else ():
            host = label_of(one.labels, "host") or ""
            if {host, host.partition(".")[0]} & named and _HOST.fullmatch(host):
                hosts.setdefault(_label_with(host, one.labels), {})[host] = None
        if not hosts:
            return ""
        name = max(hosts, key=lambda name: len(hosts[name]))
        some = "|".join([re.escape(host) for host in hosts[name]][:MOST_NEAR])
        if name == _ADDRESS:
            some = f"({some})(:[0-9]+)?"
        # Within quotes a backslash is written twice.
        return f'{{{name}=~"{some}"}}'.replace("\\", "\\\\")

    async def _values(self, at: float, near: str) -> dict[str, Column]:
        names = self._names
        if self._is_large:
            # What is not recorded is asked of those alone that are watched closer.
            names = tuple(name for name in names if near or name in self._recorded)
        else:
            near = ""
        found = await _all([self._column(name, at, near) for name in names])
        self._unanswered.refuse(len(names))
        # What has no values cannot be asked either when they were sampled.
        self._identifying = [one for one in self._identifying if one not in self._unanswered]
        # An empty one is no error: nothing has reported it of late.
        return dict(zip(names, found, strict=True))

    async def _column(self, name: str, at: float, near: str) -> Column:
        """The values of one metric; none where the server gives no answer about this one."""
        try:
            return await self._answered(name, at, near)
        except FetchError as error:
            self._unanswered.take(name, error)
            return Column({}, ())

    async def _answered(self, name: str, at: float, near: str) -> Column:
        """The values of one metric; the rows themselves are let go at once."""
        by = ",".join(PARTS)
        live = f"max by ({by}) ({name}{near})"
        if name not in self._recorded:
            return await self._queried(live, at)
        # A sum has no name of its own, so that all have the same labels.
        found = await self._queried(f"{RECORDED[name]} + 0", at)
        # Rules may have ended since they were found.
        return found if found.values else await self._queried(f"max by ({by}) ({name})", at)

    async def _queried(self, question: str, at: float) -> Column:
        column, left_out = self._labels.column(await self._instant(question, at))
        self._left_out += left_out
        return column

    async def _instant(self, question: str, at: float) -> Answer:
        """The answer about one instant."""
        params = response.at_instant(question, at)
        return self._noted(await self._client.ask("query", params, self._labels.orders))

    async def _heard(self, at: float, values: Mapping[str, Column]) -> tuple[dict[Key, Known], int]:
        """Every GPU that has values, and the number of series that name none."""
        known: dict[Key, Known] = {}
        nameless = 0
        orders = {id(column.rows): column.rows for column in values.values()}
        wanted: set[Key] = set().union(*orders.values())
        recorded = 1 if self._recorded else 0
        for turn in range(MOST_IDENTIFYING):
            rest = wanted - known.keys()
            if turn < recorded:
                try:
                    answer, sampled_at = await self._instant(f"{SAMPLED_AT} + 0", at), None
                except FetchError as error:
                    # Each metric has the same, with more work for the server.
                    of_question(error)
                    continue
            else:
                if recorded and not rest:
                    break
                name = self._identifying_metric(turn - recorded, rest, values)
                if name is None:
                    break
                answer, sampled_at = await self._sampled(name, at)
            bare, left_out = self._labels.hear(answer, known, wanted, sampled_at)
            nameless += bare
            self._left_out += left_out
        self._labels.forget(wanted)
        if self._has_jobs:
            await self._name_jobs(known, at)
        return known, nameless

    async def _sampled(self, name: str, at: float) -> tuple[Answer, float | None]:
        """The labels of all with a metric, and when each was sampled, or all in place of it.

        To look up when a sample was taken is more to a server than its value, which it has given.
        """
        by = ",".join(ALL)
        try:
            return await self._instant(f"max by ({by}) (timestamp({name}))", at), None
        except FetchError as error:
            self._timeless = of_question(error)
        return await self._instant(f"max by ({by}) ({name})", at), at

    async def _name_jobs(self, known: dict[Key, Known], at: float) -> None:
        """Add the jobs that values name."""
        jobs = await self._column(JOB_ID, at, "")
        for key in known.keys() & jobs.rows.keys():
            one, number = known[key], jobs.values[jobs.rows[key]]
            known[key] = one._replace(others=with_job(one.labels, one.others, number))

    def _identifying_metric(
        self, turn: int, rest: Set[Key], values: Mapping[str, Column]
    ) -> str | None:
        """The metric that a turn asks when GPUs were heard; None: no further one knows."""
        if turn >= len(self._identifying):
            # Most metrics are of the same GPUs.
            rows = {id(column.rows): column.rows for column in values.values()}
            of_rows = {one: len(rest & some.keys()) for one, some in rows.items()}
            counts = {name: of_rows[id(column.rows)] for name, column in values.items()}
            best = max(counts, key=lambda name: counts[name])
            if not counts[best]:
                return None
            is_bare = best in SMI and self._has_boards and INFO not in self._identifying
            self._identifying.append(INFO if is_bare else best)
        return self._identifying[turn]

    def _noted(self, answer: Answer) -> Answer:
        """The answer, once its warnings are noted."""
        self._warnings |= dict.fromkeys(answer.warnings)
        return answer

    def _remarks(self, nameless: int) -> tuple[tuple[str, str], ...]:
        found = []
        warnings = list(self._warnings)
        if warnings:
            more = f" (and {len(warnings) - 1:,} more)" if len(warnings) > 1 else ""
            text = f"warns, and some of its values may be missing: {warnings[0]}{more}"
            found.append((text, "look at the stores behind it"))
        if unanswered := self._unanswered.remark(_RAISE_OR_RECORD):
            found.append(unanswered)
        if error := self._timeless:
            text = "does not say how old its values are, each may be 5 min old"
            found.append((f"{text}: {error.message}", _RAISE_OR_RECORD))
        if remark := self._interval.remark:
            found.append(remark)
        if self._left_out:
            text = f"{self._left_out:,} series of its answers cannot be read and are left out"
            found.append((text, "check which program listens there, and its version"))
        if nameless:
            text = f"{nameless:,} series name no GPU by its UUID and are left out"
            found.append((text, "see which label names GPUs there: UUID is dcgm-exporter's"))
        return tuple(found)


def _label_with(host: str, labels: Mapping[str, str]) -> str:
    """The label by which the server knows a node, which need not be the one that pages have."""
    if host_in(labels.get(_ADDRESS, "")) == host:
        return _ADDRESS
    names = (*LABELS["node"], *LABELS["host"])
    return next(name for name in names if labels.get(name) == host)


async def _all(asked: Sequence[Coroutine[Any, Any, Column]]) -> list[Column]:
    """All answers; where one fails the others are not waited for."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in asked]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]
