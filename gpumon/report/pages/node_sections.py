"""One node in sections: host, GPUs, how they are wired, ports, file systems, jobs, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.host import NODE_FIELDS
from gpumon.report.facts.columns import widened
from gpumon.report.facts.rows import awaited_call, block_rows, host_row
from gpumon.report.facts.slurm_nodes import reason_lines, slurm_facts
from gpumon.report.pages.topology import rate_words, topology_columns
from gpumon.report.tables.field import FIELD_COLUMNS, FieldRow, field_table
from gpumon.report.tables.gpu import NODE_GPU_COLUMNS, instance_widths
from gpumon.report.tables.host import (
    FILESYSTEM_COLUMNS,
    HOST,
    HOST_BESIDE,
    JOB_USE_COLUMNS,
    PORT_COLUMNS,
    SPACE_COLUMNS,
    host_of,
    host_reason,
    load_facts,
)
from gpumon.report.tables.sections import (
    INDENT,
    Section,
    collapsed,
    line_entries,
    missing_lines,
    table_section,
)
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, paragraph
from gpumon.report.text.units import index_text
from gpumon.report.wording.events import event_lines, node_events
from gpumon.report.wording.gpu_cells import short_uuid
from gpumon.report.wording.paragraphs import error_lines, facts, silence_lines
from gpumon.report.wording.space import space_facts
from gpumon.report.wording.verdict_words import left_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpumon.model.records.cluster import Node
    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest

_FIELDS: Final = {field.key: field for field in NODE_FIELDS}

_HOST_COLUMNS: Final = tuple(c for c in FIELD_COLUMNS if c.key != "past")
"""History holds nothing of a node itself."""

_FACTS: Final = (
    ("driver", "driver_version"),
    ("NVML", "nvml_version"),
    ("kernel log", "kernel_log"),
    ("slowest call", "slowest_call"),
)
"""Labels of the node for what it runs."""


def node_facts(digest: Digest, node: Node, width: int) -> list[Line]:
    """What the node is, how fresh its values are, what it could not do."""
    host = host_row(node)
    age_s = None if node.taken_at is None else digest.tick.at - node.taken_at
    lateness = "" if node.lateness_s is None else f", {units.milliseconds(node.lateness_s)} late"
    heard = "never" if age_s is None else f"{units.short_duration(age_s)} ago{lateness}"
    lines: list[Line] = [
        (Cell(node.name, Tone.STRONG),),
        *facts(
            (
                ("Slurm", node.state or "does not list it"),
                *slurm_facts(digest, node.name),
                ("heard", heard),
                *((name, host.label(key) or "") for name, key in _FACTS),
                *load_facts(host),
                *space_facts(node),
            ),
            width,
        ),
    ]
    lines += reason_lines(digest, node.name, width)
    if node.is_stale and age_s is not None:
        lines += silence_lines(age_s, "the node no longer answers", node.left_at, width)
    return [*lines, *error_lines(node.errors, width, most=4)]


def node_sections(
    digest: Digest, node: Node, width: int, chosen: Collection[str] | None = None
) -> list[Section]:
    """Every section of a node; a block that the node does not send is one line.

    Args:
        digest: The tick.
        node: The node.
        width: Cells of a line.
        chosen: Keys of the columns of its GPUs; None: those shown at first.
    """
    rest = {k: k for k in _FIELDS if k not in HOST and k not in HOST_BESIDE}
    sections = [
        _gpus(digest, node, width, chosen),
        _host(digest, node, HOST, "Host", width),
        *_topology(digest, node, width),
        _block(digest, node, "nic", "Network ports", PORT_COLUMNS, width),
        _block(digest, node, "filesystem", "File systems", FILESYSTEM_COLUMNS, width),
        _block(digest, node, "local_filesystem", "Local file systems", SPACE_COLUMNS, width),
        _block(digest, node, "cgroup", "Jobs", JOB_USE_COLUMNS, width),
        _events(digest, node, width),
    ]
    if rest:
        sections.append(_host(digest, node, rest, "Other", width))
    return sections


def _host(digest: Digest, node: Node, labels: Mapping[str, str], title: str, width: int) -> Section:
    host = host_row(node)
    known = [
        FieldRow(host, _FIELDS[key], label, host_of(host, key))
        for key, label in labels.items()
        if key in _FIELDS and host.value(key) is not None
    ]
    missing = [
        (label, reason)
        for key, label in labels.items()
        if key in _FIELDS and (reason := host.reason(key)) is not None
    ]
    if not known and _is_silent(node):
        return _silent_section(title, node)
    if not known:
        return collapsed(title, missing, host_reason)
    section = field_table(title, digest, known, width, _HOST_COLUMNS)
    more = line_entries(missing_lines(missing, width, host_reason), "missing")
    return section._replace(entries=section.entries + more)


def _is_silent(node: Node) -> bool:
    return node.is_stale or node.taken_at is None


def _silent_section(title: str, node: Node) -> Section:
    if node.is_stale and node.left_at is not None:
        return Section(
            title=title, entries=(), head=(), note=left_words(node.left_at), note_tone=Tone.DIM
        )
    words = "has not answered yet" if node.taken_at is None else "no longer answers"
    return Section(title=title, entries=(), head=(), note=f"the node {words}", note_tone=Tone.WARN)


def _gpus(digest: Digest, node: Node, width: int, chosen: Collection[str] | None) -> Section:
    rows = [row for row in digest.gpu_rows if row.node.name == node.name and row.gpu is not None]
    widths = instance_widths(digest) if any(row.instance is not None for row in rows) else {}
    if not rows:
        awaited = awaited_call(node)
        why = f"the node waits for {awaited}" if awaited else "the node shows none"
        why = node.errors[0].message if node.errors else why
        return Section(
            title="GPUs",
            entries=(),
            head=(),
            note=why,
            note_tone=Tone.WARN if node.errors else Tone.DIM,
        )
    return table_section(
        "GPUs",
        digest,
        widened(NODE_GPU_COLUMNS, widths),
        rows,
        width,
        lambda row: row.key,
        lambda row: f"gpu:{row.gpu.uuid}" if row.gpu else "",
        chosen=chosen,
    )


def _topology(digest: Digest, node: Node, width: int) -> list[Section]:
    """Only where the node reports it."""
    if node.is_stale:
        return []
    columns = topology_columns(digest, node)
    if not columns:
        return []
    gpus = [gpu for uuid in node.gpu_uuids if (gpu := digest.tick.gpus.get(uuid)) is not None]
    section = table_section(
        "Topology",
        digest,
        columns,
        gpus,
        width,
        lambda gpu: gpu.uuid,
        lambda gpu: f"gpu:{gpu.uuid}",
    )
    words = rate_words(node, gpus)
    below = line_entries(
        paragraph(words, max(20, width - INDENT), Tone.DIM) if words else [], "now"
    )
    return [section._replace(entries=(*section.entries, *below))]


def _block(
    digest: Digest,
    node: Node,
    name: str,
    title: str,
    columns: tuple[Column[BlockRow], ...],
    width: int,
) -> Section:
    rows = block_rows(node, name)
    if _is_silent(node):
        return _silent_section(title, node)
    if not rows:
        note = "none" if name in node.blocks else "not read on this node"
        return Section(title, (), (), note)
    opens = "job:" if name == "cgroup" else ""
    return table_section(
        title,
        digest,
        columns,
        rows,
        width,
        lambda row: row.key,
        lambda row: f"{opens}{row.key}" if opens else "",
    )


def _events(digest: Digest, node: Node, width: int) -> Section:
    events = node_events(node)
    if not events and _is_silent(node):
        return _silent_section("Events", node)
    if not events:
        note = "none recently" if "event" in node.blocks else "not read on this node"
        return Section("Events", (), (), note)
    entries = []
    for event in events:
        gpu = digest.tick.gpus.get(event.uuid)
        where = f"GPU {index_text(gpu) if gpu else short_uuid(event.uuid)} "
        lines = event_lines(digest, event, width - INDENT, where)
        opens = f"gpu:{event.uuid}" if gpu else ""
        entries += [e._replace(opens=opens) for e in line_entries(lines, event.key)]
    return Section("Events", tuple(entries))
