"""Findings as they come back from the worker, where foreign code ran: nothing is believed."""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import DamagedError
from gpumon.detect.claims import honest_confidence, honest_severity
from gpumon.detect.contract import LONGEST_WINDOW_S, Declaration, DetectorError, checked
from gpumon.model.finding import (
    COVERAGE_STATES,
    Confidence,
    Coverage,
    Evidence,
    Finding,
    Severity,
    Window,
)
from gpumon.model.finding_classes import finding_class as finding_class_of
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from gpumon.detect.facts.facts import Part

MAX_FINDINGS: Final = 20_000
"""Findings of one detector on one evaluation: twice the jobs of the largest fleets."""

MAX_EVIDENCE: Final = 64
"""Pieces of evidence of one finding. A choice: more than a page has lines for."""
MAX_ADVICE: Final = 8
"""Sentences of advice of one finding. A choice: more is not read."""
MAX_GPUS: Final = 20_000
"""GPUs of one finding: the largest jobs known."""
MAX_OWNERS: Final = 64
"""Users whose processes are on the GPU of a finding. A choice."""
MAX_SENTENCE: Final = 512
"""Characters of one sentence. A choice: six lines of 80 columns."""
MAX_REASON: Final = 80
"""Characters of why a subject is not judged: the page of a job names several on one line."""

SENT_OF_COVERAGE: Final = Coverage._fields[:6]
"""What the worker says of it; the rest the monitor knows itself."""

_SUBJECT: Final = re.compile(
    r"job:[0-9]{1,12}(/rank:[0-9]{1,9})?|gpu:[0-9A-Za-z_.:/-]{1,128}|node:[0-9A-Za-z][0-9A-Za-z._-]{0,252}"
)
_FIELD: Final = re.compile(r"[a-z][a-z0-9_.]{0,63}")


class RubbishError(DamagedError):
    """What a detector returned is not a finding; the message says what is wrong with it."""


class Bounds(NamedTuple):
    """What no finding of one evaluation can exceed."""

    at: float
    """Unix time of the tick."""
    observed_since: float
    """Unix time of the first sample."""
    gpus_of: Mapping[str, int]
    """Number of GPUs by `job:ID`, for every job that was in view."""
    gpus: Container[str] | None = None
    """UUIDs in view; None: not known, so none is refused."""
    nodes: Container[str] | None = None
    """Names of the nodes in view; None: not known, so none is refused."""

    def has(self, subject: str) -> bool:
        """Whether a subject was in view."""
        kind, _, name = subject.partition("/")[0].partition(":")
        if kind == "job":
            return f"job:{name}" in self.gpus_of
        seen = self.gpus if kind == "gpu" else self.nodes
        return seen is None or subject.partition(":")[2] in seen


def declaration_from(value: object) -> Declaration:
    """A declaration as the worker told it.

    Raises:
        DetectorError: It is none.
    """
    if not isinstance(value, dict):
        raise DetectorError("the declaration is not an object")
    try:
        given = Declaration(**value)
        classes, needs = tuple(given.finding_classes), tuple(given.needs)
        guesses = tuple(given.guesses)
        categories = tuple((str(name), str(category)) for name, category in given.categories)
        wants = tuple((str(key), str(missed)) for key, missed in given.wants)
    except (TypeError, ValueError) as error:
        raise DetectorError("the declaration is not complete") from error
    return checked(
        given._replace(
            finding_classes=classes,
            needs=needs,
            guesses=guesses,
            categories=categories,
            wants=wants,
        )
    )


