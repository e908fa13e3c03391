"""`gpumon record`: what targets say, into a file or a folder that keeps the newest."""

from __future__ import annotations

import signal
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.background import BackgroundWriter
from gpumon.base.outcome import Outcome
from gpumon.cli.commands.watch import default_targets
from gpumon.cli.exits import DONE, INTERRUPTED, NOTHING_READ, USAGE, narrate, narrate_error
from gpumon.cli.options import Parser, period
from gpumon.cli.quantities import duration, size
from gpumon.cli.request import chosen_targets, settings_with, wanted_of
from gpumon.cli.stop_signal import LEAVE_S, Ending
from gpumon.fleet.replay.recorder import Recorder
from gpumon.model.fault import SourceError, fault
from gpumon.report.text import units
from gpumon.sources.address import Sampling
from gpumon.sources.open import open_sources
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.folder import MAX_BYTES, RETENTION_S, RecordingFolder, own_folder
from gpumon.sources.recording.write import RecordingWriter
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from gpumon.cli.request import WantedJobs
    from gpumon.model.records.tick import Tick
    from gpumon.sources.address import Target

OPEN_S: Final = 10.0
"""A file system that does not take the first bytes in this time is given up."""

CLOSE_S: Final = 10.0
"""How long the end waits for what is still to be written."""

STATUS_S: Final = 60.0
"""Time between two lines about how it goes."""


def parser() -> Parser:
    """What the command understands."""
    made = Parser(prog="gpumon record", description="Record targets without a terminal.")
    made.add_argument(
        "words",
        nargs="*",
        metavar="FILE [TARGET ...]",
        help="file (.zst: compressed), or with --keep or --max-size a folder; then what to record",
    )
    made.add_argument(
        "--for", dest="for_s", type=duration, metavar="TIME", help="stop after 90, 30m, 24h, 7d"
    )
    made.add_argument(
        "--period", type=period, metavar="SECONDS", help="time between two samples (default 1)"
    )
    made.add_argument("--append", action="store_true", help="continue a recording")
    made.add_argument("--force", action="store_true", help="replace a recording")
    made.add_argument(
        "--keep", type=duration, metavar="TIME", help="roll: keep the last 24h, 7d (default 24h)"
    )
    made.add_argument(
        "--max-size", type=size, metavar="SIZE", help="roll: keep at most 500M, 2G (default 2G)"
    )
    made.add_argument(
        "--rolling",
        action="store_true",
        help="roll in your state folder, where the terminal finds the past; takes no FILE",
    )
    made.add_argument("--job", metavar="ID", help="only nodes of this job")
    made.add_argument("--user", metavar="NAME", help="only nodes of this user's jobs")
    made.add_argument("--all", action="store_true", help="every job, not only yours")
    return made


def record(words: list[str]) -> int:
    """Exit code of the command."""
    made = parser()
    options = made.parse_intermixed_args(words)
    is_rolling = options.rolling or options.keep is not None or options.max_size is not None
    if not options.rolling and not options.words:
        made.error("record needs a FILE, or --rolling")
    if is_rolling and (options.append or options.force):
        made.error("a rolling recording takes neither --append nor --force")
    settings = settings_with(period_s=options.period, is_all=options.all)
    urls = options.words if options.rolling else options.words[1:]
    targets = chosen_targets(urls, settings) or default_targets()
    if any(target.scheme == "recording" for target in targets):
        narrate("a recording cannot be recorded again; copy the file")
        return USAGE
    if not targets:
        narrate(
            "no NVIDIA driver and no Slurm commands on this machine; try: gpumon record FILE demo"
        )
        return NOTHING_READ
    request = _Request(
        targets=tuple(targets),
        wanted=wanted_of(options.job, options.user, settings, targets),
        period_s=settings.number("period_s"),
        for_s=options.for_s,
        path=None if options.rolling else Path(options.words[0]),
        is_rolling=is_rolling,
        is_forced=options.force,
        is_appended=options.append,
        retention_s=RETENTION_S if options.keep is None else options.keep,
        max_bytes=MAX_BYTES if options.max_size is None else options.max_size,
    )
    try:
        sink = _begun(request)
    except RecordingError as error:
        narrate(str(error))
        return USAGE
    except TimeoutError:
        narrate(f"cannot record: {request.place}: its file system does not answer; name another")
        return NOTHING_READ
    except OSError as error:
        where = error.filename or request.place
        narrate(
            f"cannot record: {where}: {error.strerror}; name a place with room where you may write"
        )
        return NOTHING_READ
    except KeyboardInterrupt:
        return INTERRUPTED
    return _Run(request, sink).run()


class _Request(NamedTuple):
    """What is to be recorded, and where."""

    targets: tuple[Target, ...]
    wanted: WantedJobs
    period_s: float
    for_s: float | None
    """How long; None: until told to end."""
    path: Path | None
    """A file, or the folder of a rolling recording; None: the user's own folder."""
    is_rolling: bool
    is_forced: bool
    is_appended: bool
    retention_s: float
    max_bytes: int

    @property
    def urls(self) -> list[str]:
        """What is recorded, without secrets."""
        return [target.url for target in self.targets]

    @property
    def place(self) -> Path:
        """The file, or the folder of a rolling recording."""
        return self.path or own_folder(self.urls, socket.gethostname())


