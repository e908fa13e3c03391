"""Makes of one look the blocks of each node, as of its own page; remembers what was before.

A node is read anew only when it has told something new: what a counter grew by is divided by the
time between two samples, not by that between two looks.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.model.staleness import stale_after_s
from gpumon.sources.exporters.dcgm import HUNG_S, NodeMemory, Reading, hung_error
from gpumon.sources.exporters.series_layout import LABELS, label_of, plans_of
from gpumon.sources.exposition.parse import Page, Sample
from gpumon.sources.prometheus.alike import (
    MANY,
    Formed,
    Spot,
    batches,
    columns_of,
    form_of,
    side_by_side,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from gpumon.sources.exporters.series_layout import NodePlan
    from gpumon.sources.prometheus.alike import Columns, Form, Sheet
    from gpumon.sources.prometheus.known import Key
    from gpumon.sources.prometheus.questions import Seen

MOST_NODES: Final = 16384
"""Nodes of one server: the largest sites have some ten thousand."""

FORGOTTEN_S: Final = 3600.0
"""A node that has told nothing for so long is no longer missed, as no screen shows it any more."""

UNKNOWN_INTERVAL_S: Final = 60.0
"""Taken for the time between two samples where there are not two: Prometheus' own default."""

UNNAMED: Final = "unnamed"
"""What a node is called that no label names."""

_OF_PARTS: Final = (*LABELS["instance"], *LABELS["profile"])


class Told(NamedTuple):
    """What one look tells of one node."""

    node: str
    reading: Reading
    age_s: float
    """Of its newest sample."""


