"""What a server has gathered of the hosts of its GPUs: node_exporter's pages, and file systems'.

Which metrics give which fields is one table for pages and servers. The server adds up the CPUs of a
host, as a page's reader does; all else is asked for unchanged. Labels are read once: servers list
the series of a metric in the same order, poll after poll, and hosts that are alike share a plan.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from gpumon.sources.exporters.host_names import HOST_NAME, KINDS, PARTS
from gpumon.sources.exporters.host_plan import DISTINGUISHING, host_plan
from gpumon.sources.exposition.parse import Page, Sample
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.probes.rates import Rates
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.cut import Orders
from gpumon.sources.prometheus.host_past import KnownHosts
from gpumon.sources.prometheus.unanswered import RAISE, Unanswered, of_question

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gpumon.model.records.block import Block
    from gpumon.sources.exporters.host_plan import HostPlan
    from gpumon.sources.prometheus.client import Client
    from gpumon.sources.prometheus.cut import Order
    from gpumon.sources.prometheus.label_columns import Labelling

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


MOST_ORDERS: Final = 24
"""Orders of series that are remembered: metrics with the same labels have one, of ports or disks,
and there are a dozen sets of labels."""

MOST_PLANS: Final = 256
"""Kinds of hosts that are remembered: a fleet has a few (our choice)."""

_Kind = tuple[tuple[str, str], ...]
"""Labels of a series without its host's."""


class _Own(NamedTuple):
    """One host's series in an answer."""

    kinds: tuple[_Kind, ...]
    rows: Sequence[int]


class _Answered(NamedTuple):
    """Series at one instant."""

    hosts: Mapping[str, _Own]
    """By `instance`; the same object for all answers with the same series."""
    values: Sequence[float]

    def of_each(self) -> Iterator[tuple[str, float]]:
        """The last value of each host."""
        return ((instance, self.values[own.rows[-1]]) for instance, own in self.hosts.items())


_Form = tuple[tuple[str, tuple[_Kind, ...]], ...]
"""What one exporter of a host reports: metrics, and the labels of their series."""


