"""`gpumon patterns`: what the GPU time has in common that nobody can explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.cli.exits import DONE, INTERRUPTED, NOTHING_READ, narrate, narrate_error
from gpumon.cli.options import Parser
from gpumon.cli.output import is_tty, write, write_json
from gpumon.cli.request import judge_of, past_of, settings_with
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.source import Recording

if TYPE_CHECKING:
    from gpumon.detect.learning.unexplained import Gatherer
    from gpumon.model.settings import Settings


def patterns(words: list[str]) -> int:
    """Exit code of the command."""
    made = Parser(
        prog="gpumon patterns",
        description="Play recordings, and group the jobs of whose GPU time the most is unexplained "
        "(neither useful nor claimed by a detector) by how they behave: a card for each pattern, "
        "with what its jobs share, whose they are, and the one in their middle.",
    )
    made.add_argument(
        "files", nargs="+", metavar="FILE", help="a recording, or the folder of a rolling one"
    )
    made.add_argument("--json", action="store_true", help="one JSON document")
    options = made.parse_args(words)
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
    return DONE


def _add(gatherer: Gatherer, path: Path, settings: Settings) -> bool:
    """Take in a recording; False: it cannot be read, and that is said."""
    from gpumon.fleet.replay.feed import play

    try:
        recording = Recording(path)
    except RecordingError as error:
        narrate(str(error))
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
