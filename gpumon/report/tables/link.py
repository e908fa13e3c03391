"""The columns of a GPU's NVLinks and of its MIG instances."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.facts.columns import Column
from gpumon.report.facts.rows import INACTIVE
from gpumon.report.tables.field import field_text
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone
from gpumon.report.wording.gpu_cells import short_uuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest

_HARMLESS: Final = frozenset({"link_recovery_success_count", "link_recovery_event_count"})
"""Counters of a link that show repairs, not damage."""

LINK_ERRORS: Final = tuple(
    key
    for key, field in CATALOGUE.items()
    if field.block == "link" and key.endswith("_count") and key not in _HARMLESS
)
"""Counters of a link that should stay 0."""


def field_cell(key: str) -> Callable[[Digest, BlockRow], Cell]:
    """A field of the row as people read it, the sign for missing where it is."""

    def cell(_digest: Digest, row: BlockRow) -> Cell:
        value = row.value(key)
        if value is None:
            return NO_VALUE
        return Cell(field_text(CATALOGUE[key], value) if key in CATALOGUE else f"{value:g}")

    return cell


def label_cell(key: str, tone: Tone = Tone.PLAIN) -> Callable[[Digest, BlockRow], Cell]:
    """A text fact of the row."""
    return lambda _digest, row: Cell(found, tone) if (found := row.label(key)) else NO_VALUE


def rate_cell(key: str) -> Callable[[Digest, BlockRow], Cell]:
    """Bytes per second, short."""

    def cell(_digest: Digest, row: BlockRow) -> Cell:
        value = row.value(key)
        return NO_VALUE if value is None else Cell(units.short_rate(value))

    return cell


def errors_cell(row: BlockRow, keys: tuple[str, ...], prefix: str) -> Cell:
    """Counters above 0 by name, `0` where all are, the sign for missing where none is known."""
    known = {key: value for key in keys if (value := row.value(key)) is not None}
    raised = {key: value for key, value in known.items() if value}
    if raised:
        named = (
            f"{key.removeprefix(prefix).removesuffix('_count').replace('_', ' ')} {int(value)}"
            for key, value in raised.items()
        )
        return Cell(f"! {', '.join(named)}", Tone.WARN)
    return Cell("0") if known else NO_VALUE


def _state(_digest: Digest, row: BlockRow) -> Cell:
    value = row.value("link_state")
    if value is None:
        return NO_VALUE
    text = field_text(CATALOGUE["link_state"], value)
    return Cell(text, Tone.WARN if value == INACTIVE else Tone.PLAIN)


def _remote(_digest: Digest, row: BlockRow) -> Cell:
    kind, bus = row.label("remote_type"), row.label("remote")
    # NVML writes the PCI domain with eight digits, of which the kernel shows four.
    words = [text for text in (kind, bus and re.sub(r"\A0000(?=[0-9A-Fa-f]{4}:)", "", bus)) if text]
    return Cell(" ".join(words)) if words else NO_VALUE


LINK_COLUMNS: Final[tuple[Column[BlockRow], ...]] = (
    Column(
        "link",
        "LINK",
        4,
        "right",
        priority=0,
        cell=lambda _d, r: Cell(r.key),
        order=None,
        doc="Number of the link on its GPU.",
    ),
    Column(
        "state",
        "STATE",
        10,
        "left",
        priority=0,
        cell=_state,
        order=None,
        doc="Whether the link carries traffic.",
    ),
    Column(
        "speed",
        "SPEED",
        8,
        "right",
        priority=2,
        cell=field_cell("link_speed_bytes_per_s"),
        order=None,
        doc="What the link can carry per direction.",
    ),
    Column(
        "tx",
        "TX B/s",
        7,
        "right",
        priority=1,
        cell=rate_cell("link_tx_bytes_per_s"),
        order=None,
        doc="Payload sent per second, bytes with decimal prefix.",
    ),
    Column(
        "rx",
        "RX B/s",
        7,
        "right",
        priority=1,
        cell=rate_cell("link_rx_bytes_per_s"),
        order=None,
        doc="Payload received per second, bytes with decimal prefix.",
    ),
    Column(
        "errors",
        "ERRORS",
        12,
        "left",
        priority=1,
        cell=lambda _d, r: errors_cell(r, LINK_ERRORS, "link_"),
        order=None,
        doc="Error counters above 0 by name; 0: all known ones are 0.",
        max_width=30,
    ),
    Column(
        "remote",
        "OTHER END",
        20,
        "left",
        priority=2,
        cell=_remote,
        order=None,
        doc="What is at the other end: a GPU or a switch, and its PCI address.",
        max_width=24,
    ),
    Column(
        "version",
        "GEN",
        4,
        "right",
        priority=3,
        cell=field_cell("link_version"),
        order=None,
        doc="NVLink's generation as NVML counts it.",
    ),
)


def _slice_memory(_digest: Digest, row: BlockRow) -> Cell:
    used = row.value("mig_mem_used_bytes")
    if used is None:
        return NO_VALUE
    return Cell(units.memory(used, row.value("mig_mem_total_bytes")))


def _instances(_digest: Digest, row: BlockRow) -> Cell:
    numbers = [row.value(f"mig_{of}_instance") for of in ("gpu", "compute")]
    if all(number is None for number in numbers):
        return NO_VALUE
    return Cell("/".join(units.MISSING if n is None else f"{n:.0f}" for n in numbers))


def _share(key: str, title: str, priority: int) -> Column[BlockRow]:
    """A share of the instance, percent."""

    def cell(_digest: Digest, row: BlockRow) -> Cell:
        value = row.value(key)
        return NO_VALUE if value is None else Cell(units.percent(value))

    return Column(
        key=key,
        title=title,
        width=max(5, len(title)),
        align="right",
        priority=priority,
        cell=cell,
        order=None,
        doc=CATALOGUE[key].doc,
    )


SLICE_COLUMNS: Final[tuple[Column[BlockRow], ...]] = (
    Column(
        "instance",
        "INSTANCE",
        12,
        "left",
        priority=0,
        cell=lambda _d, r: Cell(short_uuid(r.key)),
        order=None,
        doc="First digits of the instance's UUID.",
    ),
    Column(
        "profile",
        "PROFILE",
        12,
        "left",
        priority=0,
        cell=label_cell("profile"),
        order=None,
        doc="Slices of the GPU and memory that the instance has.",
        max_width=16,
    ),
    Column(
        "instances",
        "GI/CI",
        5,
        "right",
        priority=2,
        cell=_instances,
        order=None,
        doc="Numbers of the GPU instance and of the compute instance.",
    ),
    Column(
        "memory",
        "MEM GiB",
        8,
        "right",
        priority=0,
        cell=_slice_memory,
        order=None,
        doc="Memory of the instance in use and in all, GiB.",
    ),
    _share("mig_sm_active_ratio", "SM%", 0),
    _share("mig_sm_occupancy_ratio", "OCC%", 1),
    _share("mig_tensor_active_ratio", "TENSOR%", 1),
    _share("mig_dram_active_ratio", "DRAM%", 1),
)
