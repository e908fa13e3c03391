"""The main command: the terminal, one document, a stream of documents, or a table."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import InputError, UnavailableError
from gpumon.cli.exits import (
    INTERRUPTED,
    NOTHING_READ,
    UNKNOWN_STATUS,
    check_status,
    is_anything_read,
    narrate,
    narrate_error,
    plain_status,
)
from gpumon.cli.filtering import narrowed, passing, passing_gpus, why_refused
from gpumon.cli.options import parser, request_of
from gpumon.cli.output import Documents, is_tty, write, write_json
from gpumon.cli.request import chosen_targets, is_demo, judge_of, past_of, settings_with
from gpumon.fleet.sampler.late import LateSampler
from gpumon.model.fault import SourceError
from gpumon.model.text import plain
from gpumon.sources.address import Sampling, Target
from gpumon.sources.open import open_sources
from gpumon.sources.probes import early
from gpumon.sources.probes.program import start_options
from gpumon.sources.source import SystemClock, Wish, steady_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.base.footprint import Footprint
    from gpumon.cli.request import Request
    from gpumon.fleet.replay.catch_up import CatchUpClock, CatchUpFeed
    from gpumon.fleet.sampler.sampler import Sampler
    from gpumon.model.records.tick import Tick
    from gpumon.report.document.forms import Document
    from gpumon.sources.source import Clock, Source
    from gpumon.tui.beside import Beside
    from gpumon.tui.feed import Feed

PING_LIMIT_S: Final = 3.0
"""A controller that has not answered by then is taken for configured and silent."""

RENEW_S: Final = 60.0
"""A stream asks again for the jobs that have ended when the answer is that old."""


def watch(words: list[str]) -> int:
    """Exit code of the main command.

    Raises:
        InputError: Options that do not go together.
        UnavailableError: Nothing is here that could be watched.
    """
    options = parser().parse_args(words)
    if options.steps and options.job is None:
        raise InputError("--steps shows one job: name it with --job ID")
    if (options.json or options.watch_s is not None) and (why := why_refused(options.passes)):
        raise InputError(why)
    settings = settings_with(period_s=options.period, is_all=options.all)
    targets = chosen_targets(options.targets, settings) or default_targets()
    if not targets:
        raise UnavailableError(
            "no NVIDIA driver and no Slurm commands on this machine; try: gpumon demo"
        )
    request = request_of(options, settings, targets, is_to_tty=is_tty())
    if options.past_s and not is_demo(targets):
        raise InputError(
            "--past invents a past, for a demo only; elsewhere the past is what was recorded"
        )
    if options.past_s and options.watch_s is not None:
        raise InputError(
            "--past works in the terminal and with one answer, not with --watch, which begins now"
        )
    if any(target.scheme == "recording" for target in targets):
        return _replay(request, is_once=options.once)
    if request.watch_s is not None:
        return _stream(request, request.watch_s)
    return _terminal(request) if request.is_terminal else _once(request)


def _replay(request: Request, *, is_once: bool) -> int:
    """A recording has a time of its own, so nothing else is shown beside it."""
    first, *others = request.targets
    if others:
        raise InputError(f"{first.url} cannot be watched beside a recording; name one of them")
    from gpumon.cli.commands.replay import replay

    words = ["--json"] * request.is_json + ["--once"] * is_once + ["--ascii"] * request.is_ascii
    words += ["--exit-status"] * request.is_check
    if request.passes is not None:
        words.append(f"--filter={request.passes.text}")
    if request.watch_s is not None:
        words += ["--watch", str(request.watch_s)]
    if request.wanted.job is not None:
        words.append(f"--job={request.wanted.job}")
    if request.wanted.user is not None:
        words.append(f"--user={request.wanted.user}")
    return replay([*words, "--", first.path])


def default_targets() -> list[Target]:
    """Slurm where its commands know a cluster, this machine where the driver's library is."""
    import shutil

    found = []
    if shutil.which("scontrol"):
        from gpumon.sources.slurm.commands.commands import SlurmCommands

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


