"""Frames: a missing value is never a number, and always has a reason."""

from __future__ import annotations

from math import isnan, nan

import pytest

from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block, column_for


def block(**changes: object) -> Block:
    fields = {
        "keys": ("a", "b"),
        "columns": {
            "temp_c": column_for(False, [0, None]),
            "energy_j": column_for(True, [2**62 + 1, None]),
        },
        "labels": {"name": ("H100", None)},
        "missing": {("temp_c", 1): Reason.LOST, ("name", 1): Reason.NO_PERMISSION},
    }
    return Block(**{**fields, **changes})


def test_columns_keep_integers_whole_and_missing_apart() -> None:
    whole = column_for(True, [2**63 - 1, 0, None])
    assert whole.typecode == "q"
    assert list(whole) == [2**63 - 1, 0, MISSING_INTEGER]
    gauges = column_for(False, [1, 0.0, None])
    assert gauges.typecode == "d"
    assert list(gauges[:2]) == [1.0, 0.0]
    assert isnan(gauges[2])
    assert len(column_for(True, [])) == len(column_for(False, [])) == 0


def test_zero_is_a_value_and_missing_is_none() -> None:
    assert block().value("temp_c", 0) == 0
    assert block().value("temp_c", 1) is None
    with pytest.raises(IndexError):
        block().value("temp_c", 2)
    assert block().value("energy_j", 0) == 2**62 + 1
    assert block().value("energy_j", 1) is None
    assert block().value("power_w", 0) is None
    given_nan = block(columns={"temp_c": column_for(False, [nan, 1])})
    assert given_nan.value("temp_c", 0) is None


def test_a_reason_stands_for_every_missing_value_and_for_no_other() -> None:
    assert block().reason("temp_c", 0) is None
    assert block().reason("temp_c", 1) is Reason.LOST
    assert block().reason("energy_j", 1) is Reason.NOT_SAMPLED
    assert block().reason("power_w", 0) is Reason.NOT_SAMPLED


def test_labels_have_reasons_too() -> None:
    assert block().label("name", 0) == "H100"
    assert block().label("name", 1) is None
    assert block().label("pci_bus_id", 0) is None
    assert block().reason("name", 0) is None
    assert block().reason("name", 1) is Reason.NO_PERMISSION


@pytest.mark.parametrize("reason", Reason)
def test_reasons_are_words_for_scripts(reason: Reason) -> None:
    assert reason.value == reason.name.lower()
    assert reason.value.replace("_", "").isalpha()
