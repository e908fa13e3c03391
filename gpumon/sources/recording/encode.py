"""From frames to the lines of a recording: only what has changed since the last sync line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon import __version__
from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.records.block import MISSING_INTEGER
from gpumon.sources.recording.records import TABLES, pack

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame, QueueRecords

    Numbers = list[float | int | None]

FORMAT: Final = "gpumon-recording"
VERSION: Final = 1
"""Major version of the format: within one, changes only add."""

DECIMALS: Final = {"ratio": 5, "W": 2, "C": 2, "MHz": 1, "bytes": 0, "bytes/s": 0, "s": 6}
"""Decimals of a stored gauge or rate, by unit: finer than any counter that they come from.

Units that are not named have six. Integers are stored whole.
"""


class _KnownBlock(NamedTuple):
    """What the reader knows of one block."""

    block: Block
    numbers: dict[str, Numbers]


class Encoder:
    """Makes the lines of one recording, and remembers what its reader knows already."""

    def __init__(self) -> None:
        """The reader knows nothing."""
        self._blocks: dict[tuple[str, str], dict[str, _KnownBlock]] = {}
        self._records: dict[tuple[str, str], dict[str, Any]] = {}
        self._queues: dict[str, Frame] = {}

    def header(self, at: float, period_s: float, targets: Sequence[str]) -> bytes:
        """First line of a file, and of everything that is appended to it later."""
        self._forget()
        units = {key: field.unit for key, field in CATALOGUE.items()}
        return line(
            kind="header",
            format=FORMAT,
            version=VERSION,
            tool=f"gpumon {__version__}",
            started_at=at,
            period_s=period_s,
            targets=list(targets),
            units=units,
        )

    def sync(self, at: float) -> bytes:
        """Lines from which on a reader needs nothing that comes before them.

        The last state of the queues is written again: the next answer may be a minute away.
        """
        self._forget()
        queues = [
            line(
                kind="queue",
                origin=origin,
                node=frame.node,
                at=frame.taken_at,
                queue=self._queue(origin, frame.queue),
            )
            for origin, frame in self._queues.items()
            if frame.queue is not None
        ]
        return line(kind="sync", at=at) + b"".join(queues)

    def end_tick(self, at: float, period_s: float) -> bytes:
        """Line with the time of the tick that was made of all frames since the last such line."""
        return line(kind="beat", at=at, period_s=period_s)

    def lost(self, at: float, ticks: int) -> bytes:
        """Line with the number of ticks that were not recorded since the tick before."""
        return line(kind="lost", at=at, pictures=ticks)

    def frame(self, frame: Frame) -> bytes:
        """One frame's line."""
        message: dict[str, Any] = {
            "kind": "frame",
            "origin": frame.origin,
            "node": frame.node,
            "at": frame.taken_at,
            "late_s": frame.lateness_s,
        }
        known = self._blocks.setdefault((frame.origin, frame.node), {})
        blocks: dict[str, Any] = {}
        for name, block in frame.blocks.items():
            change, known[name] = _block(block, known.get(name))
            if change:
                blocks[name] = change
        gone = [name for name in known if name not in frame.blocks]
        for name in gone:
            del known[name]
        optional = {
            "blocks": blocks,
            "gone": gone,
            "host_names": list(frame.host_names),
            "errors": [error._asdict() for error in frame.errors],
            "left": frame.is_left,
            "stale_after_s": frame.stale_after_s,
        }
        message |= {name: value for name, value in optional.items() if value}
        if frame.over_at is not None:
            message["over_at"] = frame.over_at
        if frame.queue is not None:
            self._queues[frame.origin] = frame
            message["queue"] = self._queue(frame.origin, frame.queue)
        return line(**message)

    def _forget(self) -> None:
        self._blocks.clear()
        self._records.clear()

    def _queue(self, origin: str, queue: QueueRecords) -> dict[str, Any]:
        # JSON has no NaN, which means that one of them has not been reported yet.
        times = {"jobs_at": queue.jobs_at, "nodes_at": queue.nodes_at}
        made: dict[str, Any] = {name: None if at != at else at for name, at in times.items()}
        if queue.is_filtered:
            made["is_filtered"] = True
        if queue.cluster:
            made["cluster"] = queue.cluster
        for table, (_, name) in TABLES.items():
            records = getattr(queue, table)
            found: dict[str, Any] = {}
            for record in records:
                identity = getattr(record, name)
                # Two of one name would hide each other; no queue lists them, yet none is lost.
                found[identity if identity not in found else f"{identity}#{len(found)}"] = record
            known = self._records.get((origin, table))
            changed = {
                identity: pack(record)
                for identity, record in found.items()
                if known is None or known.get(identity) != record
            }
            if changed:
                made[table] = changed
            if known is None or list(known) != list(found):
                made[f"{table}_order"] = list(found)
            self._records[origin, table] = found
        return made


