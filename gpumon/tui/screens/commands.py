"""The commands for what the cursor was on: one line each, Enter copies it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gpumon.model.text import plain
from gpumon.report.cells import Cell, Tone, paragraph
from gpumon.report.columns import Column
from gpumon.report.commands import Command, Subject, commands_for
from gpumon.sources.source import Wish
from gpumon.tui.actions import bindings_of
from gpumon.tui.screens.hand_off import SAID_S, HandOff
from gpumon.tui.screens.table_view import TableView
from gpumon.tui.widgets.grid import Plan
from gpumon.tui.widgets.lines import KeyBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.cells import Line
    from gpumon.report.digest import Digest

RUN_LIMIT_S: Final = 20.0
"""A command of Slurm's that has not ended by then waits for a controller that hangs."""

_COLUMNS: Final[tuple[Column[Command], ...]] = (
    Column(
        "about", "ABOUT", 5, "left", 0,
        lambda _d, c: Cell(c.about, Tone.WARN if c.is_change else Tone.DIM), None, "What it is of.",
    ),
    Column(
        "command", "COMMAND", 40, "left", 0, lambda _d, c: Cell(c.line, Tone.STRONG),
        lambda _d, c: (c.line,), "What is copied.", 100,
    ),
    Column(
        "meaning", "WHAT IT TELLS OR DOES", 28, "left", 1,
        lambda _d, c: Cell(c.doc, Tone.WARN if c.is_change else Tone.DIM), None, "In words.", 90,
    ),
)  # fmt: skip


class CommandsView(TableView["Command"]):
    """What to type next; nothing is run but changes that were allowed and asked for."""

    view = "commands"
    BINDINGS = bindings_of("commands")
    noun = "commands"
    plan = Plan(
        _COLUMNS,
        lambda command: command.line,
        lambda _digest, _command: (0.0,),
        lambda _digest, command: f"{command.about}\n{command.line}\n{command.doc}".lower(),
    )

    def __init__(self, about: Subject, came_from: tuple[str, ...]) -> None:
        super().__init__()
        self._about = about
        self._came_from = came_from

    def trail(self) -> tuple[str, ...]:
        """Where one came from, then this one."""
        return (*self._came_from, "commands")

    def rows(self, _digest: Digest) -> Sequence[Command]:
        """Every command; those that change something only where the user allowed them."""
        return commands_for(self._about, with_changes=self.gpumon.allows_actions)

    def head_lines(self, _digest: Digest, width: int) -> list[Line]:
        """What the list is."""
        text = "Enter copies a command; nothing is run here."
        if self.gpumon.allows_actions:
            text = "Enter copies a command; one that changes something is asked about and run."
        row = self.grid.current
        shown: list[Line] = paragraph(text, width, Tone.DIM)
        return shown + paragraph(row.line, width, Tone.INFO, "→ ", "  ") if row else shown

    def empty_words(self, _digest: Digest) -> tuple[str, ...]:
        """Nothing is known by a name that a command may contain."""
        return ("No command: what the cursor was on has no name that is safe to type.",)

    def draw(self) -> None:
        """Also spell out a command, which is known once the table has its rows."""
        was_empty = self.grid.current is None
        super().draw()
        if was_empty and self.grid.current is not None:
            super().draw()

    def on_mount(self) -> None:
        """Name the keys for the first row."""
        self.draw_frame()

    def draw_frame(self) -> None:
        """Also say what Enter does with this row."""
        super().draw_frame()
        row = self.grid.current
        is_run = row is not None and row.is_change
        for bar in self.query(KeyBar):
            bar.relabel("copy_command", "run …" if is_run else "copy")

    def action_copy(self) -> None:
        """Copy the command."""
        if (row := self.grid.current) is not None:
            self.copy_text(row.line)

    def on_moved(self) -> None:
        """Spell the command out above."""
        self.show(self.digest)

    async def action_copy_command(self) -> None:
        """Copy the command, or ask whether to run it."""
        row = self.grid.current
        if row is None or not row.is_change:
            self.action_copy()
        elif not self.gpumon.is_real or not self.gpumon.has_slurm_here:
            self.say("the queue is not this machine's: copy the command with y")
        else:
            from gpumon.tui.widgets.prompt import AnswerPrompt

            job_id = row.words[-1]
            question = f"{row.line}: type {job_id} to run it, Esc leaves all as it is"
            await self.ask(AnswerPrompt(question, lambda text: self._confirm(row, text)))

    def _confirm(self, command: Command, text: str) -> str:
        """Run a command whose job was typed; returns why it is not run."""
        job_id = command.words[-1]
        if text.strip() != job_id:
            return f"not run: type {job_id}, or Esc"
        # The application's own: one may leave this page while Slurm's controller is silent.
        self.app.run_worker(self._run(command), exit_on_error=False)
        return ""

    def _tell(self, text: str, for_s: float = SAID_S) -> None:
        """Tell it where the user is by now."""
        screen = self.app.screen
        (screen if isinstance(screen, HandOff) else self).say(text, for_s)

    async def _run(self, command: Command) -> None:
        self._tell(f"running: {command.line}", RUN_LIMIT_S)
        try:
            process = await asyncio.create_subprocess_exec(
                *command.words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            self._tell(f"{command.line}: {error.strerror}")
            return
        try:
            _, said = await asyncio.wait_for(process.communicate(), RUN_LIMIT_S)
        except TimeoutError:
            process.kill()
            self._tell(f"{command.line}: no answer in {RUN_LIMIT_S:.0f} s")
            return
        if process.returncode == 0:
            # Else the job would look as before until the queue's next beat.
            self.gpumon.wish(Wish(has_changed_queue=True))
        self._tell(f"{command.line}: {_outcome(command, process.returncode, said)}")

    def on_grid_opened(self) -> None:
        """A click on the cursor copies."""
        self.action_copy()


def _outcome(command: Command, code: int | None, said: bytes) -> str:
    """What a command came to: Slurm's own words, without its name, which stands before them."""
    lines = said.decode("utf-8", "replace").splitlines()
    words = "; ".join(line.strip() for line in lines if line.strip())
    why = plain(words.replace(f"{command.words[0]}: error: ", ""), 200).strip()
    return why or ("done, Slurm has accepted it" if code == 0 else f"failed with {code}")
