"""What a node of a scene reports: nothing of an earlier sample stays that was told otherwise."""

from __future__ import annotations

import pytest

from gpumon.detect.scene_machine import Sheet


def told(sheet, at, field):
    block = sheet.block(at)
    return {key: block.value(field, row) for row, key in enumerate(block.keys)}


def test_a_block_is_the_same_object_while_nothing_changes():
    sheet = Sheet("gpu")
    sheet.set("a", 10.0, {"power_w": 130.0}, instead=True)
    first = sheet.block(10.0)
    sheet.set("a", 20.0, {"power_w": first.value("power_w", 0)}, instead=True)
    assert sheet.block(20.0).columns == first.columns
    assert sheet.block(30.0) is sheet.block(40.0)


def test_what_is_told_otherwise_is_another_and_the_rest_stays():
    sheet = Sheet("gpu")
    for key, watts in (("a", 130.0), ("b", 170.0)):
        sheet.set(key, 10.0, {"power_w": watts, "temp_c": 41.0, "name": "board"})
    before = sheet.block(10.0)
    sheet.set("b", 20.0, {"power_w": 210.0})
    after = sheet.block(20.0)
    assert told(sheet, 20.0, "power_w") == {"a": 130.0, "b": 210.0}
    assert list(before.columns["power_w"]) == [130.0, 170.0]
    assert after.columns["temp_c"] is before.columns["temp_c"]
    sheet.set("a", 30.0, {"name": "other"})
    assert sheet.block(30.0).labels["name"] == ("other", "board")


def test_a_value_that_moves_is_asked_at_each_time_until_it_stands_still():
    sheet = Sheet("gpu")
    sheet.set("a", 100.0, {"power_w": lambda s: 50.0 + s, "temp_c": 33.0})
    sheet.set("b", 100.0, {"power_w": 70.0})
    assert told(sheet, 104.0, "power_w") == {"a": 54.0, "b": 70.0}
    assert told(sheet, 109.0, "power_w") == {"a": 59.0, "b": 70.0}
    assert told(sheet, 109.0, "temp_c") == {"a": 33.0, "b": None}
    sheet.set("a", 110.0, {"power_w": 12.0})
    assert told(sheet, 115.0, "power_w") == {"a": 12.0, "b": 70.0}
    assert sheet.block(120.0) is sheet.block(130.0)


def test_a_field_that_is_told_no_more_is_gone_and_what_lasts_is_not():
    sheet = Sheet("gpu")
    sheet.set("a", 10.0, {"temp_c": 90.0})
    sheet.set("a", 10.0, {"temp_c": 35.0, "power_w": lambda s: s}, instead=True)
    assert told(sheet, 12.0, "temp_c") == {"a": 90.0}
    sheet.set("a", 20.0, {"sm_active_ratio": 0.5}, instead=True)
    assert sheet.block(21.0).columns.keys() == {"temp_c", "sm_active_ratio"}
    assert sheet.block(21.0) is sheet.block(22.0)


def test_an_entity_that_comes_or_goes_is_one_row_more_or_less():
    sheet = Sheet("nic")
    sheet.set("p0", 10.0, {"nic_speed_gbps": 200.0})
    assert told(sheet, 10.0, "nic_speed_gbps") == {"p0": 200.0}
    sheet.set("p1", 10.0, {})
    assert told(sheet, 10.0, "nic_speed_gbps") == {"p0": 200.0, "p1": None}
    sheet.drop("p0")
    assert sheet.block(10.0).keys == ("p1",)
    assert sheet.block(10.0).columns == {}


def test_a_field_of_another_block_is_refused_and_leaves_no_trace():
    sheet = Sheet("gpu")
    with pytest.raises(KeyError, match="load_1m is not a field of gpu"):
        sheet.set("a", 10.0, {"power_w": 3.0, "load_1m": 2.0})
    assert sheet.block(10.0).keys == ()
