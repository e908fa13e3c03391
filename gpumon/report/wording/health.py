"""What is wrong with a GPU itself, the worst first: in a word for a column, in a sentence below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import clock_event_names
from gpumon.model.missing import Reason
from gpumon.model.xid import RECOVERY_ACTIONS, code_name
from gpumon.report.facts.healthy_nodes import (
    HARMLESS_BITS,
    IDLE_BITS,
    UNHEALTHY,
    VITAL,
    has_calm_node,
)
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Line, Tone, paragraph
from gpumon.report.wording.events import event_lines, events_of
from gpumon.report.wording.gpu_cells import SHORT_REASONS
from gpumon.report.wording.verdict_words import reading_words

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Gpu
    from gpumon.report.facts.columns import SortKey
    from gpumon.report.facts.tick_index import Digest


class Trouble(NamedTuple):
    """One thing that is wrong with a GPU."""

    tone: Tone
    word: str
    """Fits a column."""
    sentence: str
    advice: str = ""

    @property
    def sign(self) -> str:
        """The mark of findings as grave as this."""
        return "‼" if self.tone is Tone.BAD else "!"


MOST_EVENTS: Final = 5
"""Most events of one GPU that are spelled out: of a storm the newest say enough."""

_CHECKED: Final = (
    "clock_event_reasons",
    "pcie_width",
    "ecc_uncorrected_volatile_count",
    "remap_pending",
    "recovery_action",
)
"""Fields of which at least one must be known before a GPU may be called ok."""


def troubles(digest: Digest, gpu: Gpu) -> tuple[Trouble, ...]:
    """Everything that is wrong with a GPU, the worst first; nothing is said of a stale one."""
    if gpu.is_stale or has_calm_node(digest, gpu):
        return ()
    return digest.remembered(("troubles", gpu.uuid), lambda: _troubles(digest, gpu))


def _troubles(digest: Digest, gpu: Gpu) -> tuple[Trouble, ...]:
    found = [
        *_unreadable(digest, gpu),
        *_events(digest, gpu),
        *_memory(gpu),
        *_recovery(gpu),
        *_clocks(gpu),
        *_links(digest, gpu),
    ]
    return tuple(sorted(found, key=lambda trouble: trouble.tone is not Tone.BAD))


def health_order(digest: Digest, gpu: Gpu | None) -> SortKey | None:
    """The gravest first, then what has most troubles; None where nothing is known."""
    cell = health_cell(digest, gpu)
    if gpu is None or cell == NO_VALUE:
        return None
    found = troubles(digest, gpu)
    gravity = {Tone.BAD: 0.0, Tone.WARN: 1.0}.get(cell.tone, 2.0)
    return (gravity, -float(len(found)))


def health_cell(digest: Digest, gpu: Gpu | None) -> Cell:
    """The worst trouble in a word; `ok` only where something that would tell was read."""
    if gpu is None:
        return EMPTY_CELL
    found = troubles(digest, gpu)
    if found:
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        return Cell(f"{found[0].sign} {found[0].word}{more}", found[0].tone)
    return Cell("ok", Tone.DIM) if is_checked(gpu) else NO_VALUE


def is_checked(gpu: Gpu) -> bool:
    """Whether anything was read that would tell of a trouble."""
    return any(gpu.value(key) is not None for key in _CHECKED)


def gpu_health_lines(digest: Digest, gpu: Gpu, width: int) -> list[Line]:
    """What the driver told of late, then each other trouble, in sentences with what to do."""
    events = events_of(digest, gpu)
    lines: list[Line] = []
    for event in events[:MOST_EVENTS]:
        lines += event_lines(digest, event, width)
    if len(events) > MOST_EVENTS:
        text = f"and {len(events) - MOST_EVENTS} events before"
        lines += paragraph(text, width, Tone.DIM, "  ")
    told = {event.name for event in events}
    for trouble in troubles(digest, gpu):
        if trouble.word in told:
            continue
        lines += paragraph(trouble.sentence, width, trouble.tone, f"{trouble.sign} ", "  ")
        if trouble.advice:
            lines += paragraph(trouble.advice, width, Tone.INFO, "  → ", "    ")
    return lines


def _unreadable(digest: Digest, gpu: Gpu) -> list[Trouble]:
    """Why nothing can be read of a GPU that the driver still lists."""
    reasons = {gpu.reason(key) for key in VITAL}
    if Reason.LOST in reasons:
        advice = "drain the node and power-cycle it"
        return [Trouble(Tone.BAD, "lost", "the GPU fell off the bus", advice)]
    if reasons == {Reason.FAILED}:
        return [Trouble(Tone.BAD, "no answer", reading_words(digest, gpu, Reason.FAILED))]
    if reasons == {Reason.NO_PERMISSION}:
        words = reading_words(digest, gpu, Reason.NO_PERMISSION)
        return [Trouble(Tone.WARN, "no access", words)]
    return []


def _events(digest: Digest, gpu: Gpu) -> list[Trouble]:
    """What is wrong by what the driver told of late, each number once."""
    told = {e.name: e for e in events_of(digest, gpu) if e.tone in (Tone.BAD, Tone.WARN)}
    return [Trouble(e.tone, e.name, e.sentence, e.advice) for e in told.values()]


def _memory(gpu: Gpu) -> list[Trouble]:
    found = []
    uncorrected = gpu.value("ecc_uncorrected_volatile_count")
    if uncorrected:
        plural = "s" if uncorrected > 1 else ""
        text = f"{int(uncorrected)} uncorrected ECC error{plural} since the driver was loaded"
        advice = "drain the node, reset the GPU, check row remapping; replace it if it repeats"
        found.append(Trouble(Tone.BAD, f"ECC {int(uncorrected)}", text, advice))
    if gpu.value("remap_failure"):
        text = "a broken memory row could not be replaced"
        found.append(Trouble(Tone.BAD, "remap failed", text, "have the board exchanged"))
    if gpu.value("remap_pending"):
        text = "broken memory rows wait for a reset to be replaced"
        advice = "reset the GPU when its job has ended"
        found.append(Trouble(Tone.WARN, "remap waits", text, advice))
    if gpu.value("retired_pages_pending"):
        text = "broken memory pages wait for a restart of the driver to be retired"
        found.append(Trouble(Tone.WARN, "page waits", text, "reload the driver or reboot the node"))
    return found


def _recovery(gpu: Gpu) -> list[Trouble]:
    action = gpu.value("recovery_action")
    if not action:
        return []
    words = code_name(action, RECOVERY_ACTIONS) or ""
    return [Trouble(Tone.BAD, "recovery", f"the driver asks for recovery: {words}", words)]


def _clocks(gpu: Gpu) -> list[Trouble]:
    mask = int(gpu.value("clock_event_reasons") or 0) & ~(IDLE_BITS | HARMLESS_BITS)
    if not mask:
        return []
    names = clock_event_names(mask)
    word = SHORT_REASONS.get(names[0], names[0])
    return [Trouble(Tone.WARN, word, f"the clock is held down by {', '.join(names)}")]


def _links(digest: Digest, gpu: Gpu) -> list[Trouble]:
    found = []
    width, widest = gpu.value("pcie_width"), gpu.value("pcie_width_max")
    if width is not None and widest is not None and width < widest:
        text = f"PCIe runs on {width:.0f} lanes, GPU and slot have {widest:.0f}"
        found.append(
            Trouble(Tone.WARN, f"PCIe x{width:.0f}", text, "reseat the board or its riser")
        )
    down, known = digest.link_states(gpu)
    # Without a bridge a PCIe board's links are all inactive, which is as it should be.
    if 0 < down < known:
        text = f"{down} of {known} NVLinks are inactive while the others work"
        found.append(
            Trouble(Tone.WARN, f"{down} NVL down", text, "check the other end of the links")
        )
    if gpu.value("fabric_health") == UNHEALTHY:
        text = "the NVLink fabric calls this GPU unhealthy"
        found.append(Trouble(Tone.BAD, "fabric", text, "look at the fabric manager's log"))
    return found
