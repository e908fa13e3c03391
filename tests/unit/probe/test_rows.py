from __future__ import annotations

import pytest

from gpumon.probe.rows import Changes, Row, block


def row(key, values=(), labels=(), missing=()):
    made = Row(key, 1.0)
    made.values, made.labels, made.missing = dict(values), dict(labels), dict(missing)
    return made


@pytest.mark.parametrize("extra", [{}, {"z": 9}])
def test_columns_hold_what_each_row_has_in_order(extra):
    found = block([row("a", {"y": 2, "x": 1}), row("b", {"x": 3, "y": 4, **extra})])
    lacking = {key: [None, value] for key, value in extra.items()}
    assert found["columns"] == {"x": [1, 3], "y": [2, 4], **lacking}
    assert list(found["columns"]) == sorted(found["columns"])


def test_one_column_and_no_row_at_all():
    assert block([row("a", {"x": 1}), row("b")])["columns"] == {"x": [1, None]}
    empty = {"keys": [], "at": [], "columns": {}, "labels": {}, "missing": {}}
    assert block([]) == empty


def test_times_of_readings_before_the_row_s_are_told_where_there_are_any():
    first, second = row("a", {"x": 1}), row("b", {"x": 2})
    assert "read_at" not in block([first, second])
    second.read_at["x"] = 0.25
    whole = Row("b", 1.0)
    whole.add(second)
    assert block([first, whole])["read_at"] == {"x": [None, 0.25]}


def test_a_reason_of_all_rows_is_told_once():
    first = row("a", labels={"n": "one"}, missing={"x": "lost", "y": "lost"})
    second = row("b", labels={"n": "two"}, missing={"x": "lost"})
    found = block([first, second])
    assert found["missing"] == {"x": "lost", "y": {"0": "lost"}}
    assert found["labels"] == {"n": ["one", "two"]}


def test_what_is_as_it_was_is_left_out_of_the_next_report():
    changes = Changes()
    first = block([row("a", {"x": 1, "y": 2}, {"n": "one"}, {"z": "lost"})])
    assert changes.of("gpu", first) is first
    second = block([row("a", {"x": 1, "y": 3}, {"n": "one"}, {"z": "failed"})])
    assert changes.of("gpu", second) == {
        "at": [1.0],
        "columns": {"y": [3]},
        "labels": {},
        "missing": {"z": "failed"},
    }
    assert changes.of("node", second) is second
    assert changes.of("gpu", second)["columns"] == {}


@pytest.mark.parametrize(
    "other",
    [
        row("b", {"x": 1}, {"n": "one"}, {"z": "lost"}),
        row("a", {}, {"n": "one"}, {"z": "lost"}),
        row("a", {"x": 1}, {}, {"z": "lost"}),
        row("a", {"x": 1}, {"n": "one"}, {}),
        row("a", {"x": 1, "y": 2}, {"n": "one"}, {"z": "lost"}),
    ],
)
def test_a_report_with_other_names_is_whole(other):
    changes = Changes()
    changes.of("gpu", block([row("a", {"x": 1}, {"n": "one"}, {"z": "lost"})]))
    now = block([other])
    assert changes.of("gpu", now) is now
