"""From a probe's line to a frame: range checks, rates from counters, reasons."""

from __future__ import annotations

import json
from array import array
from math import inf, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.base.errors import DamagedError
from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.frame import Frame
from gpumon.model.text import plain
from gpumon.sources.probes.delay import Delay
from gpumon.sources.probes.rates import DERIVED, DERIVED_OF, Rates

if TYPE_CHECKING:
    from gpumon.model.catalogue.field import Field

MAX_ROWS: Final = 65536
"""Most entities that one block may hold; a line that claims more is refused."""

MOST_ROWS: Final = {
    "gpu": 128,
    "mig": 1024,
    "link": 8192,
    "process": 16384,
    "context": 16384,
    "event": 4096,
    "cgroup": 4096,
    "nic": 256,
    "filesystem": 1024,
    "local_filesystem": 1024,
    "node": 1,
}
"""Entities that are stored of one node: eight times the GPUs of the largest machines, with 64 links
and 128 processes each. A node that claims more is hostile or broken; the first ones are read."""

MOST_ERRORS: Final = 256
"""Errors that are stored of one report: two of each GPU of the largest node. Of more the number is
reported."""

MAX_LABEL: Final = 8192
"""Longest label that is stored; the rank variables of a process fit well within."""

MAX_INTEGER: Final = 2**63 - 1
"""Largest value of an integer column."""

REPEATED: Final = ("link", "mig", "context", "process")
"""Blocks that a probe leaves out while they are as it last reported them."""

CHANGING: Final = ("gpu", "node")
"""Blocks of which a probe leaves out what is as it last reported it."""

_UNLIKE: Final = ("link", "mig")
"""Those of which few values come again when they are reported: no column of them is stored."""


_LATEST_S: Final = 2.0**53
"""No clock is later, and no reading later than this; nan is no smaller."""

_SAME_EVENT_S: Final = 5.0
"""The times of one event in two reports differ by how long these were on their way, not more."""

_CUT: Final = "no node has so many: check what answers there"

_CUT_ERRORS: Final = "the node itself has more: dmesg and nvidia-smi on it"

_REASONS: Final = {reason.value: reason for reason in Reason}

_Reasons = dict[tuple[str, int], Reason]
"""Why values are missing, by field and row."""


class GarbageError(DamagedError):
    """A line is not what a probe writes."""


_KNOWN: Final = {
    name: {
        key: key for key in (*LABELS[name], *(f.key for f in CATALOGUE.values() if f.block == name))
    }
    for name in LABELS
}
"""Fields and labels of each block: of others no reason is stored, however many there are. Frames
take these texts, not those of their lines: hundreds of remembered ticks then share them."""


_FIELDS: Final = {
    name: {key: field for key, field in CATALOGUE.items() if field.block == name} for name in LABELS
}
"""Fields of each block."""


class _Column(NamedTuple):
    """One column as a probe reported it, and what was made of it."""

    key: str
    """Of its field, as frames have it."""
    raw: list[Any]
    checked: list[float | int | None]
    packed: array[float] | array[int]


class _LastBlock:
    """The last report of one block, and what was made of it: most of it comes again."""

    def __init__(self, name: str, keys: list[Any]) -> None:
        self.known = _KNOWN[name]
        self.has_columns = name not in _UNLIKE
        self.keys = keys
        self.names = tuple(plain(str(key)) for key in keys)
        self.columns: dict[str, _Column] = {}
        self.labels: dict[str, tuple[list[Any], tuple[str | None, ...]]] = {}
        self.lacking: dict[str, Any] = {}
        self.missing: _Reasons = {}
        self._reported: _Reasons = {}

    def reasons(self, raw: dict[str, Any]) -> _Reasons:
        """Reason by field and row, in a map of its own; unknown fields are passed over.

        Raises:
            ValueError: A reason is for a row that is not there.
        """
        if raw != self.lacking:
            count = len(self.keys)
            found: _Reasons = {}
            for name, reasons in raw.items():
                field = self.known.get(name)
                if isinstance(reasons, str):
                    reason = _REASONS[reasons]
                    by_row = dict.fromkeys(range(count if field else 0), reason)
                else:
                    by_row = {int(row): _REASONS[r] for row, r in reasons.items()}
                if by_row and not 0 <= min(by_row) <= max(by_row) < count:
                    raise ValueError("a reason for a row that is not there")
                if field:
                    found.update(((field, row), reason) for row, reason in by_row.items())
            self.lacking, self.missing = raw, found
        return dict(self.missing)

    def shared(self, missing: _Reasons) -> _Reasons:
        """The map of the last report where it equals this one: remembered ticks then share it."""
        if missing != self._reported:
            self._reported = missing
        return self._reported

    def label(self, label: str, texts: list[Any]) -> tuple[str | None, ...]:
        """Texts made harmless."""
        known = self.labels.get(label)
        if known is None or known[0] != texts:
            safe = tuple(None if t is None else plain(str(t), MAX_LABEL) for t in texts)
            known = self.labels[label] = texts, safe
        return known[1]


