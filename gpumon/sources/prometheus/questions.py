"""What a server is asked about GPUs, and one look as the answers to it.

Which metrics there are is asked, not assumed. Each one is asked for once, added up by the server to
one series for each GPU or instance, all at the same instant: a moment ago, so that every page that
was read by then has been written down whole.
"""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.text import plain
from gpumon.sources.exporters.gpu_names import METRICS
from gpumon.sources.exporters.plan import LABELS, MOST_HOLDERS, label_of
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import answer

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from gpumon.sources.prometheus.answer import Answer, Row, Rows
    from gpumon.sources.prometheus.client import Client

SETTLED_S: Final = 2.0
"""A page is written down within so much of the time that its samples bear: dcgm-exporter serves
what it has gathered before (our choice)."""

NAMED_EVERY_S: Final = 300.0
"""Which metrics there are is asked so often: what exporters tell changes seldom (our choice)."""

NAMED_BACK_S: Final = 600.0
"""Metrics count that were there in this time."""

INTERVAL_BACK_S: Final = 300.0
"""From samples of this time follows how often there is one: what is older is not told any more
(Prometheus' own look back)."""

MOST_LONG: Final = 8
"""GPUs of which samples over time are asked for, each of another node."""

MOST_TOLD_BY: Final = 4
"""Metrics by whose labels and times GPUs are known; one is enough where all exporters are alike."""

JOB_ID: Final = "nvidia_gpu_jobId"
"""Princeton's nvidia_gpu_prometheus_exporter tells a GPU's job as this value."""

_HIGHEST_ID: Final = 2**32
"""Numbers of Slurm's jobs are smaller."""

_UUIDS: Final = LABELS["uuid"]
_PARTS: Final = (*_UUIDS, *LABELS["instance"])
_ALL: Final = (*dict.fromkeys(name for some in LABELS.values() for name in some), "instance")
"""Every label that a page's plan reads, and the target's own, by which a server names a host."""

_HOLDERS: Final = frozenset(
    name for what in ("job", "pod", "namespace", "container") for name in LABELS[what]
)
"""Labels that name who holds a GPU."""

_SAFE: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
"""UUIDs that a pattern may hold as they are."""

Key = tuple[str, str]
"""A GPU by its UUID, and a MIG instance of it by its number or nothing."""


class Known(NamedTuple):
    """One GPU or instance, as the labels of a series tell it."""

    labels: Mapping[str, str]
    """Made harmless."""
    told_at: float
    """Unix time of the newest sample on the server's clock."""
    others: tuple[Mapping[str, str], ...] = ()
    """Labels of further series of that sample: of those who share the GPU."""


class Seen(NamedTuple):
    """One look at everything that a server holds of GPUs."""

    asked_at: float
    """Unix time of the look, on the server's clock."""
    known: Mapping[Key, Known]
    values: Mapping[str, Mapping[Key, float]]
    """By name of the metric."""
    interval_s: float | None
    """Between two samples; None: there are not two yet."""
    remarks: tuple[tuple[str, str], ...]
    """What is odd, each with a way out."""


