"""The pages use the words of the glossary, more so with every edit, and get no longer."""

from __future__ import annotations

import json

import pytest

from tools import words

GLOSSARY = (words.ROOT / "docs" / words.GLOSSARY).read_text(encoding="utf-8")


def test_no_page_and_no_help_has_more_of_the_words_that_are_not_written() -> None:
    most = json.loads(words.COUNTS.read_text(encoding="utf-8"))
    assert words.above(words.today(), most) == [], "docs/words.md has the words to use"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Nobody told it.", 2),
        ("A stand-in for `told`.", 0),
        ("```\nsaid\n```\n[x](told.md)", 0),
        ("Rows as it is", 1),
    ],
)
def test_words_are_counted_outside_of_code(text: str, count: int) -> None:
    assert words.counted({"page": text}, GLOSSARY).get("page", 0) == count


def test_generated_parts_do_not_count() -> None:
    assert words.hand_written("a <!-- generated: x -->\ntold\n<!-- end --> b").split() == ["a", "b"]


def test_what_is_new_may_hold_none() -> None:
    assert words.above({"new.md": 1}, {}) == ["new.md: 1, at most 0"]
    assert words.above({"new.md": 1}, {"new.md": 1}) == []