class Decoder:
    """Turns the lines of one probe into frames; remembers its last counters."""

    def __init__(self, origin: str) -> None:
        """`origin` is the target's URL."""
        self._origin = origin
        self._rates = Rates()
        self._delay = Delay()
        self._repeated: dict[str, Block] = {}
        self._last: dict[str, _LastBlock] = {}
        self._whole: dict[str, dict[str, Any]] = {}
        """Blocks of which reports may have only what changed, as they are now."""
        self._bare: dict[str, Block] = {}
        """Blocks without any row, made once."""
        self._events: dict[str, float] = {}
        """Unix time of each event that is still reported."""
        self._cut: list[tuple[str, str]] = []
        """What this line has too much of, each with a way out."""

    def frame(self, line: bytes, node: str, now: float, heard_s: float) -> Frame:
        """Frame of one line.

        Args:
            line: One JSON object of the probe.
            node: Name under which the source knows the node; empty: the node's own host name.
            now: Unix time of its arrival.
            heard_s: The monotonic clock at its arrival.

        Raises:
            GarbageError: The line is not a report.
        """
        try:
            message = json.loads(line)
            self._cut.clear()
            blocks = {
                str(name): self._block(str(name), block)
                for name, block in message["blocks"].items()
                if name in LABELS
            }
            errors = tuple(
                SourceError(
                    plain(f"{node} {error['where']}".strip()),
                    plain(str(error["message"])),
                    plain(str(error.get("hint", ""))),
                )
                for error in self._first_errors(message["errors"])
            )
            late_s, made_s = _finite(message["late_s"]), _finite(message["at"])
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise GarbageError("a line that is not JSON") from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise GarbageError(repr(error)) from error
        # What waited in a pipe is as old as it is, not as new as it looks.
        delay_s = self._delay.of(made_s, heard_s)
        for name in REPEATED:
            if name in blocks:
                self._repeated[name] = blocks[name]
            elif name in self._repeated:
                blocks[name] = self._repeated[name]
        if "event" in blocks:
            blocks["event"] = self._with_steady_times(blocks["event"], now - delay_s)
        host = blocks["node"].keys[:1] if "node" in blocks else ()
        node_name = node or (host[0] if host else "")
        errors += tuple(SourceError(node_name, text, way_out) for text, way_out in self._cut)
        return Frame(
            origin=self._origin,
            node=node_name,
            taken_at=now - delay_s,
            lateness_s=late_s + delay_s,
            blocks=blocks,
            errors=errors,
            queue=None,
            host_names=host,
        )

    def _with_steady_times(self, events: Block, taken_at: float) -> Block:
        """The events, each with the time of its first report: ways differ in length.

        Where that is off by more than `_SAME_EVENT_S` a clock was set, and the new time counts.
        """
        ages = events.columns.get("event_age_s")
        if ages is None:
            return events
        steady = array("d", ages)
        known, self._events = self._events, {}
        for row, key in enumerate(events.keys):
            if isnan(ages[row]):
                continue
            at = round(taken_at - ages[row], 3)
            if abs(known.get(key, inf) - at) <= _SAME_EVENT_S:
                at = known[key]
            self._events[key] = at
            steady[row] = max(0.0, taken_at - at)
        return events._replace(columns={**events.columns, "event_age_s": steady})

    def _first_errors(self, errors: list[Any]) -> list[Any]:
        if len(errors) > MOST_ERRORS:
            self._cut.append((f"reports {len(errors)} errors; {MOST_ERRORS} are read", _CUT_ERRORS))
        return errors[:MOST_ERRORS]

    def _block(self, name: str, raw: dict[str, Any]) -> Block:
        if "keys" not in raw:
            raw = _with_changes(self._whole[name], raw)
        if name in CHANGING:
            self._whole[name] = raw
        keys = raw["keys"]
        if len(keys) > MAX_ROWS:
            message = f"{len(keys)} rows in block {name}"
            raise ValueError(message)
        if len(keys) > MOST_ROWS[name]:
            text = f"reports {len(keys)} rows of {name}; {MOST_ROWS[name]} are read"
            self._cut.append((text, _CUT))
            raw = _first(raw, MOST_ROWS[name])
            keys = raw["keys"]
        last = self._last.get(name)
        if not keys and last is not None and not last.keys:
            return self._bare[name]
        if last is None or last.keys != keys:
            last = self._last[name] = _LastBlock(name, keys)
        missing = last.reasons(raw["missing"])
        at = [_finite(read_at) for read_at in raw["at"]]
        if len(at) != len(keys):
            message = f"{len(at)} times for {len(keys)} rows in block {name}"
            raise ValueError(message)
        values: dict[str, list[float | int | None]] = {}
        packed: dict[str, array[float] | array[int]] = {}
        columns = last.columns
        for reported, column in raw["columns"].items():
            known = columns.get(reported)
            if known is None or known.raw != column:
                field = _FIELDS[name].get(reported)
                if field is None or len(column) != len(keys):
                    continue
                key = field.key
                known = _column(field, column, missing)
                # What is made of counters changes with them, and garbage has to be reported again.
                if last.has_columns and key not in DERIVED and known.checked is column:
                    columns[key] = known
            key, _, values[key], packed[key] = known
        read_at = {
            key: [None if time is None else _finite(time) for time in times]
            for key, times in raw.get("read_at", {}).items()
            if key in values and len(times) == len(keys)
        }
        self._rates.add(name, last.names, at, values, missing, read_at)
        nothing: list[float | int | None] = [None] * len(keys)
        for key in DERIVED_OF.get(name, ()):
            packed[key] = column_for(False, values.get(key, nothing))
        labels = {
            last.known[label]: last.label(label, texts)
            for label, texts in raw["labels"].items()
            if label in LABELS[name] and len(texts) == len(keys)
        }
        made = Block(last.names, packed, labels, last.shared(missing))
        if not keys:
            self._bare[name] = made
        return made


