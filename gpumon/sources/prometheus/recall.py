"""The time before a server was first asked, read once by range queries and in small pieces.

Its last hour is as fine as its samples are, what is older has a value every five minutes. A server
that answers no large question is asked smaller ones, and what it has answered counts.
"""

from __future__ import annotations

import asyncio
from array import array
from math import ceil, isfinite, isnan, nan
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from gpumon.model.staleness import stale_after_s
from gpumon.model.text import plain
from gpumon.sources.exporters.dcgm import FIRST_BLANK, with_labels
from gpumon.sources.exporters.gpu_labels import HOLDER_LABELS
from gpumon.sources.exporters.gpu_names import COUNTED, METRICS
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.host_past import HostColumns, HostPast, KnownHosts
from gpumon.sources.prometheus.hosts import question_of, times_of
from gpumon.sources.prometheus.known import Column, Known, harmless, key_of
from gpumon.sources.prometheus.nodes import Nodes, frames_of
from gpumon.sources.prometheus.questions import SETTLED_S, Seen
from gpumon.sources.prometheus.rules import ALL, PARTS
from gpumon.sources.prometheus.unanswered import RAISE, of_question
from gpumon.sources.source import PastFrames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpumon.model.records.block import Block
    from gpumon.sources.prometheus.client import Client
    from gpumon.sources.prometheus.host_past import Series
    from gpumon.sources.prometheus.known import Key
    from gpumon.sources.prometheus.nodes import NodeReading

K = TypeVar("K")

NO_HOSTS: Final = KnownHosts({}, {}, {}, {})

NEAR_S: Final = 3600.0
"""So far back every sample is wanted, as history stores every one."""

FAR_STEP_S: Final = 300.0
"""Distance of what is older, as history stores it."""

FINEST_S: Final = 5.0
"""No past is asked for finer: windows of the past are minutes long (our choice)."""

MOST_VALUES: Final = 4_000_000
"""Values of one past: some ten seconds of a core for both sides (measured: 2 to 3 µs each)."""

MOST_OF_HOSTS: Final = MOST_VALUES // 4
"""The same of hosts, each of which has some hundred values: of a hundred hosts a value each minute
of the last hour (our choice)."""

FINEST_OF_HOSTS_S: Final = 15.0
"""History stores what hosts show each ten seconds, and most sites read them more seldom."""

MOST_AT_ONCE: Final = 100_000
"""Values of one answer: 3 MB, decoded in less than 0.1 s, as another thread draws meanwhile."""

MOST_STEPS: Final = 10_000
"""Prometheus answers no question about more than 11,000 points of a series."""

FEWEST_STEPS: Final = 6
"""With fewer steps a past shows nothing that a minute of watching does not (our choice)."""

LONGEST_S: Final = 180.0
"""For a whole past; what has not come by then is left out."""

REST_PER_ANSWER: Final = 1.0
"""After each answer the server is left alone for so many times what it took."""

XIDS: Final = frozenset(
    name for name, one in {**METRICS, **COUNTED}.items() if one.field.key == "xid"
)
"""Metrics with the last Xid of each GPU."""

_LESS: Final = "?history=1h asks for less, ?history=0 for none"


class Stretch(NamedTuple):
    """Steps at one distance."""

    begin: float
    """Unix time of the first one, on the server's clock."""
    step_s: float
    steps: int


class StretchValues(NamedTuple):
    """What a server has answered about one stretch."""

    stretch: Stretch
    values: Mapping[str, Mapping[Key, array[float]]]
    """By metric and GPU one value a step, NaN where there is none."""
    sampled_at: Mapping[Key, array[float]]
    """Unix time of the sample behind each step likewise."""


