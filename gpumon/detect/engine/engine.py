"""Detection as the monitor sees it: hand in a tick, collect a report, never wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from gpumon.detect.contract import DetectorError
from gpumon.detect.engine.finding_life import DetectorResult, Lives, notes_from, subjects_of
from gpumon.detect.engine.muting import Roster
from gpumon.detect.engine.worker_process import WorkerLink, WorkerLostError
from gpumon.detect.facts.facts import WHOLE
from gpumon.detect.wire.tick_messages import Sender
from gpumon.detect.worker.tuning import Tuning
from gpumon.detect.worker.validation import (
    MAX_FINDINGS,
    Bounds,
    RubbishError,
    coverage_from,
    declaration_from,
    finding_from,
    part_from,
    reasons_from,
    unseen_from,
)
from gpumon.model.fault import DETECTION, SourceError, shortage
from gpumon.model.finding import DetectionReport
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.detect.engine.notes_file import NotesFile
    from gpumon.detect.facts.facts import Part
    from gpumon.fleet.history.reader import HistoryReader
    from gpumon.model.finding import Coverage
    from gpumon.model.records.tick import Tick

BUDGET_S: Final = 10.0
"""Time of one detector for one evaluation: ten times the goal for all of them over 10,000 jobs."""

START_S: Final = 30.0
"""Time in which the worker must be up: Python and numpy from a slow network file system."""

_MAX_BLAMELESS_LOSSES: Final = 3
"""Workers lost in a row with no detector at work, after which detection gives up."""

_CLOSE_S: Final = 0.3  # a quit that waits for longer is felt (our choice)

_OWN_DISTRIBUTION: Final = "gpumon "
"""Begins what an entry says of the detectors that come with gpumon."""

_Answer = TypeVar("_Answer")
_Judged: TypeAlias = "tuple[DetectorResult, Coverage]"
_Answers: TypeAlias = "dict[str, list[_Judged]]"
"""By detector, part by part."""


class DetectionEngine:
    """Runs the detectors in one worker process; imports neither numpy nor plugins itself.

    The worker is started with the first tick, and with the first one after a rest. Whatever
    happens to it, this class raises nothing out of its methods: what went wrong is in the report.
    """

    def __init__(
        self,
        paths: tuple[str, ...] = (),
        *,
        installed: bool = True,
        budget_s: float = BUDGET_S,
        start_s: float = START_S,
        tuning: Tuning | None = None,
        notes: NotesFile | None = None,
    ) -> None:
        self._paths = paths
        self._installed = installed
        self._tuning = tuning or Tuning()
        self._unknown: list[SourceError] = []
        """Detectors that the configuration names and nobody has installed."""
        self._budget_s = budget_s
        self._start_s = start_s
        self._roster = Roster()
        self._link: WorkerLink | None = None
        self._sender = Sender()
        self._lives = Lives()
        self._coverage: dict[str, Coverage] = {}
        """The last results of every detector at work, by key: some detectors rest at times."""
        self._blind: dict[str, frozenset[str]] = {}
        """By detector what the worker said last that it is blind for."""
        self._unseen: dict[str, dict[str, frozenset[str]]] = {}
        """By detector the subjects that it judges in part, by what it cannot see of them."""
        self._losses = 0
        self._last_loss = ("", "")
        self._evaluated_at = float("inf")
        """Unix time of the last tick that was judged: none before the first."""
        self._state = threading.Condition()
        self._notes_file = notes
        if notes is not None:
            self.restore(notes.read())
        self._thread: threading.Thread | None = None
        self._waiting: Tick | None = None
        self._is_busy = False
        self._is_rehearsal = False
        """Whether what is judged now is looked at for nothing."""
        self._is_outdated = False
        """Whether detectors are to be loaded again."""
        self._rests = False
        """Whether the worker is to end, as there is nothing to judge for now."""
        self._is_closed = False
        self._report: DetectionReport | None = None

    def submit(self, tick: Tick) -> bool:
        """Have a tick judged; False, and nothing happens, while another one is.

        A tick without history is not judged.
        """
        with self._state:
            return self._take(tick)

    def _take(self, tick: Tick) -> bool:
        """Hand a tick to the thread, which waits for the state that is held here."""
        if self._is_busy or self._is_closed or tick.history is None:
            return False
        self._is_busy = True
        self._waiting = tick
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="detect", daemon=True)
            self._thread.start()
        self._state.notify_all()
        return True

    def rehearse(self, tick: Tick) -> None:
        """Have plugins of others look at a tick for nothing, without waiting.

        Whoever hangs or crashes is muted by it, so that a look that somebody waits for does not
        take a detector's whole budget. Built-in detectors alone have none. `submit` says no
        meanwhile.
        """
        with self._state:
            self._is_rehearsal |= self._take(tick)

    def collect(self) -> DetectionReport | None:
        """The newest report, once; None while there is no new one."""
        with self._state:
            report, self._report = self._report, None
            return report

    def finish(self, timeout_s: float) -> DetectionReport | None:
        """The report of the tick being judged, waiting up to `timeout_s` for it."""
        with self._state:
            self._state.wait_for(lambda: not self._is_busy or self._is_closed, timeout_s)
        return self.collect()

    def close(self) -> None:
        """End the worker and everything that plugins started; takes half a second at most."""
        with self._state:
            self._is_closed = True
            link, self._link = self._link, None
            self._state.notify_all()
        if link is not None:
            link.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        if self._notes_file is not None:
            self._notes_file.close()

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(self._has_work)
                tick, self._waiting = self._waiting, None
                if self._is_closed:
                    return
                is_over, self._is_outdated = tick is None or self._is_outdated, False
                self._rests = False
            if is_over:
                self._drop(None)
            if tick is None:
                continue
            try:
                report = self._judge(tick) if not self._is_rehearsal else self._rehearsed(tick)
            # Whatever else fails must not end detection unseen: it becomes the report.
            except Exception as error:  # noqa: BLE001
                self._drop(None)
                words, way_out = shortage(error) or (f"{type(error).__name__}: {error}", "")
                report = self._failed(tick, words, way_out)
            del tick
            with self._state:
                self._report = None if self._is_closed else report
                self._is_busy = self._is_rehearsal = False
                self._state.notify_all()

    def _has_work(self) -> bool:
        return self._waiting is not None or self._is_closed or self._rests

    def rest(self) -> None:
        """End the worker until the next tick, without waiting; one being judged is judged."""
        with self._state:
            self._rests = self._link is not None and not self._is_busy
            self._state.notify_all()

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding, until it clears; False: it does not stand."""
        with self._state:
            is_standing = self._lives.acknowledge(identity, is_known=is_known)
        self._store_notes()
        return is_standing

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Tell nothing of a class, a subject, or a class about a subject before a Unix time."""
        with self._state:
            self._lives.mute(until, finding_class, subject)
        self._store_notes()

    def _store_notes(self) -> None:
        if self._notes_file is not None:
            self._notes_file.write(self.notes())

    def _forgetting(self) -> tuple[SourceError, ...]:
        """That notes are not kept, where they are not."""
        if self._notes_file is None or not (trouble := self._notes_file.trouble):
            return ()
        return (SourceError("notes", plain(trouble), self._notes_file.way_out),)

    def renew(self) -> None:
        """Have all detectors loaded again for the next tick: what they read at first changed."""
        with self._state:
            self._is_outdated = True

    def notes(self) -> dict[str, object]:
        """What was acknowledged and muted, in JSON's types: to be kept over a restart."""
        with self._state:
            return self._lives.notes()

    def restore(self, notes: object) -> None:
        """Take up the notes of an earlier run before the first tick; rubbish is ignored."""
        with self._state:
            self._lives.restore(*notes_from(notes))

    def _rehearsed(self, tick: Tick) -> DetectionReport | None:
        """Ask all for nothing; the next look has a new worker, whose first look sees all jobs."""
        # Imported here, because it takes as long as the rest of this module together.
        from gpumon.detect.worker.registry import entries

        others = entries(self._paths, installed=self._installed)
        if any(not one.distribution.startswith(_OWN_DISTRIBUTION) for one in others):
            self._outlasting(tick, self._answers)
            self._drop(None)
        return None

    def _judge(self, tick: Tick) -> DetectionReport:
        """Have the worker judge a tick, without whoever keeps it from answering."""
        return self._outlasting(tick, self._evaluated) or self._failed(tick, *self._last_loss)

    def _outlasting(self, tick: Tick, ask: Callable[[WorkerLink, Tick], _Answer]) -> _Answer | None:
        """What the worker answers once those that keep it from answering are muted; None: never."""
        self._roster.release(tick.at)
        while self._losses < _MAX_BLAMELESS_LOSSES:
            link = None
            try:
                link = self._link or self._start(tick.at)
                answer = ask(link, tick)
            except WorkerLostError as lost:
                self._drop(link)
                if self._is_closed:
                    break
                if lost.culprit is None:
                    self._losses += 1
                    self._last_loss = (f"the worker {lost}", lost.hint)
                else:
                    self._roster.mute(lost.culprit, str(lost), tick.at)
            else:
                self._losses = 0
                return answer
        return None

    def _start(self, at: float) -> WorkerLink:
        link = WorkerLink(self._budget_s, self._start_s)
        with self._state:
            if not self._is_closed:
                self._link = link
        if self._link is not link:
            link.close()
            raise WorkerLostError("closed", None)
        self._sender = Sender()
        self._blind, self._unseen = {}, {}
        link.start(
            {
                "kind": "start",
                "paths": self._paths,
                "installed": self._installed,
                "muted": sorted(self._roster.muted),
                "tuning": self._tuning,
            }
        )
        self._unknown = []
        while (message := link.answer()).get("kind") != "ready":
            key = plain(str(message.get("key")))
            if message.get("kind") == "failed":
                self._roster.mute(key, str(message.get("message")), at)
            elif message.get("kind") == "loaded":
                self._admit(key, message.get("declaration"), at)
            elif message.get("kind") == "off":
                self._roster.leave_out(key, str(message.get("name")))
            elif message.get("kind") == "unknown":
                text = plain(str(message.get("message")))
                hint = "gpumon detectors list shows the names"
                self._unknown.append(SourceError("detectors", text, hint))
        return link

    def _admit(self, key: str, declaration: object, at: float) -> None:
        try:
            self._roster.admit(key, declaration_from(declaration), at)
        except DetectorError as error:
            self._roster.mute(key, str(error), at)

    def _evaluated(self, link: WorkerLink, tick: Tick) -> DetectionReport:
        from gpumon.detect.series import unbroken_since

        history = _shared(tick)
        answers, bounds = self._answers(link, tick)
        results = self._joined(answers, tick.at)
        seen_from = unbroken_since(history, self._evaluated_at, tick.at)
        self._evaluated_at = tick.at
        return self._report_of(tick, results, bounds, seen_from)

    def _answers(self, link: WorkerLink, tick: Tick) -> tuple[_Answers, Bounds]:
        """What each detector says of a tick, part by part, within what it may speak of."""
        message, descriptors = self._sender.message(tick, _shared(tick), self._roster.muted)
        link.ask(message, descriptors)
        bounds = Bounds(
            at=tick.at,
            observed_since=tick.observed_since,
            gpus_of={
                f"job:{view.job.job_id}": len(view.gpu_uuids) + view.gpus_unknown
                for view in tick.jobs
            },
            gpus=tick.gpus,
            nodes=tick.nodes,
        )
        answers: _Answers = {}
        while (answer := link.answer()).get("kind") != "done":
            key, kind = plain(str(answer.get("key"))), answer.get("kind")
            if kind == "loaded":
                self._admit(key, answer.get("declaration"), tick.at)
            elif kind == "bloated":
                raise WorkerLostError(str(answer.get("message")), key)
            elif kind == "failed":
                answers.pop(key, None)
                self._roster.mute(key, f"raised {answer.get('message')}", tick.at)
            elif kind == "result" and key not in self._roster.muted:
                try:
                    answers.setdefault(key, []).append(self._checked(key, answer, bounds))
                except RubbishError as error:
                    del answers[key]
                    self._roster.mute(key, f"returned an invalid answer: {error}", tick.at)
        return answers, bounds

    def _joined(self, answers: _Answers, at: float) -> list[DetectorResult]:
        """One look of each detector, whatever parts it judged; its coverage is noted."""
        results = []
        for key, parts in answers.items():
            try:
                result, self._coverage[key] = whole_of(parts)
            except RubbishError as error:
                self._roster.mute(key, f"returned an invalid answer: {error}", at)
            else:
                results.append(result)
        return results

    def _report_of(
        self, tick: Tick, results: list[DetectorResult], bounds: Bounds, seen_from: float
    ) -> DetectionReport:
        in_view = subjects_of(bounds.gpus_of, tick.gpus, tick.nodes)
        out = self._roster.muted
        self._coverage = {key: seen for key, seen in self._coverage.items() if key not in out}
        with self._state:
            self._lives.take(
                tick.at, results, in_view, self._resting(results), seen_from, tick.observed_since
            )
            standing, cleared = self._lives.standing(tick.at), self._lives.cleared(tick.at)
            muted = self._lives.muted(tick.at)
        return DetectionReport(
            at=tick.at,
            findings=standing,
            coverage=(*self._coverage.values(), *self._roster.coverage()),
            errors=(*self._roster.errors(), *self._unknown, *self._forgetting()),
            cleared=cleared,
            muted=muted,
        )

    def _resting(self, results: list[DetectorResult]) -> frozenset[str]:
        """Names of the detectors that are at work and were not asked on this look."""
        asked = {result.detector for result in results}
        return frozenset(self._roster.at_work()) - asked

    def _checked(self, key: str, answer: dict[str, Any], bounds: Bounds) -> _Judged:
        declared = self._roster.declared.get(key)
        claims, blind = answer.get("findings"), answer.get("blind")
        if isinstance(blind, list):
            self._blind[key] = frozenset(map(str, blind))
        # None: the same as before, which may be 80,000 names.
        dark = self._blind.get(key, frozenset())
        if declared is None or not isinstance(claims, list) or len(claims) > MAX_FINDINGS:
            raise RubbishError(f"not a list of at most {MAX_FINDINGS} findings")
        findings = [finding_from(claim, declared, bounds) for claim in claims]
        coverage = coverage_from(answer.get("coverage"), declared)
        part = part_from(answer.get("part"))
        reasons = reasons_from(answer.get("declined", {}))
        if reasons:
            dark = dark.union(reasons)
        before = self._unseen.get(key, {})
        unseen = {
            what: before.get(what, frozenset()) if names is None else frozenset(names)
            for what, names in unseen_from(answer.get("unseen", []), declared).items()
        }
        self._unseen[key] = unseen
        result = DetectorResult(
            detector=declared.name,
            claims=tuple(findings),
            part=part,
            blind=dark,
            is_instant=declared.is_instant,
        )
        return result, coverage._replace(blind_subjects=dark, blind_reasons=reasons, unseen=unseen)

    def _drop(self, link: WorkerLink | None) -> None:
        with self._state:
            link, self._link = link or self._link, None
        if link is not None:
            link.close()

    def _failed(self, tick: Tick, reason: str, way_out: str = "") -> DetectionReport:
        hint = way_out or "this Python must be able to run: import gpumon.detect.worker.worker"
        error = SourceError(DETECTION, plain(reason), hint)
        with self._state:
            in_view = subjects_of({v.job.job_id for v in tick.jobs}, tick.gpus, tick.nodes)
            self._lives.take(tick.at, (), in_view, frozenset())
            standing, cleared = self._lives.standing(tick.at), self._lives.cleared(tick.at)
            muted = self._lives.muted(tick.at)
        errors = (error, *self._roster.errors(), *self._forgetting())
        return DetectionReport(
            at=tick.at,
            findings=standing,
            coverage=self._roster.coverage(),
            errors=errors,
            cleared=cleared,
            muted=muted,
        )


