"""Commands that change a job: sent when asked for, and done once the queue shows it."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final, Protocol

from gpumon.model.text import plain
from gpumon.report.next_steps.changes import awaited, progress_of, why_not_now
from gpumon.report.next_steps.roads import slurm_here
from gpumon.report.text import units
from gpumon.sources.probes.ssh import login
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.source import Wish
from gpumon.tui.screens.base.contract import Application
from gpumon.tui.screens.base.take_along import REPORTED_S, HandOff

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from textual.screen import Screen

    from gpumon.model.records.tick import Tick
    from gpumon.report.next_steps.changes import Awaited
    from gpumon.report.next_steps.commands import Change, Command

MOST_COMPLAINT_BYTES: Final = 16 * 1024
"""Of a command's complaints only the beginning is shown; no more than this is stored."""

RUN_LIMIT_S: Final = 20.0
"""A command of Slurm's that has not ended by then waits for a controller that hangs."""

AWAITED_S: Final = 30.0
"""How long the screen shows that a change was sent: about as long as it takes to take effect."""

OUTCOME_S: Final = 12.0
"""How long the screen shows what became of one: the user may be looking elsewhere just then."""


class Terminal(Application, Protocol):
    """The application as this module needs it."""

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """The views, the one on top last."""
        ...

    def run_worker(self, work: Coroutine[Any, Any, None], *, exit_on_error: bool) -> object:
        """Have the event loop do something while keys are answered."""
        ...


class Changes:
    """Runs changes, and reports what became of them on the screen that is shown by then."""

    def __init__(self, app: Terminal, newest: Tick | None) -> None:
        """`newest` is the tick that is known already; later ones come by `hear`."""
        self._app = app
        self._newest = newest
        self._awaited: dict[str, Awaited] = {}
        """By the command's name."""

    def refusal(self, change: Change) -> str:
        """Why this change is not to be made, or not any more; empty: it may be."""
        if not self._app.is_real:
            return "the queue is simulated or recorded: there is nothing to change"
        why = slurm_here(self._newest)[1]
        if why:
            return why
        why = why_not_now(change, self._newest)
        return f"not run: {why}" if why else ""

    def send(self, command: Command, change: Change) -> None:
        """Run a command; one may leave its page while Slurm's controller is silent."""
        self._app.run_worker(self._run(command, change), exit_on_error=False)

    def hear(self, tick: Tick) -> None:
        """Look in a new tick for what was changed."""
        self._newest = tick
        for line, one in tuple(self._awaited.items()):
            now, outcome = progress_of(one, tick)
            if now is None:
                del self._awaited[line]
                self._report(f"{line}: {outcome}", OUTCOME_S)
                continue
            self._awaited[line] = now
            if now.answers > one.answers:
                self._app.wish(Wish(has_changed_queue=True))

    def _report(self, text: str, for_s: float = REPORTED_S) -> None:
        """Report it on the screen that is shown by now."""
        for screen in reversed(self._app.screen_stack):
            if isinstance(screen, HandOff):
                screen.report(text, for_s)
                return

    async def _run(self, command: Command, change: Change) -> None:
        before = self._newest
        target, why = slurm_here(before)
        if target is None:
            self._report(f"{command.name}: {why}")
            return
        # Over the road, and in the environment, by which the queue is read.
        hop = target.hop
        sent = tuple(map(shlex.quote, command.words)) if hop else command.words
        commands = SlurmCommands(login(*hop) if hop else ())
        argv, environ = commands.call(sent)
        self._report(f"running: {command.name}", RUN_LIMIT_S)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            self._report(f"{command.name}: {error.strerror}")
            return
        try:
            stderr = await asyncio.wait_for(_complaints(process), RUN_LIMIT_S)
        except TimeoutError:
            process.kill()
            self._report(f"{command.name}: no answer in {units.seconds(RUN_LIMIT_S)}")
            return
        complaint = stderr.decode("utf-8", "replace")
        words = _words(command, complaint)
        if process.returncode != 0:
            failed = commands.hop_failure(
                command.name, command.words[0], process.returncode, complaint
            )
            words = failed.message if failed else words
            self._report(
                f"{command.name}: {words or f'failed with {process.returncode}'}", OUTCOME_S
            )
            return
        if before is not None:
            self._awaited[command.name] = awaited(change, before)
        # Else the job would look as before until the queue's next poll.
        self._app.wish(Wish(has_changed_queue=True))
        text = words or "sent, the queue's next answer shows what became of it"
        self._report(f"{command.name}: {text}", AWAITED_S)


async def _complaints(process: asyncio.subprocess.Process) -> bytes:
    """What a command says on standard error until it ends; the first of it, where it is long."""
    read = bytearray()
    while process.stderr is not None and (part := await process.stderr.read(MOST_COMPLAINT_BYTES)):
        read += part[: MOST_COMPLAINT_BYTES - len(read)]
    await process.wait()
    return bytes(read)


def _words(command: Command, complaint: str) -> str:
    """Slurm's own words without its name, which comes before them."""
    lines = complaint.splitlines()
    words = "; ".join(line.strip() for line in lines if line.strip())
    return plain(words.replace(f"{command.words[0]}: error: ", ""), 200).strip()
