"""What every view hands over: names to the clipboard, tables to files, a shell on a node."""

from __future__ import annotations

import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from textual.app import SuspendNotSupported

from gpumon.tui.actions.registry import stray_words
from gpumon.tui.screens.base.files import (
    FORMATS,
    FileRefusedError,
    form_of,
    without_fonts,
    write_beside,
)
from gpumon.tui.screens.base.time_screen import TimeScreen
from gpumon.tui.textual_private.one_layout import draw_afresh
from gpumon.tui.textual_private.signals import lent_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from textual.events import Key

    from gpumon.report.next_steps.commands import Subject
    from gpumon.sources.probes.road import Road
    from gpumon.tui.actions.action import ViewName

REPORTED_S: Final = 6.0
"""How long an answer is in the status line."""


class HandOff(TimeScreen):
    """A screen whose subject can be taken along."""

    view: ClassVar[ViewName]

    def __init__(self) -> None:
        super().__init__()
        self._reported = ("", 0.0)

    # To be given by each view

    def finding_scope(self) -> str | None:
        """`job:ID`, `gpu:UUID` or `node:NAME` that the view is about; None: all."""
        return None

    def subject_here(self) -> Subject | None:
        """What the cursor is on; None: nothing that has a name."""
        from gpumon.report.lists.subjects import of_scope

        scope = self.finding_scope()
        return of_scope(self.digest, scope) if self.digest and scope else None

    def table_maker(self, _form: str) -> Callable[[], str] | None:
        """Writes the table in view as `csv` or `json`; None: the view has no table."""
        return None

    def draw_frame(self) -> None:
        """Write the lines around the body."""

    # What was done

    @property
    def reported(self) -> str:
        """What the last hand-off came to, for a few seconds."""
        text, until = self._reported
        return text if self.gpumon.monotonic() < until else ""

    def report(self, text: str, for_s: float = REPORTED_S) -> None:
        """Show it in the status line."""
        self._reported = (text, self.gpumon.monotonic() + for_s)
        self.draw_frame()

    def hear_stray(self, key: Key) -> None:
        """Say of a sign that no action of this view has where it does something."""
        sign = key.character if key.is_printable else None
        if sign and (words := stray_words(self.view, key.key, sign)):
            self.report(words)

    # Actions

    def action_copy(self) -> None:
        """Copy the name of what the cursor is on."""
        subject = self.subject_here()
        if subject is None or subject.name is None:
            self.report("nothing here has a name to copy")
        elif not subject.is_pasted_safely:
            self.report("its name is not safe to type into a shell, so it is not copied")
        else:
            self.copy_text(subject.name)

    def copy_text(self, text: str) -> None:
        """Hand a text to the terminal's clipboard, by OSC 52."""
        self.app.copy_to_clipboard(text)
        self.report(f"copied, where the terminal allows it: {text}")

    def action_commands(self) -> None:
        """The commands for what the cursor is on."""
        subject = self.subject_here()
        if subject is None:
            self.report("no command is about anything here")
        else:
            self.app.push_screen(self.gpumon.views.commands(subject, self.trail()))

    def trail(self) -> tuple[str, ...]:
        """The crumbs of this view."""
        return ()

    async def action_export(self) -> None:
        """Ask for a file."""
        from gpumon.tui.widgets.text.prompt import AnswerPrompt

        form = "svg" if self.table_maker("csv") is None else "csv"
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self.gpumon.now))
        prompt = AnswerPrompt(f"file to write: {', '.join(FORMATS)}", self._export)
        prompt.value = f"gpumon-{self.view}-{stamp}.{form}"
        prompt.cursor_position = len(prompt.value)
        await self.ask(prompt)

    def screenshot(self) -> str:
        """The screen as Textual draws it, under the crumbs as its title."""
        return self.app.export_screenshot(title=" › ".join(("gpumon", *self.trail())))

    def _export(self, text: str) -> str:
        """Begin to write what was asked for; returns what is wrong with the name."""
        name = text.strip()
        is_forced = name.endswith("!")
        name = name.removesuffix("!").rstrip()
        try:
            form = form_of(name)
        except FileRefusedError as error:
            return str(error)
        if form == "svg":
            made: Callable[[], str] | None = partial(without_fonts, self.screenshot())
        else:
            made = self.table_maker(form)
        if made is None:
            return f"there is no table here: .svg writes the screen as an image, not .{form}"
        self.run_worker(self._write(name, made, is_forced), exit_on_error=False)
        return ""

    async def _write(self, name: str, made: Callable[[], str], is_forced: bool) -> None:
        try:
            path = await write_beside(name, made, is_forced=is_forced)
        except FileRefusedError as error:
            self.report(str(error))
        else:
            self.report(f"written: {path}")

    def action_shell(self) -> None:
        """Give the terminal to a shell on the node until it ends."""
        from gpumon.report.next_steps.roads import road_to

        subject = self.subject_here()
        node = subject.checked().node if subject else None
        if node is None:
            self.report("no node here: go to a rank, a GPU or a node")
        elif not self.gpumon.is_real:
            self.report(f"{node} is simulated or recorded: there is no shell on it")
        elif self.digest is None or (road := road_to(self.digest.tick, node)) is None:
            self.report(f"{node}: several targets may have it, so how to reach it is unclear")
        else:
            self._open_shell(node, road)

    def _open_shell(self, node: str, road: Road) -> None:
        try:
            with self.app.suspend(), lent_terminal():
                # Every name in it is checked.
                code = subprocess.run(road.shell_words, check=False).returncode
        except SuspendNotSupported:
            self.report("this terminal cannot run a shell")
        except OSError as error:
            draw_afresh(self)
            self.report(f"{road.shell_words[0]} {node}: {error.strerror}")
        else:
            # The shell left nothing of ours on it.
            draw_afresh(self)
            name = "the shell" if road.is_here else f"ssh {node}"
            self.report(f"{name} ended with {code}" + (": x names srun" if code == 255 else ""))
