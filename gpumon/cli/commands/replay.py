"""`gpumon replay`: a recording in the terminal, or as documents of what was."""

from __future__ import annotations

import threading
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpumon.base.errors import InputError, UnavailableError
from gpumon.cli.exits import (
    DONE,
    INTERRUPTED,
    NOTHING_READ,
    UNKNOWN_STATUS,
    check_status,
    narrate,
    narrate_error,
    plain_status,
)
from gpumon.cli.filtering import narrowed, passing, passing_gpus, why_refused
from gpumon.cli.opening import opened
from gpumon.cli.options import Parser, add_ascii, add_filter, add_whose, period
from gpumon.cli.output import Documents, is_ascii_only, is_dumb, is_tty, write, write_json
from gpumon.cli.quantities import instant, placed, speed
from gpumon.cli.request import WantedJobs, judge_of, past_of, settings_with
from gpumon.cli.show import show, shown
from gpumon.sources.recording.source import Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.sampler.protocols import Detection
    from gpumon.model.records.tick import Tick
    from gpumon.model.settings import Settings
    from gpumon.report.document.forms import Document
    from gpumon.report.lists.filter_tables import RowFilter


def parser() -> Parser:
    """What the command understands."""
    made = Parser(prog="gpumon replay", description="Show what was recorded.")
    made.add_argument("file", metavar="FILE", help="a recording, or the folder of a rolling one")
    made.add_argument("--json", action="store_true", help="the last instant as one JSON document")
    made.add_argument("--once", action="store_true", help="the last instant as a plain text table")
    made.add_argument(
        "--speed",
        type=speed,
        metavar="TIMES",
        help="recorded seconds per real one, or max; with --json NDJSON, one document per tick",
    )
    made.add_argument(
        "--watch",
        dest="watch_s",
        type=period,
        metavar="SECONDS",
        help="NDJSON, one document per recorded period",
    )
    made.add_argument("--from", dest="begin", type=instant, metavar="TIME", help="begin there")
    made.add_argument("--at", type=instant, metavar="TIME", help="only this instant")
    add_whose(made)
    add_filter(made)
    add_ascii(made)
    made.add_argument("--no-detectors", action="store_true", help="run no detectors")
    made.add_argument(
        "--exit-status", action="store_true", help="exit with 0/1/2/3 as monitoring checks expect"
    )
    return made


def replay(words: list[str]) -> int:
    """Exit code of the command.

    Raises:
        InputError: The filter is one that a stream cannot apply.
        UnavailableError: The recording cannot be read.
    """
    options = parser().parse_args(words)
    is_stream = options.watch_s is not None or (options.json and options.speed is not None)
    if (options.json or is_stream) and (why := why_refused(options.passes)):
        raise InputError(why)
    # A recording has its own period and its own jobs.
    settings = settings_with()
    is_at_once = is_stream or options.json or options.once or not is_tty() or is_dumb()
    path = Path(options.file)
    try:
        recording = Recording(path) if is_at_once else opened(path)
    except OSError as error:
        raise UnavailableError(f"{options.file}: {error.strerror}") from None
    except KeyboardInterrupt:
        return INTERRUPTED
    if recording is None:
        return DONE
    span = recording.span
    request = _Request(
        settings=settings,
        is_json=options.json,
        begin=None if options.begin is None else placed(options.begin, span),
        at=None if options.at is None else placed(options.at, span),
        watch_s=options.watch_s or 0.0,
        speed=options.speed,
        wanted=WantedJobs(options.job, options.user, is_everyone=True, own=""),
        passes=options.passes,
        is_ascii=options.ascii or is_ascii_only(),
        is_judged=not options.no_detectors,
        is_check=options.exit_status,
    )
    if is_stream:
        return _stream(request, recording)
    if is_at_once:
        return _instant(request, recording)
    return _terminal(request, recording)


