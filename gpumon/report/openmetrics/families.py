"""A tick as metrics: every field of the catalogue, findings, and the ledger.

No label grows without a bound: no job, process or rank has series of its own, and of what there can
be many the first ones are published and the others counted in `gpumon_left_out`. A missing value
or a stale one has no series, and 0 is always a measured 0.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from gpumon import __version__
from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.document.ledger import line
from gpumon.report.facts.entities import KEYS, number
from gpumon.report.facts.losses import losing_of, price_an_hour
from gpumon.report.facts.tick_index import Digest
from gpumon.report.headline.fleet_gpus import fleet_gpus
from gpumon.report.openmetrics.exposition import Family, labelled, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumon.model.catalogue.field import Field
    from gpumon.model.finding import Finding
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Node
    from gpumon.model.records.ledger import LedgerTotals
    from gpumon.model.records.tick import Tick
    from gpumon.report.document.forms import LedgerLine

    Sample = tuple[str, float | int]

MOST_ENTITIES: Final = 20_000
"""GPUs that are published, and as many nodes, ports and so on; the page has some 100 MB then, as
much as a server still takes in its ten seconds (our choice)."""

MOST_NAMES: Final = 1000
"""Users that are published, and as many accounts and partitions, the most wasteful first."""

MOST_FINDINGS: Final = 2000
"""Findings that are published one by one; `gpumon_findings` counts all."""

_NAMED_BY: Final = {
    "node": "",
    "nic": "port",
    "filesystem": "mount",
    "local_filesystem": "mount",
    "mig": "instance",
}
"""Blocks of a node that are published, and the label that holds an entity's key. Links are part of
their GPU's sums; processes, jobs' control groups and events come and go."""

_LABELS: Final = frozenset({"index", "minor_number"})
"""Values that are labels of `gpumon_gpu_info`."""

_UNITS: Final = {
    "ratio": "ratio",
    "bytes": "bytes",
    "s": "seconds",
    "W": "watts",
    "J": "joules",
    "C": "celsius",
}
"""How OpenMetrics calls a unit of the catalogue, where the name ends in it."""

_T = TypeVar("_T")

GROUPED_BY: Final = ("user", "account", "partition", "gpu")
"""What the ledger is published by, beside the whole."""

LOST: Final = ("wasted", "suspected")
"""The shares of what is lost now, in the order of `Losing`."""

STATES: Final = ("useful", "wasted", "suspected", "unexplained", "unobserved")
"""The shares of the ledger."""


def page(tick: Tick, *, is_open: bool) -> bytes:
    """A tick as text.

    Args:
        tick: The tick.
        is_open: Whether as OpenMetrics 1.0; else in Prometheus' older format.
    """
    return written(families(tick), is_open=is_open)


def families(tick: Tick) -> Iterator[Family]:
    """Everything that is published of a tick."""
    left_out: Counter[str] = Counter()
    yield from _own(tick)
    yield from _nodes(tick, left_out)
    yield from _gpus(tick, left_out)
    for name in _NAMED_BY:
        yield from _block(tick, name, left_out)
    yield from _queue(tick)
    yield from _findings(tick, left_out)
    if tick.ledger is not None:
        yield from _losing(tick.ledger)
        yield from _ledger(tick.ledger, left_out)
    yield _gauge(
        "gpumon_left_out",
        "What this page leaves out, beyond its limits.",
        [(labelled({"what": what}), count) for what, count in sorted(left_out.items()) if count],
    )


def _gauge(name: str, doc: str, samples: Iterable[Sample], unit: str = "") -> Family:
    return Family(name=name, kind="gauge", doc=doc, unit=unit, samples=list(samples))


def _own(tick: Tick) -> Iterator[Family]:
    """Of gpumon itself and its targets."""
    yield _gauge(
        "gpumon_build_info", "Version of gpumon.", [(labelled({"version": __version__}), 1)]
    )
    times = (
        ("picture_time", "Unix time of the tick.", tick.at),
        ("observed_since", "Unix time since when gpumon watches.", tick.observed_since),
        ("picture_period", "Time between two ticks.", tick.period_s),
        ("picture_lateness", "How late the tick was made.", tick.lateness_s),
    )
    for name, doc, value in times:
        yield _gauge(f"gpumon_{name}_seconds", doc, [("", round(value, 3))], "seconds")
    targets = {labelled({"target": target.url}): target for target in tick.targets}
    yield _gauge(
        "gpumon_target_up",
        "Whether a target answers.",
        [(labels, int(target.is_ok)) for labels, target in targets.items()],
    )
    yield _gauge(
        "gpumon_target_age_seconds",
        "Age of a target's newest answer.",
        [(k, round(t.age_s, 3)) for k, t in targets.items() if t.age_s is not None],
        "seconds",
    )
    yield _gauge("gpumon_errors", "Present errors, as --json lists them.", [("", len(tick.errors))])


def _nodes(tick: Tick, left_out: Counter[str]) -> Iterator[Family]:
    nodes = _first(list(tick.nodes.values()), MOST_ENTITIES, "node", left_out)
    labels = {node.name: labelled({"node": node.name}) for node in nodes}
    yield _gauge(
        "gpumon_node_up",
        "Whether a watched node has values that are not stale.",
        [
            (labels[node.name], int(not node.is_stale))
            for node in nodes
            if node.taken_at is not None and node.left_at is None
        ],
    )
    yield _gauge(
        "gpumon_node_age_seconds",
        "Age of a node's newest values.",
        [
            (labels[node.name], round(tick.at - node.taken_at, 3))
            for node in nodes
            if node.taken_at is not None
        ],
        "seconds",
    )
    yield _gauge(
        "gpumon_node_info",
        "What a node is: its driver, and its state in Slurm.",
        [(_node_info(node), 1) for node in nodes],
    )


def _node_info(node: Node) -> str:
    driver = None if node.block is None else node.block.label("driver_version", 0)
    return labelled({"node": node.name, "driver": driver or "", "state": node.state or ""})


def _gpus(tick: Tick, left_out: Counter[str]) -> Iterator[Family]:
    gpus = _first(list(tick.gpus.values()), MOST_ENTITIES, "gpu", left_out)
    labels = [labelled({"node": gpu.node, "uuid": gpu.uuid}) for gpu in gpus]
    yield _gauge(
        "gpumon_gpu_info",
        "What a GPU is, and by which target it is read.",
        [
            (
                labelled(
                    {
                        "node": gpu.node,
                        "uuid": gpu.uuid,
                        "index": "" if gpu.nvml_index is None else str(gpu.nvml_index),
                        "name": gpu.label("name") or "",
                        "pci_bus_id": gpu.label("pci_bus_id") or "",
                        "origin": gpu.origin,
                    }
                ),
                1,
            )
            for gpu in gpus
        ],
    )
    if tick.queue_at is not None:
        held = Counter(uuid for view in tick.jobs for uuid in view.gpu_uuids)
        yield _gauge(
            "gpumon_gpu_jobs",
            "Jobs that hold a GPU, of those that gpumon lists.",
            [(one, held[gpu.uuid]) for one, gpu in zip(labels, gpus, strict=True)],
        )
    for key in KEYS["gpu"]:
        if key not in _LABELS:
            found = ((one, number(gpu.value(key))) for one, gpu in zip(labels, gpus, strict=True))
            yield _field(CATALOGUE[key], found)


def _field(field: Field, found: Iterable[tuple[str, float | int | None]]) -> Family:
    """A field of the catalogue: what only grows is a counter, all else a gauge."""
    name, unit = field.openmetrics, _UNITS.get(field.unit, "")
    stem = name.removesuffix("_total")
    return Family(
        name=name,
        kind="counter" if field.kind is Kind.COUNTER else "gauge",
        doc=field.doc,
        unit=unit if stem.endswith(f"_{unit}") else "",
        samples=[(labels, value) for labels, value in found if value is not None],
    )


def _block(tick: Tick, name: str, left_out: Counter[str]) -> Iterator[Family]:
    """Every value of one kind of entity of all nodes."""
    rows: list[tuple[str, Block, int]] = []
    known: set[str] = set()
    for node in tick.nodes.values():
        block = node.blocks.get(name)
        if block is None or node.is_stale:
            continue
        for row, key in enumerate(block.keys):
            labels = labelled(_names(name, node.name, key, block, row))
            # Cut labels can be alike, and a page that has the same labels twice is invalid.
            if labels not in known:
                known.add(labels)
                rows.append((labels, block, row))
    rows = _first(rows, MOST_ENTITIES, name, left_out)
    for field in KEYS[name]:
        found = ((labels, number(block.value(field, row))) for labels, block, row in rows)
        yield _field(CATALOGUE[field], found)


def _names(name: str, node: str, key: str, block: Block, row: int) -> dict[str, str]:
    names = {"node": node}
    if name == "mig":
        names["uuid"] = block.label("parent", row) or ""
    if _NAMED_BY[name]:
        names[_NAMED_BY[name]] = key
    return names


def _queue(tick: Tick) -> Iterator[Family]:
    if tick.queue_at is None:
        return
    yield _gauge(
        "gpumon_gpus",
        "GPUs of the fleet by what they are, as the headline counts them.",
        [(labelled({"state": part}), count) for part, count in fleet_gpus(Digest(tick)).parts],
    )
    yield _gauge(
        "gpumon_queue_age_seconds",
        "Age of the queue's newest answer.",
        [("", round(max(0.0, tick.at - tick.queue_at), 3))],
        "seconds",
    )
    states = Counter(view.job.state for view in tick.jobs)
    yield _gauge(
        "gpumon_jobs",
        "Jobs that gpumon lists, by their state in Slurm.",
        [(labelled({"state": state}), n) for state, n in sorted(states.items())[:MOST_NAMES]],
    )


def _findings(tick: Tick, left_out: Counter[str]) -> Iterator[Family]:
    counted = Counter(
        labelled(
            {
                "class": finding.finding_class,
                "severity": finding.severity.value,
                "confidence": finding.confidence.value,
            }
        )
        for finding in tick.findings
    )
    yield _gauge("gpumon_findings", "Open findings.", sorted(counted.items()))
    gravest = sorted(tick.findings, key=lambda one: -one.severity.rank)
    shown = _first(gravest, MOST_FINDINGS, "finding", left_out)
    infos = {labelled(_info(one)): 1 for one in shown}
    yield _gauge("gpumon_finding_info", "An open finding and its subject.", infos.items())
    rates = ((one, losing_of(tick, one)) for one in shown)
    lost = {
        labelled({**_about(one), "state": state}): round(gpus, 3)
        for one, rate in rates
        if rate is not None
        for state, gpus in zip(LOST, rate, strict=True)
        if gpus
    }
    yield _gauge("gpumon_finding_losing_gpus", "GPUs that a finding loses now.", lost.items())


def _info(finding: Finding) -> dict[str, str]:
    return {
        **_about(finding),
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
    }


def _about(finding: Finding) -> dict[str, str]:
    """What names a finding, however sure it grows."""
    return {
        "class": finding.finding_class,
        "subject": finding.subject,
        "detector": finding.detector,
    }


def _losing(ledger: LedgerTotals) -> Iterator[Family]:
    """What is lost while things go on as they are."""
    yield _gauge(
        "gpumon_losing_gpus",
        "GPUs that are lost now.",
        [
            (labelled({"state": state}), round(gpus, 3))
            for state, gpus in zip(LOST, ledger.losing.total(), strict=True)
        ],
    )
    price = price_an_hour(ledger)
    if ledger.prices.gpu_hour and not ledger.losing.total().wasted_gpus:
        price = 0.0
    if price is not None:
        yield _gauge(
            "gpumon_losing_cost_per_hour",
            "Price of the GPUs that are wasted now, in an hour.",
            [("", round(price, 4))],
        )


def _ledger(ledger: LedgerTotals, left_out: Counter[str]) -> Iterator[Family]:
    """The ledger, as gauges: what is suspected today may be found useful tomorrow."""
    total = line(ledger.total())
    yield _gauge(
        "gpumon_ledger_gpu_seconds",
        "GPU time by state since the ledger began: the states sum to the allocation.",
        [(labelled({"state": state}), amount) for state, amount in _shares(total)],
    )
    for share, by_class in (("wasted", total["waste"]), ("suspected", total["suspected"])):
        yield _gauge(
            f"gpumon_ledger_{share}_gpu_seconds",
            f"GPU time {share} by class.",
            [(labelled({"class": name}), amount) for name, amount in by_class.items()],
        )
    amounts = (
        (
            ("energy_joules", "Energy of the time over which it was measured.", "joules"),
            total["energy_j"],
        ),
        (
            ("cost", "Price of the allocation and its energy, as prices are configured.", ""),
            total["cost"],
        ),
    )
    for (name, doc, unit), amount in amounts:
        if amount is not None:
            yield _gauge(f"gpumon_ledger_{name}", doc, [("", amount)], unit)
    for dimension in GROUPED_BY:
        lines = [(name, line(one)) for name, one in ledger.by(dimension).items()]
        first = _first(lines, MOST_NAMES, dimension, left_out)
        yield _gauge(
            f"gpumon_ledger_{dimension}_gpu_seconds",
            f"What became of GPU time by {dimension}.",
            [
                (labelled({dimension: name or "unknown", "state": state}), amount)
                for name, one in first
                for state, amount in _shares(one)
            ],
        )


def _shares(one: LedgerLine) -> tuple[tuple[str, float], ...]:
    """What became of GPU time, by state."""
    return (
        ("useful", one["useful_gpu_seconds"]),
        ("wasted", one["wasted_gpu_seconds"]),
        ("suspected", one["suspected_gpu_seconds"]),
        ("unexplained", one["unexplained_gpu_seconds"]),
        ("unobserved", one["unobserved_gpu_seconds"]),
    )


def _first(found: list[_T], most: int, what: str, left_out: Counter[str]) -> list[_T]:
    left_out[what] = max(left_out[what], len(found) - most)
    return found[:most]
