"""`gpumon serve`: what targets say, over HTTP, for Prometheus, scripts and other terminals."""

from __future__ import annotations

import signal
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.cli.commands.watch import default_targets
from gpumon.cli.configured_ledger import ledger_of
from gpumon.cli.exits import DONE, INTERRUPTED, NOTHING_READ, USAGE, narrate, narrate_error
from gpumon.cli.options import Parser, period
from gpumon.cli.output import write
from gpumon.cli.recorded_past import filled_by_sources
from gpumon.cli.request import (
    chosen_targets,
    is_demo,
    judge_of,
    past_of,
    settings_with,
    wanted_of,
)
from gpumon.cli.stop_signal import LEAVE_S, Ending
from gpumon.fleet.replay.recorder import Recorder
from gpumon.serve import listen
from gpumon.serve.frames import FrameFeed
from gpumon.serve.listen import Listen, ListenError
from gpumon.serve.routes import Routes, Served
from gpumon.serve.server import HttpServer
from gpumon.serve.tokens import TokenError, Tokens, tokens
from gpumon.sources.address import Sampling
from gpumon.sources.open import open_sources
from gpumon.sources.source import SystemClock, steady_s

if TYPE_CHECKING:
    import socket
    import ssl

    from gpumon.cli.request import WantedJobs
    from gpumon.fleet.sampler.sampler import Sampler
    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.tick import Tick
    from gpumon.model.settings import Settings
    from gpumon.report.document.forms import Document
    from gpumon.sources.address import Target


SHIPPED: Final = {"dashboard": "grafana-dashboard.json", "alerts": "prometheus-alerts.yml"}
"""What comes along for those who read the metrics, by its file in `gpumon.serve`."""


def parser() -> Parser:
    """What the command understands."""
    made = Parser(
        prog="gpumon serve",
        description="Serve metrics and documents over HTTP; it only reads.",
    )
    made.add_argument("targets", nargs="*", metavar="TARGET", help="what to watch")
    made.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="HOST:PORT or unix:/path (default 127.0.0.1:9777)",
    )
    made.add_argument(
        "--period", type=period, metavar="SECONDS", help="time between two samples (default 1)"
    )
    made.add_argument("--job", metavar="ID", help="only this job")
    made.add_argument("--user", metavar="NAME", help="only this user's jobs")
    made.add_argument(
        "--all", action="store_true", help="every job that Slurm shows, not only yours"
    )
    made.add_argument(
        "--print",
        choices=tuple(SHIPPED),
        help="print a Grafana dashboard or alert rules for these metrics, and exit",
    )
    return made


class _Access(NamedTuple):
    """Who may ask, and how."""

    tokens: Tokens | None
    context: ssl.SSLContext | None


def _access(settings: Settings, where: Listen) -> _Access:
    """What the configuration says of tokens and TLS.

    Raises:
        ListenError: Others could read what they may not.
        TokenError: The tokens cannot be used.
    """
    file, certificate = settings.text("serve.token_file"), settings.text("serve.tls_certificate")
    shows = settings.lists("serve.tokens")
    if shows and not file:
        raise TokenError(
            "serve.tokens is set without serve.token_file: name the file that holds the tokens"
        )
    if not where.is_own and not (file and certificate):
        message = (
            f"{where.text} can be reached from other machines: set serve.token_file and "
            "serve.tls_certificate, or listen on 127.0.0.1 or unix:/path"
        )
        raise ListenError(message)
    context = listen.encrypted(certificate, settings.text("serve.tls_key")) if certificate else None
    return _Access(tokens(file, shows) if file else None, context)


class _Request(NamedTuple):
    """What is to be served, and where."""

    targets: tuple[Target, ...]
    wanted: WantedJobs
    settings: Settings
    period_s: float
    where: Listen
    access: _Access


