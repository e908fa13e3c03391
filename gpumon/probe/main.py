"""The probe's life: hello, one line a period, and an end that no cut cable can prevent.

Standard input carries one wish a line. Without any line for `LEASE_S`, or at its end, the process
ends itself from a thread that never enters the driver.
"""

import ctypes
import gc
import json
import os
import sys
import threading
import time
from math import isfinite
from typing import Any, BinaryIO, Callable, Dict, FrozenSet, TextIO

from gpumon.probe import tiers
from gpumon.probe.driver.gpu import Wanted
from gpumon.probe.driver.sweep import Sweeper
from gpumon.probe.kernel.log import only_logged
from gpumon.probe.rows import NOT_SAMPLED, Changes, block
from gpumon.probe.surroundings import Surroundings

PROTOCOL = 1
"""Version of the lines; a monitor of another one refuses them."""
LEASE_S = 30.0
"""Seconds without a line from the monitor after which the probe ends. A choice: a cable may be out
for some periods, and no orphan stays longer."""
MIN_PERIOD_S = 0.1
"""Shortest period, seconds: GPM has nothing new before."""
MAX_PERIOD_S = 86400.0
"""As the setting has it: no wait of Python's takes any number of seconds."""

NAME_PATIENCE_S = 0.3
"""How long a single report waits for the names of users whom a directory service knows; one that is
well answers in milliseconds. A report among others waits for none: the next one has them."""

OFTEN = ("gpu", "node")
"""Blocks that are read in every period, of which most is as it was."""

PIECE_CHARS = 900
"""Payload of one piece; with its head it stays below the 1,024 bytes of one message of srun's."""


class Pieces:
    """Replaces standard output: every line written leaves as short pieces, for srun.

    srun carries the output of every task of a step on one stream, in messages of at most 1,024
    bytes: a longer line is torn, and another task's words may come in between. Each piece
    therefore names the task it is from, the message it belongs to, its place in it, and its own
    length.
    """

    def __init__(self, out: TextIO, task: int) -> None:
        """`task` is the number of this task within the step."""
        self._out = out
        self._task = task
        self._number = 0

    def write(self, text: str) -> int:
        """Write one whole line of plain ASCII."""
        line = text.rstrip("\n")
        parts = [line[at : at + PIECE_CHARS] for at in range(0, len(line), PIECE_CHARS)]
        for place, part in enumerate(parts):
            head = (self._task, self._number, place, len(parts), len(part))
            self._out.write("~%d.%d.%d.%d.%d " % head + part + "\n")
        self._number += 1
        return len(text)

    def flush(self) -> None:
        """Pass on what was written."""
        self._out.flush()


def of_this_task(out: TextIO) -> Pieces:
    """Output of this task of its step, as Slurm numbers it."""
    return Pieces(out, int(os.environ.get("SLURM_PROCID", "0")))