def finding_from(value: object, declared: Declaration, bounds: Bounds) -> Finding:
    """One finding as the worker told it, as sure as its window allows, as grave as it is sure.

    `first_seen` and `last_seen` are the evaluation's time: the past is the monitor's to know.

    Raises:
        RubbishError: It is none.
    """
    given = _fields_of(value, Finding._fields, "finding")
    subject = _subject(given["subject"])
    finding_class = given["finding_class"]
    if not isinstance(finding_class, str) or finding_class not in declared.finding_classes:
        raise RubbishError(f"class {finding_class!r:.80} is not declared")
    job = subject.partition("/")[0]
    if not bounds.has(subject):
        raise RubbishError(f"{subject:.80} is not in view")
    window = _window(given["window"], bounds)
    try:
        severity = Severity(given["severity"])  # type: ignore[arg-type]
        confidence = Confidence(given["confidence"])  # type: ignore[arg-type]
    except ValueError as error:
        raise RubbishError("severity or confidence is unknown") from error
    allowed = honest_confidence(window, declared, finding_class)
    gpus = tuple(_uuid(item, bounds) for item in _list(given["gpus"], MAX_GPUS))
    # A GPU may cost its job more than itself: then it names the others that it took the time from.
    is_gpu = subject.startswith("gpu:")
    gpu_count = len({subject[4:], *gpus}) if is_gpu else bounds.gpus_of.get(job)
    confidence = min(confidence, allowed, key=lambda step: step.rank)
    evidence = tuple(_evidence(item) for item in _list(given["evidence"], MAX_EVIDENCE))
    return Finding(
        detector=declared.name,
        finding_class=finding_class,
        subject=subject,
        severity=honest_severity(severity, confidence),
        confidence=confidence,
        summary=_sentence(given["summary"]),
        evidence=evidence,
        window=window,
        first_seen=bounds.at,
        last_seen=bounds.at,
        advice=_sentences(given["advice"], MAX_ADVICE),
        gpu_seconds=_gpu_seconds(given["gpu_seconds"], window, gpu_count),
        onset=_onset(given["onset"], window),
        category=finding_class_of(finding_class, dict(declared.categories)).category.value,
        gpus=gpus,
        owners=tuple(_uid(item) for item in _list(given["owners"], MAX_OWNERS)) if is_gpu else (),
        machine_advice=_sentences(given["machine_advice"], MAX_ADVICE),
        is_learned=declared.is_learned,
    )


def coverage_from(value: object, declared: Declaration) -> Coverage:
    """Coverage as the worker told it.

    Raises:
        RubbishError: It is none.
    """
    given = _fields_of(value, SENT_OF_COVERAGE, "coverage")
    seen, blind = _count(given["subjects_seen"]), _count(given["subjects_blind"])
    named = _list(given["missing_fields"], len(declared.needs))
    missing = tuple(key for key in declared.needs if key in named)
    state = given["state"]
    if not isinstance(state, str) or state not in COVERAGE_STATES or len(missing) != len(named):
        raise RubbishError("coverage names an unknown state or field")
    note, needs_s = _text(given["note"]), declared.supported_after_s
    return Coverage(
        detector=declared.name,
        subjects_seen=seen,
        subjects_blind=blind,
        missing_fields=missing,
        state=state,
        note=note,
        needs_s=needs_s,
    )


def reasons_from(value: object) -> dict[str, str]:
    """Subjects that a detector declines to judge, and why, as the worker told it.

    Raises:
        RubbishError: It is none.
    """
    if not isinstance(value, dict) or len(value) > MAX_FINDINGS:
        raise RubbishError(f"not a table of at most {MAX_FINDINGS} reasons")
    return {_subject(subject): plain(_sentence(why), MAX_REASON) for subject, why in value.items()}


def unseen_from(value: object, declared: Declaration) -> dict[str, list[str] | None]:
    """What a detector cannot see of some subjects, and of which; None: of those told before.

    Raises:
        RubbishError: It is none of what it declares.
    """
    known = {what for _, what in declared.wants}
    found: dict[str, list[str] | None] = {}
    for pair in _list(value, len(known)):
        what, names = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
        if not isinstance(what, str) or what not in known:
            raise RubbishError("what is not seen is not among its wants")
        found[what] = [*map(str, names)] if isinstance(names, list | tuple) else None
    return found


