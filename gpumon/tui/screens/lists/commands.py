"""The commands for what the cursor was on: one line each, Enter copies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.facts.columns import Column
from gpumon.report.lists.subjects import findings_about
from gpumon.report.next_steps.advised import commands_of
from gpumon.report.next_steps.commands import Command, Subject, commands_for, why_unchanged
from gpumon.report.next_steps.roads import has_several_clusters, ways_for
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.table_view import TableView
from gpumon.tui.widgets.table.grid import Plan
from gpumon.tui.widgets.text.lines import KeyBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

_COLUMNS: Final[tuple[Column[Command], ...]] = (
    Column(
        "about", "ABOUT", 5, "left", priority=0,
        cell=lambda _d, c: Cell(c.about, Tone.WARN if c.change else Tone.DIM), order=None,
        doc="What it is about; for a finding's advice, who may run it.",
    ),
    Column(
        "command", "COMMAND", 40, "left", priority=0, cell=lambda _d, c: Cell(c.line, Tone.STRONG),
        order=lambda _d, c: (c.line,), doc="What is copied.", max_width=100,
    ),
    Column(
        "meaning", "WHAT IT SHOWS OR DOES", 28, "left", priority=1,
        cell=lambda _d, c: Cell(c.doc, Tone.WARN if c.change else Tone.DIM), order=None,
        doc="In words.", max_width=90,
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

    def rows(self, digest: Digest) -> Sequence[Command]:
        """What findings advise, then every command; changes only where the user allowed them."""
        ways = ways_for(digest.tick, self._about.checked().node)
        found: list[Command] = []
        # Where there are several clusters, what is advised could be about another's.
        if not has_several_clusters(digest.tick):
            found += commands_of(findings_about(digest, self._about), ways)
        lines = {command.line for command in found}
        general = commands_for(self._about, ways, with_changes=self.gpumon.allows_actions)
        return [*found, *(one for one in general if one.line not in lines)]

    def head_lines(self, _digest: Digest, width: int) -> list[Line]:
        """What the list is."""
        text = "Enter copies a command; nothing is run here."
        if self.gpumon.allows_actions:
            text = "Enter copies a command; one that changes something asks first, then runs."
            text = why_unchanged(self._about) or text
        row = self.grid.current
        shown: list[Line] = paragraph(text, width, Tone.DIM)
        return shown + paragraph(row.line, width, Tone.INFO, "→ ", "  ") if row else shown

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """Nothing is known by a name that a command may contain."""
        if has_several_clusters(digest.tick):
            return (
                "No command: several clusters are in view, and its names could belong to another.",
                "Start gpumon with one cluster as its target to see its commands.",
            )
        return ("No command: what the cursor was on has no name that is safe to type.",)

    def draw(self) -> None:
        """Also spell out a command, which is known once the table has its rows."""
        was_empty = self.grid.current is None
        super().draw()
        if was_empty and self.grid.current is not None:
            self.draw_head()

    def apply_needle(self, needle: str) -> None:
        """Spell out what the cursor is on now, or nothing."""
        super().apply_needle(needle)
        self.draw_head()

    def on_grid_settled(self) -> None:
        """Spell it out where rows took longer than a key may wait."""
        self.draw_head()

    def on_mount(self) -> None:
        """Name the keys for the first row."""
        self.draw_frame()

    def draw_frame(self) -> None:
        """Also say what Enter does with this row."""
        super().draw_frame()
        row = self.grid.current
        is_run = row is not None and row.change is not None
        for bar in self.query(KeyBar):
            bar.relabel("copy_command", "run …" if is_run else "copy")

    def action_copy(self) -> None:
        """Copy the line under the cursor as a shell takes it."""
        if (row := self.grid.current) is not None:
            self.copy_text(row.line)

    def on_moved(self) -> None:
        """Spell the command out above."""
        self.show(self.digest)

    async def action_copy_command(self) -> None:
        """Copy the command, or ask whether to run it."""
        row = self.grid.current
        if row is None or row.change is None:
            self.action_copy()
        elif refusal := self.gpumon.changes.refusal(row.change):
            self.report(refusal)
        else:
            from gpumon.tui.widgets.text.prompt import AnswerPrompt

            target = row.change.job.label
            question = f"{row.line}: type {target} to run it, Esc to cancel"
            await self.ask(AnswerPrompt(question, lambda text: self._confirm(row, text)))

    def _confirm(self, command: Command, text: str) -> str:
        """Run a command whose job was typed; returns why it is not run."""
        change = command.change
        if change is None or text.strip() != change.job.label:
            return f"not run: type {change.job.label}, or Esc" if change else "nothing to run"
        if refusal := self.gpumon.changes.refusal(change):
            return refusal
        self.gpumon.changes.send(command, change)
        return ""

    def on_grid_opened(self) -> None:
        """A click on the cursor copies."""
        self.action_copy()
