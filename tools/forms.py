"""JSON documents' schemas as types: mypy finds a mistyped key and a value of another kind.

Written by `python -m tools.schema`, which knows what is measured; imported for types alone.
"""

from __future__ import annotations

import json
import re
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

TYPES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
"""Python's types of JSON's."""

PARTS: Final = {
    "job": {"JobNames": ("told_by", "state"), "JobRequest": ("qos", "exclusive")},
    "ceiling": {"CeilingName": ("what", "fields")},
    "evaluation": {"JudgedClaims": ("macro_f1", "benign_charged_gpu_hours")},
    "baseline": {"JudgedClaims": ("macro_f1", "benign_charged_gpu_hours")},
    "all_classes": {"Counts": ("precision", "claims")},
    "class_score": {"Counts": ("precision", "claims")},
    "judged_class": {"ClassScore": ("precision", "wasted_error_ratio")},
    "report": {"ReportSpan": ("total", "lines")},
}
"""Parts of objects that a function of their own makes: their name, their first and last key."""

SOMETIMES: Final = {("Tool", "footprint")}
"""What is left out where it is not known: only a command that runs on measures gpumon's cost."""

OF_OLD: Final = {
    "Gpu": (
        "sw_power_cap_s",
        "thermal_violation_s",
        "sw_thermal_s",
        "hw_thermal_s",
        "power_brake_s",
    )
}
"""Keys that the schema still has, as it only grows, and that no document has any more."""

PARTS_DOC: Final = "A part of one that a function of its own makes."

_HEAD: Final = '''"""{doc}

Made of the schema by `python -m tools.schema`; change that instead.
"""

from __future__ import annotations

from typing import {names}
'''


