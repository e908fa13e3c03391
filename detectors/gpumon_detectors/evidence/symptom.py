"""One sign that something is broken: since when, how grave, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumon.detect.series import rows_since
from gpumon.model.finding import Confidence, Evidence, Severity
from gpumon_detectors.evidence.phrases import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from gpumon.detect.view import View


class Symptom(NamedTuple):
    """One sign of a broken GPU, link or port."""

    field: str
    text: str
    value: float | None
    severity: Severity
    advice: str
    since: float
    """Unix time of the first sample that shows it, or of the event."""
    samples: int
    """Samples that show it since then."""
    at_most: Confidence = Confidence.ESTABLISHED

    def evidence(self, subject: str) -> Evidence:
        """The sign as what a claim rests on."""
        return Evidence(self.field, subject, self.text, self.value)


def more_words(found: Sequence[Symptom]) -> str:
    """How many signs there are beside the one that is told: `, and 2 more signs of it`."""
    return f", and {counted(len(found) - 1, 'more sign')} of it" if len(found) > 1 else ""


def leading(found: Sequence[Symptom]) -> Symptom:
    """The sign that has been seen longest among those of which one may be surest.

    A remark leads only where there is nothing else: it makes no graver sign the surer.
    """
    return min(found, key=lambda s: (s.severity is Severity.INFO, -s.at_most.rank, s.since))


def since_when(
    view: View, times: NDArray[np.float64], is_so: NDArray[np.bool_]
) -> tuple[float, int]:
    """Time since which it was so at every sample, and their number; now where none shows it."""
    row = int(rows_since(is_so[:, None])[0]) if len(times) else 0
    return (float(times[row]), len(times) - row) if row < len(times) else (view.now, 1)
