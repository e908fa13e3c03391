"""A tick on its way to the screen: made ready in slices, between which keys are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gpumon.tui.screens.base.view import View

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from textual.screen import Screen

    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.tui.widgets.text.time_slices import Slices


class Showing(Protocol):
    """An application that shows ticks."""

    digest: Digest | None
    """The one on the screen."""

    def wanted(self) -> tuple[Tick | None, float | None]:
        """The tick that is to be on the screen, and since when what is found is new."""
        ...

    @property
    def screen_stack(self) -> list[Screen[Any]]:
        """The last one is shown; none: the application ends."""
        ...

    def show_again(self) -> None:
        """Draw the tick."""
        ...


class Coming:
    """Puts the tick that is wanted on the screen."""

    def __init__(self, app: Showing, slices: Slices) -> None:
        """Nothing has come yet."""
        self._app = app
        self._slices = slices
        self._lasting: dict[Hashable, object] = {}
        """What ticks remember together."""

    @property
    def is_busy(self) -> bool:
        """Whether a tick is being made ready."""
        return self._slices.is_busy

    def show_at_once(self) -> None:
        """Show what is wanted now: a key asks for it."""
        self._slices.drop()
        self._app.digest = self._due() or self._app.digest
        self._app.show_again()

    def show_when_ready(self) -> None:
        """Show what is wanted once it is quick to draw, before the next key or after it."""
        if self._app.digest is None:
            self.show_at_once()
        # What is under way goes on, else ticks would keep it from ever coming to an end.
        elif not self.is_busy:
            digest = self._due()
            if digest is None:
                # The same tick: what is drawn beside it, such as the ledger, may be read by now.
                self._app.show_again()
            else:
                self._slices.run(self._steps(digest), lambda: None)

    def _steps(self, digest: Digest | None) -> Iterator[None]:
        while digest is not None:
            screens = self._app.screen_stack
            if screens and isinstance(screens[-1], View):
                yield from screens[-1].steps_before(digest)
            self._app.digest = digest
            if self._app.screen_stack:
                self._app.show_again()
            digest = self._due()

    def _due(self) -> Digest | None:
        """A tick that is wanted and not shown; None: it is."""
        tick, news_since = self._app.wanted()
        shown = self._app.digest
        if tick is None or (shown is not None and shown.tick is tick):
            return None
        from gpumon.report.facts.tick_index import Digest

        return Digest(tick, self._lasting, news_since)