def line(**message: Any) -> bytes:  # noqa: ANN401 - what JSON can hold
    """One line of a recording."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def rounded(key: str, column: array[float] | array[int]) -> Numbers:
    """The column's numbers as they are recorded: None where missing, with meaningful decimals."""
    if column.typecode == "q":
        return [None if value == MISSING_INTEGER else value for value in column]
    field = CATALOGUE.get(key)
    decimals = DECIMALS.get(field.unit, 6) if field else 6
    limit = float("inf")
    if decimals == 0:
        return [round(value) if -limit < value < limit else None for value in column]
    return [round(value, decimals) if -limit < value < limit else None for value in column]


def _block(block: Block, known: _KnownBlock | None) -> tuple[dict[str, Any], _KnownBlock]:
    """What of a block is new to the reader, empty where nothing is, and what it knows then."""
    is_same = known is not None and known.block.keys == block.keys
    if known is None or not is_same:
        numbers = {key: rounded(key, column) for key, column in block.columns.items()}
        whole: dict[str, Any] = {"keys": list(block.keys)}
        parts = {
            "columns": numbers,
            "labels": {label: list(texts) for label, texts in block.labels.items()},
            "missing": _reasons(block),
        }
        whole |= {name: part for name, part in parts.items() if part}
        return whole, _KnownBlock(block, numbers)
    if known.block is block:
        return {}, known
    known_numbers, known_columns = known.numbers, known.block.columns
    numbers, columns = dict(known_numbers), {}
    for key, column in block.columns.items():
        before = known_columns.get(key)
        if before is column or (before is not None and before.tobytes() == column.tobytes()):
            continue
        now = numbers[key] = rounded(key, column)
        if now != known_numbers.get(key):
            columns[key] = _change(key, now, known_numbers.get(key))
    labels = {
        label: list(texts)
        for label, texts in block.labels.items()
        if known.block.labels.get(label) != texts
    }
    gone = [key for key in known_columns if key not in block.columns]
    for key in gone:
        del numbers[key]
    gone += [label for label in known.block.labels if label not in block.labels]
    change: dict[str, Any] = {"columns": columns, "labels": labels, "gone": gone}
    change = {name: part for name, part in change.items() if part}
    if known.block.missing != block.missing:
        change["missing"] = _reasons(block)
    return change, _KnownBlock(block, numbers)


def _change(key: str, now: Numbers, before: Numbers | None) -> Numbers | dict[str, Numbers]:
    """A counter's growth, which is shorter than the counter; anything else as it is."""
    field = CATALOGUE.get(key)
    if field is None or field.kind is not Kind.COUNTER or before is None:
        return now
    grown: Numbers = []
    for new, old in zip(now, before, strict=True):
        if new is None or old is None:
            return now
        grown.append(new - old)
    return {"plus": grown}


def _reasons(block: Block) -> dict[str, dict[str, list[int]]]:
    """Why values are missing: rows by field and reason."""
    reasons: dict[str, dict[str, list[int]]] = {}
    for (field, row), reason in block.missing.items():
        reasons.setdefault(field, {}).setdefault(str(reason), []).append(row)
    return reasons
