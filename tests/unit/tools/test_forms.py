"""The schema as types: what is made of it, and what mypy finds by it in a reader."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools import schema
from tools.forms import OF_OLD, Forms

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
FORM = json.loads(schema.PATH.read_text(encoding="utf-8"))

OBJECT = {
    "description": "A thing. More of it.",
    "properties": {
        "at": {"type": ["string", "null"], "pattern": "Z$"},
        "count": {"type": "integer"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/one_part"}},
        "by_name": {"type": "object", "additionalProperties": {"type": "number"}},
        "inner": {
            "type": ["object", "null"],
            "description": "Inside.",
            "properties": {"is_so": {"type": "boolean"}},
        },
    },
}


def test_the_types_that_are_checked_in_are_up_to_date() -> None:
    commands = {path: schema.completed(form, FORM) for path, form in schema.of_commands().items()}
    made = {**schema.types(FORM), schema.COMMAND_FORMS: schema.command_types(commands)}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "python -m tools.schema"


def test_each_kind_of_value_has_its_type() -> None:
    part = {"description": "A part.", "properties": {"name": {"type": "string"}}}
    text = Forms({}).of_document({**OBJECT, "$defs": {"one_part": part}})
    found = {
        line.strip() for line in text.splitlines() if ":" in line and not line.startswith("class")
    }
    assert {
        "at: Moment | None",
        "count: int",
        "parts: list[OnePart]",
        "by_name: dict[str, float]",
        "inner: Inner | None",
        "is_so: bool",
        "name: str",
    } <= found
    assert '    """A thing."""' in text


def test_a_key_that_python_reserves_is_one_all_the_same() -> None:
    made = {"description": "A claim.", "properties": {"class": {"type": "string"}}}
    text = Forms({}).of_document({**made, "$defs": {}})
    assert '"class": "str"' in text
    ast.parse(text)


def test_what_is_of_old_is_in_the_schema_and_in_no_type() -> None:
    text = schema.FORMS.read_text(encoding="utf-8")
    for name, keys in OF_OLD.items():
        assert set(keys) <= FORM["$defs"][name.lower()]["properties"].keys()
        assert not [key for key in keys if f" {key}:" in text]


def functions_of_the_document() -> Iterator[tuple[str, str]]:
    """Each function that makes a part of it, with what it says that it returns."""
    for file in sorted((ROOT / "gpumon/report/document").glob("*.py")):
        stem = file.stem
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                yield f"{stem}.{node.name}", ast.unparse(node.returns)


def test_no_part_of_the_document_is_made_without_a_type() -> None:
    assert [name for name, returned in functions_of_the_document() if "Any" in returned] == []


def test_every_key_of_what_commands_write_is_required_and_objects_are_shared() -> None:
    for path, form in schema.of_commands().items():
        assert form == schema.completed(form, FORM), path.name
        assert form["required"] == list(form["properties"])
        for name in set(form["$defs"]) & set(FORM["$defs"]):
            assert form["$defs"][name] == FORM["$defs"][name], name


def test_objects_share_a_part_and_no_two_have_one_name() -> None:
    whole = {"description": "A sum.", "properties": {"n": {"type": "integer"}}}
    other = {"description": "Another.", "properties": {"n": {"type": "string"}}}

    def made(first: dict[str, object], second: dict[str, object]) -> str:
        forms = {"a": {**OBJECT, "$defs": {"x": first}}, "b": {**OBJECT, "$defs": {"x": second}}}
        return Forms({}).of_commands(forms, ())

    assert made(whole, whole).count("class X(") == 1
    with pytest.raises(ValueError, match="two objects are called X, and differ"):
        made(whole, other)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('made["jobs"][0]["job_idd"]', 'has no key "job_idd"'),
        ('made["jobs"][0]["gpu_count"].strip()', 'Item "int"'),
        ('made["generated_at"] = "now"', 'expected "Moment"'),
        ('scores["classes"]["idle"]["stepz"]', 'has no key "stepz"'),
    ],
)
def test_mypy_finds_what_a_reader_would_stumble_on(line: str, said: str, tmp_path: Path) -> None:
    read = tmp_path / "reader.py"
    read.write_text(
        "from gpumon.report.document.command_forms import Evaluation\n"
        "from gpumon.report.document.forms import Document\n"
        f"def read(made: Document, scores: Evaluation) -> None:\n    {line}\n"
    )
    words = ["-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words, "--config-file=", "--explicit-package-bases", str(read)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said in done.stdout
