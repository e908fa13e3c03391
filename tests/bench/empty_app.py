"""The smallest Textual program: the floor under every terminal that is built on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from tests.bench.session import READY

if __name__ == "__main__":
    os.write(1, READY)

from textual.app import App
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType


class EmptyApp(App[None]):
    """One line of text, and a way out."""

    BINDINGS: ClassVar[list[BindingType]] = [("q", "quit", "Quit")]

    def compose(self) -> ComposeResult:
        yield Static("nothing but Textual")


if __name__ == "__main__":
    EmptyApp().run()
