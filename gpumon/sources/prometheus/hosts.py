"""What a server has gathered of the hosts of its GPUs: node_exporter's pages, and file systems'.

Which metrics give which fields is one table for pages and servers. The server adds up the CPUs of a
host, as a page's reader does; all else is asked for unchanged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.text import plain
from gpumon.sources.exporters.host_names import HOST_NAME, KINDS, PARTS
from gpumon.sources.exporters.host_plan import DISTINGUISHING, host_plan
from gpumon.sources.exposition.parse import Page, Sample
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.probes.rates import Rates
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.host_past import KnownHosts
from gpumon.sources.prometheus.unanswered import RAISE, Unanswered, of_question

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gpumon.model.records.block import Block
    from gpumon.sources.prometheus.client import Client

MOST_HOSTS: Final = 1024
"""Of a fleet with more nodes, or a server with more hosts, GPUs or none, no host is asked about:
each has some hundred values, which are read one by one (our choice)."""

MOST_TIMING: Final = 4
"""Metrics of an exporter of which one after another is asked when it was sampled: the server may
refuse one with many series, and answer one with few (our choice)."""

_NODE: Final = "node_"

_CPUS: Final = "node_cpu_seconds_total"
"""It has a series for each CPU and mode: a thousand of a large host."""

_PREFIXES: Final = (_NODE, *(begin for begin in KINDS if not begin.startswith(_NODE)))
"""With these begin the metrics of one exporter each."""

MATCHED: Final = "|".join(f"{begin}.+" for begin in _PREFIXES)
"""What their names are, as a pattern."""

_BY: Final = ",".join(("instance", *(label for label in DISTINGUISHING if label != "cpu")))
_PORT: Final = re.compile(r":[0-9]{1,5}$")
_ADDRESS: Final = re.compile(r"[0-9.]+|\[.*\]|localhost")


class _Last(NamedTuple):
    """What was made of the newest samples of one exporter."""

    sampled_at: float
    blocks: Mapping[str, Block]


class Hosts:
    """Asks for the hosts of nodes; remembers what counters were before."""

    def __init__(self, client: Client) -> None:
        """Nothing has been asked."""
        self._client = client
        self._rates: dict[tuple[str, str], Rates] = {}
        self._last: dict[tuple[str, str], _Last] = {}
        self._unanswered = Unanswered()
        self._own_names: dict[str, str] = {}
        """What each address that was seen in the last poll calls itself; empty: nothing."""
        self._counts: dict[str, int] = {}
        self._cpu_counts: dict[str, int] = {}
        self._timing: dict[str, str] = {}

    def known(self, nodes: Iterable[str]) -> KnownHosts:
        """Hosts of the last poll that are some nodes', whether their samples are present or old."""
        places = _Places(nodes)
        node_of = {
            instance: node
            for instance, name in self._own_names.items()
            if (node := places.node_of(_PORT.sub("", instance), name))
        }
        return KnownHosts(node_of, self._counts, self._cpu_counts, self._timing)

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """What the last poll left out, with a way out."""
        found = self._unanswered.remark(RAISE)
        return [found] if found else []

    async def poll(
        self, names: Collection[str], nodes: Collection[str], at: float, limit_s: float
    ) -> Mapping[str, Mapping[str, Block]]:
        """The blocks of each node's host; nodes without an exporter of their host are not in it.

        Args:
            names: Metrics that the server has.
            nodes: Names of the nodes that have GPUs.
            at: The instant, Unix time on the server's clock.
            limit_s: Age from which on a sample is not of the present.

        Raises:
            FetchError: There is no answer.
        """
        self._unanswered = Unanswered()
        self._own_names, self._counts, self._cpu_counts, self._timing = {}, {}, {}, {}
        known = [name for name in PARTS if name in names]
        if not known or len(nodes) > MOST_HOSTS:
            return {}
        sampled_at = await self._read_times(known, at)
        if len(sampled_at) > MOST_HOSTS:
            return {}
        samples: dict[str, list[Sample]] = {}
        timed = {begin for by_exporter in sampled_at.values() for begin in by_exporter}
        for name in known:
            if not name.startswith((*timed,)):
                continue
            rows = await self._rows_of(name, question_of(name), at)
            if rows:
                self._counts[name] = len(rows)
            for labels, value in rows:
                samples.setdefault(labels["instance"], []).append(
                    Sample(name=name, labels=labels, value=value, sampled_at=None, place=None)
                )
        cpus = await self._cpus(at) if _CPUS in known else {}
        own_names = await self._rows_of(HOST_NAME, f"max by (instance,nodename) ({HOST_NAME})", at)
        of_instance = {one["instance"]: one.get("nodename", "") for one, _ in own_names}
        places = _Places(nodes)
        found: dict[str, dict[str, Block]] = {}
        for instance, by_exporter in sorted(sampled_at.items()):
            node = places.node_of(_PORT.sub("", instance), of_instance.get(instance, ""))
            for begin, since in by_exporter.items() if node else ():
                if at - since <= limit_s:
                    some = [one for one in samples.get(instance, ()) if one.name.startswith(begin)]
                    key = (instance, begin)
                    blocks = self._blocks(key, node, some, since, cpus.get(instance, 0))
                    # Of two exporters of one thing the first counts.
                    found[node] = {**blocks, **found.get(node, {})}
        gone = {key for key in self._last if key[0] not in sampled_at}
        for key in gone:
            del self._last[key], self._rates[key]
        self._own_names = {one: of_instance.get(one, "") for one in sampled_at}
        self._cpu_counts = cpus
        return found

    async def _read_times(self, known: Collection[str], at: float) -> dict[str, dict[str, float]]:
        """When each exporter of each address was last read, Unix time."""
        found: dict[str, dict[str, float]] = {}
        for begin in _PREFIXES:
            some = [name for name in known if name.startswith(begin)]
            for labels, value in await self._rows_of_any(some, begin, at):
                found.setdefault(labels["instance"], {})[begin] = value
        return found

    async def _rows_of_any(
        self, names: Sequence[str], begin: str, at: float
    ) -> list[tuple[dict[str, str], float]]:
        """When the samples of an exporter were taken: of one page all are of the same time."""
        for turn, name in enumerate(names[:MOST_TIMING], 1):
            try:
                rows = await self._rows(times_of(name), at)
            except FetchError as error:
                of_question(error)
                if turn == min(len(names), MOST_TIMING):
                    self._unanswered.take(f"{begin}*", error)
            else:
                self._timing[begin] = name
                return rows
        return []

    async def _cpus(self, at: float) -> dict[str, int]:
        # Of one mode, an eighth of the series: a server may refuse the whole and answer this.
        question = f'count by (instance) (max by (instance,cpu) ({_CPUS}{{mode="idle"}}))'
        rows = await self._rows_of(_CPUS, question, at)
        return {one["instance"]: int(value) for one, value in rows}

    def _blocks(
        self, key: tuple[str, str], node: str, samples: list[Sample], sampled_at: float, cpus: int
    ) -> Mapping[str, Block]:
        last = self._last.get(key)
        if last is not None and last.sampled_at == sampled_at:
            return last.blocks
        wanted: list[int] = []
        plan, _ = host_plan(Page((*samples,), ()), wanted)
        if plan is None:
            return {}
        values = [samples[number].value for number in wanted]
        rates = self._rates.setdefault(key, Rates())
        plan = plan._replace(cpu_count=cpus)
        blocks = plan.blocks(node, values, frozenset(), rates, sampled_at)
        self._last[key] = _Last(sampled_at, blocks)
        return blocks

    async def _rows_of(
        self, name: str, question: str, at: float
    ) -> list[tuple[dict[str, str], float]]:
        """The answer about one metric; none where the server gives none about this one."""
        try:
            return await self._rows(question, at)
        except FetchError as error:
            self._unanswered.take(name, error)
            return []

    async def _rows(self, question: str, at: float) -> list[tuple[dict[str, str], float]]:
        answer = response.vector(await self._client.ask("query", response.at_instant(question, at)))
        rows = [
            ({plain(name): plain(text) for name, text in row.labels.items()}, row.value)
            for row in answer.rows
        ]
        return [row for row in rows if row[0].get("instance")]


def question_of(name: str) -> str:
    """What is asked about a metric; CPUs are added up."""
    if name == _CPUS:
        return f"sum by (instance,mode) (max by (instance,cpu,mode) ({name}))"
    return f"max by ({_BY}) ({name})"


def times_of(name: str) -> str:
    """What is asked to learn when an exporter with a metric was read."""
    return f"max by (instance) (timestamp({name}))"


class _Places:
    """Which node an address is: by a name of its own, else by one without its domain."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._whole = set(nodes)
        self._short: dict[str, str] = {}
        for node in sorted(self._whole):
            short = _short(node)
            # A short name of two nodes matches neither.
            self._short[short] = "" if short in self._short else node

    def node_of(self, host: str, own_name: str) -> str:
        """The node; empty: none of ours."""
        names = [name for name in (host, own_name) if name]
        whole = next((name for name in names if name in self._whole), "")
        return whole or next(filter(None, (self._short.get(_short(name)) for name in names)), "")


def _short(name: str) -> str:
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0]
