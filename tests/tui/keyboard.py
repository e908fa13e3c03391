"""Keys for a terminal under test: each is pressed when all that the one before set off is drawn.

Textual's own pilot waits by the clock after every key, until the process seems to be idle.
"""

from __future__ import annotations

import asyncio
import unicodedata
from typing import TYPE_CHECKING

from textual.events import Key, Resize
from textual.geometry import Size
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key

from gpumon.tui.widgets.table.grid import Grid
from gpumon.tui.widgets.text.time_slices import GAP_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import App
    from textual.message_pump import MessagePump
    from textual.pilot import Pilot

    from tests.tui.conftest import Stage

MOST_DRAWS = 1000
"""What sets off more of them never comes to rest."""

MOST_NAPS = 100_000
"""Pauses between slices of work: on a busy machine one of them takes as long as many."""

MOST_TURNS = 100_000
"""Turns of the event loop in which every message has long been looked at."""

ENOUGH_TURNS = 3
"""Turns at rest after which also a task that somebody has just begun has posted its message."""


async def press(pilot: Pilot[int], *keys: str) -> None:
    """One key after the other, as the terminal would send it, each done before the next."""
    driver = pilot.app._driver
    assert driver is not None
    for name in keys:
        event = key_event(name)
        event.set_sender(pilot.app)
        driver.send_message(event)
        await settle(pilot)


def key_event(name: str) -> Key:
    """The key of this name or character."""
    key = _character_to_key(name) if len(name) == 1 and not name.isalnum() else name
    try:
        char = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(key, key)))
    except KeyError:
        char = key if len(key) == 1 else None
    return Key(key, char)


async def resize(pilot: Pilot[int], width: int, height: int) -> None:
    """Another size of the terminal, until everything is drawn into it."""
    size = Size(width, height)
    pilot.app._driver._size = size
    pilot.app.post_message(Resize(size, size))
    await settle(pilot)


async def settle(pilot: Pilot[int]) -> None:
    """Until what has come is drawn, and what that sets off, too."""
    app = pilot.app
    draws = naps = 0
    while draws < MOST_DRAWS and naps < MOST_NAPS:
        if not await _comes_to_rest(app):
            return
        screen = app.screen
        waits = screen._layout_required or screen._repaint_required or screen._dirty_widgets
        if app._resize_event is not None:
            # Textual waits a moment for a further size.
            draws += 1
            app._check_resize()
        elif waits or screen._callbacks or screen._recompose_required:
            draws += 1
            screen._on_timer_update()
        elif any(grid.slices.is_busy for grid in screen.query(Grid)) or _has_tick_to_show(app):
            naps += 1
            await asyncio.sleep(GAP_S)
        else:
            return
    raise AssertionError("the screen is drawn again and again")


def _has_tick_to_show(app: App[int]) -> bool:
    coming = getattr(app, "coming", None)
    return coming is not None and coming.is_busy


async def _comes_to_rest(app: App[int]) -> bool:
    """Until everything that takes messages waits for one; False: the application has ended."""
    turns_at_rest = 0
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
        if app._exit or app._exception:
            return False
        turns_at_rest = turns_at_rest + 1 if all(map(_is_at_rest, _pumps(app))) else 0
        if turns_at_rest == ENOUGH_TURNS:
            return True
    raise AssertionError("messages set off messages without end")


def _pumps(app: App[int]) -> Iterator[MessagePump]:
    yield app
    yield from app._registry


def _is_at_rest(pump: MessagePump) -> bool:
    """Whether its task waits for a message, with none in the queue; one that has ended rests."""
    if pump._closing or pump._closed:
        return True
    came = pump._message_queue.ready_event
    return bool(came._waiters) and not came.is_set()


AFTER = {"W": "LOST▼", "9": "fleet › ", "s": ", by distance", "x": "Enter copies a command"}
"""What is on the screen at once after some keys."""


def pilots(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Textual's names of keys that tmux calls otherwise."""
    return tuple(key.lower() if len(key) > 1 else key for key in keys)


async def pressed(stage: Stage, keys: tuple[str, ...]) -> None:
    """Press keys as tmux calls them; some must show at once what they do."""
    for key in pilots(keys):
        await stage.press(key)
        assert AFTER.get(key, "") in stage.text, key
