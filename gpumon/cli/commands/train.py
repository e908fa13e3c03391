"""`gpumon train`: a model of labelled recordings, for the detector `learned`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.base.own_file import write_own
from gpumon.base.paths import state_folder
from gpumon.cli.exits import DONE, INTERRUPTED, NOTHING_READ, narrate, narrate_error
from gpumon.cli.labelled import labelled
from gpumon.cli.options import Parser
from gpumon.cli.output import is_tty, write, write_json, write_stderr
from gpumon.cli.request import past_of, settings_with

if TYPE_CHECKING:
    from gpumon.detect.learning.cases import Case
    from gpumon.detect.learning.examples import Collector
    from gpumon.detect.learning.fitting import Score
    from gpumon.detect.learning.model import Model
    from gpumon.model.settings import Settings


def parser() -> Parser:
    """What the command understands."""
    made = Parser(
        prog="gpumon train",
        description="Fit a model to labelled recordings, and score each class on recordings that "
        "were left out. The labels are in FILE.labels.json; findings that you judged in the "
        "terminal (V) are in cases.json of the state folder. Classes that score well go into the "
        "model. The detector `learned` reads it where its parameter names it.",
    )
    made.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a recording with labels beside it, or a file of cases (.json) that were judged in "
        "the terminal",
    )
    made.add_argument("--out", type=Path, metavar="MODEL", help="default: below the state folder")
    made.add_argument("--json", action="store_true", help="the scores as one JSON document")
    return made


def train(words: list[str]) -> int:
    """Exit code of the command."""
    options = parser().parse_args(words)
    settings = settings_with()
    from gpumon.detect.learning.examples import Collector

    paths = [Path(file) for file in options.files]
    recordings = [path for path in paths if path.suffix != ".json"]
    collector = Collector()
    try:
        # Read first: a file that is none is found at once.
        judged = _judged([path for path in paths if path.suffix == ".json"])
        if judged is None:
            return NOTHING_READ
        for path in recordings:
            if not _add(collector, path, settings):
                return NOTHING_READ
        cases = f" and {len(judged)} cases" if judged else ""
        narrate(f"{len(recordings)} recordings{cases} read; fitting")
        from gpumon.detect.learning.examples import Examples
        from gpumon.detect.learning.fitting import fitted

        examples = Examples.joined([collector.examples(), Examples.of_cases(judged)])
        model, scores = fitted(examples)
    except KeyboardInterrupt:
        return INTERRUPTED
    path = options.out or Path(state_folder()) / "model.json"
    if options.json:
        from gpumon.report.document.scoreboard import training_document

        write_json(training_document(scores), is_pretty=is_tty())
    else:
        write(_table(scores))
    if not model.classes:
        narrate("no class is predicted well enough; nothing is written")
        return NOTHING_READ
    return _stored(model, path)


def _judged(paths: list[Path]) -> list[Case] | None:
    """Cases whose features mean the same now; None: a file cannot be read, and that is said."""
    from gpumon.detect.learning.cases import CasesError, read_cases

    found: list[Case] = []
    for path in paths:
        try:
            cases = read_cases(path)
        except CasesError as error:
            narrate(str(error))
            return None
        if not cases:
            narrate(f"{path}: it has no cases")
            return None
        usable = [case for case in cases if case.is_usable]
        if len(usable) < len(cases):
            count = len(cases) - len(usable)
            narrate(f"{path}: {count} cases are of a version with other features, and do not count")
        found += usable
    return found


def _add(collector: Collector, path: Path, settings: Settings) -> bool:
    """Take in a recording; False: it cannot be read, and that is said."""
    from gpumon.fleet.replay.feed import play

    found = labelled(path)
    if found is None:
        return False
    collector.begin(found.labels)
    failure = play(
        found.recording, collector.take, past_of(settings), None, is_wanted=lambda *_: True
    )
    if failure is not None:
        narrate_error(failure)
    return failure is None


def _stored(model: Model, path: Path) -> int:
    """Write the model for its owner alone, as a whole or not at all."""
    try:
        write_own(path, json.dumps(model.plain(), allow_nan=False) + "\n")
    except OSError as error:
        narrate(f"{path} was not written: {error.strerror}; name another with --out")
        return NOTHING_READ
    narrate(f"written: {path}. To use it, add to the configuration:")
    # Apart from the narration, so that they can be copied as they stand.
    write_stderr(f"[detectors.parameters.learned]\nmodel = {json.dumps(str(path.resolve()))}\n")
    return DONE


def _table(scores: tuple[Score, ...]) -> str:
    """A line a class."""
    lines = [f"{'class':<20} {'jobs':>5} {'precision':>9} {'recall':>7}  "]
    for score in scores:
        verdict = "kept" if score.is_kept else "left to rules"
        numbers = f"{score.jobs:>5} {score.precision:>9.2f} {score.recall:>7.2f}"
        lines.append(f"{score.key:<20} {numbers}  {verdict}")
    if not scores:
        lines = ["no class has enough jobs to learn from"]
    return "\n".join(lines) + "\n"