class Questions:
    """Asks for one look after another; remembers which metrics there are."""

    def __init__(self, client: Client) -> None:
        """Nothing has been asked."""
        self._client = client
        self._names: tuple[str, ...] = ()
        self._tells_jobs = False
        self._named_at = float("-inf")
        self._told_by: list[str] = []
        self._interval_s: float | None = None
        self._labels: dict[Key, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        """Labels of each GPU as they came last, and made harmless."""
        self._warnings: dict[str, None] = {}
        self._left_out = 0

    async def look(self) -> Seen:
        """One look.

        Raises:
            FetchError: There is nothing to see; it says why.
        """
        self._warnings, self._left_out = {}, 0
        self._client.renew()
        now = answer.instant(await self._client.ask("query", {"query": "time()", "nocache": "1"}))
        if not 0.0 <= now - self._named_at < NAMED_EVERY_S or not self._names:
            await self._ask_names(now)
        values = await self._values(now - SETTLED_S)
        known, nameless = await self._known(now - SETTLED_S, values)
        if self._interval_s is None and known:
            self._interval_s = await self._interval(now - SETTLED_S, known)
        return Seen(now, known, values, self._interval_s, self._remarks(nameless))

    async def _ask_names(self, now: float) -> None:
        params = {
            "match[]": f'{{__name__=~"DCGM_FI_.+|{JOB_ID}"}}',
            "start": f"{now - NAMED_BACK_S:.3f}",
            "end": f"{now:.3f}",
        }
        told = self._said(await self._client.ask("label/__name__/values", params))
        found = set(answer.names(told))
        self._names = tuple(name for name in METRICS if name in found)
        self._tells_jobs = JOB_ID in found
        if not self._names:
            seen = sum(name.startswith("DCGM_FI_") for name in found)
            message = (
                f"none of its {seen:,} metrics of DCGM is one that gpumon knows"
                if seen
                else "holds no metric of DCGM"
            )
            hint = "have it read the pages of dcgm-exporter: DCGM_FI_…"
            # Two short questions cost nobody, and a server that has just begun will have some soon.
            raise FetchError(message, hint, is_refused=True)
        self._named_at = now
        self._told_by = [name for name in self._told_by if name in found]
        # It may have been set anew since.
        self._interval_s = None

    async def _values(self, at: float) -> dict[str, dict[Key, float]]:
        memory: dict[Key, Key] = {}
        found = await _all([self._column(name, at, memory) for name in self._names])
        # An empty one is no error: nothing has told it of late.
        return dict(zip(self._names, found, strict=True))

    async def _column(self, name: str, at: float, memory: dict[Key, Key]) -> dict[Key, float]:
        """The values of one metric; `memory` holds each key once for all of them.

        The rows themselves are let go at once: of tens of thousands of GPUs they take far more
        memory than what they tell.
        """
        by = ",".join(_PARTS)
        found = {}
        for labels, value in await self._vector(f"max by ({by}) ({name})", at):
            for key in _keys(labels):
                found[memory.setdefault(key, key)] = value
        return found

    async def _known(
        self, at: float, values: Mapping[str, Mapping[Key, float]]
    ) -> tuple[dict[Key, Known], int]:
        """Every GPU that has values, and the number of series that name none."""
        known: dict[Key, Known] = {}
        nameless = 0
        wanted = {key for rows in values.values() for key in rows}
        by = ",".join(_ALL)
        for turn in range(MOST_TOLD_BY):
            rest = wanted - known.keys()
            if turn >= len(self._told_by):
                counts = {name: len(rest & rows.keys()) for name, rows in values.items()}
                best = max(counts, key=lambda name: counts[name])
                if not counts[best]:
                    break
                self._told_by.append(best)
            name = self._told_by[turn]
            for row in await self._vector(f"max by ({by}) (timestamp({name}))", at):
                keys = _keys(row.labels)
                nameless += not keys
                for key in wanted.intersection(keys):
                    before = known.get(key)
                    # Of a GPU that has moved to another node the newer one counts.
                    if before is None or row.value > before.told_at:
                        known[key] = Known(self._harmless(key, row.labels), row.value)
                    elif row.value == before.told_at:
                        others = _with_holder(before.labels, before.others, _harmless(row.labels))
                        known[key] = before._replace(others=others)
        self._labels = {key: one for key, one in self._labels.items() if key in known}
        if self._tells_jobs:
            for labels, value in await self._vector(f"max by ({','.join(_PARTS)}) ({JOB_ID})", at):
                for key in known.keys() & _keys(labels):
                    one = known[key]
                    known[key] = one._replace(others=_with_job(one.labels, one.others, value))
        return known, nameless

    def _harmless(self, key: Key, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Labels made harmless; those of the look before where they are the same, as nearly all."""
        raw, made = self._labels.get(key, (None, labels))
        if raw != labels:
            made = _harmless(labels)
            self._labels[key] = labels, made
        return made

    async def _interval(self, at: float, known: Mapping[Key, Known]) -> float | None:
        """Time between two samples, of the slowest of some nodes; None: there are not two."""
        chosen = {
            label_of(one.labels, "host"): uuid
            for (uuid, _), one in known.items()
            if _SAFE.fullmatch(uuid)
        }
        name = self._told_by[0]
        found = []
        for label in _UUIDS if chosen else ():
            some = "|".join(list(chosen.values())[:MOST_LONG])
            question = f'{name}{{{label}=~"{some}"}}[{INTERVAL_BACK_S:.0f}s]'
            told = await self._client.ask("query", _at(question, at))
            for times in answer.times(self._said(told)):
                gaps = [after - before for before, after in pairwise(times)]
                found += [median(gaps)] if gaps else []
            if found:
                break
        return max(found, default=None)

    async def _vector(self, question: str, at: float) -> list[Row]:
        told = self._said(await self._client.ask("query", _at(question, at)))
        rows: Rows = answer.vector(told)
        self._left_out += rows.left_out
        return rows.rows

    def _said(self, told: Answer) -> Answer:
        self._warnings |= dict.fromkeys(told.warnings)
        return told

    def _remarks(self, nameless: int) -> tuple[tuple[str, str], ...]:
        found = []
        said = list(self._warnings)
        if said:
            more = f" (and {len(said) - 1:,} more)" if len(said) > 1 else ""
            text = f"warns beside its values, of which some may be missing: {said[0]}{more}"
            found.append((text, "look at the stores behind it"))
        if self._left_out:
            text = f"{self._left_out:,} series of its answers cannot be read and are left out"
            found.append((text, "see which version of what listens there"))
        if nameless:
            text = f"{nameless:,} series name no GPU by its UUID and are left out"
            found.append((text, "see which label names GPUs there: UUID is dcgm-exporter's"))
        return tuple(found)


async def _all(
    asked: Sequence[Coroutine[Any, Any, dict[Key, float]]],
) -> list[dict[Key, float]]:
    """All answers; where one fails the others are not waited for."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in asked]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


def _at(question: str, at: float) -> dict[str, str]:
    """A question about one instant; VictoriaMetrics would shift it by half a minute otherwise."""
    return {"query": question, "time": f"{at:.3f}", "nocache": "1"}


def _keys(labels: Mapping[str, str]) -> tuple[Key, ...]:
    """Which GPU or instance a series is about; nothing where its labels do not say it."""
    uuid = labels.get(_UUIDS[0])
    if uuid and len(labels) == 1 and _SAFE.fullmatch(uuid):
        # Nearly all are so, and there are many.
        return ((uuid, ""),)
    uuid = label_of(labels, "uuid")
    return ((plain(uuid), plain(label_of(labels, "instance") or "")),) if uuid else ()


def _harmless(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Labels made harmless, with the host that the server asks where the page names none."""
    found = {plain(name): plain(text) for name, text in labels.items()}
    if label_of(found, "host") is None and found.get("instance"):
        found[LABELS["host"][0]] = re.sub(r":[0-9]{1,5}$", "", found["instance"])
    return found


def _with_holder(
    first: Mapping[str, str], others: tuple[Mapping[str, str], ...], labels: Mapping[str, str]
) -> tuple[Mapping[str, str], ...]:
    """The further labels of one GPU with one more; the same where it names nobody new.

    Args:
        first: The labels that the GPU is known by.
        others: Further ones of the same sample.
        labels: One more, made harmless.
    """
    whose = _whose(labels)
    known = (first, *others)
    if not any(whose) or len(known) >= 2 * MOST_HOLDERS or whose in map(_whose, known):
        return others
    return (*others, labels)


def _with_job(
    first: Mapping[str, str], others: tuple[Mapping[str, str], ...], number: float
) -> tuple[Mapping[str, str], ...]:
    """The further labels of one GPU with the job that a value names; 0 says that there is none."""
    if not 0 < number < _HIGHEST_ID or number != int(number):
        return others
    bare = {name: text for name, text in first.items() if name not in _HOLDERS}
    return _with_holder(first, others, {**bare, LABELS["job"][0]: f"{number:.0f}"})


def _whose(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(label_of(labels, what) for what in ("job", "namespace", "pod", "container"))