class Nodes:
    """Every node that a server has told of."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._readers: dict[str, _NodeReader] = {}
        self._forms: dict[Form, Formed] = {}
        self._places: dict[int, _Place] = {}
        """What labels that live say of host and number: nearly all are those of the last look."""

    def read(self, seen: Seen, now: float, limit_s: float) -> tuple[list[Told], list[SourceError]]:
        """What a look tells of each node, and what is said of those it tells nothing of any more.

        Args:
            seen: The look.
            now: Unix time on our own clock.
            limit_s: Age from which on a sample is not of the present.
        """
        hosts: dict[str, list[tuple[int, str, Key]]] = {}
        beyond: set[str] = set()
        old: dict[str, float] = {}
        for key, (labels, told_at, _) in seen.known.items():
            place = self._places.get(id(labels))
            if place is None or place.labels is not labels:
                place = self._places[id(labels)] = _place_of(labels)
            _, host, digits, number = place
            if seen.asked_at - told_at > limit_s:
                old[host] = told_at
                continue
            some = hosts.get(host)
            if some is None:
                if len(hosts) >= MOST_NODES:
                    beyond.add(host)
                    continue
                some = hosts[host] = []
            some.append((digits, number, key))
        if len(self._places) > 2 * len(seen.known):
            # Most of them no series has any more.
            self._places.clear()
        look, readers = _Look(seen), []
        alike: dict[Sheet, list[_NodeReader]] = {}
        for host, places in sorted(hosts.items()):
            reader = self._readers.get(host)
            if reader is None:
                reader = self._readers[host] = _NodeReader(host, self._forms)
            # In the order of their numbers, as that of UUIDs differs from node to node.
            reader.hear(look, [key for *_, key in sorted(places)])
            readers.append(reader)
            if (sheet := reader.sheet) is not None:
                alike.setdefault(sheet, []).append(reader)
        for sheet, several in alike.items():
            if len(several) >= MANY:
                look.read_together(several, sheet)
        told = [reader.told(look, now) for reader in readers]
        errors = self._missed(seen, old, hosts.keys() | beyond)
        if beyond:
            text = f"reports more than {MOST_NODES:,} nodes; {len(beyond):,} are left out"
            errors.append(SourceError("", text, "ask a server that holds only some of them"))
        return told, errors

    def remember(self, told: Iterable[tuple[Key, tuple[float, str, int]]], seen: Seen) -> None:
        """Take in Xids of the past, of nodes that are known: GPU; Unix time, UUID, number."""
        hosts: dict[str, list[tuple[float, str, int]]] = {}
        for key, xid in told:
            one = seen.known.get(key)
            if one is not None:
                hosts.setdefault(label_of(one.labels, "host") or UNNAMED, []).append(xid)
        for host, xids in hosts.items():
            if host in self._readers:
                self._readers[host].remember(xids)

    def _missed(self, seen: Seen, old: dict[str, float], present: Set[str]) -> list[SourceError]:
        """What is said of nodes without a present sample; `old` says when others were told of."""
        missed = old | {host: reader.told_at for host, reader in self._readers.items()}
        errors = []
        for host, told_at in sorted(missed.items()):
            age_s = seen.asked_at - told_at
            if host in present:
                continue
            if age_s > FORGOTTEN_S:
                self._readers.pop(host, None)
                continue
            text = "the server has no present sample of its GPUs"
            hint = "look at the server's targets: dcgm-exporter or its node may be down"
            errors.append(SourceError(host, text, hint))
        return errors


def frames_of(
    told: Sequence[Told],
    url: str,
    now: float,
    work_s: float,
    limit_s: float,
    remarks: tuple[SourceError, ...] = (),
) -> tuple[Frame, ...]:
    """A frame of each node, as old as its newest sample.

    Args:
        told: What a look tells.
        url: Origin of the frames.
        now: Unix time on our own clock.
        work_s: What the look took.
        limit_s: Age from which on a sample is not of the present.
        remarks: What is odd about the whole, which is told once.
    """
    frames = []
    for number, one in enumerate(told):
        reading = one.reading
        errors = reading.errors if number else (*reading.errors, *remarks)
        names = (reading.host_name,) if reading.host_name else ()
        taken_at = now - max(0.0, one.age_s)
        frame = Frame(
            origin=url,
            node=one.node,
            taken_at=taken_at,
            lateness_s=work_s,
            blocks=reading.blocks,
            errors=errors,
            queue=None,
            host_names=names,
        )
        frames.append(frame._replace(stale_after_s=limit_s))
    return tuple(frames)


def limit_of(interval_s: float | None, period_s: float, beat_s: float) -> float:
    """Age from which on a sample is not of the present.

    A node that has ended is stale within two of its own intervals, or of our periods where these
    are longer; nobody is stale because the server is asked more seldom than that.

    Args:
        interval_s: Between two samples; None: nobody knows.
        period_s: What the user asked for.
        beat_s: Between two looks.
    """
    interval_s = interval_s or UNKNOWN_INTERVAL_S
    two_s = 2.0 * max(interval_s, period_s)
    return max(two_s, interval_s + 1.5 * beat_s, stale_after_s(0.0))


MOST_FORMS: Final = 256
"""Kinds of nodes that are remembered: a fleet has a few, by number of GPUs, make and exporter."""


class _Place(NamedTuple):
    """What labels say of where a GPU is."""

    labels: Mapping[str, str]
    host: str
    digits: int
    number: str
    """Of the GPU on the node, and how many digits it has."""


def _place_of(labels: Mapping[str, str]) -> _Place:
    number = label_of(labels, "index") or ""
    return _Place(labels, label_of(labels, "host") or UNNAMED, len(number), number)


def _again(seen: Seen, key: Key, labels: Mapping[str, str]) -> Sample:
    """A value of a GPU as the series of somebody else on it tells it."""
    found = ((name, column.get(key)) for name, column in seen.values.items())
    name, value = next((name, value) for name, value in found if value is not None)
    return Sample(name=name, labels=labels, value=value, told_at=None, place=None)


class _Look:
    """One look, its metrics by number."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.names = tuple(seen.values)
        columns = [*seen.values.values()]
        rows = {id(column.rows): column.rows for column in columns}
        numbers = {one: number for number, one in enumerate(rows)}
        self.rows = [*rows.values()]
        """Where each GPU stands; nearly always one for all metrics."""
        self.which = [numbers[id(column.rows)] for column in columns]
        """Which of them is that of each metric."""
        self.values = [column.values for column in columns]

    def read_together(self, readers: Sequence[_NodeReader], sheet: Sheet) -> None:
        """Give nodes of one form their values and columns, made of all at once."""
        values = [np.asarray(some, np.float64) for some in self.values]
        needed = {self.which[metric] for metric, _, _ in sheet.takes}
        for begin, end in batches(len(readers)):
            part = readers[begin:end]
            places = {
                which: np.array([reader.rows[which] for reader in part], np.intp)
                for which in needed
            }
            told = side_by_side(
                sheet,
                values,
                {n: places[which] for n, which in enumerate(self.which) if which in needed},
            )
            columns = columns_of(sheet, told)
            for number, reader in enumerate(part):
                reader.given = _Given(told[number].tobytes(), columns, number)


class _Given(NamedTuple):
    """What was made of a node's values together with those of others."""

    data: bytes
    """The values themselves."""
    columns: Columns
    number: int
    """Which of the nodes it is."""


