"""The main command: the terminal, one document, a stream of documents, or a table."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from gpumon.cli.exits import (
    INTERRUPTED,
    NOTHING_READ,
    USAGE,
    check_status,
    is_anything_read,
    narrate,
    narrate_error,
    plain_status,
)
from gpumon.cli.filtering import ONLY_GPUS, is_refused, passing
from gpumon.cli.options import DEFAULT_LOOK_S, job_filter, parser
from gpumon.cli.settled import chosen_targets, judge_of, past_of, settled
from gpumon.sources import early
from gpumon.sources.address import Look, Target, TargetError
from gpumon.sources.open import open_source
from gpumon.sources.source import SystemClock, Wish

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from gpumon.fleet.sampler import Sampler
    from gpumon.model.cluster import JobView
    from gpumon.model.settings import Settings
    from gpumon.model.tick import Tick
    from gpumon.sources.source import Clock

PING_LIMIT_S: Final = 3.0
"""A controller that has not answered by then is taken for configured and silent."""

RENEW_S: Final = 60.0
"""A stream asks again for the jobs that have ended when the answer is that old."""


def watch(words: list[str]) -> int:
    """Exit code of the main command."""
    options = parser().parse_args(words)
    if options.steps and options.job is None:
        narrate("--steps is about one job: name it with --job ID")
        return USAGE
    if is_refused(options):
        narrate(ONLY_GPUS)
        return USAGE
    settings = settled(options)
    try:
        targets = chosen_targets(options.targets, settings) or default_targets()
    except TargetError as error:
        narrate(str(error))
        return USAGE
    if not targets:
        narrate("no NVIDIA driver and no Slurm commands on this machine; try: gpumon demo")
        return NOTHING_READ
    is_terminal = sys.stdout.isatty() and not (options.json or options.once or options.watch_s)
    if options.past_s is not None and not (is_terminal and _is_demo(targets)):
        narrate("--past invents a past for the demo's terminal; elsewhere it is what was recorded")
        return USAGE
    if any(target.scheme == "recording" for target in targets):
        return _replay(options, targets)
    if options.watch_s is not None:
        return _stream(options, settings, targets)
    if options.json or options.once or not sys.stdout.isatty():
        return _look(options, settings, targets)
    return _terminal(options, settings, targets)


def _replay(options: argparse.Namespace, targets: list[Target]) -> int:
    """A recording has a time of its own, so nothing else is shown beside it."""
    if len(targets) > 1:
        narrate(f"{targets[0].url} cannot be watched beside a recording; name one of them")
        return USAGE
    from gpumon.cli.replay import replay

    words = ["--json"] * options.json + ["--once"] * options.once + ["--ascii"] * options.ascii
    words += ["--exit-status"] * options.exit_status
    if options.passes is not None:
        words.append(f"--filter={options.passes.text}")
    if options.watch_s is not None:
        words += ["--watch", str(options.watch_s)]
    return replay([*words, "--", targets[0].path])


def default_targets() -> list[Target]:
    """Slurm where its commands know a cluster, this machine where the driver's library is."""
    import shutil

    found = []
    if shutil.which("scontrol"):
        from gpumon.sources.slurm.commands import SlurmCommands

        if SlurmCommands(timeout_s=PING_LIMIT_S).is_configured():
            found.append(Target("slurm", "slurm"))
    if _has_driver():
        found.append(Target("local", "local"))
    return found


def _has_driver() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _sampler(
    options: argparse.Namespace,
    settings: Settings,
    targets: list[Target],
    period_s: float,
    *,
    is_single: bool,
    clock: Clock | None = None,
) -> Sampler:
    clock = clock or SystemClock()
    # The demo's users are invented: none of its jobs is the caller's own.
    everyone = options.all or _is_demo(targets)
    options.all = everyone
    look = Look(
        period_s,
        is_single,
        job_filter(options),
        not options.no_gpm,
        options.tiers,
        user=options.user or "",
        everyone=everyone or (options.user is None and os.getuid() == 0),
        past_s=options.past_s or 0.0,
    )
    sources = [open_source(target, look, clock) for target in targets]
    arrived = threading.Event()
    for source in sources:
        source.start(arrived.set)
        if options.since is not None:
            source.wish(Wish(ended_since=options.since.seen_from(clock.now())))
        if options.steps:
            source.wish(Wish(use_of=options.job))
    if all(target.scheme != "local" for target in targets):
        # Where one is, its thread may still be on its way to the child.
        early.end()
    # The probes come up while the rest is imported.
    from gpumon.fleet.pace import JUDGE_S
    from gpumon.fleet.sampler import Sampler

    if is_single:
        return Sampler(sources, clock, period_s, arrived=arrived)
    from gpumon.cli.books import books_of
    from gpumon.cli.recorded_past import recorded

    is_shown = sys.stdout.isatty() and not (options.json or options.once)
    keeps = options.watch_s is not None or is_shown
    books = books_of(settings, is_real=keeps and not _is_demo(targets))
    past = past_of(settings)
    if keeps and not _is_demo(targets):
        past = recorded(past, [target.url for target in targets])
    is_noted = is_shown and options.watch_s is None and not _is_demo(targets)
    judge = judge_of(settings, is_noted=is_noted)
    return Sampler(sources, clock, period_s, past, judge, arrived, books, JUDGE_S)