def _with_changes(whole: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The block of a report that has no `keys`, with what it leaves out: that is as it was.

    A name that is not in the whole one is passed over: it may not grow for ever.
    """
    parts = {
        part: whole[part] | {key: now for key, now in changes[part].items() if key in whole[part]}
        for part in ("columns", "labels", "missing")
    }
    return {**changes, **parts, "keys": whole["keys"]}


def _first(raw: dict[str, Any], most: int) -> dict[str, Any]:
    """A block with its first rows alone."""
    count = len(raw["keys"])
    cut = {"keys": raw["keys"][:most], "at": raw["at"][:most]}
    for part in ("columns", "labels", "read_at"):
        columns = raw.get(part, {})
        cut[part] = {key: rows[:most] for key, rows in columns.items() if len(rows) == count}
    cut["missing"] = {
        field: why if isinstance(why, str) else {r: w for r, w in why.items() if int(r) < most}
        for field, why in raw["missing"].items()
    }
    return cut


def _column(field: Field, raw: list[Any], missing: dict[tuple[str, int], Reason]) -> _Column:
    """The column with every value outside the catalogue's range dropped as garbage."""
    is_integer = field.kind.is_integer
    low, high = field.low, min(field.high, MAX_INTEGER) if is_integer else field.high
    checked: list[float | int | None] = raw
    wrong = [row for row, v in enumerate(raw) if v is not None and not low <= v <= high]
    if wrong or field.key in DERIVED:
        checked = list(raw)
    for row in wrong:
        missing[field.key, row] = Reason.GARBAGE
        checked[row] = None
    return _Column(field.key, raw, checked, column_for(is_integer, checked))


def _finite(number: float | str) -> float:
    """The number; raises ValueError where it is none that can be reckoned with."""
    try:
        found = float(number)
    except OverflowError:
        # A whole number has no bound in JSON.
        found = inf
    if not abs(found) < _LATEST_S:
        message = f"{found} for a time"
        raise ValueError(message)
    return found