class Forms:
    """The types of a schema, each object once, as Python."""

    def __init__(self, measured: Mapping[str, Mapping[str, Any]]) -> None:
        """Begin without any.

        Args:
            measured: By the object's name: classes of what the catalogue says of it, which stand in
                a module of their own, and the properties that each of them has.
        """
        self._measured = measured
        self._classes: list[str] = []
        self._made: dict[str, dict[str, Any]] = {}
        self._elsewhere: frozenset[str] = frozenset()

    def of_document(self, schema: Mapping[str, Any]) -> str:
        """The module of all objects."""
        for name, form in schema["$defs"].items():
            self._object(name, camel(name), form)
        self._object("", "Document", schema)
        head = _HEAD.format(
            doc="What the JSON document is made of, as types.",
            names="TYPE_CHECKING, Literal, NotRequired, TypedDict",
        )
        imports = (
            "\nfrom gpumon.report.document import measured\n"
            "\nif TYPE_CHECKING:\n"
            "    from gpumon.report.facts.entities import Moment\n"
        )
        return head + imports + "".join(self._classes)

    def of_commands(
        self, schemas: Mapping[str, Mapping[str, Any]], elsewhere: Collection[str]
    ) -> str:
        """The module of what commands write beside the document.

        Args:
            schemas: By the name of what they describe.
            elsewhere: Names of objects that are the document's own.
        """
        self._elsewhere = frozenset(elsewhere)
        for key, schema in schemas.items():
            for name, form in schema["$defs"].items():
                if name not in self._elsewhere:
                    self._object(name, camel(name), form)
            self._object(key, camel(key), schema)
        head = _HEAD.format(
            doc="What commands write as JSON beside the document, as types.",
            names="TYPE_CHECKING, Literal, TypedDict",
        )
        imports = (
            "\nif TYPE_CHECKING:\n"
            "    from gpumon.report.document import forms\n"
            "    from gpumon.report.facts.entities import Moment\n"
        )
        return head + imports + "".join(self._classes)

    def of_measured(self) -> str:
        """The module of what the catalogue says."""
        for key, classes in self._measured.items():
            for name, properties in classes.items():
                members = list(self._members(name, properties))
                summary = f"What the catalogue says of the document's `{key}`."
                self._classes.append(_class(name, summary, (), members))
        doc = "What is measured of each kind of entity, as types: the catalogue's fields and texts."
        return _HEAD.format(doc=doc, names="TypedDict") + "".join(self._classes)

    def _object(self, key: str, name: str, form: Mapping[str, Any]) -> None:
        bases = [f"measured.{base}" for base in self._measured.get(key, {})]
        left = dict(form["properties"])
        for properties in self._measured.get(key, {}).values():
            left = {one: what for one, what in left.items() if one not in properties}
        for part, (first, last) in PARTS.get(key, {}).items():
            keys = list(left)
            own = {one: left.pop(one) for one in keys[keys.index(first) : keys.index(last) + 1]}
            if self._is_new(part, own):
                self._classes.append(_class(part, PARTS_DOC, (), list(self._members(part, own))))
            bases.append(part)
        if self._is_new(name, form["properties"]):
            members = list(self._members(name, left))
            self._classes.append(_class(name, _summary_of(form), tuple(bases), members))

    def _is_new(self, name: str, properties: Mapping[str, Any]) -> bool:
        """Whether no class is called so: objects may share a part, which is the same in each."""
        kinds = {key: {**form, "description": ""} for key, form in properties.items()}
        if self._made.setdefault(name, kinds) == kinds:
            return self._made[name] is kinds
        raise ValueError(f"two objects are called {name}, and differ")

    def _members(self, name: str, properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key, form in properties.items():
            if key in OF_OLD.get(name, ()):
                continue
            kind = self._type(("" if name == "Document" else name) + camel(key), form)
            yield key, f"NotRequired[{kind}]" if (name, key) in SOMETIMES else kind

    def _type(self, name: str, form: Mapping[str, Any]) -> str:
        if "$ref" in form:
            referred = str(form["$ref"]).rpartition("/")[2]
            return ("forms." if referred in self._elsewhere else "") + camel(referred)
        if "oneOf" in form:
            return " | ".join(self._type(name, one) for one in form["oneOf"])
        if "const" in form:
            return f"Literal[{json.dumps(form['const'])}]"
        if "enum" in form:
            return "str"
        kinds = form["type"] if isinstance(form["type"], list) else [form["type"]]
        return " | ".join(self._plain(name, kind, form) for kind in kinds)

    def _plain(self, name: str, kind: str, form: Mapping[str, Any]) -> str:
        if kind == "null":
            return "None"
        if kind == "array":
            one = {"description": form.get("description"), **form["items"]}
            return f"list[{self._type(name, one)}]"
        if kind == "object" and "properties" in form:
            self._object("", name, form)
            return name
        if kind == "object":
            return f"dict[str, {self._type(name, form['additionalProperties'])}]"
        is_moment = "pattern" in form or form.get("format") == "date-time"
        return "Moment" if kind == "string" and is_moment else TYPES[kind]


def camel(key: str) -> str:
    """A key's name as that of a class."""
    return "".join(word.capitalize() for word in re.split("[_-]", key))


def _summary_of(form: Mapping[str, Any]) -> str:
    """The beginning of what the schema states of an object."""
    return re.split(r"[.:;]\s", form["description"])[0].rstrip(".") + "."


def _class(name: str, summary: str, bases: tuple[str, ...], members: list[tuple[str, str]]) -> str:
    if any(iskeyword(key) for key, _ in members):
        lines = "".join(f'        "{key}": "{kind}",\n' for key, kind in members)
        doc = f'"""{summary}"""\n'
        return f'\n\n{name} = TypedDict(\n    "{name}",\n    {{\n{lines}    }},\n)\n{doc}'
    lines = "".join(f"    {key}: {kind}\n" for key, kind in members)
    doc = f'    """{summary}"""\n'
    return f"\n\nclass {name}({', '.join(bases) or 'TypedDict'}):\n{doc}\n{lines}"
