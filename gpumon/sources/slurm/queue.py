"""Slurm's queue as frames: jobs and nodes, asked for in a thread, seldom, never in `poll`."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from gpumon.model.frame import Frame, QueueRecords, SourceError
from gpumon.sources.slurm import failures, gres_conf
from gpumon.sources.slurm.commands import SlurmCommands
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.jobs_text import parse_jobs
from gpumon.sources.slurm.nodes_text import parse_nodes
from gpumon.sources.slurm.schedule import JOBS_PERIOD_S, NODES_PERIOD_S, Schedule
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.model.cluster import Job, SlurmNode
    from gpumon.sources.slurm.gres_conf import GresConf
    from gpumon.sources.slurm.jobs_text import JobList
    from gpumon.sources.slurm.nodes_text import NodeList
    from gpumon.sources.source import Clock, Wish

_CLOSE_S: Final = 0.4
"""Longest wait for the thread at the end; its command has been killed by then."""

_MAX_FRAMES: Final = 16
"""Frames kept for a sampler that does not poll; the newest count."""

_NEVER: Final = float("nan")


class SlurmQueue:
    """Reports Slurm's jobs and nodes; a frame carries records only if they are newly answered."""

    def __init__(
        self,
        url: str = "slurm",
        *,
        commands: SlurmCommands | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self._clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
        self._commands = commands or SlurmCommands(clock=self._clock, environ=self._environ)
        self._jobs_schedule = Schedule(JOBS_PERIOD_S)
        self._nodes_schedule = Schedule(NODES_PERIOD_S)
        self._jobs: tuple[Job, ...] | None = None
        self._jobs_at = _NEVER
        self._nodes: tuple[SlurmNode, ...] = ()
        self._nodes_at = _NEVER
        self._errors: dict[str, tuple[SourceError, ...]] = {}
        self._frames: deque[Frame] = deque(maxlen=_MAX_FRAMES)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_reported = False

    def available(self) -> bool:
        """Whether Slurm's commands are on the path here; says nothing of whether they answer."""
        return self._commands.available()

    def start(self, wake: Callable[[], None]) -> None:
        """Begin asking in a thread; `wake` is called from it for each frame."""
        self._thread = threading.Thread(
            target=self.run, args=(wake,), name=f"gpumon {self.url}", daemon=True
        )
        self._thread.start()

    def poll(self) -> list[Frame]:
        """Frames since the last poll, oldest first."""
        frames: list[Frame] = []
        while self._frames:
            frames.append(self._frames.popleft())
        return frames

    def pending(self) -> bool:
        """Whether the first report is still to come."""
        return not self._has_reported

    def wish(self, wish: Wish) -> None:
        """Ignored: how often Slurm is asked is not for the screens to say."""

    def close(self) -> None:
        """End the thread and its command."""
        self._stop.set()
        self._commands.close()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def run(self, wake: Callable[[], None]) -> None:
        """Ask whatever is due until the end: the body of the thread."""
        while not self._stop.is_set():
            frame = self._round()
            if self._stop.is_set():
                return
            self._frames.append(frame)
            self._has_reported = True
            wake()
            next_at = min(self._jobs_schedule.due_at, self._nodes_schedule.due_at)
            self._clock.wait(self._stop, next_at - self._clock.monotonic())

    def _round(self) -> Frame:
        """Ask what is due and report it."""
        started_at = self._clock.monotonic()
        due_at = min(self._jobs_schedule.due_at, self._nodes_schedule.due_at)
        if started_at >= self._jobs_schedule.due_at:
            self._ask("job", started_at, self._jobs_schedule, self._take_jobs)
        if started_at >= self._nodes_schedule.due_at:
            self._ask("node", started_at, self._nodes_schedule, self._take_nodes)
        records = None
        if self._jobs is not None:
            records = QueueRecords(self._jobs, self._nodes, self._jobs_at, self._nodes_at)
        return Frame(
            origin=self.url,
            node="",
            taken_at=self._clock.now(),
            lateness_s=started_at - due_at if self._has_reported else 0.0,
            blocks={},
            errors=tuple(error for errors in self._errors.values() for error in errors),
            queue=records,
        )

    def _ask(
        self, what: str, beat_at: float, schedule: Schedule, take: Callable[[str], None]
    ) -> None:
        """One call: its records or its error, and when it may be made again."""
        started_at = self._clock.monotonic()
        try:
            take(self._commands.show(what))
        except CommandFailedError as error:
            ended_at = self._clock.monotonic()
            schedule.failed(beat_at, ended_at - started_at, ended_at)
            self._errors[what] = (error.error,)
            if what == "job":
                self._jobs = None
                # One call is enough to learn that the controller is in trouble.
                self._nodes_schedule.due_at = max(self._nodes_schedule.due_at, schedule.due_at)
        else:
            ended_at = self._clock.monotonic()
            schedule.answered(beat_at, ended_at - started_at, ended_at)

    def _take_jobs(self, text: str) -> None:
        found = parse_jobs(text)
        self._errors["job"] = _remarks("job", len(found.jobs), found, text)
        self._jobs, self._jobs_at = found.jobs, self._clock.now()

    def _take_nodes(self, text: str) -> None:
        found = parse_nodes(text)
        remarks = _remarks("node", len(found.nodes), found, text)
        conf = (
            gres_conf.find_and_read(self._environ)
            if self._commands.is_local
            else gres_conf.NOT_FOUND
        )
        notes = tuple(SourceError("gres.conf", note) for note in conf.notes)
        self._errors["node"] = remarks + notes
        self._nodes = tuple(_with_files(node, conf) for node in found.nodes)
        self._nodes_at = self._clock.now()


def _remarks(
    what: str, count: int, found: JobList | NodeList, text: str
) -> tuple[SourceError, ...]:
    """What is to be said about an answer of which `count` records were read.

    Raises:
        CommandFailedError: not one record of it could be read, and it doesn't say there are none.
    """
    command, things, total = f"scontrol show {what}", f"{what}s", count + found.unreadable
    if not count and (found.unreadable or not _says_none(text, found.announced)):
        raise CommandFailedError(failures.garbage(command, things, text))
    remarks: list[SourceError] = []
    if found.unreadable:
        remarks.append(failures.unread(command, things, found.unreadable, total))
    if found.announced is not None and found.announced != total:
        remarks.append(failures.miscounted(command, things, found.announced, total))
    return tuple(remarks)


def _says_none(text: str, announced: int | None) -> bool:
    """Whether an answer without records says that there are none."""
    return not text.strip() or announced == 0 or "in the system" in text


def _with_files(node: SlurmNode, conf: GresConf) -> SlurmNode:
    """The node with its device files, where the file here speaks of as many GPUs as Slurm."""
    files = conf.gpu_files(node.name)
    return node._replace(gpu_files=files) if len(files) == node.gpu_count else node
