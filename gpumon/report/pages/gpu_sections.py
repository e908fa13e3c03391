"""One GPU in sections that explain where its time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import LABELS, clock_event_names
from gpumon.model.catalogue.gpu import GPU_FIELDS
from gpumon.model.gpu.conditions import HARMLESS_BITS, IDLE_BITS
from gpumon.report.facts.reference_values import of_text, sheet_of, sheet_words
from gpumon.report.pages.gpu_layout import COUNTERS, PLACED, SECTIONS
from gpumon.report.tables.field import FieldRow, field_table
from gpumon.report.tables.link import LINK_COLUMNS, SLICE_COLUMNS
from gpumon.report.tables.process import PROCESS_COLUMNS, process_rows
from gpumon.report.tables.sections import (
    INDENT,
    Section,
    collapsed,
    line_entries,
    missing_lines,
    table_section,
)
from gpumon.report.text.cells import Cell, Line, Tone, paragraph
from gpumon.report.text.field_names import spoken
from gpumon.report.wording.health import gpu_health_lines
from gpumon.report.wording.paragraphs import facts
from gpumon.report.wording.verdict_words import left_since, reading_words, stale_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpumon.model.missing import Reason
    from gpumon.model.records.cluster import Gpu
    from gpumon.report.facts.tick_index import Digest

_POWER: Final = "Power and clocks"

_FIELDS: Final = {field.key: field for field in GPU_FIELDS}


def gpu_sections(
    digest: Digest, gpu: Gpu, width: int, chosen: Collection[str] | None = None
) -> list[Section]:
    """Every section of a GPU, those without any value in one line with the reason.

    Args:
        digest: The tick.
        gpu: The GPU.
        width: Cells of a line.
        chosen: Keys of the columns of its processes; None: those shown at first.
    """
    sheet = sheet_of(gpu)
    notes = {"Use": "" if gpu.is_stale else sheet_words(gpu, sheet)}
    made = {
        title: _fields(digest, gpu, title, labels, width, notes.get(title, ""))
        for title, labels in SECTIONS.items()
    }
    made["NVLink"] = _with_links(digest, gpu, made["NVLink"], width)
    made["Health"] = _with_events(digest, gpu, made["Health"], width)
    rest = {f.key: spoken(f.key) for f in GPU_FIELDS if f.key not in PLACED and f.unit != "bytes"}
    return [
        *(made[title] for title in ("Use", "Memory", _POWER, "PCIe", "NVLink")),
        _slices(digest, gpu, width),
        _processes(digest, gpu, width, chosen),
        made["Health"],
        _with_labels(gpu, _fields(digest, gpu, "Other", _named(rest), width), width),
    ]


def _with_labels(gpu: Gpu, section: Section, width: int) -> Section:
    """The board's own labels, above the rest."""
    labels = [
        (label.replace("_", " "), text)
        for label in LABELS["gpu"]
        if label not in ("name", "pci_bus_id", "common_ancestors") and (text := gpu.label(label))
    ]
    entries = line_entries(facts(labels, width - INDENT), "labels")
    if not entries:
        return section
    return section._replace(entries=entries + section.entries, note="")


def _named(keys: Mapping[str, str]) -> dict[str, str]:
    """Raw counters whose shares or rates are shown stay out; they mean nothing by themselves."""
    return {
        key: name for key, name in keys.items() if f"{key.removesuffix('_us')}_ratio" not in _FIELDS
    }


def _fields(
    digest: Digest, gpu: Gpu, title: str, labels: Mapping[str, str], width: int, note: str = ""
) -> Section:
    """Known fields as a table, counters side by side, then what is missing and why."""
    sheet = sheet_of(gpu)
    wanted = [(key, label) for key, label in labels.items() if key in _FIELDS]
    counters = {k: name for k, name in COUNTERS.get(title, {}).items() if k in _FIELDS}
    rows = [
        FieldRow(
            entity=gpu, field=_FIELDS[key], label=label, of=of_text(gpu, key, sheet), uuid=gpu.uuid
        )
        for key, label in wanted
        if gpu.value(key) is not None
    ]
    missing = [
        (label, reason)
        for key, label in (*wanted, *counters.items())
        if (reason := gpu.reason(key)) is not None
    ]
    lines = counter_lines(gpu, counters, width)

    def words(reason: Reason) -> str:
        return reading_words(digest, gpu, reason)

    if not rows and not lines:
        return collapsed(title, missing, words)
    section = field_table(title, digest, rows, width)
    if title == _POWER:
        lines = [*_clock_lines(digest, gpu, width), *lines]
    more = line_entries(lines, "counters")
    if note:
        more += line_entries(paragraph(note, width - INDENT, Tone.DIM, "", "  "), "sheet")
    more += line_entries(missing_lines(missing, width, words), "missing")
    # One row of titles is enough for all sections, whose columns are below each other.
    return section._replace(entries=section.entries + more, head=section.head if note else ())


