"""Detection as the monitor sees it: hand in a picture, collect a report, never wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.contract import DetectorError
from gpumon.detect.link import WorkerLink, WorkerLostError
from gpumon.detect.roster import Roster
from gpumon.detect.validation import (
    MAX_FINDINGS,
    Bounds,
    RubbishError,
    coverage_from,
    declaration_from,
    finding_from,
)
from gpumon.detect.wire import Sender
from gpumon.model.finding import DetectionReport
from gpumon.model.frame import SourceError
from gpumon.model.text import plain

if TYPE_CHECKING:
    from gpumon.model.finding import Coverage, Finding
    from gpumon.model.tick import Tick

BUDGET_S: Final = 10.0
"""Time of one detector for one look: ten times the goal for all of them over 10,000 jobs."""

START_S: Final = 30.0
"""Time in which the worker must be up: Python and numpy from a slow network file system."""

_MAX_BLAMELESS_LOSSES: Final = 3
"""Workers lost in a row with no detector at work, after which detection gives up."""

_CLOSE_S: Final = 0.3


class DetectionEngine:
    """Runs the detectors in one worker process; imports neither numpy nor plugins itself.

    The worker is started with the first picture. Whatever happens to it, this class raises nothing
    out of its methods: what went wrong is in the report.
    """

    def __init__(
        self,
        paths: tuple[str, ...] = (),
        *,
        installed: bool = True,
        budget_s: float = BUDGET_S,
        start_s: float = START_S,
    ) -> None:
        self._paths = paths
        self._installed = installed
        self._budget_s = budget_s
        self._start_s = start_s
        self._roster = Roster()
        self._link: WorkerLink | None = None
        self._sender = Sender()
        self._losses = 0
        self._last_loss = ""
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: Tick | None = None
        self._is_busy = False
        self._is_closed = False
        self._report: DetectionReport | None = None

    def submit(self, tick: Tick) -> bool:
        """Have a tick judged; False, and nothing happens, while another one is.

        A tick without history is not judged.
        """
        with self._state:
            if self._is_busy or self._is_closed or tick.history is None:
                return False
            self._is_busy = True
            self._waiting = tick
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="detect", daemon=True)
                self._thread.start()
            self._state.notify_all()
            return True

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

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._waiting is not None or self._is_closed)
                tick, self._waiting = self._waiting, None
                if self._is_closed or tick is None:
                    return
            try:
                report = self._judge(tick)
            # Whatever else fails must not end detection unseen: it becomes the report.
            except Exception as error:  # noqa: BLE001
                self._drop(None)
                report = self._failed(tick, f"{type(error).__name__}: {error}")
            del tick
            with self._state:
                self._report = None if self._is_closed else report
                self._is_busy = False
                self._state.notify_all()

    def _judge(self, tick: Tick) -> DetectionReport:
        """Have the worker judge a tick, without whoever keeps it from answering."""
        while self._losses < _MAX_BLAMELESS_LOSSES:
            link = None
            try:
                link = self._link or self._start()
                report = self._look(link, tick)
            except WorkerLostError as lost:
                self._drop(link)
                if self._is_closed:
                    break
                if lost.culprit is None:
                    self._losses += 1
                    self._last_loss = f"the worker {lost}"
                else:
                    self._roster.mute(lost.culprit, str(lost))
            else:
                self._losses = 0
                return report
        return self._failed(tick, self._last_loss)

    def _start(self) -> WorkerLink:
        link = WorkerLink(self._budget_s, self._start_s)
        with self._state:
            if not self._is_closed:
                self._link = link
        if self._link is not link:
            link.close()
            raise WorkerLostError("closed", None)
        self._sender = Sender()
        link.ask(
            {
                "kind": "start",
                "paths": self._paths,
                "installed": self._installed,
                "muted": sorted(self._roster.muted),
            }
        )
        while (message := link.answer()).get("kind") != "ready":
            key = plain(str(message.get("key")))
            if message.get("kind") == "failed":
                self._roster.mute(key, str(message.get("message")))
            elif message.get("kind") == "loaded":
                self._admit(key, message.get("declaration"))
        return link

    def _admit(self, key: str, declaration: object) -> None:
        try:
            self._roster.admit(key, declaration_from(declaration))
        except DetectorError as error:
            self._roster.mute(key, str(error))

    def _look(self, link: WorkerLink, tick: Tick) -> DetectionReport:
        from gpumon.fleet.history_reader import HistoryReader

        if not isinstance(tick.history, HistoryReader):
            raise TypeError("the tick's history is not in shared memory")
        message, descriptors = self._sender.message(tick, tick.history, self._roster.muted)
        link.ask(message, descriptors)
        bounds = Bounds(
            tick.at,
            tick.observed_since,
            {
                f"job:{view.job.job_id}": len(view.gpu_uuids) + view.gpus_unknown
                for view in tick.jobs
            },
            tick.gpus,
            tick.nodes,
        )
        findings: list[Finding] = []
        coverage: list[Coverage] = []
        while (answer := link.answer()).get("kind") != "done":
            key = plain(str(answer.get("key")))
            if answer.get("kind") == "failed":
                self._roster.mute(key, f"raised {answer.get('message')}")
            elif answer.get("kind") == "result":
                try:
                    claims, seen = self._checked(key, answer, bounds)
                except RubbishError as error:
                    self._roster.mute(key, f"returned rubbish: {error}")
                else:
                    findings += claims
                    coverage.append(seen)
        return DetectionReport(
            tick.at,
            self._roster.dated(findings),
            (*coverage, *self._roster.coverage()),
            self._roster.errors(),
        )

    def _checked(
        self, key: str, answer: dict[str, Any], bounds: Bounds
    ) -> tuple[list[Finding], Coverage]:
        declared = self._roster.declared.get(key)
        claims = answer.get("findings")
        if declared is None or not isinstance(claims, list) or len(claims) > MAX_FINDINGS:
            raise RubbishError(f"not a list of at most {MAX_FINDINGS} findings")
        findings = [finding_from(claim, declared, bounds) for claim in claims]
        if len({finding.identity for finding in findings}) != len(findings):
            raise RubbishError("two findings of one class about one subject")
        return findings, coverage_from(answer.get("coverage"), declared)

    def _drop(self, link: WorkerLink | None) -> None:
        with self._state:
            link, self._link = link or self._link, None
        if link is not None:
            link.close()

    def _failed(self, tick: Tick, reason: str) -> DetectionReport:
        hint = "this Python must be able to run: import gpumon.detect.worker"
        error = SourceError("detection", plain(reason), hint)
        return DetectionReport(
            tick.at, (), self._roster.coverage(), (error, *self._roster.errors())
        )
