"""A key that can do nothing here says so, and why."""

from __future__ import annotations

import pytest

from tests.tui.board import board

NO_GPU = "no rank and no GPU here"
MAP = "the map shows this instant"


@pytest.mark.parametrize(
    ("way", "key", "words"),
    [
        (("4", "enter"), "enter", NO_GPU),
        (("4", "enter"), "i", NO_GPU),
        (("4", "enter"), "o", NO_GPU),
        (("4", "enter", "tab"), "enter", "no rank here"),
        (("4", "enter", "tab"), "i", "no rank here"),
        (("4", "enter", "tab"), "o", "no rank here"),
        (("enter", "tab"), "z", "every rank already has its own line"),
        (("enter", "tab", "tab"), "s", MAP),
        (("enter", "tab", "tab"), "z", MAP),
        (("enter", "tab", "tab"), "w", MAP),
        (("4", "enter", "f"), "a", "no finding here"),
        (("4", "enter", "f"), "m", "no finding here"),
        (("1",), "0", "already in the original order"),
        (("9",), "0", "already the largest cells that show everything"),
        (("9", *"zzzzzzz"), "z", "as large as they get"),
        (("9", *"ZZZZZZZ"), "Z", "as small as they get"),
    ],
)
async def test_a_key_without_anything_to_do_says_why(way, key, words):
    async with board(*way, size=(120, 40)) as b:
        await b.press(key)
        status = b.seen().lines[-2]
        assert words in status


@pytest.mark.parametrize(
    ("way", "key", "words"),
    [
        ((), "w", "w works only in: curves, ranks"),
        ((), "b", "b works only in: fleet"),
        (("9",), "i", "i works only in: one job, one GPU, ranks"),
        ((), "X", "X does nothing: ? lists the keys"),
    ],
)
async def test_a_key_of_other_views_says_which(way, key, words):
    async with board(*way, size=(120, 40)) as b:
        await b.press(key)
        assert words in b.seen().lines[-2]


async def test_what_is_typed_into_a_line_is_no_key():
    async with board("slash", size=(120, 40)) as b:
        await b.press("w", "X")
        shown = "".join(b.seen().lines)
        assert "does nothing" not in shown
        assert "works only in" not in shown


@pytest.mark.parametrize(("way", "key"), [(("s",), "0"), (("9", "Z"), "0"), (("9",), "Z")])
async def test_a_key_that_does_something_needs_no_words(way, key):
    async with board(*way, size=(120, 40)) as b:
        await b.press(key)
        assert "→" not in b.seen().lines[-2]


async def test_the_footer_of_a_map_of_ranks_names_only_what_a_map_has():
    async with board("enter", "tab", size=(200, 40)) as b:
        keys = b.seen().lines[-1]
        assert " s sort " in keys
        assert " z zoom " in keys
        await b.press("tab")
        keys = b.seen().lines[-1]
        assert " c field " in keys
        assert not any(words in keys for words in (" s sort ", " z zoom ", " w wider "))


async def test_a_waiting_job_is_not_said_to_have_no_ranks():
    async with board("4", "enter", size=(80, 24)) as b:
        assert " asks for " in b.seen().lines[0]
        assert "0 ranks" not in b.seen().lines[0]


@pytest.mark.parametrize(
    ("keys", "copied"),
    [
        (("6",), "you"),
        (("7",), "vision"),
        (("8",), "h100"),
        (("shift+tab", "shift+tab"), "maintenance"),
    ],
)
async def test_who_and_what_holds_jobs_is_copied_by_name_and_has_commands(keys, copied):
    async with board(*keys, size=(120, 40)) as b:
        await b.press("g", "y")
        name = b.app.clipboard
        assert name
        assert name in b.app.screen.grid.plan.key(b.app.screen.grid.current)
        await b.press("x")
        assert b.app.screen.view == "commands"
        assert all(line.line.split().count(name) for line in b.app.screen.grid.table[1])


async def test_what_can_be_typed_for_a_time_is_shown_whole_in_80_columns():
    async with board("T", size=(80, 24)) as b:
        assert any(line.rstrip().endswith("Esc leaves") for line in b.seen().lines)
