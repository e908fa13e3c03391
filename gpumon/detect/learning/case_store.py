"""Takes what somebody says of findings while looking: right, wrong, or neither again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.text import plain
from gpumon.model.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.detect.learning.cases import Case
    from gpumon.model.finding import Finding
    from gpumon.model.records.tick import Tick


class CaseStore:
    """Keeps what somebody says of findings, with how their jobs behave.

    What it needs for that is imported when something is judged.
    """

    def __init__(
        self,
        owner: str,
        renew: Callable[[], None] = lambda: None,
        cases: Path | None = None,
        *,
        is_real: bool = True,
    ) -> None:
        """Read nothing yet.

        Args:
            owner: Who judges.
            renew: Called when cases have changed: who looks at them has to read them again.
            cases: The file of cases; None: this user's own.
            is_real: Whether these jobs are there: simulated ones teach nothing about a site.
        """
        self._owner = owner
        self._renew = renew
        self._cases = cases
        self._is_real = is_real

    def store(self, tick: Tick, finding: Finding, *, is_right: bool | None) -> str:
        """Keep what somebody says of a finding; returns what came of it, in words.

        It may take seconds, as features are computed and a home may hang.

        Args:
            tick: The tick that tells the finding, with its past.
            finding: About a job, or a rank of one.
            is_right: None: what was said before is taken back.
        """
        kind, _, name = finding.subject.partition(":")
        if not self._is_real:
            return "these jobs are simulated: judgements of them are not stored"
        if kind != "job":
            return (
                "only findings about jobs are stored as cases: for others the counters are enough"
            )
        job_id = name.partition("/")[0]
        if is_right is None:
            return self._taken_back(finding.finding_class, job_id)
        case = self._case(tick, finding, job_id, is_right=is_right)
        return case if isinstance(case, str) else self._written(case)

    def _case(self, tick: Tick, finding: Finding, job_id: str, *, is_right: bool) -> Case | str:
        """How the job behaves now; a text says why that is not known."""
        from gpumon.detect.features.table import features_of
        from gpumon.detect.learning.cases import case_of
        from gpumon.detect.scene import view_of

        if tick.history is None:
            return "the past of that instant is not stored: judge it while it is current"
        view = view_of(tick)
        job = next((one for one in view.running if one.job.job_id == job_id), None)
        if job is None or not job.gpus:
            return "that job no longer runs: how it behaved is no longer known"
        (row,) = features_of(view, [job]).values
        window_s = finding.window.end - finding.window.start
        held_s = window_s * len(job.gpus)
        lost = None
        if finding.gpu_seconds is not None and held_s > 0.0:
            lost = min(1.0, max(0.0, finding.gpu_seconds / held_s))
        return case_of(
            finding.finding_class, job_id, row, self._owner, tick.at, lost, is_right=is_right
        )

    def _written(self, case: Case) -> str:
        from gpumon.detect.learning.cases import with_case
        from gpumon.detect.learning.signatures import SIGNATURES

        word = "right" if case.is_right else "wrong"
        use = "gpumon train learns from them"
        if case.finding_class not in SIGNATURES:
            use = "no model is trained for this class: its rule decides"
        return self._changed(
            lambda cases: with_case(cases, case),
            lambda count: f"stored as {word}: {count}; {use}",
        )

    def _taken_back(self, finding_class: str, job_id: str) -> str:
        from gpumon.detect.learning.cases import without_case

        return self._changed(
            lambda cases: without_case(cases, finding_class, job_id),
            lambda count: f"judgement undone; {count}",
        )

    def _changed(
        self,
        change: Callable[[tuple[Case, ...]], tuple[Case, ...]],
        words: Callable[[str], str],
    ) -> str:
        from gpumon.detect.learning.cases import CasesError, cases_rewritten, own_cases
        from gpumon.detect.learning.json_file import FileError, answer_in_time

        path = own_cases() if self._cases is None else self._cases
        try:
            after = answer_in_time(path, lambda: cases_rewritten(path, change))
        except (CasesError, FileError) as error:
            return plain(str(error))
        self._renew()
        return words(f"{counted(len(after), 'case')} in {plain(str(path))}")