class Recalled(NamedTuple):
    """What a server could answer about its past."""

    parts: Sequence[StretchValues]
    """The oldest first."""
    known: Mapping[Key, Known]
    interval_s: float
    ahead_s: float
    """By how much the server's clock is before our own."""
    failure: FetchError | None
    """Why the rest is missing; None: nothing is."""
    is_gap: bool = False
    """Whether it is only what was missed while the server did not answer."""
    hosts: HostPast | None = None
    """What there is of hosts; None: nothing."""
    lesser: tuple[str, FetchError] | None = None
    """What else is missing, and why."""

    @property
    def remark(self) -> tuple[str, str] | None:
        """What is missing and why, with a way out; None: nothing is."""
        if self.failure is None:
            return None if self.lesser is None else _lesser(*self.lesser)
        what = "has nothing older than an hour" if self.parts else "has no past"
        if self.is_gap:
            what = "has nothing of the time in which it was not read"
        return f"{what}: {self.failure.message}", _LESS

    def xids(self, seen: Seen) -> Iterator[tuple[Key, tuple[float, str, int]]]:
        """Xids that came meanwhile: GPU or instance; Unix time on our own clock, UUID, number.

        Args:
            seen: The poll after which the past was asked for: what came since its last step.
        """
        last: dict[Key, float] = {}
        for part in self.parts:
            for name in part.values.keys() & XIDS:
                for key, column in part.values[name].items():
                    times = part.sampled_at.get(key, ())
                    for at, value in zip(times, column, strict=False):
                        if not 0.0 <= value < FIRST_BLANK or isnan(at):
                            continue
                        if value and last.get(key, value) != value:
                            yield key, (at - self.ahead_s, key[0], int(value))
                        last[key] = value
        for name in seen.values.keys() & XIDS:
            for key, before in last.items():
                now, one = seen.values[name].get(key), seen.known.get(key)
                if now is None or one is None or now == before:
                    continue
                if 0.0 < now < FIRST_BLANK:
                    yield key, (one.sampled_at - self.ahead_s, key[0], int(now))
                    # Another exporter may have it by another name.
                    last[key] = now

    def steps(self, url: str) -> Iterator[PastFrames]:
        """Frames of every step as they would have come then, the oldest first."""
        nodes = Nodes()
        hosts = self.hosts.walk() if self.hosts else None
        limit_s = past_limit_s(self.interval_s)
        for part in self.parts:
            begin, step_s, steps = part.stretch
            for step in range(steps):
                at = begin + step * step_s
                known = {
                    key: self.known[key]._replace(sampled_at=times[step])
                    for key, times in part.sampled_at.items()
                    if at - times[step] <= limit_s
                }
                values = {name: _at(columns, step) for name, columns in part.values.items()}
                seen = Seen(
                    asked_at=at, known=known, values=values, interval_s=self.interval_s, remarks=()
                )
                now = at - self.ahead_s
                found, _ = nodes.read(seen, now, limit_s)
                if hosts is not None:
                    found = merged(found, hosts.at(at))
                yield PastFrames(now, step_s, frames_of(found, url, now, 0.0, limit_s))


def _lesser(what: str, error: FetchError) -> tuple[str, str]:
    return f"{what}: {error.message}", f"{RAISE} where it has one; {_LESS}"


def past_limit_s(interval_s: float) -> float:
    """Age from which on a sample of the past is not of its step."""
    return max(2.0 * interval_s, stale_after_s(0.0))


def merged(
    readings: Sequence[NodeReading], found: Mapping[str, Mapping[str, Block]]
) -> list[NodeReading]:
    """The reading of each node with the blocks of its host."""
    made = []
    for one in readings:
        blocks = {**one.reading.blocks, **(of_host := found.get(one.node, {}))}
        own = one.reading.blocks.get("node")
        if own is not None and "node" in of_host:
            blocks["node"] = with_labels(of_host["node"], own.labels)
        made.append(one._replace(reading=one.reading._replace(blocks=blocks)))
    return made


def _at(columns: Mapping[Key, array[float]], step: int) -> Column:
    """The values of one step, without those that are missing."""
    found = {key: column[step] for key, column in columns.items() if not isnan(column[step])}
    return Column({key: row for row, key in enumerate(found)}, [*found.values()])


def stretches(
    series: int,
    interval_s: float,
    until: float,
    back_s: float,
    fewest: int = FEWEST_STEPS,
    values: int = MOST_VALUES,
) -> tuple[Stretch, ...]:
    """What is asked about, the newest first; of a large fleet less, and that coarser.

    Args:
        series: Values of one step.
        interval_s: Between two samples.
        until: Unix time before which all of it lies.
        back_s: How far back it may reach.
        fewest: With fewer steps none of it is asked about.
        values: So many at most.
    """
    most = values // max(1, series)
    step_s = max(interval_s, FINEST_S)
    near_s = min(NEAR_S, back_s)
    while step_s < FAR_STEP_S and near_s / step_s > 0.75 * most:
        step_s = min(2.0 * step_s, FAR_STEP_S)
    step_s = min(step_s, FAR_STEP_S)
    near = ceil(near_s / step_s)
    border = until - near * step_s
    if back_s > NEAR_S:
        # Both begin where a coarse step does, so that no step comes twice.
        border = (until - near_s) // FAR_STEP_S * FAR_STEP_S
        near = int((until - border) / step_s)
    near = min(near, most)
    if near < fewest:
        return ()
    found = [Stretch(until - near * step_s if near == most else border, step_s, near)]
    far = min(int((back_s - near_s) / FAR_STEP_S), most - near)
    if far > 0 and near < most:
        found.append(Stretch(border - far * FAR_STEP_S, FAR_STEP_S, far))
    return tuple(found)