def _begun(request: _Request) -> RecordingWriter | RecordingFolder:
    """The recording, with its header on disk.

    Raises:
        RecordingError: There is one already, or something that is none.
        TimeoutError: The file system does not answer.
        OSError: It cannot be written.
    """
    outcome = Outcome(partial(_opened_sink, request), "recording")
    outcome.has_ended(OPEN_S)
    return outcome.get()


def _opened_sink(request: _Request) -> RecordingWriter | RecordingFolder:
    now = SystemClock().now()
    urls = request.urls
    if request.path is not None and not request.is_rolling:
        return RecordingWriter(
            request.path,
            now,
            request.period_s,
            urls,
            is_forced=request.is_forced,
            is_appended=request.is_appended,
        )
    return RecordingFolder(
        request.place, now, request.period_s, urls, request.retention_s, request.max_bytes
    )


class _Run:
    """One recording under way, and what it says of itself."""

    def __init__(self, request: _Request, sink: RecordingWriter | RecordingFolder) -> None:
        self._request = request
        self._sink = sink
        self._where = sink.folder if isinstance(sink, RecordingFolder) else sink.path
        self._ending = Ending(signal.SIGTERM, signal.SIGHUP)
        self._reported: set[SourceError] = set()
        self._status_at = 0.0
        self._trouble = ""
        self._ticks = 0
        self._lost = 0
        self._steady = BackgroundWriter(sink, lambda error: fault("recording", error).message)
        self._recorder = Recorder(self._steady, self._failed)

    def run(self) -> int:
        """Record until told to end; the exit code."""
        with self._ending:
            return self._record()

    def _record(self) -> int:
        from gpumon.fleet.sampler.sampler import Sampler

        clock = SystemClock()
        targets, period_s = self._request.targets, self._request.period_s
        sampling = Sampling(period_s, is_single=False, is_wanted=self._request.wanted.includes)
        sources = open_sources(targets, sampling, clock)
        sampler = Sampler(self._recorder.sources(sources), clock, period_s)
        narrate(f"recording {' '.join(target.url for target in targets)} into {self._where}")
        status = DONE
        try:
            sampler.start(self._take, lambda _failure: self._ending.end_wait())
            self._ending.wait(self._request.for_s)
        except KeyboardInterrupt:
            status = INTERRUPTED
        finally:
            sampler.close(LEAVE_S)
        if sampler.failure is not None:
            narrate_error(sampler.failure)
            status = NOTHING_READ
        return self._close() or status

    def _take(self, tick: Tick) -> None:
        self._recorder.end_tick(tick)
        self._ticks += 1
        for error in tick.errors:
            if error not in self._reported:
                self._reported.add(error)
                narrate_error(error)
        trouble = self._sink.trouble if isinstance(self._sink, RecordingFolder) else None
        pause = "" if trouble is None else f"recording pauses: {trouble.strerror}: {self._where}"
        if pause != self._trouble:
            self._trouble = pause
            narrate(pause or f"recording goes on in {self._where}")
        if self._steady.lost_ticks > self._lost == 0:
            narrate(f"{self._where} is too slow: ticks are being dropped")
        self._lost = self._steady.lost_ticks
        if tick.at - self._status_at >= STATUS_S or tick.at < self._status_at:
            self._status_at = tick.at
            self._print_status(tick)

    def _print_status(self, tick: Tick) -> None:
        failing = sum(not target.is_ok for target in tick.targets)
        ill = f"; {failing} of {len(tick.targets)} targets fail" if failing else ""
        fleet = f"{units.gpus(len(tick.gpus))}, {units.counted(len(tick.jobs), 'job')}"
        narrate(f"{self._summary()}; {fleet}{ill}")

    def _summary(self) -> str:
        lost = f", {units.counted(self._lost, 'tick')} dropped" if self._lost else ""
        ticks = units.counted(self._ticks, "tick")
        frames = units.counted(self._recorder.frame_count, "frame")
        size = f"{units.mib(self._steady.size_bytes, 1)} MiB"
        return f"{ticks}, {frames}, {size}{lost}"

    def _failed(self, error: OSError) -> SourceError:
        """A file that cannot be written any more: what it holds stays, recording ends."""
        self._ending.end_wait()
        return SourceError(str(self._where), f"recording ended: {error.strerror}")

    def _close(self) -> int:
        failure = self._recorder.failure
        if failure is not None:
            if isinstance(self._sink, RecordingWriter):
                self._sink.abandon()
            narrate_error(failure._replace(hint="everything up to the last flush can be read"))
            return NOTHING_READ
        try:
            if not self._steady.close(CLOSE_S):
                narrate(f"{self._where}: the end was not written: the file system does not answer")
                return NOTHING_READ
        except OSError as error:
            narrate(f"{self._where}: the end was not written: {error.strerror}")
            return NOTHING_READ
        narrate(f"recorded {self._summary()} in {self._where}")
        return DONE
