"""Answers of Prometheus' interface: what has another form is left out, counted, or one line."""

from __future__ import annotations

import json
from math import inf, isnan
from typing import Any

import pytest

from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.label_columns import Labelling
from gpumon.sources.prometheus.response import Answer


def opened(given: Any, status: int = 200) -> Answer:
    return response.opened(json.dumps(given).encode(), status)


def vector(*rows: Any) -> Answer:
    return Answer({"resultType": "vector", "result": list(rows)}, ())


def test_an_envelope_holds_data_and_warnings() -> None:
    given = opened({"status": "success", "data": [1], "warnings": ["one\x1b store", 7, "is down"]})
    assert given.data == [1]
    assert given.warnings == ("one� store", "is down")


def test_an_answer_that_calls_itself_partial_warns() -> None:
    assert opened({"status": "success", "data": [], "isPartial": True}).warnings == (
        "its answer is partial",
    )
    assert opened({"status": "success", "data": [], "isPartial": False}).warnings == ()


def test_a_label_that_is_no_utf_8_costs_no_other_series() -> None:
    """VictoriaMetrics repeats its bytes (seen of 1.79)."""
    rows = b'{"metric":{"a":"H\xff\xe2"},"value":[1.5,"2"]},{"metric":{"a":"b"},"value":[1.5,"3"]}'
    body = b'{"status":"success","data":{"resultType":"vector","result":[' + rows + b"]}}"
    for one in (body, body.replace(b'"value":[', b'"value": [')):
        found = response.vector(response.opened(one, 200)).rows
        assert [(row.labels["a"], row.value) for row in found] == [
            ("H\ufffd\ufffd", 2.0),
            ("b", 3.0),
        ]


def test_of_many_warnings_the_first_are_told() -> None:
    given = opened({"status": "success", "data": [], "warnings": [f"w{n}" for n in range(9)]})
    assert given.warnings == ("w0", "w1", "w2", "and 6 more warnings")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b'{"status":"odd"}',
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"status":"success","data":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_answer_shows_its_beginning(body: bytes) -> None:
    with pytest.raises(FetchError) as caught:
        response.opened(body, 200)
    assert "another form" in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 256


def test_an_error_is_told_in_the_servers_words() -> None:
    with pytest.raises(FetchError) as caught:
        opened({"status": "error", "errorType": "bad_data", "error": "line\nbreak \x1b[31m"}, 400)
    message = "answers with an error (HTTP 400): bad_data: line break �[31m"
    assert caught.value.message == message


def test_rows_are_labels_and_a_value() -> None:
    rows = response.vector(
        vector(
            {"metric": {"a": "b"}, "value": [1.5, "2"]},
            {"metric": {}, "value": [1, "NaN"]},
            {"metric": {}, "value": [1, "-Inf"]},
        )
    )
    assert rows.left_out == 0
    assert (rows.rows[0].labels, rows.rows[0].value) == ({"a": "b"}, 2.0)
    assert isnan(rows.rows[1].value)
    assert rows.rows[2].value == -inf


@pytest.mark.parametrize(
    "row",
    [
        None,
        {},
        {"metric": {}, "value": [1]},
        {"metric": {}, "value": [1, 2]},
        {"metric": {}, "value": ["1", "2"]},
        {"metric": {}, "value": [True, "2"]},
        {"metric": {}, "value": [1, "1_0"]},
        {"metric": {}, "value": [1, "x"]},
        {"metric": {}, "value": [10**400, "1"]},
        {"metric": {}, "value": [float("nan"), "1"]},
        {"metric": {"a": 1}, "value": [1, "1"]},
        {"metric": [], "value": [1, "1"]},
        {"metric": {}, "histogram": [1, {}]},
    ],
)
def test_a_row_that_cannot_be_read_is_counted(row: Any) -> None:
    rows = response.vector(vector(row, {"metric": {}, "value": [1, "1"]}))
    assert (len(rows.rows), rows.left_out) == (1, 1)


def test_no_more_rows_are_read_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "MOST_ROWS", 2)
    rows = response.vector(vector(*({"metric": {}, "value": [1, "1"]} for _ in range(5))))
    assert (len(rows.rows), rows.left_out) == (2, 3)


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"resultType": "matrix", "result": []}, {"resultType": "vector", "result": 1}],
)
def test_another_form_is_one_line(data: Any) -> None:
    with pytest.raises(FetchError, match="another form than a vector"):
        response.vector(Answer(data, ()))


