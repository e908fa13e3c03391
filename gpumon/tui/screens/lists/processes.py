"""Every process on every GPU in view: whose it is, what it uses, how long it runs."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gpumon.base.held_process import NotSentError, send
from gpumon.model.text import plain
from gpumon.report.document.queue import stray_lines
from gpumon.report.lists.all_processes import (
    ALL_PROCESS_COLUMNS,
    every_process,
    process_key,
    process_order,
    process_search,
    process_steps,
)
from gpumon.report.lists.export import as_csv, as_json
from gpumon.report.next_steps.roads import has_this_machine
from gpumon.report.tables.process import unread_words
from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph
from gpumon.report.wording.empty_states import (
    PROCESSES_NOT_REPORTED,
    has_only_nodes,
    no_process_words,
    silent_nodes_lines,
)
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.command_lines import CommandLineView
from gpumon.tui.screens.base.fleet_view import FleetView
from gpumon.tui.widgets.table.grid import Grid, Plan
from gpumon.tui.widgets.text.lines import KeyBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumon.base.held_process import Described
    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Process
    from gpumon.report.facts.columns import SortKey
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.process import ProcessRow
    from gpumon.report.text.cells import Line
    from gpumon.tui.actions.action import Action

_SIGNALS: Final = {
    "INT": signal.SIGINT,
    "TERM": signal.SIGTERM,
    "KILL": signal.SIGKILL,
}
"""What may be sent, by the names that kill(1) has for them."""

_ENDS_WITHIN_S: Final = 3.0
"""How long its end is waited for before the screen says that it is still there."""

FEW_GPUS: Final = 128
"""GPUs up to which it is counted of how many processes the PID is all that is known: a machine's,
or those of a job. Of a fleet's it would take as long as a key may."""

_NOT_HERE: Final = "it does not run on this machine, or that is not certain: target local"


