"""Letting go of rows some at a time: to free those of a large fleet takes longer than a key may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.tui.widgets.text.time_slices import Slices, last_input, last_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import App

    Held = list[Any] | dict[str, Any]

EACH: Final = 2_000
"""Rows that are freed in one step: a millisecond or two."""


def release(app: App[Any], *held: Held) -> None:
    """Empty what nothing else needs any more, between keys; little of it goes at once."""
    if max(map(len, held), default=0) > EACH:
        slices = Slices(app.set_timer, typed_s=last_key(app), heard_s=last_input(app))
        slices.run_later(release_steps(*held), lambda: None)


def release_steps(*held: Held) -> Iterator[None]:
    """Empty these, the last first."""
    for one in held:
        while one:
            if isinstance(one, list):
                del one[-EACH:]
            else:
                for _ in range(min(EACH, len(one))):
                    one.popitem()
            yield
