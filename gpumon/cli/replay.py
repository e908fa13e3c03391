"""`gpumon replay`: a recording in the terminal, or as documents of what was."""

from __future__ import annotations

import json
import sys
import threading
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.cli.exits import (
    DONE,
    INTERRUPTED,
    NOTHING_READ,
    USAGE,
    check_status,
    narrate,
    narrate_error,
    plain_status,
)
from gpumon.cli.filtering import ONLY_GPUS, is_refused, passing
from gpumon.cli.options import Parser, add_ascii, add_filter, period
from gpumon.cli.quantities import instant, placed, speed
from gpumon.cli.settled import judge_of, past_of, settled
from gpumon.cli.show import show, shown
from gpumon.sources.recording import Recording
from gpumon.sources.recording_decode import RecordingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from gpumon.fleet.partners import Detection
    from gpumon.model.settings import Settings
    from gpumon.model.tick import Tick


def _parser() -> Parser:
    made = Parser(prog="gpumon replay", description="Show what was recorded.")
    made.add_argument("file", metavar="FILE", help="a recording, or the folder of a rolling one")
    made.add_argument("--json", action="store_true", help="the last instant as one JSON document")
    made.add_argument("--once", action="store_true", help="the last instant as a plain text table")
    made.add_argument(
        "--speed",
        type=speed,
        metavar="TIMES",
        help="recorded seconds per real one, or max; with --json NDJSON, a document a picture",
    )
    made.add_argument(
        "--watch",
        dest="watch_s",
        type=period,
        metavar="SECONDS",
        help="NDJSON, one document a recorded period",
    )
    made.add_argument("--from", dest="begin", type=instant, metavar="TIME", help="begin there")
    made.add_argument("--at", type=instant, metavar="TIME", help="only this instant")
    add_filter(made)
    add_ascii(made)
    made.add_argument("--no-detectors", action="store_true", help="judge nothing")
    made.add_argument(
        "--exit-status", action="store_true", help="leave with 0/1/2/3 as monitoring checks expect"
    )
    return made


def replay(words: list[str]) -> int:
    """Exit code of the command."""
    options = _parser().parse_args(words)
    if is_refused(options):
        narrate(ONLY_GPUS)
        return USAGE
    settings = settled(options, is_live=False)
    try:
        recording = Recording(Path(options.file))
        if options.at is not None:
            options.at = placed(options.at, recording.span)
        if options.begin is not None:
            options.begin = placed(options.begin, recording.span)
    except RecordingError as error:
        narrate(str(error))
        return NOTHING_READ
    except OSError as error:
        narrate(f"{options.file}: {error.strerror}")
        return NOTHING_READ
    is_stream = options.watch_s is not None or (options.json and options.speed is not None)
    if is_stream:
        return _stream(options, settings, recording)
    if options.json or options.once or not sys.stdout.isatty():
        return _instant(options, settings, recording)
    return _terminal(options, settings, recording)


def _instant(options: argparse.Namespace, settings: Settings, recording: Recording) -> int:
    """One answer: what was known then, with findings that know the hour before."""
    from gpumon.fleet.playing import LOOK_BACK_S, play

    at = recording.span.end if options.at is None else options.at
    if at < recording.span.start:
        narrate(f"{options.file} begins later, at {recording.span.start:.0f}")
        return NOTHING_READ
    ticks: list[Tick] = []
    failure = play(
        recording,
        ticks.append,
        past_of(settings),
        _judge(options, settings),
        since=at - LOOK_BACK_S,
        until=at,
        is_wanted=lambda _at, is_last: is_last,
    )
    if failure is not None:
        narrate_error(failure)
        return NOTHING_READ
    if not ticks:
        narrate(f"{options.file} holds no picture")
        return NOTHING_READ
    tick = ticks[-1]
    for error in tick.errors:
        if error.where.startswith(str(recording.path)):
            narrate_error(error)
    if options.json:
        _write(options, tick, is_pretty=sys.stdout.isatty())
    else:
        import shutil

        from gpumon.report.table import table

        width = shutil.get_terminal_size((120, 40)).columns
        sys.stdout.write(shown(table(tick, width, options.passes), options))
    return check_status(tick) if options.exit_status else plain_status(tick)


def _stream(options: argparse.Namespace, settings: Settings, recording: Recording) -> int:
    """NDJSON, on the recorded clock."""
    from gpumon.fleet.playing import play

    ended = threading.Event()
    watch_s = options.watch_s or 0.0
    due_at = -inf

    def emit(tick: Tick) -> None:
        nonlocal due_at
        due_at = tick.at + watch_s
        try:
            _write(options, tick, is_pretty=False)
        except BrokenPipeError:
            ended.set()

    try:
        failure = play(
            recording,
            emit,
            past_of(settings),
            _judge(options, settings),
            since=options.begin,
            until=inf if options.at is None else options.at,
            is_wanted=lambda at, _is_last: at >= due_at and at >= (options.begin or -inf),
            speed=options.speed or inf,
            ended=ended,
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    if failure is not None:
        narrate_error(failure)
        return NOTHING_READ
    return DONE


def _terminal(options: argparse.Namespace, settings: Settings, recording: Recording) -> int:
    from gpumon.fleet.replay import ReplayFeed

    begin = options.begin if options.at is None else options.at
    feed = ReplayFeed(
        recording, past_of(settings), _judge(options, settings), options.speed or 1.0, begin
    )
    if options.at is not None:
        feed.pause()
    return show(feed, f"replay {recording.path.name}", options, settings)


def _judge(options: argparse.Namespace, settings: Settings) -> Callable[[], Detection] | None:
    return None if options.no_detectors else judge_of(settings)


def _write(options: argparse.Namespace, tick: Tick, *, is_pretty: bool) -> None:
    from gpumon.report.document import document

    made = document(tick, passing(options, tick))
    separators = None if is_pretty else (",", ":")
    text = json.dumps(made, indent=2 if is_pretty else None, separators=separators, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
