"""Patterns in what no finding explains: their page, and how they get a name."""

from __future__ import annotations

import threading

import pytest

from gpumon.model.records.pattern import PatternCard, Patterns, Trait
from tests.worlds.probe import PATIENCE_S
from tests.worlds.tick import AT, fleet

CARD = PatternCard(
    ("48209", "48249", "48276"),
    ("luca", "jomo"),
    27.4 * 3600,
    AT - 7200.0,
    "48249",
    (Trait("util_15m", 0.23, 0.97), Trait("pauses_60m", 18.4, 0.0)),
)
FOUND = Patterns(AT, AT - 7300.0, (CARD,), ("77",), 46.4 * 3600, 1760.0 * 3600)


class Found:
    """Knows of patterns; tells what it was asked to call them."""

    def __init__(self, found):
        self.found, self.asked, self.ticks = found, [], []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def take(self, tick):
        self.ticks.append(tick)

    def name(self, number, name):
        self.may_answer.wait(PATIENCE_S)
        self.asked.append((number, name))
        return f"named: {name}, version 1"

    def unname(self, name):
        self.asked.append(name)
        return f"removed: {name}"

    def close(self):
        """Nothing is under way."""


def typed(text):
    """The keys of a command, Enter included."""
    special = {" ": "space", "_": "underscore"}
    return ("colon", *(special.get(char, char) for char in text), "enter")


async def until(s, words):
    """Wait until words are in the status line."""
    for _ in range(1000):
        if words in s.text:
            return
        await s.pilot.pause(0.01)
    raise AssertionError(s.text)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_card_tells_how_much_whose_and_by_what_one_sees_it(stage, size):
    async with stage(fleet(), size=size) as s:
        s.app.discovery = Found(FOUND)
        await s.press(*typed("patterns"))
        text = " ".join(s.text.split())
        assert "46.4 GPU-h of 1,760 GPU-h since" in text
        assert "make 1 pattern." in text
        assert "27.4 GPU-h 3 jobs of 2 users (luca, jomo), since" in text
        assert "like job 48249; also 48209, 48276" in text
        assert "Utilisation, mean of 15 minutes: 23 %, usually 97 %" in text
        assert "1 job resembles no other: 77" in text
        assert ":name 1 some_name" in text
        assert all(len(line) <= size[0] for line in s.lines)


async def test_a_card_of_a_pattern_that_has_a_name_says_it(stage):
    async with stage(fleet()) as s:
        s.app.discovery = Found(FOUND._replace(cards=(CARD._replace(names=("slow_tokeniser",)),)))
        await s.press(*typed("patterns"))
        assert "1 slow_tokeniser: 27.4 GPU-h 3 jobs of 2 users" in " ".join(s.text.split())


async def test_each_tick_goes_to_who_looks_for_patterns(stage):
    async with stage() as s:
        s.app.discovery = Found(None)
        await s.give(fleet())
        assert [tick.at for tick in s.app.discovery.ticks] == [fleet().at]


async def test_before_anything_is_found_it_says_what_is_missing(stage):
    async with stage(fleet()) as s:
        s.app.discovery = Found(None)
        await s.press(*typed("patterns"))
        assert "15 minutes of jobs" in s.text


async def test_what_could_not_be_grouped_is_above_the_cards(stage):
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.discovery = Found(FOUND._replace(trouble="jobs cannot be grouped: [b]x[/b]"))
        await s.press(*typed("patterns"))
        assert "! jobs cannot be grouped: [b]x[/b]" in s.text
        assert "27.4 GPU-h" in s.text


async def test_what_was_never_grouped_has_no_hours(stage):
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.discovery = Found(Patterns(AT, AT, (), (), 0.0, 0.0, "jobs cannot be grouped: x"))
        await s.press(*typed("patterns"))
        assert "! jobs cannot be grouped: x" in s.text
        assert "GPU-h" not in s.text


async def test_where_nobody_looks_it_says_what_does(stage):
    async with stage(fleet(), size=(120, 40)) as s:
        await s.press(*typed("patterns"))
        assert "gpumon patterns FILE" in s.text
        await s.press(*typed("name 1 odd"))
        assert "so none can be named" in s.text


async def test_a_name_is_given_and_taken_back_while_keys_go_on(stage):
    async with stage(fleet(), size=(120, 40)) as s:
        patterns = s.app.discovery = Found(FOUND)
        await s.press(*typed("patterns"))
        patterns.may_answer.clear()
        await s.press(*typed("name 1 slow_tokeniser"))
        await s.press("question_mark")
        assert "Down one line" in s.text
        await s.press("escape", "escape")
        assert "patterns" not in s.lines[0]
        patterns.may_answer.set()
        await until(s, "named: slow_tokeniser, version 1")
        await s.press(*typed("unname slow_tokeniser"))
        await until(s, "removed: slow_tokeniser")
        assert patterns.asked == [(1, "slow_tokeniser"), "slow_tokeniser"]


@pytest.mark.parametrize("text", ["name", "name x y", "name 3", "name 1234567890 odd"])
async def test_a_name_without_a_number_or_a_word_is_explained(stage, text):
    async with stage(fleet(), size=(120, 40)) as s:
        patterns = s.app.discovery = Found(FOUND)
        await s.press(*typed(text))
        assert "give a pattern's number and a name" in s.text
        assert patterns.asked == []
