"""`gpumon patterns`: what GPU time has in common that nobody can explain, and what to call it."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.cli.exits import DONE, INTERRUPTED, NOTHING_READ, narrate, narrate_error
from gpumon.cli.options import Parser
from gpumon.cli.output import is_tty, write, write_json
from gpumon.cli.request import judge_of, past_of, settings_with
from gpumon.detect.learning.named import (
    Named,
    names_rewritten,
    newest,
    own_patterns,
    read_named,
    with_name,
    without_newest,
)
from gpumon.sources.own_login import own_login
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.source import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.detect.learning.patterns import Found
    from gpumon.detect.learning.unexplained import Gatherer
    from gpumon.model.settings import Settings


def parser() -> Parser:
    """What the command understands."""
    made = Parser(
        prog="gpumon patterns",
        description="Replay recordings and group the jobs with the most unexplained GPU time "
        "(neither useful nor claimed by a detector) by their behaviour. Each pattern "
        "has a card: what its jobs share, whose they are, and the most typical one. A "
        "pattern with a name becomes a class of its own at the next start. In the "
        "terminal, :patterns, :name and :unname do the same with what it has seen.",
    )
    made.add_argument(
        "files", nargs="*", metavar="FILE", help="a recording, or the folder of a rolling one"
    )
    made.add_argument("--json", action="store_true", help="one JSON document")
    made.add_argument(
        "--name", action="append", default=[], metavar="NUMBER=NAME", type=_numbered,
        help="name a pattern of these files; a name that exists gets a new version",
    )  # fmt: skip
    made.add_argument("--named", action="store_true", help="list the names, and who gave them")
    made.add_argument(
        "--undo", metavar="NAME", help="remove the newest version of a name; the one before it "
        "counts again, if there is one",
    )  # fmt: skip
    return made


def patterns(words: list[str]) -> int:
    """Exit code of the command."""
    made = parser()
    options = made.parse_args(words)
    alone = [bool(options.files), options.named, options.undo is not None]
    if sum(alone) != 1 or (options.name and not options.files):
        made.error("give recordings, or --named, or --undo NAME")
    if options.named:
        return _listed(is_json=options.json)
    if options.undo is not None:
        return _changed(lambda versions: without_newest(versions, options.undo))
    settings = settings_with()
    from gpumon.detect.learning.unexplained import Gatherer

    gatherer = Gatherer()
    try:
        for file in options.files:
            if not _add(gatherer, Path(file), settings):
                return NOTHING_READ
        gathered = gatherer.gathered()
        from gpumon.detect.learning.patterns import patterns_in

        found = patterns_in(gathered)
    except KeyboardInterrupt:
        return INTERRUPTED
    if options.json:
        from gpumon.report.document.patterns import patterns_document

        write_json(patterns_document(gathered, found), is_pretty=is_tty())
    else:
        from gpumon.report.pages.patterns import patterns_text

        write(patterns_text(gathered, found))
    return _named(found, options.name)


def _numbered(text: str) -> tuple[int, str]:
    """A pattern's number and the name that it gets."""
    number, is_set, name = text.partition("=")
    if not is_set or not number.isdecimal():
        raise ArgumentTypeError("give it as NUMBER=NAME, such as 3=slow_tokeniser")
    return int(number), name


def _named(found: Found, names: Sequence[tuple[int, str]]) -> int:
    """Keep patterns under their names; nothing is kept where one of them cannot be."""
    if not names:
        return DONE
    numbered = (*found.patterns, *found.odd)
    count = len(numbered)
    wrong = [number for number, _ in names if not 1 <= number <= count]
    if wrong:
        narrate(f"--name: no pattern {wrong[0]}: there are {count}")
        return NOTHING_READ

    def added(versions: tuple[Named, ...]) -> tuple[Named, ...]:
        for number, name in names:
            pattern = numbered[number - 1]
            one = Named(
                name=name, version=0, owner=own_login(), at=time.time(), traits=pattern.traits,
                jobs=len(pattern.jobs),
                gpu_seconds=pattern.gpu_seconds, exemplar=pattern.exemplar.job_id,
            )  # fmt: skip
            versions = with_name(versions, one)
        return versions

    return _changed(added)


def _changed(change: Callable[[tuple[Named, ...]], tuple[Named, ...]]) -> int:
    """Have the user's file of named patterns say something else."""
    path = own_patterns()
    try:
        before, after = names_rewritten(path, change)
    except OSError as error:
        narrate(f"{path} was not written: {error.strerror}; make room there, or set XDG_STATE_HOME")
        return NOTHING_READ
    for one in (one for one in after if one not in before):
        narrate(f"named: {one.name}, version {one.version}, in {path}")
    for one in (one for one in before if one not in after):
        left = any(other.name == one.name for other in after)
        rest = f"version {one.version - 1} counts again" if left else "no pattern has this name now"
        narrate(f"removed: {one.name}, version {one.version}; {rest}")
    return DONE


def _listed(*, is_json: bool) -> int:
    """Tell what has a name."""
    path = own_patterns()
    versions = read_named(path)
    if is_json:
        from gpumon.report.document.patterns import named_document

        write_json(named_document(newest(versions)), is_pretty=is_tty())
    else:
        from gpumon.report.pages.patterns import named_text

        write(named_text(newest(versions)))
    return DONE


def _add(gatherer: Gatherer, path: Path, settings: Settings) -> bool:
    """Take in a recording; False: it cannot be read, and that is said."""
    from gpumon.fleet.replay.feed import play

    try:
        recording = Recording(path)
    except RecordingError as error:
        narrate(str(error))
        return False
    except OSError as error:
        narrate(f"{path}: {error.strerror}")
        return False
    gatherer.begin()
    failure = play(
        recording,
        gatherer.take,
        past_of(settings),
        judge_of(settings),
        is_wanted=lambda *_: True,
    )
    if failure is not None:
        narrate_error(failure)
    return failure is None
