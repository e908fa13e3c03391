"""How sure a claim may be: what a window as observed allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gpumon.model.finding import Confidence, Severity

if TYPE_CHECKING:
    from gpumon.model.finding import Window

LEAST_EVIDENCE_S: Final = 300.0
"""Under five minutes of evidence only faults are claimed: every start and every pause looks like
waste (our choice: the longest pauses for a checkpoint that are reported take about 96 s)."""

MIN_SAMPLES: Final = 3
"""A claim that rests on fewer samples is a hypothesis, however far apart they are."""


class Windows(Protocol):
    """How long a claim must have been observed."""

    @property
    def supported_after_s(self) -> float:
        """Seconds observed from which a claim is *supported*."""
        ...

    @property
    def established_after_s(self) -> float:
        """Seconds observed from which a claim is *established*."""
        ...


class Claimant(Windows, Protocol):
    """What a finding takes from the detector that claims it."""

    @property
    def name(self) -> str:
        """Its name, unique among the detectors of an installation."""
        ...

    @property
    def finding_classes(self) -> tuple[str, ...]:
        """Classes of inefficiency that it may claim."""
        ...


def honest_confidence(observed: Window, windows: Windows, finding_class: str = "") -> Confidence:
    """The surest claim that a window as observed allows; of a class that is guessed, a hypothesis.

    Args:
        observed: What was looked at.
        windows: Whose claim it is: a detector, or what it declares.
        finding_class: What is claimed; empty: nothing that could be among its `guesses`.
    """
    if finding_class in getattr(windows, "guesses", ()):
        return Confidence.HYPOTHESIS
    length_s = observed.end - observed.start
    least = 1 if getattr(windows, "is_instant", False) else MIN_SAMPLES
    if observed.samples < least or length_s < windows.supported_after_s:
        return Confidence.HYPOTHESIS
    if length_s < windows.established_after_s:
        return Confidence.SUPPORTED
    return Confidence.ESTABLISHED


def honest_severity(severity: Severity, confidence: Confidence) -> Severity:
    """How grave a claim may be called: a hypothesis is a warning at most."""
    if confidence is Confidence.HYPOTHESIS:
        return min(severity, Severity.WARNING, key=lambda step: step.rank)
    return severity
