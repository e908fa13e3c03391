"""The beat that Slurm is asked on, however it is asked: in a thread, seldom, never in `poll`."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final

from gpumon.model.frame import Frame, QueueRecords, SourceError
from gpumon.sources.slurm import gres_conf
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.schedule import JOBS_PERIOD_S, NODES_PERIOD_S, Schedule
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.model.cluster import Job, SlurmNode
    from gpumon.sources.slurm.gres_conf import GresConf
    from gpumon.sources.source import Clock, Wish

_CLOSE_S: Final = 0.4
"""Longest wait for the thread at the end; its call has been broken off by then."""

_MAX_FRAMES: Final = 16
"""Frames kept for a sampler that does not poll; the newest count."""

_NEVER: Final = float("nan")


class QueueRounds(ABC):
    """Reports Slurm's jobs and nodes; a frame carries records once the jobs were answered."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self._clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
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

    @abstractmethod
    def _ask_jobs(self) -> tuple[SourceError, ...]:
        """Ask for the jobs, keep them and when they were told; returns what is to be remarked.

        Raises:
            CommandFailedError: there was no answer of use.
        """

    @abstractmethod
    def _ask_nodes(self) -> tuple[SourceError, ...]:
        """Ask for the nodes; otherwise as `_ask_jobs`."""

    @abstractmethod
    def _break_off(self) -> None:
        """Make a running call fail soon, from another thread."""

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

    def wish(self, wish: Wish) -> None:  # noqa: B027  there is nothing to grant
        """Ignored: how often Slurm is asked is not for the screens to say."""

    def close(self) -> None:
        """End the thread and its call."""
        self._stop.set()
        self._break_off()
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
            self._call("job", started_at, self._jobs_schedule, self._ask_jobs)
        if started_at >= self._nodes_schedule.due_at:
            self._call("node", started_at, self._nodes_schedule, self._ask_nodes)
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

    def _call(
        self,
        what: str,
        beat_at: float,
        schedule: Schedule,
        ask: Callable[[], tuple[SourceError, ...]],
    ) -> None:
        """One call: its records or its error, and when it may be made again."""
        started_at = self._clock.monotonic()
        try:
            self._errors[what] = ask()
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

    def _keep_jobs(self, jobs: tuple[Job, ...]) -> None:
        """Report these jobs, as of now, from the next frame on."""
        self._jobs, self._jobs_at = jobs, self._clock.now()

    def _keep_nodes(
        self, nodes: tuple[SlurmNode, ...], *, is_local: bool, far_gres_conf: str = ""
    ) -> tuple[SourceError, ...]:
        """Report these nodes, as of now, with the files that gres.conf names.

        Args:
            nodes: what Slurm listed.
            is_local: whether this machine is of their cluster; else its gres.conf is not theirs.
            far_gres_conf: text of the gres.conf of a login node of theirs.

        Returns:
            What is to be remarked about gres.conf.
        """
        if is_local:
            conf = gres_conf.find_and_read(self._environ)
        else:
            conf = gres_conf.parse(far_gres_conf)
        self._nodes = tuple(_with_files(node, conf) for node in nodes)
        self._nodes_at = self._clock.now()
        return tuple(SourceError("gres.conf", note) for note in conf.notes)


def _with_files(node: SlurmNode, conf: GresConf) -> SlurmNode:
    """The node with its device files, where the file here speaks of as many GPUs as Slurm."""
    files = conf.gpu_files(node.name)
    return node._replace(gpu_files=files) if len(files) == node.gpu_count else node
