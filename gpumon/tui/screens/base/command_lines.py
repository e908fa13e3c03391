"""Views that show command lines of this machine's processes; those of others have the names."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpumon.report.next_steps.roads import is_this_machine
from gpumon.report.tables.process import PROCESS_PARTS
from gpumon.report.text.cells import Cell
from gpumon.tui.screens.base.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import Process
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.tables.process import ProcessRow
    from gpumon.sources.here.command_lines import CommandLines


class CommandLineView(View):
    """Reads command lines while it is on screen, and draws again once they are read."""

    def __init__(self) -> None:
        super().__init__()
        self._command_reader: CommandLines | None = None
        self._commands_read = 0
        """How often something new was read."""

    def _is_here(self, digest: Digest, process: Process) -> bool:
        """Whether a process can be read in this machine's own /proc."""
        if not self.gpumon.is_real or process.start_time_s is None:
            return False
        node = process.node
        return digest.remembered(
            ("is this machine", node), lambda: is_this_machine(digest.tick, node)
        )

    def _command(self, digest: Digest, row: ProcessRow) -> Cell:
        """The command line, or the program's name; asked for lines in sight alone."""
        process = row.process
        if self._is_here(digest, process):
            line = self._command_lines().line(process.pid, process.start_time_s or 0.0)
            if line is not None:
                return Cell(line)
        return PROCESS_PARTS["program"].cell(digest, row)

    def _command_lines(self) -> CommandLines:
        if self._command_reader is None:
            from gpumon.sources.here.command_lines import CommandLines

            self._command_reader = CommandLines(self._drawer())
        return self._command_reader

    def _drawer(self) -> Callable[[], None]:
        """Draws again, from any thread."""
        # What knows the application by itself is this thread alone.
        app, show = self.app, self.gpumon.show_newest

        def draw() -> None:
            self._commands_read += 1
            # The application may be gone by now, and its loop with it.
            with suppress(RuntimeError):
                app.call_later(show)

        return draw