class _Planned(NamedTuple):
    """How the values of an exporter are read; hosts that report the same share it."""

    form: _Form
    plan: HostPlan | None
    takes: Sequence[tuple[int, int]]
    """Metric, and number among its series, of each value."""


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
        self._orders = Orders(MOST_ORDERS)
        self._hosts_in: WeakKeyDictionary[Order, Mapping[str, _Own]] = WeakKeyDictionary()
        """What the series of each order are."""
        self._planned: dict[tuple[str, str], _Planned] = {}
        self._plans: dict[_Form, _Planned] = {}
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
        self._orders.begin()
        sampled_at = await self._read_times(known, at)
        if len(sampled_at) > MOST_HOSTS:
            return {}
        answered: dict[str, dict[str, _Answered]] = {}
        timed = {begin for by_exporter in sampled_at.values() for begin in by_exporter}
        for name in known:
            begin = next((one for one in timed if name.startswith(one)), None)
            if begin is None:
                continue
            found_of = await self._answer_of(name, question_of(name), at)
            if found_of.hosts:
                self._counts[name] = sum(len(own.rows) for own in found_of.hosts.values())
            answered.setdefault(begin, {})[name] = found_of
        cpus = await self._cpus(at) if _CPUS in known else {}
        question = f"max by (instance,nodename) ({HOST_NAME})"
        own_names = await self._answer_of(HOST_NAME, question, at)
        of_instance = {
            one: dict(own.kinds[-1]).get("nodename", "") for one, own in own_names.hosts.items()
        }
        places = _Places(nodes)
        found: dict[str, dict[str, Block]] = {}
        for instance, by_exporter in sorted(sampled_at.items()):
            node = places.node_of(_PORT.sub("", instance), of_instance.get(instance, ""))
            for begin, since in by_exporter.items() if node else ():
                if at - since <= limit_s:
                    key, some = (instance, begin), answered.get(begin, {})
                    blocks = self._blocks(key, node, some, since, cpus.get(instance, 0))
                    # Of two exporters of one thing the first counts.
                    found[node] = {**blocks, **found.get(node, {})}
        gone = [key for key in self._planned if key[0] not in sampled_at]
        for key in gone:
            for of_exporter in (self._planned, self._last, self._rates):
                of_exporter.pop(key, None)
        self._own_names = {one: of_instance.get(one, "") for one in sampled_at}
        self._cpu_counts = cpus
        return found

    async def _read_times(self, known: Collection[str], at: float) -> dict[str, dict[str, float]]:
        """When each exporter of each address was last read, Unix time."""
        found: dict[str, dict[str, float]] = {}
        for begin in _PREFIXES:
            some = [name for name in known if name.startswith(begin)]
            for instance, value in (await self._answer_of_any(some, begin, at)).of_each():
                found.setdefault(instance, {})[begin] = value
        return found

    async def _answer_of_any(self, names: Sequence[str], begin: str, at: float) -> _Answered:
        """When the samples of an exporter were taken: of one page all are of the same time."""
        for turn, name in enumerate(names[:MOST_TIMING], 1):
            try:
                answered = await self._answer(times_of(name), at)
            except FetchError as error:
                of_question(error)
                if turn == min(len(names), MOST_TIMING):
                    self._unanswered.take(f"{begin}*", error)
            else:
                self._timing[begin] = name
                return answered
        return _NOTHING

    async def _cpus(self, at: float) -> dict[str, int]:
        # Of one mode, an eighth of the series: a server may refuse the whole and answer this.
        question = f'count by (instance) (max by (instance,cpu) ({_CPUS}{{mode="idle"}}))'
        answered = await self._answer_of(_CPUS, question, at)
        return {instance: int(value) for instance, value in answered.of_each()}

    def _blocks(
        self,
        key: tuple[str, str],
        node: str,
        answered: Mapping[str, _Answered],
        sampled_at: float,
        cpus: int,
    ) -> Mapping[str, Block]:
        last = self._last.get(key)
        if last is not None and last.sampled_at == sampled_at:
            return last.blocks
        instance, _ = key
        some = [
            (name, own, one.values)
            for name, one in answered.items()
            if (own := one.hosts.get(instance))
        ]
        form = tuple([(name, own.kinds) for name, own, _ in some])
        planned = self._planned.get(key)
        if planned is None or planned.form != form:
            planned = self._plans.get(form) or self._plan(form)
        self._planned[key] = planned
        plan = planned.plan
        if plan is None:
            return {}
        columns = [(own.rows, values) for _, own, values in some]
        values = [columns[metric][1][columns[metric][0][n]] for metric, n in planned.takes]
        rates = self._rates.setdefault(key, Rates())
        plan = plan._replace(cpu_count=cpus)
        blocks = plan.blocks(node, values, frozenset(), rates, sampled_at)
        self._last[key] = _Last(sampled_at, blocks)
        return blocks

    def _plan(self, form: _Form) -> _Planned:
        """How what an exporter reports is read."""
        places = [(metric, n) for metric, (_, kinds) in enumerate(form) for n in range(len(kinds))]
        samples = [
            Sample(name=name, labels=dict(kind), value=0.0, sampled_at=None, place=None)
            for name, kinds in form
            for kind in kinds
        ]
        wanted: list[int] = []
        plan, _ = host_plan(Page((*samples,), ()), wanted)
        planned = _Planned(form, plan, [places[number] for number in wanted])
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[form] = planned
        return planned

    async def _answer_of(self, name: str, question: str, at: float) -> _Answered:
        """The answer about one metric; none where the server gives none about this one."""
        try:
            return await self._answer(question, at)
        except FetchError as error:
            self._unanswered.take(name, error)
            return _NOTHING

    async def _answer(self, question: str, at: float) -> _Answered:
        params = response.at_instant(question, at)
        answer = await self._client.ask("query", params, self._orders)
        order = response.in_order(answer)
        known = self._hosts_in.get(order[0]) if order else None
        if order and known is not None:
            return _Answered(known, order[1])
        labels, values, _ = response.by_labels(answer, {}, _harmless)
        hosts = _by_host(labels)
        if order:
            self._hosts_in[order[0]] = hosts
        return _Answered(hosts, values)


_NOTHING: Final = _Answered({}, ())


def _harmless(labels: Labelling) -> list[Mapping[str, str] | None]:
    """Labels made harmless; None where they name no host."""
    found: list[Mapping[str, str] | None] = [None] * labels.size
    texts: dict[str, str] = {}
    for some in labels.groups:
        for number, own in zip(some.numbers, some.harmless(texts).rows(), strict=True):
            found[number] = own if own.get("instance") else None
    return found


def _by_host(labels: Sequence[Mapping[str, str] | None]) -> dict[str, _Own]:
    """Which series are whose."""
    kinds: dict[_Kind, _Kind] = {}
    of_hosts: dict[str, tuple[list[_Kind], list[int]]] = {}
    for row, own in enumerate(labels):
        if own is not None:
            kind = tuple([pair for pair in own.items() if pair[0] != "instance"])
            some, rows = of_hosts.setdefault(own["instance"], ([], []))
            some.append(kinds.setdefault(kind, kind))
            rows.append(row)
    alike: dict[tuple[_Kind, ...], tuple[_Kind, ...]] = {}
    found = {}
    for instance, (some, rows) in of_hosts.items():
        every = tuple(some)
        found[instance] = _Own(alike.setdefault(every, every), rows)
    return found


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