class Recall:
    """Asks one server for its past."""

    def __init__(
        self,
        client: Client,
        back_s: float,
        monotonic: Callable[[], float],
        *,
        is_gap: bool = False,
    ) -> None:
        """Ask through a client, for so many seconds back: all of it, or what was missed."""
        self._is_gap = is_gap
        self._client = client
        self._back_s = back_s
        self._monotonic = monotonic
        self._lesser: tuple[str, FetchError] | None = None

    async def past(
        self, seen: Seen, identifying: Sequence[str], now: float, hosts: KnownHosts = NO_HOSTS
    ) -> Recalled:
        """What the server has of the time before a poll; never raises for want of an answer.

        Args:
            seen: The poll: only metrics that it has are asked about.
            identifying: Metrics whose samples' times count.
            now: Unix time of the poll on our own clock.
            hosts: Those that are known.
        """
        self._lesser = None
        interval_s = seen.interval_s or FAR_STEP_S
        counts = {name: len(one.values) for name, one in seen.values.items() if one.values}
        series = sum(counts.values()) + sum(counts.get(name, 0) for name in identifying)
        limit = self._monotonic() + LONGEST_S
        found: list[StretchValues] = []
        failure = None
        fewest = 1 if self._is_gap else FEWEST_STEPS
        known = seen.known
        until = seen.asked_at - SETTLED_S
        try:
            pieces = stretches(series, interval_s, until, self._back_s, fewest)
            for number, one in enumerate(pieces):
                if not number:
                    known = {**await self._gone(identifying, until), **known}
                found.insert(0, await self._stretch(one, counts, known, identifying, limit))
        except FetchError as error:
            failure = error
        of_hosts = await self._hosts(hosts, interval_s, until, limit) if found else None
        # Who holds a GPU now need not have held it then.
        unheld = {
            key: Known(
                {name: text for name, text in one.labels.items() if name not in HOLDER_LABELS},
                one.sampled_at,
            )
            for key, one in known.items()
        }
        return Recalled(
            parts=found,
            known=unheld,
            interval_s=interval_s,
            ahead_s=seen.asked_at - now,
            failure=failure,
            is_gap=self._is_gap,
            hosts=of_hosts,
            lesser=self._lesser,
        )

    async def _hosts(
        self, known: KnownHosts, interval_s: float, until: float, limit: float
    ) -> HostPast | None:
        """What the server has of hosts, after all of GPUs; None: nothing."""
        series = sum(known.counts.values())
        if not (series and known.nodes):
            return None
        fewest = 1 if self._is_gap else FEWEST_STEPS
        finest_s = max(interval_s, FINEST_OF_HOSTS_S)
        found: list[HostColumns] = []
        try:
            for one in stretches(series, finest_s, until, self._back_s, fewest, MOST_OF_HOSTS):
                found.insert(0, await self._of_hosts(one, known, limit))
        except FetchError as error:
            what = "has nothing older of hosts" if found else "has no past of hosts"
            self._lesser = what, error
        return HostPast(known, found, past_limit_s(interval_s)) if found else None

    async def _of_hosts(self, stretch: Stretch, known: KnownHosts, limit: float) -> HostColumns:
        """What it has of one stretch; a metric whose past is too much is missing."""
        nodes = known.nodes

        def instance_of(labels: Mapping[str, str]) -> str | None:
            instance = plain(labels.get("instance", ""))
            return instance if instance in nodes else None

        def series_of(labels: Mapping[str, str]) -> Series | None:
            if instance_of(labels) is None:
                return None
            return tuple(sorted((plain(name), plain(text)) for name, text in labels.items()))

        most = min(MOST_STEPS, max(1, MOST_AT_ONCE // max(1, *known.counts.values())))
        pieces = _Pieces(self._client, stretch, most, limit, self._monotonic)
        sampled_at = {
            (instance, begin): times
            for begin, name in known.timing.items()
            for instance, times in (await pieces.columns(times_of(name), instance_of)).items()
        }
        values: dict[str, Mapping[Series, array[float]]] = {}
        for name in known.counts:
            try:
                values[name] = await pieces.columns(question_of(name), series_of)
            except FetchError as error:
                self._lesser = f"has no past of {name}", of_question(error)
        return HostColumns(*stretch, sampled_at, values)

    async def _gone(self, identifying: Sequence[str], at: float) -> dict[Key, Known]:
        """Every GPU of the last hour: that one has vanished shows only who knows that it was."""
        found: dict[Key, Known] = {}
        for name in identifying:
            question = f"max by ({','.join(ALL)}) (last_over_time({name}[{NEAR_S:.0f}s]))"
            params = {"query": question, "time": f"{at:.3f}", "nocache": "1"}
            try:
                answer = await self._client.ask("query", params)
            except FetchError as error:
                # All samples of an hour at once are more than any piece of the past.
                self._lesser = "does not name GPUs that vanished", of_question(error)
                return found
            for labels, _ in response.vector(answer).rows:
                key = key_of(labels)
                if key is not None:
                    found.setdefault(key, Known(harmless(labels), 0.0))
        return found

    async def _stretch(
        self,
        stretch: Stretch,
        counts: Mapping[str, int],
        known: Mapping[Key, Known],
        identifying: Sequence[str],
        limit: float,
    ) -> StretchValues:
        most = min(MOST_STEPS, max(1, MOST_AT_ONCE // max(1, *counts.values())))
        pieces = _Pieces(self._client, stretch, most, limit, self._monotonic)
        by = ",".join(PARTS)
        begin, step_s, _ = stretch

        def key_in(labels: Mapping[str, str]) -> Key | None:
            key = key_of(labels)
            return key if key in known else None

        sampled_at: dict[Key, array[float]] = {}
        for name in identifying:
            question = f"max by ({by}) (timestamp({name}))"
            try:
                columns = await pieces.columns(question, key_in)
            except FetchError as error:
                self._lesser = "does not say how old values of the past are", of_question(error)
                columns = await pieces.columns(f"max by ({by}) ({name})", key_in)
                for column in columns.values():
                    for step, value in enumerate(column):
                        column[step] = nan if isnan(value) else begin + step * step_s
            for key, times in columns.items():
                before = sampled_at.setdefault(key, times)
                if before is not times:
                    sampled_at[key] = array("d", map(_later, before, times))
        values = {name: await pieces.columns(f"max by ({by}) ({name})", key_in) for name in counts}
        return StretchValues(stretch, values, sampled_at)


def _later(one: float, other: float) -> float:
    return other if not isfinite(one) or other > one else one


class _Pieces:
    """Asks about a stretch in pieces, smaller ones where the server refuses or is too slow."""

    def __init__(
        self,
        client: Client,
        stretch: Stretch,
        most: int,
        limit: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._client = client
        self._stretch = stretch
        self._most = self._largest = most
        self._limit = limit
        self._monotonic = monotonic

    async def columns(
        self, question: str, key_in: Callable[[Mapping[str, str]], K | None]
    ) -> dict[K, array[float]]:
        """The values of one question, one a step, by what labels name; None: nothing."""
        begin, step_s, count = self._stretch
        found: dict[K, array[float]] = {}
        first = 0
        while first < count:
            some = min(self._most, count - first)
            answer = await self._asked(question, first, some)
            if answer is None:
                self._most = max(1, some // 4)
                continue
            first += some
            for labels, pairs in answer:
                key = key_in(labels)
                if key is None:
                    continue
                column = found.get(key)
                if column is None:
                    column = found[key] = array("d", [nan]) * count
                for at, value in pairs:
                    place = round((at - begin) / step_s)
                    if 0 <= place < count:
                        column[place] = value
        return found

    async def _asked(self, question: str, first: int, some: int) -> list[response.Samples] | None:
        """The answer about some steps; None: the server gives none about so many at once."""
        begin, step_s, _ = self._stretch
        asked = self._monotonic()
        if asked > self._limit:
            raise FetchError(f"took longer than {LONGEST_S:.0f} s", _LESS)
        start = begin + first * step_s
        params = {
            "query": question,
            "start": f"{start:.3f}",
            "end": f"{start + (some - 1) * step_s:.3f}",
            "step": f"{step_s:.3f}",
            "nocache": "1",
        }
        try:
            return response.samples(await self._client.ask("query_range", params))
        except FetchError as error:
            # Who is asked too often must not be asked more and smaller questions.
            if some == 1 or error.is_busy:
                # Another question may be less.
                self._most = self._largest
                raise
            return None
        finally:
            await asyncio.sleep(REST_PER_ANSWER * (self._monotonic() - asked))