class ProcessesView(FleetView["ProcessRow"], CommandLineView):
    """One line for each process on each GPU."""

    view = "processes"
    BINDINGS = bindings_of("processes")
    noun = "processes"
    noun_of_one = "process"
    plan = Plan(ALL_PROCESS_COLUMNS, process_key, process_order, process_search, led_by="memory")

    def __init__(self) -> None:
        super().__init__()
        own: dict[str, Any] = {
            "cell": self._command, "words": self._command_words, "order": self._command_order
        }  # fmt: skip
        named = self.plan.columns
        shown = [c._replace(**own) if c.key == "command" else c for c in named]
        self.grid = Grid(lambda: self.plan._replace(columns=shown, search=self._search))
        self._commands_found = 0
        """Of how many readings the rows were filtered and sorted."""

    @property
    def shows_processes(self) -> bool:
        """It does, unlike other lists."""
        return True

    def rows(self, digest: Digest) -> Sequence[ProcessRow]:
        """Every process on each of its GPUs."""
        return every_process(digest)

    def row_steps(self, digest: Digest) -> Iterable[None]:
        """Some hundred processes at a time."""
        return process_steps(digest)

    def head_lines(self, digest: Digest, width: int) -> list[Line]:
        """Also nodes that have gone silent, processes where no job runs, or why all are dark."""
        lines = super().head_lines(digest, width)
        lines += silent_nodes_lines(digest.tick, width)
        lines += stray_lines(digest, width)
        if len(digest.tick.gpus) <= FEW_GPUS and (why := unread_words(every_process(digest))):
            lines += paragraph(why, width, Tone.DIM)
        return lines

    def empty_words(self, digest: Digest) -> tuple[str, ...]:
        """No GPU has a process, or no GPU is known."""
        if gpus := digest.tick.gpus.values():
            words = no_process_words(gpus, "the GPUs in view")
            if words == PROCESSES_NOT_REPORTED:
                return (words, "ssh:// and slurm read them on the nodes.")
            return (words, "Tab shows the other views.")
        return ("No GPU is known, so no process either.", "e shows what the targets report.")

    def errors_behind(self, digest: Digest) -> Sequence[SourceError]:
        """None where the head shows them."""
        return () if has_only_nodes(digest.tick) else super().errors_behind(digest)

    def draw(self) -> None:
        """Also find again what is looked for in command lines read meanwhile; name the keys."""
        if self._commands_found != self._commands_read:
            self._commands_found = self._commands_read
            self.grid.renew()
        super().draw()
        for bar in self.query(KeyBar):
            bar.offer(self.footer())

    def _command_words(self, digest: Digest, row: ProcessRow) -> tuple[str, ...]:
        """The name of the program, and the command line that is shown in its place."""
        names = (row.process.name or "", self._command(digest, row).text)
        return tuple(dict.fromkeys(name.lower() for name in names if name))

    def _command_order(self, digest: Digest, row: ProcessRow) -> SortKey | None:
        return self._command_words(digest, row)[-1:] or None

    def _search(self, digest: Digest, row: ProcessRow) -> str:
        return "\n".join((process_search(digest, row), *self._command_words(digest, row)))

    def open_row(self, row: ProcessRow) -> None:
        """The process over time: its curves, those of its GPU and of what surrounds it."""
        subject = f"process:{row.uuid}/{row.process.pid}"
        trail = (*self.trail(), f"{row.process.node}:{row.process.pid}")
        self.app.push_screen(self.gpumon.views.curves(subject, trail))

    def action_node(self) -> None:
        """The node that the process runs on."""
        row = self.grid.current
        if row is not None:
            self.open_node(row.process.node)

    def action_copy(self) -> None:
        """Copy the PID."""
        row = self.grid.current
        if row is None:
            super().action_copy()
        else:
            self.copy_text(str(row.process.pid))

    def footer(self) -> Sequence[Action]:
        """Name only keys that do something here: a tree and signals are of this machine."""
        digest = self.digest
        is_here = digest is not None and self.gpumon.is_real and has_this_machine(digest.tick)
        without = () if is_here else ("tree", "signal")
        if not self.gpumon.allows_actions:
            without = (*without, "signal")
        return [action for action in super().footer() if action.name not in without]

    def table_maker(self, form: str) -> Callable[[], str] | None:
        """As elsewhere, with the names of programs: no file holds a command line."""
        digest = self.digest
        if digest is None:
            return None
        columns, rows = self.grid.table
        named = {column.key: column for column in self.plan.columns}
        written = [named[column.key] for column in columns]
        return partial(as_csv if form == "csv" else as_json, digest, written, rows)

    # What this machine itself reports

    def action_others(self) -> None:
        """Also other users' command lines, or no more."""
        if not self.gpumon.is_real:
            self.report("command lines are read on this machine; these processes are elsewhere")
            return
        lines = self._command_lines()
        lines.show_others(not lines.has_others)
        self._commands_read += 1
        whose = "other users' command lines, too" if lines.has_others else "only your own"
        self.report(f"{whose}, without what looks like a secret")
        self.show(self.digest)

    def action_tree(self) -> None:
        """Parents and children of the process."""
        row, digest = self.grid.current, self.digest
        if row is None or digest is None:
            self.report("no process here")
            return
        process = row.process
        if not self._is_here(digest, process):
            self.report(f"no tree of {process.pid}: {_NOT_HERE}")
            return
        from gpumon.report.pages.process_tree import tree_lines
        from gpumon.sources.here.family import Family

        family = Family(process.pid, process.start_time_s or 0.0, self._drawer())
        trail = (*self.trail(), f"{process.node}:{process.pid}")
        page = self.gpumon.views.page(
            "tree", trail, lambda _, width: tree_lines(family.tree(), self._line_of, width)
        )
        self.app.push_screen(page)

    def _line_of(self, one: Described) -> str | None:
        return self._command_lines().line(one.pid, one.start_time_s)

    # Signals

    async def action_signal(self) -> None:
        """Ask which signal the process is to get."""
        from gpumon.tui.widgets.text.prompt import AnswerPrompt

        row, digest = self.grid.current, self.digest
        if row is None or digest is None:
            self.report("no process here")
        elif refusal := self._refusal(digest, row.process):
            self.report(refusal)
        else:
            process = row.process
            # What matters comes first: a narrow terminal cuts the end off.
            question = (
                f"type TERM {process.pid} (or INT, KILL) for {_named(process)}; Esc: no signal"
            )
            await self.ask(AnswerPrompt(question, lambda text: self._confirmed(process, text)))

    def _refusal(self, digest: Digest, process: Process) -> str:
        """Why a process gets no signal from here; empty: it may."""
        own = os.geteuid()
        if not self.gpumon.allows_actions:
            return "gpumon sends signals only if it was started with --allow-actions"
        if not self.gpumon.is_real:
            return "the process is simulated or recorded: there is nothing to signal"
        if not self._is_here(digest, process):
            return f"no signal to {process.pid}: {_NOT_HERE}"
        if own not in (0, process.uid):
            known = "another user" if process.uid is None else process.uid
            return (
                f"{process.pid} is {process.user or known}'s: only its owner and root may signal it"
            )
        return ""

    def _confirmed(self, process: Process, text: str) -> str:
        """Send what was typed; returns why it was not understood."""
        name, _, number = text.strip().partition(" ")
        wanted = _SIGNALS.get(name.upper().removeprefix("SIG"))
        if wanted is None or number.strip() != str(process.pid):
            return f"not sent: type {', '.join(_SIGNALS)}, and {process.pid}; or Esc"
        self.report(f"sending {wanted.name} to {_named(process)}")
        self.report_later(partial(_sent, process, wanted))
        return ""


def _named(process: Process) -> str:
    """`python 4242 of ada`, harmless."""
    whose = process.user or (None if process.uid is None else str(process.uid))
    words = (process.name or "process", str(process.pid), *(("of", whose) if whose else ()))
    return plain(" ".join(words), 60)


def _sent(process: Process, wanted: signal.Signals) -> str:
    """Send a signal to the process that was on screen, or to none; what came of it."""
    who = _named(process)
    try:
        has_ended = send(process.pid, process.start_time_s or 0.0, wanted, _ENDS_WITHIN_S)
    except NotSentError as error:
        return f"not sent to {who}: {error}"
    if has_ended:
        return f"{wanted.name} sent to {who}: it has ended"
    return f"{wanted.name} sent to {who}: it is still there after {units.seconds(_ENDS_WITHIN_S)}"
