"""Jobs that behave as a pattern does which an operator has named."""

from __future__ import annotations

from functools import cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.plugin import (
    FEATURES,
    Confidence,
    Detector,
    Evidence,
    NamedError,
    Severity,
    feature_text,
    features_of,
    named_patterns,
)
from gpumon_detectors.evidence.gpu_use import is_named
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.phrases import counted, span
from gpumon_detectors.learned.learned import WINDOW_S, is_shared, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Named, View

_AT: Final = {feature.key: place for place, feature in enumerate(FEATURES)}

_NONE: Final = ("named_pattern",)
"""What is looked for while nothing has a name."""


class _Names:
    """The names that a detector's own file holds."""

    def __get__(self, detector: NamedPatterns | None, _owner: type) -> tuple[str, ...]:
        return _NONE if detector is None else _names_in(detector.file)


class _Categories:
    """All of them are ways of computing that no class explains."""

    def __get__(self, detector: NamedPatterns | None, _owner: type) -> Mapping[str, str]:
        names = _NONE if detector is None else _names_in(detector.file)
        return dict.fromkeys(names, "compute")


class NamedPatterns(Detector):
    """Claims that a job behaves as a pattern that an operator has named.

    `gpumon patterns` and `:patterns` in the terminal group jobs whose GPU time no finding explains,
    and `--name` and `:name` give a group a name. From then on, for gpumons that run elsewhere from
    their next start on, that name is a class of its own: of each job that has been at it for a
    quarter of an hour it is asked whether each [feature](features.md) of the pattern's card lies
    nearer to the pattern's value than to the usual one.

    It is a *hypothesis* and a remark, however long the window: a resemblance does not prove a
    cause, and nothing is charged. The evidence names the features, who named the pattern, and how
    many jobs it was found in. Nothing is claimed where one of the features is missing, or of a job
    whose GPUs another job shares.

    The names lie in `patterns.json` of the user's state folder; the parameter `file` names another
    one, as a site may share it.
    """

    name = "named_patterns"
    version = "1"
    finding_classes = _Names()
    categories = _Categories()
    needs = ("gpu_util_ratio",)
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 60.0
    is_learned = True

    def __init__(self, file: str = "") -> None:
        self.file = file

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job and pattern that it resembles."""
        known = _patterns_in(self.file)
        if not known:
            return
        jobs = [job for job in view.jobs if _is_seen(view, job)]
        keys = {trait.key for one in known for trait in one.traits}
        for job, row in zip(jobs, features_of(view, jobs, keys).values, strict=True):
            for one in known:
                if one.matches(row):
                    yield self._finding(view, job, one, row)

    def cannot_judge(self, view: View) -> dict[str, str]:
        """Jobs of which a feature of a pattern is not known, with the first such pattern."""
        known = _patterns_in(self.file)
        jobs = [job for job in view.jobs if known and _is_seen(view, job)]
        keys = {trait.key for one in known for trait in one.traits}
        reasons: dict[str, str] = {}
        for job, row in zip(jobs, features_of(view, jobs, keys).values, strict=True):
            for one in known:
                lacking = (trait.key for trait in one.traits if isnan(row[_AT[trait.key]]))
                key = next(lacking, None)
                if key is not None:
                    reasons.setdefault(job.subject, f"no {key}, which {one.name} has")
        return reasons

    def _finding(
        self, view: View, job: JobLook, pattern: Named, row: NDArray[np.float64]
    ) -> Finding:
        window = window_of(view, job)
        found = f"found in {counted(pattern.jobs, 'job')}, as in {pattern.exemplar}"
        return view.finding(
            self,
            finding_class=pattern.name,
            subject=job.subject,
            severity=Severity.INFO,
            summary=f"behaves like the pattern {pattern.name.replace('_', ' ')} "
            f"over {span(window.end - window.start)}",
            window=window,
            evidence=(
                *(_trait(job, *trait, float(row[_AT[trait.key]])) for trait in pattern.traits),
                Evidence("job", job.subject, f"named by {pattern.owner}, {found}"),
            ),
            advice=inspect_commands(job),
            at_most=Confidence.HYPOTHESIS,
        )


@cache
def _patterns_in(file: str) -> tuple[Named, ...]:
    """The patterns in a file, read once; an empty name is the user's own one."""
    return named_patterns(Path(file) if file else None)


def _names_in(file: str) -> tuple[str, ...]:
    try:
        return tuple(one.name for one in _patterns_in(file)) or _NONE
    except NamedError:
        # The first look says why.
        return _NONE


def _is_seen(view: View, job: JobLook) -> bool:
    """Whether a quarter of an hour of the job alone was seen."""
    is_old = view.now - job.all_held_since >= WINDOW_S
    return is_old and is_named(job) and not is_shared(view, job)


def _trait(job: JobLook, key: str, value: float, usual: float, own: float) -> Evidence:
    """One feature of the pattern, beside the job's own and what is usual."""
    feature = FEATURES[_AT[key]]
    field = feature.fields[0] if feature.fields else "job"
    own_text, text, usual_text = (feature_text(one, feature) for one in (own, value, usual))
    trait_text = f"{own_text}, in the pattern {text}, usually {usual_text}"
    return Evidence(field, job.subject, f"{feature.doc.rstrip('.')}: {trait_text}", own)
