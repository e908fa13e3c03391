"""Writes the parts of the documentation that the code already says.

    python -m tools.pages            fill every generated block of README.md and docs/*.md
    python -m tools.pages --check    name the pages that are stale, exit 1 if there are any

A block begins with `<!-- generated: NAME -->` and ends with `<!-- end -->`; the rest of a page is
written by hand.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import json
import os
import re
import sys
from functools import cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumon.cli import main as gpumon
from gpumon.cli.commands.config import shown
from gpumon.cli.options import EPILOG
from gpumon.detect.contract import declaration_of, parameters
from gpumon.detect.features.table import FEATURES
from gpumon.detect.worker import registry
from gpumon.model.catalogue.fields import CATALOGUE, CLOCK_EVENT_REASONS, LABELS
from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.model.settings import SETTINGS
from gpumon.report.filter.help import FILTER_HELP
from gpumon.report.filter.names import typable
from gpumon.report.filter.units import SCALES
from gpumon.report.fleet_map.marks import FIELDS, STATES
from gpumon.report.tables.field import FIELD_COLUMNS
from gpumon.report.tables.finding import FINDING_COLUMNS
from gpumon.report.tables.gpu import RANK_COLUMNS
from gpumon.report.tables.host import (
    FILESYSTEM_COLUMNS,
    JOB_USE_COLUMNS,
    PORT_COLUMNS,
    SPACE_COLUMNS,
)
from gpumon.report.tables.job import JOB_COLUMNS
from gpumon.report.tables.link import LINK_COLUMNS, SLICE_COLUMNS
from gpumon.report.tables.process import PROCESS_COLUMNS
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.wasteful import MISPLACED, WASTEFUL
from gpumon.tui.actions.action import ROOTS
from gpumon.tui.actions.registry import keys_markdown
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.screens.open import AllViews
from tools import bounds, docstrings
from tools.exceptions import exceptions
from tools.fault_matrix import page as fault_tables
from tools.hardware_tables import SHEET_HEAD, XID_HEAD, sheet_rows, xid_rows
from tools.questions import questions_table
from tools.road_table import ROAD_HEAD, road_rows
from tools.rooms import rooms
from tools.schema_tables import document, documents_of_commands
from tools.sentences.block import drawing_of, sentences_of
from tools.simulated_kinds import KIND_HEAD, kind_rows
from tools.threads import threads_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.model.catalogue.field import Field
    from gpumon.report.facts.columns import Column
    from tools.schema_tables import Described

ROOT: Final = Path(__file__).resolve().parent.parent
BLOCK: Final = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w .-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
HELP_COLUMNS: Final = "96"


class PageError(Exception):
    """A page cannot be filled; the message names it."""


def cell(text: str) -> str:
    """Text as a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def map_fields() -> str:
    """What the map of the fleet can be drawn by."""
    rows = []
    for field in FIELDS:
        words = (f"{mark.sign} {mark.words}" for mark in field.levels) if field.keys else ()
        scale = f"{', '.join(words)} {field.unit}" if field.keys else ""
        rows.append((field.title, cell(scale), cell(field.doc)))
    return table(("field", "steps", "what it shows"), rows)


def classes() -> str:
    """The vocabulary of findings and labels."""
    claimed: dict[str, list[str]] = {}
    for entry in registry.entries():
        if entry.distribution.partition(" ")[0] != "gpumon":
            continue
        declared = declaration_of(registry.load(entry))
        off = ", off by default" if declared.is_off_by_default else ""
        for key in declared.finding_classes:
            claimed.setdefault(key, []).append(f"[`{declared.name}`](#{declared.name}){off}")
    rows = [
        (f"`{key}`", cell(one.meaning), one.category.value, one.loss.value,
         ", ".join(claimed.get(key, ())))
        for key, one in CLASSES.items()
    ]  # fmt: skip
    return table(("class", "what it means", "category", "loss", "claimed by"), rows)


