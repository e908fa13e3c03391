"""Pages of metrics as exporters write them, and as none should."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.exposition import parse as parsing
from gpumon.sources.exposition.parse import Sample, parse


def series_of(text: str | bytes) -> list[tuple[str, dict[str, str], float, float | None]]:
    body = text.encode() if isinstance(text, str) else text
    page = parse(body)
    assert page.wrong == ()
    return [(one.name, dict(one.labels), one.value, one.sampled_at) for one in page.samples]


def one(text: str | bytes) -> Sample:
    body = text.encode() if isinstance(text, str) else text
    (found,) = parse(body + b"\n").samples
    return found


def test_names_labels_and_values_are_read_in_order() -> None:
    text = (
        "# HELP a What it is.\n# TYPE a gauge\n"
        'a{x="1",y="two words"} 3\n'
        'a{x="2",y="two words"} -4.5e3\n'
        "\n"
        "b 7\n"
    )
    assert series_of(text) == [
        ("a", {"x": "1", "y": "two words"}, 3.0, None),
        ("a", {"x": "2", "y": "two words"}, -4500.0, None),
        ("b", {}, 7.0, None),
    ]


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        (r'a{p="C:\\d\n\"q\""} 1', {"p": 'C:\\d�"q"'}),
        (r'a{p="\t"} 1', {"p": r"\t"}),
        ('a{p="}",q="a{b} 5"} 1', {"p": "}", "q": "a{b} 5"}),
        ('a{p="x" , q = "y",} 1', {"p": "x", "q": "y"}),
        ('a {p=""}\t1', {"p": ""}),
        ("a{} 1", {}),
        ('a{p="ä€"} 1', {"p": "ä€"}),
        ('a{p="\x1b[31m"} 1', {"p": "�[31m"}),
        ('{"a",p="x"} 1', {"p": "x"}),
        ('{"a","p.q"="x"} 1', {"p.q": "x"}),
    ],
)
def test_labels_are_read_as_they_are_escaped_and_made_harmless(
    line: str, labels: dict[str, str]
) -> None:
    found = one(line)
    assert (found.name, dict(found.labels), found.value) == ("a", labels, 1.0)


def test_labels_that_are_not_utf8_are_replaced() -> None:
    assert one(b'a{p="x\xff\xfey"} 1').labels == {"p": "x��y"}


@pytest.mark.parametrize(
    ("word", "value"),
    [("+Inf", math.inf), ("-Inf", -math.inf), ("1e3", 1000.0), (".5", 0.5), ("0x", None)],
)
def test_values_are_those_of_the_format(word: str, value: float | None) -> None:
    page = parse(f'a{{p="x"}} {word}\n'.encode())
    assert [sample.value for sample in page.samples] == ([] if value is None else [value])
    assert bool(page.wrong) is (value is None)


def test_not_a_number_is_a_value() -> None:
    assert math.isnan(one("a NaN").value)


def test_digits_are_not_joined() -> None:
    page = parse(b'a{p="x"} 1\na{p="x"} 1_000\n')
    assert [sample.value for sample in page.samples] == [1.0]
    assert "not a number" in page.wrong[0]


def test_times_are_milliseconds_and_seconds_in_openmetrics() -> None:
    assert series_of('a{p="x"} 1 1700000000500\n') == [("a", {"p": "x"}, 1.0, 1_700_000_000.5)]
    open_text = 'a{p="x"} 1 1700000000.5\n# EOF\n'
    assert series_of(open_text) == [("a", {"p": "x"}, 1.0, 1_700_000_000.5)]
    assert series_of(open_text.rstrip("\n")) == series_of(open_text)


def test_an_exemplar_is_passed_over() -> None:
    text = 'a_bucket{le="1"} 5 # {trace_id="x"} 0.5 1700000000.1\na_bucket{le="2"} 6\n# EOF\n'
    assert [(name, labels["le"], value) for name, labels, value, _ in series_of(text)] == [
        ("a_bucket", "1", 5.0),
        ("a_bucket", "2", 6.0),
    ]


def test_lines_of_windows_and_blanks_around_are_read() -> None:
    text = '# HELP a b\r\na{p="x"} 1\r\n  a{p="y"}   2  \n\ta\t3\n'
    assert [value for _, _, value, _ in series_of(text)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("<html><body>no</body></html>", "not a series"),
        ('a{p="x} 1', "not a series"),
        ("a{p=x} 1", "not a series|label is malformed"),
        ('a{p="x"}', "not a series"),
        ('{p="x"} 1', "no name"),
        ('a{"p"} 1', "no value"),
        ('a{p="1",p="2"} 1', "twice"),
        ("a5", "not a series"),
        ("a=5", "not a series"),
        ("5", "not a series"),
        ('a{p="x"} one', "not a number"),
        ('a{p="x"} 1 1.2.3', "not a number"),
        ('a{p="x",,} 1', "label is malformed"),
    ],
)
def test_a_line_that_is_none_costs_itself_and_is_told(line: str, why: str) -> None:
    page = parse(f'b{{q="1"}} 1\n{line}\nb{{q="1"}} 2\n'.encode())
    assert [sample.value for sample in page.samples] == [1.0, 2.0]
    assert len(page.wrong) == 1
    assert any(word in page.wrong[0] for word in why.split("|")), page.wrong


def test_a_page_that_ends_within_a_line_says_so_and_drops_it() -> None:
    page = parse(b'a{p="x"} 12\na{p="y"} 3')
    assert [sample.value for sample in page.samples] == [12.0]
    assert "ends within a line" in page.wrong[0]


def test_of_many_wrong_lines_the_number_is_told() -> None:
    page = parse(b"?\n" * 12)
    assert len(page.wrong) == parsing.MOST_WRONG_LINES + 1
    assert page.wrong[-1] == "9 more lines are wrong"


def test_a_line_that_is_too_long_is_left_out() -> None:
    long = b'a{p="' + b"x" * parsing.LONGEST_LINE_BYTES + b'"} 1\n'
    page = parse(long + b"b 2\n")
    assert [sample.name for sample in page.samples] == ["b"]
    assert "too long" in page.wrong[0]
    assert len(page.wrong[0]) < 120


def test_a_series_with_too_many_labels_is_left_out() -> None:
    many = ",".join(f'l{number}="x"' for number in range(parsing.MOST_LABELS + 1))
    page = parse(f"a{{{many}}} 1\nb 2\n".encode())
    assert [sample.name for sample in page.samples] == ["b"]
    assert "too many labels" in page.wrong[0]


def test_a_long_label_is_cut() -> None:
    found = one('a{p="' + "x" * (parsing.LONGEST_LABEL + 9) + '"} 1')
    assert len(found.labels["p"]) == parsing.LONGEST_LABEL


def test_no_more_series_are_read_than_a_page_can_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MOST_SERIES", 5)
    page = parse(b"".join(b'a{p="%d"} 1\n' % number for number in range(8)))
    assert len(page.samples) == 5
    assert page.wrong == ("reports 8 series; 5 are read",)


def test_series_that_share_their_labels_share_one_object() -> None:
    page = parse(b'a{p="x"} 1\nb{p="x"} 2\nc{p="x"} 3\na{p="x"} 4\n')
    assert page.samples[2].labels is page.samples[2].labels
    assert page.samples[3].labels is page.samples[2].labels


@given(st.binary(max_size=400))
def test_no_bytes_break_it(body: bytes) -> None:
    parse(body)


def reference() -> Any:
    return pytest.importorskip("prometheus_client.parser")


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
KEYS = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)
TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=12)
VALUES = st.floats() | st.integers(-(2**60), 2**60)


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@given(st.lists(st.tuples(NAMES, st.dictionaries(KEYS, TEXTS, max_size=4), VALUES), max_size=8))
def test_what_is_written_as_the_format_says_is_read_as_the_reference_reads_it(
    series: list[tuple[str, dict[str, str], float]],
) -> None:
    lines = []
    for name, labels, value in series:
        inner = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inner}}} {value}" if labels else f"{name} {value}")
    text = "".join(f"{line}\n" for line in lines)
    families = reference().text_string_to_metric_families(text)
    expected = [
        (sample.name, sample.labels, float(sample.value))
        for family in families
        for sample in family.samples
    ]
    found = parse(text.encode())
    assert found.wrong == ()
    assert sorted(map(repr, expected)) == sorted(
        repr((one.name, dict(one.labels), one.value)) for one in found.samples
    )


@pytest.mark.parametrize("word", ["Inf", "+Inf", "-Inf", "NaN", "inf", "1e5", ".5", "5.", "+1"])
def test_a_value_is_what_prometheus_itself_reads(word: str) -> None:
    (sample,) = parse(f"a {word}\n".encode()).samples
    assert sample.value == float(word) or math.isnan(float(word))


@pytest.mark.parametrize("word", ["0x1p-2", "0X1.8P3", "0x10", "1_000", "0x_1p2", "1,5", "１"])
def test_other_numbers_of_go_are_none_as_prometheus_refuses_them_too(word: str) -> None:
    """Its parser keeps to what Go read before 1.13: neither `p` nor `_` is in a number."""
    page = parse(f"a {word}\nb 2\n".encode())
    assert [sample.name for sample in page.samples] == ["b"]
    assert "not a number" in page.wrong[0]


def test_a_histogram_in_one_value_is_passed_over() -> None:
    body = (
        b"# TYPE h histogram\n"
        b'h{le="{count:1}"} 3\n'
        b"h {count:12,sum:3.5,schema:3,zero_threshold:1e-4,zero_count:0} 1.0 st@0.5\n"
        b'h{uuid="GPU-0"} {count:17,sum:3.5,bucket:[0.1:8,+Inf:17]} # {a="b"} 0.5\n'
        b"s {count:2,sum:3}\n"
        b"a 5\n"
    )
    page = parse(body)
    assert [(one.name, one.value) for one in page.samples] == [("h", 3.0), ("a", 5.0)]
    assert page.wrong == ()
    assert parse(b"h {count:12,sum:3.5}\n").wrong == (
        "it has only histograms in one value, which gpumon does not read",
    )
    assert parse(b"h {count:12,sum:3.5\na 5\n").wrong[0].startswith("a line is not a series")


@pytest.mark.parametrize(
    ("line", "at"),
    [
        (b"a_total 5 st@1700000000.5", None),
        (b'a_total{b=" st@1"} 5 17 st@1700000000.5', 17.0),
        (b'a_total 5 17 st@1e9 # {trace="c"} 1', 17.0),
    ],
)
def test_when_a_counter_began_is_passed_over(line: bytes, at: float | None) -> None:
    (sample,) = parse(line + b"\n# EOF\n").samples
    assert (sample.name, sample.value, sample.sampled_at, sample.place) == ("a_total", 5, at, None)


def test_a_mark_of_utf_8_before_the_first_line_is_none_of_it() -> None:
    page = parse(b"\xef\xbb\xbfa 1\nb 2\n")
    assert [(one.name, one.value, one.place) for one in page.samples] == [("a", 1, 0), ("b", 2, 1)]
    assert page.wrong == ()
