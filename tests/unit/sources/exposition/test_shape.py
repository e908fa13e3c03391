"""A page that looks as the last did is read by its values alone, with the same result."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.exposition.parse import parse
from gpumon.sources.exposition.shape import Shape, numbers, shape_of

PAGE = (
    b"# HELP a Some text with a brace} x\n# TYPE a gauge\n"
    b'a{p="x y",q="} 5"} 1\na{p="z"} 2.5\n'
    b'b{p="z"} NaN\nb{p="w"} 4\n'
)


def shaped(body: bytes = PAGE, wanted: tuple[int, ...] = (0, 1, 3)) -> Shape | None:
    return shape_of(body, parse(body), wanted)


def test_a_page_of_the_same_shape_gives_its_new_values() -> None:
    shape = shaped()
    assert shape is not None
    assert shape.words(PAGE) == [b"1", b"2.5", b"4"]
    later = PAGE.replace(b" 2.5\n", b" +Inf\n").replace(b" 4\n", b" 1e9\n")
    words = shape.words(later)
    assert words is not None
    assert numbers(words) == [1.0, math.inf, 1e9]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'p="z"', b'p="Z"'),
        (b"a{", b"c{"),
        (b" 2.5\n", b" 2.5 1700000000000\n"),
        (b" 2.5\n", b" 2.5 \n"),
        (b"# TYPE", b"# KIND"),
        (b'b{p="w"} 4\n', b""),
        (b'b{p="w"} 4\n', b'b{p="w"} 4\nb{p="v"} 4\n'),
        (b" 4\n", b" 4"),
        (b'b{p="w"} 4\n', b'b{p="w"} 4\nc 5\n'),
    ],
)
def test_a_page_that_differs_otherwise_has_another_shape(old: bytes, new: bytes) -> None:
    shape = shaped()
    assert shape is not None
    assert shape.words(PAGE.replace(old, new)) is None


@pytest.mark.parametrize(
    "line", [b"a\t1\n", b'a{p="x"}1\n', b'a{p="x"} 1 1700000000000\n', b'a{p="x"} 1 \n']
)
def test_a_value_that_no_blank_parts_or_that_has_a_time_has_no_shape(line: bytes) -> None:
    assert shaped(PAGE + line, (0, 4)) is None
    assert shaped(PAGE + line, (0,)) is not None


@pytest.mark.parametrize("words", [[b"1", b"one"], [b"1_0"], [b"0x1"]])
def test_words_that_are_no_numbers_are_left_to_the_strict_reader(words: list[bytes]) -> None:
    assert numbers(words) is None


LINES = st.sampled_from(
    [
        *(b"# HELP a b} 1", b"# EOF", b"", b'a{p="x"} 1', b'a{p="y z"} 2', b"a 3", b'a{p="x"}  4'),
        *(b'a{p="x"} 5 6', b'a{p="} 7"} 8', b"x} 9", b"} }", b'a{p="x"} 1\r', b'b{p="x"} nan'),
    ]
)


@given(st.lists(LINES, max_size=12), st.booleans())
def test_the_short_way_reads_what_the_strict_one_does(lines: list[bytes], is_whole: bool) -> None:
    body = b"\n".join(lines) + b"\n" * is_whole
    page = parse(body)
    wanted = [number for number, one in enumerate(page.samples) if one.place is not None]
    shape = shape_of(body, page, wanted)
    assert shape is not None
    words = shape.words(body)
    assert words is not None
    assert repr(numbers(words)) == repr([page.samples[number].value for number in wanted])


def test_values_without_labels_and_words_of_comments_may_change() -> None:
    body = b'# HELP a Seen 5 times\na 1\nb 2\na{p="x"}  3\n'
    shape = shaped(body, (0, 2))
    assert shape is not None
    again = b'# HELP a Seen 6 once\na 4\nb 5\na{p="x"}  6\n'
    assert shape.words(again.replace(b"6 once", b"5 once")) == [b"4", b"6"]
    assert shape.words(again) is None


def test_an_end_of_line_of_another_system_changes_no_value() -> None:
    shape = shaped()
    assert shape is not None
    words = shape.words(PAGE.replace(b" 2.5\n", b" 2.5\r\n"))
    assert words is not None
    assert numbers(words) == numbers(shape.words(PAGE) or [])


def test_a_line_that_loses_its_value_has_no_number() -> None:
    body = b"a 1\nb 2\nc\n"
    shape = shaped(body, (0, 1))
    assert shape is not None
    words = shape.words(b"a 1\nb\nc 2\n")
    assert words is not None
    assert numbers(words) is None
