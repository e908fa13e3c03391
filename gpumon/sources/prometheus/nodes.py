"""Makes of one look the blocks of each node, as of its own page; remembers what was before.

A node is read anew only when it has told something new: what a counter grew by is divided by the
time between two samples, not by that between two looks.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from gpumon.model.staleness import stale_after_s
from gpumon.sources.exporters.dcgm import HUNG_S, NodeMemory, Reading, hung_error
from gpumon.sources.exporters.series_layout import LABELS, label_of, plans_of
from gpumon.sources.exposition.parse import Page, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from gpumon.sources.exporters.series_layout import NodePlan
    from gpumon.sources.prometheus.questions import Key, Seen

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
        self._forms: dict[_Form, _Formed] = {}

    def read(self, seen: Seen, now: float, limit_s: float) -> tuple[list[Told], list[SourceError]]:
        """What a look tells of each node, and what is said of those it tells nothing of any more.

        Args:
            seen: The look.
            now: Unix time on our own clock.
            limit_s: Age from which on a sample is not of the present.
        """
        hosts: dict[str, list[Key]] = {}
        beyond: set[str] = set()
        for key, one in seen.known.items():
            if seen.asked_at - one.told_at > limit_s:
                continue
            host = label_of(one.labels, "host") or UNNAMED
            if host not in hosts and len(hosts) >= MOST_NODES:
                beyond.add(host)
                continue
            hosts.setdefault(host, []).append(key)
        told = []
        for host, keys in sorted(hosts.items()):
            reader = self._readers.get(host)
            if reader is None:
                reader = self._readers[host] = _NodeReader(host, self._forms)
            # In the order of their numbers, as that of UUIDs differs from node to node.
            told.append(reader.read(seen, sorted(keys, key=lambda key: _place_of(seen, key)), now))
        errors = self._missed(seen, hosts.keys() | beyond)
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

    def _missed(self, seen: Seen, present: Set[str]) -> list[SourceError]:
        old = {label_of(one.labels, "host") or UNNAMED: one for one in seen.known.values()}
        missed = {host: reader.told_at for host, reader in self._readers.items()}
        missed = {host: one.told_at for host, one in old.items()} | missed
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


_OWN_TEXTS: Final = ("serial", "pci_bus_id")
_OWN: Final = frozenset(name for what in ("uuid", "host", *_OWN_TEXTS) for name in LABELS[what]) | {
    "instance"
}
"""Labels in which nodes that are alike differ."""

MOST_FORMS: Final = 256
"""Kinds of nodes that are remembered: a fleet has a few, by number of GPUs, make and exporter."""


class _Form(NamedTuple):
    """What nodes that are alike have in common."""

    names: tuple[str, ...]
    cells: tuple[int, ...]
    labels: tuple[tuple[tuple[str, str], ...], ...]
    """Of each place, without those in which they differ."""
    own: tuple[tuple[str, ...], ...]
    """Which texts of its own each place has."""


class _Formed(NamedTuple):
    """How one of them is read."""

    plan: NodePlan
    order: Sequence[int]
    uuids: tuple[str, ...]
    """Of each place."""


def _place_of(seen: Seen, key: Key) -> tuple[int, str, Key]:
    index = label_of(seen.known[key].labels, "index") or ""
    return len(index), index, key


def _again(seen: Seen, key: Key, labels: Mapping[str, str]) -> Sample:
    """A value of a GPU as the series of somebody else on it tells it."""
    found = ((name, column.get(key)) for name, column in seen.values.items())
    name, value = next((name, value) for name, value in found if value is not None)
    return Sample(name=name, labels=labels, value=value, told_at=None, place=None)


def _alike(formed: _Formed, labels: Sequence[Mapping[str, str]], uuids: Sequence[str]) -> NodePlan:
    """The plan of a node that is like another one: all but names and labels is one for both."""
    plan = formed.plan
    renamed = dict(zip(formed.uuids, uuids, strict=True))
    of_uuid = dict(zip(uuids, labels, strict=True))
    gpus = plan.gpus
    keys = tuple(renamed[uuid] for uuid in gpus.keys)
    own = {label: tuple(label_of(of_uuid[uuid], label) for uuid in keys) for label in _OWN_TEXTS}
    host = label_of(labels[0], "host") or ""
    named = {**plan.labels, "host_name": (host,)} if host else plan.labels
    return plan._replace(
        host_name=host,
        gpus=gpus._replace(keys=keys, labels={**gpus.labels, **own}),
        labels=named,
        xids={renamed[uuid]: place for uuid, place in plan.xids.items()},
    )


class _NodeReader:
    """One node, as its own page would tell it."""

    def __init__(self, host: str, forms: dict[_Form, _Formed]) -> None:
        self._host = host
        self._forms = forms
        """Shared by all nodes of a server."""
        self.told_at = 0.0
        self._names: tuple[str, ...] = ()
        self._cells: list[int] = []
        """Which values there are: the number of the metric times that of its places, and the place
        among them."""
        self._labels: list[Mapping[str, str]] = []
        self._plan: NodePlan | None = None
        self._order: Sequence[int] = ()
        self._memory = NodeMemory()
        self._data = b""
        self._changed_at = 0.0
        self._last: Reading | None = None

    def remember(self, xids: Iterable[tuple[float, str, int]]) -> None:
        """Take in Xids of the past: Unix time, UUID, number."""
        self._memory.remember(xids)

    def read(self, seen: Seen, keys: Sequence[Key], now: float) -> Told:
        """What a look tells of it."""
        self.told_at = max(seen.known[key].told_at for key in keys)
        labels = [seen.known[key].labels for key in keys]
        # Each who shares a GPU tells of it once more.
        shared = [(key, other) for key in keys for other in seen.known[key].others]
        # What is told of a whole GPU stands beside what is told of its instances.
        wholes = {(uuid, ""): seen.known[uuid, part].labels for uuid, part in keys if part}
        places = [*zip(keys, labels, strict=True)]
        places += [
            (key, {name: text for name, text in some.items() if name not in _OF_PARTS})
            for key, some in wholes.items()
            if key not in seen.known
        ]
        names = tuple(seen.values)
        cells: list[int] = []
        values: list[float] = []
        number = 0
        wanted = [key for key, _ in places]
        rows: dict[int, list[int | None]] = {}
        for column in seen.values.values():
            found = rows.get(id(column.rows))
            if found is None:
                found = rows[id(column.rows)] = [*map(column.rows.get, wanted)]
            for row in found:
                if row is not None:
                    cells.append(number)
                    values.append(column.values[row])
                number += 1
        labels += [other for _, other in shared]
        is_same = cells == self._cells and labels == self._labels and names == self._names
        plan = self._plan
        if plan is None or not is_same:
            further = [_again(seen, key, other) for key, other in shared]
            plan, self._order = self._planned(names, cells, values, places, further)
            self._plan, self._names, self._cells, self._labels = plan, names, cells, labels
            self._data = b""
        values = [values[number] for number in self._order]
        age_s = seen.asked_at - self.told_at
        return Told(self._host, self._reading(plan, values, now), age_s)

    def _planned(
        self,
        names: tuple[str, ...],
        cells: Sequence[int],
        values: Sequence[float],
        places: Sequence[tuple[Key, Mapping[str, str]]],
        further: Sequence[Sample],
    ) -> tuple[NodePlan, Sequence[int]]:
        """How it is read, as the first of its kind, and the numbers of the values in order."""
        labels = [some for _, some in places]
        uuids = tuple(uuid for (uuid, _), _ in places)
        # An instance's values are its own, and a GPU's plan may hold those of several places.
        is_plain = len(set(uuids)) == len(places) and not any(part for (_, part), _ in places)
        is_plain = is_plain and not further
        form = _Form(
            names,
            tuple(cells),
            tuple(
                tuple(sorted(pair for pair in some.items() if pair[0] not in _OWN))
                for some in labels
            ),
            tuple(
                tuple(name for name in _OWN_TEXTS if label_of(some, name) is not None)
                for some in labels
            ),
        )
        formed = self._forms.get(form) if is_plain else None
        if formed is not None:
            return _alike(formed, labels, uuids), formed.order
        samples = []
        for cell, value in zip(cells, values, strict=True):
            metric, place = divmod(cell, len(places))
            samples.append(
                Sample(
                    name=names[metric], labels=labels[place], value=value, told_at=None, place=None
                )
            )
        (plan,), order, _ = plans_of(Page((*samples, *further), ()))
        is_known = set(plan.gpus.keys) <= {*uuids}
        if is_plain and is_known and len(self._forms) < MOST_FORMS:
            self._forms[form] = _Formed(plan, order, uuids)
        return plan, order

    def _reading(self, plan: NodePlan, values: Sequence[float], now: float) -> Reading:
        data = array("d", values).tobytes()
        if data != self._data or self._last is None:
            self._data, self._changed_at = data, self.told_at
            self._last = self._memory.reading(
                plan, values, frozenset(), self.told_at, self._host, ()
            )
        still_s = self.told_at - self._changed_at
        if still_s > HUNG_S and plan.counts_energy:
            return Reading(plan.host_name, {}, (hung_error(self._host, still_s),))
        return self._memory.with_events(self._last, plan, values, now)
