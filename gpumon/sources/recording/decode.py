"""From the lines of a recording to frames; a file is as hostile as a node."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.base.errors import DamagedError
from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block
from gpumon.model.records.cluster import SlurmNode
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.model.text import plain
from gpumon.sources.probes.decode import MAX_INTEGER, MAX_ROWS
from gpumon.sources.recording.encode import FORMAT, VERSION
from gpumon.sources.recording.records import MAX_ITEMS, TABLES, number, text, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAN: Final = json.loads("NaN")
"""The one object that every NaN of JSON becomes, so that it is found in a list."""

_TICK_BEGIN: Final = b'{"kind":"beat"'
"""How gpumon begins the line of a tick."""

MIN_PERIOD_S: Final = 0.1
"""Shortest period of a recording, seconds: the probe's."""
MAX_PERIOD_S: Final = 86400.0
"""Longest period of a recording, seconds: a day, as the setting has it."""
OWN_TOOL: Final = "gpumon "
"""How the name of gpumon and its version begin in a header."""


class RecordingError(DamagedError):
    """A file is not a recording that can be read; the message is one line for the user."""


class LineError(DamagedError):
    """A line is not what a recorder writes."""


class Header(NamedTuple):
    """What a recording gives about itself."""

    started_at: float
    period_s: float
    targets: tuple[str, ...]
    tool: str

    @property
    def is_own(self) -> bool:
        """Whether gpumon wrote it."""
        return self.tool.startswith(OWN_TOOL)


class Sync(NamedTuple):
    """From here on nothing before counts."""

    at: float


class QueueState(NamedTuple):
    """A queue as reported before a sync line, for readers that begin there."""

    frame: Frame


class TickFrames(NamedTuple):
    """The frames that one tick was made of."""

    at: float
    """Unix time of the tick."""
    period_s: float
    frames: tuple[Frame, ...] = ()


LineContent = Header | Sync | QueueState | TickFrames | Frame
"""What one line may hold."""

_Reasons = dict[tuple[str, int], Reason]


def tick_frames_of(raw: bytes) -> TickFrames | None:
    """The tick that a line ends, as gpumon writes it; None: it is something else, or garbage."""
    if not raw.startswith(_TICK_BEGIN):
        return None
    try:
        content = Decoder().read(raw)
    except LineError:
        return None
    return content if isinstance(content, TickFrames) else None


class Decoder:
    """Turns the lines of a recording into what they hold; remembers what they leave out."""

    def __init__(self, *, is_own: bool = True) -> None:
        """Nothing has been read.

        Args:
            is_own: Whether gpumon wrote the lines, until a header says: it writes all it knows.
        """
        self._is_own = is_own
        self._blocks: dict[tuple[str, str], dict[str, Block]] = {}
        self._records: dict[tuple[str, str], dict[str, Any]] = {}
        self._reasons: dict[str, tuple[Any, int, _Reasons]] = {}
        """By block the last reasons why values are missing, and how they read: most nodes of a
        fleet lack the same."""
        self._is_lost = True

    def read(self, raw: bytes) -> LineContent | None:
        """What one line holds; None for a kind of line that is not known.

        After a line that was garbage, frames are passed over up to the next sync line, for they
        may build upon what it held.

        Raises:
            LineError: It is not what a recorder writes.
            RecordingError: It is a header of something else.
        """
        try:
            message = json.loads(raw)
            kind = message["kind"]
            if kind == "frame":
                return None if self._is_lost else self._frame(message)
            if kind == "queue":
                return None if self._is_lost else QueueState(self._earlier_queue(message))
            if kind == "beat":
                return TickFrames(number(message["at"]), _period(message["period_s"]))
            if kind not in ("header", "sync"):
                return None
            self._blocks.clear()
            self._records.clear()
            self._is_lost = False
            if kind == "sync":
                return Sync(number(message["at"]))
            header = header_of(message)
            self._is_own = header.is_own
            return header
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            self._is_lost = True
            raise LineError("it is not JSON") from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            self._is_lost = True
            raise LineError(plain(f"{type(error).__name__}: {error}", 120)) from error
        except OverflowError as error:
            self._is_lost = True
            raise LineError("a number beyond 64 bits") from error

    def _frame(self, message: dict[str, Any]) -> Frame:
        origin, node = text(message["origin"]), text(message["node"])
        known = self._blocks.setdefault((origin, node), {})
        for name in message.get("gone", ()):
            known.pop(text(name), None)
        for name, change in message.get("blocks", {}).items():
            if name in LABELS:
                known[name] = self._block(name, change, known.get(name))
        errors = tuple(
            SourceError(text(e["where"]), text(e["message"]), text(e.get("hint", "")))
            for e in message.get("errors", ())[:MAX_ITEMS]
        )
        queue = self._queue(origin, message["queue"]) if "queue" in message else None
        names = tuple(text(name) for name in message.get("host_names", ())[:MAX_ITEMS])
        at, late_s = number(message["at"]), number(message["late_s"])
        is_left = message.get("left") is True
        return Frame(
            *(origin, node, at, late_s, dict(known), errors, queue, names),
            is_left=is_left,
            stale_after_s=max(0.0, number(message.get("stale_after_s", 0.0))),
            over_at=number(message["over_at"]) if "over_at" in message else None,
        )

    def _block(self, name: str, raw: dict[str, Any], known: Block | None) -> Block:
        """The block as a line leaves it."""
        if "keys" in raw:
            keys = tuple(text(key) for key in raw["keys"])
            if len(keys) > MAX_ROWS:
                message = f"{len(keys)} rows in block {name}"
                raise ValueError(message)
            known = Block(keys, {}, {}, {})
        if known is None:
            message = f"a change of block {name}, which was not announced"
            raise ValueError(message)
        rows = len(known.keys)
        missing = known.missing
        if "missing" in raw:
            known_reasons, count, missing = self._reasons.get(name, (None, 0, {}))
            if known_reasons != raw["missing"] or count != rows:
                missing = _missing(raw["missing"], rows)
                self._reasons[name] = raw["missing"], rows, missing
        gone = {text(field) for field in raw.get("gone", ())}
        columns = {key: column for key, column in known.columns.items() if key not in gone}
        labels = {label: texts for label, texts in known.labels.items() if label not in gone}
        wrong: list[tuple[str, int]] = []
        for key, values in raw.get("columns", {}).items():
            if key in CATALOGUE and CATALOGUE[key].block == name:
                columns[key] = _column(key, values, rows, known.columns.get(key), wrong)
        for label, texts in raw.get("labels", {}).items():
            if label in LABELS[name]:
                _check_rows(label, texts, rows)
                labels[label] = tuple(None if one is None else text(one) for one in texts)
        if wrong:
            missing = {**missing, **dict.fromkeys(wrong, Reason.GARBAGE)}
        return Block(known.keys, columns, labels, missing)

    def _earlier_queue(self, message: dict[str, Any]) -> Frame:
        origin, node, at = text(message["origin"]), text(message["node"]), number(message["at"])
        return Frame(
            origin=origin, node=node, taken_at=at, queue=self._queue(origin, message["queue"])
        )

    def _queue(self, origin: str, raw: dict[str, Any]) -> QueueRecords:
        tables: dict[str, tuple[Any, ...]] = {}
        for table, (kind, _) in TABLES.items():
            known = self._records.get((origin, table), {})
            changed = raw.get(table, {})
            if not isinstance(changed, dict):
                message = f"{table} of a queue is not an object of records by name"
                raise ValueError(message)
            # Without an order new records come after those that are known.
            if kind is SlurmNode and not self._is_own:
                changed = {name: _in_order(one) for name, one in changed.items()}
            order = raw.get(f"{table}_order", known | changed)
            made = {
                name: unpack(kind, changed[name]) if name in changed else known[name]
                for name in order
            }
            self._records[origin, table] = made
            tables[table] = tuple(made.values())
        return QueueRecords(
            jobs_at=_answered_at(raw["jobs_at"]),
            nodes_at=_answered_at(raw["nodes_at"]),
            is_filtered=raw.get("is_filtered") is True,
            cluster=text(raw.get("cluster", "")),
            **tables,
        )


