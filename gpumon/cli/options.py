"""The main command's options, and what they ask of the floors below."""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from gpumon.cli import output
from gpumon.cli.exits import UNKNOWN_STATUS, USAGE
from gpumon.cli.request import Request, is_demo, wanted_of
from gpumon.cli.since import Since, since
from gpumon.model.text import plain
from gpumon.model.units import DAY_S
from gpumon.sources.address import TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import SupportsWrite

    from gpumon.model.settings import Settings
    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.sources.address import Target

PAST_S: Final = 7200.0
"""A demo begins with so much of a past unless told: the slowest of its stories takes two hours."""

PAST_GPUS: Final = 128
"""Demos up to so many GPUs do: the two hours of a hundred take some seconds."""

DEFAULT_FOR_S: Final = 1.0
"""A single look lasts about a second: enough for rates and for GPM's two samples."""

EPILOG: Final = """\
targets:
  local                 this machine's GPUs
  slurm[?nodes=none]    your jobs by Slurm's commands, their nodes over ssh, or
                        by a step of the job (srun) where ssh is refused
  slurm?cluster=NAME    the same of another cluster (the commands' -M)
  slurm+ssh://login     the same through a login node
  slurm+https://host    the same by slurmrestd, token in SLURM_JWT;
                        slurm+unix:///socket for one on this machine
  ssh://[user@]host     nodes over your own OpenSSH; host[001-128] is a list
  dcgm+http://host:9400/metrics
                        pages of dcgm-exporter, node_exporter and others;
                        host[001-128] is a list
  prometheus+https://host:9090
                        Prometheus, VictoriaMetrics and their like, which gather
                        such pages; ?token_file= or ?login_file= lets you in
  gpumon+http://host:9777
                        another gpumon's serve; gpumon+unix:///socket here
  demo[:NODESxGPUS]     a simulated fleet with known faults
  ./FILE.gpumon         a recording

Without a target: those of the configuration, else slurm where its commands are,
and local where a driver is.
Exit codes: 0 done, 1 nothing could be read or no such job, 2 wrong usage or
configuration, 130 interrupted.
Other commands: completion, config, detectors, doctor, evaluate, patterns,
record, replay, report, serve, simulate, train. See COMMAND --help.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors leave with the code that monitoring checks expect, if asked."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave."""
        checks = "--exit-status" in sys.argv
        self.exit(
            UNKNOWN_STATUS if checks else USAGE, f"gpumon: {message}; see {self.prog} --help\n"
        )

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Help and version are data; a standard output that is closed is passed as None."""
        if file is None or file is sys.stdout:
            output.write(message)
        else:
            output.write_stderr(message)


class _ShowVersions(argparse.Action):
    """Looks for what is installed only when it is asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Say it and leave."""
        from gpumon.cli.about.versions import versions

        output.write(versions())
        parser.exit()


def seconds(text: str) -> float:
    """A number of seconds that is not negative.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    number = float(text)
    if not 0 <= number <= 86400:
        message = "between 0 and 86400 seconds"
        raise argparse.ArgumentTypeError(message)
    return number


def period(text: str) -> float:
    """A beat of at least a tenth of a second."""
    return max(0.1, seconds(text))


def duration(text: str) -> float:
    """Seconds of a length of time as people write it."""
    from gpumon.cli import quantities

    return quantities.duration(text)


def past(text: str) -> float:
    """Seconds of a past; 0 is none."""
    return 0.0 if text == "0" else duration(text)


def tiers(text: str) -> tuple[str, ...]:
    """Names of tiers, in the probe's order.

    Raises:
        argparse.ArgumentTypeError: One is unknown.
    """
    names = {name.strip() for name in text.split(",")}
    unknown = sorted(names - set(TIERS))
    if unknown:
        message = f"{plain(unknown[0])!r} is none of {', '.join(TIERS)}"
        raise argparse.ArgumentTypeError(message)
    return tuple(name for name in TIERS if name in names)


def parser() -> argparse.ArgumentParser:
    """Parser of the main command."""
    made = Parser(
        prog="gpumon",
        description="Which jobs waste GPUs, why, which rank is at fault, and what to do next.",
        epilog=EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=80),
    )
    made.add_argument("targets", nargs="*", metavar="TARGET", help="what to watch")
    made.add_argument("--json", action="store_true", help="one JSON document instead of a terminal")
    made.add_argument("--once", action="store_true", help="one plain text table")
    made.add_argument(
        "--for",
        dest="for_s",
        type=seconds,
        metavar="SECONDS",
        help="observe this long before answering (default 1; 0: one sample, no detectors)",
    )
    made.add_argument(
        "--watch",
        dest="watch_s",
        type=period,
        metavar="SECONDS",
        help="NDJSON, one document per period, until interrupted",
    )
    add_whose(made)
    add_filter(made)
    made.add_argument(
        "--all", action="store_true", help="every job that Slurm shows, not only yours"
    )
    _add_accounting(made)
    made.add_argument(
        "--period",
        type=period,
        metavar="SECONDS",
        help="time between two samples of the terminal (default 1)",
    )
    _add_past(made)
    add_ascii(made)
    made.add_argument(
        "--allow-actions",
        action="store_true",
        help="let the terminal cancel and requeue jobs (x) once you type the job id, and send "
        "signals to this machine's processes (K in :ps) once you type the PID",
    )
    _add_counters(made)
    made.add_argument(
        "--exit-status",
        action="store_true",
        help="exit with 0/1/2/3 for ok/warning/critical/unknown, as monitoring checks expect",
    )
    made.add_argument(
        "--version",
        action=_ShowVersions,
        nargs=0,
        help="show the version, and those of Python, driver and Slurm found here, and exit",
    )
    return made