class Wishes:
    """What the monitor asked for last, read from standard input by a thread of its own."""

    def __init__(
        self,
        stdin: BinaryIO,
        period_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start with the period of the start options; the lease begins now."""
        self.period_s = period_s
        self.zoom: FrozenSet[str] = frozenset()
        """UUIDs of the GPUs that a user watches."""
        self.shows_processes = True
        """Whether processes are on a screen, as far as is known."""
        self.changed = threading.Event()
        self._stdin = stdin
        self._monotonic = monotonic
        self._sleep = sleep
        self._heard = monotonic()

    def start(self) -> None:
        """Listen, and watch the lease; the first thread that returns ends the process."""
        for wait in (self.listen, self.watch):
            threading.Thread(target=_end_after, args=(wait,), daemon=True).start()

    def listen(self) -> None:
        """Take wishes until the end of input; any line renews the lease."""
        while True:
            line = self._stdin.readline(4096)
            if not line:
                return
            self._heard = self._monotonic()
            words = line.split()
            if len(words) == 2 and words[0] == b"period":
                try:
                    wished_s = float(words[1])
                except ValueError:
                    continue
                if not isfinite(wished_s):
                    continue
                period_s = min(MAX_PERIOD_S, max(MIN_PERIOD_S, wished_s))
                if period_s != self.period_s:
                    self.period_s = period_s
                    self.changed.set()
            elif len(words) == 2 and words[0] == b"zoom":
                uuids = words[1].decode("ascii", "replace").split(",")
                self.zoom = frozenset(uuids) if uuids != ["off"] else frozenset()
            elif words == [b"processes", b"seen"]:
                self.shows_processes = True
            elif words == [b"processes", b"unseen"]:
                self.shows_processes = False

    def watch(self) -> None:
        """Return when no line has come for `LEASE_S`."""
        while True:
            left_s = LEASE_S - (self._monotonic() - self._heard)
            if left_s <= 0:
                return
            self._sleep(left_s)


def _end_after(wait: Callable[[], None]) -> None:
    """End the process as soon as `wait` returns, also where other threads are stuck."""
    try:
        wait()
    finally:
        os._exit(0)


def main(stdin: BinaryIO, options: Dict[str, Any]) -> None:
    """Report until the lease ends.

    Args:
        stdin: The monitor's wishes.
        options: `nonce` to repeat in the hello line, `period_s`, `once` to end after one report;
            `gpm` and `tiers` where not everything is wanted; `only_changes` to leave out what was
            reported before; `shared_output` where other probes write to the same stream, on which
            a line may be lost: then every report is whole.
    """
    if options.get("shared_output"):
        sys.stdout = of_this_task(sys.stdout)
    period_s = max(MIN_PERIOD_S, float(options["period_s"]))
    wishes = Wishes(stdin, period_s)
    wishes.start()
    read = tuple(tier for tier in tiers.ALL if tier in options.get("tiers", tiers.ALL))
    sweeper = Sweeper(Wanted(bool(options.get("gpm", True)), read))
    sweeper.start()
    sweeper.ask()
    send(
        {
            "gpumon_probe": PROTOCOL,
            "nonce": options["nonce"],
            "pid": os.getpid(),
            "python": "%d.%d.%d" % sys.version_info[:3],
            "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        }
    )
    if options["once"]:
        # To search for garbage would take longer than making the little that one report makes.
        gc.disable()
    else:
        _give_back_memory()
    surroundings = Surroundings(
        wanted_tiers=read, name_patience_s=NAME_PATIENCE_S if options["once"] else 0.0
    )
    surroundings.start()
    has_changes = options.get("only_changes") and not options.get("shared_output")
    changes = Changes() if has_changes else None
    due_at = time.monotonic()
    while True:
        sweeper.wait(is_patient=bool(options["once"]))
        found = report(sweeper, surroundings, time.monotonic() - due_at)
        if changes is not None:
            blocks = found["blocks"]
            blocks.update({name: changes.of(name, blocks[name]) for name in OFTEN})
        send(found)
        if options["once"]:
            os._exit(0)
        due_at += wishes.period_s
        while time.monotonic() < due_at:
            if wishes.changed.wait(due_at - time.monotonic()):
                wishes.changed.clear()
                due_at = min(due_at, time.monotonic() + wishes.period_s)
        due_at = max(due_at, time.monotonic() - wishes.period_s)
        sweeper.zoom = wishes.zoom
        sweeper.shows_processes = wishes.shows_processes
        sweeper.ask()


def report(sweeper: Sweeper, surroundings: Surroundings, late_s: float) -> Dict[str, Any]:
    """One line's worth of everything that is known now."""
    found = sweeper.take()
    surroundings.ask(found.gpus, [pid for pid, _ in found.contexts])
    now = time.monotonic()
    # Most of a report would be links and processes, which are read rarely: they are in it when
    # they were read.
    blocks = {}
    if found.links is not None:
        blocks["link"] = block(found.links)
    if found.instances is not None:
        blocks["mig"] = block(found.instances)
    surroundings.wait()
    held = surroundings.still_held(found.contexts, found.has_new_contexts)
    if held is not None:
        blocks["context"] = block(held)
    surroundings.add_to(found.gpus)
    blocks["gpu"] = block(found.gpus)
    cost = sweeper.driver.cost()
    cost.labels.update(sweeper.labels)
    if sweeper.awaited:
        cost.labels["awaited_call"] = sweeper.awaited
    cost.lose(["awaited_call", "driver_version", "nvml_version"], NOT_SAMPLED)
    around, logged, troubles = surroundings.take(cost)
    blocks["event"] = block(found.events + only_logged(logged, found.events))
    return {
        "at": round(now, 4),
        "late_s": round(late_s, 4),
        "calls": sweeper.driver.account(),
        "errors": found.errors + troubles,
        "blocks": {**blocks, **around},
    }


def _give_back_memory() -> None:
    """Hand the pages that compiling the program took back to the node, where libc can."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


def send(message: Dict[str, Any]) -> None:
    """Write one line; a monitor that is gone ends the probe."""
    try:
        sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        os._exit(0)
