"""GPUs by the labels of their series, each text of which is read once.

Of tens of thousands of series nearly all are those of the last poll, in the same order: what that
names is remembered, so that only values and times are new.
"""

from __future__ import annotations

import re
from array import array
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from gpumon.model.text import plain
from gpumon.sources.exporters.gpu_labels import (
    HOLDER_LABELS,
    HOLDERS,
    LABELS,
    OWN_POD,
    host_of,
    label_of,
    uuid_of,
)
from gpumon.sources.exporters.gpu_names import in_words_of_nvml
from gpumon.sources.exporters.series_layout import MOST_HOLDERS
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.cut import MOST_ORDERS, Orders
from gpumon.sources.prometheus.label_columns import shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from gpumon.sources.prometheus.cut import Order
    from gpumon.sources.prometheus.label_columns import LabelColumns, Labelling
    from gpumon.sources.prometheus.response import Answer

MOST_TEXTS: Final = 2**20
"""Texts of labels that are stored once each: some of every GPU that a server may have."""

_HIGHEST_ID: Final = 2**32
"""Numbers of Slurm's jobs are smaller."""

Key = tuple[str, str]
"""A GPU by its UUID, and a MIG instance of it by its number or nothing."""


class Known(NamedTuple):
    """One GPU or instance, by the labels of a series."""

    labels: Mapping[str, str]
    """Made harmless."""
    sampled_at: float
    """Unix time of the newest sample on the server's clock."""
    others: tuple[Mapping[str, str], ...] = ()
    """Labels of further series of that sample: of those who share the GPU."""


class Labelled(NamedTuple):
    """What the labels of a series name."""

    key: Key
    labels: Mapping[str, str]
    """Made harmless."""


class _Named(NamedTuple):
    """An order in which each series names a GPU, and each another one."""

    found: list[Labelled]
    keys: list[Key]
    key_set: frozenset[Key]
    labels: list[Mapping[str, str]]


class Column(NamedTuple):
    """The values of one metric."""

    rows: Mapping[Key, int]
    """The row of each one's value; the same object for all metrics with the same GPUs."""
    values: Sequence[float]

    def get(self, key: Key) -> float | None:
        """The value of a GPU; None: it has none."""
        row = self.rows.get(key)
        return None if row is None else self.values[row]


