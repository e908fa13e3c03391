"""Makes of one poll the blocks of each node, as of its own page; remembers what was before.

A node is read again only when it has reported something new: what a counter grew by is divided by
the time between two samples, not by that between two polls.
"""

from __future__ import annotations

from array import array
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.model.staleness import stale_after_s
from gpumon.sources.exporters.dcgm import HUNG_S, NodeMemory, Reading, hung_error
from gpumon.sources.exporters.gpu_labels import LABELS, label_of
from gpumon.sources.exporters.series_layout import plans_of
from gpumon.sources.exposition.parse import Page, Sample
from gpumon.sources.prometheus.alike import (
    MANY,
    Form,
    Formed,
    Spot,
    batches,
    columns_of,
    places_of,
    side_by_side,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from gpumon.sources.exporters.series_layout import NodePlan
    from gpumon.sources.prometheus.alike import Columns, Place, Sheet
    from gpumon.sources.prometheus.known import Key, Known
    from gpumon.sources.prometheus.questions import Seen

MOST_NODES: Final = 16384
"""Nodes of one server: the largest sites have some ten thousand."""

FORGOTTEN_S: Final = 3600.0
"""A node that has been silent for so long is no longer missed, as no screen shows it any more."""

UNKNOWN_INTERVAL_S: Final = 60.0
"""Taken for the time between two samples where there are not two: Prometheus' own default."""

UNNAMED: Final = "unnamed"
"""What a node is called that no label names."""

_OF_PARTS: Final = (*LABELS["instance"], *LABELS["profile"])


class NodeReading(NamedTuple):
    """What one poll brings of one node."""

    node: str
    reading: Reading
    age_s: float
    """Of its newest sample."""


class Nodes:
    """Every node that a server has reported."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._readers: dict[str, _NodeReader] = {}
        self._forms: dict[Form, Formed] = {}
        self._places: dict[int, Place] = {}
        """What labels that live name of host and number: nearly all are those of the last poll."""
        self._seats: _Seats | None = None
        """Who reads what, where all of the last poll was of the present and nothing shared."""

    def read(
        self, seen: Seen, now: float, limit_s: float
    ) -> tuple[list[NodeReading], list[SourceError]]:
        """What a poll brings of each node, and errors of those that it brings nothing of any more.

        Args:
            seen: The poll.
            now: Unix time on our own clock.
            limit_s: Age from which on a sample is not of the present.
        """
        poll = _Poll(seen)
        readers = self._seats.again(poll, limit_s) if self._seats else None
        old: dict[str, float] = {}
        beyond: set[str] = set()
        if readers is None:
            readers, old, beyond = self._seat(poll, limit_s)
        alike: dict[Sheet, list[_NodeReader]] = {}
        for reader in readers:
            if (sheet := reader.sheet) is not None:
                alike.setdefault(sheet, []).append(reader)
        for sheet, several in alike.items():
            if len(several) >= MANY:
                poll.read_together(several, sheet)
        readings = [reader.node_reading(poll, now) for reader in readers]
        errors = self._missed(seen, old, {reader.host for reader in readers} | beyond)
        if beyond:
            text = f"reports more than {MOST_NODES:,} nodes; {len(beyond):,} are left out"
            errors.append(SourceError("", text, "ask a server that holds only some of them"))
        return readings, errors

    def _seat(
        self, poll: _Poll, limit_s: float
    ) -> tuple[list[_NodeReader], dict[str, float], set[str]]:
        """Who reads which GPUs; nodes without a present sample, and those beyond the most."""
        seen = poll.seen
        hosts: dict[str, list[tuple[int, str, Key, Place, Known]]] = {}
        beyond: set[str] = set()
        old: dict[str, float] = {}
        places = self._places_of([one.labels for one in seen.known.values()])
        for place, (key, one) in zip(places, seen.known.items(), strict=True):
            host = place.host or UNNAMED
            if seen.asked_at - one.sampled_at > limit_s:
                old[host] = one.sampled_at
                continue
            some = hosts.get(host)
            if some is None:
                if len(hosts) >= MOST_NODES:
                    beyond.add(host)
                    continue
                some = hosts[host] = []
            some.append((place.digits, place.number, key, place, one))
        readers = []
        for host, gpus in sorted(hosts.items()):
            reader = self._readers.get(host)
            if reader is None:
                reader = self._readers[host] = _NodeReader(host, self._forms)
            # In the order of their numbers, as that of UUIDs differs from node to node.
            _, _, keys, places_here, known = zip(*sorted(gpus), strict=True)
            reader.hear(poll, keys, places_here, known)
            readers.append(reader)
        is_shared = any(one.others for one in seen.known.values())
        is_plain = readers and not (old or beyond or is_shared)
        self._seats = _Seats(poll, readers, places) if is_plain else None
        return readers, old, beyond

    def _places_of(self, labels: Sequence[Mapping[str, str]]) -> list[Place]:
        """What labels name of host and number; only new ones are read."""
        known = [*map(self._places.get, map(id, labels))]
        pairs = zip(labels, known, strict=True)
        new = [some for some, place in pairs if place is None or place.labels is not some]
        if new:
            self._places.update(zip(map(id, new), places_of(new), strict=True))
            if len(self._places) > 2 * len(labels):
                # Most of them no series has any more.
                self._places = {id(some): self._places[id(some)] for some in labels}
        return [*map(self._places.__getitem__, map(id, labels))]

    def remember(self, events: Iterable[tuple[Key, tuple[float, str, int]]], seen: Seen) -> None:
        """Take in Xids of the past, of nodes that are known: GPU; Unix time, UUID, number."""
        hosts: dict[str, list[tuple[float, str, int]]] = {}
        for key, xid in events:
            one = seen.known.get(key)
            if one is not None:
                hosts.setdefault(label_of(one.labels, "host") or UNNAMED, []).append(xid)
        for host, xids in hosts.items():
            if host in self._readers:
                self._readers[host].remember(xids)

    def _missed(self, seen: Seen, old: dict[str, float], present: Set[str]) -> list[SourceError]:
        """Errors of nodes without a present sample; `old` has the times of the last of others."""
        missed = old | {host: reader.sampled_at for host, reader in self._readers.items()}
        errors = []
        for host, sampled_at in sorted(missed.items()):
            age_s = seen.asked_at - sampled_at
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
    readings: Sequence[NodeReading],
    url: str,
    now: float,
    work_s: float,
    limit_s: float,
    remarks: tuple[SourceError, ...] = (),
) -> tuple[Frame, ...]:
    """A frame of each node, as old as its newest sample.

    Args:
        readings: What a poll brings.
        url: Origin of the frames.
        now: Unix time on our own clock.
        work_s: What the poll took.
        limit_s: Age from which on a sample is not of the present.
        remarks: What is odd about the whole, which is reported once.
    """
    frames = []
    for number, one in enumerate(readings):
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


def limit_of(interval_s: float | None, period_s: float, poll_period_s: float) -> float:
    """Age from which on a sample is not of the present.

    A node that has ended is stale within two of its own intervals, or of our periods where these
    are longer; no node is stale because the server is asked more seldom than that.

    Args:
        interval_s: Between two samples; None: not known.
        period_s: What the user asked for.
        poll_period_s: Between two polls.
    """
    interval_s = interval_s or UNKNOWN_INTERVAL_S
    two_s = 2.0 * max(interval_s, period_s)
    return max(two_s, interval_s + 1.5 * poll_period_s, stale_after_s(0.0))


MOST_FORMS: Final = 256
"""Kinds of nodes that are remembered: a fleet has a few, by number of GPUs, make and exporter."""


def _again(seen: Seen, key: Key, labels: Mapping[str, str]) -> Sample:
    """A value of a GPU by the series of another holder of it."""
    found = ((name, column.get(key)) for name, column in seen.values.items())
    name, value = next((name, value) for name, value in found if value is not None)
    return Sample(name=name, labels=labels, value=value, sampled_at=None, place=None)


class _Poll:
    """One poll, its metrics by number."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.names = tuple(seen.values)
        columns = [*seen.values.values()]
        rows = {id(column.rows): column.rows for column in columns}
        numbers = {one: number for number, one in enumerate(rows)}
        self.rows = [*rows.values()]
        """The row of each GPU; nearly always one for all metrics."""
        self.which = [numbers[id(column.rows)] for column in columns]
        """Which of them is that of each metric."""
        self.values = [column.values for column in columns]
        self._cells: dict[tuple[int, tuple[object, ...]], tuple[int, ...]] = {}

    def cells_of(self, count: int, gaps: tuple[tuple[bool, ...] | None, ...]) -> tuple[int, ...]:
        """Which values so many places of a node have; most nodes have the same.

        Args:
            count: Places.
            gaps: Of each metric, which places have none; None: all have one.
        """
        cells = self._cells.get((count, gaps))
        if cells is None:
            cells = self._cells[count, gaps] = tuple(
                metric * count + place
                for metric, gap in enumerate(gaps)
                for place in range(count)
                if gap is None or not gap[place]
            )
        return cells

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
            rows = side_by_side(
                sheet,
                values,
                {n: places[which] for n, which in enumerate(self.which) if which in needed},
            )
            columns = columns_of(sheet, rows)
            for number, reader in enumerate(part):
                reader.given = _Given(rows[number].tobytes(), columns, number)


class _Seats:
    """Who reads which GPUs, for the next poll that has the same ones: nearly every one."""

    def __init__(self, poll: _Poll, readers: list[_NodeReader], places: Sequence[Place]) -> None:
        """As a poll has them, each of which a reader has heard; `places` are in its order."""
        self._of_poll = (poll.names, poll.which)
        self._rows = poll.rows
        self._readers = readers
        self._keys = [*poll.seen.known]
        self._labels = [one.labels for one in poll.seen.known.values()]
        numbers = {reader.host: number for number, reader in enumerate(readers)}
        of_gpus = [numbers[place.host or UNNAMED] for place in places]
        self._order = np.argsort(of_gpus, kind="stable")
        """GPUs, those of one reader beside one another."""
        self._firsts = np.searchsorted(np.sort(of_gpus), np.arange(len(readers)))

    def again(self, poll: _Poll, limit_s: float) -> list[_NodeReader] | None:
        """The readers, which have heard a poll; None: it has other GPUs, or old samples."""
        known = poll.seen.known
        if (poll.names, poll.which) != self._of_poll or len(known) != len(self._keys):
            return None
        # The same objects, as nothing new was read: compared one by one in no time.
        is_same = (
            all(map(is_, poll.rows, self._rows))
            and [*known] == self._keys
            and all(map(is_, (one.labels for one in known.values()), self._labels))
            and not any(one.others for one in known.values())
        )
        if not is_same:
            return None
        times = np.array([one.sampled_at for one in known.values()])
        if not (poll.seen.asked_at - times <= limit_s).all():
            return None
        newest = np.maximum.reduceat(times[self._order], self._firsts).tolist()
        for reader, sampled_at in zip(self._readers, newest, strict=True):
            reader.sampled_at = sampled_at
        return self._readers


class _Given(NamedTuple):
    """What was made of a node's values together with those of others."""

    data: bytes
    """The values themselves."""
    columns: Columns
    number: int
    """Which of the nodes it is."""


class _NodeReader:
    """One node, as its own page would report it."""

    def __init__(self, host: str, forms: dict[Form, Formed]) -> None:
        self.host = host
        self._forms = forms
        """Shared by all nodes of a server."""
        self.sampled_at = 0.0
        self.rows: list[list[int | None]] = []
        """The rows of its GPUs' values, in each order of the poll."""
        self.given: _Given | None = None
        self._names: tuple[str, ...] = ()
        self._gaps: Sequence[object] = ()
        """How many places there are, and of each metric those that it has nothing of."""
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

    def hear(
        self, poll: _Poll, keys: Sequence[Key], places: Sequence[Place], known: Sequence[Known]
    ) -> None:
        """Learn which of a poll's values are its own.

        Args:
            poll: The poll.
            keys: Its GPUs and instances, in their order.
            places: Where each of them is.
            known: What the poll has of each.
        """
        seen = poll.seen
        self.sampled_at = max([one.sampled_at for one in known])
        labels = [one.labels for one in known]
        # Each holder of a shared GPU has series of its own.
        shared = [
            (key, other) for key, one in zip(keys, known, strict=True) for other in one.others
        ]
        # Values of a whole GPU come beside those of its instances.
        wholes = {(key[0], ""): some for key, some in zip(keys, labels, strict=True) if key[1]}
        labelled = [*zip(keys, labels, strict=True)]
        labelled += [
            (key, {name: text for name, text in some.items() if name not in _OF_PARTS})
            for key, some in wholes.items()
            if key not in seen.known
        ]
        wanted = [key for key, _ in labelled]
        self.rows = [[*map(rows.get, wanted)] for rows in poll.rows]
        gaps = [
            None if None not in rows else tuple(row is None for row in rows) for rows in self.rows
        ]
        of_metrics = tuple(gaps[which] for which in poll.which)
        counted = (len(wanted), of_metrics)
        labels += [other for _, other in shared]
        is_same = counted == self._gaps and labels == self._labels and poll.names == self._names
        if self._plan is None or not is_same:
            further = [_again(seen, key, other) for key, other in shared]
            # An instance's values are its own, and a GPU's plan may hold those of several places.
            is_plain = not (wholes or further) and len({uuid for uuid, _ in keys}) == len(keys)
            self._learn(poll, labelled, of_metrics, further, places if is_plain else None)
            self._names, self._gaps, self._labels = poll.names, counted, labels
            self._data = b""

    def node_reading(self, poll: _Poll, now: float) -> NodeReading:
        """What a poll that it has heard brings of it."""
        assert self._plan is not None
        age_s = poll.seen.asked_at - self.sampled_at
        return NodeReading(self.host, self._reading(self._plan, poll, now), age_s)

    def _learn(
        self,
        poll: _Poll,
        labelled: Sequence[tuple[Key, Mapping[str, str]]],
        gaps: tuple[tuple[bool, ...] | None, ...],
        further: Sequence[Sample],
        alike: Sequence[Place] | None,
    ) -> None:
        """How it is read, as the first of its kind, and which value is which of the plan's."""
        uuids = tuple([uuid for (uuid, _), _ in labelled])
        cells = poll.cells_of(len(labelled), gaps)
        form = None
        if alike is not None:
            form = Form(poll.names, cells, tuple([place.kind for place in alike]))
        self._formed = None if form is None else self._forms.get(form)
        if self._formed is not None and alike is not None:
            self._plan, self._spots = self._formed.plan_of(alike, uuids), self._formed.spots
            return
        labels = [some for _, some in labelled]
        spots = [Spot(*divmod(cell, len(labelled))) for cell in cells]
        samples = [
            Sample(
                name=poll.names[spot.metric],
                labels=labels[spot.place],
                value=self._value(poll, spot),
                sampled_at=None,
                place=None,
            )
            for spot in spots
        ]
        (plan,), order, _ = plans_of(Page((*samples, *further), ()))
        self._plan, self._spots = plan, [spots[number] for number in order]
        is_known = set(plan.gpus.keys) <= {*uuids}
        if form is not None and is_known and len(self._forms) < MOST_FORMS:
            self._formed = self._forms[form] = Formed(plan, self._spots, uuids)

    def _value(self, poll: _Poll, spot: Spot) -> float:
        row = self.rows[poll.which[spot.metric]][spot.place]
        assert row is not None
        return poll.values[spot.metric][row]

    def _reading(self, plan: NodePlan, poll: _Poll, now: float) -> Reading:
        given, self.given = self.given, None
        values: Sequence[float]
        if given is None:
            values = [self._value(poll, spot) for spot in self._spots]
            data = array("d", values).tobytes()
        else:
            values, data = array("d", given.data), given.data
        if data != self._data or self._last is None:
            self._data, self._changed_at = data, self.sampled_at
            is_made = given is not None and not given.columns.is_odd[given.number]
            gpus = given.columns.block(given.number, plan.gpus) if given and is_made else None
            self._last = self._memory.reading(
                plan, values, frozenset(), self.sampled_at, self.host, (), gpus
            )
        still_s = self.sampled_at - self._changed_at
        if still_s > HUNG_S and plan.counts_energy:
            return Reading(plan.host_name, {}, (hung_error(self.host, still_s),))
        return self._memory.with_events(self._last, plan, values, now)
