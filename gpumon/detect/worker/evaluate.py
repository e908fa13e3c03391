"""What a detector says about one view, in JSON's types."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from gpumon.detect.contract import DetectorError, declaration_of
from gpumon.detect.worker.coverage import names_of, places_of, unseen_of
from gpumon.detect.worker.validation import MAX_FINDINGS, SENT_OF_COVERAGE

if TYPE_CHECKING:
    from gpumon.detect.contract import Declaration, Detector
    from gpumon.detect.view import View
    from gpumon.detect.worker.coverage import SentBlind


def answer_of(
    detector: Detector,
    view: View,
    declared: Declaration | None = None,
    sent: SentBlind | None = None,
) -> dict[str, object]:
    """Findings and coverage of one evaluation; raises whatever the detector raises.

    Args:
        detector: Who looks.
        view: What it sees.
        declared: What it declares, where that is known already.
        sent: What was said before of the subjects for which it lacks a field: None stands for
            the same ones again.
    """
    known = declared or declaration_of(detector)
    coverage, dark = places_of(view, known)
    # A detector computes with missing values all the time; numpy need not warn of each.
    with np.errstate(all="ignore"):
        findings = list(islice(detector.evaluate(view), MAX_FINDINGS + 1))
        declined = _declined(detector, view)
    if declined:
        # Those that lack a field are blind anyhow.
        for name in names_of(view, known, dark):
            declined.pop(name, None)
        coverage = coverage._replace(
            subjects_seen=max(0, coverage.subjects_seen - len(declined)),
            subjects_blind=coverage.subjects_blind + len(declined),
        )
    is_sent = sent is not None and sent.knows(view, known, dark)
    unseen: list[list[object]] = []
    for what, places in unseen_of(view, known, dark).items():
        is_same = sent is not None and sent.knows(view, known, places, what)
        if len(places):
            unseen.append([what, None if is_same else names_of(view, known, places)])
    return {
        "findings": _plain(findings),
        "coverage": coverage[: len(SENT_OF_COVERAGE)],
        "blind": None if is_sent else names_of(view, known, dark),
        "declined": declined,
        "unseen": unseen,
    }


def _declined(detector: Detector, view: View) -> dict[str, str]:
    """Subjects that a detector says it cannot judge, and why."""
    cannot_judge = getattr(detector, "cannot_judge", None)
    if cannot_judge is None:
        return {}
    found = cannot_judge(view)
    if not isinstance(found, Mapping):
        raise DetectorError("cannot_judge must return a mapping of subjects to reasons")
    return dict(islice(found.items(), MAX_FINDINGS + 1))


def _plain(value: object) -> object:
    """Python's numbers, which JSON knows, for numpy's scalars."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
