"""What is wrong with a GPU itself, the worst first: in a word for a column, in a sentence below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import DRIVER
from gpumon.model.finding import Severity
from gpumon.model.gpu.conditions import held_down_by, wrong_with
from gpumon.model.missing import Reason
from gpumon.report.facts.healthy_nodes import VITAL, has_calm_node
from gpumon.report.facts.reference_values import sheet_of
from gpumon.report.facts.rows import OF_INSTANCE
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Line, Tone, paragraph
from gpumon.report.wording.events import event_lines, events_of
from gpumon.report.wording.gpu_cells import SHORT_REASONS, place_text
from gpumon.report.wording.verdict_words import reading_words

if TYPE_CHECKING:
    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.columns import SortKey
    from gpumon.report.facts.rows import Instance
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

_UNREAD: Final = frozenset({Reason.NO_PERMISSION, Reason.FAILED, Reason.GARBAGE})
"""Reasons why a field that exists is missing; others are not a fault, or are shown as one."""

_CHECKED: Final = (
    "clock_event_reasons",
    "pcie_width",
    "ecc_uncorrected_volatile_count",
    "remap_pending",
    "recovery_action",
)
"""Fields of which at least one must be known before a GPU may be called ok."""


PARTLY_READ: Final = "? part read"
"""Of a GPU of which a reading fails and nothing else is known to be wrong: no praise, no alarm."""


def troubles(digest: Digest, gpu: Gpu) -> tuple[Trouble, ...]:
    """Everything that is wrong with a GPU, the worst first; nothing of a stale one."""
    if gpu.is_stale or has_calm_node(digest, gpu):
        return ()
    return digest.remembered(("troubles", gpu.uuid), lambda: _troubles(digest, gpu))


def _troubles(digest: Digest, gpu: Gpu) -> tuple[Trouble, ...]:
    found = [
        *_unreadable(digest, gpu),
        *_events(digest, gpu),
        *_conditions(gpu),
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
    """The worst trouble in a word; `ok` only where a field that would show one was read."""
    if gpu is None:
        return EMPTY_CELL
    found = troubles(digest, gpu)
    if found:
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        return Cell(f"{found[0].sign} {found[0].word}{more}", found[0].tone)
    if not is_checked(gpu):
        return NO_VALUE
    error = own_error(digest.tick.nodes.get(gpu.node), gpu)
    return Cell(PARTLY_READ, Tone.WARN) if error else Cell("ok", Tone.DIM)


def instance_cell(digest: Digest, gpu: Gpu, instance: Instance) -> Cell:
    """The profile of a MIG instance of a GPU, and whose its values are; or why they are missing."""
    reasons = [instance.reason(key) for key in OF_INSTANCE]
    found = next((reason for reason in reasons if reason in _UNREAD), None)
    if found is not None:
        return Cell(f"? {reading_words(digest, gpu, found)}", Tone.WARN)
    words = f"MIG {instance.label('profile') or ''}".rstrip()
    if instance.is_shared:
        words += f"; values of all {place_text(gpu, instance.numbers[:1])}"
    return Cell(words, Tone.DIM)


def own_error(node: Node | None, gpu: Gpu) -> SourceError | None:
    """What a GPU's node reports of this very GPU that could not be read, though the rest was."""
    errors = node.errors if node is not None else ()
    return next((error for error in errors if gpu.uuid in error.where.split()), None)


def worst_of(digest: Digest) -> Severity | None:
    """How grave the worst is that is wrong with any GPU of a tick; None where nothing is."""
    tones = {one.tone for gpu in digest.tick.gpus.values() for one in troubles(digest, gpu)}
    if Tone.BAD in tones:
        return Severity.CRITICAL
    return Severity.WARNING if tones else None


def has_unread(digest: Digest) -> bool:
    """Whether there is a target, node or GPU whose condition is unknown.

    A target that does not answer, a node that was reached before or ought to be, a driver that
    fails and reports no GPU, a GPU of which no field that would show a trouble can be read. An
    error beside GPUs that are read changes nothing: too many events, one reading that failed.
    """
    tick = digest.tick
    return (
        any(not target.is_ok for target in tick.targets)
        or any(_is_unread(digest, node) for node in tick.nodes.values())
        or any(not gpu.is_stale and _is_dark(gpu) for gpu in tick.gpus.values())
    )