def _shared(tick: Tick) -> HistoryReader:
    """The history of a tick, which the worker maps."""
    from gpumon.fleet.history.reader import HistoryReader

    if not isinstance(tick.history, HistoryReader):
        raise TypeError("the tick's history is not in shared memory")
    return tick.history


def whole_of(answers: Sequence[_Judged]) -> _Judged:
    """The answers about one part, or about every part, of the jobs as one look and its coverage.

    Raises:
        RubbishError: They are parts of different wholes, some parts are missing, something is
            claimed twice, or it is too much.
    """
    results, coverages = zip(*answers, strict=True)
    last, coverage = results[-1], coverages[-1]
    if len(results) > 1 and not _is_round([result.part for result in results]):
        raise RubbishError("answers for some parts of the jobs, without the others")
    claims = tuple(claim for result in results for claim in result.claims)
    if len(claims) > MAX_FINDINGS:
        raise RubbishError(f"not a list of at most {MAX_FINDINGS} findings")
    if len({claim.identity for claim in claims}) != len(claims):
        raise RubbishError("two findings of one class about one subject")
    if len(results) == 1:
        return last, coverage
    blind = frozenset().union(*(seen.blind_subjects for seen in coverages))
    whole = last._replace(claims=claims, part=WHOLE, blind=blind)
    return whole, coverage._replace(
        subjects_seen=sum(seen.subjects_seen for seen in coverages),
        subjects_blind=sum(seen.subjects_blind for seen in coverages),
        missing_fields=tuple(dict.fromkeys(k for seen in coverages for k in seen.missing_fields)),
        blind_subjects=blind,
        blind_reasons={name: why for seen in coverages for name, why in seen.blind_reasons.items()},
        unseen={
            what: frozenset().union(*(seen.unseen.get(what, ()) for seen in coverages))
            for what in dict.fromkeys(what for seen in coverages for what in seen.unseen)
        },
    )


def _is_round(parts: Sequence[Part]) -> bool:
    """Whether parts follow one another once round the ring of jobs."""
    begins, ends = zip(*parts, strict=True)
    return (begins[0], ends[-1]) == WHOLE and begins[1:] == ends[:-1] and sorted(ends) == [*ends]
