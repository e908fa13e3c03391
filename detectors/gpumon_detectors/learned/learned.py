"""Classes that a model tells better than a rule does."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import (
    ABSTAINS_BELOW,
    FEATURES,
    LINK_BUSY_BYTES_PER_S,
    Case,
    CasesError,
    Confidence,
    Detector,
    Evidence,
    ModelError,
    Severity,
    Window,
    feature_text,
    features_of,
    nearest,
    read_cases,
    read_model,
)
from gpumon_detectors.evidence.gpu_use import is_named
from gpumon_detectors.evidence.job_commands import inspect_commands
from gpumon_detectors.evidence.phrases import counted, span
from gpumon_detectors.placement.exchange import NVLINK
from gpumon_detectors.work.comm_bound import EXCHANGE_LESS
from gpumon_detectors.work.kind import doubts_of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Learnt, Model, Near, Verdict, View

WINDOW_S: Final = 900.0
"""What most features are made of: a claim begins so long before the evaluation that makes it."""

_CLAIM: Final = Confidence.SUPPORTED
_GUESS: Final = Confidence.HYPOTHESIS

_WORDS: Final = {"comm_bound": "waiting for the exchange between them"}
"""By class what a job of it spends its time with."""

_ADVICE: Final = {"comm_bound": EXCHANGE_LESS}

_OF: Final = {feature.key: feature for feature in FEATURES}

SHIPPED: Final = ("comm_bound",)
"""Classes that the model tells that comes with gpumon."""


class _ModelClasses:
    """The classes that a detector's own model tells: what no model tells is not looked for."""

    def __get__(self, detector: Learned | None, _owner: type) -> tuple[str, ...]:
        if detector is None or not detector.model:
            return SHIPPED
        try:
            return tuple(learnt.key for learnt in model_in(detector.model).classes) or SHIPPED
        except ModelError:
            # The first look says why.
            return SHIPPED


class _Guessed:
    """The classes that a detector's model has not told well enough of recordings of other hands."""

    def __get__(self, detector: Learned | None, _owner: type) -> tuple[str, ...]:
        return SHIPPED if detector is None or not detector.model else ()


