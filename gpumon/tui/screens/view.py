"""What every view shares: where one is, how fresh the picture is, which keys work."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, cast

from textual.screen import Screen

from gpumon.tui.actions import footer_of
from gpumon.tui.status import crumb_line, status_line
from gpumon.tui.widgets.lines import KeyBar, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.events import Resize
    from textual.widget import Widget

    from gpumon.report.digest import Digest
    from gpumon.tui.actions import Action, ViewName
    from gpumon.tui.app import GpumonApp
    from gpumon.tui.widgets.prompt import Prompt


class View(Screen[None]):
    """A full screen: crumbs, a body, status and keys."""

    view: ClassVar[ViewName]
    AUTO_FOCUS = "#body"

    def __init__(self) -> None:
        super().__init__()
        self.digest: Digest | None = None
        self.crumbs = Lines(is_bar=True)
        self.status = Lines(is_bar=True)
        self._prompt: Prompt | None = None

    @property
    def gpumon(self) -> GpumonApp:
        """The application."""
        return cast("GpumonApp", self.app)

    # To be given by each view

    @abstractmethod
    def body(self) -> Widget:
        """The widget that takes the room between the bars."""

    @abstractmethod
    def trail(self) -> tuple[str, ...]:
        """The crumbs of this view."""

    def amount(self) -> str:
        """How much is shown, for the right end of the top line."""
        return ""

    @abstractmethod
    def draw(self) -> None:
        """Show `self.digest` in the body; None: nothing was sampled yet."""

    def apply_needle(self, needle: str) -> None:
        """Show only what contains this text."""
        raise NotImplementedError

    def needle(self) -> str:
        """The text that is looked for."""
        raise NotImplementedError

    def finding_scope(self) -> str | None:
        """`job:ID`, `gpu:UUID` or `node:NAME` that the findings page is about; None: all."""
        return None

    def help_columns(self) -> Sequence[tuple[str, str]]:
        """Titles of the columns in view with what they mean."""
        return ()

    # The frame

    def compose(self) -> ComposeResult:
        """The frame from top to bottom, filled before its first layout to be painted once."""
        self.digest = self.gpumon.digest
        self.draw()
        self.draw_frame()
        yield self.crumbs
        yield from self.parts()
        yield self.status
        yield KeyBar(footer_of(self.view))

    def parts(self) -> ComposeResult:
        """What lies between the crumbs and the status."""
        body = self.body()
        body.id = "body"
        yield body

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another view was open."""
        if self.digest is not self.gpumon.digest:
            self.show(self.gpumon.digest)

    def on_resize(self, _event: Resize) -> None:
        """Write the lines anew for the new width."""
        self.show(self.digest)

    def show(self, digest: Digest | None) -> None:
        """Show the picture of a tick."""
        self.digest = digest
        if not self.is_mounted:
            return
        with self.app.batch_update():
            self.draw()
            self.draw_frame()

    def draw_frame(self) -> None:
        """Write the line on top and the status."""
        width = self.size.width
        tick = self.digest.tick if self.digest else None
        right = self.amount()
        if needle := self.needle():
            right = f"/{needle}  {right}"
        self.crumbs.show_lines([crumb_line(self.gpumon.name_shown, self.trail(), right, width)])
        self.status.show_lines([status_line(tick, self.gpumon.mood, width)])

    # Actions that all views share

    def on_key_bar_picked(self, message: KeyBar.Picked) -> None:
        """Do what was clicked in the footer."""
        self.do(message.action)

    def do(self, action: Action) -> None:
        """Run the method of an action."""
        getattr(self, f"action_{action.name}")()

    def action_quit(self) -> None:
        """Leave at once."""
        self.app.exit(0)

    def action_pause(self) -> None:
        """Freeze the picture, or let it go on."""
        self.gpumon.toggle_pause()

    def action_refresh(self) -> None:
        """Draw everything afresh."""
        self.gpumon.show_newest()
        self.refresh(repaint=True, layout=True)

    def action_theme(self) -> None:
        """Switch between dark and light."""
        self.gpumon.next_theme()

    def open_node(self, name: str) -> None:
        """Open a node, unless one came from it."""
        from gpumon.tui.screens.node import NodeScreen

        below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else None
        if isinstance(below, NodeScreen) and below.node_name == name:
            self.app.pop_screen()
        else:
            self.app.push_screen(NodeScreen(name, self.trail()))

    def action_findings(self) -> None:
        """All findings in view."""
        from gpumon.tui.screens.page import findings_page

        self.app.push_screen(findings_page(self))

    def action_errors(self) -> None:
        """Targets and errors."""
        from gpumon.tui.screens.page import errors_page

        self.app.push_screen(errors_page(self))

    def action_help(self) -> None:
        """Explain this view."""
        from gpumon.tui.screens.page import help_page

        self.app.push_screen(help_page(self))

    def action_back(self) -> None:
        """Clear the filter, else go back one level."""
        if self.needle():
            self.apply_needle("")
            self.draw_frame()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    async def action_filter(self) -> None:
        """Ask for a text to look for."""
        from gpumon.tui.widgets.prompt import Prompt

        if self._prompt is not None:
            return
        self._prompt = Prompt(self.needle(), "text to look for: Enter keeps it, Esc drops it")
        await self.mount(self._prompt, before=self.status)
        self._prompt.focus()

    def on_input_changed(self, event: Prompt.Changed) -> None:
        """Filter while the user types."""
        self.apply_needle(event.value)
        self.draw_frame()

    async def on_prompt_left(self, message: Prompt.Left) -> None:
        """Close the prompt."""
        if self._prompt is None:
            return
        prompt, self._prompt = self._prompt, None
        if message.is_dropped:
            self.apply_needle("")
        self.query_one("#body").focus()
        await prompt.remove()
        self.draw_frame()
