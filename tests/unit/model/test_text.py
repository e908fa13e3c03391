"""Text from outside can neither steer a terminal nor hide what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.text import MAX_TEXT, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("train.py", "train.py"),
        ("[bold]x[/]", "[bold]x[/]"),
        ("Größe 東京 🚀", "Größe 東京 🚀"),
        ("\x1b[31mred", "�[31mred"),
        ("\x9b31m", "�31m"),
        ("a\nb\tc\rd", "a�b�c�d"),
        ("\x00\x07\x7f", "���"),
        ("\u202eabc\u2066", "�abc�"),
        ("a\u200bb\u00adc\ufeff", "a�b�c�"),
        ("\u2028\u2029", "��"),
        ("\ue000\ud800", "��"),
        ("\u0378", "�"),
        ("x" * MAX_TEXT, "x" * MAX_TEXT),
        ("x" * (MAX_TEXT + 1), "x" * (MAX_TEXT - 1) + "…"),
    ],
)
def test_what_becomes_of_a_text(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_two_names_do_not_become_one_empty_one() -> None:
    assert plain("\x1b") != ""
    assert plain("\x1b\x1b") != plain("\x1b")


def test_the_limit_is_the_caller_s() -> None:
    assert plain("abcdef", 4) == "abc…"
    assert plain("é" * 10_000_000, 8) == "é" * 7 + "…"


@given(st.text(alphabet=st.characters()), st.integers(1, 40))
def test_any_text_is_harmless_short_and_stays_as_it_is(text: str, limit: int) -> None:
    found = plain(text, limit)
    assert len(found) <= limit
    assert all(letter.isprintable() or letter.isspace() for letter in found)
    assert not {"\n", "\r", "\t", "\x1b", "\u2028", "\u202e"} & set(found)
    assert plain(found, limit) == found
    assert (found == "") is (text == "")
