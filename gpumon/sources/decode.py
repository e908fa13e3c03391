"""From a probe's line to a frame: range checks, rates from counters, reasons."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.fields import CATALOGUE, LABELS
from gpumon.model.frame import Block, Frame, SourceError, column_for
from gpumon.model.missing import Reason
from gpumon.model.text import plain
from gpumon.sources.delay import Delay
from gpumon.sources.rates import Rates

if TYPE_CHECKING:
    from array import array

MAX_ROWS: Final = 65536
"""Most entities that one block may hold; a line that claims more is refused."""

MAX_LABEL: Final = 8192
"""Longest label that is kept; the rank variables of a process fit well within."""

MAX_INTEGER: Final = 2**63 - 1
"""Largest value of an integer column."""

REPEATED: Final = ("link", "mig")
"""Blocks that a probe leaves out while they are as it last told them."""


class GarbageError(Exception):
    """A line is not what a probe writes."""


class Decoder:
    """Turns the lines of one probe into frames; remembers its last counters."""

    def __init__(self, origin: str) -> None:
        """`origin` is the target's URL."""
        self._origin = origin
        self._rates = Rates()
        self._delay = Delay()
        self._repeated: dict[str, Block] = {}

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
                for error in message["errors"]
            )
            late_s, made_s = _finite(message["late_s"]), _finite(message["at"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise GarbageError(repr(error)) from error
        for name in REPEATED:
            if name in blocks:
                self._repeated[name] = blocks[name]
            elif name in self._repeated:
                blocks[name] = self._repeated[name]
        host = blocks["node"].keys[:1] if "node" in blocks else ()
        # What waited in a pipe is as old as it is, not as new as it looks.
        delay_s = self._delay.of(made_s, heard_s)
        return Frame(
            self._origin,
            node or (host[0] if host else ""),
            now - delay_s,
            late_s + delay_s,
            blocks,
            errors,
            None,
            host,
        )

    def _block(self, name: str, raw: dict[str, Any]) -> Block:
        keys = tuple(plain(str(key)) for key in raw["keys"])
        if len(keys) > MAX_ROWS:
            message = f"{len(keys)} rows in block {name}"
            raise ValueError(message)
        missing: dict[tuple[str, int], Reason] = {}
        for field, reasons in raw["missing"].items():
            rows = enumerate([reasons] * len(keys)) if isinstance(reasons, str) else reasons.items()
            for row, reason in rows:
                missing[str(field), int(row)] = Reason(reason)
        values = {
            key: self._checked(key, column, missing)
            for key, column in raw["columns"].items()
            if key in CATALOGUE and CATALOGUE[key].block == name and len(column) == len(keys)
        }
        at = [_finite(read_at) for read_at in raw["at"]]
        if len(at) != len(keys):
            message = f"{len(at)} times for {len(keys)} rows in block {name}"
            raise ValueError(message)
        self._rates.add(name, keys, at, values, missing)
        columns: dict[str, array[float] | array[int]] = {
            key: column_for(CATALOGUE[key].kind.is_integer, column)
            for key, column in values.items()
        }
        labels = {
            label: tuple(None if t is None else plain(str(t), MAX_LABEL) for t in texts)
            for label, texts in raw["labels"].items()
            if label in LABELS[name] and len(texts) == len(keys)
        }
        return Block(keys, columns, labels, missing)

    @staticmethod
    def _checked(
        key: str, column: list[Any], missing: dict[tuple[str, int], Reason]
    ) -> list[float | int | None]:
        """The column with every value outside the catalogue's range dropped as garbage."""
        field = CATALOGUE[key]
        high = min(field.high, MAX_INTEGER) if field.kind.is_integer else field.high
        checked: list[float | int | None] = []
        for row, value in enumerate(column):
            if value is not None and not field.low <= value <= high:
                missing[key, row] = Reason.GARBAGE
                value = None
            checked.append(value)
        return checked


def _finite(number: float | str) -> float:
    """The number; raises ValueError where it is none that can be reckoned with."""
    found = float(number)
    if not isfinite(found):
        message = f"{found} for a time"
        raise ValueError(message)
    return found
