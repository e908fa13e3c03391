"""Which series of a page are of its host, and the blocks that are made of them.

Unlike series of GPUs, those of such a page carry no name of its host: a page is of one host, and
one on which a series comes twice is of several, so that nothing of it may be added up.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from math import isfinite, isnan
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.sources.exporters.host_names import HOST_NAME, KINDS, PARTS, SELF, TEXTS, WHOLE
from gpumon.sources.probes.decode import MAX_INTEGER, MOST_ROWS
from gpumon.sources.probes.rates import DERIVED_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.sources.exposition.parse import Page, Sample
    from gpumon.sources.probes.rates import Rates

BLOCKS: Final = ("node", "nic", "filesystem", "local_filesystem")

DISTINGUISHING: Final = (
    *("cpu", "mode", "device", "port", "mountpoint", "fstype", "state", "export", "mountaddr"),
    *("protocol", "operation", "component", "target", "fs"),
)
"""Labels by which series of one host differ."""

_FIELDS: Final = {
    block: tuple(
        key
        for key, field in CATALOGUE.items()
        if field.block == block and key not in DERIVED_OF.get(block, ())
    )
    for block in BLOCKS
}

_INTEGERS: Final = frozenset(key for key, field in CATALOGUE.items() if field.kind.is_integer)

Missing = Mapping[tuple[str, int], Reason]

Variants = dict[tuple[tuple[tuple[str, int], Reason], ...], Missing]

_MOST_VARIANTS: Final = 64
"""Sets of reasons of one form that are remembered: nearly all nodes lack the same, always."""

_Term = tuple[int, float]
"""Number of a value among those that are read, and its factor."""


class Sum(NamedTuple):
    """One value: what is added up for it."""

    key: str
    row: int
    terms: tuple[_Term, ...]
    low: float
    high: float
    """What it can be; all other is garbage."""


class HostTable(NamedTuple):
    """How one block is made."""

    keys: tuple[str, ...]
    sums: tuple[Sum, ...]
    labels: Mapping[str, tuple[str | None, ...]]
    missing: Missing
    """Why what is on no page is missing."""
    variants: Variants
    """`missing` with what single readings lack besides, each once for all blocks of this form."""


def missing_with(missing: Missing, own: Missing, variants: Variants) -> Missing:
    """Why what is missing in one reading is: the same object for all that lack the same.

    Args:
        missing: Why it is in each of a form.
        own: Why more is in this one.
        variants: Of the form, what both make; gets what is new.
    """
    if not own:
        return missing
    wanted = tuple(own.items())
    found = variants.get(wanted)
    if found is None:
        if len(variants) >= _MOST_VARIANTS:
            variants.clear()
        found = variants[wanted] = {**missing, **own}
    return found


class HostPlan(NamedTuple):
    """How the blocks of a page's host are made."""

    host_name: str
    """What it calls itself; empty: unknown."""
    cpu_count: int
    tables: Mapping[str, HostTable]

    def blocks(
        self, name: str, values: Sequence[float], old: frozenset[int], rates: Rates, at: float
    ) -> dict[str, Block]:
        """The blocks.

        Args:
            name: What the node is called, for its one row.
            values: Of the page.
            old: Places of values that are not of the present.
            rates: What makes rates of counters.
            at: When the values were first seen, seconds of a steady clock.
        """
        made = {}
        for block, table in self.tables.items():
            keys = (name,) if block == "node" else table.keys
            made[block] = self._block(block, keys, table, values, old, rates, at)
        return made

    def _block(
        self,
        block: str,
        keys: tuple[str, ...],
        table: HostTable,
        values: Sequence[float],
        old: frozenset[int],
        rates: Rates,
        at: float,
    ) -> Block:
        count = len(keys)
        columns: dict[str, list[float | int | None]] = {}
        texts: dict[str, list[str | None]] = {}
        own: dict[tuple[str, int], Reason] = {}
        if block == "node" and self.cpu_count:
            columns["cpu_count"] = [self.cpu_count]
        elif block == "node":
            own["cpu_count", 0] = Reason.NOT_SHARED
        for key, row, terms, low, high in table.sums:
            total: float | Reason = (
                0.0 + values[terms[0][0]] * terms[0][1]
                if len(terms) == 1 and not old
                else _sum(terms, values, old)
            )
            if key in TEXTS:
                text = _text(key, total)
                texts.setdefault(key, [None] * count)[row] = text
                if text is None:
                    own[key, row] = Reason.NOT_SHARED
                continue
            # What is beyond any doubt goes a short way: nearly every value.
            found: float | int | Reason
            if isinstance(total, Reason):
                found = total
            elif low <= total <= high:
                found = round(total) if key in _INTEGERS else total
            else:
                found = Reason.NOT_SAMPLED if isnan(total) else Reason.GARBAGE
            if isinstance(found, Reason):
                own[key, row] = found
                continue
            column = columns.get(key)
            if column is None:
                column = columns[key] = [None] * count
            column[row] = found
        # Only the first of them is ever written to.
        missing = ChainMap(own, cast("dict[tuple[str, int], Reason]", table.missing))
        rates.add(block, keys, [at] * count, columns, missing)
        packed = {key: column_for(key in _INTEGERS, column) for key, column in columns.items()}
        labels = {**table.labels, **{label: tuple(column) for label, column in texts.items()}}
        reasons = missing_with(table.missing, own, table.variants)
        return Block(keys, packed, labels if texts else table.labels, reasons)


