"""When Slurm is asked, however it is asked: in a thread, seldom, never in `poll`."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError, fault
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.commands.schedule import (
    JOBS_PERIOD_S,
    NODES_PERIOD_S,
    PARTITIONS_PERIOD_S,
    RESERVATIONS_PERIOD_S,
    TOPOLOGY_PERIOD_S,
    Schedule,
)
from gpumon.sources.slurm.text import gres_conf
from gpumon.sources.slurm.text.topology import NOWHERE
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpumon.model.records.cluster import Job, SlurmNode
    from gpumon.model.records.queue import Partition, Reservation
    from gpumon.sources.slurm.text.gres_conf import GresConf
    from gpumon.sources.slurm.text.topology import Place
    from gpumon.sources.source import Clock, Wish

_CLOSE_S: Final = 0.4
"""Longest wait for the thread at the end; its call has been broken off by then."""

_MAX_FRAMES: Final = 16
"""Frames stored for a sampler that does not poll; the newest count."""

_NEVER: Final = float("nan")

PERIODS_S: Final = {
    "job": JOBS_PERIOD_S,
    "node": NODES_PERIOD_S,
    "partition": PARTITIONS_PERIOD_S,
    "reservation": RESERVATIONS_PERIOD_S,
}
"""Kinds of records in the order in which a round asks for them, as scontrol names them."""

COMMAND_PERIODS_S: Final = {**PERIODS_S, "topology": TOPOLOGY_PERIOD_S}
"""The kinds of Slurm's commands; slurmrestd has no address for the topology."""


class CallResult(NamedTuple):
    """One answer of Slurm's, its records stored already."""

    remarks: tuple[SourceError, ...]
    at: float
    """Unix time of the answer, which another gpumon of this user may have asked for."""
    took_s: float | None = None
    """How long that other one's call took; None: it was our own, measured here."""


