"""JSON documents against their schemas, without room for keys that these do not describe."""

from __future__ import annotations

import copy
import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator


def form_of(name: str) -> dict[str, Any]:
    """The schema that the package ships under a name, such as `document-2`."""
    found = files("gpumon.report") / f"{name}.schema.json"
    form: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return form


def closed(form: Any) -> Any:
    """The schema without room for keys that it doesn't describe, as the writer must keep to it."""
    form = copy.deepcopy(form)
    todo = [form]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if "properties" in part:
                part["additionalProperties"] = False
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return form


@cache
def _strict(name: str) -> Draft202012Validator:
    return Draft202012Validator(closed(form_of(name)))


def checked(name: str, data: Any) -> Any:
    """The document as its reader gets it, once it has been found to keep to the schema."""
    parsed = json.loads(data if isinstance(data, str) else json.dumps(data, allow_nan=False))
    assert [f"{e.json_path}: {e.message}" for e in _strict(name).iter_errors(parsed)] == []
    return parsed