def serve(words: list[str]) -> int:
    """Exit code of the command."""
    options = parser().parse_args(words)
    if options.print:
        write(files("gpumon.serve").joinpath(SHIPPED[options.print]).read_text(encoding="utf-8"))
        return DONE
    settings = settings_with(period_s=options.period, is_all=options.all)
    targets = chosen_targets(options.targets, settings) or default_targets()
    where = listen.parse(options.listen or settings.text("serve.listen"))
    access = _access(settings, where)
    if any(target.scheme == "recording" for target in targets):
        narrate("a recording has its own clock and cannot be served; gpumon replay shows it")
        return USAGE
    if not targets:
        narrate("no NVIDIA driver and no Slurm commands on this machine; try: gpumon serve demo")
        return NOTHING_READ
    wanted = wanted_of(options.job, options.user, settings, targets)
    period_s = settings.number("period_s")
    request = _Request(
        targets=tuple(targets),
        wanted=wanted,
        settings=settings,
        period_s=period_s,
        where=where,
        access=access,
    )
    listening = listen.bound(where)
    try:
        return _Run(request, listening).run()
    finally:
        listen.released(where, listening)


class _Run:
    """A server under way."""

    def __init__(self, request: _Request, listening: socket.socket) -> None:
        self._request = request
        self._clock = SystemClock()
        self._ending = Ending(signal.SIGTERM, signal.SIGHUP)
        self._reported: set[SourceError] = set()
        known, context = request.access
        is_encrypted = context is not None
        self._address = listen.shown(request.where, listening, is_encrypted=is_encrypted)
        checks_host = known is None and not request.where.path
        urls = [target.url for target in request.targets]
        self._feed = FrameFeed(urls, request.period_s, self._clock.now)
        self._recorder = Recorder(self._feed, lambda _error: None)
        served = Served(
            clock=self._clock,
            document=self._document,
            feed=self._feed,
            tokens=known,
            checks_host=checks_host,
        )
        self._routes = Routes(served)
        self._server = HttpServer(listening, self._routes.answer, context, report=narrate_error)

    def run(self) -> int:
        """Serve until told to end; the exit code."""
        with self._ending:
            return self._serve()

    def _serve(self) -> int:
        sampler = self._sampler()
        status = DONE
        self._server.start()
        shown = " ".join(target.url for target in self._request.targets)
        try:
            narrate(f"serving {shown} on {self._address}")
            sampler.start(self._take, lambda _failure: self._ending.end_wait())
            self._ending.wait()
        except KeyboardInterrupt:
            status = INTERRUPTED
        finally:
            sampler.close(LEAVE_S)
            self._server.close()
            self._routes.close()
            self._feed.close()
        for error in filter(None, (sampler.unwritten, sampler.failure)):
            narrate_error(error)
        return status if sampler.failure is None else NOTHING_READ

    def _sampler(self) -> Sampler:
        from gpumon.fleet.sampler.need import Need
        from gpumon.fleet.sampler.pace import JUDGE_S
        from gpumon.fleet.sampler.sampler import Sampler

        request = self._request
        settings = request.settings
        sampling = Sampling(request.period_s, is_single=False, is_wanted=request.wanted.includes)
        sources = open_sources(request.targets, sampling, self._clock)
        return Sampler(
            self._recorder.sources(sources),
            self._clock,
            request.period_s,
            filled_by_sources(past_of(settings), sources, request.targets),
            judge_of(settings),
            open_ledger=ledger_of(settings, is_real=not is_demo(request.targets)),
            judge_every_s=JUDGE_S,
            steady=steady_s,
            need=Need(),
        )

    def _take(self, tick: Tick) -> None:
        self._routes.take(tick)
        self._recorder.end_tick(tick)
        self._feed.settled(lambda: self._server.call(self._routes.rouse))
        for error in tick.errors:
            if error not in self._reported:
                self._reported.add(error)
                narrate_error(error)

    def _document(self, tick: Tick) -> Document:
        from gpumon.base.footprint import footprint
        from gpumon.report.document.document import document

        wanted = self._request.wanted
        has_bounds = wanted.job is not None

        def is_wanted(view: JobView) -> bool:
            return wanted.includes(view.job)

        return document(tick, is_wanted, footprint(), user=wanted.user, has_bounds=has_bounds)