def precedence() -> str:
    """Classes in the order in which they take their share of lost time, the gravest first."""
    words = {Loss.WHOLE: "all", Loss.PART: "a part", Loss.NONE: "none"}
    groups = groupby(CLASSES.values(), key=lambda one: (one.category.value, words[one.loss]))
    rows = [
        (category, ", ".join(f"`{one.key}`" for one in found), loss)
        for (category, loss), found in groups
    ]
    return table(("category", "classes", "loses"), rows)


def features() -> str:
    """What is computed of every job for whoever asks."""
    head = ("feature", "unit", "what it says", "made of", "where it is missing")
    rows = [
        (f"`{one.key}`", one.unit, cell(one.doc), ", ".join(f"`{key}`" for key in one.fields),
         cell(one.absence))
        for one in FEATURES
    ]  # fmt: skip
    return table(head, rows)


def map_signs() -> str:
    """The states that cells of the map tell."""
    return table(("sign", "state"), [(mark.sign, mark.words) for mark in STATES])


def fields(block: str) -> str:
    """The catalogue's fields of one kind of entity."""
    return table(
        ("key", "title", "unit", "kind", "what it says", "read from", "DCGM"),
        [_field(field) for field in CATALOGUE.values() if field.block == block],
    )


def _field(field: Field) -> tuple[str, ...]:
    return (
        f"`{field.key}`",
        cell(field.title),
        field.unit,
        field.kind.value,
        cell(field.doc),
        cell(field.origin),
        f"`{field.dcgm}`" if field.dcgm else "",
    )


def view_columns() -> dict[str, Sequence[Column[Any]]]:
    """The columns of each table of the whole fleet, by the name of its view."""
    views = {name: AllViews().root(name) for name in ROOTS}
    found: dict[str, Sequence[Column[Any]]] = {"jobs": JOB_COLUMNS}
    for name, view in views.items():
        if isinstance(view, FleetView):
            found[name] = view.plan.columns
    return found


def columns(found: Sequence[Column[Any]]) -> str:
    """The columns of one of the terminal's tables."""
    return table(("column", "what it shows"), [(c.title, cell(c.doc)) for c in found])


def filter_lines() -> str:
    """The language of row filters."""
    return table(("typed", "keeps"), [(f"`{typed}`", cell(doc)) for typed, doc in FILTER_HELP])


def filter_units() -> str:
    """How numbers are written in row filters."""
    rows = [
        (unit or "count", cell(scale.says), " ".join(f"`{suffix}`" for suffix in scale.suffixes))
        for unit, scale in SCALES.items()
    ]
    return table(("unit", "a number is", "it may end in"), rows)


def filter_names() -> str:
    """The names of every table's columns in row filters."""
    tables = view_columns()
    tables["ranks of a job"] = RANK_COLUMNS
    tables["findings"] = FINDING_COLUMNS
    rows = [
        (name, " ".join(f"`{one}`" for one in typable(found))) for name, found in tables.items()
    ]
    return table(("table", "its columns as one types them"), rows)


def clock_events() -> str:
    """Bits of `clock_event_reasons`."""
    rows = [(f"`0x{bit:03x}`", name) for bit, name in CLOCK_EVENT_REASONS.items()]
    return table(("bit", "name"), rows)