class Labels:
    """What the labels of a server's series name."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self.orders = Orders()
        """Those in which the series of a poll come."""
        self._keys: dict[str, Key | None] = {}
        """What each text of labels is about; of tens of thousands of GPUs each is read once."""
        self._labels: dict[str, Labelled | None] = {}
        """The same of texts with all labels."""
        self._texts: dict[str, str] = {}
        """Texts of labels made harmless, each once."""
        self._rows: list[tuple[list[Key], Mapping[Key, int]]] = []
        self._rows_in: WeakKeyDictionary[Order, Mapping[Key, int]] = WeakKeyDictionary()
        """The row of each GPU in answers that have every one."""
        self._named_in: WeakKeyDictionary[Order, _Named] = WeakKeyDictionary()
        """The same with all labels."""
        self._heard: list[tuple[list[str], Sequence[Labelled | None]]] = []
        """What this poll's texts with all labels name."""
        self._is_learning = False
        """Whether texts were looked up since unused ones were forgotten."""

    def begin(self) -> None:
        """A poll begins."""
        self.orders.begin()
        self._heard = []

    def column(self, answer: Answer) -> tuple[Column, int]:
        """The values of one metric, and how many series cannot be read.

        Raises:
            FetchError: They are something else.
        """
        order = response.in_order(answer)
        rows = self._rows_in.get(order[0]) if order else None
        if order and rows is not None:
            return Column(rows, order[1]), 0
        found, values, left_out = response.by_labels(answer, self._keys, keys_of)
        self._is_learning = True
        keys = [key for key in found if key is not None]
        if len(keys) < len(found):
            known = zip(found, values, strict=True)
            values = array("d", [value for key, value in known if key is not None])
        rows = self._rows_of(keys)
        if order and len(keys) == len(found):
            self._rows_in[order[0]] = rows
        return Column(rows, values), left_out

    def _rows_of(self, keys: list[Key]) -> Mapping[Key, int]:
        """The row of each one; servers list every metric in the same order, poll after poll."""
        for order, rows in self._rows:
            if order == keys:
                return rows
        rows = {key: row for row, key in enumerate(keys)}
        self._rows = [*self._rows[-MOST_ORDERS + 1 :], (keys, rows)]
        return rows

    def hear(
        self,
        answer: Answer,
        known: dict[Key, Known],
        wanted: Set[Key],
        sampled_at: float | None = None,
    ) -> tuple[int, int]:
        """Take in which GPUs an answer has, and when they were sampled.

        Args:
            answer: The answer.
            known: GPUs of earlier answers; gets these.
            wanted: Those that have values.
            sampled_at: Taken for the time of all; None: the answer's values are the times.

        Returns:
            The numbers of series that name none, and that cannot be read.

        Raises:
            FetchError: They are something else.
        """
        order = response.in_order(answer)
        named = self._named_in.get(order[0]) if order else None
        found: Sequence[Labelled | None]
        left_out = 0
        if order and named:
            found, times = named.found, _times(order[1], sampled_at)
        else:
            found, given, left_out = response.by_labels(answer, self._labels, self._labelled)
            times = _times(given, sampled_at)
            self._is_learning = True
            if order:
                named = self._remember(order[0], found)
        if answer.cut is not None:
            self._heard.append((answer.cut.labels, found))
        if named and not known and wanted >= named.key_set:
            told = zip(named.labels, times, repeat(()), strict=False)
            known.update(zip(named.keys, map(tuple.__new__, repeat(Known), told), strict=True))
            return 0, left_out
        return _take_in(found, times, known, wanted), left_out

    def _remember(self, order: Order, found: Sequence[Labelled | None]) -> _Named | None:
        """Remember what the labels of an order name; None: not each series is one GPU."""
        named = [one for one in found if one is not None]
        keys = [one.key for one in named]
        key_set = frozenset(keys)
        if len(key_set) != len(found):
            return None
        made = _Named(named, keys, key_set, [one.labels for one in named])
        self._named_in[order] = made
        return made

    def forget(self, wanted: Set[Key]) -> None:
        """Forget texts that no series has any more; `wanted` are the GPUs that have values."""
        # Each that is wanted has a text, so that of as many none is old.
        if self._is_learning and len(self._labels) > sum(len(some) for some, _ in self._heard):
            self._labels = {
                text: one
                for some, found in self._heard
                for text, one in zip(some, found, strict=False)
            }
        if self._is_learning and len(self._keys) > len(wanted):
            self._keys = {text: key for text, key in self._keys.items() if key in wanted}
        self._is_learning = False

    def _labelled(self, labels: Labelling) -> list[Labelled | None]:
        """Which GPU each labels are about, and they themselves, made harmless."""
        if len(self._texts) > MOST_TEXTS:
            self._texts.clear()
        found: list[Labelled | None] = [None] * labels.size
        for some in labels.groups:
            own = some.harmless(self._texts)
            named = zip(_keys_in(some), _with_hosts(own), strict=True)
            made = map(tuple.__new__, repeat(Labelled), named)
            for number, one in zip(some.numbers, made, strict=True):
                if one[0] is not None:
                    found[number] = one
        return found


def _with_hosts(labels: LabelColumns) -> Iterator[Mapping[str, str]]:
    """Harmless labels of each series, with the host that the server asks where none is named."""
    hosts = labels.of("host")
    if None in hosts or OWN_POD in " ".join(filter(None, hosts)):
        return map(with_host, labels.rows())
    return labels.rows()