class Learned(Detector):
    """Claims what a model has learnt from labelled recordings, where no rule does so well.

    The model that comes with gpumon recognises `comm_bound` alone: for the other classes that it
    was tried on, rules are as good or better. It was fitted to recordings of gpumon's own
    simulator. Of those of the second one, which shares no code with it, it finds about half of the
    jobs, and has accused a sound one (docs/numbers.md): so what it says stays a *hypothesis*, and
    the class is listed under *not looked for*, unless the rule `comm_bound` is enabled.

    `gpumon train` fits one to labelled recordings of a site, which may recognise other classes of
    `gpumon.plugin.SIGNATURES`; the parameter `model` names its file.

    If it cannot judge a job it says why, on the page of the job and in the coverage. If that holds
    for many jobs, a site's work has drifted away from the lessons, and `gpumon train` is due.

    A job is judged by [features](features.md) of its last 15 and 60 minutes, each class by those of
    its own signature and no others. Nothing is claimed where one that the class needs is missing,
    as where a board has no profiling counters; where a feature lies beyond all that was met in
    training, unless the model says that more of it speaks for the class alone; of a job on GPUs of
    several products, or that another job shares; or below a calibrated probability of .6. A claim
    names the features without which it would not be made: were they as in healthy jobs, it would
    not. Beside them it names the known cases that the job is nearest to: findings that a user has
    judged in the terminal (`V`, in `cases.json` of the user's state folder, or the file that the
    parameter `cases` names), else jobs that the model learnt from. Where the nearest judged case
    was wrong, the claim stays a *hypothesis*.

    With a site's own model a claim is *supported* after 15 minutes, if its probability is one at
    which .95 of the claims were true on recordings left out of training. Below that it is a
    *hypothesis*; it is never *established*, and its loss is charged as suspected. For servers and
    sessions it stays a *hypothesis*.
    """

    name = "learned"
    version = "1"
    finding_classes = _ModelClasses()
    guesses = _Guessed()
    needs = ("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio")
    supported_after_s = 900.0
    established_after_s = 3600.0
    every_s = 60.0
    is_learned = True

    def __init__(self, model: str = "", portal_names: str = "", cases: str = "") -> None:
        self.model = model
        self.portal_names = portal_names
        self.cases = cases

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job and class that is likely enough."""
        model = model_in(self.model)
        jobs = [job for job in _asked(view, model) if not _unlike_lessons(view, job)]
        values = _features(view, jobs, model)
        for learnt in model.classes:
            judged = np.flatnonzero(learnt.can_judge(values))
            rows = learnt.rows(values[judged])
            # All at once: of one row alone the trees' own steps would be most of the work.
            for number in np.flatnonzero(learnt.probabilities(rows) >= ABSTAINS_BELOW).tolist():
                place, row = int(judged[number]), rows[number]
                near = nearest(learnt, row, _cases_in(self.cases))
                yield self._finding(view, jobs[place], learnt, learnt.verdict(row), near)

    def cannot_judge(self, view: View) -> dict[str, str]:
        """Jobs of which its model has seen nothing alike."""
        model = model_in(self.model)
        asked = _asked(view, model)
        reasons = {job.subject: _unlike_lessons(view, job) for job in asked}
        jobs = [job for job in asked if not reasons[job.subject]]
        values = _features(view, jobs, model)
        # One that any of its classes can be told of is judged.
        can_judge = np.any([learnt.can_judge(values) for learnt in model.classes], axis=0)
        for learnt in model.classes:
            for place, key in enumerate(learnt.unlike(values)):
                if key and not can_judge[place]:
                    reasons[jobs[place].subject] = f"unlike everything it learnt from: {key}"
        return {subject: why for subject, why in reasons.items() if why}

    def _finding(
        self,
        view: View,
        job: JobLook,
        learnt: Learnt,
        verdict: Verdict,
        near: Sequence[Near],
    ) -> Finding:
        doubts = doubts_of_kind(job, self.portal_names)
        window = window_of(view, job)
        length_s = window.end - window.start
        share = f"{100 * verdict.lost:.0f} % of their time"
        words = _WORDS.get(learnt.key, learnt.key)
        seen = learnt.seen
        return view.finding(
            self,
            finding_class=learnt.key,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{counted(len(job.gpus), 'GPU')} lose about {share} {words}: learnt, not "
            f"measured, {100 * verdict.probability:.0f} % sure, over {span(length_s)}",
            window=window,
            evidence=(
                *(_reason(job, *reason) for reason in verdict.reasons),
                Evidence(
                    "job",
                    job.subject,
                    f"learnt from {seen['jobs']:.0f} such jobs; on recordings left out, "
                    f"{100 * seen['precision']:.0f} % of its claims were true and "
                    f"{100 * seen['recall']:.0f} % of the jobs found",
                    verdict.probability,
                ),
                *(_near_evidence(job, learnt, one) for one in near),
                *doubts,
            ),
            advice=(*_ADVICE.get(learnt.key, ()), *inspect_commands(job)),
            gpu_seconds=verdict.lost * length_s * len(job.gpus),
            at_most=_CLAIM if verdict.is_sure and not doubts and not _was_wrong(near) else _GUESS,
        )


def window_of(view: View, job: JobLook) -> Window:
    """What most features of a job are made of, as far as it was seen."""
    start = max(view.now - WINDOW_S, job.all_held_since, view.observed_since)
    samples = len(view.series_since(job.uuids[0], "gpu_util_ratio", start).times)
    return Window(start, view.now, samples)


def is_shared(view: View, job: JobLook) -> bool:
    """Whether another job holds one of its GPUs: what that does is not one job's doing."""
    return any(len(view.jobs_of(uuid)) > 1 for uuid in job.uuids)


@cache
def model_in(path: str) -> Model:
    """The model in a file, read once; an empty path is the one that comes with gpumon."""
    if path:
        return read_model(Path(path))
    with as_file(files(__package__).joinpath("model.json")) as shipped:
        return read_model(shipped)


