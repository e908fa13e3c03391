"""Writes into the JSON Schema of the document what the catalogue says of every measured value.

    python -m tools.schema            bring the schemas up to date, and the types that follow
    python -m tools.schema --check    exit 1 if they are not

The schemas of what other commands write are beside it. They share objects with it, which are copied
from there, and each of their keys is always there.

What the catalogue does not know (identities, texts, findings) is written in the schema by hand and
left alone. Nothing is ever taken out: within a major version the document only grows.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.report.document.nodes import WRITTEN_APART
from gpumon.report.facts.entities import KEYS
from tools.forms import Forms, camel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.catalogue.field import Field

PATH: Final = Path(__file__).resolve().parent.parent / "gpumon/report/document-2.schema.json"
FORMS: Final = PATH.parent / "document/forms.py"
MEASURED: Final = PATH.parent / "document/measured.py"
"""The schema as types: of all objects, and of what the catalogue says of some."""
COMMAND_FORMS: Final = FORMS.with_name("command_forms.py")
"""What commands write beside the document, as types."""

SHARED: Final = ("ledger_line", "ledger_named_line")
"""Objects of the document that others show as well."""

WIDTH: Final = 160

UNITS: Final = {
    "ratio": "0 to 1",
    "bytes": "bytes",
    "bytes/s": "bytes per second",
    "W": "watts",
    "J": "joules",
    "C": "degrees Celsius",
    "MHz": "megahertz",
    "s": "seconds",
    "ms": "milliseconds",
    "ns": "nanoseconds",
    "1/s": "per second",
    "Gb/s": "gigabits per second",
}
"""Units in words; others are words already."""

OBJECTS: Final = {
    "gpu": ("gpu",),
    "link": ("link",),
    "mig": ("mig",),
    "process": ("process", "context"),
    "node": ("node",),
    "nic": ("nic",),
    "filesystem": ("filesystem",),
    "local_filesystem": ("local_filesystem",),
    "event": ("event",),
    "cgroup": ("cgroup",),
}
"""Objects of the schema and the blocks whose values they show."""

WITHOUT_TEXTS: Final = ("process",)
"""Objects that show texts of their blocks in a way of their own."""

IN_PARTS: Final = ("gpu", "process")
"""Objects between whose texts, values and reasons something else stands."""


def property_of(field: Field) -> dict[str, Any]:
    """What the schema says of one field."""
    unit = f" Unit: {UNITS.get(field.unit, field.unit)}." if field.unit else ""
    form: dict[str, Any] = {
        "type": ["integer" if field.kind.is_integer else "number", "null"],
        "description": field.doc + unit,
    }
    if field.low >= 0:
        form["minimum"] = int(field.low) if float(field.low).is_integer() else field.low
    if field.unit == "ratio":
        form["maximum"] = 1
    return form


def updated(form: dict[str, Any]) -> dict[str, Any]:
    """The schema with every measured value in it, in the catalogue's order."""
    objects = dict(form["$defs"])
    for name, blocks in OBJECTS.items():
        measured = {key: property_of(CATALOGUE[key]) for key in _measured_keys(blocks)}
        texts: dict[str, Any] = {}
        if name not in WITHOUT_TEXTS:
            texts = {label: _text(label) for label in LABELS.get(name, ())}
        objects[name] = _with(objects[name], measured, texts)
    return {**form, "$defs": objects}


def types(form: dict[str, Any]) -> dict[Path, str]:
    """The modules of types that follow from the schema."""
    measured: dict[str, dict[str, Any]] = {}
    for name, blocks in OBJECTS.items():
        own = form["$defs"][name]["properties"]
        values = {key: own[key] for key in _measured_keys(blocks)}
        texts = {label: own[label] for label in LABELS.get(name, ()) if name not in WITHOUT_TEXTS}
        if name not in IN_PARTS:
            measured[name] = {camel(name): {**texts, **values, "missing": own["missing"]}}
        else:
            parts = {"Texts": texts, "Values": values}
            measured[name] = {camel(name) + part: keys for part, keys in parts.items() if keys}
    return {
        FORMS: Forms(measured).of_document(form),
        MEASURED: Forms(measured).of_measured(),
    }


