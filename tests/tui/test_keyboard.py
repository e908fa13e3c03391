"""A key is done when all that it set off is on the screen, and one without end fails its test."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.message import Message
from textual.widgets import Static

from tests.tui import keyboard


class Passed(Message):
    """Handed on by the application to itself, so many times more."""

    def __init__(self, more: int) -> None:
        self.more = more
        super().__init__()


class Chain(App[int]):
    """Counts what a key sets off, one after the other."""

    BINDINGS = [("a", "begin(20)"), ("z", "spin"), ("slash", "begin(1)")]  # noqa: RUF012

    def compose(self):
        yield Static("0")

    def action_begin(self, times: int) -> None:
        self.post_message(Passed(times))

    def on_passed(self, message: Passed) -> None:
        if message.more:
            self.call_after_refresh(self.post_message, Passed(message.more - 1))
        else:
            self.query_one(Static).update("done")

    def action_spin(self) -> None:
        self.query_one(Static).refresh()
        self.call_after_refresh(self.action_spin)


def first_line(app):
    return "".join(segment.text for segment in app.screen._compositor.render_strips()[0]).rstrip()


@pytest.mark.parametrize("key", ["a", "slash", "/"])
async def test_all_that_a_key_sets_off_is_drawn_before_the_next(key):
    app = Chain()
    async with app.run_test(size=(20, 4)) as pilot:
        await keyboard.press(pilot, key)
        assert first_line(app) == "done"


async def test_a_key_that_never_comes_to_rest_fails_its_test(monkeypatch):
    monkeypatch.setattr(keyboard, "MOST_DRAWS", 20)
    async with Chain().run_test(size=(20, 4)) as pilot:
        with pytest.raises(AssertionError, match="again and again"):
            await keyboard.press(pilot, "z")


async def test_a_new_size_is_drawn_before_anybody_looks():
    app = Chain()
    async with app.run_test(size=(20, 4)) as pilot:
        await keyboard.resize(pilot, 30, 7)
        assert len(app.screen._compositor.render_strips()) == 7


@pytest.mark.parametrize(
    ("name", "character"),
    [("slash", "/"), ("/", "/"), ("A", "A"), ("down", None), ("space", " ")],
)
def test_a_key_types_what_the_terminal_would_send(name, character):
    assert keyboard.key_event(name).character == character