def _times(given: array[float], sampled_at: float | None) -> array[float]:
    """When each series was sampled: as given, or one time in place of all."""
    return given if sampled_at is None else array("d", [sampled_at]) * len(given)


def _take_in(
    found: Sequence[Labelled | None],
    times: Sequence[float],
    known: dict[Key, Known],
    wanted: Set[Key],
) -> int:
    """Take in GPUs one by one, as some are known already; the number of series that name none."""
    nameless = 0
    for one, sampled_at in zip(found, times, strict=True):
        if one is None:
            nameless += 1
            continue
        key, labels = one
        before = known.get(key)
        # Of a GPU that has moved to another node the newer one counts.
        if key in wanted and (before is None or sampled_at > before.sampled_at):
            known[key] = Known(labels, sampled_at)
        elif before is not None and sampled_at == before.sampled_at:
            others = _with_holder(before.labels, before.others, labels)
            known[key] = before._replace(others=others)
    return nameless


def key_of(labels: Mapping[str, str]) -> Key | None:
    """Which GPU or instance a series is about; None where its labels do not name it."""
    uuid = uuid_of(labels)
    return (plain(uuid), plain(label_of(labels, "instance") or "")) if uuid else None


def keys_of(labels: Labelling) -> list[Key | None]:
    """The same of many series."""
    found: list[Key | None] = [None] * labels.size
    for some in labels.groups:
        for number, key in zip(some.numbers, _keys_in(some), strict=True):
            found[number] = key
    return found


def _keys_in(labels: LabelColumns) -> list[Key | None]:
    """The same of series with the same names."""
    uuids = [uuid or "" for uuid in labels.of("uuid")]
    if not all(uuid.startswith("GPU-") for uuid in uuids):
        uuids = [*map(in_words_of_nvml, uuids)]
    instances = [part or "" for part in labels.of("instance")]
    texts: dict[str, str] = {}
    pairs = zip(*(shared(some, set(some), texts) for some in (uuids, instances)), strict=True)
    return [*pairs] if all(uuids) else [pair if pair[0] else None for pair in pairs]


def harmless(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Labels made harmless, with the node's name where the page names none."""
    return with_host({plain(name): plain(text) for name, text in labels.items()})


def with_host(found: dict[str, str]) -> Mapping[str, str]:
    """Harmless labels with the host that the server asks where the page names no node."""
    host = host_of(found) or host_in(found.get("instance", ""))
    if host and host != label_of(found, "host"):
        found[LABELS["host"][0]] = host
    return found


def host_in(instance: str) -> str:
    """The host of an address that the server asks."""
    return re.sub(r":[0-9]{1,5}$", "", instance)


def _with_holder(
    first: Mapping[str, str], others: tuple[Mapping[str, str], ...], labels: Mapping[str, str]
) -> tuple[Mapping[str, str], ...]:
    """The further labels of one GPU with one more; the same where it names no new one.

    Args:
        first: The labels that the GPU is known by.
        others: Further ones of the same sample.
        labels: One more, made harmless.
    """
    whose = _whose(labels)
    known = (first, *others)
    if label_of(labels, "host") != label_of(first, "host"):
        # A UUID that two nodes report at one time is no GPU that holders share.
        return others
    if not any(whose) or len(known) >= 2 * MOST_HOLDERS or whose in map(_whose, known):
        return others
    return (*others, labels)


def with_job(
    first: Mapping[str, str], others: tuple[Mapping[str, str], ...], number: float
) -> tuple[Mapping[str, str], ...]:
    """The further labels of one GPU with the job that a value names; 0 is none."""
    if not 0 < number < _HIGHEST_ID or number != int(number):
        return others
    bare = {name: text for name, text in first.items() if name not in HOLDER_LABELS}
    return _with_holder(first, others, {**bare, LABELS["job"][0]: f"{number:.0f}"})


def _whose(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(label_of(labels, what) for what in HOLDERS)