def part_from(value: object) -> Part:
    """A part of the ring of jobs as the worker told it.

    Raises:
        RubbishError: It is none.
    """
    ends = [_number(end) for end in _list(value, 2)]
    if len(ends) != 2 or not all(0 <= end <= 1 for end in ends) or ends[0] == ends[1]:
        raise RubbishError("an answer for no part of the jobs")
    return ends[0], ends[1]


def _fields_of(value: object, keys: tuple[str, ...], name: str) -> dict[str, object]:
    if not isinstance(value, list | tuple) or len(value) != len(keys):
        raise RubbishError(f"not a {name}: {value!r:.80}")
    return dict(zip(keys, value, strict=True))


def _window(value: object, bounds: Bounds) -> Window:
    """The claimed window, cut to what gpumon has observed."""
    given = _fields_of(value, Window._fields, "window")
    start, end, samples = _number(given["start"]), _number(given["end"]), _count(given["samples"])
    if samples < 1 or start > end:
        raise RubbishError("the window needs start <= end and at least one sample")
    start, end = max(start, bounds.observed_since), min(end, bounds.at)
    if start > end:
        raise RubbishError("the window lies outside what was observed")
    return Window(start, end, samples)


def _onset(value: object, window: Window) -> float:
    """When the evidence began: no later than the window, and within living memory."""
    if value is None:
        return window.start
    onset = _number(value)
    if onset < window.end - LONGEST_WINDOW_S:
        raise RubbishError("the onset lies more than a year back")
    return min(onset, window.start)


def _evidence(value: object) -> Evidence:
    given = _fields_of(value, Evidence._fields, "piece of evidence")
    field = given["field"]
    if not isinstance(field, str) or not _FIELD.fullmatch(field):
        raise RubbishError("evidence must name a field")
    number = None if given["value"] is None else _number(given["value"])
    return Evidence(field, _subject(given["subject"]), _sentence(given["text"]), number)


def _uuid(value: object, bounds: Bounds) -> str:
    if not isinstance(value, str) or (bounds.gpus is not None and value not in bounds.gpus):
        raise RubbishError(f"GPU {value!r:.80} is not in view")
    return value


def _gpu_seconds(value: object, window: Window, gpu_count: int | None) -> float | None:
    if value is None:
        return None
    seconds = _number(value)
    length_s = window.end - window.start
    # One percent more than can be lost is rounding, anything beyond is not.
    most = float("inf") if gpu_count is None else gpu_count * length_s * 1.01 + 1e-6
    if not 0 <= seconds <= most:
        raise RubbishError(f"{seconds:.0f} GPU-seconds cannot be lost in {length_s:.0f} s")
    return seconds


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RubbishError(f"not a finite number: {value!r:.40}")
    try:
        found = float(value)
    except OverflowError:
        # A whole number has no bound in JSON.
        found = inf
    if not isfinite(found):
        raise RubbishError(f"not a finite number: {value!r:.40}")
    return found


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise RubbishError(f"not a count: {value!r:.40}")
    return value


def _uid(value: object) -> int:
    if _count(value) >= 2**32:
        raise RubbishError(f"not a uid: {value!r:.40}")
    return _count(value)


def _subject(value: object) -> str:
    if not isinstance(value, str) or not _SUBJECT.fullmatch(value):
        raise RubbishError(f"not a subject: {value!r:.80}")
    return value


def _sentences(value: object, most: int) -> tuple[str, ...]:
    return tuple(_sentence(line) for line in _list(value, most))


def _sentence(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise RubbishError("a text is empty")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise RubbishError(f"not a text: {value!r:.80}")
    return plain(value, MAX_SENTENCE)


def _list(value: object, longest: int) -> list[object]:
    if not isinstance(value, list | tuple) or len(value) > longest:
        raise RubbishError(f"not a list of at most {longest} entries")
    return list(value)