def _in_order(node: dict[str, Any]) -> dict[str, Any]:
    """A node of another recorder: unless it says more, its IDX are in the order of the minors.

    gpumon itself leaves the files out where Slurm does not report them: they are unknown.
    """
    count = node.get("gpu_count")
    if "gpu_files" in node or not isinstance(count, int) or not 0 < count <= MAX_ROWS:
        return node
    return {**node, "gpu_files": [f"/dev/nvidia{minor}" for minor in range(count)]}


def header_of(message: dict[str, Any]) -> Header:
    """What a header holds.

    Raises:
        RecordingError: It is none of this program's, or of a later format.
    """
    if message.get("format") != FORMAT:
        raise RecordingError("is not a recording of gpumon")
    version = message.get("version")
    if version != VERSION:
        shown = plain(str(version), 20)
        raise RecordingError(f"is a recording of format {shown}; this gpumon reads {VERSION}")
    return Header(
        number(message["started_at"]),
        _period(message["period_s"]),
        tuple(text(url) for url in message["targets"][:MAX_ITEMS]),
        text(message["tool"]),
    )


def _period(value: object) -> float:
    return min(MAX_PERIOD_S, max(MIN_PERIOD_S, number(value)))


def _missing(raw: Mapping[str, Mapping[str, list[object]]], rows: int) -> _Reasons:
    """Why values are missing, by field and row."""
    found = {}
    for field, reasons in raw.items():
        key = text(field)
        for reason, listed in reasons.items():
            why = Reason(reason)
            for row in listed:
                found[key, _row(row, rows)] = why
    return found


def _column(
    key: str,
    raw: list[Any] | dict[str, list[Any]],
    rows: int,
    known: array[float] | array[int] | None,
    wrong: list[tuple[str, int]],
) -> array[float] | array[int]:
    """The column; what lies outside the catalogue's range is dropped, and its row added."""
    field = CATALOGUE[key]
    is_integer = field.kind.is_integer
    if isinstance(raw, dict):
        grown = raw["plus"]
        _check_rows(key, grown, rows)
        if known is None:
            message = f"growth of {key}, which was not announced"
            raise ValueError(message)
        raw = [old + new for old, new in zip(known, grown, strict=True)]
    _check_rows(key, raw, rows)
    high = min(field.high, MAX_INTEGER) if is_integer else field.high
    if raw and None not in raw and _NAN not in raw and field.low <= min(raw) and max(raw) <= high:
        # Nearly all are so, and there are many.
        return array("q" if is_integer else "d", raw)
    nothing = MISSING_INTEGER if is_integer else float("nan")
    values: list[float | int] = []
    for row, value in enumerate(raw):
        if value is None:
            values.append(nothing)
        elif field.low <= value <= high:
            values.append(value)
        else:
            values.append(nothing)
            wrong.append((key, row))
    return array("q" if is_integer else "d", values)


def _answered_at(value: object) -> float:
    """Unix time of an answer, NaN where there has been none."""
    return float("nan") if value is None else number(value)


def _check_rows(what: str, values: object, rows: int) -> None:
    if not isinstance(values, list) or len(values) != rows:
        message = f"{plain(what, 40)} is not a list of {rows}"
        raise ValueError(message)


def _row(row: object, rows: int) -> int:
    if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < rows:
        message = "a row that the block does not have"
        raise ValueError(message)
    return row