def of_commands() -> dict[Path, dict[str, Any]]:
    """The schemas of what commands write beside the document, by their files."""
    paths = sorted(set(PATH.parent.glob("*.schema.json")) - {PATH})
    return {path: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def completed(form: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A schema of theirs with the document's objects that it refers to, and all keys required.

    Args:
        form: The schema.
        document: That of the document.
    """
    text = json.dumps(form)
    own = {name: _all_required(one) for name, one in form["$defs"].items() if name not in SHARED}
    shared = {one: document["$defs"][one] for one in SHARED if f'"#/$defs/{one}"' in text}
    return {**_all_required(form), "$defs": {**own, **shared}}


def _all_required(form: dict[str, Any]) -> dict[str, Any]:
    """An object of whose keys none is ever left out; `required` stands before them."""
    left = {key: value for key, value in form.items() if key != "required"}
    at = list(left).index("properties")
    items = list(left.items())
    required = ("required", list(form["properties"]))
    return dict([*items[:at], required, *items[at:]])


def command_types(forms: Mapping[Path, dict[str, Any]]) -> str:
    """The module of types of what commands write beside the document."""
    named = {path.name.rpartition("-")[0]: form for path, form in forms.items()}
    return Forms({}).of_commands(named, SHARED)


def _measured_keys(blocks: tuple[str, ...]) -> list[str]:
    return [key for block in blocks for key in KEYS.get(block, ()) if key not in WRITTEN_APART]


def _text(label: str) -> dict[str, Any]:
    words = label.replace("_", " ")
    return {"type": ["string", "null"], "description": f"{words.capitalize()}, where it is known."}


def _with(part: dict[str, Any], measured: dict[str, Any], texts: dict[str, Any]) -> dict[str, Any]:
    """One object with its measured values before `missing`, or where they have been."""
    old = part["properties"]
    texts = {label: form for label, form in texts.items() if label not in old}
    found: dict[str, Any] = {}
    for key, form in old.items():
        if (key in measured or key == "missing") and not found.keys() & measured.keys():
            found |= {**texts, **measured}
        found.setdefault(key, form)
    return {**part, "properties": found}


def text_of(value: object, indent: int = 0, taken: int = 0) -> str:
    """JSON that keeps on one line what fits there."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent + taken <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        items = []
        for key, item in value.items():
            head = f"{json.dumps(key)}: "
            items.append(pad + head + text_of(item, indent + 2, len(head) + 1))
        return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
    if all(isinstance(item, str) for item in value):
        return (
            "[\n" + _filled([json.dumps(item) for item in value], pad) + "\n" + " " * indent + "]"
        )
    items = [pad + text_of(item, indent + 2) for item in value]
    return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"


def _filled(words: list[str], pad: str) -> str:
    lines = [pad]
    for word in words:
        if len(lines[-1]) + len(word) + 2 > WIDTH and lines[-1] != pad:
            lines[-1] = lines[-1].rstrip()
            lines.append(pad)
        lines[-1] += f"{word}, "
    return "\n".join(lines).rstrip(", ")


def main() -> int:
    """Exit code of the tool."""
    parser = argparse.ArgumentParser(prog="python -m tools.schema", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    form = updated(json.loads(PATH.read_text(encoding="utf-8")))
    stale = 0
    commands = {path: completed(one, form) for path, one in of_commands().items()}
    texts = {path: text_of(one) + "\n" for path, one in {PATH: form, **commands}.items()}
    for path, new in {**texts, **types(form), COMMAND_FORMS: command_types(commands)}.items():
        if path.exists() and new == path.read_text(encoding="utf-8"):
            continue
        stale = 1
        print(f"{'stale' if options.check else 'written'}: {path.name}")
        if not options.check:
            path.write_text(new, encoding="utf-8")
    return stale if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