def _is_unread(digest: Digest, node: Node) -> bool:
    """Whether a watched node reports nothing of its GPUs, now or yet."""
    if node.is_silent or (node.taken_at is None and node.errors):
        return True
    if not any(error.where.endswith(DRIVER) for error in node.errors):
        return False
    known = (digest.tick.gpus.get(uuid) for uuid in node.gpu_uuids)
    return not any(gpu is not None and is_checked(gpu) for gpu in known)


def _is_dark(gpu: Gpu) -> bool:
    """Whether what would show a trouble could not be read; what a board lacks is no loss."""
    return not is_checked(gpu) and any(gpu.reason(key) in _UNREAD for key in _CHECKED)


def is_checked(gpu: Gpu) -> bool:
    """Whether anything was read that would show a trouble."""
    return any(gpu.value(key) is not None for key in _CHECKED)


def gpu_health_lines(digest: Digest, gpu: Gpu, width: int) -> list[Line]:
    """What the driver reported of late, then each other trouble, in sentences with what to do."""
    events = events_of(digest, gpu)
    lines: list[Line] = []
    for event in events[:MOST_EVENTS]:
        lines += event_lines(digest, event, width)
    if len(events) > MOST_EVENTS:
        text = f"and {len(events) - MOST_EVENTS} events before"
        lines += paragraph(text, width, Tone.DIM, "  ")
    event_names = {event.name for event in events}
    for trouble in troubles(digest, gpu):
        if trouble.word in event_names:
            continue
        lines += paragraph(trouble.sentence, width, trouble.tone, f"{trouble.sign} ", "  ")
        if trouble.advice:
            lines += paragraph(trouble.advice, width, Tone.INFO, "  → ", "    ")
    return lines


def _unreadable(digest: Digest, gpu: Gpu) -> list[Trouble]:
    """Why nothing can be read of a GPU that the driver still lists."""
    reasons = {gpu.reason(key) for key in VITAL}
    if Reason.LOST in reasons:
        advice = "free the node and power-cycle it"
        return [Trouble(Tone.BAD, "lost", "the GPU fell off the bus", advice)]
    if reasons == {Reason.FAILED}:
        return [Trouble(Tone.BAD, "no answer", reading_words(digest, gpu, Reason.FAILED))]
    if reasons == {Reason.NO_PERMISSION}:
        words = reading_words(digest, gpu, Reason.NO_PERMISSION)
        return [Trouble(Tone.WARN, "no access", words)]
    return []


def _events(digest: Digest, gpu: Gpu) -> list[Trouble]:
    """What is wrong by what the driver reported of late, each number once."""
    by_name = {e.name: e for e in events_of(digest, gpu) if e.tone in (Tone.BAD, Tone.WARN)}
    return [Trouble(e.tone, e.name, e.sentence, e.advice) for e in by_name.values()]


def _conditions(gpu: Gpu) -> list[Trouble]:
    """What the table of conditions says of its newest values."""
    return [
        Trouble(
            Tone.BAD if one.condition.is_grave else Tone.WARN,
            one.word,
            one.sentence,
            one.condition.advice,
        )
        for one in wrong_with(gpu.value)
    ]


def _clocks(gpu: Gpu) -> list[Trouble]:
    names = held_down_by(gpu.value("clock_event_reasons"))
    if not names:
        return []
    word = SHORT_REASONS.get(names[0], names[0])
    return [Trouble(Tone.WARN, word, f"the clock is held down by {', '.join(names)}")]


def _links(digest: Digest, gpu: Gpu) -> list[Trouble]:
    down, known = digest.link_states(gpu)
    if not down:
        return []
    if down < known:
        text = f"{down} of {known} NVLinks are inactive while the others work"
        advice = "check the other end of the links"
        return [Trouble(Tone.WARN, f"{down} NVL down", text, advice)]
    # Without a bridge a PCIe board's links are all inactive, which is as it should be, and so are
    # those of a board alone on its node.
    sheet, node = sheet_of(gpu), digest.tick.nodes.get(gpu.node)
    if sheet is None or sheet.has_bridge_only or node is None or len(node.gpu_uuids) < 2:
        return []
    text = f"none of its {known} NVLinks is active"
    return [Trouble(Tone.WARN, "no NVLink", text, "look at the fabric manager's log")]
