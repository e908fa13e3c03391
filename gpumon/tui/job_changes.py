"""Commands that change a job: sent when asked for, and done once the queue shows it."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final, Protocol

from gpumon.model.text import plain
from gpumon.report.next_steps.changes import awaited, looked_at, why_not_now
from gpumon.report.next_steps.roads import slurm_here
from gpumon.report.text import units
from gpumon.sources.probes.ssh import login
from gpumon.sources.slurm.commands.commands import SlurmCommands
from gpumon.sources.source import Wish
from gpumon.tui.screens.base.contract import Application
from gpumon.tui.screens.base.take_along import SAID_S, HandOff

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from textual.screen import Screen

    from gpumon.model.records.tick import Tick
    from gpumon.report.next_steps.changes import Awaited
    from gpumon.report.next_steps.commands import Change, Command

MOST_SAID_BYTES: Final = 16 * 1024
"""Of a command's complaints only the beginning is shown; no more than this is kept."""

RUN_LIMIT_S: Final = 20.0
"""A command of Slurm's that has not ended by then waits for a controller that hangs."""

AWAITED_S: Final = 30.0
"""How long it stands there that a change was sent: about as long as it takes to show."""

OUTCOME_S: Final = 12.0
"""How long it stands there what became of one: nobody may be looking just then."""


class Terminal(Application, Protocol):
    """The application as what is sent and told here needs it."""

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """The views, the one on top last."""
        ...

    def run_worker(self, work: Coroutine[Any, Any, None], *, exit_on_error: bool) -> object:
        """Have the event loop do something while keys are answered."""
        ...


class Changes:
    """Runs changes, and tells what became of them wherever the user is by then."""

    def __init__(self, app: Terminal, newest: Tick | None) -> None:
        """`newest` is the picture that is known already; later ones come by `hear`."""
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
        """Look in a new picture for what was changed."""
        self._newest = tick
        for line, one in tuple(self._awaited.items()):
            now, told = looked_at(one, tick)
            if now is None:
                del self._awaited[line]
                self._tell(f"{line}: {told}", OUTCOME_S)
                continue
            self._awaited[line] = now
            if now.answers > one.answers:
                self._app.wish(Wish(has_changed_queue=True))

    def _tell(self, text: str, for_s: float = SAID_S) -> None:
        """Tell it where the user is by now."""
        for screen in reversed(self._app.screen_stack):
            if isinstance(screen, HandOff):
                screen.say(text, for_s)
                return

    async def _run(self, command: Command, change: Change) -> None:
        before = self._newest
        target, why = slurm_here(before)
        if target is None:
            self._tell(f"{command.name}: {why}")
            return
        # Over the road, and in the environment, by which the queue is read.
        hop = target.hop
        sent = tuple(map(shlex.quote, command.words)) if hop else command.words
        commands = SlurmCommands(login(*hop) if hop else ())
        argv, environ = commands.call(sent)
        self._tell(f"running: {command.name}", RUN_LIMIT_S)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            self._tell(f"{command.name}: {error.strerror}")
            return
        try:
            stderr = await asyncio.wait_for(_complaints(process), RUN_LIMIT_S)
        except TimeoutError:
            process.kill()
            self._tell(f"{command.name}: no answer in {units.seconds(RUN_LIMIT_S)}")
            return
        said = stderr.decode("utf-8", "replace")
        words = _words(command, said)
        if process.returncode != 0:
            failed = commands.hop_failure(command.name, command.words[0], process.returncode, said)
            words = failed.message if failed else words
            self._tell(f"{command.name}: {words or f'failed with {process.returncode}'}", OUTCOME_S)
            return
        if before is not None:
            self._awaited[command.name] = awaited(change, before)
        # Else the job would look as before until the queue's next beat.
        self._app.wish(Wish(has_changed_queue=True))
        text = words or "sent, the queue's next answer shows what became of it"
        self._tell(f"{command.name}: {text}", AWAITED_S)


async def _complaints(process: asyncio.subprocess.Process) -> bytes:
    """What a command says on standard error until it ends; the first of it, where it is long."""
    said = bytearray()
    while process.stderr is not None and (part := await process.stderr.read(MOST_SAID_BYTES)):
        said += part[: MOST_SAID_BYTES - len(said)]
    await process.wait()
    return bytes(said)


def _words(command: Command, said: str) -> str:
    """Slurm's own words without its name, which stands before them."""
    lines = said.splitlines()
    words = "; ".join(line.strip() for line in lines if line.strip())
    return plain(words.replace(f"{command.words[0]}: error: ", ""), 200).strip()