@cache
def _cases_in(path: str) -> tuple[Case, ...]:
    """The cases in a file, read once; an empty path is the user's own.

    Those that cannot be read are none: a claim rests on the model, and needs none.
    """
    try:
        return read_cases(Path(path) if path else None)
    except CasesError:
        return ()


def _features(view: View, jobs: Sequence[JobLook], model: Model) -> NDArray[np.float64]:
    """Features of jobs, those at least that the model looks at."""
    keys = {key for learnt in model.classes for key in (*learnt.looks_at, *learnt.needs)}
    return features_of(view, jobs, {*keys, "gpus"}).values


class _Asked(dict[tuple[int, str], bool]):
    """By model and job of one evaluation whether any class may be claimed, for both questions."""


def _asked(view: View, model: Model) -> list[JobLook]:
    """The jobs of which any class may be told."""
    known = view.shared.setdefault(_Asked, _Asked())
    assert isinstance(known, _Asked)
    for job in view.jobs:
        if (id(model), job.job.job_id) not in known:
            known[id(model), job.job.job_id] = _is_asked(view, job, model)
    return [job for job in view.jobs if known[id(model), job.job.job_id]]


def _is_asked(view: View, job: JobLook, model: Model) -> bool:
    """Whether any class may be told of it: it spares most jobs of a large fleet the rest."""
    if not is_named(job):
        return False
    least = min((learnt.least_gpus for learnt in model.classes), default=0)
    is_young = view.now - job.all_held_since < 0.5 * WINDOW_S
    if not model.classes or len(job.gpus) < least or is_young:
        return False
    if not all(bool(np.isfinite(job.latest(key)).any()) for key in Learned.needs):
        return False
    glances = (_GLANCES.get(learnt.key) for learnt in model.classes)
    return any(glance is None or glance(job) for glance in glances)


def _unlike_lessons(view: View, job: JobLook) -> str:
    """Why no lesson shows such a job; empty where some do.

    Of one on boards of several kinds the faster ones wait; what a GPU does that several jobs share
    is not one job's doing.
    """
    if is_shared(view, job):
        return "another job shares its GPUs"
    return "its GPUs are of several products" if len({gpu.name for gpu in job.gpus}) > 1 else ""


def _may_exchange(job: JobLook) -> bool:
    """Whether an exchange between its GPUs is seen now, or could not be seen from here."""
    moved = np.fmax(*(job.latest(key) for key in NVLINK))
    return len(job.job.nodes) > 1 or bool((moved >= LINK_BUSY_BYTES_PER_S).any())


_GLANCES: Final = {"comm_bound": _may_exchange}
"""By class what the newest values must leave open: it spares most jobs the look back."""


def _reason(job: JobLook, key: str, value: float, healthy: float) -> Evidence:
    """One feature that carries a verdict, beside what healthy jobs have."""
    feature = _OF[key]
    what = feature.doc.rstrip(".")
    field = feature.fields[0] if feature.fields else "job"
    text = (
        f"{what}: {feature_text(value, feature)}, in healthy jobs {feature_text(healthy, feature)}"
    )
    return Evidence(field, job.subject, text, value)


def _was_wrong(near: Sequence[Near]) -> bool:
    """Whether somebody has judged the nearest case, and found it wrong."""
    return bool(near) and isinstance(near[0].known, Case) and not near[0].known.is_right


def _near_evidence(job: JobLook, learnt: Learnt, near: Near) -> Evidence:
    """One known case that the job is near to."""
    known = near.known
    if isinstance(known, Case):
        day = datetime.fromtimestamp(known.at, UTC).astimezone().strftime("%Y-%m-%d")
        word = "right" if known.is_right else "wrong"
        text = f"like job {known.job_id}, a finding that {known.owner} judged {word} on {day}"
    else:
        gpus = learnt.looks_at.index("gpus") if "gpus" in learnt.looks_at else None
        size = "" if gpus is None else f" of {counted(round(2.0 ** known.row[gpus]), 'GPU')}"
        lost = "" if np.isnan(known.lost) else f", which lost {100 * known.lost:.0f} % of its time"
        text = f"like a job{size} that the model learnt from{lost}"
    return Evidence("job", job.subject, text, near.distance)