def _is_demo(targets: list[Target]) -> bool:
    return all(target.scheme == "demo" for target in targets)


def _keeps(options: argparse.Namespace) -> Callable[[JobView], bool]:
    wanted = job_filter(options)
    return lambda view: wanted(view.job)


def _look(options: argparse.Namespace, settings: Settings, targets: list[Target]) -> int:
    """One answer: JSON or a table."""
    look_s = DEFAULT_LOOK_S if options.look_s is None else options.look_s
    # Half of a short look is its beat, so that a rate has the two samples it needs.
    period_s = min(1.0, max(0.25, look_s / 2))
    sampler = _sampler(options, settings, targets, period_s, is_single=look_s == 0)
    try:
        if options.json:
            # While the probes come up there is time to import what writes their answer.
            import gpumon.report.document  # noqa: F401
        tick = sampler.look(look_s)
    finally:
        sampler.close()
    if not is_anything_read(tick):
        for error in tick.errors:
            narrate_error(error)
    _print(options, tick)
    return check_status(tick) if options.exit_status else plain_status(tick)


def _print(options: argparse.Namespace, tick: Tick) -> None:
    if not options.json:
        import shutil

        from gpumon.cli.show import shown
        from gpumon.report.table import table

        width = shutil.get_terminal_size((120, 40)).columns
        sys.stdout.write(shown(table(tick, width, options.passes), options))
        return
    from gpumon.report.document import document

    keeps = passing(options, tick, _keeps(options))
    _write(document(tick, keeps), is_pretty=sys.stdout.isatty())


def _write(data: dict[str, Any], *, is_pretty: bool) -> None:
    separators = None if is_pretty else (",", ":")
    text = json.dumps(data, indent=2 if is_pretty else None, separators=separators, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _stream(options: argparse.Namespace, settings: Settings, targets: list[Target]) -> int:
    """One document a period until interrupted, or until nobody reads any more."""
    import gc
    import signal

    from gpumon.base.footprint import footprint
    from gpumon.cli.ending import Ending
    from gpumon.report.document import document

    ending = Ending(signal.SIGTERM)
    keeps = _keeps(options)

    def emit(tick: Tick) -> None:
        if options.since is not None and (tick.ended is None or tick.at - tick.ended.at > RENEW_S):
            sampler.wish(Wish(ended_since=options.since.seen_from(tick.at)))
        if options.steps and (use := tick.running_use) and tick.at - use.at > RENEW_S:
            sampler.wish(Wish(use_of=options.job))
        try:
            passes = passing(options, tick, keeps)
            _write(document(tick, passes, footprint()), is_pretty=False)
        except BrokenPipeError:
            ending.tell()

    # Ticks are free of cycles: walking thousands of GPUs would only make them late.
    gc.set_threshold(50_000, 20, 50)
    sampler = _sampler(options, settings, targets, options.watch_s, is_single=False)
    with ending:
        sampler.start(emit, lambda _failure: ending.tell())
        try:
            ending.wait()
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            sampler.close()
    if sampler.failure is not None:
        narrate_error(sampler.failure)
        return NOTHING_READ
    return 0


def _terminal(options: argparse.Namespace, settings: Settings, targets: list[Target]) -> int:
    from gpumon.cli.show import show

    title = " ".join(target.url for target in targets)
    if options.past_s is None:
        sampler = _sampler(options, settings, targets, options.period, is_single=False)
        return show(sampler, title, options, settings)
    from gpumon.fleet.catch_up import CatchUpClock, CatchUpFeed, stride_s

    clock = CatchUpClock(options.past_s)
    stride = stride_s(options.past_s, options.period)
    sampler = _sampler(options, settings, targets, stride, is_single=False, clock=clock)
    return show(CatchUpFeed(sampler, clock, options.period), title, options, settings)