def test_nothing_may_be_written_as_null() -> None:
    assert response.vector(Answer({"resultType": "vector", "result": None}, ())).rows == []
    assert response.samples(Answer({"resultType": "matrix", "result": None}, ())) == []
    assert response.names(Answer(None, ())) == []


def test_a_time_may_be_a_scalar_or_a_vector() -> None:
    assert response.instant(Answer({"resultType": "scalar", "result": [5, "5.5"]}, ())) == 5.5
    assert response.instant(vector({"metric": {}, "value": [5, "5.5"]})) == 5.5
    for wrong in ("NaN", "-1", "1e300"):
        with pytest.raises(FetchError, match="a time"):
            response.instant(vector({"metric": {}, "value": [5, wrong]}))
    with pytest.raises(FetchError):
        response.instant(vector())


def test_names_are_texts() -> None:
    assert response.names(Answer(["a", 1, "b"], ())) == ["a", "b"]
    with pytest.raises(FetchError, match="names"):
        response.names(Answer({}, ()))


def test_samples_over_time_have_their_times() -> None:
    series = [{"metric": {}, "values": [[1, "1"], [2, "x"], [3.5, "1"]]}, {"values": 1}, 7]
    data = {"resultType": "matrix", "result": series}
    assert response.times(Answer(data, ())) == [[1.0, 3.5]]


def instant_body(*rows: Any, **more: Any) -> bytes:
    given = {"status": "success", "data": {"resultType": "vector", "result": [*rows]}, **more}
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()


def series(value: str = "5", at: float = 1.5, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [at, value]}


def both_ways(body: bytes) -> tuple[response.Rows, bool]:
    """The series of an answer, which are the same where it is read the long way."""
    quick = response.opened(body, 200)
    slow = response.opened(body.replace(b'"result":[', b'"result": ['), 200)
    assert slow.cut is None
    assert quick.warnings == slow.warnings
    given = response.vector(quick)
    others = response.vector(slow)
    assert [repr(row) for row in given.rows] == [repr(row) for row in others.rows]
    assert given.left_out == others.left_out
    return given, quick.cut is not None


@pytest.mark.parametrize(
    ("rows", "is_cut"),
    [
        ([series(UUID="GPU-1"), series("7.25", UUID="GPU-2", gpu="1")], True),
        ([series("NaN", UUID="a"), series("-Inf", UUID="b"), series("1e9", UUID="c")], True),
        ([series(UUID='"]},{"metric":{"a":"b"},"value":[1.5,"'), series(UUID="\\é\n")], True),
        ([series("1_0", UUID="a"), series(UUID="b")], False),
        ([series("x", UUID="a"), series(UUID="b")], False),
        ([series(UUID="a"), series(UUID="b", at=2.5)], False),
        ([series(UUID="a"), {"metric": {"UUID": "c"}}], False),
        ([{"metric": {"UUID": 7}, "value": [1.5, "5"]}, series(UUID="b")], True),
        ([{"metric": {"UUID": {"x": "y"}}, "value": [1.5, "5"]}, series(UUID="b")], True),
        ([series()], True),
        ([series(at=1e300, UUID="a")], False),
    ],
)
def test_series_are_cut_out_without_reading_them_only_where_that_tells_the_same(
    rows: list[Any], is_cut: bool
) -> None:
    assert both_ways(instant_body(*rows))[1] == is_cut
    assert both_ways(instant_body(*rows, warnings=["one"]))[1] == is_cut
    assert not both_ways(instant_body(*rows, warnings=['one "]}] two']))[1]


def test_each_text_of_labels_is_read_once() -> None:
    body = instant_body(series(UUID="a"), series("6", UUID="b"), series("7"))
    read: list[str] = []

    def named(labels: Labelling) -> list[str | None]:
        rows = [own or {} for own in labels.rows()]
        read.extend(own.get("UUID", "?") for own in rows)
        return [own.get("UUID") for own in rows]

    known: dict[str, str | None] = {}
    for given in (instant_body(*(series(str(n), UUID=f"{n}") for n in range(3))), body, body):
        found, values, left_out = response.by_labels(response.opened(given, 200), known, named)
        assert len(found) == len(values) == 3
        assert left_out == 0
    assert found == ["a", "b", None]
    assert list(values) == [5.0, 6.0, 7.0]
    assert read == ["0", "1", "2", "a", "b", "?"]


def test_no_more_series_are_cut_out_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "MOST_ROWS", 2)
    body = instant_body(*(series(UUID=f"{n}") for n in range(5)))
    found, values, left_out = response.by_labels(response.opened(body, 200), {}, Labelling.rows)
    assert (len(found), len(values), left_out) == (2, 2, 3)
