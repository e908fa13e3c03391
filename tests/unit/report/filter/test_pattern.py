"""Patterns of filters: they mean what Python's do, and their time is bounded by the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.report.filter.pattern import MOST_TEXT, Pattern
from gpumon.report.filter.pattern_parser import MOST_CHARS, MOST_GROUPS, PatternError

atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[a-b0]", r"\d", r"\W", r"\.", "^", "$", "-", "B"]
)
patterns = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{1,}", "*?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        )
    ),
    max_leaves=6,
)


@given(patterns, st.text("abB0.- ", max_size=8))
def test_it_finds_what_python_finds(pattern, text):
    try:
        mine = Pattern(pattern)
    except PatternError:
        assert len(pattern) > MOST_CHARS or pattern.count("{") > 3
        return
    assert mine.found_in(text) == bool(re.search(pattern, text, re.IGNORECASE)), pattern


@given(st.text(max_size=40) | st.text("a()[]{}*+?|^$\\-,019", max_size=40))
def test_no_pattern_raises_anything_but_a_pattern_error(pattern):
    refused = None
    try:
        found = Pattern(pattern)
    except PatternError as error:
        refused = error
    if refused is None:
        assert found.found_in("some text") in (True, False)
    else:
        assert 0 <= refused.at <= len(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*.*.*.*)x", "(a?){60}a{60}$"])
def test_what_takes_others_for_ever_takes_steps_like_the_text(pattern):
    found = Pattern(pattern)
    steps = []
    step = found._step
    found._step = lambda state, char: steps.append(char) or step(state, char)
    found.found_in("a" * 400 + "!")
    assert len(steps) <= 401


def test_only_the_beginning_of_a_long_text_is_looked_at():
    assert Pattern("b").found_in("a" * (MOST_TEXT - 1) + "b")
    assert not Pattern("b").found_in("a" * MOST_TEXT + "b")


def test_steps_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr("gpumon.report.filter.pattern._MOST_KNOWN", 50)
    found = Pattern("a.{0,20}b")
    text = "".join(chr(97 + (i * 7) % 26) for i in range(400))
    assert found.found_in(text) == bool(re.search("a.{0,20}b", text))
    assert sum(len(state.steps) for state in found._known.values()) <= 60


def test_depth_and_length_are_bounded():
    with pytest.raises(PatternError, match="groups deep"):
        Pattern("(" * (MOST_GROUPS + 1) + "a" + ")" * (MOST_GROUPS + 1))
    with pytest.raises(PatternError, match="at most"):
        Pattern("a" * (MOST_CHARS + 1))


@pytest.mark.parametrize(
    "text",
    [
        "()" + "{60}" * 12,
        "(){0,50}" * 2 + "(()()){64}{64}{64}{64}{64}",
        "(a{0}){64}{64}{64}{64}{64}{64}",
    ],
)
def test_repeats_of_nothing_take_no_time(text: str) -> None:
    assert Pattern(text).found_in("any")


def test_a_counted_repeat_of_what_may_be_empty_is_still_found() -> None:
    assert Pattern("^(a?){3}$").found_in("aa")
    assert not Pattern("^(a?){3}$").found_in("aaaa")