class _NodeReader:
    """One node, as its own page would tell it."""

    def __init__(self, host: str, forms: dict[Form, Formed]) -> None:
        self._host = host
        self._forms = forms
        """Shared by all nodes of a server."""
        self.told_at = 0.0
        self.rows: list[list[int | None]] = []
        """Where the values of its GPUs stand, of each order of the look."""
        self.given: _Given | None = None
        self._names: tuple[str, ...] = ()
        self._gaps: Sequence[object] = ()
        """How many places there are, and of each metric those that it tells nothing of."""
        self._labels: list[Mapping[str, str]] = []
        self._plan: NodePlan | None = None
        self._spots: Sequence[Spot] = ()
        self._formed: Formed | None = None
        self._memory = NodeMemory()
        self._data = b""
        self._changed_at = 0.0
        self._last: Reading | None = None

    @property
    def sheet(self) -> Sheet | None:
        """How it is read together with others; None: only by itself."""
        return None if self._formed is None or self._memory.counts else self._formed.sheet

    def remember(self, xids: Iterable[tuple[float, str, int]]) -> None:
        """Take in Xids of the past: Unix time, UUID, number."""
        self._memory.remember(xids)

    def hear(self, look: _Look, keys: Sequence[Key]) -> None:
        """Learn which of a look's values are its own."""
        seen = look.seen
        known = [seen.known[key] for key in keys]
        self.told_at = max(one.told_at for one in known)
        labels = [one.labels for one in known]
        # Each who shares a GPU tells of it once more.
        shared = [
            (key, other) for key, one in zip(keys, known, strict=True) for other in one.others
        ]
        # What is told of a whole GPU stands beside what is told of its instances.
        wholes = {(key[0], ""): one.labels for key, one in zip(keys, known, strict=True) if key[1]}
        places = [*zip(keys, labels, strict=True)]
        places += [
            (key, {name: text for name, text in some.items() if name not in _OF_PARTS})
            for key, some in wholes.items()
            if key not in seen.known
        ]
        wanted = [key for key, _ in places]
        self.rows = [[*map(rows.get, wanted)] for rows in look.rows]
        gaps = [
            None if None not in rows else tuple(row is None for row in rows) for rows in self.rows
        ]
        of_metrics = (len(wanted), *(gaps[which] for which in look.which))
        labels += [other for _, other in shared]
        is_same = of_metrics == self._gaps and labels == self._labels and look.names == self._names
        if self._plan is None or not is_same:
            self._learn(look, places, [_again(seen, key, other) for key, other in shared])
            self._names, self._gaps, self._labels = look.names, of_metrics, labels
            self._data = b""

    def told(self, look: _Look, now: float) -> Told:
        """What a look that it has heard tells of it."""
        assert self._plan is not None
        age_s = look.seen.asked_at - self.told_at
        return Told(self._host, self._reading(self._plan, look, now), age_s)

    def _learn(
        self,
        look: _Look,
        places: Sequence[tuple[Key, Mapping[str, str]]],
        further: Sequence[Sample],
    ) -> None:
        """How it is read, as the first of its kind, and which value is which of the plan's."""
        labels = [some for _, some in places]
        uuids = tuple(uuid for (uuid, _), _ in places)
        cells = [
            metric * len(places) + place
            for metric, which in enumerate(look.which)
            for place, row in enumerate(self.rows[which])
            if row is not None
        ]
        # An instance's values are its own, and a GPU's plan may hold those of several places.
        is_plain = len(set(uuids)) == len(places) and not any(part for (_, part), _ in places)
        is_plain = is_plain and not further
        form = form_of(look.names, cells, labels)
        self._formed = self._forms.get(form) if is_plain else None
        if self._formed is not None:
            self._plan, self._spots = self._formed.plan_of(labels, uuids), self._formed.spots
            return
        spots = [Spot(*divmod(cell, len(places))) for cell in cells]
        samples = [
            Sample(
                name=look.names[spot.metric],
                labels=labels[spot.place],
                value=self._value(look, spot),
                told_at=None,
                place=None,
            )
            for spot in spots
        ]
        (plan,), order, _ = plans_of(Page((*samples, *further), ()))
        self._plan, self._spots = plan, [spots[number] for number in order]
        is_known = set(plan.gpus.keys) <= {*uuids}
        if is_plain and is_known and len(self._forms) < MOST_FORMS:
            self._formed = self._forms[form] = Formed(plan, self._spots, uuids)

    def _value(self, look: _Look, spot: Spot) -> float:
        row = self.rows[look.which[spot.metric]][spot.place]
        assert row is not None
        return look.values[spot.metric][row]

    def _reading(self, plan: NodePlan, look: _Look, now: float) -> Reading:
        given, self.given = self.given, None
        values: Sequence[float]
        if given is None:
            values = [self._value(look, spot) for spot in self._spots]
            data = array("d", values).tobytes()
        else:
            values, data = array("d", given.data), given.data
        if data != self._data or self._last is None:
            self._data, self._changed_at = data, self.told_at
            is_made = given is not None and not given.columns.is_odd[given.number]
            gpus = given.columns.block(given.number, plan.gpus) if given and is_made else None
            self._last = self._memory.reading(
                plan, values, frozenset(), self.told_at, self._host, (), gpus
            )
        still_s = self.told_at - self._changed_at
        if still_s > HUNG_S and plan.counts_energy:
            return Reading(plan.host_name, {}, (hung_error(self._host, still_s),))
        return self._memory.with_events(self._last, plan, values, now)
