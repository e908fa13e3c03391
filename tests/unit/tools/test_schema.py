"""The schema is filled from the catalogue, grows only, and stays JSON that people can read."""

from __future__ import annotations

import copy
import json

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from tools import schema

FORM = json.loads(schema.PATH.read_text(encoding="utf-8"))


def test_the_shipped_schema_is_up_to_date() -> None:
    assert schema.text_of(schema.updated(FORM)) + "\n" == schema.PATH.read_text(encoding="utf-8")


def test_a_lost_or_changed_field_is_written_again() -> None:
    form = copy.deepcopy(FORM)
    gpu = form["$defs"]["gpu"]["properties"]
    del gpu["power_w"]
    gpu["temp_c"]["description"] = "something else"
    assert schema.updated(form) == FORM


def test_nothing_is_ever_taken_out() -> None:
    form = copy.deepcopy(FORM)
    form["$defs"]["gpu"]["properties"]["of_old"] = {"type": "string", "description": "Old."}
    assert "of_old" in schema.updated(form)["$defs"]["gpu"]["properties"]


def test_a_ratio_is_bounded_and_a_temperature_may_be_below_zero() -> None:
    assert schema.property_of(CATALOGUE["gpu_util_ratio"])["maximum"] == 1
    assert "minimum" not in schema.property_of(CATALOGUE["temp_c"])
    assert schema.property_of(CATALOGUE["energy_j"])["type"] == ["integer", "null"]


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": 1},
        {"text": 'é\n"quoted"'},
        {"words": [f"a_rather_long_word_{number}" for number in range(40)]},
        {"deep": [{"x": "y" * 100, "z": ["w" * 100, "v"]}, None, True, 1.5]},
        FORM,
    ],
)
def test_what_is_written_is_the_same_json(value: object) -> None:
    text = schema.text_of(value)
    assert json.loads(text) == value
    lines = [line for line in text.splitlines() if '": "' not in line]
    assert all(len(line) <= schema.WIDTH + 1 for line in lines)