def add_whose(made: argparse.ArgumentParser) -> None:
    """The options that name one job or one user."""
    made.add_argument("--job", metavar="ID", help="only this job; JSON also names its ceiling")
    made.add_argument(
        "--user",
        metavar="NAME",
        help="only this user's jobs; without a queue only the user's processes and their GPUs",
    )


def add_filter(made: argparse.ArgumentParser) -> None:
    """The option that keeps rows by their columns."""
    made.add_argument(
        "--filter",
        dest="passes",
        type=row_filter,
        metavar="EXPR",
        help="only jobs that pass this filter, as with / in the terminal: 'user==ada & sm<20 & "
        "gpus>=8'",
    )


def add_ascii(made: argparse.ArgumentParser) -> None:
    """The option for terminals and fonts that draw nothing else."""
    made.add_argument("--ascii", action="store_true", help="draw ASCII only")


def row_filter(text: str) -> RowFilter:
    """A filter in the language of the terminal.

    Raises:
        argparse.ArgumentTypeError: It is none; the message shows where.
    """
    from gpumon.report.filter.tree import FilterError
    from gpumon.report.lists.filter_tables import understood

    try:
        return understood(text)
    except FilterError as error:
        message = f"{error} (character {error.at + 1})"
        raise argparse.ArgumentTypeError(message) from None


def _add_counters(made: argparse.ArgumentParser) -> None:
    """Options that say which counters are read."""
    made.add_argument(
        "--no-gpm",
        action="store_true",
        help="do not read the driver's performance counters (GPM), for example beside a profiler",
    )
    made.add_argument(
        "--tiers",
        type=tiers,
        default=TIERS,
        metavar="LIST",
        help="which counters probes read: some of hot,medium,slow (default: all)",
    )


def _add_past(made: argparse.ArgumentParser) -> None:
    """What only a demo has: a past that is invented."""
    made.add_argument(
        "--past",
        dest="past_s",
        type=past,
        metavar="TIME",
        help="how much past a demo begins with, 0 for none (default: 2h up to "
        f"{PAST_GPUS} GPUs, none for --json, --watch and --for)",
    )


def _add_accounting(made: argparse.ArgumentParser) -> None:
    """Options that ask Slurm's accounting, which nothing else does."""
    made.add_argument(
        "--ended",
        dest="since",
        action="store_const",
        const=Since(DAY_S),
        help="also the jobs that ended in the last day, from Slurm's accounting",
    )
    made.add_argument(
        "--since",
        type=since,
        metavar="WHEN",
        help="the same since WHEN: 24h, 7days, 2026-11-20, 2026-11-20T08:00 (at most 31 days)",
    )
    made.add_argument(
        "--steps",
        action="store_true",
        help="also what the running steps of --job have used so far (sstat)",
    )


def _past_of(options: argparse.Namespace, targets: Sequence[Target]) -> float | None:
    """How much of a past is invented: as was asked, else enough for each story of a demo."""
    if options.past_s is not None:
        return options.past_s or None
    is_shown = not (options.json or options.watch_s is not None or options.for_s is not None)
    gpus = sum(math.prod(target.demo_size) for target in targets if target.demo_size)
    return PAST_S if is_shown and is_demo(targets) and gpus <= PAST_GPUS else None


def request_of(
    options: argparse.Namespace, settings: Settings, targets: Sequence[Target], *, is_to_tty: bool
) -> Request:
    """What the main command is asked for.

    Args:
        options: What its parser has read.
        settings: Those that count for it.
        targets: What it is to watch.
        is_to_tty: Whether standard output is a terminal.
    """
    return Request(
        settings=settings,
        targets=tuple(targets),
        wanted=wanted_of(options.job, options.user, settings, targets),
        is_json=options.json,
        is_terminal=is_to_tty
        and not output.is_dumb()
        and not (options.json or options.once or options.watch_s),
        is_to_tty=is_to_tty,
        for_s=DEFAULT_FOR_S if options.for_s is None else options.for_s,
        watch_s=options.watch_s,
        passes=options.passes,
        since=options.since,
        steps_of=options.job if options.steps else None,
        period_s=settings.number("period_s"),
        past_s=_past_of(options, targets),
        is_ascii=options.ascii or output.is_ascii_only(),
        allows_actions=options.allow_actions,
        has_gpm=not options.no_gpm,
        tiers=options.tiers,
        is_check=options.exit_status,
    )
