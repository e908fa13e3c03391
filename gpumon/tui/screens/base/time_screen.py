"""The time keys, which every view has: pause, steps, jumps, a typed time, live again."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from gpumon.model.units import MINUTE_S
from gpumon.tui.textual_private.one_layout import PaintedOnce

if TYPE_CHECKING:
    from gpumon.report.facts.tick_index import Digest
    from gpumon.tui.screens.base.contract import Application
    from gpumon.tui.widgets.text.prompt import Prompt


class TimeScreen(PaintedOnce):
    """A screen whose tick is of an instant that the user chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.digest: Digest | None = None
        # Private to textual: another of its versions draws as it likes.
        with suppress(ImportError, AttributeError):
            from gpumon.tui.textual_private.line_compositor import thrifty

            self._compositor = thrifty(self._compositor)
        with suppress(ImportError):
            from gpumon.tui.textual_private.frame_timer import quicken

            quicken(self)

    def on_unmount(self) -> None:
        """Let go of the tick, on which a whole fleet hangs: a dead screen stays for a while."""
        self.digest = None

    @property
    def gpumon(self) -> Application:
        """The application."""
        return cast("Application", self.app)

    @abstractmethod
    async def ask(self, prompt: Prompt) -> None:
        """Open a prompt unless one is open."""

    @abstractmethod
    def report(self, text: str) -> None:
        """Show something in the status line."""

    def action_pause(self) -> None:
        """Pause, or go on."""
        self.gpumon.move_time(lambda travel: travel.toggle_pause())

    def action_step_back(self) -> None:
        """The tick before."""
        self.gpumon.move_time(lambda travel: travel.step(-1))

    def action_step_on(self) -> None:
        """The tick after."""
        self.gpumon.move_time(lambda travel: travel.step(1))

    def action_minute_back(self) -> None:
        """A minute earlier."""
        self.gpumon.move_time(lambda travel: travel.shift(-MINUTE_S))

    def action_minute_on(self) -> None:
        """A minute later."""
        self.gpumon.move_time(lambda travel: travel.shift(MINUTE_S))

    def action_live(self) -> None:
        """The newest again."""
        self.gpumon.move_time(lambda travel: travel.go_live())

    def action_faster(self) -> None:
        """Play a recording faster."""
        self._change_speed(1)

    def action_slower(self) -> None:
        """Play a recording slower."""
        self._change_speed(-1)

    def _change_speed(self, steps: int) -> None:
        if self.gpumon.travel.change_speed(steps):
            self.gpumon.show_newest()
        else:
            self.report("live has one speed; only recordings have several")

    async def action_time(self) -> None:
        """Ask for a time."""
        from gpumon.report.text.typed_time import EXAMPLES
        from gpumon.tui.widgets.text.prompt import AnswerPrompt

        what = f"{EXAMPLES}: Enter goes, Esc leaves"
        await self.ask(AnswerPrompt(what, self._go_to_time))

    def _go_to_time(self, text: str) -> str:
        """Go to the time that was typed; returns why it is none."""
        from gpumon.report.text.typed_time import instant_of, outside_words

        if self.digest is None:
            return ""
        shown = self.digest.tick.at
        place = self.gpumon.travel.place()
        try:
            at = instant_of(text, shown, place.end if place else shown)
        except ValueError as error:
            return str(error)
        span = self.gpumon.travel.span()
        self.gpumon.move_time(lambda travel: travel.go(at))
        if span is not None and (words := outside_words(at, *span)):
            self.report(words)
        return ""
