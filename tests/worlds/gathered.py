"""A scene as a server with Prometheus' interface has gathered it from exporters' pages.

The samples of a scene are written as pages of dcgm-exporter, those of each node in turn, and kept
as series. A question is answered as the two servers do that the lab runs: `max by` over the newest
sample within the lookback, which is five minutes, for a range of VictoriaMetrics little more than
the distance of two samples.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left, bisect_right
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from gpumon.detect.scene import Scene
from gpumon.sources.exporters.gpu_names import METRICS
from gpumon.sources.exposition.parse import parse
from gpumon.sources.prometheus.response import opened
from tests.bench.roads import COLLECTED_S, names_told, page_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.model.records.block import Block
    from gpumon.model.records.tick import Tick
    from gpumon.sources.exposition.parse import Sample
    from gpumon.sources.prometheus.cut import Orders
    from gpumon.sources.prometheus.response import Answer

LOOKBACK_S: Final = 300.0
"""A value is given for so long (Prometheus' `--query.lookback-delta`, and VictoriaMetrics' step of
an instant query)."""

XIDS: Final = "DCGM_FI_DEV_XID_ERRORS"

_ASKED: Final = re.compile(
    r"max by \(([^)]*)\) \((timestamp|last_over_time)?\(?(\w+)(?:\[([0-9]+)s\])?\)?\)"
)
_RAW: Final = re.compile(r"(\w+)\{(\w+)=~\"([^\"]*)\"\}\[([0-9]+)s\]")


class Series(NamedTuple):
    """The samples of one series."""

    name: str
    labels: Mapping[str, str]
    times: array[float]
    values: array[float]

    def newest(self, at: float, back_s: float) -> int | None:
        """The number of the newest sample that is given at a time; None: none is."""
        place = bisect_right(self.times, at) - 1
        return place if place >= 0 and self.times[place] >= at - back_s else None


class Watched(NamedTuple):
    """A scene, and every tick of it."""

    scene: Scene
    ticks: list[Tick]


def watched(make: Callable[[], Scene]) -> Watched:
    """Make a scene and store what a probe reported of it."""
    ticks: list[Tick] = []
    make_tick = Scene._sampled

    def recorded(self: Scene, stale: frozenset[str]) -> Tick:
        ticks.append(make_tick(self, stale))
        return ticks[-1]

    with patch.object(Scene, "_sampled", recorded):
        scene = make()
    return Watched(scene, ticks)


def interval_of(ticks: list[Tick]) -> float:
    """Time between two samples that a server has of a scene: dcgm-exporter collects no oftener."""
    return max(COLLECTED_S, ticks[-1].period_s)


class NodePage(NamedTuple):
    """A page as it was read."""

    at: float
    node: str
    page: bytes


def pages_of(ticks: list[Tick], names: Mapping[str, str] | None = None) -> Iterator[NodePage]:
    """The pages of a scene as they are read: one node a period, as servers spread their work.

    Args:
        ticks: The states of the fleet.
        names: Which metrics the pages hold; None: all that gpumon knows.
    """
    chosen = names_told(is_all=True) if names is None else names
    read_at: dict[str, float] = {}
    interval_s = interval_of(ticks)
    every = round(interval_s / ticks[-1].period_s)
    # While nothing changes blocks are the same objects, and so are pages.
    pages: dict[tuple[str, int, int, frozenset[str]], bytes] = {}
    for number, tick in enumerate(ticks):
        for place, (node, one) in enumerate(tick.nodes.items()):
            is_due = tick.at - read_at.get(node, -inf) >= interval_s - 1e-6
            is_first = node not in read_at and number < every and number < len(ticks) - 1
            # The last page of the first node has the scene's last word, which may be an event.
            is_turn = not is_first or (len(ticks) - 1 - number - place) % every == 0
            gpus, events = one.blocks.get("gpu"), one.blocks.get("event")
            stale = frozenset(uuid for uuid in one.gpu_uuids if tick.gpus[uuid].is_stale)
            if one.taken_at != tick.at or gpus is None or not (is_due and is_turn):
                continue
            read_at[node] = tick.at
            key = node, id(gpus), id(events), stale
            if key not in pages:
                gpus = _without(gpus, stale)
                gpus = _without(gpus, stale)
                pages[key] = page_of(gpus, node, chosen) + _xids(gpus, events, node)
            yield NodePage(tick.at, node, pages[key])


def gathered(ticks: list[Tick], names: Mapping[str, str] | None = None) -> list[Series]:
    """The series that a server has of a scene; `names` as of `pages_of`."""
    found: dict[str, Series] = {}
    read: dict[int, list[tuple[str, Sample]]] = {}
    for at, node, page in pages_of(ticks, names):
        samples = read.get(id(page))
        if samples is None:
            samples = [(f"{s.name}{sorted(s.labels.items())}", s) for s in parse(page).samples]
            read[id(page)] = samples
        for text, sample in samples:
            series = found.get(text)
            if series is None:
                labels = {**sample.labels, "instance": f"{node}:9400", "job": "dcgm"}
                series = found[text] = Series(sample.name, labels, array("d"), array("d"))
            series.times.append(at)
            series.values.append(sample.value)
    return list(found.values())


def _without(block: Block, stale: frozenset[str]) -> Block:
    """The block without the GPUs that report nothing."""
    if not stale:
        return block
    rows = [row for row, uuid in enumerate(block.keys) if uuid not in stale]
    return block._replace(
        keys=tuple(block.keys[row] for row in rows),
        columns={
            key: array(column.typecode, [column[row] for row in rows])
            for key, column in block.columns.items()
        },
        labels={key: tuple(texts[row] for row in rows) for key, texts in block.labels.items()},
        missing={
            (key, rows.index(row)): why for (key, row), why in block.missing.items() if row in rows
        },
    )


def _xids(gpus: Block, events: Block | None, node: str) -> bytes:
    """The last Xid of each GPU, 0 for none, as dcgm-exporter reports it."""
    last = dict.fromkeys(gpus.keys, 0)
    for row, key in enumerate(events.keys if events else ()):
        assert events is not None
        xid = events.value("xid", row)
        if xid is not None and key.partition("/")[0] in last:
            last[key.partition("/")[0]] = int(xid)
    lines = [
        f'{XIDS}{{gpu="{number}",UUID="{uuid}",Hostname="{node}"}} {xid}\n'
        for number, (uuid, xid) in enumerate(last.items())
    ]
    return "".join(lines).encode()


class Server:
    """Answers questions about series as one of the two programs does."""

    def __init__(self, series: list[Series], now: float, *, is_victoria: bool) -> None:
        self.series = series
        self.now = now
        self._is_victoria = is_victoria
        self._by_name: dict[str, list[Series]] = {}
        for one in series:
            self._by_name.setdefault(one.name, []).append(one)

    def renew(self) -> None:
        """Nothing lets anybody in here."""

    async def ask(
        self, path: str, params: Mapping[str, str], orders: Orders | None = None
    ) -> Answer:
        """What it answers, opened as a client does."""
        return opened(self.body(path, params), 200, orders)

    def body(self, path: str, params: Mapping[str, str]) -> bytes:
        """What it answers."""
        data: Any
        if path == "label/__name__/values":
            begin, end = float(params["start"]), float(params["end"])
            data = sorted(
                {
                    one.name
                    for one in self.series
                    if bisect_left(one.times, begin) < bisect_right(one.times, end)
                }
            )
        elif path == "query_range":
            data = {"resultType": "matrix", "result": self._range(params)}
        elif params["query"] == "time()":
            data = {"resultType": "scalar", "result": [self.now, f"{self.now:.3f}"]}
        elif raw := _RAW.fullmatch(params["query"]):
            data = {"resultType": "matrix", "result": self._raw(raw, float(params["time"]))}
        else:
            data = {"resultType": "vector", "result": self._instant(params)}
        return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()

    def _raw(self, asked: re.Match[str], at: float) -> list[dict[str, Any]]:
        name, label, some, back = asked.groups()
        found = []
        for one in self._by_name.get(name, ()):
            if not re.fullmatch(some, one.labels.get(label, "")):
                continue
            low, high = bisect_left(one.times, at - float(back)), bisect_right(one.times, at)
            values = [[one.times[n], repr(one.values[n])] for n in range(low, high)]
            if values:
                found.append({"metric": {"__name__": name} | dict(one.labels), "values": values})
        return found

    def _instant(self, params: Mapping[str, str]) -> list[dict[str, Any]]:
        at = float(params["time"])
        return [
            {"metric": labels, "value": [at, repr(values[at])]}
            for labels, values in self._grouped(params["query"], [at], LOOKBACK_S)
        ]

    def _range(self, params: Mapping[str, str]) -> list[dict[str, Any]]:
        begin, end, step = (float(params[name]) for name in ("start", "end", "step"))
        times = [begin + n * step for n in range(int((end - begin) / step + 1e-6) + 1)]
        back_s = LOOKBACK_S
        if self._is_victoria:
            back_s = max(step, *map(_victorias_lookback_s, self.series))
        return [
            {"metric": labels, "values": [[at, repr(value)] for at, value in values.items()]}
            for labels, values in self._grouped(params["query"], times, back_s)
        ]

    def _grouped(
        self, question: str, times: list[float], back_s: float
    ) -> Iterator[tuple[dict[str, str], dict[float, float]]]:
        asked = _ASKED.fullmatch(question)
        assert asked, question
        by, is_time, name = asked[1].split(","), asked[2] == "timestamp", asked[3]
        back_s = float(asked[4] or back_s)
        best: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
        for one in self._by_name.get(name, ()):
            key = tuple((label, one.labels[label]) for label in by if one.labels.get(label))
            for at in times:
                place = one.newest(at, back_s)
                if place is not None:
                    value = one.times[place] if is_time else one.values[place]
                    by_time = best.setdefault(key, {})
                    by_time[at] = max(by_time.get(at, value), value)
        for key, by_time in best.items():
            yield dict(key), dict(sorted(by_time.items()))


def _victorias_lookback_s(one: Series) -> float:
    """How long a value lasts in a range of VictoriaMetrics: a little longer than an interval.

    A quarter longer up to 32 s and an eighth beyond (getMaxPrevInterval in its rollup.go).
    """
    gaps = sorted(after - before for before, after in zip(one.times, one.times[1:], strict=False))
    gap_s = gaps[int(0.6 * (len(gaps) - 1))] if gaps else 0.0
    return gap_s * (1.25 if gap_s <= 32.0 else 1.125)


assert XIDS in METRICS