class Opened(NamedTuple):
    """Sources that run."""

    sources: list[Source]
    clock: Clock
    arrived: threading.Event
    """Set when one has a frame."""

    def close(self) -> None:
        """End them."""
        for source in self.sources:
            source.close()


def _opened(
    request: Request,
    period_s: float,
    *,
    is_single: bool = False,
    catch_up: CatchUpClock | None = None,
) -> Opened:
    """The sources of all targets, begun."""
    clock: Clock = SystemClock() if catch_up is None else catch_up
    sampling = _sampling_of(request, period_s, is_single, catch_up)
    _begin_early(request, sampling)
    sources = open_sources(request.targets, sampling, clock)
    arrived = threading.Event()
    for source in sources:
        source.start(arrived.set)
        if catch_up is None:
            for wish in _wishes(request, clock.now()):
                source.wish(wish)
    if all(target.scheme != "local" for target in request.targets):
        # Where one is, its thread may still be on its way to the child.
        early.end()
    return Opened(sources, clock, arrived)


def _sampling_of(
    request: Request, period_s: float, is_single: bool, catch_up: CatchUpClock | None = None
) -> Sampling:
    wanted = request.wanted
    return Sampling(
        period_s=period_s,
        is_single=is_single,
        is_wanted=wanted.includes,
        has_gpm=request.has_gpm,
        tiers=request.tiers,
        user=wanted.user or "",
        everyone=wanted.is_everyone,
        past_s=0.0 if catch_up is None else catch_up.behind_s,
    )


def _begin_early(request: Request, sampling: Sampling) -> None:
    """Have the probe that waits read this machine's driver while the rest is imported."""
    if any(target.scheme == "local" for target in request.targets):
        early.prepare(
            start_options(sampling.probe_options, sampling.period_s, once=sampling.is_single)
        )


def _sampler(
    request: Request,
    period_s: float,
    *,
    is_single: bool = False,
    catch_up: CatchUpClock | None = None,
    opened: Opened | None = None,
) -> Sampler:
    """What makes pictures of the sources, which are opened here unless they are `opened`."""
    opened = opened or _opened(request, period_s, is_single=is_single, catch_up=catch_up)
    sources, clock, arrived = opened
    # The probes come up while the rest is imported.
    from gpumon.fleet.sampler.sampler import Sampler

    if is_single:
        return Sampler(sources, clock, period_s, arrived=arrived)
    from gpumon.cli.configured_ledger import ledger_of
    from gpumon.cli.recorded_past import filled_by_sources, recorded
    from gpumon.fleet.sampler.need import Need
    from gpumon.fleet.sampler.pace import JUDGE_S

    targets, is_invented = request.targets, is_demo(request.targets)
    is_lasting = request.watch_s is not None or request.is_terminal
    open_ledger = ledger_of(request.settings, is_real=is_lasting and not is_invented)
    begun = past_of(request.settings)
    if is_lasting and not is_invented:
        begun = recorded(begun, [target.url for target in targets])
    past = filled_by_sources(begun, sources, targets)
    judge = judge_of(request.settings, is_noted=request.is_terminal and not is_invented)
    steady, need = (steady_s, Need()) if catch_up is None else (None, None)
    if catch_up is not None:
        from gpumon.fleet.replay.catch_up import lagging

        judge = lagging(judge, catch_up)
    return Sampler(
        sources, clock, period_s, past, judge, arrived, open_ledger, JUDGE_S, steady, need
    )


def _late_sampler(request: Request) -> LateSampler:
    """The sampler of a terminal, which is imported once the first picture is out.

    Who answers from afar is asked at once, and this machine's probe begins to read.
    """
    period_s = request.period_s
    is_far = any(target.kind.is_far for target in request.targets)
    opened = _opened(request, period_s) if is_far else None
    if opened is None:
        _begin_early(request, _sampling_of(request, period_s, is_single=False))
    give_up = early.end if opened is None else opened.close
    return LateSampler(lambda: _sampler(request, period_s, opened=opened), give_up)


