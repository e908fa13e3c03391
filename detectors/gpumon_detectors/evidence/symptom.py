"""One sign that something is broken: since when, how grave, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import (
    GAP_PERIODS,
    LEAST_GAP_S,
    Confidence,
    Evidence,
    Severity,
    rows_since,
    unbroken_since,
)
from gpumon_detectors.evidence.phrases import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import View

RECENT_ROWS: Final = 3
"""A value is told that one of so many samples holds: single ones are missing now and then."""


_MOST_STEPS: Final = 4
"""Of what signs ask somebody to do: a finding has room for eight steps, some are commands."""


class Symptom(NamedTuple):
    """One sign of a broken GPU, link or port."""

    field: str
    text: str
    value: float | None
    severity: Severity
    machine_advice: str
    """What who runs the machine is to do; empty: nothing."""
    since: float
    """Unix time of the first sample that shows it, or of the event."""
    samples: int
    """Samples that show it since then."""
    at_most: Confidence = Confidence.ESTABLISHED
    advice: str = ""
    """What the owner of a job on it is to do; empty: nothing."""

    def evidence(self, subject: str) -> Evidence:
        """The sign as what a claim rests on."""
        return Evidence(self.field, subject, self.text, self.value)


def more_words(found: Sequence[Symptom]) -> str:
    """How many signs there are beside the one that is told: `, and 2 more signs of it`."""
    return f", and {counted(len(found) - 1, 'more sign')} of it" if len(found) > 1 else ""


def machine_steps(found: Sequence[Symptom]) -> list[str]:
    """What who runs the machine is to do about signs, the gravest sign's first."""
    return _steps(sign.machine_advice for sign in found)


def owner_steps(found: Sequence[Symptom]) -> list[str]:
    """What a job's owner is to do about signs, the gravest sign's first."""
    return _steps(sign.advice for sign in found)


def _steps(steps: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(step for step in steps if step))[:_MOST_STEPS]


def is_grave(found: Sequence[Symptom]) -> bool:
    """Whether a sign is more than a remark or a guess, so that nobody should rely on the part."""
    return any(
        symptom.severity is not Severity.INFO and symptom.at_most is not Confidence.HYPOTHESIS
        for symptom in found
    )


def leading(found: Sequence[Symptom]) -> Symptom:
    """The sign that has been seen longest among those of which one may be surest.

    A remark leads only where there is nothing else: it makes no graver sign the surer.
    """
    return min(found, key=lambda s: (s.severity is Severity.INFO, -s.at_most.rank, s.since))


def observed_since(view: View, onset: float) -> float:
    """Unix time from which on an onset was followed: behind the last gap in the sampling since."""
    return max(onset, unbroken_since(view.history, onset, view.now))


def since_when(
    view: View,
    times: NDArray[np.float64],
    is_so: NDArray[np.bool_],
    is_known: NDArray[np.bool_],
    *,
    is_lasting: bool = False,
) -> tuple[float, int]:
    """Time since which it was so whenever it was known, and the rows since; now where it is not.

    Args:
        view: The look.
        times: Of the rows.
        is_so: Whether it was so, by row.
        is_known: Whether that can be told. What is not known for longer than a gap in the sampling
            parts what lies before and behind it.
        is_lasting: Whether it cannot have been otherwise in between, however long that was.
    """
    rows = np.flatnonzero(is_known)
    if not len(rows):
        return view.now, 1
    first = int(rows_since(is_so[rows][:, None])[0])
    if not is_lasting:
        usual_s = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
        unknown_s = np.diff(times[rows], append=times[-1])
        gaps = np.flatnonzero(unknown_s > max(LEAST_GAP_S, GAP_PERIODS * usual_s))
        first = max(first, int(gaps[-1]) + 1 if len(gaps) else 0)
    row = int(rows[first]) if first < len(rows) else len(times)
    return (float(times[row]), len(times) - row) if row < len(times) else (view.now, 1)
