"""The one line in which the user types a text to look for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType
    from textual.events import Key


class Asker(Protocol):
    """What opened a prompt; notified by calls, for the next key would overtake a message."""

    def leave_prompt(self, *, is_dropped: bool) -> None:
        """The user is done typing."""

    def complete_prompt(self) -> None:
        """The user asks for the rest of what was begun."""


class Prompt(Input):
    """Filters while the user types; Enter keeps the filter, Esc drops it."""

    DEFAULT_CSS = """
    Prompt { height: 1; border: none; padding: 0 1; background: $bar; }
    Prompt:focus { border: none; }
    Prompt > .input--placeholder { color: $tone-dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "drop", "clear the filter")]

    # Each character makes the text longer, for which textual would lay out the whole screen.
    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)

    asker: Asker
    refused: str | None = None
    """What was entered last and could not be understood."""

    def __init__(self, value: str, what: str) -> None:
        super().__init__(value, placeholder=what, select_on_focus=False)

    async def on_key(self, event: Key) -> None:
        """Edit before the next key, which textual would let overtake the edit."""
        bound = None if event.is_printable else self.screen.active_bindings.get(event.key)
        # Ctrl-C copies what is marked, and does what it does anywhere else where nothing is.
        if (
            bound is not None
            and bound.node is self
            and await self.app.run_action(bound.binding.action, self)
        ):
            event.stop()
            event.prevent_default()

    def write(self, value: str) -> None:
        """Put this in place of what was typed."""
        self.value = value
        self.cursor_position = len(value)

    def watch_virtual_size(self) -> None:
        """Show no blanks beyond the end of a text that was scrolled and has become shorter."""
        self.scroll_x = self.validate_scroll_x(self.scroll_x)

    def action_drop(self) -> None:
        """Leave without a filter."""
        self.asker.leave_prompt(is_dropped=True)

    async def action_submit(self) -> None:
        """Leave with the filter as it is."""
        self.asker.leave_prompt(is_dropped=False)


class FilterPrompt(Prompt):
    """Takes a row filter: Tab completes the name of a column, Enter applies it, Esc drops it."""

    BINDINGS: ClassVar[list[BindingType]] = [("tab", "complete", "complete")]

    def action_complete(self) -> None:
        """Ask for the rest."""
        self.asker.complete_prompt()


class CommandPrompt(Prompt):
    """Takes a command: Enter runs it, Tab completes it, Esc leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [("tab", "complete", "complete")]

    def __init__(self) -> None:
        super().__init__("", "where to: Tab completes, Enter goes, Esc leaves")
        self.trouble = ""
        """Why the last command led nowhere."""

    def action_complete(self) -> None:
        """Ask for the rest."""
        self.asker.complete_prompt()


class AnswerPrompt(Prompt):
    """Takes an answer to a question: Enter gives it, Esc leaves all as it is."""

    def __init__(self, what: str, take: Callable[[str], str]) -> None:
        """`take` does what the text says and returns nothing, or what is wrong with the text."""
        super().__init__("", what)
        self.trouble = ""
        """Why the last text was no answer."""
        self._take = take

    def is_answered(self) -> bool:
        """Whether the text was an answer; it has been acted upon then."""
        self.trouble = self._take(self.value)
        return not self.trouble