class _Request(NamedTuple):
    """What is asked of a recording."""

    settings: Settings
    is_json: bool
    begin: float | None
    """Unix time where it is to begin; None: where the recording does."""
    at: float | None
    """Unix time of the one instant that is asked for; None: not only one."""
    watch_s: float
    """Recorded seconds between two documents at least."""
    speed: float | None
    """Recorded seconds per real one; None: as usual there."""
    wanted: WantedJobs
    """The job or the user that was named; whose nobody named are everyone's."""
    passes: RowFilter | None
    is_ascii: bool
    is_judged: bool
    is_check: bool
    """Whether the exit code answers a monitoring check."""

    def judge(self) -> Callable[[], Detection] | None:
        """Makes what judges the pictures, where anything is to."""
        return judge_of(self.settings) if self.is_judged else None


def _instant(request: _Request, recording: Recording) -> int:
    """One answer: what was known then, with findings that know the hour before."""
    from gpumon.fleet.replay.feed import SPAN_BEFORE_S, play

    at = recording.span.end if request.at is None else request.at
    if at < recording.span.start:
        narrate(f"{recording.path} begins later, at {recording.span.start:.0f}")
        return NOTHING_READ
    ticks: list[Tick] = []
    failure = play(
        recording,
        ticks.append,
        past_of(request.settings),
        request.judge(),
        since=at - SPAN_BEFORE_S,
        until=at,
        is_wanted=lambda _at, is_last: is_last,
    )
    if failure is not None:
        narrate_error(failure)
        return NOTHING_READ
    if not ticks:
        narrate(f"{recording.path} has no ticks")
        return NOTHING_READ
    tick = ticks[-1]
    for error in tick.errors:
        if error.where.startswith(str(recording.path)):
            narrate_error(error)
    lacks_job = request.wanted.lacks_job(tick)
    if lacks_job:
        narrate(f"no job {request.wanted.job} in {recording.path} at {tick.at:.0f}")
    if request.is_json:
        write_json(_document(request, tick), is_pretty=is_tty())
    elif not lacks_job:
        import shutil

        from gpumon.report.lists.once import table

        width = shutil.get_terminal_size((120, 40)).columns
        wanted = request.wanted.includes if request.wanted.is_named else None
        text = table(tick, width, request.passes, wanted, request.wanted.user)
        write(shown(text, is_ascii=request.is_ascii))
    if lacks_job:
        return UNKNOWN_STATUS if request.is_check else NOTHING_READ
    return check_status(tick) if request.is_check else plain_status(tick)


def _stream(request: _Request, recording: Recording) -> int:
    """NDJSON, on the recorded clock."""
    from gpumon.fleet.replay.feed import play

    ended = threading.Event()
    watch_s = request.watch_s
    due_at = -inf

    def emit(tick: Tick) -> None:
        nonlocal due_at
        due_at = tick.at + watch_s
        documents.write(_document(request, tick))

    try:
        with Documents(ended.set) as documents:
            failure = play(
                recording,
                emit,
                past_of(request.settings),
                request.judge(),
                since=request.begin,
                until=inf if request.at is None else request.at,
                is_wanted=lambda at, _is_last: at >= due_at and at >= (request.begin or -inf),
                speed=request.speed or inf,
                ended=ended,
            )
            # It has ended by itself, so a slow reader gets the last line as well.
            documents.end(None)
    except KeyboardInterrupt:
        return INTERRUPTED
    if failure is not None:
        narrate_error(failure)
        return NOTHING_READ
    return DONE


def _terminal(request: _Request, recording: Recording) -> int:
    from gpumon.fleet.replay.replay import ReplayFeed

    begin = request.begin if request.at is None else request.at
    feed = ReplayFeed(
        recording, past_of(request.settings), request.judge(), request.speed or 1.0, begin
    )
    if request.at is not None:
        feed.pause()
    title = f"replay {recording.path.name}"
    passes = narrowed(request.passes, job=request.wanted.job, user=request.wanted.user)
    return show(feed, title, request.settings, passes, is_ascii=request.is_ascii)


def _document(request: _Request, tick: Tick) -> Document:
    """A picture as a document of the jobs that pass the filter."""
    from gpumon.report.document.document import document

    passes = passing(request.passes, tick, lambda view: request.wanted.includes(view.job))
    return document(
        tick,
        passes,
        passes_gpu=passing_gpus(request.passes),
        user=request.wanted.user,
        has_bounds=request.wanted.job is not None,
    )
