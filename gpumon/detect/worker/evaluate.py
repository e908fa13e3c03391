"""What a detector says about one view, in JSON's types."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from gpumon.detect.contract import declaration_of
from gpumon.detect.worker.coverage import coverage_of
from gpumon.detect.worker.validation import MAX_FINDINGS, TOLD_OF_COVERAGE

if TYPE_CHECKING:
    from gpumon.detect.contract import Declaration, Detector
    from gpumon.detect.view import View


class Answer(TypedDict):
    """What one look of a detector tells."""

    findings: object
    coverage: object
    blind: tuple[str, ...]
    """Subjects for which it lacked a field."""


def answer_of(detector: Detector, view: View, declared: Declaration | None = None) -> Answer:
    """Findings and coverage of one look; raises whatever the detector raises.

    Args:
        detector: Who looks.
        view: What it sees.
        declared: What it declares, where that is known already.
    """
    coverage, blind = coverage_of(view, declared or declaration_of(detector))
    # A detector computes with missing values all the time; numpy need not warn of each.
    with np.errstate(all="ignore"):
        findings = list(islice(detector.evaluate(view), MAX_FINDINGS + 1))
    told = [getattr(coverage, key) for key in TOLD_OF_COVERAGE]
    return {"findings": _plain(findings), "coverage": _plain(told), "blind": blind}


def _plain(value: object) -> object:
    """Python's numbers, which JSON knows, for numpy's scalars."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