def _clock_lines(digest: Digest, gpu: Gpu, width: int) -> list[Line]:
    """Why the clock is below its maximum."""
    mask = gpu.value("clock_event_reasons")
    if mask is None:
        reason = gpu.reason("clock_event_reasons")
        words = "" if reason is None else reading_words(digest, gpu, reason)
        return paragraph(f"clock held down by: not known, {words}", width - INDENT, Tone.DIM)
    names = clock_event_names(int(mask))
    tone = Tone.WARN if int(mask) & ~(IDLE_BITS | HARMLESS_BITS) else Tone.PLAIN
    text = f"clock held down by: {', '.join(names) or 'nothing'}"
    return paragraph(text, width - INDENT, tone, "", "  ")


def counter_lines(gpu: Gpu, counters: Mapping[str, str], width: int) -> list[Line]:
    """Counters side by side, those above 0 marked; none where none is known."""
    known = [(name, v) for key, name in counters.items() if (v := gpu.value(key)) is not None]
    if not known:
        return []
    raised = [(name, str(int(value))) for name, value in known if value]
    zero = [name for name, value in known if not value]
    marked = facts(raised, width - INDENT - 2)
    lines: list[Line] = [(Cell("! ", Tone.WARN), *line) for line in marked]
    if zero:
        count = "all 0" if not raised else "0"
        lines += paragraph(f"{count}: {', '.join(zero)}", width - INDENT, Tone.PLAIN, "", "  ")
    return lines


def _with_links(digest: Digest, gpu: Gpu, section: Section, width: int) -> Section:
    """The totals, then one line per link."""
    links = digest.entities(gpu, "link")
    if not links or gpu.is_stale:
        return section
    table = table_section("NVLink", digest, LINK_COLUMNS, links, width, lambda r: f"link {r.key}")
    active = sum(1 for link in links if link.value("link_state") == 1)
    unreported = all(link.value("link_state") is None for link in links)
    note = f"{len(links)} links" if unreported else f"{active} of {len(links)} links active"
    tone = Tone.WARN if not unreported and active < len(links) else Tone.DIM
    titles = line_entries([table.head[1:]], "titles")
    last = tuple(entry for entry in section.entries if entry.key.startswith("missing"))
    first = tuple(entry for entry in section.entries if entry not in last)
    entries = first + titles + table.entries + last
    return section._replace(entries=entries, note=note, note_tone=tone)


def _slices(digest: Digest, gpu: Gpu, width: int) -> Section:
    title = "MIG instances"
    slices = digest.entities(gpu, "mig")
    if slices and not gpu.is_stale:
        return table_section(title, digest, SLICE_COLUMNS, slices, width, lambda r: r.key)
    mode = gpu.value("mig_mode")
    reason = gpu.reason("mig_mode")
    if reason is not None:
        return collapsed(title, [("", reason)], lambda why: reading_words(digest, gpu, why))
    return Section(title, (), (), "off" if not mode else "on, no instance created")


def _processes(digest: Digest, gpu: Gpu, width: int, chosen: Collection[str] | None) -> Section:
    rows = process_rows(digest, gpu)
    if not rows:
        if gpu.is_stale and left_since(digest, gpu) is None:
            return Section(
                title="Processes",
                entries=(),
                head=(),
                note="the node no longer answers",
                note_tone=Tone.WARN,
            )
        reason = gpu.reason("process_count")
        if gpu.is_stale:
            note = stale_words(digest, gpu)
        elif reason is None:
            note = "none holds a context on it"
        elif not gpu.reports_processes:
            note = "not reported by an exporter"
        else:
            note = f"not known: {reading_words(digest, gpu, reason)}"
        return Section(title="Processes", entries=(), head=(), note=note, note_tone=Tone.DIM)
    return table_section(
        "Processes",
        digest,
        PROCESS_COLUMNS,
        rows,
        width,
        lambda r: str(r.process.pid),
        lambda r: f"job:{r.process.job_id}" if r.process.job_id else "",
        chosen=chosen,
    )


def _with_events(digest: Digest, gpu: Gpu, section: Section, width: int) -> Section:
    """What is wrong in words on top."""
    lines = gpu_health_lines(digest, gpu, width - INDENT)
    if not lines:
        return section
    return section._replace(entries=line_entries(lines, "health") + section.entries)