def reasons() -> str:
    """Members of `Reason` with the docstrings that the source gives them."""
    tree = ast.parse((ROOT / "gpumon" / "model" / "missing.py").read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    rows = []
    for member, doc in pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(doc, ast.Expr):
            rows.append((f"`{ast.literal_eval(member.value)}`", cell(ast.literal_eval(doc.value))))
    return table(("reason", "what it means"), rows)


def helps() -> str:
    """What every command says of itself."""
    commands: tuple[tuple[str, ...], ...] = (
        (),
        ("completion",),
        ("config",),
        ("doctor",),
        ("detectors",),
        ("detectors", "describe"),
        ("detectors", "check"),
        ("record",),
        ("serve",),
        ("replay",),
        ("evaluate",),
        ("patterns",),
        ("report",),
        ("simulate",),
        ("train",),
    )
    parts = []
    for words in commands:
        title = " ".join(("gpumon", *words))
        parts.append(f"## `{title}`\n\n```text\n{_help(*words)}```\n")
    return "\n".join(parts)


def _help(*words: str) -> str:
    """A command's help, as a terminal of `HELP_COLUMNS` shows it."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_COLUMNS
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            code = gpumon([*words, "--help"])
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns
    if code != 0:
        raise PageError(f"gpumon {' '.join(words)} --help ended with {code}")
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@cache
def _measurements() -> dict[str, dict[str, float]]:
    path = ROOT / "tools" / "measured.json"
    found: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))["classes"]
    return found


def measured(key: str) -> str:
    """How well a class was told in the recordings of `tools/measured.json`; empty: not tried."""
    one = _measurements().get(key)
    if one is None:
        return ""
    right = f"{one['right']} of {one['claims']} claims right" if one["claims"] else "no claim made"
    return f"{one['found']} of {one['labels']} found, {right}"


def measured_classes() -> str:
    """The same of every class, with its GPU-hours: the truth, and what was charged."""
    head = ("class", "found, claims right", "GPU-h lost", "wasted", "suspected")
    hours = ("gpu_hours_true", "gpu_hours_wasted", "gpu_hours_suspected")
    rows = [
        (f"`{key}`", measured(key), *(f"{one[name]:.1f}" for name in hours))
        for key, one in _measurements().items()
    ]
    return table(head, rows)


def detectors() -> str:
    """What each built-in detector says of itself, and what it says in its scenes."""
    parts = []
    for entry in registry.entries():
        if entry.distribution.partition(" ")[0] != "gpumon":
            continue
        found = registry.load(entry)
        declared = declaration_of(found)
        rows = [
            ("claims", ", ".join(f"`{name}`" for name in declared.finding_classes)),
            ("judges", f"each {declared.subjects}"),
            ("needs", ", ".join(f"`{key}`" for key in declared.needs)),
            ("*supported* after", f"{declared.supported_after_s:g} s observed"),
            ("*established* after", f"{declared.established_after_s:g} s observed"),
            *((f"`{name}`", f"{value}") for name, value in parameters(found).items()),
        ]
        if declared.longest_period_s:
            rows.insert(3, ("samples", f"one every {declared.longest_period_s:g} s at least"))
        rows += [
            (f"`{key}` [as measured](numbers.md#recordings-not-seen-before)", how)
            for key in declared.finding_classes
            if (how := measured(key))
        ]
        if declared.is_off_by_default:
            rows.insert(0, ("runs", "only where `detectors.enabled` names it"))
        doc = inspect.getdoc(type(found)) or ""
        head = f"## {declared.name}\n\n{doc}\n\n{table(('', ''), rows)}\n"
        drawn = drawing_of(found)
        drawing = f"**What it looks like**\n\n{drawn}\n" if drawn else ""
        parts.append(head + drawing + sentences_of(found))
    return "\n".join(parts)


def targets() -> str:
    """What can be watched, as the main command's help lists it."""
    listed = EPILOG.partition("targets:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^  (\S.*?)(?:  +|\n {6,})(.*(?:\n {6,}.*)*)", listed, re.MULTILINE)
    rows = [(f"`{name}`", cell(" ".join(doc.split()))) for name, doc in entries]
    return table(("target", "what it reads"), rows)


def settings() -> str:
    """What can be set."""
    rows = [
        (
            f"`{one.key}`",
            one.form.value,
            f"`{shown(one.default)}`",
            f"`{one.variable}`" if one.has_variable else "",
            cell(one.doc),
        )
        for one in SETTINGS
    ]
    return table(("key", "takes", "default", "variable", "what it says"), rows)


def objects_of(described: Sequence[Described]) -> str:
    """The keys of JSON objects, as their schema describes them."""
    return "\n".join(
        f"## {one.name}\n\n{one.doc}\n\n"
        + table(("key", "type", "what it says"), [tuple(map(cell, row)) for row in one.rows])
        for one in described
    )


def bounds_of(group: str) -> str:
    """Limits on what comes from somewhere, and what is said when one is met."""
    return table(bounds.HEAD, [tuple(map(cell, row)) for row in bounds.rows(group)])


ALIKE: Final = "accounts"
"""A view whose columns are those of another one, but for the first: the users'."""

BLOCKS: Final[dict[str, Callable[[], str]]] = {
    **{f"bounds of {group}": partial(bounds_of, group) for group in bounds.GROUPS},
    **{f"fields of {block}": partial(fields, block) for block in LABELS},
    "clock events": clock_events,
    "reasons": reasons,
    "fields of the map": map_fields,
    "signs of the map": map_signs,
    **{
        f"columns of {view}": partial(columns, found)
        for view, found in view_columns().items()
        if view != ALIKE
    },
    "columns of findings": lambda: columns(FINDING_COLUMNS),
    "columns of fields": lambda: columns(FIELD_COLUMNS),
    "columns of links": lambda: columns(LINK_COLUMNS),
    "columns of slices": lambda: columns(SLICE_COLUMNS),
    "columns of processes of a GPU": lambda: columns(PROCESS_COLUMNS),
    "columns of ports": lambda: columns(PORT_COLUMNS),
    "columns of file systems": lambda: columns(FILESYSTEM_COLUMNS),
    "columns of local file systems": lambda: columns(SPACE_COLUMNS),
    "columns of job use": lambda: columns(JOB_USE_COLUMNS),
    "filter": filter_lines,
    "filter units": filter_units,
    "filter names": filter_names,
    "keys": keys_markdown,
    "rooms": rooms,
    **{f"plugin {one.__name__}": one for one in docstrings.PARTS},
    "exceptions": exceptions,
    "threads": threads_page,
    "commands": helps,
    "forecast": docstrings.forecast,
    "classes": classes,
    "precedence": precedence,
    "features": features,
    "detectors": detectors,
    "measured classes": measured_classes,
    "settings": settings,
    "targets": targets,
    "document": lambda: objects_of(document()),
    "documents of commands": lambda: objects_of(documents_of_commands()),
    "benign kinds": lambda: table(KIND_HEAD, kind_rows(BENIGN)),
    "wasteful kinds": lambda: table(KIND_HEAD, kind_rows((*WASTEFUL, *MISPLACED.values()))),
    "data sheets": lambda: table(SHEET_HEAD, sheet_rows()),
    "faults": fault_tables,
    "questions": questions_table,
    "roads": lambda: table(ROAD_HEAD, road_rows()),
    "xids": lambda: table(XID_HEAD, xid_rows()),
}


def filled(text: str, name: str) -> str:
    """A page with its blocks as the code says them now.

    Raises:
        PageError: A block has no end, or nobody writes it.
    """

    def fill(match: re.Match[str]) -> str:
        if match["name"] not in BLOCKS:
            raise PageError(f"{name}: nobody writes the block {match['name']!r}")
        return f"{match['begin']}\n{BLOCKS[match['name']]().strip()}\n\n{match['end']}"

    if text.count("<!-- generated: ") != len(BLOCK.findall(text)):
        raise PageError(f"{name}: a generated block has no end")
    return BLOCK.sub(fill, text)


def stale(root: Path) -> dict[Path, str]:
    """Pages below a folder that do not say what the code says, with what they should say."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    found = {}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        wanted = filled(text, page.name)
        if wanted != text:
            found[page] = wanted
    return found


def main() -> int:
    """Exit code of the tool."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name stale pages")
    options = parser.parse_args()
    try:
        found = stale(ROOT)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    for page, text in found.items():
        print(f"{'stale' if options.check else 'written'}: {page.relative_to(ROOT)}")
        if not options.check:
            page.write_text(text, encoding="utf-8")
    if options.check and found:
        print("run: make docs", file=sys.stderr)
    return int(options.check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
