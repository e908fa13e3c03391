"""What textual's application does without a promise: its frames, its failures, its keys."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from textual.app import App
from textual.events import Key

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.events import Paste
    from textual.screen import Screen


class HookedApp(App[int]):
    """Reports each frame and each failure, where this version of textual calls these."""

    def to_send(self, renderable: RenderableType | None) -> RenderableType | None:
        """What is sent to the terminal in the place of a frame."""
        return renderable

    def note_frame(self, renderable: RenderableType | None) -> None:
        """A frame is on its way; None: textual had nothing to draw."""

    def note_failure(self, error: Exception) -> None:
        """An exception was not caught; the application ends."""

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(screen, self.to_send(renderable))
        self.note_frame(renderable)

    def _handle_exception(self, error: Exception) -> None:
        self.note_failure(error)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave without textual's traceback on the screen."""
        self._close_messages_no_wait()


def take(event: Key | Paste) -> bool:
    """Whether textual accepts that an event has had its turn; it sends it nowhere else."""
    note = getattr(event, "_set_forwarded", None)
    if note is None:
        return False
    note()
    return True


async def act_first(app: App[int], event: Key | Paste) -> bool:
    """Whether something was done for a key before any widget has heard of it."""
    act = getattr(app, "_check_bindings", None)
    # In another version of textual the key goes its usual way.
    if act is None or not isinstance(event, Key) or not take(event):
        return False
    return bool(await act(event.key, priority=True))


def forget_styles() -> None:
    """Let go of textual's cache of colours, which holds those of 1,024 dead widgets."""
    # Another version of textual may have no such cache.
    with suppress(ImportError, AttributeError):
        from textual._styles_cache import StylesCache

        StylesCache.get_inner_outer.cache_clear()
