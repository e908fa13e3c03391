"""`gpumon evaluate`: how good what gpumon says of labelled recordings is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.cli.exits import DONE, INTERRUPTED, NOTHING_READ, narrate, narrate_error
from gpumon.cli.labelled import labelled
from gpumon.cli.options import Parser
from gpumon.cli.output import is_tty, write, write_json
from gpumon.cli.request import judge_of, past_of, settings_with

if TYPE_CHECKING:
    from gpumon.evaluation.baselines.observer import Stated
    from gpumon.evaluation.comparison import Comparison
    from gpumon.evaluation.witness import Account
    from gpumon.model.records.tick import Tick
    from gpumon.model.settings import Settings
    from gpumon.sources.recording.source import Recording


def parser() -> Parser:
    """What the command understands."""
    made = Parser(
        prog="gpumon evaluate",
        description="Replay labelled recordings and score the findings: found and missed, false "
        "alarms, delays, GPU-hours. Simple public rules are scored beside them. The labels are in "
        "FILE.labels.json.",
    )
    made.add_argument("files", nargs="+", metavar="FILE", help="a recording with labels beside it")
    made.add_argument("--json", action="store_true", help="one JSON document")
    return made


def evaluate(words: list[str]) -> int:
    """Exit code of the command."""
    options = parser().parse_args(words)
    settings = settings_with()
    from gpumon.evaluation.comparison import Comparison

    comparison = Comparison(_expected(settings))
    try:
        for file in options.files:
            if not _add(comparison, Path(file), settings):
                return NOTHING_READ
    except KeyboardInterrupt:
        return INTERRUPTED
    scores, baselines = comparison.scores(), comparison.baselines()
    for error in scores.errors:
        narrate(error)
    if options.json:
        from gpumon.report.document.scoreboard import scoreboard_document

        document = scoreboard_document(scores, options.files, baselines)
        write_json(document, is_pretty=is_tty())
    else:
        from gpumon.report.pages.scoreboard import scoreboard_text

        write(scoreboard_text(scores, baselines))
    return DONE


def _add(comparison: Comparison, path: Path, settings: Settings) -> bool:
    """Play a recording and take it in; False: it cannot be read, and that is said."""
    found = labelled(path)
    played = None if found is None else _played(path, found.recording, settings)
    if found is None or played is None:
        return False
    labels, (account, stated) = found.labels, played
    within = [one for one in labels if one.start <= account.end and one.end >= account.start]
    if len(within) < len(labels):
        count = len(labels) - len(within)
        narrate(f"{path}: {count} labels lie outside the recording and do not count")
    comparison.add(str(path), account, stated, within)
    return True


def _played(
    path: Path, recording: Recording, settings: Settings
) -> tuple[Account, dict[str, Stated]] | None:
    """What gpumon and the baselines say of a recording; None: it cannot be played, as is said."""
    from gpumon.evaluation.baselines.observer import Observer
    from gpumon.evaluation.witness import Witness
    from gpumon.fleet.replay.feed import play

    witness, observer = Witness(), Observer()
    files, unread = {str(file.path) for file in recording.files}, dict[str, None]()

    def show(tick: Tick) -> None:
        witness.take(tick)
        observer.take(tick)
        wrong = (f"{one.message}; {one.hint}" for one in tick.errors if one.where in files)
        unread.update(dict.fromkeys(wrong))

    failure = play(
        recording,
        show,
        past_of(settings),
        judge_of(settings),
        is_wanted=lambda _at, _is_last: True,
    )
    account = witness.account()
    if failure is not None:
        narrate_error(failure)
        return None
    if account is None or not (account.holds or account.node_of):
        narrate(f"{path} has no tick with a job or a GPU that can be read; try gpumon replay")
        return None
    return account._replace(errors=(*account.errors, *unread)), observer.statements()


def _expected(settings: Settings) -> dict[str, frozenset[str]]:
    """Classes by the name of the detector that is at work and claims them."""
    from gpumon.detect.contract import DetectorError, declaration_of
    from gpumon.detect.worker import registry
    from gpumon.detect.worker.tuning import Tuning

    tuning = Tuning.of(settings)
    found = {}
    for entry in registry.entries():
        if entry.key in tuning.disabled:
            continue
        try:
            declared = declaration_of(registry.load(entry))
        except DetectorError as error:
            narrate(f"{entry.key}: {error}")
            continue
        if tuning.runs(entry.key, declared):
            found[declared.name] = frozenset(declared.finding_classes)
    return found
