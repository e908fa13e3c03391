"""The keys of the JSON documents, object by object, as their schemas describe them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tools import schema


class Described(NamedTuple):
    """One object."""

    name: str
    doc: str
    rows: list[tuple[str, str, str]]
    """Of each key: its name, its type, what it says."""


def document() -> list[Described]:
    """The objects of the JSON document: the document itself first."""
    form = json.loads(schema.PATH.read_text(encoding="utf-8"))
    return [_described(name, part) for name, part in {"document": form, **form["$defs"]}.items()]


def documents_of_commands() -> list[Described]:
    """Of what commands write beside it, without the objects that it has as well."""
    found = []
    for form in schema.of_commands().values():
        parts = {form["title"]: form, **form["$defs"]}
        found += [_described(key, one) for key, one in parts.items() if key not in schema.SHARED]
    return found


def _described(name: str, form: dict[str, Any]) -> Described:
    rows = [
        (f"`{key}`", _type(value), value.get("description", ""))
        for key, value in form["properties"].items()
    ]
    return Described(name, form["description"], rows)


def _type(form: dict[str, Any]) -> str:
    """A schema's type in words; other objects of the document as links."""
    if "$ref" in form:
        name = form["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "oneOf" in form:
        return " or ".join(_type(choice) for choice in form["oneOf"])
    if "const" in form or "enum" in form:
        return ", ".join(f"`{word}`" for word in form.get("enum", [form.get("const")]))
    types = form["type"] if isinstance(form["type"], list) else [form["type"]]
    if "properties" in form:
        return "object of " + ", ".join(f"`{key}`" for key in form["properties"])
    words = [
        f"array of {_type(form['items'])}" if kind == "array" and "items" in form else kind
        for kind in types
    ]
    return " or ".join(words)