def _wishes(request: Request, now: float) -> Iterator[Wish]:
    """What is asked of the accounting, by a time."""
    if request.since is not None:
        yield Wish(ended_since=request.since.seen_from(now))
    if request.steps_of is not None:
        yield Wish(use_of=request.steps_of)


def _feed_with_past(request: Request, past_s: float) -> tuple[CatchUpFeed, Sampler]:
    """A feed that lives through so much before it is live, and its sampler."""
    from gpumon.fleet.replay.catch_up import CatchUpClock, CatchUpFeed, strides_of

    clock = CatchUpClock(past_s)
    stride_s = strides_of(request.period_s).at(clock.behind_s)
    sampler = _sampler(request, stride_s, catch_up=clock)
    feed = CatchUpFeed(sampler, clock, request.period_s)
    for wish in _wishes(request, SystemClock().now()):
        feed.wish(wish)
    return feed, sampler


def _document(request: Request, tick: Tick, cost: Footprint | None = None) -> Document:
    """A picture as a document of the jobs, or of the user, that are wanted."""
    from gpumon.report.document.document import document

    passes = passing(request.passes, tick, lambda view: request.wanted.includes(view.job))
    return document(
        tick,
        passes,
        cost,
        passing_gpus(request.passes),
        request.wanted.user,
        has_bounds=request.wanted.job is not None,
    )


def _seen(request: Request) -> Tick:
    """The picture that a short look ends with."""
    # Half of a short look is its beat, so that a rate has the two samples it needs.
    period_s = min(1.0, max(0.25, request.for_s / 2))
    sampler = _sampler(request, period_s, is_single=request.for_s == 0)
    try:
        if request.is_json:
            # While the probes come up there is time to import what writes their answer.
            import gpumon.report.document.document  # noqa: F401
        return sampler.sample_for(request.for_s)
    finally:
        sampler.close()


def _lived(request: Request, past_s: float) -> Tick | None:
    """The picture that a past ends with; None: there is none, and it was said why."""
    from gpumon.report.text.units import short_duration

    if sys.stderr.isatty():
        narrate(f"simulating the demo's last {short_duration(past_s)} …")
    feed, _ = _feed_with_past(request, past_s)
    try:
        tick = feed.lived_through()
    finally:
        feed.close()
    if tick is None and feed.failure is not None:
        narrate_error(feed.failure)
    return tick


def _once(request: Request) -> int:
    """One answer: JSON or a table."""
    tick = _seen(request) if request.past_s is None else _lived(request, request.past_s)
    if tick is None:
        return UNKNOWN_STATUS if request.is_check else NOTHING_READ
    if not is_anything_read(tick):
        for error in tick.errors or [_nothing_to_watch(request, tick)]:
            narrate_error(error)
    lacks_job = _lacks_job(request, tick)
    _narrate_unknown_user(request, tick)
    if request.is_json or not lacks_job:
        _print(request, tick)
    if lacks_job:
        return UNKNOWN_STATUS if request.is_check else NOTHING_READ
    return check_status(tick) if request.is_check else plain_status(tick)


def _nothing_to_watch(request: Request, tick: Tick) -> SourceError:
    """What is said of an answer without an error that has only hosts."""
    where = " ".join(target.url for target in request.targets)
    hosts = next(iter(tick.nodes)) if len(tick.nodes) == 1 else f"{len(tick.nodes)} hosts"
    message = f"answers of {hosts}, but of no GPU and no queue"
    return SourceError(plain(where), plain(message), "name a target that has them as well")


def _lacks_job(request: Request, tick: Tick) -> bool:
    """Whether the one job that was asked for is not there, though the queue answered; says so."""
    if not request.wanted.lacks_job(tick):
        return False
    job = request.wanted.job
    where = " ".join(target.url for target in request.targets)
    if tick.ended is None:
        narrate(f"no job {job} in the queue of {where}; if it has ended, add --since 7d")
    else:
        narrate(f"no job {job} in the queue of {where}, nor among those that have ended")
    return True