def host_plan(page: Page, wanted: list[int]) -> tuple[HostPlan | None, list[tuple[str, str]]]:
    """How a page's host is read; None: the page has none.

    Args:
        page: What was read.
        wanted: Numbers of the samples whose values are needed; those of the host are added.

    Returns:
        The plan, and remarks, each with a way out.
    """
    gathered: dict[str, dict[str, dict[str, list[_Term]]]] = {}
    kinds: dict[str, str] = {}
    cpus: set[str] = set()
    seen: set[tuple[str, ...]] = set()
    name = ""
    for number, sample in enumerate(page.samples):
        if sample.name == HOST_NAME:
            name = name or sample.labels.get("nodename", "")
        parts = PARTS.get(sample.name)
        if parts is None:
            continue
        identity = (sample.name, *(sample.labels.get(label, "") for label in DISTINGUISHING))
        if identity in seen:
            text = "mixes several hosts, whose values cannot be separated"
            return None, [(text, "name the hosts' own pages")]
        seen.add(identity)
        if "mode" in sample.labels:
            cpus.add(sample.labels.get("cpu", ""))
        place = -1
        for part in parts:
            entity = part.entity(sample.labels)
            if not entity:
                continue
            if place < 0:
                place = len(wanted)
                wanted.append(number)
            of_entity = gathered.setdefault(part.block, {}).setdefault(entity, {})
            of_entity.setdefault(part.key, []).append((place, part.factor))
            if part.block == "filesystem":
                kinds.setdefault(entity, _kind(sample))
            elif part.block == "local_filesystem":
                kinds.setdefault(entity, sample.labels.get("fstype", ""))
    if not gathered:
        return None, []
    remarks: list[tuple[str, str]] = []
    tables = {
        block: _table(block, entities, kinds, remarks) for block, entities in gathered.items()
    }
    return HostPlan(name, len(cpus), tables), remarks


def _table(
    block: str,
    entities: Mapping[str, Mapping[str, list[_Term]]],
    kinds: Mapping[str, str],
    remarks: list[tuple[str, str]],
) -> HostTable:
    most = MOST_ROWS[block]
    if len(entities) > most:
        text = f"reports {len(entities):,} rows of {block}; {most:,} are read"
        remarks.append((text, "no node has so many: check what answers there"))
    keys = tuple(sorted(entities)[:most])
    sums = tuple(
        Sum(key, row, tuple(terms), *_limits(key))
        for row, entity in enumerate(keys)
        for key, terms in entities[entity].items()
        if key not in WHOLE or {factor < 0 for _, factor in terms} == {True, False}
    )
    labels: dict[str, tuple[str | None, ...]] = {}
    if block == "filesystem":
        labels = {"fstype": tuple(kinds[key] for key in keys), "device": keys}
    elif block == "local_filesystem":
        labels = {"type": tuple(kinds[key] for key in keys)}
    told = {("cpu_count", 0), *((one.key, one.row) for one in sums)}
    told |= {
        (label, row)
        for label, texts in labels.items()
        for row, text in enumerate(texts)
        if text is not None
    }
    missing = {
        (key, row): Reason.NOT_SHARED
        for key in (*_FIELDS[block], *LABELS[block])
        for row in range(len(keys))
        if (key, row) not in told
    }
    return HostTable(
        keys=keys if block != "node" else (SELF,),
        sums=sums,
        labels=labels,
        missing=missing,
        variants={},
    )


def _limits(key: str) -> tuple[float, float]:
    field = CATALOGUE.get(key)
    return (field.low, min(field.high, MAX_INTEGER)) if field else (0.0, MAX_INTEGER)


def _text(key: str, number: float | Reason) -> str | None:
    """The text that a page has as a number; None: it has none."""
    return (
        None if isinstance(number, Reason) or not isfinite(number) else TEXTS[key].get(int(number))
    )


def _kind(sample: Sample) -> str:
    return next(kind for begin, kind in KINDS.items() if sample.name.startswith(begin))


def _sum(terms: Sequence[_Term], values: Sequence[float], old: frozenset[int]) -> float | Reason:
    """The sum, or why there is none: what is added up without one of its parts is no sum."""
    total = 0.0
    for place, factor in terms:
        if place in old:
            return Reason.STALE
        value = values[place]
        if isnan(value):
            return Reason.NOT_SAMPLED
        if not isfinite(value):
            return Reason.GARBAGE
        total += value * factor
    return total
