"""What a server knew of the hosts of nodes over time, and the blocks that each had at an instant.

A series that is missing at a step is a value without a sample, so that one plan serves all steps.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.sources.exporters.host_plan import host_plan
from gpumon.sources.exposition.parse import Page, Sample
from gpumon.sources.probes.rates import Rates

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Mapping, Sequence

    from gpumon.model.records.block import Block
    from gpumon.sources.exporters.host_plan import HostPlan

_ROUNDING_S: Final = 0.5
"""Times in questions are rounded to milliseconds, and steps may be of other lengths."""

Exporter = tuple[str, str]
"""The address of one, and what the names of its metrics begin with."""

Series = tuple[tuple[str, str], ...]
"""Labels of one series, made harmless."""

Found = dict[str, dict[str, "Block"]]
"""The blocks of each node's host."""


class KnownHosts(NamedTuple):
    """Hosts of the present, of which a past may be asked for."""

    nodes: Mapping[str, str]
    """The node of each address."""
    counts: Mapping[str, int]
    """How many series each metric has."""
    cpus: Mapping[str, int]
    """Of each address."""
    timing: Mapping[str, str]
    """By what names begin with, the metric that says when an exporter was read."""


class HostColumns(NamedTuple):
    """What a server has answered about one stretch."""

    begin: float
    """Unix time of the first step, on the server's clock."""
    step_s: float
    steps: int
    sampled_at: Mapping[Exporter, array[float]]
    """Unix time of the sample behind each step, NaN where there is none."""
    values: Mapping[str, Mapping[Series, array[float]]]
    """By metric and series one value a step likewise."""


class _Step(NamedTuple):
    """What holds from one instant to another, Unix times on the server's clock."""

    begin: float
    end: float
    found: Found


class _Table(NamedTuple):
    """How the blocks of one exporter follow from columns."""

    node: str
    plan: HostPlan
    columns: Sequence[array[float]]
    sampled_at: array[float]
    rates: Rates


class HostPast:
    """Every host's past."""

    def __init__(self, known: KnownHosts, parts: Sequence[HostColumns], limit_s: float) -> None:
        """Of known hosts what was answered, the oldest first; older than the limit nothing is."""
        self._known = known
        self._parts = parts
        self._limit_s = limit_s

    def walk(self) -> Walk:
        """Goes through it once."""
        return Walk(self._steps())

    def _steps(self) -> Iterator[_Step]:
        rates: dict[Exporter, Rates] = {}
        for part in self._parts:
            tables = [*self._tables(part, rates)]
            last: list[tuple[float, Mapping[str, Block]]] = [(0.0, {})] * len(tables)
            for step in range(part.steps):
                at = part.begin + step * part.step_s
                found: Found = {}
                for number, one in enumerate(tables):
                    since = one.sampled_at[step]
                    if isnan(since) or at - since > self._limit_s:
                        continue
                    if last[number][0] != since:
                        values = [column[step] for column in one.columns]
                        blocks = one.plan.blocks(one.node, values, frozenset(), one.rates, since)
                        last[number] = since, blocks
                    # Of two exporters of one thing the first counts.
                    found[one.node] = {**last[number][1], **found.get(one.node, {})}
                yield _Step(at, at + part.step_s, found)

    def _tables(self, part: HostColumns, rates: dict[Exporter, Rates]) -> Iterator[_Table]:
        of_instance: dict[str, list[tuple[Sample, array[float]]]] = {}
        for name, columns in part.values.items():
            for series, column in columns.items():
                labels = dict(series)
                sample = Sample(name=name, labels=labels, value=0.0, sampled_at=None, place=None)
                of_instance.setdefault(labels["instance"], []).append((sample, column))
        for exporter, sampled_at in sorted(part.sampled_at.items()):
            instance, begin = exporter
            some = of_instance.get(instance, ())
            of_exporter = [one for one in some if one[0].name.startswith(begin)]
            wanted: list[int] = []
            plan, _ = host_plan(Page(tuple(sample for sample, _ in of_exporter), ()), wanted)
            if plan is not None:
                yield _Table(
                    node=self._known.nodes[instance],
                    plan=plan._replace(cpu_count=self._known.cpus.get(instance, 0)),
                    columns=[of_exporter[number][1] for number in wanted],
                    sampled_at=sampled_at,
                    rates=rates.setdefault(exporter, Rates()),
                )


class Walk:
    """Goes through a past of hosts, forward."""

    def __init__(self, steps: Iterator[_Step]) -> None:
        """Begin before the first step."""
        self._steps = steps
        self._step = _Step(float("-inf"), float("-inf"), {})

    def at(self, at: float) -> Found:
        """The hosts' blocks at an instant that is no earlier than the last one that was asked."""
        while self._step.end - _ROUNDING_S <= at:
            self._step = next(self._steps, _Step(float("inf"), float("inf"), {}))
        return self._step.found if self._step.begin - _ROUNDING_S <= at else {}
