"""Events that the driver reported of late: what an Xid means and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.gpu.xid import Cause, Xid, xid
from gpumon.report.facts.rows import block_rows
from gpumon.report.text import units
from gpumon.report.text.cells import Line, Tone, paragraph

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest

_TYPES: Final = {0x2: "uncorrected ECC error", 0x8: "Xid", 0x8000: "recovery action changed"}
"""Bits of `event_type` that the probe asks the driver for."""


class Event(NamedTuple):
    """What one GPU's driver reported."""

    key: str
    uuid: str
    xid: Xid | None
    kind: str
    """What kind of event it is, in words."""
    at: float | None
    """Unix time on the monitor's clock; None: not reported."""

    @property
    def tone(self) -> Tone:
        """Only what is a fault of the machine is bad; what may be ignored is only shown."""
        if self.xid is None or self.xid.cause is Cause.MACHINE:
            return Tone.BAD
        return Tone.INFO if self.xid.cause is Cause.NONE else Tone.WARN

    @property
    def name(self) -> str:
        """`Xid 79`, or the kind of another event."""
        return self.kind if self.xid is None else f"Xid {self.xid.number}"

    @property
    def sentence(self) -> str:
        """What happened."""
        return self.kind if self.xid is None else f"Xid {self.xid.number}: {self.xid.meaning}"

    @property
    def advice(self) -> str:
        """What to do, empty where the event does not say."""
        return "" if self.xid is None else self.xid.advice


def events_of(digest: Digest, gpu: Gpu) -> tuple[Event, ...]:
    """The events of a GPU, the newest first."""
    heard_at = _heard_at(digest.tick.nodes.get(gpu.node))
    return _newest_first(_event(row, gpu.uuid, heard_at) for row in digest.entities(gpu, "event"))


def node_events(node: Node) -> tuple[Event, ...]:
    """The events of all GPUs of a node, the newest first."""
    heard_at = _heard_at(node)
    rows = block_rows(node, "event")
    return _newest_first(_event(row, row.key.partition("/")[0], heard_at) for row in rows)


def _heard_at(node: Node | None) -> float | None:
    return node.taken_at if node else None


def _newest_first(events: Iterable[Event]) -> tuple[Event, ...]:
    return tuple(sorted(events, key=lambda event: -(event.at or 0.0)))


def _event(row: BlockRow, uuid: str, heard_at: float | None) -> Event:
    # What happened stays so, also when the node no longer answers.
    number = row.block.value("xid", row.row)
    mask = int(row.block.value("event_type", row.row) or 0)
    age_s = row.block.value("event_age_s", row.row)
    at = None if age_s is None or heard_at is None else heard_at - age_s
    kinds = [name for bit, name in _TYPES.items() if mask & bit]
    kind = ", ".join(kinds) or "event of unknown type"
    return Event(
        key=row.key, uuid=uuid, xid=None if number is None else xid(int(number)), kind=kind, at=at
    )


def event_lines(digest: Digest, event: Event, width: int, where: str = "") -> list[Line]:
    """When, where, what, and what to do."""
    clock = units.MISSING if event.at is None else units.clock_time(event.at, with_seconds=True)
    ago = "" if event.at is None else f", {units.short_duration(digest.tick.at - event.at)} ago"
    sign = {Tone.BAD: "‼ ", Tone.WARN: "! "}.get(event.tone, "  ")
    text = f"{clock}{ago} {where}{event.sentence}"
    lines = paragraph(text, width, event.tone, sign, "  ")
    if event.advice:
        lines += paragraph(event.advice, width, Tone.INFO, "  → ", "    ")
    return lines
