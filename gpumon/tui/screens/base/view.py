"""What every view shares: where one is, how fresh the tick is, which keys work."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon.base.outcome import Outcome
from gpumon.model.text import plain
from gpumon.report.text.cells import Cell, Tone, fit
from gpumon.tui.actions import palette
from gpumon.tui.actions.action import ROOTS
from gpumon.tui.actions.registry import footer_of
from gpumon.tui.screens.base.take_along import HandOff
from gpumon.tui.status import (
    beside_the_instant,
    crumb_line,
    join_fitting,
    status_line,
    trouble_line,
)
from gpumon.tui.textual_private.app_hooks import forget_styles
from gpumon.tui.textual_private.one_layout import draw_afresh
from gpumon.tui.textual_private.signals import has_shell
from gpumon.tui.widgets.text.lines import KeyBar, Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.events import Resize
    from textual.geometry import Size
    from textual.widget import Widget

    from gpumon.report.facts.groups import ScopeKind
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.filter.tree import FilterError
    from gpumon.report.text.cells import Line
    from gpumon.tui.actions.action import Action, ViewName
    from gpumon.tui.time_travel import Place
    from gpumon.tui.widgets.text.prompt import Prompt

NAMED_S: Final = 10.0
"""How long the outcome of naming a pattern is shown: it is longer than other words."""


class View(HandOff):
    """A full screen: crumbs, a body, status and keys."""

    AUTO_FOCUS = "#body"

    def __init__(self) -> None:
        super().__init__()
        self.crumbs = Lines(is_bar=True)
        self.status = Lines(is_bar=True)
        self.prompt: Prompt | None = None
        """What takes the keys while it is open."""
        self._drawn_size: Size | None = None
        """For which size the tick at hand is drawn; None: it is not."""
        self.drawn_place: Place | None = None
        """Where in time the status on screen says that it is; None: live, or not drawn yet."""

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

    @property
    def shows_processes(self) -> bool:
        """Whether it may show how busy a process keeps its GPU, which is dear to ask."""
        return True

    def steps_before(self, _digest: Digest) -> Iterable[None]:
        """Steps that make a tick quick to draw where that would keep keys waiting."""
        return ()

    @abstractmethod
    def draw(self) -> None:
        """Show `self.digest` in the body; None: nothing was sampled yet."""

    @abstractmethod
    def apply_needle(self, needle: str) -> None:
        """Show only what contains this text."""

    @abstractmethod
    def needle(self) -> str:
        """The text that is looked for."""

    @property
    def is_narrowed(self) -> bool:
        """Whether only what belongs to one's own jobs is shown."""
        return False

    def filter_trouble(self) -> FilterError | None:
        """What is wrong with the filter that was typed last; None: nothing."""
        return None

    def help_columns(self) -> Sequence[tuple[str, str]]:
        """Titles of the columns in view with what they mean."""
        return ()

    # The frame

    def compose(self) -> ComposeResult:
        """The frame from top to bottom, filled before its first layout to be painted once."""
        self.digest = self.gpumon.digest
        self._draw_whole()
        yield self.crumbs
        yield from self.parts()
        yield self.status
        keys = KeyBar(self.footer())
        keys.fill(self.size.width)
        yield keys

    def footer(self) -> Sequence[Action]:
        """The keys to name at the bottom."""
        return footer_of(self.view)

    def parts(self) -> ComposeResult:
        """What lies between the crumbs and the status."""
        body = self.body()
        body.id = "body"
        yield body

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another view was open."""
        self.gpumon.note_shown()
        if self.digest is not self.gpumon.digest:
            self.show(self.gpumon.digest)

    def on_unmount(self) -> None:
        """Let go of drawn lines."""
        forget_styles()

    def on_resize(self, _event: Resize) -> None:
        """Write the lines again for the new size, which mostly the first is not."""
        if self.size != self._drawn_size:
            self.show(self.digest)

    def show(self, digest: Digest | None) -> None:
        """Show a tick."""
        self.digest = digest
        if not self.is_mounted:
            self._drawn_size = None
            return
        with self.app.batch_update():
            self._draw_whole()

    def _draw_whole(self) -> None:
        self._drawn_size = self.size
        self.draw()
        self.draw_frame()

    def draw_frame(self) -> None:
        """Write the line on top and the status."""
        width = self.size.width
        tick = self.digest.tick if self.digest else None
        right = self.amount()
        if needle := self.needle():
            right = f"/{needle}  {right}"
        if self.is_narrowed:
            right = f"mine  {right}"
        self.crumbs.show_lines([crumb_line(self.gpumon.name_shown, self.trail(), right, width)])
        mood = self.gpumon.mood
        self.drawn_place = mood.place
        if self._command_line(width) is None:
            status = status_line(tick, mood, width)
        else:
            status = beside_the_instant(
                lambda room: self._command_line(room) or (), tick, mood, width
            )
        self.status.show_lines([status])

    def _command_line(self, width: int) -> Line | None:
        """In place of the status while a command is typed: its completions, or what is wrong."""
        prompt = self.prompt
        if prompt is None:
            # The first screen has none, and does not wait for the import of what takes keys.
            return self._reported_line(width)
        from gpumon.tui.widgets.text.prompt import AnswerPrompt, CommandPrompt, FilterPrompt

        if isinstance(prompt, FilterPrompt) and (wrong := self.filter_trouble()) is not None:
            return trouble_line(str(wrong), wrong.at + 1, width)
        if isinstance(prompt, CommandPrompt | AnswerPrompt) and prompt.trouble:
            return (Cell(fit(f" ✗ {prompt.trouble}", width), Tone.BAD),)
        if not isinstance(prompt, CommandPrompt):
            return self._reported_line(width)
        found = palette.completions(prompt.value, self.digest)
        return join_fitting([Cell(text, Tone.INFO) for text in found], width, "  ")

    def _reported_line(self, width: int) -> Line | None:
        """What is shown for a few seconds."""
        place = self.gpumon.mood.place
        # That the tick could not be gone to is shown where the tick's time is.
        is_lost = place is not None and bool(place.trouble)
        has_words = self.reported and not is_lost
        return (Cell(fit(f" → {self.reported}", width), Tone.INFO),) if has_words else None

    # Actions that all views share

    async def on_key_bar_picked(self, message: KeyBar.Picked) -> None:
        """Do what was clicked in the footer."""
        await self.run_action(message.action.name)

    def action_close(self) -> None:
        """Close this view, whatever it is filtered by."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    def action_quit(self) -> None:
        """Leave at once."""
        self.app.exit(0)

    def action_suspend(self) -> None:
        """Stop until the shell wakes this process again."""
        if self.app.is_headless or not has_shell():
            self.report("no shell here could resume gpumon")
        else:
            self.app.action_suspend_process()

    def action_refresh(self) -> None:
        """Draw everything afresh."""
        self.gpumon.show_newest()
        draw_afresh(self)

    def action_theme(self) -> None:
        """Draw in the next theme."""
        self.gpumon.next_theme()

    def action_ascii(self) -> None:
        """Draw ASCII only, or no longer."""
        self.gpumon.draw_ascii(not self.gpumon.is_ascii)

    def open_node(self, name: str) -> None:
        """Open a node, unless one came from it."""
        if self.came_from("node", name):
            self.app.pop_screen()
        else:
            self.app.push_screen(self.gpumon.views.node(name, self.trail()))

    def open_gpu(self, uuid: str) -> None:
        """Show the page of a GPU above this view."""
        self.app.push_screen(self.gpumon.views.gpu(uuid, self.trail()))

    def came_from(self, view: ViewName, name: str) -> bool:
        """Whether a job, a GPU or a node lies right below this screen."""
        below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else None
        if not isinstance(below, View) or below.view != view:
            return False
        return below.finding_scope() == f"{view}:{name}"

    def action_findings(self) -> None:
        """All findings in view."""
        self.app.push_screen(self.gpumon.views.findings(self.trail(), self.finding_scope()))

    def action_curves(self) -> None:
        """Curves of what this view is about."""
        subject = self.finding_scope()
        if subject is not None:
            self.app.push_screen(self.gpumon.views.curves(subject, self.trail()))

    def action_errors(self) -> None:
        """Targets and errors."""
        self.app.push_screen(self.gpumon.views.errors(self.trail(), lambda: self.gpumon.mood))

    def action_patterns(self) -> None:
        """Patterns in what no finding explains."""
        self.app.push_screen(self.gpumon.views.patterns(self.trail(), self.gpumon.discovery))

    def action_ledger(self) -> None:
        """Where GPU time went, week by week."""
        self.app.push_screen(self.gpumon.views.ledger(self.trail(), self.gpumon.stored_ledger))

    def action_help(self) -> None:
        """Explain this view."""
        columns = self.help_columns()
        self.app.push_screen(self.gpumon.views.help(self.view, columns, self.trail()))

    def action_back(self) -> None:
        """Clear the filter, else go back one level."""
        if self.needle():
            self.apply_needle("")
            self.draw_frame()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    async def action_filter(self) -> None:
        """Ask for a text to look for."""
        from gpumon.tui.widgets.text.prompt import Prompt

        await self.ask(Prompt(self.needle(), "text to look for: Enter applies it, Esc drops it"))

    async def action_command(self) -> None:
        """Ask where to go."""
        from gpumon.tui.widgets.text.prompt import CommandPrompt

        await self.ask(CommandPrompt())

    async def ask(self, prompt: Prompt) -> None:
        """Open a prompt unless one is open."""
        if self.prompt is not None:
            return
        self.prompt = prompt
        prompt.asker = self
        await self.mount(prompt, before=self.status)
        # At once: a user who sees the prompt may type.
        self.set_focus(prompt)
        self.draw_frame()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is typed before a prompt takes the keys must not act on the view."""
        is_opening = self.prompt is not None and not self.prompt.has_focus
        return not is_opening and super().check_action(action, parameters)

    def on_input_changed(self, event: Prompt.Changed) -> None:
        """Filter, or show how a command goes on, while the user types."""
        from gpumon.tui.widgets.text.prompt import AnswerPrompt, CommandPrompt

        if event.input is not self.prompt:
            return
        if isinstance(event.input, CommandPrompt | AnswerPrompt):
            # Of what was typed fast it is heard after Enter has refused it.
            if event.value != event.input.refused:
                event.input.trouble = ""
        else:
            self.apply_needle(event.value)
        self.draw_frame()

    def complete_prompt(self) -> None:
        """Write the rest of what was begun."""
        if self.prompt is not None:
            self.prompt.write(palette.completed(self.prompt.value, self.digest))

    def leave_prompt(self, *, is_dropped: bool) -> None:
        """Close the prompt, and go where a command leads; what cannot be understood stays."""
        from gpumon.tui.widgets.text.prompt import AnswerPrompt, CommandPrompt

        prompt = self.prompt
        if prompt is None:
            return
        stays, destination = False, None
        if isinstance(prompt, AnswerPrompt):
            stays = not is_dropped and not prompt.is_answered()
        elif not isinstance(prompt, CommandPrompt):
            # Of the last letters nothing may have been heard yet.
            self.apply_needle("" if is_dropped else prompt.value)
            stays = self.filter_trouble() is not None
        elif not is_dropped:
            try:
                destination = palette.understood(prompt.value, self.digest)
            except palette.UnknownCommandError as error:
                prompt.trouble = str(error)
                stays = True
        if stays:
            prompt.refused = prompt.value
            self.draw_frame()
            return
        self.prompt = None
        self.query_one("#body").focus()
        prompt.remove()
        self.draw_frame()
        if destination is not None:
            self.go_to(destination)

    def go_to(self, destination: palette.Destination) -> None:
        """Show what a command names."""
        kind, name = destination
        if kind in ROOTS:
            self.gpumon.go(next(root for root in ROOTS if root == kind))
            self.gpumon.save_root(kind)
        elif kind in palette.PAGES:
            getattr(self, f"action_{kind}")()
        elif kind == "job":
            self._open_job(name)
        elif kind == "node":
            self.open_node(name)
        elif kind == "theme":
            self.gpumon.show_theme(name)
        elif kind in palette.NAMING:
            self._name_pattern(kind, name)
        elif kind == "gpu":
            self.open_gpu(name)
        else:
            self.open_group(next(scope for scope in palette.SCOPES if scope == kind), name)

    def _name_pattern(self, kind: str, words: str) -> None:
        """Give a pattern a name, or take one back, on a thread: a home may hang."""
        discovery = self.gpumon.discovery
        if discovery is None:
            self.report("patterns are not searched here, so none can be named")
            return
        number, _, name = words.partition(" ")
        act = partial(discovery.unname, words)
        if kind == "name":
            act = partial(discovery.name, int(number), name)

        self.report_later(act)

    def report_later(self, act: Callable[[], str]) -> None:
        """Do something on a thread, and report what came of it on the view that is shown then."""
        app = self.app

        def report(words: str) -> None:
            if isinstance(app.screen, View):
                app.screen.report(words, NAMED_S)

        def act_and_report() -> None:
            try:
                words = act()
            # No error may end the thread unseen.
            except Exception as error:  # noqa: BLE001
                detail = plain(str(error))
                words = f"not done: {type(error).__name__}{f': {detail}' if detail else ''}"
            # The application may be gone by now, and its loop with it.
            with suppress(RuntimeError):
                app.call_later(report, words)

        Outcome(act_and_report, "reporting")

    def _open_job(self, job_id: str) -> None:
        view = self.digest.tick.job(job_id) if self.digest else None
        if view is not None:
            self.app.push_screen(self.gpumon.views.job(job_id, view.job.label, self.trail()))

    def open_group(self, kind: ScopeKind, name: str) -> None:
        """The jobs of a user, account, partition or reservation."""
        from gpumon.report.facts.groups import Scope

        self.app.push_screen(self.gpumon.views.jobs(Scope(kind, name)))