def _narrate_unknown_user(request: Request, tick: Tick) -> None:
    """Say so where no queue is asked and the user that was has no process on a GPU."""
    user = request.wanted.user
    if user is None or tick.queue_at is not None or not tick.gpus:
        return
    if any(one.is_of(user) for gpu in tick.gpus.values() for one in gpu.processes):
        return
    where = " ".join(target.url for target in request.targets)
    narrate(f"no process of {plain(user)} on the GPUs of {where}; a number is taken as a uid")


def _print(request: Request, tick: Tick) -> None:
    if not request.is_json:
        import shutil

        from gpumon.cli.show import shown
        from gpumon.report.lists.once import table

        width = shutil.get_terminal_size((120, 40)).columns
        wanted = request.wanted.includes if request.wanted.is_named else None
        text = table(tick, width, request.passes, wanted, request.wanted.user)
        write(shown(text, is_ascii=request.is_ascii))
        return
    write_json(_document(request, tick), is_pretty=request.is_to_tty)


def _stream(request: Request, period_s: float) -> int:
    """One document a period until interrupted, or until nobody reads any more."""
    import signal

    from gpumon.base.footprint import footprint
    from gpumon.cli.stop_signal import Ending

    ending = Ending(signal.SIGTERM)
    since, steps_of = request.since, request.steps_of

    def emit(tick: Tick) -> None:
        if since is not None and (tick.ended is None or tick.at - tick.ended.at > RENEW_S):
            sampler.wish(Wish(ended_since=since.seen_from(tick.at)))
        if steps_of and (use := tick.running_use) and tick.at - use.at > RENEW_S:
            sampler.wish(Wish(use_of=steps_of))
        documents.write(_document(request, tick, footprint()))

    sampler = _sampler(request, period_s)
    with ending, Documents(ending.end_wait) as documents:
        sampler.start(emit, lambda _failure: ending.end_wait())
        try:
            ending.wait()
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            documents.end()
            sampler.close()
            _narrate_unwritten(sampler)
    if sampler.failure is not None:
        narrate_error(sampler.failure)
        return NOTHING_READ
    return 0


def _narrate_unwritten(sampler: Sampler | LateSampler) -> None:
    """Say of books that were lost at the end what no picture could say any more."""
    if sampler.unwritten is not None:
        narrate_error(sampler.unwritten)


def _terminal(request: Request) -> int:
    if all(target.scheme == "local" for target in request.targets):
        # Nothing will be asked over a network: no target comes while it runs.
        from gpumon.base.loop_tls import import_asyncio_without_tls

        import_asyncio_without_tls()
    from gpumon.cli.show import show

    title = " ".join(target.url for target in request.targets)
    feed: Feed
    sampler: Sampler | LateSampler
    if request.past_s is None:
        feed = sampler = _late_sampler(request)
    else:
        feed, sampler = _feed_with_past(request, request.past_s)
    passes = request.passes
    if not any(target.kind.has_queue for target in request.targets):
        # Where a queue is asked, only that user's jobs are.
        passes = narrowed(passes, user=request.wanted.user)
    code = show(
        feed,
        title,
        request.settings,
        passes,
        is_ascii=request.is_ascii,
        allows_actions=request.allows_actions,
        beside=lambda: _beside(request, sampler.renew),
    )
    _narrate_unwritten(sampler)
    return code


def _beside(request: Request, renew: Callable[[], None]) -> Beside:
    """What is read beside the pictures; the first one waits for none of it."""
    from gpumon.cli.configured_ledger import stored_ledger
    from gpumon.detect.learning.case_store import CaseStore
    from gpumon.detect.learning.discovery import Discovery
    from gpumon.sources.job_output import JobOutput
    from gpumon.tui.beside import Beside

    is_real = not is_demo(request.targets)
    # Behind a login node the files of a job are not here.
    is_near = any(target.scheme == "slurm" and not target.hop for target in request.targets)
    return Beside(
        Discovery(request.wanted.own, renew, is_real=is_real),
        stored_ledger(request.settings, is_real=is_real),
        JobOutput() if is_near else None,
        CaseStore(request.wanted.own, renew, is_real=is_real),
    )