class QueueRounds(ABC):
    """Reports what Slurm lists; a frame carries records once the jobs were answered.

    A kind of record that can't be had never takes another's place: it becomes an error, and the
    last answer of its kind stays.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        periods_s: Mapping[str, float] = PERIODS_S,
    ) -> None:
        self.url = url
        self._clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
        self._schedules = {kind: Schedule(period_s) for kind, period_s in periods_s.items()}
        self.cluster = ""
        """Slurm's name of the cluster, lower case; empty while it is not known."""
        self._jobs: tuple[Job, ...] | None = None
        self._jobs_at = _NEVER
        self._nodes: tuple[SlurmNode, ...] = ()
        self._nodes_at = _NEVER
        self._places: Mapping[str, Place] = {}
        self._partitions: tuple[Partition, ...] = ()
        self._reservations: tuple[Reservation, ...] = ()
        self._errors: dict[str, tuple[SourceError, ...]] = {}
        self._frames: deque[Frame] = deque(maxlen=_MAX_FRAMES)
        self._stop = threading.Event()
        self._bell = threading.Event()
        """Ends the wait for the next round: for a wish, else for good."""
        self._wishing = threading.Lock()
        self._has_wish = False
        self._changed_at = float("-inf")
        """Unix time of the user's last change: an older list of jobs does not show it."""
        self._thread: threading.Thread | None = None
        self._has_reported = False

    @abstractmethod
    def _ask(self, kind: str) -> CallResult:
        """Ask for one kind of record and store the answer.

        Raises:
            CommandFailedError: there was no answer of use.
        """

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

    def wish(self, wish: Wish) -> None:
        """Ask for the jobs soon once the user has changed one; its period is fixed else."""
        if wish.has_changed_queue:
            with self._wishing:
                self._has_wish = True
                self._changed_at = self._clock.now()
                self._bell.set()

    def close(self) -> None:
        """End the thread and its call."""
        self._stop.set()
        self._bell.set()
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
            if not self._wait():
                return

    def _wait(self) -> bool:
        """Wait until something is due; False: until the end."""
        while True:
            self._clock.wait(self._bell, self._due_at() - self._clock.monotonic())
            with self._wishing:
                has_rung, has_wish = self._bell.is_set(), self._has_wish
                self._has_wish = False
                self._bell.clear()
            if not has_rung:
                return True
            if not has_wish or self._stop.is_set():
                return False
            self._schedules["job"].hurry(self._clock.monotonic())

    def _longest_age_s(self, kind: str, period_s: float) -> float:
        """How old an answer may be that another gpumon got: no older than the user's change."""
        if kind != "job":
            return period_s
        return min(period_s, max(0.0, self._clock.now() - self._changed_at))

    def _due_at(self) -> float:
        return min(schedule.due_at for schedule in self._schedules.values())

    def _round(self) -> Frame:
        """Ask what is due and report it."""
        started_at = self._clock.monotonic()
        due_at = self._due_at()
        for kind, schedule in self._schedules.items():
            if started_at >= schedule.due_at and not self._stop.is_set():
                self._call(kind, started_at, schedule)
        records = None
        if self._jobs is not None:
            records = QueueRecords(
                jobs=self._jobs,
                nodes=self._nodes,
                jobs_at=self._jobs_at,
                nodes_at=self._nodes_at,
                partitions=self._partitions,
                reservations=self._reservations,
                cluster=self.cluster,
            )
        return Frame(
            origin=self.url,
            node="",
            taken_at=self._clock.now(),
            lateness_s=started_at - due_at if self._has_reported else 0.0,
            errors=tuple(error for errors in self._errors.values() for error in errors),
            queue=records,
        )

    def _call(self, kind: str, round_at: float, schedule: Schedule) -> None:
        """One call: its records or its error, and when it may be made again."""
        started_at = self._clock.monotonic()
        try:
            result = self._tried(kind)
        except CommandFailedError as error:
            ended_at = self._clock.monotonic()
            schedule.failed(round_at, ended_at - started_at, ended_at)
            self._errors[kind] = (error.error,)
            if kind == "job":
                self._jobs = None
                # One call is enough to learn that the controller is in trouble.
                for other in self._schedules.values():
                    other.due_at = max(other.due_at, schedule.due_at)
            return
        self._errors[kind] = result.remarks
        ended_at = self._clock.monotonic()
        if result.took_s is None:
            schedule.answered(round_at, ended_at - started_at, ended_at)
        else:
            # On the schedule of the gpumon that asked, so that all of a user's have the same.
            answered_at = ended_at - max(0.0, self._clock.now() - result.at)
            schedule.answered(answered_at, result.took_s, answered_at)

    def _tried(self, kind: str) -> CallResult:
        """The answer for a kind; an error of gpumon's own counts as none, and ends no thread."""
        try:
            return self._ask(kind)
        except CommandFailedError:
            raise
        except Exception as error:
            raise CommandFailedError(fault(f"reading Slurm's {_things(kind)}", error)) from error

    def _store_jobs(self, jobs: tuple[Job, ...], at: float) -> None:
        """Report these jobs, as of a Unix time, from the next frame on."""
        self._jobs, self._jobs_at = jobs, at

    def _store_nodes(
        self,
        nodes: tuple[SlurmNode, ...],
        at: float,
        *,
        is_local: bool,
        far_gres_conf: str = "",
    ) -> tuple[SourceError, ...]:
        """Report these nodes with the files that gres.conf names.

        Args:
            nodes: what Slurm listed.
            at: Unix time of its answer.
            is_local: whether this machine is of their cluster; else its gres.conf is not theirs.
            far_gres_conf: text of the gres.conf of a login node of theirs.

        Returns:
            What is to be remarked about gres.conf.
        """
        if is_local:
            conf = gres_conf.find_and_read(self._environ)
        else:
            conf = gres_conf.parse(far_gres_conf)
        self._nodes = self._placed(_with_files(node, conf) for node in nodes)
        self._nodes_at = at
        return tuple(SourceError("gres.conf", note) for note in conf.notes)

    def _store_places(self, places: Mapping[str, Place]) -> None:
        """Report nodes with these places of theirs in the network, by name, from now on."""
        self._places = places
        self._nodes = self._placed(self._nodes)

    def _placed(self, nodes: Iterable[SlurmNode]) -> tuple[SlurmNode, ...]:
        found = ((node, self._places.get(node.name, NOWHERE)) for node in nodes)
        return tuple(
            node._replace(leaf_switch=place.leaf_switch, block=place.block) for node, place in found
        )


def _with_files(node: SlurmNode, conf: GresConf) -> SlurmNode:
    """The node with its device files, where the file here speaks of as many GPUs as Slurm."""
    files = conf.gpu_files(node.name)
    return node._replace(gpu_files=files) if len(files) == node.gpu_count else node


def _things(kind: str) -> str:
    """What a round asks for, in words; there is only one topology."""
    return kind if kind == "topology" else f"{kind}s"
